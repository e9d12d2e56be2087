#include "dockerfile_rig.h"

#define HEAD "USER root|WORKDIR /|"
#define TAIL "|USER user|WORKDIR /home/user"

#define STEPS(text, want)                                                                                              \
        do {                                                                                                           \
                AUTO_RIG struct rig k_ = {0};                                                                          \
                AUTO_FREE char *errors_ = NULL;                                                                        \
                convert(&k_, text);                                                                                    \
                errors_ = errors_text(&k_.problems);                                                                   \
                CHECK_STR(errors_, "");                                                                                \
                CHECK_STR(k_.steps, want);                                                                             \
        } while (0)
#define ERRORS(text, want)                                                                                             \
        do {                                                                                                           \
                AUTO_RIG struct rig k_ = {0};                                                                          \
                AUTO_FREE char *errors_ = NULL;                                                                        \
                convert(&k_, text);                                                                                    \
                errors_ = errors_text(&k_.problems);                                                                   \
                CHECK_INT(k_.r, <, 0);                                                                                 \
                CHECK_STR(errors_, want);                                                                              \
        } while (0)

static void begins_as_root_and_ends_as_user(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM debian:12\nRUN true\n");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(text_of(&k, "fromImage"), "debian:12");
        CHECK_STR(k.steps, HEAD "RUN true" TAIL);
        CHECK_STR(text_of(&k, "startCmd"), "(none)");
        CHECK(!json_object_get(k.build.request, "stages"));
        CHECK(!json_object_get(k.build.request, "name"));
}

static void keeps_the_user_and_directory_of_the_file(void)
{
        STEPS("FROM a\nUSER app\nWORKDIR /srv\nWORKDIR sub", HEAD "USER app|WORKDIR /srv|WORKDIR sub");
        STEPS("FROM a\nUSER 0:0", HEAD "USER root|WORKDIR /home/user");
        STEPS("FROM a\nUSER app:app", HEAD "USER app|WORKDIR /home/user");
}

static void templates_are_bases_that_go_on_as_they_are(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM template:base:v1\nRUN x");
        CHECK_STR(text_of(&k, "fromTemplate"), "base:v1");
        CHECK_STR(k.steps, "RUN x");
}

static void joins_continued_lines(void)
{
        STEPS("FROM a\nRUN one \\\n  && two \\ \n# a comment\n\n    # another\n && three\nRUN four\\\\\nRUN \\\nfive\\",
              HEAD "RUN one   && two  && three|RUN four\\\\|RUN five" TAIL);
        STEPS("\xef\xbb\xbf# escape=`\r\nFROM a\r\nRUN a `\r\n b\\\r\n", HEAD "RUN a  b\\" TAIL);
        STEPS("  from a as b\n\t run x", HEAD "RUN x" TAIL);
}

static void directives_come_first(void)
{
        STEPS("# syntax=docker/dockerfile:1\n# escape = `\nFROM a\nRUN a`\n b", HEAD "RUN a b" TAIL);
        STEPS("# hello\n# escape=`\nFROM a\nRUN a`\nRUN b", HEAD "RUN a`|RUN b" TAIL);
        ERRORS("# escape=x\nFROM a", "1: directive escape must be \\ or `\n");
        ERRORS("# escape=`\n# escape=`\nFROM a", "2: a second directive escape\n");
}

static void run_takes_here_documents(void)
{
        STEPS("FROM a\nRUN <<EOF\nset -e\n# kept\necho $x\nEOF\nRUN y",
              HEAD "RUN set -e\n# kept\necho $x\n|RUN y" TAIL);
        STEPS("FROM a\nRUN cat <<-'E' >/x\n\ta\\\n\t\tb\n\tE\nRUN z",
              HEAD "RUN cat <<-'E' >/x\na\\\nb\nE\n|RUN z" TAIL);
        STEPS("FROM a\nRUN cat <<A <<B\n1\nA\n2\nB\n", HEAD "RUN cat <<A <<B\n1\nA\n2\nB\n" TAIL);
        STEPS("FROM a\nRUN echo $((1 << 2)) <<<x && ls", HEAD "RUN echo $((1 << 2)) <<<x && ls" TAIL);
        STEPS("FROM a\nRUN <<EOF\n#!/usr/bin/python3\nprint(1)\nEOF",
              HEAD "RUN f=$(mktemp) && cat >\"$f\" <<'SANDGLASS_END' && chmod 0700 \"$f\"\n#!/usr/bin/python3\n"
                   "print(1)\nSANDGLASS_END\n\"$f\"; s=$?; rm -f \"$f\"; exit $s" TAIL);
        ERRORS("FROM a\nRUN <<EOF\nx\n", "2: here-document 'EOF' has no end: no line is 'EOF'\n");
}

