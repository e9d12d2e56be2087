// The MCP tool server, by hand: transports, sessions, and every message that is wrong.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import http from 'node:http'
import test, { after, before } from 'node:test'

import { ToolServer } from '../lib/tool_server.mjs'
import { until } from '../lib/wait.mjs'

let server
before(async () => (server = await ToolServer.start()))
after(async () => assert.equal(await server.stop(), 0))

const clean = (body) => (t) => server.clean(body)(t)
const request = (id, method, params) => ({ jsonrpc: '2.0', id, method, ...(params ? { params } : {}) })
const call = (id, name, args = {}, more = {}) => request(id, 'tools/call', { name, arguments: args, ...more })
const error = async (answer) => [answer.status, (await answer.json()).error.code]

/** The events of a stream, as they come: { id, data }. */
async function* events(answer) {
  let text = ''
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    text += piece
    for (let end; (end = text.indexOf('\n\n')) >= 0; text = text.slice(end + 2)) {
      const event = Object.fromEntries(text.slice(0, end).split('\n').map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]))
      if (event.data) yield { id: event.id, name: event.event, data: event.event === 'endpoint' ? event.data : JSON.parse(event.data) }
    }
  }
}

test('health needs no token', clean(async () => {
  const answer = await fetch(server.url.replace('/mcp', '/health'))
  assert.deepEqual([answer.status, await answer.text()], [200, 'ok'])
}))

test('without the right token nobody may ask', clean(async () => {
  for (const Authorization of ['', 'Bearer', 'Bearer wrong', 'Basic secret-token', 'Bearer secret-token2', 'bearer  ']) {
    const answer = await server.post(request(1, 'ping'), { Authorization })
    assert.deepEqual([answer.status, answer.headers.get('www-authenticate')], [401, 'Bearer'], Authorization)
    await answer.text()
  }
  assert.equal((await server.post(request(1, 'ping'), { Authorization: 'bearer secret-token' })).status, 400, 'the scheme is read in any case: only the session is missing')
}))

test('the token is read at each request, and without its file nobody may ask', clean(async () => {
  fs.writeFileSync(server.tokenFile, 'another')
  assert.equal((await server.post(request(1, 'ping'))).status, 401)
  assert.equal((await server.post(request(1, 'ping'), { Authorization: 'Bearer another' })).status, 400)
  fs.unlinkSync(server.tokenFile)
  assert.equal((await server.post(request(1, 'ping'), { Authorization: 'Bearer another' })).status, 401)
  fs.writeFileSync(server.tokenFile, 'secret-token')
}))

test('a page of another site cannot reach a server without a token', async () => {
  const open = await ToolServer.start({ token: null })
  assert.equal((await open.post(request(1, 'ping'), { Origin: 'https://evil.example' })).status, 403)
  assert.equal((await open.post(request(1, 'ping'), { Origin: 'http://localhost.evil.example' })).status, 403)
  assert.equal((await open.post(request(1, 'ping'), { Origin: 'http://localhost:6274' })).status, 400)
  assert.equal(await open.stop(), 0)
})

test('sessions: missing 400, unknown 404, ended 404', clean(async () => {
  assert.deepEqual(await error(await server.post(request(1, 'ping'))), [400, -32600])
  assert.deepEqual(await error(await server.post(request(1, 'ping'), { 'Mcp-Session-Id': 'nope' })), [404, -32600])
  const session = await server.session()
  assert.deepEqual(await (await session(request(1, 'ping'))).json(), { jsonrpc: '2.0', id: 1, result: {} })
  assert.equal((await session.end()).status, 204)
  assert.deepEqual(await error(await session(request(1, 'ping'))), [404, -32600])
  assert.equal((await session.end()).status, 404)
}))

test('revisions: the one asked for, or the newest; an unknown one in the header is refused', clean(async () => {
  for (const [asked, given] of [['2024-10-07', '2024-10-07'], ['2024-11-05', '2024-11-05'], ['2025-03-26', '2025-03-26'], ['2025-06-18', '2025-06-18'], ['2025-11-25', '2025-11-25'], ['3000-01-01', '2025-11-25']]) {
    const answer = await server.post(request(0, 'initialize', { protocolVersion: asked, capabilities: {}, clientInfo: { name: 'x', version: '1' } }))
    const session = answer.headers.get('mcp-session-id')
    assert.equal((await answer.json()).result.protocolVersion, given)
    await (await fetch(server.url, { method: 'DELETE', headers: { ...server.headers(), 'Mcp-Session-Id': session } })).text()
  }
  const session = await server.session()
  assert.deepEqual(await error(await session(request(1, 'ping'), { 'MCP-Protocol-Version': '1999-01-01' })), [400, -32022])
  assert.deepEqual(await error(await server.post(request(0, 'initialize', {}))), [400, -32602])
  await session.end()
}))

