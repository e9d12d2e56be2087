// Sessions of the MCP tool server and their streams over time: clients that leave without a word, come back, or ask a lot at once.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import test, { after, before } from 'node:test'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'

import { ToolServer } from '../lib/tool_server.mjs'
import { until } from '../lib/wait.mjs'

let server
before(async () => (server = await ToolServer.start({ more: ['--rest-after', '6', '--end-after', '10', '--keep-answers', '1'] })))
after(async () => assert.equal(await server.stop(), 0))

const call = (id, name, args = {}) => ({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: args } })
const headers = (session, more = {}) => ({ ...server.headers(), 'Mcp-Session-Id': session.id, ...more })

async function connect(transportOptions = {}) {
  const client = new Client({ name: 'test', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers: { Authorization: `Bearer ${server.token}` } }, ...transportOptions })
  await client.connect(transport)
  const tool = (name, args = {}, options) => client.callTool({ name, arguments: args }, undefined, options)
  return { client, transport, tool }
}

test('a client that only closes its connections leaves no shell behind, and no session', async () => {
  const sessions = []
  for (let i = 0; i < 5; i++) {
    const { client, transport, tool } = await connect()
    await tool('run_command', { command: 'X=1' })
    const { structuredContent } = await tool('start_command', { command: 'true' })
    await until('the command has ended', async () => !(await tool('read_command', { id: structuredContent.id })).structuredContent.running)
    sessions.push(transport.sessionId)
    assert.ok(server.children() > 0)
    await client.close()
  }
  await until('the shells have ended', () => server.children() === 0)

  await sleep(14_000) // a request would be a use of the session
  for (const id of sessions) assert.equal((await server.post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'Mcp-Session-Id': id })).status, 404)
})

test('a session that is used keeps its shell: by calls, by a call that takes long, and by a stream', async () => {
  const session = await server.session()
  const run = async (id, command) => (await session(call(id, 'run_command', { command }))).text()
  await run(1, 'X=kept')
  await run(2, 'sleep 8')
  assert.match(await run(3, 'echo "[$X]"'), /\[kept\]/)
  const leaves = new AbortController()
  const stream = await fetch(server.url, { headers: headers(session), signal: leaves.signal })
  assert.equal(stream.status, 200)
  await sleep(8000)
  assert.match(await run(4, 'echo "[$X]"'), /\[kept\]/)
  leaves.abort()
  await until('the shell has ended', () => server.children() === 0)
  assert.match(await run(5, 'echo "[$X]"'), /\[\].*a new shell: the last one ended after/s)
  assert.doesNotMatch(await run(6, 'echo "[$X]"'), /a new shell/)
  await session.end()
})

test('a session whose background command runs goes on', async () => {
  const session = await server.session()
  await (await session(call(1, 'run_command', { command: 'X=1' }))).text()
  await (await session(call(2, 'start_command', { command: 'exec sleep 1000' }))).text()
  await sleep(13_000)
  assert.equal(server.children(), 1, 'the command, without the shell')
  assert.match(await (await session(call(3, 'list_commands'))).text(), /"running":true/)
  await session.end()
  await until('it ends with its session', () => server.children() === 0)
})

