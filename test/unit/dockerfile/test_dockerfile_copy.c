/* COPY, ADD and stages. */
#include "dockerfile_rig.h"

#define HEAD "USER root|WORKDIR /|"
#define TAIL "|USER user|WORKDIR /home/user"

#define ERRORS(text, want)                                                                                             \
        do {                                                                                                           \
                AUTO_RIG struct rig k_ = {0};                                                                          \
                AUTO_FREE char *errors_ = NULL;                                                                        \
                convert(&k_, text);                                                                                    \
                errors_ = errors_text(&k_.problems);                                                                   \
                CHECK_INT(k_.r, <, 0);                                                                                 \
                CHECK_STR(errors_, want);                                                                              \
        } while (0)

static void one_step_for_each_source(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nARG D=x\nCOPY --chown=u:g --chmod=755 a.txt b $D.c /dest/\nCOPY [\"a b\", \"c d\"]\nCOPY "
                    "a b .\n");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(k.steps, HEAD "COPY a.txt /dest/ u:g 0755|COPY b /dest/ u:g 0755|COPY x.c /dest/ u:g 0755|"
                                "COPY a b c d  |COPY a ./  |COPY b ./  " TAIL);
        CHECK_INT(k.build.copy_count, ==, 6);
        CHECK_STR(k.build.copies[3].src, "a b");
        CHECK_INT(k.build.copies[2].line, ==, 3);
        CHECK(k.build.copies[0].step == step_at(&k, 2));
}

static void files_belong_to_root_whoever_copies(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nUSER app\nCOPY a b\nUSER root\nCOPY --link a b");
        CHECK_STR(k.steps, HEAD "USER app|COPY a b root:root |USER root|COPY a b  |WORKDIR /home/user");
}

static void here_documents_are_files(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nENV X=1\nCOPY <<one <<\"two\" /etc/\n\"$X\" \\$X \\n\none\n$X\ntwo\nRUN y");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(k.steps, HEAD "ENV X 1|COPY one /etc/  |COPY two /etc/  |RUN y" TAIL);
        CHECK_INT(k.build.copies[0].kind, ==, DOCKERFILE_DOCUMENT);
        CHECK_STR(k.build.copies[0].content, "\"1\" $X \\n\n");
        CHECK_STR(k.build.copies[1].content, "$X\n");
}

static void add_is_a_copy_that_may_unpack(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nADD x.tar.gz /");
        CHECK_INT(k.r, ==, 0);
        CHECK_INT(k.build.copies[0].kind, ==, DOCKERFILE_ADD);
        CHECK_STR(k.steps, HEAD "COPY x.tar.gz /  " TAIL);
}

static void wrong_copies_have_their_line(void)
{
        ERRORS("FROM a\nCOPY a\nCOPY a b c\nADD https://x/y z\nADD git@host:x y\nCOPY --chmod=u+x a b\nCOPY "
               "--chmod=77777 a b\n"
               "COPY --parents a b\nCOPY [1, 2]\nADD --from=x a b\nCOPY --from= a b\nCOPY \"\" b\nCOPY a \"\"",
               "2: COPY needs a source and a destination\n"
               "3: COPY has several sources: the destination must be a directory, and end with /\n"
               "4: ADD of a URL is not supported: use RUN with curl, or COPY a file (https://x/y)\n"
               "5: ADD of a URL is not supported: use RUN with curl, or COPY a file (git@host:x)\n"
               "6: --chmod=u+x: must be octal digits, such as 755\n7: --chmod=77777: too large\n"
               "8: COPY --parents is not supported\n9: COPY: the array must hold texts only\n"
               "10: ADD --from is not supported\n"
               "11: --from needs the name of a stage or image\n11: --from=: there is no such stage before this line\n"
               "12: COPY: a source is empty\n13: COPY: the destination is empty\n");
}

static void steps_know_their_lines(void)
{
        AUTO_RIG struct rig k = {0};
        AUTO_FREE char *lines = NULL;

        convert(&k, "FROM x AS s\nRUN a\nFROM a\n\nRUN b \\\n c\nCOPY --from=s /a /b /c/\n");
        CHECK_INT(k.r, ==, 0);
        lines = json_dumps(k.build.lines, JSON_COMPACT);
        CHECK_STR(lines, "[3,3,5,7,7,0,0]");
}