static void run_has_an_exec_form(void)
{
        STEPS("FROM a\nRUN [\"/bin/x\", \"a b\", \"it's\"]", HEAD "RUN /bin/x 'a b' 'it'\\''s'" TAIL);
        ERRORS("FROM a\nRUN [1]\nRUN []\nRUN", "2: RUN: the array must hold texts only\n3: RUN needs a command\n"
                                               "4: RUN needs a command\n");
}

static void a_broken_exec_form_is_a_shell_command(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nRUN [ -f /x ]");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(k.steps, HEAD "RUN [ -f /x ]" TAIL);
        CHECK_INT(k.problems.count, ==, 1);
        CHECK_INT(k.problems.at[0].level, ==, PROBLEM_WARNING);
}

static void run_gets_a_shell_and_arguments(void)
{
        AUTO_RIG struct rig k = {.args = json_pack("{s:s}", "V", "2")};
        AUTO_FREE char *shell = NULL, *other = NULL, *third = NULL;

        convert(&k, "FROM a\nRUN one\nARG V=1\nARG W\nARG X=y z=\nENV X=e\nRUN two\nSHELL [\"/bin/bash\", "
                    "\"-ec\"]\nRUN three");
        CHECK_INT(k.r, ==, 0);
        shell = json_dumps(json_object_get(step_at(&k, 2), "shell"), JSON_COMPACT);
        CHECK_STR(shell, "[\"/bin/sh\",\"-c\"]");
        other = json_dumps(json_object_get(step_at(&k, 4), "shell"), JSON_COMPACT);
        CHECK_STR(other, "[\"/usr/bin/env\",\"V=2\",\"z=\",\"/bin/sh\",\"-c\"]");
        third = json_dumps(json_object_get(step_at(&k, 5), "shell"), JSON_COMPACT);
        CHECK_STR(third, "[\"/usr/bin/env\",\"V=2\",\"z=\",\"/bin/bash\",\"-ec\"]");
}

static void only_caches_may_be_mounted(void)
{
        STEPS("FROM a\nRUN --mount=type=cache,target=/root/.cache --network=default pip install x",
              HEAD "RUN pip install x" TAIL);
        ERRORS("FROM a\nRUN --mount=type=secret,id=x cat\nRUN --mount=target=/x,source=y ls\nRUN --network=none x\n"
               "RUN --device=x y",
               "2: RUN --mount=type=secret is not supported\n3: RUN --mount=type=bind is not supported\n"
               "4: RUN --network=none is not supported\n5: RUN --device is not supported\n");
}

static void variables_are_replaced(void)
{
        STEPS("FROM a\nENV A=1 B=\"x y\" C='$A' D=a\\ b\nENV E=$A-${B} F=${N:-no} G=${A:+yes} H=${N:+yes}\n",
              HEAD "ENV A 1 B x y D a b|ENV C $A|ENV E 1-x y F no G yes H " TAIL);
        STEPS("FROM a\nENV OLD  the rest  \"of\" it\nWORKDIR /$OLD",
              HEAD "ENV OLD the rest  of it|WORKDIR /the rest  of it|USER user");
        STEPS("FROM a\nENV A=1\nENV A=2 B=$A\nENV C=$B", HEAD "ENV A 1|ENV A 2 B 1|ENV C 1" TAIL);
        STEPS("FROM a\nARG V=${X:-1.${Y:-2}}\nWORKDIR /${V}\nUSER ${V+u}", HEAD "WORKDIR /1.2|USER u");
        STEPS("FROM a\nENV A=\\$x B=\"\\$y\" C=\"a\\\"b\\n\"", HEAD "ENV C a\"b\\n|ENV A $x B $y" TAIL);
        STEPS("FROM a\nENV E=\nWORKDIR /${E-x}${E:-y}", HEAD "ENV E |WORKDIR /y|USER user");
}

