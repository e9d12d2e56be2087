#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "fault.h"

static int a_buf_keeps_its_content(void)
{
        AUTO_BUF struct buf b = BUF_INIT(1 << 20);
        size_t expected = 0;

        for (int i = 0; i < 200; i++) {
                int r = i % 2 ? buf_addf(&b, "%0100d", i) : buf_add(&b, "0123456789", 10);

                MUST(r == 0 || (r == -ENOMEM && fault_was_hit()));
                expected += r == 0 ? (i % 2 ? 100 : 10) : 0;
                MUST(b.len == expected);
                MUST(expected == 0 || memcmp(buf_at(&b), "0123456789", 10) == 0);
                if (r < 0)
                        return r;
        }
        MUST(buf_cstr(&b) || fault_was_hit());
        return 0;
}

static int a_map_keeps_its_entries(void)
{
        AUTO(map_done) struct map m = {0};
        static int values[100];
        char key[20];

        for (int i = 0; i < 100; i++) {
                void *old = &m;
                int r;

                (void)snprintf(key, sizeof(key), "key%d", i);
                r = map_put(&m, str_of(key), &values[i], &old);
                MUST(r == 0 || (r == -ENOMEM && fault_was_hit()));
                MUST(m.used == (size_t)i + (r == 0));
                for (int k = 0; k < i; k++) {
                        (void)snprintf(key, sizeof(key), "key%d", k);
                        MUST(map_get(&m, str_of(key)) == &values[k]);
                }
                if (r < 0)
                        return r;
        }
        return 0;
}

int main(void)
{
        EACH(a_buf_keeps_its_content);
        EACH(a_map_keeps_its_entries);
        return fault_done();
}
