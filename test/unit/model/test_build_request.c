/* Requests of builds: the start request, ready commands, names, and the keys under which steps are cached. */
#include "model/build/build_request.h"

#include "base/err.h"
#include "model/build/build.h"
#include "model/build/build_key.h"
#include "model/build/build_names.h"
#include "model/build/ready_command.h"

#include "tap.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static int decode(const char *text, struct build_request *ret, struct err *err)
{
        json_t *body = json_loads(text, JSON_DECODE_ANY, NULL);
        int r = build_request_decode(body, ret, err);

        json_decref(body);
        return r;
}

static void a_whole_request_is_decoded(void)
{
        AUTO(build_request_done) struct build_request r = {0};
        const struct build_stage *st;

        CHECK_INT(decode("{\"fromImage\":\" python:3 AS "
                         "x\",\"force\":true,\"startCmd\":\"serve\",\"readyCmd\":\"true\",\"cpuCount\":4,"
                         "\"fromImageRegistry\":{\"type\":\"registry\",\"username\":\"u\",\"password\":\"p\"},"
                         "\"steps\":[{\"type\":\"workdir\",\"args\":[\"/app\"],\"force\":false},"
                         "{\"type\":\"ADD\",\"args\":[\"src\",\"/app\",\"root\",\"0755\"],\"filesHash\":\"" HASH
                         "\",\"forceUpload\":true},"
                         "{\"type\":\"ARG\",\"args\":[\"A\",\"\"],\"filesHash\":\"\"},{\"type\":\"USER\",\"args\":["
                         "\"u\"]},"
                         "{\"type\":\"RUN\",\"args\":[\"pip install .\",\"root\"],\"force\":true}]}",
                         &r, NULL),
                  ==, 0);
        CHECK_INT(r.stage_count, ==, 1);
        st = build_request_final(&r);
        CHECK(st->from_kind == FROM_IMAGE);
        CHECK_STR(st->from, "python:3");
        CHECK_INT(st->step_count, ==, 5);
        CHECK(st->steps[1].type == STEP_COPY && st->steps[2].type == STEP_ENV);
        CHECK_STR(build_step_arg(&st->steps[1], 3), "0755");
        CHECK_STR(build_step_arg(&st->steps[1], 4), "");
        CHECK_STR(st->steps[1].files_hash, HASH);
        CHECK(!st->steps[2].files_hash);
        CHECK(st->steps[4].force && !st->steps[0].force);
        CHECK(r.force && r.registry && r.cpu_count == 4 && r.memory_mb == 0);
        CHECK_STR(r.start_cmd, "serve");
        CHECK_STR(r.ready_cmd, "true");
}

static void stages_use_those_before_them(void)
{
        AUTO(build_request_done) struct build_request r = {0};

        CHECK_INT(
                decode("{\"stages\":[{\"name\":\"a\",\"fromTemplate\":\"base\"},"
                       "{\"name\":\"b\",\"fromStage\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"x\"],\"shell\":["
                       "\"/bin/sh\",\"-c\"]}]}],"
                       "\"fromStage\":\"b\",\"steps\":[{\"type\":\"COPY\",\"args\":[\"/x\",\"y\"],\"fromStage\":\"a\"},"
                       "{\"type\":\"COPY\",\"args\":[\"/x\",\"y\"],\"fromImage\":\"node\"}]}",
                       &r, NULL),
                ==, 0);
        CHECK_INT(r.stage_count, ==, 3);
        CHECK(r.stages[0].from_kind == FROM_TEMPLATE && r.stages[1].from_kind == FROM_STAGE);
        CHECK_INT(r.stages[1].from_stage_index, ==, 0);
        CHECK_INT(r.stages[2].from_stage_index, ==, 1);
        CHECK_INT(r.stages[2].steps[0].from_stage_index, ==, 0);
        CHECK_STR(r.stages[2].steps[1].from_image, "node");
        CHECK_INT(json_array_size(r.stages[1].steps[0].shell), ==, 2);
}

#define STEP(text) "{\"fromImage\":\"a\",\"steps\":[{\"type\":\"RUN\",\"args\":[\"x\"]}," text "]}"

