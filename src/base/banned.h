/* banned.h - calls that cut, overflow or guess are compile errors (included from the command line everywhere). */
#pragma once
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang: macros where the C library checks sizes */
#undef sprintf
#undef vsprintf
#pragma GCC poison strcpy strcat sprintf vsprintf strncpy strncat strtok atoi atol atof gets