test('messages that are none are refused, and the session goes on', clean(async () => {
  const session = await server.session()
  const refused = [['', 400, -32700], ['{', 400, -32700], ['nul', 400, -32700], ['"text"', 400, -32700], ['{"a":1,"a":2}', 400, -32700], ['['.repeat(1000), 400, -32700], ['[]', 400, -32600], [[request(1, 'ping')], 400, -32600]]
  for (const [body, status, code] of refused) assert.deepEqual(await error(await session(body)), [status, code], JSON.stringify(body))
  for (const body of [{}, { jsonrpc: '1.0', id: 1, method: 'ping' }, { jsonrpc: '2.0', id: null, method: 'ping' }, { jsonrpc: '2.0', id: 1.5, method: 'ping' }, { jsonrpc: '2.0', id: 1, method: 5 }, { jsonrpc: '2.0', id: 1, method: 'ping', params: [] }])
    assert.deepEqual(await error(await session(body)), [200, -32600], JSON.stringify(body))
  assert.deepEqual(await error(await session(request(1, 'no/such'))), [200, -32601])
  assert.deepEqual(await error(await session(request(1, 'tools/call', {}))), [200, -32602])
  assert.deepEqual(await error(await session(call(1, 'no_such_tool'))), [200, -32602])
  assert.equal((await session({ jsonrpc: '2.0', method: 'notifications/unheard' })).status, 202)
  assert.equal((await session({ jsonrpc: '2.0', id: 5, result: {} })).status, 202, 'an answer that nobody asked for')
  assert.equal((await session(request(9, 'ping'))).status, 200)
  await session.end()
}))

test('heads: 404, 405, 406, 413, 415', clean(async () => {
  const session = await server.session()
  assert.equal((await fetch(server.url.replace('/mcp', '/nope'), { headers: server.headers() })).status, 404)
  const put = await fetch(server.url, { method: 'PUT', headers: server.headers() })
  assert.deepEqual([put.status, put.headers.get('allow')], [405, 'OPTIONS, POST, GET, DELETE'])
  assert.deepEqual(await error(await session(request(1, 'ping'), { Accept: 'application/json' })), [406, -32600])
  assert.deepEqual(await error(await session(request(1, 'ping'), { 'Content-Type': 'text/plain' })), [415, -32600])
  assert.equal((await session(request(1, 'ping'), { Accept: '*/*' })).status, 200)
  const huge = await session(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${'x'.repeat(33 << 20)}"}}`).catch(() => ({ status: 413 }))
  assert.equal(huge.status, 413)
  await session.end()
}))

test('batches, where the revision has them', clean(async () => {
  const session = await server.session('2025-03-26')
  const answers = await (await session([request(1, 'ping'), { jsonrpc: '2.0', method: 'notifications/initialized' }, request(2, 'no/such'), 7])).json()
  assert.deepEqual(answers.map((one) => [one.id, one.error?.code]), [[1, undefined], [2, -32601], [null, -32600]])
  await session.end()
}))

test('a batch has at most 256 messages', clean(async () => {
  const session = await server.session('2025-03-26')
  assert.equal((await (await session(Array(256).fill(1))).json()).length, 256)
  const refused = await session(`[${'1,'.repeat(190_000)}1]`)
  assert.equal(refused.status, 400)
  assert.deepEqual(await refused.json(), { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'the batch has too many messages: at most 256' } })
  const leaves = new AbortController()
  const stream = events(await fetch(server.url.replace('/mcp', '/sse'), { headers: server.headers(), signal: leaves.signal }))
  const url = server.url.replace('/mcp', (await stream.next()).value.data)
  for (const [batch, status] of [[[], 400], [Array(257).fill(1), 400], [[request(1, 'ping')], 202]]) assert.equal((await fetch(url, { method: 'POST', headers: server.headers(), body: JSON.stringify(batch) })).status, status)
  assert.deepEqual((await stream.next()).value.data, { jsonrpc: '2.0', id: 1, result: {} })
  leaves.abort()
  await session.end()
}))

test('an id in use is refused, and may be used again afterwards', clean(async () => {
  const session = await server.session()
  const slow = session(call('same', 'run_command', { command: 'touch runs; while [ ! -e go ]; do sleep 0.05; done; echo slow' }))
  await until('the command runs', () => fs.existsSync(server.file('runs')))
  assert.deepEqual(await error(await session(request('same', 'ping'))), [200, -32600])
  fs.writeFileSync(server.file('go'), '')
  assert.match(await (await slow).text(), /slow/)
  for (const name of ['runs', 'go']) fs.unlinkSync(server.file(name))
  assert.equal((await session(request('same', 'ping'))).status, 200)
  await session.end()
}))