test('since 2025-11-25 a stream begins with an id; older clients would take the event for a message', async () => {
  for (const [version, first] of [['2025-11-25', /^id: (\d+)-0\ndata: \n\nevent: message\nid: \1-1\ndata: {/], ['2025-06-18', /^event: message\nid: \d+-1\ndata: {/], ['2025-03-26', /^event: message\nid: \d+-1\ndata: {/]]) {
    const session = await server.session(version)
    assert.match(await (await session(call(1, 'run_command', { command: 'sleep 0.5; echo late' }))).text(), first)
    await session.end()
  }
})

test('a client that lost its stream before the first message comes back for the answer', async () => {
  const session = await server.session('2025-11-25')
  const leaves = new AbortController()
  const first = await fetch(server.url, { method: 'POST', signal: leaves.signal, headers: headers(session), body: JSON.stringify(call(1, 'run_command', { command: 'while [ ! -e go ]; do sleep 0.05; done; echo done' })) })
  const { value } = await first.body.pipeThrough(new TextDecoderStream()).getReader().read()
  const id = value.match(/^id: (\S+)/)[1]
  leaves.abort()
  await sleep(2500) // longer than answers are kept: the call still runs
  const again = await fetch(server.url, { headers: headers(session, { 'Last-Event-ID': id }) })
  assert.equal(again.status, 200)
  fs.writeFileSync(server.file('go'), '')
  assert.match(await again.text(), /done/)
  fs.unlinkSync(server.file('go'))
  await session.end()
})

test('the official client comes back by itself when its connection breaks', async () => {
  let breaks
  const cutting = async (url, init) => {
    const isCall = init?.method === 'POST' && String(init.body).includes('run_command')
    if (!isCall) return fetch(url, init)
    const answer = await fetch(url, { ...init, signal: undefined })
    const reader = answer.body.getReader()
    const body = new ReadableStream({
      async pull(controller) {
        const { value, done } = await Promise.race([reader.read(), new Promise((resolve) => (breaks = () => resolve({ broken: true })))]).then((one) => (one.broken ? (reader.cancel().catch(() => {}), { done: true }) : one))
        if (done) controller.close()
        else controller.enqueue(value)
      },
    })
    return new Response(body, { status: answer.status, headers: answer.headers })
  }
  const { client, transport } = await connect({ fetch: cutting, reconnectionOptions: { initialReconnectionDelay: 100, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 1, maxRetries: 10 } })
  const tokens = []
  const answer = client.request({ method: 'tools/call', params: { name: 'run_command', arguments: { command: 'sleep 2; echo survived' } } }, CallToolResultSchema, { onresumptiontoken: (token) => tokens.push(token) })
  await until('there is an id to come back with', () => tokens.length > 0)
  breaks()
  assert.equal((await answer).structuredContent.stdout, 'survived\n')
  assert.match(tokens[0], /^\d+-0$/)
  await transport.terminateSession()
  await client.close()
})

test('a hundred calls at once in one session', async () => {
  const { client, transport, tool } = await connect()
  const answers = await Promise.all(Array.from({ length: 100 }, (_, i) => tool('run_command', { command: `sleep 0.01; echo ${i}` }, { timeout: 120_000 })))
  assert.deepEqual(answers.map(({ structuredContent }) => structuredContent.stdout), Array.from({ length: 100 }, (_, i) => `${i}\n`))
  await transport.terminateSession()
  await client.close()
})

test('256 calls are under way in a session; one more is refused in words, and calls can still be cancelled', async () => {
  const session = await server.session()
  await (await session(call('first', 'start_command', { command: 'exec sleep 1000' }))).text()
  const leaves = new AbortController()
  const waiting = Array.from({ length: 256 }, (_, i) => fetch(server.url, { method: 'POST', signal: leaves.signal, headers: headers(session), body: JSON.stringify(call(i, 'read_command', { id: 1, wait_s: 60 })) }).catch(() => {}))
  await Promise.all(waiting)
  assert.match(JSON.stringify(await (await session(call('more', 'list_commands'))).json()), /too many requests are under way/)
  assert.equal((await session({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } })).status, 202)
  assert.match(await (await session(call('more', 'list_commands'))).text(), /sleep 1000/)
  leaves.abort()
  await session.end()
})

test('a change of a resource waits for a stream, and a file that is kept open is told of, again and again', async () => {
  const session = await server.session()
  const uri = `file://${server.file('kept-open')}`
  const open = fs.openSync(server.file('kept-open'), 'a')
  await (await session({ jsonrpc: '2.0', id: 1, method: 'resources/subscribe', params: { uri } })).text()
  fs.writeSync(open, 'x')
  await sleep(500)
  const leaves = new AbortController()
  const stream = (await fetch(server.url, { headers: headers(session), signal: leaves.signal })).body.pipeThrough(new TextDecoderStream()).getReader()
  assert.match((await stream.read()).value, /resources\/updated.*kept-open/)
  const begun = performance.now()
  let told = 0
  const writes = setInterval(() => fs.writeSync(open, 'x'), 1)
  while (performance.now() - begun < 2000) told += (await stream.read()).value.match(/resources\/updated/g)?.length ?? 0
  clearInterval(writes)
  assert.ok(told >= 3 && told <= 25, `${told} times in 2 s`)
  leaves.abort()
  fs.closeSync(open)
  await session.end()
})

test('more shells than a usual limit of descriptors allows; programs have that limit', async () => {
  const wide = await ToolServer.start({ descriptors: '300:4096' })
  const sessions = []
  for (let i = 0; i < 80; i++) {
    sessions.push(await wide.session())
    assert.match(await (await sessions[i](call(1, 'run_command', { command: 'ulimit -Sn' }))).text(), /300\\n/)
  }
  for (const session of sessions) await session.end()
  assert.equal(await wide.stop(), 0)
})

test('a server that is short of descriptors refuses shells in words, and still answers', async () => {
  const narrow = await ToolServer.start({ descriptors: '300:300' })
  const sessions = []
  let text
  do {
    sessions.push(await narrow.session())
    text = await (await sessions.at(-1)(call(1, 'run_command', { command: 'true' }))).text()
  } while (/exit code 0/.test(text) && sessions.length < 100)
  assert.match(text, /too many programs and connections are open here/)
  assert.ok(sessions.length > 20, `${sessions.length} sessions`)
  const answers = await Promise.all(sessions.map((session) => session({ jsonrpc: '2.0', id: 1, method: 'ping' })))
  assert.ok(answers.every(({ status }) => status === 200))
  for (const session of sessions.slice(0, 5)) await session.end()
  await until('there is room again', async () => /exit code 0/.test(await (await sessions.at(-1)(call(1, 'run_command', { command: 'true' }))).text()))
  for (const session of sessions.slice(5)) await session.end()
  assert.equal(await narrow.stop(), 0)
})
