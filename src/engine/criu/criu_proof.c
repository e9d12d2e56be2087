#include "engine/criu/criu_proof.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/err.h"
#include "engine/criu/criu_find.h"
#include "sys/fs.h"
#include "sys/proc.h"

#define WORKS "works"
#define FAILS "fails "
#define IDENTITY_MAX 128
#define PROOF_MAX (IDENTITY_MAX + 300)

static const char *proof_name(const struct criu_place *p)
{
        return p->dir ? "proof-private" : "proof-host";
}

/* In which boot, and which program. */
static void proof_identify(const struct criu_place *p, char out[IDENTITY_MAX])
{
        AUTO_FREE char *path = NULL;
        char boot[SYS_BOOT_ID_MAX] = "";
        struct stat st = {0};

        (void)sys_boot_id(boot);
        if (p->dir && asprintf(&path, "%s/criu", p->dir) < 0)
                path = NULL;
        if (!p->dir && criu_host_program())
                path = strdup(criu_host_program());
        if (path)
                (void)stat(path, &st);
        (void)snprintf(out, IDENTITY_MAX, "%s %lld %lld ", boot, (long long)st.st_mtim.tv_sec, (long long)st.st_size);
}

enum criu_verdict criu_proof_read(const char *criu_dir, const struct criu_place *p, struct err *why)
{
        AUTO_CLOSE int dir = open(criu_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char identity[IDENTITY_MAX], text[PROOF_MAX];
        const char *verdict = text + (proof_identify(p, identity), strlen(identity));

        if (dir < 0 || sys_read_at(dir, proof_name(p), text, sizeof(text)) <= 0 ||
            strncmp(text, identity, strlen(identity)) != 0)
                return CRIU_UNTRIED;
        text[strcspn(text, "\n")] = '\0';
        if (strcmp(verdict, WORKS) == 0)
                return CRIU_WORKS;
        if (strncmp(verdict, FAILS, strlen(FAILS)) != 0)
                return CRIU_UNTRIED;
        if (why)
                (void)err_set(why, ERR_UNAVAILABLE, "%s", verdict + strlen(FAILS));
        return CRIU_FAILS;
}

void criu_proof_write(const char *criu_dir, const struct criu_place *p, const struct err *why)
{
        AUTO_CLOSE int dir = open(criu_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        char identity[IDENTITY_MAX], text[PROOF_MAX];

        proof_identify(p, identity);
        (void)snprintf(text, sizeof(text), "%s%s%s\n", identity, why ? FAILS : WORKS, why ? why->msg : "");
        if (dir >= 0)
                (void)sys_replace_at(dir, proof_name(p), text, strlen(text), 0600);
}
