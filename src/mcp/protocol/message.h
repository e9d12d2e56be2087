/* message.h - what every transport does with a message that it has received. */
#pragma once
#include <jansson.h>
#include <stdbool.h>

struct jsonrpc_message;
struct session;
struct stream;

#define META_VERSION "io.modelcontextprotocol/protocolVersion"

/* Why an array of messages is refused as a whole; NULL: it is not, or `value` is one message. */
const char *message_batch_refusal(const json_t *value, const char *version);
/* One message, or an array of them: requests become calls that answer on the stream, also those that are wrong.  `value` is borrowed. */
void message_take(struct session *s, struct stream *st, json_t *value);
bool message_is_initialize(json_t *value, struct jsonrpc_message *ret);
/* A text in the `_meta` of params; NULL: there is none. */
const char *message_envelope(const json_t *params, const char *key);
