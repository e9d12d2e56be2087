#include "agent/request/accept.h"

/* ";q=0", ";q=0.0": not wanted. */
static bool is_refused(struct str parameters)
{
        struct str one, name;
        bool more = true;

        while (more) {
                more = str_cut(&parameters, ';', &one);
                (void)str_cut(&one, '=', &name);
                if (!str_iis(str_trim(name), "q"))
                        continue;
                one = str_trim(one);
                for (size_t i = 0; i < one.n; i++)
                        if (one.p[i] != '0' && one.p[i] != '.')
                                return false;
                return one.n > 0;
        }
        return false;
}

bool accept_is_json(struct str accept)
{
        struct str one, type;
        bool more = accept.n > 0;

        if (!more)
                return true;
        while (more) {
                more = str_cut(&accept, ',', &one);
                (void)str_cut(&one, ';', &type);
                type = str_trim(type);
                if ((str_iis(type, "application/json") || str_iis(type, "application/*") || str_iis(type, "*/*")) &&
                    !is_refused(one))
                        return true;
        }
        return false;
}
