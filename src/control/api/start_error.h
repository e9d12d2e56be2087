/* start_error.h - why a sandbox could not be started or begun again, in the API's words. */
#pragma once

struct err;

struct start_error {
        unsigned status;
        const char *code;           /* error_code */
        const char *before, *after; /* text around the reason */
};
struct start_error start_error_of(const struct err *err);
