#include <string.h>

#include "wire/http1.h"
#include "wire/http1_chars.h"

/* The lengths differ most of the time: no call then. */
static bool is_named(const struct http1_header *header, struct str name)
{
        return header->name.n == name.n && str_ieq(header->name, name);
}

const struct http1_header *http1_find(const struct http1_head *h, const char *name)
{
        struct str want = str_of(name);

        for (size_t i = 0; i < h->header_count; i++)
                if (is_named(&h->headers[i], want))
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
                count += is_named(&h->headers[i], want);
        return count;
}

static bool field_has(const struct http1_head *h, struct str name, struct str token)
{
        for (size_t i = 0; i < h->header_count; i++)
                if (is_named(&h->headers[i], name) && http1_list_has(h->headers[i].value, token))
                        return true;
        return false;
}

bool http1_has_token(const struct http1_head *h, const char *name, const char *token)
{
        return field_has(h, str_of(name), str_of(token));
}

static bool is_always_hop_by_hop(struct str name)
{
        switch (name.n) {
        case 2: return str_ieq(name, STR("TE"));
        case 7: return str_ieq(name, STR("Trailer")) || str_ieq(name, STR("Upgrade"));
        case 10: return str_ieq(name, STR("Connection")) || str_ieq(name, STR("Keep-Alive"));
        case 17: return str_ieq(name, STR("Transfer-Encoding"));
        default: return false;
        }
}

bool http1_is_hop_by_hop(const struct http1_head *h, struct str name)
{
        if (is_always_hop_by_hop(name))
                return true;
        if (name.n > 6 && name.p[5] == '-' && str_ieq((struct str){name.p, 5}, STR("Proxy")))
                return true;
        if (str_ieq(name, STR("Host")) || str_ieq(name, STR("Content-Length")))
                return false;
        return field_has(h, STR("Connection"), name);
}
