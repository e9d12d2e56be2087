/* make_template.c - `sandglass template` alone: for `make run`, which has it long before the whole of `sandglass` is built. */
#include "serve/serve.h"

int main(int argc, char **argv)
{
        return template_base_main(argc, argv);
}