static void variables_of_the_image_are_left_to_the_server(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nENV PATH=/x:$PATH\nENV Q=${PATH}:y L=${LD:-}\nENV R='$5'");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(k.steps, HEAD "ENV PATH /x:${PATH}|ENV Q ${PATH}:y L |ENV R $5" TAIL);
        CHECK(!json_object_get(step_at(&k, 2), "literal"));
        CHECK(json_is_true(json_object_get(step_at(&k, 4), "literal")));
        ERRORS("FROM a\nWORKDIR $GOPATH/src\nENV X='$'$Y",
               "2: variable 'GOPATH' is not set by an ARG or ENV before this line (what the base image sets can be "
               "used "
               "in ENV and RUN only)\n3: ENV X: a $ as text beside a variable of the base image is not supported\n");
}

static void broken_variables_have_their_line(void)
{
        ERRORS("FROM a\nENV A=${B\nENV A=${}\nENV A=${B:-x\nENV A=${B%x}\nWORKDIR 'x\nUSER \"x\nENV A=${B:?none}",
               "2: a ${ is not closed\n3: ${ without a name\n4: a ${ is not closed\n"
               "5: ${B%: this form of a variable is not supported\n6: a single quote is not closed\n"
               "7: a double quote is not closed\n8: variable 'B' is not set: none\n");
        ERRORS("FROM a\nENV A=1 B\nENV A\nENV\nENV =x\nARG\nARG =x",
               "2: ENV: 'B' must be NAME=VALUE\n3: ENV must be ENV NAME=VALUE...\n4: ENV must be ENV NAME=VALUE...\n"
               "5: ENV: a variable without a name\n6: ARG needs a name\n7: ARG needs a name\n");
}

static void arguments_before_from_are_for_from(void)
{
        AUTO_RIG struct rig k = {.args = json_pack("{s:s, s:s}", "TAG", "13", "HTTP_PROXY", "p")};
        AUTO_FREE char *shell = NULL;

        convert(&k, "ARG TAG=12\nARG IMG=debian:$TAG\nFROM --platform=$BUILDPLATFORM $IMG\nARG TAG\nARG TARGETARCH\n"
                    "WORKDIR /$TAG/$TARGETARCH\nRUN x");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(text_of(&k, "fromImage"), "debian:13");
        CHECK_STR(k.steps, HEAD "WORKDIR /13/amd64|RUN x|USER user");
        CHECK_INT(k.problems.count, ==, 0);
        shell = json_dumps(json_object_get(step_at(&k, 3), "shell"), JSON_COMPACT);
        CHECK_STR(shell, "[\"/usr/bin/env\",\"HTTP_PROXY=p\",\"TAG=13\",\"TARGETARCH=amd64\",\"/bin/sh\",\"-c\"]");
        ERRORS("ARG T=1\nFROM a:$T$U\nWORKDIR /$T",
               "2: variable 'U' is not set by an ARG before the first FROM\n3: variable 'T' is not set by an ARG or "
               "ENV "
               "before this line (what the base image sets can be used in ENV and RUN only)\n");
}

static void arguments_that_nothing_takes_are_told(void)
{
        AUTO_RIG struct rig k = {.args = json_pack("{s:s}", "NOPE", "1")};

        convert(&k, "FROM a");
        CHECK_INT(k.r, ==, 0);
        CHECK_INT(k.problems.count, ==, 1);
        CHECK_STR(k.problems.at[0].text, "no ARG takes the build argument 'NOPE'");
}

