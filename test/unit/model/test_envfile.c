#include "model/envfile.h"

#include <errno.h>

#include "tap.h"

static void what_was_written_is_read_back(void)
{
        struct envfile e = {.api_url = "http://127.0.0.1:1",
                            .api_key = "e2b_00",
                            .ca_certs = "/it's a \\ dir/ca.pem",
                            .ca_bundle = "/b.pem"};
        AUTO(envfile_done) struct envfile back = {0};
        AUTO_BUF struct buf text = BUF_INIT(ENVFILE_MAX);

        CHECK_INT(envfile_format(&e, &text), ==, 0);
        CHECK_STR(buf_cstr(&text),
                  "export E2B_API_URL='http://127.0.0.1:1'\nexport E2B_API_KEY='e2b_00'\n"
                  "export NODE_EXTRA_CA_CERTS='/it'\\''s a \\ dir/ca.pem'\nexport SSL_CERT_FILE='/b.pem'\n");
        CHECK_INT(envfile_parse((struct str){(const char *)buf_at(&text), text.len}, &back), ==, 0);
        CHECK_STR(back.api_url, e.api_url);
        CHECK_STR(back.api_key, e.api_key);
        CHECK_STR(back.ca_certs, e.ca_certs);
        CHECK_STR(back.ca_bundle, e.ca_bundle);
        CHECK(!back.domain);
}

static void other_lines_are_passed_over(void)
{
        AUTO(envfile_done) struct envfile e = {0};

        CHECK_INT(envfile_parse(STR("# note\nE2B_DOMAIN=no\nexport PATH=/bin\nexport E2B_DOMAIN=a.b:1"), &e), ==, 0);
        CHECK_STR(e.domain, "a.b:1");
        CHECK(!e.api_key);
}

static void broken_text_is_refused(void)
{
        struct envfile e = {.domain = "untouched"};

        CHECK_INT(envfile_parse(STR("export E2B_DOMAIN='a"), &e), ==, -EINVAL);
        CHECK_INT(envfile_parse(STR("export E2B_DOMAIN=a\0b"), &e), ==, -EINVAL);
        CHECK_STR(e.domain, "untouched");
}

int main(void)
{
        RUN(what_was_written_is_read_back);
        RUN(other_lines_are_passed_over);
        RUN(broken_text_is_refused);
        return tap_done();
}