static void bad_requests_name_the_field(void)
{
        static const char *const cases[][2] = {
                {"[]", "validation error: the body must be an object"},
                {"{}", "must specify either fromImage or fromTemplate"},
                {"{\"fromImage\":\"a\",\"fromTemplate\":\"b\"}",
                 "must specify either fromImage or fromTemplate, and not both"},
                {"{\"fromImage\":1}", "validation error: field 'fromImage' must be a string"},
                {"{\"fromImage\":\"\"}", "validation error: field 'fromImage' must have 1 to 1024 characters"},
                {"{\"fromTemplate\":\"a b\"}", "Invalid fromTemplate: invalid template ID: a b"},
                {"{\"fromImage\":\"a\",\"force\":1}", "validation error: field 'force' must be true or false"},
                {"{\"fromImage\":\"a\",\"steps\":1}", "validation error: field 'steps' must be an array"},
                {"{\"fromImage\":\"a\",\"steps\":[1]}", "step 1: must be an object"},
                {STEP("{}"), "step 2: validation error: field 'type' is required"},
                {STEP("{\"type\":\"EXPOSE\"}"), "step 2: command type EXPOSE is not implemented"},
                {STEP("{\"type\":\"RUN\"}"), "step 2: RUN requires a command, and may have a user"},
                {STEP("{\"type\":\"RUN\",\"args\":[\"\"]}"), "step 2: RUN requires a command, and may have a user"},
                {STEP("{\"type\":\"RUN\",\"args\":[1]}"), "step 2: validation error: field 'args[0]' must be a string"},
                {STEP("{\"type\":\"RUN\",\"args\":[\"x\"],\"shell\":[]}"),
                 "step 2: only RUN can have a shell, and it is not empty"},
                {STEP("{\"type\":\"RUN\",\"args\":[\"x\"],\"fromImage\":\"a\"}"),
                 "step 2: only COPY can have fromStage or fromImage"},
                {STEP("{\"type\":\"ENV\",\"args\":[\"a\"]}"), "step 2: ENV requires a value for each name"},
                {STEP("{\"type\":\"ENV\",\"args\":[\"a=b\",\"c\"]}"),
                 "step 2: ENV has the name 'a=b': names are not empty and have no '='"},
                {STEP("{\"type\":\"WORKDIR\",\"args\":[]}"), "step 2: WORKDIR requires one path"},
                {STEP("{\"type\":\"USER\",\"args\":[\"a\",\"b\"]}"), "step 2: USER requires one name"},
                {STEP("{\"type\":\"COPY\",\"args\":[\"a\",\"b\"]}"), "step 2: COPY requires files hash to be set"},
                {STEP("{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],\"filesHash\":\"../x\"}"),
                 "step 2: Invalid files hash"},
                {STEP("{\"type\":\"COPY\",\"args\":[\"a\"],\"filesHash\":\"" HASH "\"}"),
                 "step 2: COPY requires a source and a destination, and may have an owner and a mode"},
                {STEP("{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"\",\"rwx\"],\"filesHash\":\"" HASH "\"}"),
                 "step 2: COPY has the mode 'rwx', which is not octal"},
                {STEP("{\"type\":\"COPY\",\"args\":[\"/a\",\"b\"],\"fromStage\":\"x\"}"),
                 "step 2: there is no stage 'x' before this one"},
                {STEP("{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],\"fromImage\":\"x\"}"),
                 "step 2: COPY from a stage or an image requires an absolute source"},
                {"{\"fromImage\":\"a\",\"stages\":[{\"fromImage\":\"b\"}]}",
                 "stage 1: a stage has a name of 1 to 128 bytes"},
                {"{\"fromImage\":\"a\",\"stages\":[{\"name\":\"s\",\"fromImage\":\"b\"},{\"name\":\"s\",\"fromImage\":"
                 "\"b\"}]}",
                 "stage 2: there are two stages 's'"},
                {"{\"fromStage\":\"s\"}", "there is no stage 's' before this one"},
                {"{\"fromImage\":\"a\",\"fromImageRegistry\":{\"type\":\"ftp\"}}",
                 "validation error: field 'fromImageRegistry.type' must be 'registry', 'aws' or 'gcp'"},
                {"{\"fromImage\":\"a\",\"fromImageRegistry\":{\"type\":\"aws\",\"awsAccessKeyId\":\"x\"}}",
                 "validation error: field 'fromImageRegistry.awsSecretAccessKey' must be a string"},
                {"{\"fromImage\":\"a\",\"startCmd\":1}", "validation error: field 'startCmd' must be a string"},
                {"{\"fromImage\":\"a\",\"readyCmd\":1}",
                 "validation error: field 'readyCmd': must be a string or an object"},
                {"{\"fromImage\":\"a\",\"cpuCount\":3}", "CPU count must be 1 or an even number"},
                {"{\"fromImage\":\"a\",\"memoryMB\":1}", "Memory must be at least 128 MiB"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct build_request r = {0};
                struct err err = {0};

                printf("# %s\n", cases[i][0]);
                CHECK_INT(decode(cases[i][0], &r, &err), <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
                CHECK_STR(err.msg, cases[i][1]);
        }
}

static void too_many_steps_are_refused(void)
{
        json_t *body = json_pack("{s:s,s:[]}", "fromImage", "a", "steps"), *steps = json_object_get(body, "steps");
        struct build_request r = {0};
        struct err err = {0};
        int res;

        for (int i = 0; i <= BUILD_STEPS_MAX; i++)
                (void)json_array_append_new(steps, json_pack("{s:s,s:[s]}", "type", "RUN", "args", "x"));
        res = build_request_decode(body, &r, &err);
        json_decref(body);
        CHECK_INT(res, <, 0);
        CHECK_STR(err.msg, "validation error: field 'steps' has more than 1000 items");
}

/* ---- ready commands ---- */

static void conditions_become_commands(void)
{
        static const char *const cases[][2] = {
                {"\"true\"", "true"},
                {"\"\"", NULL},
                {"null", NULL},
                {"{\"waitForPort\":3000}", "[ -n \"$(ss -Htuln sport = :3000)\" ]"},
                {"{\"waitForURL\":\"http://localhost:3000/health\"}",
                 "curl -s -o /dev/null -w \"%{http_code}\" http://localhost:3000/health | grep -q \"200\""},
                {"{\"waitForURL\":\"http://h/?a=1&b=2\",\"statusCode\":204}",
                 "curl -s -o /dev/null -w \"%{http_code}\" 'http://h/?a=1&b=2' | grep -q \"204\""},
                {"{\"waitForProcess\":\"node\"}", "pgrep node > /dev/null"},
                {"{\"waitForProcess\":\"-x; rm\"}", "pgrep '-x; rm' > /dev/null"},
                {"{\"waitForFile\":\"/tmp/it's\"}", "[ -f '/tmp/it'\\''s' ]"},
                {"{\"waitForTimeout\":10}", "sleep 1"},
                {"{\"waitForTimeout\":20999}", "sleep 20"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                json_t *v = json_loads(cases[i][0], JSON_DECODE_ANY, NULL);
                AUTO_FREE char *command = NULL;
                int r = ready_command_of(v, &command, NULL);

                json_decref(v);
                CHECK_INT(r, ==, 0);
                CHECK(!command == !cases[i][1]);
                if (command)
                        CHECK_STR(command, cases[i][1]);
        }
}

static void bad_conditions_are_refused(void)
{
        static const char *const cases[] = {"{}",
                                            "7",
                                            "[]",
                                            "{\"waitForPort\":0}",
                                            "{\"waitForPort\":70000}",
                                            "{\"waitForPort\":\"1\"}",
                                            "{\"waitForURL\":\"ftp://x\"}",
                                            "{\"waitForURL\":\"http://x\\ny\"}",
                                            "{\"waitForURL\":\"http://x\",\"statusCode\":7}",
                                            "{\"waitForFile\":\"\"}",
                                            "{\"waitForTimeout\":-1}",
                                            "{\"waitForPort\":1,\"waitForFile\":\"x\"}",
                                            "{\"waitForMoon\":1}"};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                json_t *v = json_loads(cases[i], JSON_DECODE_ANY, NULL);
                char *command = NULL;
                struct err err = {0};
                int r = ready_command_of(v, &command, &err);

                printf("# %s: %s\n", cases[i], err.msg);
                json_decref(v);
                CHECK_INT(r, <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
                CHECK(!command);
        }
}

/* ---- names ---- */

static void agents_tell_their_version(void)
{
        CHECK(build_agent_is_root_default(STR("e2b-js-sdk/2.2.9")));
        CHECK(build_agent_is_root_default(STR("e2b-python-sdk/1.9.0 more")));
        CHECK(!build_agent_is_root_default(STR("e2b-js-sdk/2.3.0")));
        CHECK(!build_agent_is_root_default(STR("e2b-js-sdk/2.10.1")));
        CHECK(!build_agent_is_root_default(STR("e2b-js-sdk/")));
        CHECK(!build_agent_is_root_default(STR("e2b-js-sdk/x.y")));
        CHECK(!build_agent_is_root_default(STR("curl/7.0")));
        CHECK(!build_agent_is_root_default(STR("")));
}

static void small_names_are_checked(void)
{
        char tag[TEMPLATE_REF_MAX + 1];

        CHECK(uuid_is_valid("3F0c6c0e-6f0e-4b44-9a52-0f0f3b1d2c11"));
        CHECK(!uuid_is_valid("3f0c6c0e-6f0e-4b44-9a52-0f0f3b1d2c1"));
        CHECK(!uuid_is_valid(""));
        CHECK(build_hash_is_valid(HASH) && !build_hash_is_valid("A" HASH) && !build_hash_is_valid("x"));
        CHECK(build_mode_is_valid("755") && build_mode_is_valid("01755") && !build_mode_is_valid("") &&
              !build_mode_is_valid("17550") && !build_mode_is_valid("789"));
        CHECK_INT(build_tag_parse(" V1.0 ", tag, NULL), ==, 0);
        CHECK_STR(tag, "v1.0");
        CHECK_INT(build_tag_parse("a:b", tag, NULL), <, 0);
        CHECK_INT(build_tag_parse("", tag, NULL), <, 0);
        CHECK_STR(build_status_name(BUILD_WAITING), "waiting");
}

/* ---- keys ---- */

static struct build_key key_of(const char *step, const char *source)
{
        AUTO(build_request_done) struct build_request r = {0};
        struct build_key key;
        char text[2048];

        build_key_base("image", "sha256:1", "", &key);
        (void)snprintf(text, sizeof(text), "{\"fromImage\":\"a\",\"steps\":[%s]}", step);
        if (decode(text, &r, NULL) == 0 && r.stages[0].step_count == 1)
                build_key_step(&key, &r.stages[0].steps[0], source, &key);
        return key;
}

static void keys_differ_exactly_when_results_may(void)
{
        static const char *const steps[] = {
                "",
                "{\"type\":\"RUN\",\"args\":[\"a b\"]}",
                "{\"type\":\"RUN\",\"args\":[\"a\",\"b\"]}",
                "{\"type\":\"RUN\",\"args\":[\"a b\"],\"shell\":[\"/bin/sh\",\"-c\"]}",
                "{\"type\":\"ENV\",\"args\":[\"a\",\"b\"]}",
                "{\"type\":\"COPY\",\"args\":[\"a\",\"b\"],\"filesHash\":\"" HASH "\"}",
                "{\"type\":\"COPY\",\"args\":[\"a\",\"b\",\"\",\"\"],\"filesHash\":\"" HASH "\"}",
        };
        struct build_key a, b;

        for (size_t i = 0; i < ARRAY_LEN(steps); i++)
                for (size_t k = 0; k < i; k++) {
                        a = key_of(steps[i], NULL);
                        b = key_of(steps[k], NULL);
                        CHECK(strcmp(a.hex, b.hex) != 0);
                }
        a = key_of("{\"type\":\"RUN\",\"args\":[\"x\"],\"force\":true}", NULL);
        b = key_of("{\"type\":\"run\",\"args\":[\"x\"]}", "");
        CHECK_STR(a.hex, b.hex);
        b = key_of("{\"type\":\"RUN\",\"args\":[\"x\"]}", "sha256:2");
        CHECK(strcmp(a.hex, b.hex) != 0);
        build_key_base("image", "sha256:1", "", &a);
        build_key_base("template", "sha256:1", "", &b);
        CHECK(strcmp(a.hex, b.hex) != 0);
        build_key_base("image", "sha256:1", "root", &b);
        CHECK(strcmp(a.hex, b.hex) != 0);
}

int main(void)
{
        RUN(a_whole_request_is_decoded);
        RUN(stages_use_those_before_them);
        RUN(bad_requests_name_the_field);
        RUN(too_many_steps_are_refused);
        RUN(conditions_become_commands);
        RUN(bad_conditions_are_refused);
        RUN(agents_tell_their_version);
        RUN(small_names_are_checked);
        RUN(keys_differ_exactly_when_results_may);
        return tap_done();
}