/* ---- stages ---- */

static void stages_go_before_the_last_one(void)
{
        AUTO_RIG struct rig k = {0};
        AUTO_FREE char *stages = NULL;
        const json_t *first;

        convert(&k, "FROM node AS Build\nCOPY . .\nRUN make\nFROM debian\nCOPY --from=build /out/ /srv/\n"
                    "COPY --from=0 x /y\nCOPY --from=nginx:1 /etc/nginx /e");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(text_of(&k, "fromImage"), "debian");
        CHECK_STR(k.steps, HEAD "COPY /out/ /srv/  |COPY /x /y  |COPY /etc/nginx /e  " TAIL);
        CHECK_STR(json_string_value(json_object_get(step_at(&k, 2), "fromStage")), "build");
        CHECK_STR(json_string_value(json_object_get(step_at(&k, 4), "fromImage")), "nginx:1");
        CHECK_INT(json_array_size(json_object_get(k.build.request, "stages")), ==, 1);
        first = json_array_get(json_object_get(k.build.request, "stages"), 0);
        CHECK_STR(json_string_value(json_object_get(first, "name")), "build");
        CHECK_STR(json_string_value(json_object_get(first, "fromImage")), "node");
        stages = steps_text(json_object_get(first, "steps"));
        CHECK_STR(stages, HEAD "COPY . .  |RUN make");
        CHECK_INT(k.build.copy_count, ==, 1);
}

static void numbers_name_stages_without_a_name(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a\nRUN x\nFROM b\nCOPY --from=0 /x /y");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(json_string_value(json_object_get(step_at(&k, 2), "fromStage")), "0");
}

static void stages_that_nothing_needs_are_left_out(void)
{
        AUTO_RIG struct rig k = {0};
        const json_t *stages;

        convert(&k, "FROM a AS one\nCOPY x y\nFROM one AS two\nRUN t\nFROM a AS other\nCOPY o p\nFROM b\nCOPY "
                    "--from=two /x /x");
        CHECK_INT(k.r, ==, 0);
        stages = json_object_get(k.build.request, "stages");
        CHECK_INT(json_array_size(stages), ==, 2);
        CHECK_STR(json_string_value(json_object_get(json_array_get(stages, 1), "fromStage")), "one");
        CHECK_INT(k.build.copy_count, ==, 1);
        CHECK_STR(k.build.copies[0].src, "x");
}

static void a_stage_from_a_stage_goes_on_with_everything(void)
{
        AUTO_RIG struct rig k = {0};

        convert(&k, "FROM a AS one\nENV E=1\nARG A=2\nUSER app\nWORKDIR /w\nSHELL [\"/bin/bash\",\"-c\"]\nCMD serve\n"
                    "FROM one\nWORKDIR /$E/$A\nCOPY a b");
        CHECK_INT(k.r, ==, 0);
        CHECK_STR(text_of(&k, "fromStage"), "one");
        CHECK_STR(k.steps, "WORKDIR /1/2|COPY a b root:root ");
        CHECK_STR(text_of(&k, "startCmd"), "/bin/bash -c serve");
}

static void wrong_stages_have_their_line(void)
{
        ERRORS("FROM a AS x\nFROM b AS x\nCOPY --from=x /a /b\nCOPY --from=7 /a /b\nCOPY --from=a /x* /y",
               "2: there is a stage 'x' already\n3: --from=x: a stage cannot copy from itself\n"
               "4: --from=7: there is no such stage before this line\n"
               "5: COPY --from: wildcards are not supported (/x*)\n");
}

int main(void)
{
        RUN(one_step_for_each_source);
        RUN(files_belong_to_root_whoever_copies);
        RUN(here_documents_are_files);
        RUN(add_is_a_copy_that_may_unpack);
        RUN(wrong_copies_have_their_line);
        RUN(steps_know_their_lines);
        RUN(stages_go_before_the_last_one);
        RUN(numbers_name_stages_without_a_name);
        RUN(stages_that_nothing_needs_are_left_out);
        RUN(a_stage_from_a_stage_goes_on_with_everything);
        RUN(wrong_stages_have_their_line);
        return tap_done();
}
