/* registry_aws.c - a password for ECR from an AWS access key: GetAuthorizationToken, signed by Signature Version 4. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "image/json_document.h"
#include "image/registry_auth.h"
#include "wire/base64.h"
#include "wire/sha256.h"

#define SERVICE "ecr"
#define SIGNED_HEADERS "content-type;host;x-amz-date;x-amz-target"
#define ANSWER_MAX (256u << 10)

static void hmac_text(const uint8_t key[SHA256_LEN], const char *text, uint8_t out[SHA256_LEN])
{
        hmac_sha256((struct str){(const char *)key, SHA256_LEN}, text, strlen(text), out);
}

/* The key of one day, region and service. */
static int day_key(const struct registry_auth *a, const char *day, uint8_t out[SHA256_LEN], struct err *err)
{
        AUTO_FREE char *first = NULL;

        if (asprintf(&first, "AWS4%s", a->secret) < 0)
                return err_sys(err, -ENOMEM, "sign the request to AWS");
        hmac_sha256(str_of(first), day, strlen(day), out);
        explicit_bzero(first, strlen(first));
        hmac_text(out, a->region, out);
        hmac_text(out, SERVICE, out);
        hmac_text(out, "aws4_request", out);
        return 0;
}

int aws_sign(const struct registry_auth *a, const char *host, int64_t now_s, struct aws_signed *ret, struct err *err)
{
        char body_sum[SHA256_HEX_LEN + 1], head_sum[SHA256_HEX_LEN + 1], hex[SHA256_HEX_LEN + 1], day[9], scope[128];
        char to_sign[400];
        uint8_t key[SHA256_LEN], signature[SHA256_LEN];
        AUTO_BUF struct buf head = BUF_INIT(4096);
        time_t now = (time_t)now_s;
        struct tm tm;
        int r;

        if (!gmtime_r(&now, &tm) || strftime(ret->date, sizeof(ret->date), "%Y%m%dT%H%M%SZ", &tm) == 0)
                return err_set(err, ERR_INTERNAL, "sign the request to AWS: the clock is wrong");
        memcpy(day, ret->date, 8);
        day[8] = 0;
        sha256_hex(STR(AWS_BODY), body_sum);
        r = buf_addf(&head,
                     "POST\n/\n\ncontent-type:" AWS_CONTENT_TYPE "\nhost:%s\nx-amz-date:%s\nx-amz-target:" AWS_TARGET
                     "\n\n" SIGNED_HEADERS "\n%s",
                     host, ret->date, body_sum);
        if (r == 0)
                r = day_key(a, day, key, err);
        if (r < 0)
                return r == -E2BIG ? err_set(err, ERR_INVALID, "sign the request to AWS: the host's name is too long")
                                   : r;
        sha256_hex((struct str){(const char *)buf_at(&head), head.len}, head_sum);
        (void)snprintf(scope, sizeof(scope), "%s/%s/" SERVICE "/aws4_request", day, a->region);
        (void)snprintf(to_sign, sizeof(to_sign), "AWS4-HMAC-SHA256\n%s\n%s\n%s", ret->date, scope, head_sum);
        hmac_text(key, to_sign, signature);
        explicit_bzero(key, sizeof(key));
        hex_encode(signature, sizeof(signature), hex);
        if (snprintf(ret->authorization, sizeof(ret->authorization),
                     "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=" SIGNED_HEADERS ", Signature=%s", a->key_id,
                     scope, hex) >= (int)sizeof(ret->authorization))
                return err_set(err, ERR_INVALID, "sign the request to AWS: the key id is too long");
        return 0;
}

static int bad_answer(struct err *err)
{
        return err_set(err, ERR_INVALID, "AWS answers without a token");
}

int aws_take_token(struct registry_auth *a, struct str answer, struct err *err)
{
        AUTO_BUF struct buf pair = BUF_INIT(REGISTRY_TOKEN_MAX);
        const char *token, *text, *colon;
        json_t *obj = NULL;
        int r;

        r = json_document_parse(answer, ANSWER_MAX, "answer of AWS", &obj, err);
        if (r < 0)
                return r;
        token = json_string_value(
                json_object_get(json_array_get(json_object_get(obj, "authorizationData"), 0), "authorizationToken"));
        r = token ? base64_decode(str_of(token), &pair) : -EINVAL;
        json_decref(obj);
        text = r == 0 ? buf_cstr(&pair) : NULL;
        colon = text ? strchr(text, ':') : NULL;
        if (!colon || colon == text || strlen(text) != pair.len || !registry_token_is_valid(text, REGISTRY_TOKEN_MAX))
                return bad_answer(err);
        free(a->username);
        free(a->password);
        a->username = strndup(text, (size_t)(colon - text));
        a->password = strdup(colon + 1);
        return a->username && a->password ? 0 : err_sys(err, -ENOMEM, "credentials");
}
