/* template.h - the parts of `sandglass template`.  argv[0] is the word after `template`; they return the exit code. */
#pragma once

int template_build_main(int argc, char **argv);
int template_check_main(int argc, char **argv);
int template_list_main(int argc, char **argv);
int template_show_main(int argc, char **argv);
int template_tag_main(int argc, char **argv);
int template_rollback_main(int argc, char **argv);
int template_delete_main(int argc, char **argv);
int template_logs_main(int argc, char **argv);
