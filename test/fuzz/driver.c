/* Runs a fuzz program over a directory of inputs without libFuzzer: each file whole and, when it is small, cut off at
 * every length.  TAP: one case per file.  A broken promise aborts. */
#include <dirent.h>
#include <errno.h>

#include "base/buf.h"

#include "fuzz.h"

#define FILE_MAX (1u << 20)
#define CUT_OFF_MAX 1024u

static int read_file(const char *dir, const char *name, struct buf *ret)
{
        AUTO_FREE char *path = NULL;
        ssize_t n = 1;
        FILE *f;

        if (asprintf(&path, "%s/%s", dir, name) < 0) {
                path = NULL;
                return -ENOMEM;
        }
        f = fopen(path, "re");
        if (!f)
                return -errno;
        while (n > 0)
                n = buf_fill(ret, fileno(f), 4096);
        (void)fclose(f);
        return (int)n;
}

static void run(const struct buf *input)
{
        for (size_t n = 0; n < input->len && input->len <= CUT_OFF_MAX; n++)
                (void)LLVMFuzzerTestOneInput(buf_at(input), n);
        (void)LLVMFuzzerTestOneInput(buf_at(input), input->len);
}

int main(int argc, char **argv)
{
        struct dirent **names;
        int count, cases = 0, failures = 0;

        if (argc != 2 || (count = scandir(argv[1], &names, NULL, alphasort)) < 0) {
                fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
                return 2;
        }
        for (int i = 0; i < count; i++) {
                AUTO_FREE struct dirent *entry = names[i];
                AUTO_BUF struct buf input = BUF_INIT(FILE_MAX);
                int r;

                if (entry->d_name[0] == '.')
                        continue;
                printf("# %s\n", entry->d_name);
                fflush(stdout);
                r = read_file(argv[1], entry->d_name, &input);
                if (r == 0)
                        run(&input);
                failures += r != 0;
                printf("%s %d - %s\n", r == 0 ? "ok" : "not ok", ++cases, entry->d_name);
        }
        free(names);
        printf("1..%d\n", cases);
        return failures || cases == 0;
}
