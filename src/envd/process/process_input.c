#include "envd/process/process_input.h"

#include <errno.h>

#include "envd/process/process.h"

static void finish(struct input *in, int r)
{
        list_remove(&in->node);
        in->process = NULL;
        in->on_done(in, r);
}

static void close_stdin(struct process *p)
{
        loop_del(&p->in);
        close_fd(&p->in.fd);
}

/* Work on the first input: 0 done, -EAGAIN must wait, other negative errno: failed. */
static int work(struct process *p, struct input *in)
{
        if (in->is_close) {
                close_stdin(p);
                return 0;
        }
        while (in->bytes.len) {
                ssize_t n = p->in.fd < 0 ? -EBADF : buf_drain(&in->bytes, p->in.fd);

                if (n < 0)
                        return (int)n;
        }
        return 0;
}

static void advance(struct process *p)
{
        while (!list_is_empty(&p->inputs)) {
                struct input *in = LIST_ENTRY(p->inputs.next, struct input, node);
                int r = work(p, in);

                if (r == -EAGAIN) {
                        if (!p->in.loop && (r = loop_add(p->table->loop, &p->in, EPOLLOUT)) < 0)
                                finish(in, r);
                        return;
                }
                finish(in, r);
        }
        loop_del(&p->in); /* registered only while something waits: a pipe without reader reports for ever */
}

static void on_writable(struct io *io, uint32_t events)
{
        (void)events;
        advance(CONTAINER_OF(io, struct process, in));
}

void inputs_init(struct process *p, int fd)
{
        p->in = (struct io){.fd = fd, .on = on_writable};
        list_init(&p->inputs);
}

void input_start(struct process *p, struct input *in)
{
        in->process = p;
        list_push_back(&p->inputs, &in->node);
        if (!p->in.loop) /* otherwise others wait before it */
                advance(p);
}

void input_cancel(struct input *in)
{
        struct process *p = in->process;

        if (!p)
                return;
        list_remove(&in->node);
        in->process = NULL;
        if (p->in.loop)
                advance(p);
}

void inputs_drop(struct process *p)
{
        struct list *at;

        loop_del(&p->in);
        while ((at = p->inputs.next) != &p->inputs)
                finish(LIST_ENTRY(at, struct input, node), -EPIPE);
}
