#include "sys/nft_chains.h"

#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>
#include <string.h>
#include <sys/socket.h>

#include "base/auto.h"
#include "sys/netlink.h"

#define ANSWER_BYTES (64u << 10) /* the kernel sends at most 32 KiB at a time */
#define TRIES 5

/* ------------------------------------------------------------- attributes */

struct attrs {
        const uint8_t *at;
        size_t n;
};

/* The next one; false: there is none, or not all of it. */
static bool attr_next(struct attrs *rest, unsigned *ret_type, struct attrs *ret_value)
{
        struct nlattr a;
        size_t step;

        if (rest->n < sizeof(a))
                return false;
        memcpy(&a, rest->at, sizeof(a));
        if (a.nla_len < sizeof(a) || a.nla_len > rest->n)
                return false;
        *ret_type = a.nla_type & NLA_TYPE_MASK;
        *ret_value = (struct attrs){rest->at + NLA_HDRLEN, a.nla_len - NLA_HDRLEN};
        step = (size_t)NLA_ALIGN(a.nla_len);
        step = step < rest->n ? step : rest->n; /* the last one may come without its padding */
        *rest = (struct attrs){rest->at + step, rest->n - step};
        return true;
}

static struct attrs attr_find(struct attrs in, unsigned wanted) /* empty: not there */
{
        struct attrs value;
        unsigned type;

        while (attr_next(&in, &type, &value))
                if (type == wanted)
                        return value;
        return (struct attrs){0};
}

static uint32_t attr_u32(struct attrs in, unsigned wanted)
{
        struct attrs v = attr_find(in, wanted);
        uint32_t out = 0;

        if (v.n == sizeof(out))
                memcpy(&out, v.at, sizeof(out));
        return be32toh(out);
}

static uint64_t attr_u64(struct attrs in, unsigned wanted)
{
        struct attrs v = attr_find(in, wanted);
        uint64_t out = 0;

        if (v.n == sizeof(out))
                memcpy(&out, v.at, sizeof(out));
        return be64toh(out);
}

static void text_copy(char *out, size_t room, const uint8_t *at, size_t n) /* "" when it does not fit */
{
        size_t len = at ? strnlen((const char *)at, n) : 0;

        if (len >= room)
                len = 0;
        if (len > 0)
                memcpy(out, at, len);
        out[len] = '\0';
}

static void attr_text(struct attrs in, unsigned wanted, char *out, size_t room)
{
        struct attrs v = attr_find(in, wanted);

        text_copy(out, room, v.at, v.n);
}

static bool attr_is(struct attrs in, unsigned wanted, const char *text)
{
        struct attrs v = attr_find(in, wanted);
        size_t n = strlen(text);

        return v.n >= n && memcmp(v.at, text, n) == 0 && (v.n == n || v.at[n] == '\0');
}

/* ------------------------------------------------------------- asking */

struct question {
        struct nlmsghdr head;
        struct nfgenmsg gen;
        uint8_t attrs[2 * NLA_ALIGN(NLA_HDRLEN + FILTER_NAME_MAX)];
};

static void question_put(struct question *q, uint16_t type, const char *text)
{
        size_t len = strnlen(text, FILTER_NAME_MAX - 1);
        struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + len + 1), .nla_type = type};
        uint8_t *at = (uint8_t *)q + q->head.nlmsg_len;

        memcpy(at, &a, sizeof(a));
        memcpy(at + NLA_HDRLEN, text, len);
        q->head.nlmsg_len += (uint32_t)NLA_ALIGN(a.nla_len);
}

static void question_start(struct question *q, uint16_t type, uint8_t family)
{
        *q = (struct question){
                .head = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct nfgenmsg)),
                         .nlmsg_type = (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type),
                         .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
                .gen = {.nfgen_family = family, .version = NFNETLINK_V0},
        };
}

typedef int answer_fn(uint8_t family, struct attrs attrs, void *arg);

