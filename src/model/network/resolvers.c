#include "model/network/resolvers.h"

#include <arpa/inet.h>
#include <string.h>

#include "model/network/closed_networks.h"

#define ADDRESS_MAX 64

static bool resolver_parse(struct str text, struct resolver *ret)
{
        char address[ADDRESS_MAX];
        struct str link = text, host;

        *ret = (struct resolver){0};
        (void)str_cut(&link, '%', &host);
        if (host.n >= sizeof(address) || link.n >= sizeof(ret->link) || str_has_nul(text))
                return false;
        memcpy(address, host.p, host.n);
        address[host.n] = '\0';
        memcpy(ret->link, link.p, link.n);
        if (link.n == 0 && inet_pton(AF_INET, address, &ret->v4) == 1)
                ret->family = AF_INET;
        else if (inet_pton(AF_INET6, address, &ret->v6) == 1)
                ret->family = AF_INET6;
        return ret->family != 0;
}

static struct str next_word(struct str *line)
{
        struct str word = {line->p, 0};

        while (line->n > 0 && (line->p[0] == ' ' || line->p[0] == '\t')) {
                line->p++;
                line->n--;
        }
        word.p = line->p;
        while (word.n < line->n && line->p[word.n] != ' ' && line->p[word.n] != '\t')
                word.n++;
        line->p += word.n;
        line->n -= word.n;
        return word;
}

/* Names and options are copied into files of sandboxes: nothing but what they are made of. */
static bool is_plain(struct str word)
{
        for (size_t i = 0; i < word.n; i++)
                if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:", word.p[i]) ||
                    !word.p[i])
                        return false;
        return word.n > 0;
}

static void add_words(char out[RESOLVERS_WORDS_MAX], struct str line)
{
        struct str word;

        while ((word = next_word(&line)).n > 0) {
                size_t len = strlen(out);

                if (!is_plain(word) || len + word.n + 2 > RESOLVERS_WORDS_MAX)
                        continue;
                if (len > 0)
                        out[len++] = ' ';
                memcpy(out + len, word.p, word.n);
                out[len + word.n] = '\0';
        }
}

static void parse_line(struct str line, struct resolvers *r)
{
        struct str word = next_word(&line);

        if (str_is(word, "nameserver") && r->count < RESOLVERS_MAX) {
                r->count += resolver_parse(next_word(&line), &r->server[r->count]);
        } else if (str_is(word, "search") || str_is(word, "domain")) {
                r->search[0] = '\0'; /* the last one counts */
                add_words(r->search, line);
        } else if (str_is(word, "options")) {
                add_words(r->options, line);
        }
}

void resolvers_parse(struct str text, struct resolvers *ret)
{
        struct str line;
        bool more;

        *ret = (struct resolvers){0};
        do {
                more = str_cut(&text, '\n', &line);
                if (line.n > 0 && line.p[0] != '#' && line.p[0] != ';')
                        parse_line(line, ret);
        } while (more);
        if (ret->count == 0)
                ret->count = resolver_parse(STR("127.0.0.1"), &ret->server[0]);
}

void resolvers_replace(struct resolvers *r, const json_t *addresses)
{
        json_t *v;
        size_t i;

        if (!addresses)
                return;
        r->count = 0;
        json_array_foreach (addresses, i, v)
                if (r->count < RESOLVERS_MAX)
                        r->count += resolver_parse(str_of(json_string_value(v)), &r->server[r->count]);
}

bool resolvers_are_open(const struct resolvers *r)
{
        for (size_t i = 0; i < r->count; i++)
                if (r->server[i].family != AF_INET || closed_networks_have(ntohl(r->server[i].v4.s_addr)))
                        return false;
        return true;
}

int resolvers_write(const struct resolvers *r, uint32_t forwarder, struct buf *out)
{
        const struct in_addr one = {htonl(forwarder)};
        char text[INET_ADDRSTRLEN];
        int x = 0;

        for (size_t i = 0; i < (forwarder ? 1 : r->count) && x == 0; i++)
                x = buf_addf(out, "nameserver %s\n",
                             inet_ntop(AF_INET, forwarder ? &one : &r->server[i].v4, text, sizeof(text)));
        if (x == 0 && r->search[0])
                x = buf_addf(out, "search %s\n", r->search);
        if (x == 0 && r->options[0])
                x = buf_addf(out, "options %s\n", r->options);
        return x;
}
