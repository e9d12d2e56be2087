/* A real builder and a real envd: commands, users, directories. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "builder_rig.h"
#include "tap.h"

static struct builder_rig rig;

static const json_t *run_as(const char *user, const char *cmd)
{
        return builder_rig_step(&rig,
                                json_pack("{s:s, s:s, s:s, s:n, s:{}, s:i}", "kind", "run", "cmd", cmd, "user", user,
                                          "workdir", "env", "timeout_s", 60),
                                -1);
}

static void runs_a_command_and_logs_its_lines(void)
{
        CHECK(run_as("root", "echo out; echo err >&2; printf 'no end'; whoami >/dev/null"));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(builder_rig_logged(&rig, "[stdout]: out"));
        CHECK(builder_rig_logged(&rig, "[stderr]: err"));
        CHECK(builder_rig_logged(&rig, "[stdout]: no end"));
}

static void says_how_a_command_failed(void)
{
        CHECK(run_as("root", "exit 3"));
        CHECK_STR(builder_rig_error(&rig), "failed to run command 'exit 3': exit status 3");
        CHECK_STR(builder_rig_kind(&rig), "invalid");
        CHECK(run_as("root", "kill -9 $$"));
        CHECK_STR(builder_rig_error(&rig), "failed to run command 'kill -9 $$': signal: killed");
}

static void refuses_an_unknown_user(void)
{
        CHECK(run_as("root123", "whoami"));
        CHECK_STR(builder_rig_error(&rig),
                  "failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'");
}

static void a_missing_directory_is_named(void)
{
        CHECK(builder_rig_step(
                &rig,
                json_pack("{s:s, s:s, s:s, s:s}", "kind", "run", "cmd", "pwd", "user", "root", "workdir", "/not/there"),
                -1));
        CHECK_STR(builder_rig_error(&rig),
                  "failed to run command 'pwd': command failed: invalid_argument: cwd '/not/there' does not exist");
}

static void uses_directory_variables_and_another_shell(void)
{
        CHECK(builder_rig_step(&rig,
                               json_pack("{s:s, s:s, s:s, s:s, s:{s:s}, s:[s, s]}", "kind", "run", "cmd",
                                         "echo \"$PWD $A $0\"", "user", "root", "workdir", "/tmp", "env", "A", "b c",
                                         "shell", "/bin/sh", "-ec"),
                               -1));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(builder_rig_logged(&rig, "[stdout]: /tmp b c /bin/sh"));
}

static void a_command_that_takes_too_long_is_killed(void)
{
        CHECK(builder_rig_step(&rig,
                               json_pack("{s:s, s:s, s:s, s:i}", "kind", "run", "cmd", "echo begun; exec sleep 61.25",
                                         "user", "root", "timeout_s", 1),
                               -1));
        CHECK_STR(builder_rig_error(&rig), "failed to run command 'echo begun; exec sleep 61.25': timed out after 1 s");
        CHECK_STR(builder_rig_kind(&rig), "timeout");
        CHECK(builder_rig_logged(&rig, "[stdout]: begun"));
        CHECK(run_as("root",
                     "for i in 1 2 3 4 5; do pgrep -f 'sleep 61[.]25' >/dev/null || exit 0; sleep 0.2; done; exit 1"));
        CHECK_STR(builder_rig_error(&rig), "");
}

static void long_commands_keep_their_end_in_the_message(void)
{
        char cmd[900];

        memset(cmd, 'x', sizeof(cmd));
        memcpy(cmd, "true || ", 8);
        memcpy(cmd + sizeof(cmd) - 9, "; exit 7", 9);
        CHECK(run_as("root", cmd));
        CHECK(strstr(builder_rig_error(&rig), "xxx; exit 7': exit status 7"));
        CHECK(strstr(builder_rig_error(&rig), "failed to run command 'true || xxx"));
}

static void output_becomes_valid_text(void)
{
        CHECK(run_as("root", "printf 'a\\377b\\303\\244\\303\\nx\\ry\\n'; printf 'w\\0z\\n'"));
        CHECK(builder_rig_logged(&rig, "[stdout]: a\xef\xbf\xbd"
                                       "b\xc3\xa4\xef\xbf\xbd"));
        CHECK(builder_rig_logged(&rig, "[stdout]: y"));
        CHECK(builder_rig_logged(&rig, "[stdout]: w\xef\xbf\xbdz"));
}

static void much_output_loses_its_middle(void)
{
        CHECK(run_as("root", "echo first; yes $(printf 'z%.0s' $(seq 99)) | head -c 30000000; echo last"));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(builder_rig_logged(&rig, "[stdout]: first"));
        CHECK(builder_rig_logged(&rig, "[stdout]: last"));
        CHECK(strstr(buf_cstr(&rig.log), " bytes left out\n"));
        CHECK_INT(rig.log_bytes, <, (2 << 20) + (70 << 10));
        CHECK_INT(rig.log_bytes, >, 2000000);
}

static void a_line_is_cut_at_4_kib(void)
{
        CHECK(run_as("root", "yes q | head -n 100000 | tr -d '\\n'; echo; echo next"));
        CHECK(builder_rig_logged(&rig, "[stdout]: next"));
        CHECK_INT(rig.log_entries, ==, 2);
        CHECK_INT(rig.log_bytes, <, 4200);
}

static void makes_users(void)
{
        struct stat st;

        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "user", "name", "mary"), -1));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(json_is_true(json_object_get(rig.answer, "created")));
        CHECK_STR(json_string_value(json_object_get(rig.answer, "home")), "/home/mary");
        CHECK_INT(stat(builder_rig_path(&rig, "/home/mary"), &st), ==, 0);
        CHECK_INT(st.st_uid, >=, 1000);
        CHECK(run_as("mary", "echo \"$(whoami) $HOME\"; test -f ~/.bashrc"));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(builder_rig_logged(&rig, "[stdout]: mary /home/mary"));
        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "user", "name", "mary:users"), -1));
        CHECK(json_is_false(json_object_get(rig.answer, "created")));
        CHECK_STR(json_string_value(json_object_get(rig.answer, "name")), "mary");
}

static void makes_users_of_numbers(void)
{
        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "user", "name", "0"), -1));
        CHECK_STR(json_string_value(json_object_get(rig.answer, "name")), "root");
        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "user", "name", "4321:4321"), -1));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK_STR(json_string_value(json_object_get(rig.answer, "name")), "uid4321");
        CHECK(run_as("uid4321", "id -u"));
        CHECK(builder_rig_logged(&rig, "[stdout]: 4321"));
}

static void makes_users_without_programs(void)
{
        CHECK(run_as("root", "rm -f /usr/sbin/useradd /usr/sbin/adduser"));
        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "user", "name", "hand"), -1));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(run_as(
                "hand",
                "test -f ~/.bashrc && [ \"$(stat -c %U:%G ~/.bashrc ~)\" = \"$(printf 'hand:hand\\nhand:hand')\" ]"));
        CHECK_STR(builder_rig_error(&rig), "");
}

static void refuses_bad_names(void)
{
        static const char *const bad[] = {"",
                                          "a b",
                                          "-x",
                                          "a/b",
                                          "x:",
                                          ":g",
                                          "../x",
                                          "a\nb:x:0:0::/:/bin/sh",
                                          "averyveryveryveryveryverylongname"};

        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
                if (strcmp(bad[i], "x:") == 0)
                        continue; /* names x */
                CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "user", "name", bad[i]), -1));
                CHECK_STR(builder_rig_kind(&rig), "invalid");
        }
}

