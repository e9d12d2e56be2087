/* process_event.h - events of a process as Connect envelopes.  The hot path of the daemon: each read of a pipe
 * becomes one envelope, encoded once and given to every subscriber. */
#pragma once
#include <jansson.h>
#include <stdint.h>

#include "base/str.h"

#define OUTPUT_READ_MAX (32u << 10)
#define OUTPUT_PTY_READ_MAX (16u << 10)

enum output_kind { OUTPUT_STDOUT, OUTPUT_STDERR, OUTPUT_PTY };

/* Memory to read output into: OUTPUT_READ_MAX bytes, shared by all processes. */
uint8_t *process_event_read_buffer(void);
/* {"event":{"data":{"stdout":"<base64>"}}} as an envelope, of n <= OUTPUT_READ_MAX bytes.  Valid until the next
 * call. */
struct str process_event_data(enum output_kind kind, const void *p, size_t n);
/* The same for a subscriber that asked for offsets: "offset" of its first byte, and "dropped" bytes before it if
 * there are any. */
struct str process_event_data_at(enum output_kind kind, const void *p, size_t n, uint64_t offset, uint64_t dropped);
struct str process_event_keepalive(void);
struct str process_event_start(uint32_t pid);
/* The same with the offset of the first byte that follows, how many bytes of those asked for are lost, and the offset of the
 * first byte that is not written yet: up to there the output is kept, and follows at once.  is_ended: the end event follows then. */
struct str process_event_start_at(uint32_t pid, uint64_t offset, uint64_t dropped, uint64_t next, bool is_ended);

#define PROCESS_EVENT_STATUS_MAX 64
/* "exit status 3", "signal: killed (core dumped)" for a status of waitid: code is CLD_*. */
void process_event_status_text(int code, int status, char out[PROCESS_EVENT_STATUS_MAX]);
/* {"event":{"end":{...}}}; NULL out of memory. */
json_t *process_event_end(int code, int status);
/* The same with "offset": how many bytes of output there were. */
json_t *process_event_end_at(int code, int status, uint64_t offset);
