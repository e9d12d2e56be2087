#include "envd/process/process_input.h"

#include <errno.h>

#include "envd/process/process.h"

static void process_input_finish(struct process_input *in, int r)
{
        list_remove(&in->node);
        in->process = NULL;
        in->on_done(in, r);
}

static void process_close_stdin(struct process *p)
{
        loop_del(&p->in);
        close_fd(&p->in.fd);
}

/* Work on the first input: 0 done, -EAGAIN must wait, other negative errno: failed. */
static int process_input_write(struct process *p, struct process_input *in)
{
        if (in->is_close) {
                process_close_stdin(p);
                return 0;
        }
        while (in->bytes.len) {
                ssize_t n = p->in.fd < 0 ? -EBADF : buf_drain(&in->bytes, p->in.fd);

                if (n < 0)
                        return (int)n;
        }
        return 0;
}

static void process_inputs_advance(struct process *p)
{
        while (!list_is_empty(&p->inputs)) {
                struct process_input *in = LIST_ENTRY(p->inputs.next, struct process_input, node);
                int r = process_input_write(p, in);

                if (r == -EAGAIN) {
                        if (!p->in.loop && (r = loop_add(p->table->loop, &p->in, EPOLLOUT)) < 0)
                                process_input_finish(in, r);
                        return;
                }
                process_input_finish(in, r);
        }
        loop_del(&p->in); /* in the loop only while an input waits: a pipe without a reader would report for ever */
}

static void process_stdin_writable(struct io *io, uint32_t events)
{
        (void)events;
        process_inputs_advance(CONTAINER_OF(io, struct process, in));
}

void process_inputs_init(struct process *p, int fd)
{
        p->in = (struct io){.fd = fd, .on = process_stdin_writable};
        list_init(&p->inputs);
}

void process_input_start(struct process *p, struct process_input *in)
{
        in->process = p;
        list_push_back(&p->inputs, &in->node);
        if (!p->in.loop) /* otherwise other inputs wait before this one */
                process_inputs_advance(p);
}

void process_input_cancel(struct process_input *in)
{
        struct process *p = in->process;

        if (!p)
                return;
        list_remove(&in->node);
        in->process = NULL;
        if (p->in.loop)
                process_inputs_advance(p);
}

void process_inputs_drop(struct process *p)
{
        struct list *at;

        loop_del(&p->in);
        while ((at = p->inputs.next) != &p->inputs)
                process_input_finish(LIST_ENTRY(at, struct process_input, node), -EPIPE);
}
