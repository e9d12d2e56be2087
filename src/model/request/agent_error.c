#include "model/request/agent_error.h"

#include <string.h>

#include "base/auto.h"
#include "base/str.h"

const char *agent_error_code(unsigned status)
{
        static const struct {
                unsigned status;
                const char *code;
        } codes[] = {
                {400, "invalid_request"},
                {401, "unauthorized"},
                {403, "forbidden"},
                {404, "not_found"},
                {405, "method_not_allowed"},
                {406, "not_acceptable"},
                {408, "timeout"},
                {409, "conflict"},
                {410, "gone"},
                {413, "too_large"},
                {415, "unsupported_media_type"},
                {416, "invalid_range"},
                {422, "invalid_request"},
                {429, "too_many"},
                {431, "too_large"},
                {501, "not_supported"},
                {502, "unreachable"},
                {503, "unavailable"},
                {504, "timeout"},
                {507, "no_space"},
        };

        for (size_t i = 0; i < ARRAY_LEN(codes); i++)
                if (codes[i].status == status)
                        return codes[i].code;
        return status < 500 ? "invalid_request" : "internal";
}

static json_t *message_json(const char *message)
{
        json_t *v = json_string(message);
        AUTO_FREE char *copy = v ? NULL : strdup(message);

        if (!copy)
                return v;
        for (char *p = copy; *p; p++)
                if ((unsigned char)*p >= 0x80)
                        *p = '?';
        return json_string(copy);
}

json_t *agent_error(unsigned status, const char *code, const char *message)
{
        return json_pack("{s:{s:s,s:o}}", "error", "code", code ? code : agent_error_code(status), "message",
                         message_json(message));
}

json_t *agent_error_of_status(unsigned status, const char *message)
{
        return agent_error(status, NULL, message);
}
