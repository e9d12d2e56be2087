/* show.h - sandboxes and their URLs as the agent API shows them. */
#pragma once
#include <jansson.h>
#include <stdint.h>

/* From an object as the API shows sandboxes (one of a list, or one by itself).  New reference; NULL: out of memory. */
json_t *agent_show_sandbox(const json_t *shown);
/* "https://<port>-<id>.<domain>"; port 0: "https://<id>.<domain>", which is port 80. */
json_t *agent_show_url(const char *id, const char *domain, uint16_t port);
/* "running" or "paused". */
const char *agent_show_status(const json_t *shown);
/* Of a sandbox that is gone: "status": "stopped", with the reason. */
json_t *agent_show_ended(const json_t *end);
