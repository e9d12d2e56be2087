/* certificate.h - the server's certificate and key, as the edges use them, and noticing that the files were renewed.
 *
 * The files are root's; edges get copies in memory.  certificate_look() compares what stat(2) says about the files, through all
 * symbolic links, with what it said before.  A pair is read when two looks in a row found the same, so that a program that is
 * just writing both files is not disturbed.  A pair that cannot be used is logged once, and the one in use stays. */
#pragma once
#include <stdbool.h>
#include <sys/stat.h>

struct conf;
struct err;

#define CERTIFICATE_LOOK_MS 1000u

struct file_stamp { /* all 0: no such file */
        dev_t device;
        ino_t inode;
        off_t size;
        struct timespec changed, modified;
};

struct pair_stamp {
        struct file_stamp cert, key;
};

struct certificate {
        char *cert_path, *key_path; /* owned */
        char *name;                 /* owned: a name that the certificate should be for */
        int cert, key;              /* owned: sealed copies of the pair in use */
        struct pair_stamp read;     /* of the files when they were read last */
        struct pair_stamp seen;     /* ... when they were looked at last */
};

/* The first pair.  ERR_INVALID says what is wrong with it.  certificate_done() in any case. */
int certificate_init(struct certificate *c, const struct conf *conf, struct err *err);
bool certificate_look(struct certificate *c); /* is another pair in use now? */
void certificate_done(struct certificate *c);
