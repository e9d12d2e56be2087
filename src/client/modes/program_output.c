#include "client/modes/program_output.h"

#include <errno.h>
#include <inttypes.h>

void program_output_init(struct program_output *o, const struct sg_program *program)
{
        size_t line_max = program->line_max ? program->line_max : SG_LINE_MAX;

        *o = (struct program_output){.program = program,
                                     .bytes_max = program->output_max ? program->output_max : SG_PROGRAM_OUTPUT_MAX};
        line_reader_init(&o->out, line_max);
        line_reader_init(&o->err, line_max);
}

void program_output_done(struct program_output *o)
{
        line_reader_done(&o->out);
        line_reader_done(&o->err);
        message_memory_done(&o->memory);
}

static int tell(struct program_output *o, const struct line *line, bool is_stderr)
{
        struct sg_message message;
        int r = message_decode(line, is_stderr, &o->memory, &message);

        if (r < 0)
                return error_no_memory(&o->why);
        o->end.messages += message.is_json;
        o->end.texts += !message.is_json;
        o->end.is_cut = o->end.is_cut || message.is_cut;
        if (o->program->on_message && o->program->on_message(&message, o->program->arg) < 0)
                return error_set(&o->why, SG_CANCELLED, "ended by the caller");
        return 0;
}

static int on_out(const struct line *line, void *arg)
{
        return tell(arg, line, false);
}

static int on_err(const struct line *line, void *arg)
{
        return tell(arg, line, true);
}

static int passed(struct program_output *o, int r, struct sg_error *err)
{
        if (r == 0)
                return 0;
        if (o->why.kind == SG_OK)
                (void)error_no_memory(&o->why); /* of a reader of lines */
        return error_pass(err, &o->why);
}

int program_output_feed(struct program_output *o, bool is_stderr, struct str piece, struct sg_error *err)
{
        if (o->why.kind != SG_OK)
                return error_pass(err, &o->why);
        o->bytes += piece.n;
        if (o->bytes > o->bytes_max) {
                (void)error_set(&o->why, SG_TOO_LARGE, "the program printed more than %" PRIu64 " bytes", o->bytes_max);
                return error_pass(err, &o->why);
        }
        return passed(o, line_reader_feed(is_stderr ? &o->err : &o->out, piece, is_stderr ? on_err : on_out, o), err);
}

int program_output_finish(struct program_output *o, struct sg_error *err)
{
        int r;

        if (o->why.kind != SG_OK)
                return error_pass(err, &o->why);
        r = line_reader_finish(&o->out, on_out, o);
        if (r == 0)
                r = line_reader_finish(&o->err, on_err, o);
        return passed(o, r, err);
}
