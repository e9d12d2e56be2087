#include "wire/sha256.h"

#include "base/auto.h"
#include "wire/base64.h"
#include "wire/sha256_mix.h"

#include "tap.h"

static void digests_match_fips_180(void)
{
        static const struct {
                const char *text, *hex;
        } cases[] = {
                {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                /* around the end of a block */
                {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                 "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
                {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                 "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
                {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                 "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
                {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                 "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
                {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                {"abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqrlmnopqrs"
                 "mnopqrstnopqrstu",
                 "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"},
        };
        char hex[SHA256_HEX_LEN + 1];

        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
                sha256_hex(str_of(cases[i].text), hex);
                CHECK_STR(hex, cases[i].hex);
        }
}

static void million_a_match_fips_180(void)
{
        uint8_t piece[1000], digest[SHA256_LEN];
        char hex[SHA256_HEX_LEN + 1];
        struct sha256 s;

        memset(piece, 'a', sizeof(piece));
        sha256_init(&s);
        for (int i = 0; i < 1000; i++)
                sha256_add(&s, piece, sizeof(piece));
        sha256_end(&s, digest);
        hex_encode(digest, sizeof(digest), hex);
        CHECK_STR(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void both_ways_of_mixing_give_the_same(void)
{
        uint8_t blocks[7 * SHA256_BLOCK];
        uint32_t a[8], b[8];

        for (size_t i = 0; i < sizeof(blocks); i++)
                blocks[i] = (uint8_t)(i * 31 + i / 7);
        for (size_t n = 0; n <= 7; n++) {
                for (uint32_t i = 0; i < 8; i++)
                        a[i] = b[i] = 0x9e3779b9u * (i + 1);
                sha256_mix(a, blocks, n);
                sha256_mix_plain(b, blocks, n);
                CHECK(memcmp(a, b, sizeof(a)) == 0);
        }
}

static void pieces_give_the_same_as_the_whole(void)
{
        uint8_t text[200], whole[SHA256_LEN], pieces[SHA256_LEN];

        for (size_t i = 0; i < sizeof(text); i++)
                text[i] = (uint8_t)(i * 7);
        for (size_t n = 0; n <= sizeof(text); n++) /* crosses every padding case */
                for (size_t cut = 0; cut <= n; cut++) {
                        struct sha256 s;

                        sha256(text, n, whole);
                        sha256_init(&s);
                        sha256_add(&s, text, cut);
                        sha256_add(&s, text + cut, n - cut);
                        sha256_end(&s, pieces);
                        CHECK(memcmp(whole, pieces, SHA256_LEN) == 0);
                }
}

static void hmac_matches_rfc_4231(void)
{
        uint8_t digest[SHA256_LEN];
        char hex[SHA256_HEX_LEN + 1], key[131], data[50];

        memset(key, 0x0b, 20);
        hmac_sha256((struct str){key, 20}, "Hi There", 8, digest);
        hex_encode(digest, sizeof(digest), hex);
        CHECK_STR(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");

        hmac_sha256(STR("Jefe"), "what do ya want for nothing?", 28, digest);
        hex_encode(digest, sizeof(digest), hex);
        CHECK_STR(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");

        memset(key, 0xaa, sizeof(key));
        memset(data, 0xdd, sizeof(data));
        hmac_sha256((struct str){key, 20}, data, sizeof(data), digest);
        hex_encode(digest, sizeof(digest), hex);
        CHECK_STR(hex, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");

        hmac_sha256((struct str){key, 131}, "Test Using Larger Than Block-Size Key - Hash Key First", 54, digest);
        hex_encode(digest, sizeof(digest), hex);
        CHECK_STR(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");

        hmac_sha256((struct str){NULL, 0}, NULL, 0, digest);
        hex_encode(digest, sizeof(digest), hex);
        CHECK_STR(hex, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void url_signature_matches_the_clients(void)
{
        static const char raw[] = "hello.txt:read:user:0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
        char text[BASE64_LEN(SHA256_LEN) + 1];
        uint8_t digest[SHA256_LEN];

        sha256(raw, sizeof(raw) - 1, digest);
        text[base64_encode(digest, sizeof(digest), false, text)] = 0;
        CHECK_STR(text, "gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E");
}

int main(void)
{
        RUN(digests_match_fips_180);
        RUN(million_a_match_fips_180);
        RUN(both_ways_of_mixing_give_the_same);
        RUN(pieces_give_the_same_as_the_whole);
        RUN(hmac_matches_rfc_4231);
        RUN(url_signature_matches_the_clients);
        return tap_done();
}
