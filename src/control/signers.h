/* signers.h - which sandbox a signed file URL is meant for, when its address names none. */
#pragma once

struct control;

/* query: of the URL, as sent.  The id, borrowed until the sandbox goes; NULL: nobody's.  All tokens are tried. */
const char *signers_find(struct control *c, const char *query, const char *operation);
