/* The parts of the builder that need no sandbox: commands in messages, checks for readiness, text. */
#include <sys/wait.h>
#include <unistd.h>

#include "base/auto.h"
#include "builder/command.h"
#include "builder/ready_check.h"
#include "builder/step_log.h"
#include "tap.h"

static void short_commands_stay_whole(void)
{
        char out[COMMAND_WORDS_MAX];

        CHECK_STR(command_words("whoami", out), "whoami");
        CHECK_STR(command_words("a\n\tb", out), "a  b");
}

static void long_commands_lose_their_middle(void)
{
        char cmd[1000], out[COMMAND_WORDS_MAX];

        memset(cmd, 'x', sizeof(cmd));
        memcpy(cmd, "begin", 5);
        memcpy(cmd + sizeof(cmd) - 4, "end", 4);
        CHECK_INT(strlen(command_words(cmd, out)), ==, COMMAND_WORDS_MAX - 1);
        CHECK(strncmp(out, "beginxxx", 8) == 0 && strcmp(out + strlen(out) - 6, "xxxend") == 0 && strstr(out, "…"));
        for (size_t i = 0; i + 2 < sizeof(cmd); i += 2) /* characters of two bytes are never cut */
                memcpy(cmd + i, "ä", 2);
        cmd[998] = '\0';
        CHECK(str_is_utf8(str_of(command_words(cmd, out))));
}

static int run_check(const char *cmd, bool *ret_known)
{
        struct ready_check c;
        int status = -1;
        pid_t pid;

        if (ready_check_of(cmd, &c) < 0)
                return -1;
        *ret_known = c.first_ms < 100;
        pid = fork();
        if (pid == 0) {
                char *argv[6] = {"sh"};

                for (size_t i = 0; i < json_array_size(c.args); i++)
                        argv[i + 1] = (char *)(uintptr_t)json_string_value(json_array_get(c.args, i));
                (void)execv("/bin/sh", argv);
                _exit(126);
        }
        ready_check_done(&c);
        return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void knows_the_commands_of_conditions(void)
{
        bool is_known;

        CHECK_INT(run_check("[ -f /bin/sh ]", &is_known), ==, 0);
        CHECK(is_known);
        CHECK_INT(run_check("[ -f /not/there ]", &is_known), ==, 1);
        CHECK_INT(run_check("[ -n \"$(ss -Htuln sport = :1)\" ]", &is_known), ==, 1);
        CHECK(is_known);
        CHECK_INT(run_check("pgrep no-such-process > /dev/null", &is_known), ==, 1);
        CHECK(is_known);
}

static void runs_other_commands_as_they_are(void)
{
        bool is_known;

        CHECK_INT(run_check("exit 7", &is_known), ==, 7);
        CHECK(!is_known);
        CHECK_INT(run_check("[ -f /x ] || exit 3 # ]", &is_known), ==, 3); /* looks like a condition */
        CHECK(!is_known);
        CHECK_INT(run_check("[ -n \"$(ss -Htuln sport = :99999)\" ] || exit 5", &is_known), ==, 5);
        CHECK_INT(run_check("pgrep $(exit 4) > /dev/null; exit 9", &is_known), ==, 9);
}

static void waits_longer_each_time(void)
{
        const struct ready_check c = {.first_ms = 20, .most_ms = 2000};
        uint32_t ms = 0, last = 0;

        for (int i = 0; i < 30; i++) {
                ms = ready_check_next_ms(&c, ms);
                CHECK(ms >= last && ms <= 2000);
                last = ms;
        }
        CHECK_INT(ready_check_next_ms(&c, 0), ==, 20);
        CHECK_INT(last, ==, 2000);
}

static void text_becomes_utf8(void)
{
        static const char *const cases[][2] = {{"abc", "abc"},
                                               {"\xc3\xa4", "\xc3\xa4"},
                                               {"\xc3", "\xef\xbf\xbd"},
                                               {"a\xff\xfe", "a\xef\xbf\xbd\xef\xbf\xbd"},
                                               {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
                                               {"\xf0\x9f\x98\x80!", "\xf0\x9f\x98\x80!"}};

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_BUF struct buf out = BUF_INIT(100);

                CHECK_INT(utf8_add(&out, str_of(cases[i][0]), 100), ==, 0);
                CHECK_STR(buf_cstr(&out), cases[i][1]);
        }
}

int main(void)
{
        RUN(short_commands_stay_whole);
        RUN(long_commands_lose_their_middle);
        RUN(knows_the_commands_of_conditions);
        RUN(runs_other_commands_as_they_are);
        RUN(waits_longer_each_time);
        RUN(text_becomes_utf8);
        return tap_done();
}
