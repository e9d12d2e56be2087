// Templates that come with the program: built on the first use of their name, or by the command line; each does what it is for.
//
// The data directory stays in build/test-cache: their packages are fetched once.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { buildLog, deleteTemplates, inSandbox, templateName } from '../lib/build/builds.mjs'
import { keptServer } from '../lib/kept_server.mjs'
import { request } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { firstUse } from '../lib/build/ready_made.mjs'
import { binary } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

let server, client
before(async () => {
  server = await keptServer('readymade')
  Object.assign(process.env, clientEnvironment(server, 'http'))
  client = await import('e2b')
  await deleteTemplates(api, server, 'node', 'nodejs', 'python', 'mcp-gateway', 'nextjs-developer')
})
after(() => server.cleanUp())

const run = (sandbox, command) => sandbox.commands.run(command).then((r) => r.stdout.trim())

test('node and its other name: on first use, one template', async () => {
  await firstUse(server, 'node')
  await inSandbox(client, 'node', async (sandbox) => assert.match(await run(sandbox, 'node --version; npm --version; pwd; whoami'), /^v24\.\d+\.\d+\n\d+\.\d+\.\d+\n\/home\/user\nuser$/))
  const idOf = async (name) => (await api(server, 'GET', `/templates/aliases/${name}`)).json.templateID
  assert.equal(await idOf('nodejs'), await idOf('node'))
  await inSandbox(client, 'nodejs', async (sandbox) => assert.match(await run(sandbox, 'node --version'), /^v24/))
  const { json } = await api(server, 'GET', '/templates')
  assert.deepEqual(json.filter((t) => t.aliases.includes('nodejs')).map((t) => t.aliases), [['node', 'nodejs']])
})

test('python: by the command line', async () => {
  await promisify(execFile)(binary, ['template', 'build', 'python', '--data', server.data], { timeout: 300_000 })
  await inSandbox(client, 'python', async (sandbox) => assert.match(await run(sandbox, 'python --version; pip --version; python3-config --includes'), /^Python 3\.13\.\d+\npip .*\n-I/))
})

test('mcp-gateway: a create with `mcp` has an endpoint with the tools of its servers', async () => {
  await firstUse(server, 'mcp-gateway')
  const sandbox = await client.Sandbox.create({ mcp: { memory: {}, doesNotExist: {} } })
  try {
    const token = await sandbox.getMcpToken()
    assert.equal(await (await client.Sandbox.connect(sandbox.sandboxId)).getMcpToken(), token)
    assert.match(sandbox.getMcpUrl(), new RegExp(`^https?://50005-${sandbox.sandboxId}\\..*/mcp$`))
    const ask = (authorization) => run(sandbox, `curl -s http://localhost:50005/mcp -H 'Content-Type: application/json' -H 'Authorization: Bearer ${authorization}' -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}'`)
    assert.match(JSON.parse(await ask(token)).result.instructions, /memory: \d+ tools\ndoesNotExist: failed/)
    assert.match(await ask('wrong'), /token is missing or wrong/)
  } finally {
    await sandbox.kill()
  }
})

/** What a program with the official MCP client sees at the gateway's address, over TLS. */
async function asClient(...args) {
  const inherited = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('E2B_')))
  const names = new URL('../lib/names.mjs', import.meta.url).href, program = fileURLToPath(new URL('mcp_client.mjs', import.meta.url))
  const { stdout } = await promisify(execFile)(process.execPath, ['--import', names, program, JSON.stringify(args)], { env: { ...inherited, ...clientEnvironment(server, 'tls') }, timeout: 180_000 })
  return JSON.parse(stdout)
}

test('mcp-gateway: with servers that a build has added, the official client lists and calls tools at the address of the gateway', async () => {
  assert.throws(() => client.Template().fromBaseImage().addMcpServer('memory'), /can only be added to mcp-gateway template/)
  const log = buildLog(), alias = templateName('with-memory')
  await client.Template.build(client.Template().fromTemplate('mcp-gateway').addMcpServer(['memory']), { alias, ...log })
  await inSandbox(client, alias, async (sandbox) => assert.match(await run(sandbox, 'ls /opt/mcp-servers/npm/@modelcontextprotocol'), /^server-memory$/))
  const open = await asClient(alias)
  assert.match(open.url, /^https:\/\/50005-.*\/mcp$/)
  assert.ok(open.tools.includes('read_graph'))
  assert.deepEqual([open.failed, open.withoutToken], [false, 401])
  assert.match(open.graph, /"x"/)
  const closed = await asClient(alias, { network: { allowPublicTraffic: false } })
  assert.deepEqual([closed.tools, closed.withoutTraffic], [open.tools, 403])
  await deleteTemplates(api, server, alias)
})

test('a create with `mcp` on a template without the gateway fails, and leaves no sandbox', async () => {
  const metadata = { test: `mcp-${process.pid}-${Date.now()}` }
  await assert.rejects(client.Sandbox.create('base', { mcp: { memory: {} }, metadata }), /Failed to start MCP gateway/)
  const left = await client.Sandbox.list({ query: { metadata } }).nextItems()
  assert.deepEqual(left, [])
})

test('nextjs-developer: the server answers when create returns', async () => {
  await firstUse(server, 'nextjs-developer')
  await inSandbox(client, 'nextjs-developer', async (sandbox) => {
    const answer = await request({ server, transport: 'http' }, sandbox, 3000)
    assert.equal(answer.status, 200, answer.body)
    assert.match(answer.body, /<html/)
    await sandbox.files.write('pages/index.tsx', 'export default function Page() { return <h1>changed by the agent</h1> }\n')
    await until('the changed page', async () => /changed by the agent/.test((await request({ server, transport: 'http' }, sandbox, 3000)).body), 60_000, 100)
  })
})

test('an unknown template: the error lists what there is', async () => {
  const { status, json } = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'no-such-template' } })
  assert.equal(status, 404)
  for (const name of ['base', 'node', 'python', 'nextjs-developer']) assert.match(json.message, new RegExp(name))
})
