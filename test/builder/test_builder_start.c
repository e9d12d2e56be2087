/* A real builder and a real envd: start and ready commands, and the last touches of a template. */
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/auto.h"
#include "base/clock.h"
#include "builder_rig.h"
#include "tap.h"

static struct builder_rig rig;

static void sh(const char *cmd)
{
        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s, s:s}", "kind", "run", "cmd", cmd, "user", "root", "workdir", "/"), -1);
}

static const char *start_within(const char *start, const char *ready, int timeout_s)
{
        AUTO_CLOSE int second = builder_rig_dial(&rig);

        (void)builder_rig_step(&rig,
                               json_pack("{s:s, s:s*, s:s*, s:s, s:s, s:{s:s}, s:i}", "kind", "start", "start_cmd",
                                         start, "ready_cmd", ready, "user", "joe", "workdir", "/tmp", "env", "A", "B",
                                         "ready_timeout_s", timeout_s),
                               second);
        return builder_rig_error(&rig);
}

static const char *start(const char *start_cmd, const char *ready_cmd)
{
        return start_within(start_cmd, ready_cmd, 30);
}

static void is_ready_when_the_file_is_there(void)
{
        CHECK_STR(start("echo \"$A $PWD $(whoami)\"; sleep 0.3; touch /tmp/up; exec sleep 71.25", "[ -f /tmp/up ]"),
                  "");
        CHECK(builder_rig_logged(&rig, "[start] [stdout]: B /tmp joe"));
        sh("test -f /tmp/up && pgrep -f 'sleep 71[.]25'"); /* the process stays */
        CHECK_STR(builder_rig_error(&rig), "");
        sh("pkill -f 'sleep 71[.]25'");
}

static void is_ready_when_the_port_is_open_without_ss(void)
{
        uint64_t began = clock_mono_ms();

        sh("rm -f /bin/ss /usr/bin/ss /usr/sbin/ss /sbin/ss");
        CHECK_STR(start("exec python3 -c 'import socket,time; time.sleep(0.2); s=socket.socket(); "
                        "s.bind((\"127.0.0.1\",18431)); "
                        "s.listen(); print(\"up\", flush=True); time.sleep(1000)'",
                        "[ -n \"$(ss -Htuln sport = :18431)\" ]"),
                  "");
        CHECK_INT(clock_mono_ms() - began, <, 5000);
        sh("pkill -f 18431");
}

static void is_ready_when_the_process_runs_without_pgrep(void)
{
        sh("cp /bin/sleep /tmp/my-server; mv /usr/bin/pgrep /usr/bin/pgrep.not");
        CHECK_STR(start("exec /tmp/my-server 73.5", "pgrep my-server > /dev/null"), "");
        sh("mv /usr/bin/pgrep.not /usr/bin/pgrep; pkill my-server");
}

static void a_ready_command_runs_until_it_succeeds(void)
{
        sh("rm -f /tmp/count");
        CHECK_STR(start(NULL, "echo x >>/tmp/count; echo 'not yet'; test $(wc -l </tmp/count) -ge 3"), "");
        CHECK(builder_rig_logged(&rig, "[ready] [stdout]: not yet"));
        CHECK_INT(rig.log_entries, ==, 1); /* the same words only once */
}

static void nothing_to_start_is_ready(void)
{
        CHECK_STR(start(NULL, NULL), "");
}

static void a_start_command_that_succeeds_early_is_fine(void)
{
        CHECK_STR(start("echo done", "sleep 1"), "");
        CHECK(builder_rig_logged(&rig, "[start] [stdout]: done"));
}

static void a_start_command_that_fails_fails_the_build(void)
{
        CHECK_STR(start("echo 'no such config' >&2; exit 4", "sleep 20"),
                  "start command failed: error running start command: exit status 4: no such config");
        CHECK(builder_rig_logged(&rig, "[start] [stderr]: no such config"));
}

static void a_template_that_is_never_ready_fails(void)
{
        CHECK_STR(start_within("exec sleep 74.5", "false", 2),
                  "ready command failed: ready command timed out after 2s");
        CHECK_STR(builder_rig_kind(&rig), "timeout");
        CHECK_STR(start_within("exec sleep 74.5", "exec sleep 1000", 1),
                  "ready command failed: ready command timed out after 1s");
        sh("pkill -f 'sleep 74[.]5'");
}

static void an_unknown_user_cannot_start(void)
{
        AUTO_CLOSE int second = builder_rig_dial(&rig);

        (void)builder_rig_step(
                &rig, json_pack("{s:s, s:s, s:s}", "kind", "start", "start_cmd", "true", "user", "ghost"), second);
        CHECK(strstr(builder_rig_error(&rig), "invalid username: 'ghost'"));
}

/* ---- configure ---- */

static bool configure(void)
{
        (void)builder_rig_step(&rig,
                               json_pack("{s:s, s:s, s:s, s:s}", "kind", "configure", "template_id", "tpl", "build_id",
                                         "bld", "user", "user"),
                               -1);
        if (builder_rig_error(&rig)[0])
                printf("# %s\n", builder_rig_error(&rig));
        return json_is_true(json_object_get(rig.answer, "ok"));
}

static void configures_a_bare_image(void)
{
        sh("userdel -r user 2>/dev/null; rm -rf /etc/sudoers.d/user /code /home/user; chmod 755 /usr/local "
           "/usr/local/bin");
        CHECK(configure());
        CHECK(json_is_true(json_object_get(rig.answer, "changed")));
        sh("set -e; grep -qx TEMPLATE_ID=tpl /.e2b; grep -qx BUILD_ID=bld /.e2b; test -f /home/user/.bashrc;"
           " stat -c '%a' /usr/local /usr/local/bin /code; stat -c %U /home/user; id -Gn user; sudo -u user sudo -n "
           "whoami");
        CHECK_STR(builder_rig_error(&rig), "");
        CHECK(strstr(
                buf_cstr(&rig.log),
                "[stdout]: 777\n[stdout]: 777\n[stdout]: 777\n[stdout]: user\n[stdout]: user sudo\n[stdout]: root\n"));
}

static void writes_nothing_the_second_time(void)
{
        CHECK(configure());
        CHECK(json_is_false(json_object_get(rig.answer, "changed")));
}

int main(int argc, char **argv)
{
        const char *why = argc == 2 ? builder_rig_start(&rig, argv[1]) : "usage: test PATH-OF-sandglass-envd";

        if (why) {
                printf("1..0 # SKIP %s\n", why);
                builder_rig_stop(&rig);
                return getenv("TESTS_MUST_RUN") ? 1 : 0;
        }
        sh("useradd --create-home joe");
        RUN(is_ready_when_the_file_is_there);
        RUN(is_ready_when_the_port_is_open_without_ss);
        RUN(is_ready_when_the_process_runs_without_pgrep);
        RUN(a_ready_command_runs_until_it_succeeds);
        RUN(nothing_to_start_is_ready);
        RUN(a_start_command_that_succeeds_early_is_fine);
        RUN(a_start_command_that_fails_fails_the_build);
        RUN(a_template_that_is_never_ready_fails);
        RUN(an_unknown_user_cannot_start);
        RUN(configures_a_bare_image);
        RUN(writes_nothing_the_second_time);
        builder_rig_stop(&rig);
        return tap_done();
}
