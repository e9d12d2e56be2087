/* GET /sandboxes/{sandbox_id}/commands/{command_id}: the output so far, or as it comes (?stream=1). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/exchange/ask.h"
#include "agent/output/command_output.h"
#include "agent/api/commands.h"
#include "agent/exchange/event_stream.h"
#include "agent/exchange/exchange.h"
#include "agent/api/handlers.h"
#include "agent/exchange/sandbox_find.h"
#include "agent/output/text.h"
#include "base/err.h"
#include "model/ids.h"
#include "model/json_field.h"

struct command_read {
        struct command_id id;
        uint64_t from;
        bool streams;
        struct envd_process *process; /* owned */
        uint32_t pid;                 /* 0: not known yet */
        uint64_t offset, next;        /* of the next byte; where the output ended when we came */
        uint64_t dropped;
        struct command_output out, err; /* of an answer in one piece */
        struct text_decoder text[2];    /* of a stream */
        struct event_stream events;     /* the same */
};

static void read_free(struct exchange *x)
{
        struct command_read *rd = x->job;

        rd->process = envd_process_free(rd->process);
        event_stream_end(&rd->events);
        command_output_done(&rd->out);
        command_output_done(&rd->err);
        free(rd);
}

/* ---- in one piece ---- */

static void read_tell(struct exchange *x, const struct envd_process_end *end)
{
        struct command_read *rd = x->job;
        json_t *obj = json_pack("{s:s,s:I,s:s}", "command_id", rd->id.text, "pid", (json_int_t)rd->pid, "status",
                                end ? "exited" : "running");

        rd->process = envd_process_free(rd->process);
        if (end)
                obj = command_show_end(obj, end);
        obj = json_with(obj, "next", json_integer((json_int_t)rd->offset));
        if (rd->dropped)
                obj = json_with(obj, "dropped", json_integer((json_int_t)rd->dropped));
        command_tell(x, obj, &rd->out, &rd->err);
}

/* ---- as it comes ---- */

static void read_stream_output(struct command_read *rd, const struct envd_piece *piece)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        json_t *data;

        if (piece->dropped)
                event_stream_send(&rd->events, "dropped", NULL,
                                  json_pack("{s:I}", "bytes", (json_int_t)piece->dropped));
        if (text_add(&rd->text[piece->kind], piece->bytes, &text) < 0) {
                event_stream_cut(&rd->events);
                return;
        }
        data = json_pack("{s:s,s:o}", "stream", piece->kind == ENVD_STDERR ? "stderr" : "stdout", "text",
                         json_stringn_nocheck(text.len ? (const char *)buf_at(&text) : "", text.len));
        /* A client goes on behind the last id, so no id is told while half a character is kept here. */
        if (rd->text[0].held_len || rd->text[1].held_len)
                event_stream_send(&rd->events, "output", NULL, data);
        else
                event_stream_send(&rd->events, "output", &rd->offset, data);
}

/* Half a character at the very end. */
static void read_stream_rest(struct command_read *rd, enum envd_output kind)
{
        if (rd->text[kind].held_len)
                event_stream_send(&rd->events, "output", NULL,
                                  json_pack("{s:s,s:s}", "stream", kind == ENVD_STDERR ? "stderr" : "stdout", "text",
                                            "\xef\xbf\xbd"));
}

static void read_stream_end(struct exchange *x, const struct envd_process_end *end)
{
        struct command_read *rd = x->job;

        read_stream_rest(rd, ENVD_STDOUT);
        read_stream_rest(rd, ENVD_STDERR);
        event_stream_send(&rd->events, "exit", &rd->offset, command_show_end(json_object(), end));
        event_stream_finish(&rd->events);
}

static void read_drained(struct exchange *x)
{
        struct command_read *rd = x->job;

        if (rd->process)
                envd_process_resume(rd->process);
}

/* ---- what envd says ---- */

