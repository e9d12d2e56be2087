#include "tap.h"

#include <errno.h>

#include "base/auto.h"
#include "io/secret_box.h"

#define KEY_A "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define KEY_B "ffeeddccbbaa99887766554433221100FFEEDDCCBBAA99887766554433221100"
#define SECRET STR("sk-a secret with \0 and \xff")

static struct secret_keys keys_of(const char *text)
{
        struct secret_keys k;

        if (secret_keys_parse(str_of(text), &k) < 0)
                abort();
        return k;
}

static uint8_t box[256], out[256];

static struct str seal(const struct secret_keys *k, const char *place, struct str secret)
{
        if (secret_box_seal(k, str_of(place), secret, box) < 0)
                abort();
        return (struct str){(const char *)box, secret.n + SECRET_BOX_EXTRA};
}

static bool is_out(struct str secret)
{
        return memcmp(out, secret.p, secret.n) == 0;
}

static void what_was_sealed_can_be_opened_again(void)
{
        const struct secret_keys k = keys_of(KEY_A);
        struct str sealed = seal(&k, "here", SECRET);

        CHECK(!memmem(sealed.p, sealed.n, "secret", 6));
        CHECK_INT(secret_box_open(&k, STR("here"), sealed, out), ==, 0);
        CHECK(is_out(SECRET));
        sealed = seal(&k, "", STR(""));
        CHECK_INT(secret_box_open(&k, STR(""), sealed, out), ==, 0);
}

static void the_same_secret_looks_different_each_time(void)
{
        const struct secret_keys k = keys_of(KEY_A);
        uint8_t first[sizeof(box)];
        struct str sealed = seal(&k, "here", SECRET);

        memcpy(first, box, sealed.n);
        sealed = seal(&k, "here", SECRET);
        CHECK(memcmp(first + 9, box + 9, sealed.n - 9) != 0);
}

static void any_change_is_noticed(void)
{
        const struct secret_keys k = keys_of(KEY_A);
        const struct str sealed = seal(&k, "here", SECRET);

        for (size_t i = 0; i < sealed.n; i++) {
                int r;

                box[i] ^= 0x40;
                memset(out, 'x', sizeof(out));
                r = secret_box_open(&k, STR("here"), sealed, out);
                CHECK(r == -EBADMSG || r == -ENOKEY);
                CHECK(!is_out(SECRET));
                box[i] ^= 0x40;
        }
        for (size_t n = 0; n < sealed.n; n++)
                CHECK_INT(secret_box_open(&k, STR("here"), (struct str){sealed.p, n}, out), <, 0);
        CHECK_INT(secret_box_open(&k, STR("here"), sealed, out), ==, 0);
}

static void it_opens_at_its_own_place_only(void)
{
        const struct secret_keys k = keys_of(KEY_A);
        const struct str sealed = seal(&k, "here", SECRET);

        CHECK_INT(secret_box_open(&k, STR("there"), sealed, out), ==, -EBADMSG);
        CHECK_INT(secret_box_open(&k, STR("her"), sealed, out), ==, -EBADMSG);
        CHECK_INT(secret_box_open(&k, STR(""), sealed, out), ==, -EBADMSG);
        for (size_t i = 0; i < sealed.n - SECRET_BOX_EXTRA; i++)
                CHECK_INT(out[i], ==, 0);
}

static void another_key_is_told_apart_from_damage(void)
{
        const struct secret_keys a = keys_of(KEY_A), b = keys_of(KEY_B), none = {0};
        const struct str sealed = seal(&a, "here", SECRET);

        CHECK_INT(secret_box_open(&b, STR("here"), sealed, out), ==, -ENOKEY);
        CHECK_INT(secret_box_open(&none, STR("here"), sealed, out), ==, -ENOKEY);
        CHECK_INT(secret_box_seal(&none, STR("here"), SECRET, out), ==, -ENOKEY);
        CHECK_INT(secret_box_key(&b, sealed), ==, SECRET_BOX_UNKNOWN);
        CHECK_INT(secret_box_key(&a, STR("")), ==, SECRET_BOX_UNKNOWN);
}

static void the_first_key_seals_and_all_open(void)
{
        const struct secret_keys old = keys_of(KEY_A), both = keys_of("# rotated\n" KEY_B "\n\n  " KEY_A "  \r\n");
        struct str sealed = seal(&old, "here", SECRET);

        CHECK_INT(both.count, ==, 2);
        CHECK_INT(secret_box_key(&both, sealed), ==, SECRET_BOX_OLDER);
        CHECK_INT(secret_box_open(&both, STR("here"), sealed, out), ==, 0);
        sealed = seal(&both, "here", SECRET);
        CHECK_INT(secret_box_key(&both, sealed), ==, SECRET_BOX_NEWEST);
        CHECK_INT(secret_box_open(&old, STR("here"), sealed, out), ==, -ENOKEY);
}

static void key_files_are_read_strictly(void)
{
        static const char *const bad[] = {"", "\n", "# " KEY_A, KEY_A "0", "g" KEY_A, KEY_A "\nx", "0011"};
        char many[(SECRET_KEYS_MAX + 1) * SECRET_KEY_LINE_MAX + 1] = "", line[SECRET_KEY_LINE_MAX];
        struct secret_keys k;
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                printf("# %zu\n", i);
                CHECK_INT(secret_keys_parse(str_of(bad[i]), &k), ==, -EBADMSG);
                CHECK_INT(k.count, ==, 0);
        }
        for (size_t i = 0; i <= SECRET_KEYS_MAX; i++) {
                if (i == SECRET_KEYS_MAX)
                        CHECK_INT(secret_keys_parse((struct str){many, n}, &k), ==, 0);
                secret_key_make(line);
                memcpy(many + n, line, strlen(line));
                n += strlen(line);
        }
        CHECK_INT(k.count, ==, SECRET_KEYS_MAX);
        CHECK_INT(secret_keys_parse((struct str){many, n}, &k), ==, -EBADMSG);
        for (size_t i = 0; i < sizeof(k); i++)
                CHECK_INT(((const uint8_t *)&k)[i], ==, 0);
}

int main(void)
{
        RUN(what_was_sealed_can_be_opened_again);
        RUN(the_same_secret_looks_different_each_time);
        RUN(any_change_is_noticed);
        RUN(it_opens_at_its_own_place_only);
        RUN(another_key_is_told_apart_from_damage);
        RUN(the_first_key_seals_and_all_open);
        RUN(key_files_are_read_strictly);
        return tap_done();
}