/* 1: that was the last message. */
static int answer_take(const struct nlmsghdr *h, answer_fn *each, void *arg)
{
        const struct nfgenmsg *gen = NLMSG_DATA(h);
        const size_t before = NLMSG_ALIGN(sizeof(*gen));

        if (h->nlmsg_flags & NLM_F_DUMP_INTR)
                return -EINTR;
        if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR) {
                int error = 0;

                if (h->nlmsg_len >= NLMSG_LENGTH(sizeof(error)))
                        memcpy(&error, NLMSG_DATA(h), sizeof(error));
                return error < 0 ? error : 1;
        }
        if (h->nlmsg_len < NLMSG_LENGTH(before))
                return -EBADMSG;
        return each(gen->nfgen_family,
                    (struct attrs){(const uint8_t *)gen + before, h->nlmsg_len - NLMSG_LENGTH(before)}, arg);
}

static int answers_read(int nl, answer_fn *each, void *arg)
{
        AUTO_FREE uint8_t *bytes = malloc(ANSWER_BYTES);
        int r = bytes ? 0 : -ENOMEM;

        while (r == 0) {
                ssize_t n = recv(nl, bytes, ANSWER_BYTES, 0);
                size_t left = n > 0 ? (size_t)n : 0;

                if (n < 0 && errno != EINTR)
                        return -errno;
                for (const struct nlmsghdr *h = (const void *)bytes; r == 0 && NLMSG_OK(h, left);
                     h = NLMSG_NEXT(h, left))
                        r = answer_take(h, each, arg);
        }
        return r < 0 ? r : 0;
}

static int ask(const struct question *q, answer_fn *each, void *arg)
{
        AUTO_CLOSE int nl = netlink_open_netfilter(); /* each time: a dump that was given up leaves answers behind */

        if (nl < 0)
                return nl;
        if (send(nl, q, q->head.nlmsg_len, 0) < 0)
                return -errno;
        return answers_read(nl, each, arg);
}

/* ------------------------------------------------------------- chains */

struct found_chains {
        struct nft_chain *at;
        int count;
};

static int chain_take(uint8_t family, struct attrs attrs, void *arg)
{
        struct found_chains *found = arg;
        struct attrs hook = attr_find(attrs, NFTA_CHAIN_HOOK);
        struct nft_chain *c = &found->at[found->count];

        if (!hook.n || attr_u32(hook, NFTA_HOOK_HOOKNUM) != NF_INET_FORWARD ||
            !attr_is(attrs, NFTA_CHAIN_TYPE, "filter") || (family != NFPROTO_IPV4 && family != NFPROTO_INET) ||
            found->count == NFT_CHAINS_MAX)
                return 0;
        *c = (struct nft_chain){.family = family,
                                .handle = attr_u64(attrs, NFTA_CHAIN_HANDLE),
                                .drops = attr_find(attrs, NFTA_CHAIN_POLICY).n &&
                                         attr_u32(attrs, NFTA_CHAIN_POLICY) == NF_DROP};
        attr_text(attrs, NFTA_CHAIN_TABLE, c->table, sizeof(c->table));
        attr_text(attrs, NFTA_CHAIN_NAME, c->name, sizeof(c->name));
        found->count += c->table[0] && c->name[0];
        return 0;
}

int nft_forward_chains(struct nft_chain out[NFT_CHAINS_MAX])
{
        struct found_chains found = {.at = out};
        struct question q;
        int r = -EINTR;

        question_start(&q, NFT_MSG_GETCHAIN, NFPROTO_UNSPEC);
        for (int i = 0; r == -EINTR && i < TRIES; i++) {
                found.count = 0;
                r = ask(&q, chain_take, &found);
        }
        return r < 0 ? r : found.count;
}

const char *nft_family_name(uint8_t family)
{
        return family == NFPROTO_IPV4 ? "ip" : "inet";
}

/* ------------------------------------------------------------- rules */

