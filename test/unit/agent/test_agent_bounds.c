/* What the exchanges of one token may hold, and answers that are too large or wait for their client. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>

#include "agent/api/commands.h"
#include "agent/exchange/agent.h"
#include "agent/exchange/exchange.h"
#include "agent/output/command_output.h"
#include "tap.h"

#define MIB (1u << 20)

static struct agent agent;
static struct exchange *current; /* of the request that came last; NULL: it is over */
static void (*exchange_over)(struct http_request *rq, bool is_complete);

static void request_over(struct http_request *rq, bool is_complete)
{
        current = NULL;
        exchange_over(rq, is_complete);
}

static void on_request(struct http_request *rq, void *arg)
{
        current = exchange_create(arg, rq);
        exchange_over = rq->on_close;
        rq->on_close = request_over;
}

static void stop_task(struct task *t)
{
        (void)t;
        loop_stop(agent.loop);
}

static void turns(int n)
{
        while (n--) {
                struct task t = {.run = stop_task};

                loop_post(agent.loop, &t);
                (void)loop_run(agent.loop);
        }
}

static void set_key(struct exchange *x, const char *key)
{
        (void)snprintf(x->key, sizeof(x->key), "%s", key);
}

/* A client with a request of this token, which is `current` then.  -1: failed. */
static int request_of(const char *key)
{
        static const char head[] = "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";
        int p[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p) < 0)
                return -1;
        if (http_server_accept(agent.http, p[0]) < 0 || write(p[1], head, sizeof(head) - 1) < 0)
                return close(p[1]), -1;
        turns(4);
        if (!current)
                return close(p[1]), -1;
        set_key(current, key);
        return p[1];
}

/* The status of the answer, and its body, from a client that reads it all. */
static unsigned answer_of(int fd, json_t **ret_body)
{
        AUTO_BUF struct buf text = BUF_INIT(64 * MIB);
        unsigned status = 0;
        const char *at;
        ssize_t n;

        *ret_body = NULL;
        while ((n = buf_fill(&text, fd, MIB)) != 0) {
                if (n < 0 && n != -EAGAIN)
                        return 0;
                turns(n < 0);
        }
        at = buf_cstr(&text);
        if (!at || sscanf(at, "HTTP/1.1 %u", &status) != 1 || !(at = strstr(at, "\r\n\r\n")))
                return 0;
        at += 4;
        *ret_body = json_loadb(at, text.len - (size_t)(at - (const char *)buf_at(&text)), JSON_ALLOW_NUL, NULL);
        turns(4);
        return status;
}

static const char *error_code(const json_t *body)
{
        return json_string_value(json_object_get(json_object_get(body, "error"), "code"));
}

static struct exchange *held(struct http_request *rq, const char *key)
{
        struct exchange *x = exchange_create(&agent, rq);

        if (x)
                set_key(x, key);
        return x;
}

static void let_go(struct http_request *rq)
{
        rq->on_close(rq, true);
}

static void half_of_the_connections_are_for_one_token(void)
{
        AUTO_FREE struct http_request *open = calloc(BUDGET_EXCHANGES_KEY, sizeof(*open));
        AUTO_CLOSE int c = -1, other = -1;
        json_t *body;

        for (size_t i = 0; i < BUDGET_EXCHANGES_KEY; i++)
                CHECK(held(&open[i], "greedy"));
        c = request_of("greedy");
        CHECK(c >= 0 && !exchange_may_begin(current));
        CHECK_INT(answer_of(c, &body), ==, 429);
        CHECK_STR(error_code(body), "too_many");
        json_decref(body);
        other = request_of("other");
        CHECK(other >= 0 && exchange_may_begin(current));
        tell_empty(current, 204);
        turns(4);

        let_go(&open[0]);
        c = (close(c), request_of("greedy"));
        CHECK(c >= 0 && exchange_may_begin(current));
        tell_empty(current, 204);
        turns(4);
        for (size_t i = 1; i < BUDGET_EXCHANGES_KEY; i++)
                let_go(&open[i]);
}

static void a_quarter_of_the_memory_for_output_is_for_one_token(void)
{
        struct http_request rq[3] = {0};
        struct exchange *one = held(&rq[0], "greedy"), *two = held(&rq[1], "greedy"), *other = held(&rq[2], "other");

        CHECK(exchange_take_output(one, BUDGET_OUTPUT_KEY - MIB));
        CHECK(!exchange_take_output(two, 2 * MIB));
        CHECK(exchange_take_output(two, MIB));
        CHECK(!exchange_take_output(one, 1));
        CHECK(exchange_take_output(other, MIB));
        CHECK(exchange_try_output_answer(one, MIB)); /* less than was collected */
        CHECK(exchange_take_output(two, 2 * MIB));
        for (int i = 0; i < 3; i++)
                let_go(&rq[i]);
        CHECK_INT(agent.output_bytes, ==, 0);
}

/* Zeros become six bytes each. */
static json_t *zeros(size_t n)
{
        AUTO_FREE char *bytes = calloc(1, n);

        return json_pack("{s:o}", "content", json_stringn_nocheck(bytes, n));
}

static void an_answer_that_is_too_large_is_413(void)
{
        AUTO_CLOSE int c = request_of("key");
        json_t *body;

        CHECK(c >= 0);
        tell_json(current, 200, zeros(12 * MIB));
        CHECK_INT(answer_of(c, &body), ==, 413);
        CHECK_STR(error_code(body), "too_large");
        json_decref(body);
        CHECK_INT(agent.body_bytes, ==, 0);
}

