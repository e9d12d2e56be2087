#include "model/credential/json_blank.h"

#include <jansson.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static void blank_and_free(void *p)
{
        if (p)
                explicit_bzero(p, malloc_usable_size(p));
        free(p);
}

void json_blank_freed(void)
{
        json_set_alloc_funcs(malloc, blank_and_free);
}