test('a call that is cancelled ends, twice is the same, and the shell keeps what it knew', clean(async () => {
  const session = await server.session()
  await (await session(call(1, 'run_command', { command: 'X=kept' }))).text()
  const slow = await session(call(2, 'run_command', { command: 'sleep 1000' }))
  for (let i = 0; i < 2; i++) assert.equal((await session({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 2 } })).status, 202)
  assert.doesNotMatch(await slow.text(), /"id":2/, 'a cancelled request has no answer')
  assert.match(await (await session(call(3, 'run_command', { command: 'echo $X' }))).text(), /kept/)
  await session.end()
}))

test('a client that lost its stream gets what it missed', clean(async () => {
  const session = await server.session()
  const leaves = new AbortController()
  const first = await fetch(server.url, { method: 'POST', signal: leaves.signal, headers: { ...server.headers(), 'Mcp-Session-Id': session.id }, body: JSON.stringify(call(1, 'run_command', { command: 'echo one; while [ ! -e go ]; do sleep 0.05; done; echo two' }, { _meta: { progressToken: 't' } })) })
  let last
  for await (const event of events(first)) {
    last = event.id
    break
  }
  leaves.abort()
  fs.writeFileSync(server.file('go'), '')
  const again = await until('the stream is free', async () => {
    const answer = await fetch(server.url, { headers: { ...server.headers(), 'Mcp-Session-Id': session.id, 'Last-Event-ID': last } })
    return answer.status === 200 && answer
  })
  const seen = []
  for await (const event of events(again)) seen.push(event)
  assert.ok(seen.every((event) => event.id !== last))
  assert.match(JSON.stringify(seen.at(-1).data), /"id":1.*one\\ntwo/s)
  fs.unlinkSync(server.file('go'))
  await session.end()
}))

test('a second stream for one session is refused, and the first ends with its client', clean(async () => {
  const session = await server.session()
  const open = () => fetch(server.url, { headers: { ...server.headers(), 'Mcp-Session-Id': session.id }, signal: leaves.signal })
  let leaves = new AbortController()
  assert.equal((await open()).status, 200)
  assert.equal((await fetch(server.url, { headers: { ...server.headers(), 'Mcp-Session-Id': session.id } })).status, 409)
  leaves.abort()
  leaves = new AbortController()
  await until('the stream is free', async () => (await open()).status === 200)
  leaves.abort()
  await session.end()
}))

test('the transport of 2024-11-05: answers come on the stream, and the session ends with it', clean(async () => {
  const leaves = new AbortController()
  const stream = events(await fetch(server.url.replace('/mcp', '/sse'), { headers: server.headers(), signal: leaves.signal }))
  const endpoint = (await stream.next()).value
  assert.equal(endpoint.name, 'endpoint')
  const url = server.url.replace('/mcp', endpoint.data)
  const post = (body) => fetch(url, { method: 'POST', headers: server.headers(), body: JSON.stringify(body) })
  assert.equal((await post(request(1, 'initialize', { protocolVersion: '2024-11-05' }))).status, 202)
  assert.equal((await stream.next()).value.data.result.protocolVersion, '2024-11-05')
  await post(call(2, 'run_command', { command: 'echo old' }))
  assert.match(JSON.stringify((await stream.next()).value.data), /old/)
  leaves.abort()
  await until('the session is over', async () => (await post(request(3, 'ping'))).status === 404)
}))

test('without sessions: the head must say what the message says', clean(async () => {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'x', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} }
  const version = { 'MCP-Protocol-Version': '2026-07-28' }
  const head = (method, name) => ({ ...version, 'Mcp-Method': method, ...(name === undefined ? {} : { 'Mcp-Name': name }) })
  const found = await (await server.post(request(1, 'server/discover', { _meta: meta }), head('server/discover'))).json()
  assert.deepEqual(found.result.supportedVersions.slice(0, 2), ['2026-07-28', '2025-11-25'])
  assert.equal(found.result.resultType, 'complete')
  assert.deepEqual(await error(await server.post(request(1, 'server/discover', { _meta: meta }))), [400, -32020])
  assert.deepEqual(await error(await server.post(request(1, 'tools/list', { _meta: meta }), head('tools/call'))), [400, -32020])
  assert.deepEqual(await error(await server.post(request(1, 'tools/list', { _meta: meta }), version)), [400, -32020], 'Mcp-Method is missing')
  assert.deepEqual(await error(await server.post(request(1, 'tools/list'), head('tools/list'))), [400, -32602])
  assert.deepEqual(await error(await server.post(request(1, 'ping', { _meta: meta }), head('ping'))), [200, -32601])
  assert.equal((await server.post({ jsonrpc: '2.0', method: 'notifications/unheard' }, version)).status, 202)
  const uri = `file://${server.file('\u00e9')}`
  fs.writeFileSync(server.file('\u00e9'), 'text')
  const read = (name) => server.post(request(1, 'resources/read', { uri, _meta: meta }), head('resources/read', name))
  for (const wrong of [undefined, 'file:///other', '=?base64?AAAA?=', '=?base64?not base64?=', '=?']) assert.deepEqual(await error(await read(wrong)), [400, -32020], `Mcp-Name: ${wrong}`)
  assert.equal((await (await read(`=?base64?${Buffer.from(uri).toString('base64')}?=`)).json()).result.contents[0].text, 'text')
  fs.unlinkSync(server.file('\u00e9'))
}))