static void read_on_start(const struct envd_process_start *start, void *arg)
{
        struct exchange *x = arg;
        struct command_read *rd = x->job;

        rd->pid = start->pid;
        rd->offset = start->offset;
        rd->next = start->next;
        rd->dropped = start->dropped;
        if (rd->streams) {
                x->on_drain = read_drained;
                event_stream_begin(&rd->events, x);
                event_stream_send(&rd->events, "start", &rd->offset,
                                  json_pack("{s:s,s:I}", "command_id", rd->id.text, "pid", (json_int_t)rd->pid));
                if (rd->dropped)
                        event_stream_send(&rd->events, "dropped", NULL,
                                          json_pack("{s:I}", "bytes", (json_int_t)rd->dropped));
        } else if (!start->is_ended && rd->offset >= rd->next) {
                read_tell(x, NULL);
        } else if (start->is_ended) {
                rd->next = UINT64_MAX; /* the end comes, too */
        }
}

static void read_on_output(const struct envd_piece *piece, void *arg)
{
        struct exchange *x = arg;
        struct command_read *rd = x->job;

        rd->offset = piece->offset + piece->bytes.n;
        if (rd->streams) {
                read_stream_output(rd, piece);
                if (http_is_full(x->rq))
                        envd_process_pause(rd->process);
                return;
        }
        rd->dropped += piece->dropped;
        command_output_add(piece->kind == ENVD_STDERR ? &rd->err : &rd->out, piece->bytes);
        if (rd->offset >= rd->next)
                read_tell(x, NULL);
}

static void read_on_end(const struct envd_process_end *end, void *arg)
{
        struct exchange *x = arg;
        struct command_read *rd = x->job;
        struct envd_process_end copy = *end;

        rd->process = envd_process_free(rd->process);
        if (copy.err.kind != ERR_NONE && rd->events.x)
                event_stream_cut(&rd->events); /* the client comes again, with the last id */
        else if (copy.err.kind != ERR_NONE && strcmp(copy.code, "not_found") == 0)
                command_tell_missing(x, &rd->id);
        else if (copy.err.kind != ERR_NONE)
                command_tell_failure(x, &copy);
        else if (rd->streams)
                read_stream_end(x, &copy);
        else
                read_tell(x, &copy);
}

/* ---- the request ---- */

static void read_start(struct exchange *x)
{
        struct command_read *rd = x->job;
        struct envd_process_options opt = {
                .tag = rd->id.pid ? NULL : rd->id.text,
                .pid = rd->id.pid,
                .replays = true,
                .replay_from = rd->from,
                .on_start = read_on_start,
                .on_output = read_on_output,
                .on_end = read_on_end,
                .arg = x,
        };
        struct ask_headers h;
        struct err err = {0};

        if (rd->streams && !exchange_may_stream(x))
                return;
        ask_headers_of(x, ENVD_PORT, &h);
        opt.headers = h.list;
        if (envd_process_start(x->agent->edge, &opt, &rd->process, &err) < 0)
                tell_err(x, &err);
}

/* Where to begin: ?from=, or after the last event that a client of a stream has seen. */
static int read_decode(struct exchange *x, struct command_read *rd, struct err *err)
{
        AUTO_FREE char *from = NULL, *stream = NULL;
        struct str last = http1_value(x->rq->head, "Last-Event-ID");
        int r;

        if ((r = exchange_query(x, "from", &from, err)) < 0 || (r = exchange_query(x, "stream", &stream, err)) < 0)
                return r;
        rd->streams = stream && strcmp(stream, "0") != 0 && strcmp(stream, "false") != 0;
        if (rd->streams && last.n && parse_u64(last, 0, INT64_MAX, &rd->from) == 0)
                return 0;
        if (from && parse_u64(str_of(from), 0, INT64_MAX, &rd->from) < 0)
                return err_set(err, ERR_INVALID, "parameter 'from' must be a number of bytes");
        return 0;
}

void agent_read_command(struct exchange *x)
{
        struct command_read *rd = calloc(1, sizeof(*rd));
        struct err err = {0};

        if (!rd) {
                tell_no_memory(x);
                return;
        }
        command_output_init(&rd->out, exchange_take_output, x);
        command_output_init(&rd->err, exchange_take_output, x);
        x->job = rd;
        x->job_free = read_free;
        if (!command_id_take(x, &rd->id))
                return;
        if (read_decode(x, rd, &err) < 0)
                tell_err(x, &err);
        else
                sandbox_find_running(x, read_start);
}