static void verdict_take(struct attrs immediate, struct filter_rule *rule)
{
        struct attrs verdict = attr_find(attr_find(immediate, NFTA_IMMEDIATE_DATA), NFTA_DATA_VERDICT);

        if (attr_u32(immediate, NFTA_IMMEDIATE_DREG) != NFT_REG_VERDICT || !verdict.n)
                return;
        switch ((int)attr_u32(verdict, NFTA_VERDICT_CODE)) {
        case NF_ACCEPT: rule->verdict = FILTER_ACCEPTS; break;
        case NF_DROP: rule->verdict = FILTER_DROPS; break;
        case NFT_JUMP: rule->verdict = FILTER_JUMPS; break;
        case NFT_GOTO: rule->verdict = FILTER_GOES_TO; break;
        case NFT_RETURN: rule->verdict = FILTER_RETURNS; break;
        default: break;
        }
        attr_text(verdict, NFTA_VERDICT_CHAIN, rule->chain, sizeof(rule->chain));
}

/* loaded: what the expression before this one has put into a register. */
static void comparison_take(struct attrs cmp, uint32_t loaded, struct filter_rule *rule)
{
        struct attrs value = attr_find(attr_find(cmp, NFTA_CMP_DATA), NFTA_DATA_VALUE);

        rule->is_conditional = true;
        if (loaded == NFT_META_IIFNAME && attr_u32(cmp, NFTA_CMP_OP) == NFT_CMP_EQ)
                text_copy(rule->from, sizeof(rule->from), value.at, value.n);
}

static void expression_take(struct attrs e, uint32_t *loaded, struct filter_rule *rule)
{
        struct attrs data = attr_find(e, NFTA_EXPR_DATA);
        uint32_t before = *loaded;

        *loaded = attr_is(e, NFTA_EXPR_NAME, "meta") ? attr_u32(data, NFTA_META_KEY) : UINT32_MAX;

        if (attr_is(e, NFTA_EXPR_NAME, "immediate"))
                verdict_take(data, rule);
        else if (attr_is(e, NFTA_EXPR_NAME, "cmp"))
                comparison_take(data, before, rule);
        else if (attr_is(e, NFTA_EXPR_NAME, "reject"))
                rule->verdict = FILTER_DROPS;
        else if (attr_is(e, NFTA_EXPR_NAME, "target")) { /* of iptables-nft */
                if (attr_is(data, NFTA_TARGET_NAME, "REJECT"))
                        rule->verdict = FILTER_DROPS;
        } else if (!attr_is(e, NFTA_EXPR_NAME, "counter") && !attr_is(e, NFTA_EXPR_NAME, "log"))
                rule->is_conditional = true; /* a lookup, a limit, a load for a comparison */
}

/* What nft and iptables-nft keep beside a rule: bytes of type, length, content; the comment is of type 0. */
static void comment_take(struct attrs data, struct filter_rule *rule)
{
        while (data.n >= 2 && data.at[1] <= data.n - 2) {
                if (data.at[0] == 0)
                        text_copy(rule->comment, sizeof(rule->comment), data.at + 2, data.at[1]);
                data = (struct attrs){data.at + 2 + data.at[1], data.n - 2 - data.at[1]};
        }
}

static int rule_take(uint8_t family, struct attrs attrs, void *arg)
{
        struct filter_rule *rule = filter_rules_add(arg);
        struct attrs list = attr_find(attrs, NFTA_RULE_EXPRESSIONS), e;
        uint32_t loaded = UINT32_MAX;
        unsigned type;

        (void)family;
        if (!rule)
                return -ENOMEM;
        rule->handle = attr_u64(attrs, NFTA_RULE_HANDLE);
        while (attr_next(&list, &type, &e))
                expression_take(e, &loaded, rule);
        comment_take(attr_find(attrs, NFTA_RULE_USERDATA), rule);
        return 0;
}

int nft_chain_rules(const struct nft_chain *of, const char *chain, struct filter_rules *ret)
{
        struct filter_rules rules = {0};
        struct question q;
        int r = -EINTR;

        question_start(&q, NFT_MSG_GETRULE, of->family);
        question_put(&q, NFTA_RULE_TABLE, of->table);
        question_put(&q, NFTA_RULE_CHAIN, chain);
        for (int i = 0; r == -EINTR && i < TRIES; i++) {
                filter_rules_done(&rules);
                r = ask(&q, rule_take, &rules);
        }
        if (r < 0 && r != -ENOENT) {
                filter_rules_done(&rules);
                return r;
        }
        *ret = rules;
        return 0;
}
