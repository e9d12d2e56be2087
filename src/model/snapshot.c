#include "model/snapshot.h"

#include <stdlib.h>

void snapshot_done(struct snapshot *s)
{
        free(s->name);
        free(s->tag);
        free(s->default_user);
        free(s->default_workdir);
        json_decref(s->layers);
        json_decref(s->env);
        s->name = s->tag = s->default_user = s->default_workdir = NULL;
        s->layers = s->env = NULL;
}
