#include "model/err_json.h"

#include <string.h>

#include "base/err.h"

static json_t *message_json(const char *msg)
{
        json_t *text = json_string(msg);
        char ascii[sizeof(((struct err *)NULL)->msg)];
        size_t n = strnlen(msg, sizeof(ascii) - 1);

        if (text)
                return text;
        for (size_t i = 0; i < n; i++)
                ascii[i] = (char)((unsigned char)msg[i] < 0x80 ? msg[i] : '?');
        return json_stringn(ascii, n);
}

json_t *err_encode(const struct err *err)
{
        return json_pack("{s:s,s:o}", "kind", err_kind_name(err->kind), "message", message_json(err->msg));
}

int err_decode(const json_t *obj, const char *unsaid, struct err *err)
{
        enum err_kind kind = err_kind_from_name(json_string_value(json_object_get(obj, "kind")));
        const char *msg = json_string_value(json_object_get(obj, "message"));

        return err_set(err, kind == ERR_NONE ? ERR_INTERNAL : kind, "%s", msg ? msg : unsaid);
}
