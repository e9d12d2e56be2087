#include "engine/criu/criu_log.h"

#include <limits.h>
#include <string.h>

#include "base/auto.h"

#define ERROR_MARK "Error ("

static bool contains(struct str s, const char *what)
{
        return memmem(s.p, s.n, what, strlen(what)) != NULL;
}

void criu_log_printable(struct str text, char *out, size_t size)
{
        size_t n = text.n < size - 1 ? text.n : size - 1;

        for (size_t i = 0; i < n; i++)
                out[i] = text.p[i] >= ' ' && text.p[i] <= '~' ? text.p[i] : '?';
        out[n] = '\0';
}

/* Past "(00.012345) " and, in a restore, "  1234: ". */
static struct str without_stamp(struct str line)
{
        struct str rest = line, head;

        if (rest.n && rest.p[0] == '(' && str_cut(&rest, ')', &head))
                line = str_trim(rest);
        rest = line;
        if (str_cut(&rest, ':', &head) && head.n && strspn(head.p, "0123456789") >= head.n)
                line = str_trim(rest);
        return line;
}

static bool is_error(struct str line)
{
        return str_starts(without_stamp(line), ERROR_MARK);
}

void criu_log_clean(struct str text, char out[CRIU_REASON_MAX])
{
        struct str line, rest, head;

        (void)str_cut(&text, '\n', &line);
        line = without_stamp(line);
        rest = line;
        if (str_starts(line, ERROR_MARK) && str_cut(&rest, ')', &head) && rest.n && rest.p[0] == ':')
                line = str_trim((struct str){rest.p + 1, rest.n - 1});
        criu_log_printable(str_trim(line), out, CRIU_REASON_MAX);
}

bool criu_log_error(struct str log, char out[CRIU_REASON_MAX])
{
        struct str line;
        bool more;

        do {
                more = str_cut(&log, '\n', &line);
                if (!is_error(line))
                        continue;
                criu_log_clean(line, out);
                return true;
        } while (more);
        return false;
}

static pid_t number_after(struct str line, const char *what)
{
        const char *p = memmem(line.p, line.n, what, strlen(what));
        struct str digits = {0};
        uint32_t pid;

        if (!p)
                return 0;
        digits.p = p + strlen(what);
        while (digits.p + digits.n < line.p + line.n && digits.p[digits.n] >= '0' && digits.p[digits.n] <= '9')
                digits.n++;
        return parse_u32(digits, 1, INT_MAX, &pid) == 0 ? (pid_t)pid : 0;
}

/* A task's part begins with this line, and what is common to all comes after the last one's. */
#define TASK_BEGINS "Dumping task (pid: "
static const char *const task_ends[] = {"Dumping mountpoints", "Dumping file-locks", "Dumping pstree"};

pid_t criu_log_culprit(struct str log)
{
        pid_t at = 0, next;
        struct str line;
        bool more;

        do {
                more = str_cut(&log, '\n', &line);
                if (is_error(line))
                        return at;
                line = without_stamp(line);
                next = str_starts(line, TASK_BEGINS) ? number_after(line, TASK_BEGINS) : 0;
                if (next)
                        at = next;
                for (size_t i = 0; i < ARRAY_LEN(task_ends); i++)
                        if (str_starts(line, task_ends[i]))
                                at = 0;
        } while (more);
        return 0;
}

pid_t criu_log_inner_pid(struct str status)
{
        struct str line, last;
        uint32_t pid;
        bool more;

        do {
                more = str_cut(&status, '\n', &line);
                if (!str_starts(line, "NSpid:"))
                        continue;
                line = str_trim((struct str){line.p + 6, line.n - 6});
                while (str_cut(&line, '\t', &last))
                        continue;
                return parse_u32(last, 1, INT_MAX, &pid) == 0 ? (pid_t)pid : 0;
        } while (more);
        return 0;
}

bool criu_log_is_disk_full(struct str text)
{
        return contains(text, "No space left on device") || contains(text, "Disk quota exceeded");
}
