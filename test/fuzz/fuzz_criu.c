/* What CRIU answers and writes, and what lies beside it: the first byte says which. */
#include "engine/checkpoint/checkpoint_manifest.h"
#include "engine/criu/criu.h"
#include "engine/criu/criu_log.h"
#include "engine/criu/criu_rpc.h"
#include "fuzz.h"
#include "wire/protobuf.h"

static void fields(struct str s)
{
        struct protobuf_field f;
        struct str rest = s;
        size_t before;

        do {
                before = rest.n;
                if (protobuf_next(&rest, &f) <= 0)
                        break;
                MUST(rest.n < before && f.number > 0);
                if (f.type == PROTOBUF_BYTES)
                        MUST(f.bytes.p >= s.p && f.bytes.p + f.bytes.n <= s.p + s.n);
        } while (true);
}

static void answer(struct str s)
{
        struct criu_rpc_answer a;
        struct criu_stats stats;

        if (criu_rpc_decode(s, &a) == 0)
                MUST(a.pid >= 0 && (!a.script.n || (a.script.p >= s.p && a.script.p + a.script.n <= s.p + s.n)));
        (void)criu_rpc_stats(s, &stats);
}

static void userns(struct str s)
{
        AUTO_BUF struct buf out = BUF_INIT(CRIU_USERNS_BYTES_MAX);
        uint32_t base;

        if (criu_rpc_userns_base(s, &base) < 0)
                return;
        MUST(criu_rpc_userns_rebase(s, 4711, &out) == 0);
        MUST(criu_rpc_userns_base((struct str){(const char *)buf_at(&out), out.len}, &base) == 0 && base == 4711);
}

static void log_text(struct str s)
{
        char reason[CRIU_REASON_MAX];

        if (criu_log_error(s, reason))
                for (const char *c = reason; *c; c++)
                        MUST(*c >= ' ' && *c <= '~');
        MUST(criu_log_culprit(s) >= 0 && criu_log_inner_pid(s) >= 0);
        (void)criu_log_is_disk_full(s);
}

static void manifest(struct str s)
{
        AUTO(manifest_done) struct manifest m = {0};

        if (manifest_decode(s, &m, NULL) < 0)
                return;
        for (size_t i = 0; i < m.count; i++)
                MUST(m.files[i].name[0] != '.' && !strchr(m.files[i].name, '/'));
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
        static void (*const parts[])(struct str s) = {fields, answer, userns, log_text, manifest};

        if (n > 0)
                parts[p[0] % ARRAY_LEN(parts)]((struct str){(const char *)p + 1, n - 1});
        return 0;
}
