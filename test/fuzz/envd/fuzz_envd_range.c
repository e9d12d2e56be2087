#include "envd/files/accept_encoding.h"
#include "envd/files/content_headers.h"
#include "fuzz.h"

/* Whatever comes before it, a plain refusal at the end holds. */
static void check_coding(struct str value)
{
        static const char refusal[] = ",gzip;q=0,identity;q=0.000";
        AUTO_BUF struct buf b = BUF_INIT(1u << 20);

        (void)accept_encoding_choose(value);
        if (buf_add(&b, value.p, value.n) == 0 && buf_add(&b, refusal, sizeof(refusal) - 1) == 0)
                MUST(accept_encoding_choose((struct str){(const char *)buf_at(&b), b.len}) == ACCEPT_NOTHING_KNOWN);
}

/* The first byte is the file's size, in steps that make all the edges reachable; the rest is a header's value. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct byte_range ranges[BYTE_RANGES_MAX];
        AUTO_BUF struct buf out = BUF_INIT(1u << 20);
        char date[HTTP_DATE_MAX];
        uint64_t length;
        struct str value;
        time_t t, again;
        uint8_t *copy;
        int n;

        if (size == 0)
                return 0;
        length = data[0] < 128 ? data[0] : (uint64_t)1 << (data[0] % 63);
        copy = fuzz_copy(data + 1, size - 1);
        value = (struct str){(const char *)copy, size - 1};
        n = byte_ranges_parse(value, length, ranges);
        MUST(n <= BYTE_RANGES_MAX);
        for (int i = 0; i < n; i++)
                MUST(ranges[i].from < length && ranges[i].length > 0 && ranges[i].length <= length - ranges[i].from);
        if (http_date_parse(value, &t) == 0) {
                http_date_format(t, date);
                MUST(http_date_parse((struct str){date, strlen(date)}, &again) == 0 && again == t);
        }
        if (content_disposition(value, &out) == 0)
                for (size_t i = 0; i < out.len; i++)
                        MUST((buf_at(&out)[i] >= ' ' && buf_at(&out)[i] < 127) || buf_at(&out)[i] == '\t');
        MUST(content_type_of_bytes(copy, value.n < CONTENT_SNIFF_MAX ? value.n : CONTENT_SNIFF_MAX));
        (void)content_type_of_name(value);
        check_coding(value);
        free(copy);
        return 0;
}
