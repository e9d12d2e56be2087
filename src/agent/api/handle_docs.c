/* GET /openapi.json and GET /docs. */
#include "agent/api/handlers.h"
#include "agent/docs/texts.h"
#include "agent/exchange/exchange.h"

void agent_show_openapi(struct exchange *x)
{
        tell_bytes(x, "application/json", agent_openapi, agent_openapi_len);
}

void agent_show_docs(struct exchange *x)
{
        tell_bytes(x, "text/html; charset=utf-8", agent_page, agent_page_len);
}
