/* head.h - what the head of a request without a session says about its message (PROTOCOL_STATELESS).
 *
 * The head repeats the revision, the method and the name of what is asked for: whoever stands between the client and the server may look
 * at the head only.  A message of another kind than its head says is refused. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct http1_head;
struct jsonrpc_message;

/* The request is one of those, by its head or by its body. */
bool head_is_stateless(const struct http1_head *head, const json_t *value);
/* What is missing in the head, or says something else than the message; NULL: nothing. */
const char *head_mismatch(const struct http1_head *head, const struct jsonrpc_message *msg);
