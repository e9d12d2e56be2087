/* serve.h - the commands that own a data directory: serve, down, template base, criu.  argv[0] is the command's name; they return
 * the exit code: 0, 1 failed, 2 wrong use. */
#pragma once

int serve_main(int argc, char **argv);
int down_main(int argc, char **argv);
int template_base_main(int argc, char **argv); /* `template base` */
int criu_main(int argc, char **argv);

extern const char serve_usage[], down_usage[], template_base_usage[], criu_usage[];
