#include "mcp/tools/ports.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "mcp/protocol/call.h"
#include "mcp/protocol/mcp.h"
#include "mcp/protocol/session.h"
#include "mcp/tools/sandbox_tools.h"

#define TCP_LISTEN 0x0a
#define URL_MAX 512

static void add_port(uint16_t ports[PORTS_MAX], size_t *n, uint16_t port)
{
        size_t at = 0;

        while (at < *n && ports[at] < port)
                at++;
        if (*n == PORTS_MAX || (at < *n && ports[at] == port))
                return;
        memmove(ports + at + 1, ports + at, (*n - at) * sizeof(*ports));
        ports[at] = port;
        (*n)++;
}

static void read_table(const char *path, uint16_t ports[PORTS_MAX], size_t *n)
{
        FILE *f = fopen(path, "re");
        char line[512];
        unsigned port, state;

        while (f && fgets(line, sizeof(line), f))
                if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%4x %*[0-9A-Fa-f]:%*4x %2x", &port, &state) == 2 &&
                    state == TCP_LISTEN)
                        add_port(ports, n, (uint16_t)port);
        if (f)
                (void)fclose(f);
}

size_t ports_listening(uint16_t ports[PORTS_MAX])
{
        size_t n = 0;

        read_table("/proc/net/tcp", ports, &n);
        read_table("/proc/net/tcp6", ports, &n);
        return n;
}

bool port_listens(uint16_t port)
{
        uint16_t ports[PORTS_MAX];
        size_t n = ports_listening(ports);

        for (size_t i = 0; i < n; i++)
                if (ports[i] == port)
                        return true;
        return false;
}

/* The client came to "<port of this server>-<sandbox>.<domain>", so other ports are beside it. */
static void url_of(const struct session *s, uint16_t port, char url[URL_MAX])
{
        const char *dash = strchr(s->host, '-');

        if (dash && strspn(s->host, "0123456789") == (size_t)(dash - s->host) && dash != s->host)
                (void)snprintf(url, URL_MAX, "%s://%u%s", s->is_encrypted ? "https" : "http", port, dash);
        else
                (void)snprintf(url, URL_MAX, "http://localhost:%u", port);
}

static void preview_url(struct call *c, json_t *args)
{
        uint16_t port = (uint16_t)arg_number(args, "port", 0);
        char url[URL_MAX];
        bool listens = port_listens(port);

        url_of(c->session, port, url);
        tool_textf(c, json_pack("{s:s,s:b}", "url", url, "listening", listens), "%s%s", url,
                   listens ? "" : "\n[nothing listens on this port yet]");
}

static void list_ports(struct call *c, json_t *args)
{
        AUTO_BUF struct buf text = BUF_INIT(1u << 20);
        uint16_t ports[PORTS_MAX];
        size_t n = ports_listening(ports);
        json_t *list = json_array();
        char url[URL_MAX];

        (void)args;
        for (size_t i = 0; i < n; i++) {
                url_of(c->session, ports[i], url);
                (void)json_array_append_new(list, json_pack("{s:i,s:s}", "port", ports[i], "url", url));
                (void)buf_addf(&text, "%u  %s\n", ports[i], url);
        }
        if (n == 0)
                (void)buf_addc(&text, "Nothing listens.");
        tool_text(c, (struct str){(const char *)buf_at(&text), text.len}, json_pack("{s:o}", "ports", list));
}

const struct tool tool_preview_url = {
        .name = "preview_url",
        .title = "Address of a port",
        .description = "Return the address under which a port of this sandbox is reached from outside.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{\"port\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":65535}"
                  "},\"required\":[\"port\"],\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"url\":{\"type\":\"string\"},\"listening\":{\"type\":"
                  "\"boolean\"}},\"required\":[\"url\",\"listening\"]}",
        .run = preview_url,
};
const struct tool tool_list_ports = {
        .name = "list_ports",
        .title = "List listening ports",
        .description = "List the TCP ports that programs in this sandbox listen on, with their addresses from outside.",
        .hints = TOOL_READS_ONLY | TOOL_MAY_REPEAT,
        .schema = "{\"type\":\"object\",\"properties\":{},\"additionalProperties\":false}",
        .output = "{\"type\":\"object\",\"properties\":{\"ports\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}}"
                  ",\"required\":[\"ports\"]}",
        .run = list_ports,
};
