/* stream_rig.h - answers that are streams of messages, for the tests of commands and watches. */
#pragma once
#include "library_rig.h"

/* Envelopes as an answer: pairs of flags and text, ended by NULL; the text lives as long as the program. */
static inline struct fake_answer envelopes(const char *head, const char *first, ...)
{
        char *bytes = calloc(1, 1u << 20);
        size_t n = 0, head_len = strlen(head);
        const char *text = first;
        va_list ap;

        memcpy(bytes, head, head_len);
        n = head_len;
        va_start(ap, first);
        for (; text; text = va_arg(ap, const char *)) {
                size_t len = strlen(text + 1);
                const uint8_t frame[] = {(uint8_t)text[0] - '0', (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                         (uint8_t)(len >> 8), (uint8_t)len};

                memcpy(bytes + n, frame, sizeof(frame));
                memcpy(bytes + n + sizeof(frame), text + 1, len);
                n += sizeof(frame) + len;
        }
        va_end(ap);
        return (struct fake_answer){.bytes = bytes, .n = n, .closes = true};
}
#define STREAM_HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/connect+json\r\n\r\n"
#define STREAM(...) envelopes(STREAM_HEAD, __VA_ARGS__, NULL)
#define START "0{\"event\":{\"start\":{\"pid\":7}}}"
#define HELLO "0{\"event\":{\"data\":{\"stdout\":\"aGVsbG8=\"}}}"
#define END "0{\"event\":{\"end\":{\"exited\":true,\"status\":\"exit status 0\"}}}"
#define LAST "2{}"
