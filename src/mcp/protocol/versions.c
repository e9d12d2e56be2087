#include "mcp/protocol/versions.h"

#include "base/auto.h"
#include "mcp/protocol/jsonrpc.h"

static const char *const versions[] = {PROTOCOL_STATELESS, PROTOCOL_NEWEST, "2025-06-18",
                                       "2025-03-26",       "2024-11-05",    "2024-10-07"};

const char *protocol_find(struct str version)
{
        for (size_t i = 0; i < ARRAY_LEN(versions); i++)
                if (str_is(version, versions[i]))
                        return versions[i];
        return NULL;
}

const char *protocol_choose(struct str asked)
{
        const char *found = protocol_find(asked);

        return found && strcmp(found, PROTOCOL_STATELESS) != 0 ? found : PROTOCOL_NEWEST;
}

bool protocol_has_batches(const char *version)
{
        return strcmp(version, "2025-03-26") == 0 || strcmp(version, "2024-11-05") == 0 ||
               strcmp(version, "2024-10-07") == 0;
}

bool protocol_has_first_id(const char *version)
{
        return strcmp(version, "2025-11-25") >= 0; /* revisions are dates */
}

json_t *protocol_refusal(json_t *id, const char *asked)
{
        json_t *message = jsonrpc_error(id, JSONRPC_UNKNOWN_VERSION, "this revision of the protocol is not known");

        (void)json_object_set_new(json_object_get(message, "error"), "data",
                                  json_pack("{s:o,s:s}", "supported", protocol_list(), "requested", asked));
        return message;
}

json_t *protocol_list(void)
{
        json_t *list = json_array();

        for (size_t i = 0; i < ARRAY_LEN(versions); i++)
                (void)json_array_append_new(list, json_string(versions[i]));
        return list;
}
