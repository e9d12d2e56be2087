// The MCP tool server of a sandbox, by its official client, through the edge.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

/** Run the body with `call(tool, arguments)`, which gives the parts of the result. */
export async function withTools(server, sandbox, token, body) {
  const client = new Client({ name: 'test', version: '1' })
  const routing = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '6060' }
  const requestInit = { headers: { ...routing, ...(token ? { Authorization: `Bearer ${token}` } : {}) } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${server.port}/mcp`), { requestInit }))
  try {
    return await body((name, args) => client.callTool({ name, arguments: args }).then((r) => r.content))
  } finally {
    await client.close()
  }
}

export const textOf = (parts) => parts.filter((part) => part.type === 'text').map((part) => part.text).join('\n')
