#include "base/auto.h"
#include "base/buf.h"
#include "base/err.h"
#include "image/image_ref.h"
#include "image/registry_auth.h"

#include "tap.h"

static int decode(const char *text, struct registry_auth *a, struct err *err)
{
        json_t *obj = json_loads(text, JSON_DECODE_ANY, NULL);
        int r = registry_auth_decode(obj, a, err);

        json_decref(obj);
        return r;
}

static void credentials_are_decoded(void)
{
        struct registry_auth a = {0};
        struct err err = {0};

        CHECK_INT(registry_auth_decode(NULL, &a, &err), ==, 0);
        CHECK_INT(a.kind, ==, REGISTRY_AUTH_NONE);
        CHECK_INT(decode("null", &a, &err), ==, 0);
        CHECK_INT(decode("{\"type\":\"registry\",\"username\":\"u\",\"password\":\"p:q\"}", &a, &err), ==, 0);
        CHECK_INT(a.kind, ==, REGISTRY_AUTH_PASSWORD);
        CHECK_STR(a.password, "p:q");
        registry_auth_done(&a);
        CHECK(!a.password);
}

static void bad_credentials_are_named_and_not_shown(void)
{
        static const struct {
                const char *json, *words;
        } cases[] = {
                {"[]", "not an object"},
                {"{}", "type is missing"},
                {"{\"type\":\"x\"}", "none of registry, aws, gcp"},
                {"{\"type\":\"registry\",\"username\":\"u\"}", "password is missing"},
                {"{\"type\":\"registry\",\"username\":\"u:v\",\"password\":\"s3cret\"}", "has a colon"},
                {"{\"type\":\"aws\",\"awsAccessKeyId\":\"A\",\"awsSecretAccessKey\":\"s3cret\"}",
                 "awsRegion is missing"},
                {"{\"type\":\"aws\",\"awsAccessKeyId\":\"A\",\"awsSecretAccessKey\":\"s3cret\",\"awsRegion\":\"a.evil."
                 "example/\"}",
                 "not the name of a region"},
                {"{\"type\":\"aws\",\"awsAccessKeyId\":\"A\\r\\nB\",\"awsSecretAccessKey\":\"s3cret\",\"awsRegion\":"
                 "\"a\"}",
                 "awsAccessKeyId has other characters"},
                {"{\"type\":\"gcp\",\"serviceAccountJson\":{}}", "serviceAccountJson"},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct registry_auth a = {0};
                struct err err = {0};

                CHECK_INT(decode(cases[i].json, &a, &err), <, 0);
                CHECK_INT(err.kind, ==, ERR_INVALID);
                if (!strstr(err.msg, cases[i].words))
                        CHECK_STR(err.msg, cases[i].words);
                CHECK(!strstr(err.msg, "s3cret"));
        }
}

static void credentials_of_a_cloud_are_for_its_registries(void)
{
        static const struct {
                const char *image;
                bool aws, gcp;
        } cases[] = {
                {"1.dkr.ecr.eu-west-1.amazonaws.com/a", true, false},
                {"1.dkr.ecr.cn-north-1.amazonaws.com.cn/a", true, false},
                {"gcr.io/a/b", false, true},
                {"eu.gcr.io/a/b", false, true},
                {"europe-docker.pkg.dev/a/b/c", false, true},
                {"amazonaws.com.evil.example/a", false, false},
                {"evilgcr.io/a", false, false},
                {"python", false, false},
        };

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                struct image_ref ref;
                struct err err = {0};

                CHECK_INT(image_ref_parse(str_of(cases[i].image), &ref, &err), ==, 0);
                CHECK_INT(registry_auth_check_host(&(struct registry_auth){.kind = REGISTRY_AUTH_AWS}, &ref, &err) == 0,
                          ==, cases[i].aws);
                CHECK_INT(registry_auth_check_host(&(struct registry_auth){.kind = REGISTRY_AUTH_GCP}, &ref, &err) == 0,
                          ==, cases[i].gcp);
        }
}

/* The signature is what another implementation makes of the same request. */
static void requests_to_aws_are_signed(void)
{
        struct registry_auth a = {0};
        struct aws_signed s;
        struct err err = {0};

        CHECK_INT(decode("{\"type\":\"aws\",\"awsAccessKeyId\":\"AKIDEXAMPLE\",\"awsSecretAccessKey\":"
                         "\"wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY\",\"awsRegion\":\"us-east-1\"}",
                         &a, &err),
                  ==, 0);
        CHECK_INT(aws_sign(&a, "api.ecr.us-east-1.amazonaws.com", 1700000000, &s, &err), ==, 0);
        CHECK_STR(s.date, "20231114T221320Z");
        CHECK_STR(s.authorization, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20231114/us-east-1/ecr/aws4_request, "
                                   "SignedHeaders=content-type;host;x-amz-date;x-amz-target, "
                                   "Signature=b93ef49160000fe6f3d8f2244aa7515e31956957555e0fdec6b48cfe31aff091");
        CHECK_INT(aws_take_token(&a, STR("{\"authorizationData\":[{\"authorizationToken\":\"QVdTOnBhc3M=\"}]}"), &err),
                  ==, 0);
        CHECK_STR(a.username, "AWS");
        CHECK_STR(a.password, "pass");
        CHECK_INT(aws_take_token(&a, STR("{\"authorizationData\":[]}"), &err), <, 0);
        CHECK_INT(aws_take_token(&a, STR("{\"authorizationData\":[{\"authorizationToken\":\"bm9jb2xvbg==\"}]}"), &err),
                  <, 0);
        CHECK_INT(aws_take_token(&a, STR("no"), &err), <, 0);
        registry_auth_done(&a);
}

static void answers_of_google_have_a_token(void)
{
        struct registry_auth a = {.kind = REGISTRY_AUTH_GCP};
        AUTO_BUF struct buf form = BUF_INIT(4096);
        struct err err = {0};

        CHECK_INT(gcp_take_token(&a, STR("{\"access_token\":\"t\"}"), &err), ==, 0);
        CHECK_STR(a.username, "oauth2accesstoken");
        CHECK_STR(a.password, "t");
        CHECK_INT(gcp_take_token(&a, STR("{\"access_token\":\"a b\"}"), &err), <, 0);
        CHECK_INT(gcp_take_token(&a, STR("{}"), &err), <, 0);
        a.service_account = strdup("{\"client_email\":\"a\",\"private_key\":\"x\"}");
        CHECK_INT(gcp_token_form(&a, "https://t", 1700000000, &form, &err), <, 0);
        CHECK(strstr(err.msg, "not an RSA key"));
        registry_auth_done(&a);
}

int main(void)
{
        RUN(credentials_are_decoded);
        RUN(bad_credentials_are_named_and_not_shown);
        RUN(credentials_of_a_cloud_are_for_its_registries);
        RUN(requests_to_aws_are_signed);
        RUN(answers_of_google_have_a_token);
        return tap_done();
}