static void entrypoint_and_cmd_are_the_start_command(void)
{
        static const struct {
                const char *text, *want;
        } cases[] = {
                {"CMD node a.js && b", "node a.js && b"},
                {"CMD [\"node\", \"a b.js\"]", "node 'a b.js'"},
                {"ENTRYPOINT [\"/e\"]\nCMD [\"x\", \"\"]", "/e x ''"},
                {"CMD [\"x\"]\nENTRYPOINT [\"/e\"]", "/e x"},
                {"ENTRYPOINT [\"/e\"]\nCMD a b", "/e /bin/sh -c 'a b'"},
                {"ENTRYPOINT run it\nCMD [\"x\"]", "run it"},
                {"CMD a\nCMD b", "b"},
                {"SHELL [\"/bin/bash\",\"-c\"]\nCMD a b", "/bin/bash -c 'a b'"},
                {"ENTRYPOINT []\nCMD []", "(none)"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                AUTO_RIG struct rig k = {0};
                char text[200];

                (void)snprintf(text, sizeof(text), "FROM a\n%s\n", cases[i].text);
                convert(&k, text);
                CHECK_INT(k.r, ==, 0);
                CHECK_STR(text_of(&k, "startCmd"), cases[i].want);
        }
}

static void healthcheck_is_the_ready_command(void)
{
        AUTO_RIG struct rig k = {0}, none = {0};

        convert(&k, "FROM a\nHEALTHCHECK --interval=5s --retries=3 CMD curl -f http://localhost/ || exit 1\n");
        CHECK_STR(text_of(&k, "readyCmd"), "curl -f http://localhost/ || exit 1");
        convert(&none, "FROM a\nHEALTHCHECK CMD [\"a\", \"b c\"]\nHEALTHCHECK NONE");
        CHECK_INT(none.r, ==, 0);
        CHECK_STR(text_of(&none, "readyCmd"), "(none)");
        ERRORS("FROM a\nHEALTHCHECK x\nHEALTHCHECK --x=1 CMD y",
               "2: HEALTHCHECK must be HEALTHCHECK CMD COMMAND, or HEALTHCHECK NONE\n3: HEALTHCHECK --x is not "
               "supported\n");
}

static void what_means_nothing_here_is_noted(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nEXPOSE 80\nLABEL a=b\nVOLUME /x\nSTOPSIGNAL 9\nMAINTAINER me");
        CHECK_INT(k.r, ==, 0);
        CHECK_INT(k.problems.count, ==, 5);
        CHECK_INT(k.problems.at[4].line, ==, 6);
        CHECK_STR(k.problems.at[4].text, "MAINTAINER is ignored");
}

static void all_problems_are_told_at_once(void)
{
        ERRORS("RUN x\nFROM a\nFOO bar\nONBUILD RUN x\nFROM\nFROM a b c d\nFROM scratch\nFROM x AS 1\nSHELL bash\n"
               "USER 1000\nUSER a:b",
               "1: RUN before FROM\n3: unknown instruction 'FOO'\n"
               "4: ONBUILD is not supported: a template is no base for Dockerfiles\n"
               "5: FROM must be FROM IMAGE or FROM IMAGE AS NAME\n6: FROM must be FROM IMAGE or FROM IMAGE AS NAME\n"
               "7: FROM scratch is not supported: a sandbox needs a system with a shell\n"
               "8: '1' is no name for a stage: letters, digits, - _ . only\n"
               "9: SHELL must be an array: SHELL [\"/bin/bash\", \"-c\"]\n"
               "11: USER a:b: another group is not supported; make it the user's own group\n");
        ERRORS("", "0: there is no FROM\n");
        ERRORS("FROM a\nRUN \xff\n", "2: not UTF-8 text\n");
        ERRORS("FROM --platform=windows/amd64 a",
               "1: platform 'windows/amd64' is not supported: sandboxes are linux/amd64\n");
}

int main(void)
{
        RUN(begins_as_root_and_ends_as_user);
        RUN(keeps_the_user_and_directory_of_the_file);
        RUN(templates_are_bases_that_go_on_as_they_are);
        RUN(joins_continued_lines);
        RUN(directives_come_first);
        RUN(run_takes_here_documents);
        RUN(run_has_an_exec_form);
        RUN(a_broken_exec_form_is_a_shell_command);
        RUN(run_gets_a_shell_and_arguments);
        RUN(only_caches_may_be_mounted);
        RUN(variables_are_replaced);
        RUN(variables_of_the_image_are_left_to_the_server);
        RUN(broken_variables_have_their_line);
        RUN(arguments_before_from_are_for_from);
        RUN(arguments_that_nothing_takes_are_told);
        RUN(entrypoint_and_cmd_are_the_start_command);
        RUN(healthcheck_is_the_ready_command);
        RUN(what_means_nothing_here_is_noted);
        RUN(all_problems_are_told_at_once);
        return tap_done();
}
