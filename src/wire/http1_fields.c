#include <string.h>

#include "wire/http1.h"
#include "wire/http1_chars.h"

const struct http1_header *http1_find(const struct http1_head *h, const char *name)
{
        struct str want = str_of(name);

        for (size_t i = 0; i < h->header_count; i++)
                if (str_ieq(h->headers[i].name, want))
                        return &h->headers[i];
        return NULL;
}

struct str http1_value(const struct http1_head *h, const char *name)
{
        const struct http1_header *found = http1_find(h, name);

        return found ? found->value : STR("");
}

size_t http1_count(const struct http1_head *h, const char *name)
{
        struct str want = str_of(name);
        size_t count = 0;

        for (size_t i = 0; i < h->header_count; i++)
                count += str_ieq(h->headers[i].name, want);
        return count;
}

static bool field_has(const struct http1_head *h, struct str name, struct str token)
{
        for (size_t i = 0; i < h->header_count; i++)
                if (str_ieq(h->headers[i].name, name) && http1_list_has(h->headers[i].value, token))
                        return true;
        return false;
}

bool http1_has_token(const struct http1_head *h, const char *name, const char *token)
{
        return field_has(h, str_of(name), str_of(token));
}

bool http1_is_hop_by_hop(const struct http1_head *h, struct str name)
{
        static const struct str always[] = {
                {"Connection", 10}, {"Keep-Alive", 10}, {"TE", 2},
                {"Trailer", 7},     {"Upgrade", 7},     {"Transfer-Encoding", 17},
        };

        for (size_t i = 0; i < ARRAY_LEN(always); i++)
                if (str_ieq(name, always[i]))
                        return true;
        if (name.n > 6 && str_ieq((struct str){name.p, 6}, STR("Proxy-")))
                return true;
        if (str_ieq(name, STR("Host")) || str_ieq(name, STR("Content-Length")))
                return false;
        return field_has(h, STR("Connection"), name);
}