static void tells_homes(void)
{
        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "home", "user", "root"), -1));
        CHECK_STR(json_string_value(json_object_get(rig.answer, "home")), "/root");
        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:s}", "kind", "home", "user", "nobody123"), -1));
        CHECK_STR(builder_rig_error(&rig), "invalid username: 'nobody123'");
        CHECK_STR(builder_rig_kind(&rig), "not_found");
}

static void makes_directories_for_their_user(void)
{
        CHECK(run_as("root", "mkdir -p /srv/old && chmod 700 /srv/old && ln -s old /srv/link"));
        CHECK(builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s}", "kind", "workdir", "path", "/srv/link/a/b/", "user", "mary"), -1));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(json_is_true(json_object_get(rig.answer, "created")));
        CHECK(run_as("root", "stat -c '%U:%G %a' /srv/old /srv/old/a /srv/old/a/b"));
        CHECK(strstr(buf_cstr(&rig.log), "root:root 700\n[stdout]: mary:mary 755\n[stdout]: mary:mary 755\n"));
        CHECK(builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s}", "kind", "workdir", "path", "/srv/old/a", "user", "root"), -1));
        CHECK(json_is_false(json_object_get(rig.answer, "created")));
        CHECK(builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s}", "kind", "workdir", "path", "/etc/passwd/x", "user", "root"), -1));
        CHECK_STR(builder_rig_error(&rig), "'/etc/passwd' is not a directory");
}

static void refuses_what_is_no_step(void)
{
        CHECK(builder_rig_step(&rig, json_pack("{s:s}", "kind", "nothing"), -1));
        CHECK_STR(builder_rig_kind(&rig), "invalid");
        CHECK(builder_rig_step(&rig, json_object(), -1));
        CHECK_STR(builder_rig_kind(&rig), "invalid");
        CHECK(builder_rig_step(&rig, json_pack("{s:s, s:i}", "kind", "run", "cmd", 7), -1));
        CHECK_STR(builder_rig_kind(&rig), "invalid");
        CHECK(builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:[]}", "kind", "run", "cmd", "x", "user", "root", "shell"), -1));
        CHECK_STR(builder_rig_kind(&rig), "invalid");
}

static void works_without_bash(void)
{
        CHECK(run_as("root", "rm -f /bin/bash /usr/bin/bash"));
        CHECK(run_as("root", "echo \"still $0\""));
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(strstr(buf_cstr(&rig.log), "[stdout]: still "));
}

static void a_sandbox_that_ends_is_gone(void)
{
        CHECK(run_as("root", "kill -9 $PPID; sleep 60"));
        CHECK_STR(builder_rig_kind(&rig), "gone");
}

int main(int argc, char **argv)
{
        const char *why = argc == 2 ? builder_rig_start(&rig, argv[1]) : "usage: test PATH-OF-sandglass-envd";

        if (why) {
                printf("1..0 # SKIP %s\n", why);
                builder_rig_stop(&rig);
                return getenv("TESTS_MUST_RUN") ? 1 : 0;
        }
        RUN(runs_a_command_and_logs_its_lines);
        RUN(says_how_a_command_failed);
        RUN(refuses_an_unknown_user);
        RUN(a_missing_directory_is_named);
        RUN(uses_directory_variables_and_another_shell);
        RUN(a_command_that_takes_too_long_is_killed);
        RUN(long_commands_keep_their_end_in_the_message);
        RUN(output_becomes_valid_text);
        RUN(much_output_loses_its_middle);
        RUN(a_line_is_cut_at_4_kib);
        RUN(makes_users);
        RUN(makes_users_of_numbers);
        RUN(makes_directories_for_their_user);
        RUN(tells_homes);
        RUN(refuses_bad_names);
        RUN(refuses_what_is_no_step);
        RUN(makes_users_without_programs);
        RUN(works_without_bash);
        RUN(a_sandbox_that_ends_is_gone);
        builder_rig_stop(&rig);
        return tap_done();
}
