#include <errno.h>

#include "fuzz.h"
#include "wire/connect.h"

#define PAYLOAD_MAX 300u

/* With fewer bytes there is either the same refusal or a wish for more. */
static void must_agree_on_prefixes(const uint8_t *p, size_t n, int result, size_t used)
{
        for (size_t len = 0; len < n && len < CONNECT_ENVELOPE_HEAD + PAYLOAD_MAX + 1; len++) {
                AUTO_FREE uint8_t *copy = fuzz_copy(p, len);
                struct str payload = {0};
                size_t u = 0;
                uint8_t flags;
                int r = connect_envelope_parse(copy, len, PAYLOAD_MAX, &flags, &payload, &u);

                if (result == 1)
                        MUST(len < used ? r == 0 : (r == 1 && u == used));
                else
                        MUST(r == result || r == 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        AUTO_FREE uint8_t *copy = fuzz_copy(data, size);
        size_t at = 0, used = 0;
        int r = 1;

        while (r == 1 && at < size) {
                AUTO_BUF struct buf again = BUF_INIT(PAYLOAD_MAX + CONNECT_ENVELOPE_HEAD);
                struct str payload = {0};
                uint8_t flags = 0;

                r = connect_envelope_parse(copy + at, size - at, PAYLOAD_MAX, &flags, &payload, &used);
                MUST(r == 1 || r == 0 || r == -E2BIG || r == -EINVAL);
                if (at == 0)
                        must_agree_on_prefixes(copy, size, r, used);
                if (r != 1)
                        break;
                MUST(used == CONNECT_ENVELOPE_HEAD + payload.n && used <= size - at && payload.n <= PAYLOAD_MAX);
                MUST(connect_envelope_add(&again, flags, payload.p, payload.n) == 0);
                MUST(again.len == used && memcmp(again.mem, copy + at, used) == 0);
                at += used;
        }
        return 0;
}