static void an_answer_counts_until_the_client_has_it(void)
{
        AUTO_CLOSE int c = request_of("key");
        struct http_request rq = {0};
        struct exchange *second = held(&rq, "key");
        json_t *body;

        CHECK(c >= 0 && exchange_try_reserve(current, 32 * MIB)); /* what the answer is made of */
        tell_json(current, 200, zeros(2 * MIB));
        turns(4);
        CHECK_INT(agent.body_bytes, >, 12 * MIB);
        CHECK_INT(agent.body_bytes, <, 13 * MIB);
        CHECK(!exchange_try_reserve(second, BUDGET_BODIES_KEY - 8 * MIB));
        CHECK_INT(answer_of(c, &body), ==, 200);
        CHECK_INT(json_string_length(json_object_get(body, "content")), ==, 2 * MIB);
        json_decref(body);
        let_go(&rq);
        CHECK_INT(agent.body_bytes, ==, 0);
}

static void a_token_whose_memory_is_used_up_gets_small_answers_only(void)
{
        struct http_request rq = {0};
        AUTO_CLOSE int large = -1, small = -1;
        json_t *body;

        CHECK(exchange_try_reserve(held(&rq, "key"), BUDGET_BODIES_KEY));
        large = request_of("key");
        CHECK(large >= 0);
        tell_json(current, 200, zeros(MIB));
        CHECK_INT(answer_of(large, &body), ==, 503);
        CHECK_STR(error_code(body), "unavailable");
        json_decref(body);
        small = request_of("key");
        CHECK(small >= 0);
        tell_json(current, 200, zeros(10));
        CHECK_INT(answer_of(small, &body), ==, 200);
        json_decref(body);
        let_go(&rq);
}

/* So much of stdout and of stderr, all zeros but the last byte. */
static void tell_zeros(struct exchange *x, size_t n)
{
        AUTO_FREE char *bytes = calloc(1, n);
        struct command_output out[2];

        bytes[n - 1] = '!';
        for (int i = 0; i < 2; i++) {
                command_output_init(&out[i], exchange_take_output, x);
                command_output_add(&out[i], (struct str){bytes, n});
        }
        command_tell(x, json_pack("{s:i}", "exit_code", 3), &out[0], &out[1]);
}

static void output_counts_as_it_waits_for_the_client(void)
{
        AUTO_CLOSE int c = request_of("key");
        const char *text;
        json_t *body;

        CHECK(c >= 0);
        tell_zeros(current, 20 * MIB);
        turns(4);
        CHECK_INT(agent.output_bytes, >, 40 * MIB);
        CHECK_INT(agent.output_bytes, <, 49 * MIB);
        CHECK_INT(answer_of(c, &body), ==, 200);
        CHECK_INT(json_integer_value(json_object_get(body, "exit_code")), ==, 3);
        CHECK(json_is_true(json_object_get(body, "truncated")));
        text = json_string_value(json_object_get(body, "stdout"));
        CHECK_INT(text[json_string_length(json_object_get(body, "stdout")) - 1], ==, '!');
        json_decref(body);
        CHECK_INT(agent.output_bytes, ==, 0);
}

static void a_token_whose_memory_for_output_is_used_up_gets_the_ends(void)
{
        struct http_request rq = {0};
        AUTO_CLOSE int c = -1;
        const char *text;
        json_t *body;

        CHECK(exchange_take_output(held(&rq, "key"), BUDGET_OUTPUT_KEY - 10 * MIB));
        c = request_of("key");
        CHECK(c >= 0);
        tell_zeros(current, 4 * MIB); /* there is room for the bytes, and not for what they become */
        CHECK_INT(agent.output_bytes, <, BUDGET_OUTPUT_KEY - 9 * MIB);
        CHECK_INT(answer_of(c, &body), ==, 200);
        CHECK_INT(json_integer_value(json_object_get(body, "exit_code")), ==, 3);
        CHECK(json_is_true(json_object_get(body, "truncated")));
        CHECK_INT(json_dumpb(body, NULL, 0, JSON_COMPACT), <, 3 * OUTPUT_LEAST);
        text = json_string_value(json_object_get(body, "stderr"));
        CHECK_INT(text[json_string_length(json_object_get(body, "stderr")) - 1], ==, '!');
        json_decref(body);
        let_go(&rq);
        CHECK_INT(agent.output_bytes, ==, 0);
}

int main(void)
{
        struct http_server_options opt = {.on_request = on_request, .arg = &agent};

        list_init(&agent.exchanges);
        if (loop_create(&agent.loop) < 0)
                return 1;
        opt.loop = agent.loop;
        if (http_server_create(&opt, &agent.http) < 0)
                return 1;
        RUN(half_of_the_connections_are_for_one_token);
        RUN(a_quarter_of_the_memory_for_output_is_for_one_token);
        RUN(an_answer_that_is_too_large_is_413);
        RUN(an_answer_counts_until_the_client_has_it);
        RUN(a_token_whose_memory_is_used_up_gets_small_answers_only);
        RUN(output_counts_as_it_waits_for_the_client);
        RUN(a_token_whose_memory_for_output_is_used_up_gets_the_ends);
        agent.http = http_server_free(agent.http);
        agent.loop = loop_free(agent.loop);
        return tap_done();
}
