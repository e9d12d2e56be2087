#include "interpreter/service/contexts.h"

#include "base/auto.h"
#include "interpreter/service/context.h"

void contexts_init(struct contexts *cs, const struct contexts_options *opt)
{
        *cs = (struct contexts){.opt = *opt, .waiting.max = WAITING_BYTES_MAX};
        list_init(&cs->all);
}

void contexts_done(struct contexts *cs)
{
        LIST_EACH (at, &cs->all)
                context_free(LIST_ENTRY(at, struct context, node));
}

struct context *contexts_find(const struct contexts *cs, struct str id)
{
        LIST_EACH (at, &cs->all) {
                struct context *c = LIST_ENTRY(at, struct context, node);

                if (c->is_created && c->state != CONTEXT_REMOVING && str_is(id, c->id))
                        return c;
        }
        return NULL;
}

struct context *contexts_find_default(const struct contexts *cs, const char *language)
{
        LIST_EACH (at, &cs->all) {
                struct context *c = LIST_ENTRY(at, struct context, node);

                if (c->is_default && c->state != CONTEXT_REMOVING && strcmp(c->language, language) == 0)
                        return c;
        }
        return NULL;
}

bool contexts_have_kernel(const struct contexts *cs, const char *language)
{
        AUTO_KERNELSPEC struct kernelspec spec = {0};

        return kernelspec_find(cs->opt.kernel_dirs, language_kernel(language), &spec, NULL) == 0;
}
