#include "sys/filter_chain.h"

#include <stdlib.h>

struct filter_rule *filter_rules_add(struct filter_rules *rules)
{
        if (rules->count == rules->room) {
                size_t room = rules->room ? rules->room * 2 : 16;
                struct filter_rule *at = reallocarray(rules->at, room, sizeof(*at));

                if (!at)
                        return NULL;
                rules->at = at;
                rules->room = room;
        }
        rules->at[rules->count] = (struct filter_rule){0};
        return &rules->at[rules->count++];
}

void filter_rules_done(struct filter_rules *rules)
{
        free(rules->at);
        *rules = (struct filter_rules){0};
}
