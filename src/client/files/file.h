/* file.h - what the files of file calls share. */
#pragma once
#include "client/sandbox/box.h"

#define PATH_BYTES_MAX 4096u

int check_path(const char *path, struct sg_error *err);
int check_file_options(const struct sg_file_options *o, struct sg_error *err);
extern const struct sg_file_options file_usual_options;
