/* cli.h - the commands that talk to a server like any client, doctor, and trust.  argv[0] is the command's name; they return the
 * exit code: the remote command's for run and exec, else 0, 1 failed, 2 wrong use. */
#pragma once

int run_main(int argc, char **argv);
int exec_main(int argc, char **argv);
int ps_main(int argc, char **argv);
int kill_main(int argc, char **argv);
int pause_main(int argc, char **argv);
int resume_main(int argc, char **argv);
int snapshot_main(int argc, char **argv);
int snapshots_main(int argc, char **argv);
int fork_main(int argc, char **argv);
int rollback_main(int argc, char **argv);
int lost_main(int argc, char **argv);
int df_main(int argc, char **argv);
int image_main(int argc, char **argv);
int key_main(int argc, char **argv);
int credentials_main(int argc, char **argv);
int env_main(int argc, char **argv);
int doctor_main(int argc, char **argv);
int trust_main(int argc, char **argv);
int template_cli_main(int argc, char **argv); /* `template`, without `template base` */
int create_main(int argc, char **argv);
int info_main(int argc, char **argv);
int shell_main(int argc, char **argv);
int cp_main(int argc, char **argv);
int logs_main(int argc, char **argv);
int code_main(int argc, char **argv);
int notebook_main(int argc, char **argv);
int mcp_main(int argc, char **argv);
int agent_cli_main(int argc, char **argv);

extern const char run_usage[], exec_usage[], ps_usage[], kill_usage[], doctor_usage[], trust_usage[];
extern const char template_usage[], create_usage[], info_usage[], shell_usage[], cp_usage[], logs_usage[];
extern const char code_usage[], notebook_usage[], mcp_usage[];
extern const char credentials_usage[], agent_usage[];
extern const char df_usage[], lost_usage[], key_usage[], env_usage[], image_usage[];
extern const char pause_usage[], resume_usage[], snapshot_usage[], snapshots_usage[], fork_usage[], rollback_usage[];
