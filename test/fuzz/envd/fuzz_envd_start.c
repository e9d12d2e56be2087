#include "envd/process/process_rpc.h"
#include "envd/process/process_start.h"
#include "fuzz.h"

static bool has_odd_name(const json_t *envs)
{
        const char *name;
        json_t *value;

        json_object_foreach ((json_t *)(uintptr_t)envs, name, value)
                if (!name[0] || strchr(name, '='))
                        return true;
        return false;
}

/* Every line of an environment is NAME=value, and each name comes once. */
static void environment_must_be_one(const json_t *envs)
{
        struct settings s;
        struct user u = {.name = (char *)(uintptr_t) "user", .home = (char *)(uintptr_t) "/home/user"};
        char **env;

        MUST(settings_init(&s) == 0);
        env = environment_build(&s, &u, envs);
        MUST(env);
        for (char **at = env; *at; at++) {
                const char *eq = strchr(*at, '=');

                MUST(eq);
                if (has_odd_name(envs))
                        continue; /* passed on as they are */
                MUST(eq > *at);
                for (char **other = env; other < at; other++)
                        MUST(strncmp(*other, *at, (size_t)(eq + 1 - *at)) != 0);
        }
        free(env);
        settings_done(&s);
}

static void fault_must_say_why(struct fault *f)
{
        MUST(f->code != CONNECT_OK && fault_text(f)[0]);
        fault_done(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        json_t *in = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
        struct start_request rq;
        struct process_selector sel;
        struct fault f = {0};

        if (json_is_object(in)) {
                if (start_request_decode(in, &rq, &f) == 0) {
                        MUST(rq.cmd);
                        MUST(!rq.args || json_is_array(rq.args));
                        environment_must_be_one(rq.envs);
                } else {
                        fault_must_say_why(&f);
                }
                if (process_selector_decode(in, &sel, &f) == 0)
                        MUST(sel.tag || json_object_get(in, "process"));
                else
                        fault_must_say_why(&f);
        }
        json_decref(in);
        return 0;
}
