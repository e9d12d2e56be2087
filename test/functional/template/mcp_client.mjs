// A program of a client: it makes a sandbox with an MCP server, and asks the gateway at its public address with the official client. Prints
// what it saw. `readymade.test.mjs` starts it, since node reads the server's authority only when it starts.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Sandbox } from 'e2b'

const [template, options] = JSON.parse(process.argv[2])
const sandbox = await Sandbox.create(template, { mcp: { memory: {} }, timeoutMs: 120_000, ...options })
try {
  const url = sandbox.getMcpUrl()
  const authorization = { Authorization: `Bearer ${await sandbox.getMcpToken()}` }
  const traffic = sandbox.trafficAccessToken ? { 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken } : {}
  const status = async (headers) => (await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers }, body: '{"jsonrpc":"2.0","id":1,"method":"ping"}' })).status
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { ...authorization, ...traffic } } }))
  const tools = (await client.listTools()).tools.map(({ name }) => name)
  const made = await client.callTool({ name: 'create_entities', arguments: { entities: [{ name: 'x', entityType: 'y', observations: [] }] } })
  const read = await client.callTool({ name: 'read_graph', arguments: {} })
  await client.close()
  console.log(JSON.stringify({ url, tools, failed: Boolean(made.isError), graph: read.content[0].text, withoutToken: await status(traffic), withoutTraffic: await status(authorization) }))
} finally {
  await sandbox.kill()
}