test('a session may have any number of answers by events, one after the other', clean(async () => {
  const session = await server.session()
  for (let id = 1; id <= 100; id++) {
    const answer = await session(call(id, 'run_command', { command: 'echo x; sleep 0.3 & wait' }, { _meta: { progressToken: id } }))
    assert.equal(answer.status, 200)
    if (id > 3) await answer.body.cancel() // a client that leaves: the answer is kept for it
    else assert.match(await answer.text(), /exit code 0/)
    if (id > 3) await session({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } })
  }
  await session.end()
}))

test('clients without a session may ask two hundred things at once', clean(async () => {
  const _meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' }
  const ask = async (id, name, args) => (await server.post(call(id, name, args, { _meta }), { 'MCP-Protocol-Version': '2026-07-28', 'Mcp-Method': 'tools/call', 'Mcp-Name': name })).text()
  const { id } = JSON.parse(await ask(1, 'start_command', { command: 'read line; echo "got $line"' })).result.structuredContent
  const waiting = Array.from({ length: 200 }, () => ask(2, 'read_command', { id, wait_s: 60 }))
  await ask(3, 'write_command', { id, input: 'a line\n' })
  for (const text of await Promise.all(waiting)) assert.match(text, /got a line/)
}))

test('a small message that would be large in memory is refused', clean(async () => {
  const session = await server.session()
  for (const values of [`[${'0,'.repeat(15_000_000)}0]`, `{${Array.from({ length: 500_000 }, (_, i) => `"${i}":0`).join(',')}}`])
    assert.deepEqual(await error(await session(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":${values}}}`)), [400, -32700])
  await session.end()
  await until(() => `the memory is given back: ${server.residentKiB()} KiB`, () => server.residentKiB() < 8 * 1024)
}))

test('subscriptions that end leave no watch in the kernel', clean(async () => {
  const session = await server.session()
  for (let i = 0; i < 300; i++) {
    fs.mkdirSync(server.file(`watched/${i}`), { recursive: true })
    for (const method of ['resources/subscribe', 'resources/unsubscribe']) assert.deepEqual((await (await session(request(i, method, { uri: `file://${server.file(`watched/${i}/f`)}` }))).json()).result, {})
  }
  const watches = fs.readdirSync(server.proc('fdinfo')).map((fd) => fs.readFileSync(server.proc(`fdinfo/${fd}`), 'utf8')).join('').match(/^inotify/gm)
  assert.equal(watches, null)
  await session.end()
}))

test('a thousand sessions are held in 3 MiB', async () => {
  const fresh = await ToolServer.start()
  const sessions = []
  for (let i = 0; i < 1000; i++) sessions.push(await fresh.session())
  assert.ok(fresh.residentKiB() < 3 * 1024, `${fresh.residentKiB()} KiB`)
  assert.equal((await sessions[0](request(1, 'ping'))).status, 200)
  for (const session of sessions) await session.end()
  assert.equal(await fresh.stop(), 0)
})

test('hostile connections: cut heads, cut bodies, and a client that does not read', clean(async () => {
  for (const text of ['GET /mcp HTTP/1.1\r\n', 'POST /mcp HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{', '\x00\xff\r\n\r\n', 'POST /mcp HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n'])
    await new Promise((resolve) => {
      const socket = http.request({ port: server.port, host: '127.0.0.1' }).on('socket', (s) => s.once('connect', () => s.end(text)))
      socket.on('error', resolve).on('response', (answer) => answer.resume().on('end', resolve))
      setTimeout(resolve, 300).unref()
    })
  assert.equal((await fetch(server.url.replace('/mcp', '/health'))).status, 200)
}))
