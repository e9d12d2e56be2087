/* run_dir.h - /run/sandglass: what all data directories of this machine must agree about, until the next boot. */
#pragma once

#define RUN_DIR "/run/sandglass"

int run_dir_open(void); /* made if need be; an fd or a negative errno */
