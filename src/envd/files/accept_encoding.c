#include "envd/files/accept_encoding.h"

#include <stddef.h>

#define NOT_NAMED (-1)
#define Q_ONE 1000

struct accept_offer {
        int gzip, identity, any; /* quality in thousandths, or NOT_NAMED */
        bool others;             /* others were named, which the daemon does not have */
        bool gzip_first;         /* before identity */
};

/* "0.25" is 250.  Text that is no quality counts as 1. */
static int accept_quality(struct str s)
{
        int q = 0, scale = Q_ONE;

        for (size_t i = 0; i < s.n && i < 5; i++) {
                if (i == 1 && s.p[i] == '.')
                        continue;
                if (s.p[i] < '0' || s.p[i] > '9')
                        return Q_ONE;
                q += (s.p[i] - '0') * scale;
                scale /= 10;
        }
        return s.n == 0 || q > Q_ONE ? Q_ONE : q;
}

static int accept_quality_of_parameters(struct str rest)
{
        struct str one, name;

        while (rest.n) {
                (void)str_cut(&rest, ';', &one);
                if (str_cut(&one, '=', &name) && str_iis(str_trim(name), "q"))
                        return accept_quality(str_trim(one));
        }
        return Q_ONE;
}

static void accept_offer_take(struct accept_offer *o, struct str name, int q)
{
        if (str_iis(name, "gzip") || str_iis(name, "x-gzip")) {
                o->gzip_first = o->identity == NOT_NAMED;
                o->gzip = q;
        } else if (str_iis(name, "identity")) {
                o->identity = q;
        } else if (str_is(name, "*")) {
                o->any = q;
        } else if (name.n && q > 0) {
                o->others = true;
        }
}

enum accept_encoding accept_encoding_choose(struct str value)
{
        struct accept_offer o = {.gzip = NOT_NAMED, .identity = NOT_NAMED, .any = NOT_NAMED};
        struct str one, name;

        while (value.n) {
                (void)str_cut(&value, ',', &one);
                (void)str_cut(&one, ';', &name);
                accept_offer_take(&o, str_trim(name), accept_quality_of_parameters(one));
        }
        if (o.identity == 0 || (o.identity == NOT_NAMED && o.any == 0))
                return o.gzip > 0 || (o.gzip == NOT_NAMED && o.any > 0) ? ACCEPT_GZIP_ONLY : ACCEPT_NOTHING_KNOWN;
        if (o.gzip <= 0 || o.others || o.any > 0)
                return ACCEPT_IDENTITY;
        return o.gzip > o.identity || (o.gzip == o.identity && o.gzip_first) ? ACCEPT_GZIP : ACCEPT_IDENTITY;
}
