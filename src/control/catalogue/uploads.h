/* uploads.h - archives that clients upload for COPY steps: <data>/uploads/<number of the team>/<hash>.
 *
 * A file is written under another name (".up-…") and renamed when it is whole, so an archive that is there is complete.  An
 * archive that no build has used for a while is removed; the clients upload it again then. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "control/catalogue/upload_stream.h"

struct err;

#define UPLOADS_KEPT_S (7 * 24 * 3600) /* without being used */
#define UPLOAD_BEGUN_KEPT_S 7200       /* an upload that nobody writes to any more */

#define UPLOAD_BEGUN ".up-" /* what names begin with while the file is written */

struct uploads {
        int dir; /* owned; -1: none */
        struct upload_writer writer;
};

struct upload {  /* one that is written at once (for clients: upload_stream.h); zeroed with fd -1: none */
        int fd;  /* owned */
        int dir; /* owned: of the team */
        char hash[65];
        char name[40]; /* while it is written */
};

int uploads_init(struct uploads *u, struct loop *loop, const char *dir, struct err *err); /* makes the directory */
void uploads_done(struct uploads *u);                                                     /* also zeroed */

/* Noted as used, if it is there: it stays for the build that asks. */
bool uploads_has(const struct uploads *u, int64_t team, const char *hash);
/* The archive, for reading, noted as used; the fd is the caller's.  ERR_NOT_FOUND: it was not uploaded. */
int uploads_open(const struct uploads *u, int64_t team, const char *hash, int *ret_fd, struct err *err);

/* ERR_NO_SPACE and others from the disk; nothing is left then. */
int upload_begin(const struct uploads *u, int64_t team, const char *hash, struct upload *ret, struct err *err);
int upload_add(struct upload *up, const void *p, uint64_t n, struct err *err);
int upload_end(struct upload *up, struct err *err); /* from now on the archive is there */
void upload_drop(struct upload *up);                /* fine after upload_end() */

/* Remove what was not used for long, and what crashed uploads left. */
void uploads_collect(const struct uploads *u, int64_t now_s);

/* ---- for upload_stream.c ---- */
int uploads_team_dir(const struct uploads *u, int64_t team, bool make); /* an fd, the caller's; negative errno */
int uploads_fail(struct err *err, int r);                               /* *err from a negative errno of the disk */
