// `sandglass mcp` by itself, line by line: every message that is wrong, and how the program ends.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import test, { after, before } from 'node:test'

import { Client as NewClient } from '@modelcontextprotocol/client'
import { StdioClientTransport as NewTransport } from '@modelcontextprotocol/client/stdio'

import { bare } from '../lib/platform.mjs'
import { binary, sandglass, temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

// A server that takes requests and never answers: calls wait for as long as a test needs.
let api, env
before(async () => {
  api = http.createServer(() => {}).listen(0, '127.0.0.1')
  await new Promise((done) => api.once('listening', done))
  env = { E2B_API_URL: `http://127.0.0.1:${api.address().port}`, E2B_API_KEY: `e2b_${'0'.repeat(40)}` }
})
after(() => (api.closeAllConnections(), api.close()))

const request = (id, method, params) => ({ jsonrpc: '2.0', id, method, ...(params ? { params } : {}) })
const initialize = (protocolVersion = '2025-11-25') => request(0, 'initialize', { protocolVersion, capabilities: {}, clientInfo: { name: 'x', version: '1' } })
const slow = (id) => request(id, 'tools/call', { name: 'list_sandboxes', arguments: {} })

async function begun(version) {
  const program = bare([], { env })
  program.send(initialize(version))
  return Object.assign(program, { first: await program.next() })
}
const ask = async (program, ...messages) => (program.send(...messages), program.next())

test('revisions: the one asked for, or the newest; initialize comes first and once', async () => {
  for (const [asked, given] of [['2024-10-07', '2024-10-07'], ['2024-11-05', '2024-11-05'], ['2025-03-26', '2025-03-26'], ['2025-06-18', '2025-06-18'], ['2025-11-25', '2025-11-25'], ['3000-01-01', '2025-11-25']]) {
    const program = await begun(asked)
    assert.equal(program.first.result.protocolVersion, given)
    assert.equal((await ask(program, initialize())).error.code, -32600)
    assert.deepEqual(await program.end(), { code: 0, signal: null, words: '' })
  }
  const early = bare([], { env })
  assert.equal((await ask(early, request(1, 'tools/list'))).error.code, -32600)
  assert.deepEqual((await ask(early, request(2, 'ping'))).result, {})
  assert.equal((await ask(early, request(3, 'initialize', {}))).error.code, -32602)
  await early.end()
})

test('messages that are none are refused, and the next one is answered', async () => {
  const program = await begun()
  for (const [line, code] of [['{', -32700], ['nul', -32700], ['"text"', -32700], ['{"a":1,"a":2}', -32700], ['['.repeat(1000), -32700], ['\xff\xfe', -32700], ['[]', -32600], [JSON.stringify([request(1, 'ping')]), -32600], ['{}', -32600], ['{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600], ['{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600], ['{"jsonrpc":"2.0","id":1,"method":5}', -32600], ['{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', -32600]]) {
    program.write(`${line}\n`)
    assert.equal((await program.next()).error.code, code, line)
  }
  assert.equal((await ask(program, request(1, 'no/such'))).error.code, -32601)
  assert.equal((await ask(program, request(1, 'resources/list'))).error.code, -32601)
  assert.equal((await ask(program, request(1, 'tools/call', {}))).error.code, -32602)
  assert.equal((await ask(program, request(1, 'tools/call', { name: 'nope' }))).error.code, -32602)
  program.send({ jsonrpc: '2.0', method: 'notifications/unheard' }, { jsonrpc: '2.0', id: 7, result: {} }, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'nobody' } })
  program.write('\n  \n\r\n')
  program.write('{"jsonrpc":"2.0","id":8,"me')
  program.write('thod":"ping"}\r\n')
  assert.deepEqual(await program.next(), { jsonrpc: '2.0', id: 8, result: {} })
  await program.end()
})

test('a message that is too long is refused, and the next one is answered', async () => {
  const program = await begun()
  program.write(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${'x'.repeat(34 << 20)}"}}\n`)
  assert.match((await program.next()).error.message, /too long/)
  assert.deepEqual((await ask(program, request(2, 'ping'))).result, {})
  await program.end()
})

test('batches, where the revision has them', async () => {
  const program = await begun('2025-03-26')
  program.send([request(1, 'ping'), { jsonrpc: '2.0', method: 'notifications/initialized' }, request(2, 'no/such'), 7])
  const answers = [await program.next(), await program.next(), await program.next()]
  assert.deepEqual(answers.map((one) => [one.id, one.error?.code]), [[1, undefined], [2, -32601], [null, -32600]])
  await program.end()
})

test('an id in use is refused; cancelled twice is cancelled, and the id is free', async () => {
  const program = await begun()
  program.send(slow('same'), request('same', 'ping'))
  assert.match((await program.next()).error.message, /under way/)
  const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'same' } }
  assert.deepEqual((await ask(program, cancel, cancel, request('same', 'ping'))).result, {})
  await program.end()
})

test('more calls than a client may have under way are refused', async () => {
  const program = await begun()
  for (let id = 1; id <= 300; id++) program.send(slow(id))
  for (let id = 257; id <= 300; id++) assert.match((await program.next()).error.message, /too many/)
  assert.ok(fs.readdirSync(`/proc/${program.child.pid}/task`).length <= 33)
  assert.equal((await program.end()).code, 0, 'calls under way do not hold up the end')
})

test('requests without sessions say their revision; one that is unknown is refused with those that are known', async () => {
  const program = bare([], { env })
  const meta = (version) => ({ _meta: { 'io.modelcontextprotocol/protocolVersion': version } })
  const found = await ask(program, request(1, 'server/discover', meta('2026-07-28')))
  assert.deepEqual([found.result.supportedVersions[0], found.result.resultType], ['2026-07-28', 'complete'])
  const unknown = await ask(program, request(2, 'server/discover', meta('2999-01-01')))
  assert.deepEqual([unknown.error.code, unknown.error.data.requested, unknown.error.data.supported[0]], [-32022, '2999-01-01', '2026-07-28'])
  program.send(request(3, 'tools/call', { ...slow(3).params, ...meta('2026-07-28') }), { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 3 } }, request(3, 'tools/list', meta('2026-07-28')))
  assert.ok((await program.next()).result.tools.length > 20, 'the first one was cancelled')
  await program.end()
})

test('the client of the newest revision', async () => {
  for (const mode of [{ pin: '2026-07-28' }, 'auto']) {
    const client = new NewClient({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
    await client.connect(new NewTransport({ command: binary, args: ['mcp'], env: { ...process.env, ...env } }))
    assert.equal((await client.listTools()).tools[0].name, 'create_sandbox')
    const aborts = new AbortController()
    const call = client.callTool({ name: 'list_sandboxes', arguments: {} }, { signal: aborts.signal })
    setImmediate(() => aborts.abort(new Error('enough')))
    await assert.rejects(call, /enough/)
    assert.equal((await client.callTool({ name: 'get_sandbox', arguments: {} })).isError, true)
    await client.close()
  }
})

test('a client that does not read holds up only itself, and misses nothing', async () => {
  const program = bare([], { env })
  program.send(initialize())
  for (let id = 1; id <= 3000; id++) program.send(request(id, 'tools/list', { padding: 'x'.repeat(500) }))
  const has = (file, name) => Number(fs.readFileSync(`/proc/${program.child.pid}/${file}`, 'utf8').match(new RegExp(`${name}:\\s+(\\d+)`))[1])
  let last = -1
  await until('the program reads no more', () => {
    const before = last
    last = has('io', 'rchar')
    return last > 64 << 10 && last === before
  })
  for (let id = 0; id <= 3000; id++) assert.equal((await program.next()).id, id)
  assert.ok(has('status', 'VmHWM') < 64 * 1024, `${has('status', 'VmHWM')} KiB`)
  await program.end()
})

test('the program ends with stdin, with its reader, and by a signal', async () => {
  const asked = await begun()
  asked.write(JSON.stringify(request(1, 'ping'))) // without a line end
  asked.child.stdin.end()
  assert.equal((await asked.next()).id, 1)
  assert.deepEqual(await asked.ended, { code: 0, signal: null, words: '' })
  const unread = await begun()
  unread.child.stdout.destroy()

  assert.equal((await unread.ended).code, 0)
  const stopped = await begun()
  stopped.send(slow(1))
  stopped.child.kill('SIGTERM')
  assert.deepEqual(await stopped.ended, { code: 0, signal: null, words: '' })
})

test('stdin and stdout may be files', () => {
  const dir = temporaryDir('stdio')
  fs.writeFileSync(`${dir}/in`, [initialize(), request(1, 'tools/list'), request(2, 'ping')].map((one) => `${JSON.stringify(one)}\n`).join(''))
  const went = spawnSync(binary, ['mcp'], { env: { ...process.env, ...env }, stdio: [fs.openSync(`${dir}/in`), fs.openSync(`${dir}/out`, 'w'), 'pipe'] })
  assert.equal(went.status, 0, String(went.stderr))
  assert.deepEqual(fs.readFileSync(`${dir}/out`, 'utf8').trim().split('\n').map((line) => JSON.parse(line).id), [0, 1, 2])
  fs.rmSync(dir, { recursive: true })
})

test('what is wrong at once is told on stderr, and stdout stays empty', () => {
  const none = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(E2B_|SANDGLASS_DATA)/.test(name)))
  for (const [args, status, words] of [[['--nope'], 2, /unknown option '--nope'/], [['more'], 2, /unexpected argument/], [['--http'], 2, /needs a value/], [['--no-token'], 2, /--http only/], [['--print-config=nobody'], 2, /json, vscode, claude-code, codex or windsurf/], [['--data', '/nowhere'], 1, /no server at '\/nowhere'/], [['--files', '/nowhere', '--data', '/'], 1, /open '\/nowhere'/]]) {
    const went = sandglass(['mcp', ...args], { env: none, input: '' })
    assert.deepEqual([went.status, went.stdout], [status, ''], args.join(' '))
    assert.match(went.stderr, words)
  }
  const open = sandglass(['mcp', '--http', '0.0.0.0:0', '--no-token'], { env: { ...none, ...env } })
  assert.equal(open.status, 1)
  assert.match(open.stderr, /loopback addresses only/)
})

test('settings for every assistant name this program by its absolute path', () => {
  const printed = (name) => sandglass(['mcp', `--print-config=${name}`, '--kill-on-exit'], { env: { ...process.env, ...env, E2B_API_KEY: `k'"\\` } }).stdout
  assert.deepEqual(JSON.parse(printed('json')).mcpServers.sandglass.args, ['mcp', '--kill-on-exit'])
  assert.equal(JSON.parse(printed('vscode')).servers.sandglass.type, 'stdio')
  const shell = spawnSync('bash', ['-c', `claude() { printf '%s' "$4"; }; ${printed('claude-code')}`], { encoding: 'utf8' }).stdout
  assert.equal(JSON.parse(shell).env.E2B_API_KEY, `k'"\\`)
  assert.equal(JSON.parse(shell).command, fs.realpathSync(binary))
  assert.deepEqual(JSON.parse(printed('windsurf')), JSON.parse(printed('json')))
  assert.match(printed('codex'), /^\[mcp_servers\.sandglass\]\ncommand = "\/.*\n\n\[mcp_servers\.sandglass\.env\]\n.*E2B_API_KEY = "k'\\"\\\\"/s)
})

test('settings of a server by HTTP: each assistant gets what it takes', () => {
  const token = `${temporaryDir()}/token`
  fs.writeFileSync(token, 'secret\n')
  const print = (name) => sandglass(['mcp', `--print-config=${name}`, '--http', '4321', '--token-file', token], { env: { ...process.env, ...env } })
  const headers = { Authorization: 'Bearer secret' }, url = 'http://127.0.0.1:4321/mcp'
  const { stdout, stderr } = print('json')
  assert.deepEqual(JSON.parse(stdout), { mcpServers: { sandglass: { type: 'http', url, headers } } })
  assert.match(stderr, /cursor\/mcp\.json.*claude_desktop_config\.json \(Claude Desktop\) takes no server by HTTP/)
  assert.doesNotMatch(stderr, /mcp_config\.json/)
  assert.deepEqual(JSON.parse(print('windsurf').stdout), { mcpServers: { sandglass: { serverUrl: url, headers } } })
  assert.deepEqual(JSON.parse(print('vscode').stdout), { servers: { sandglass: { type: 'http', url, headers } } })
  assert.match(print('codex').stdout, /^\[mcp_servers\.sandglass\]\nurl = "http:\/\/127\.0\.0\.1:4321\/mcp"\n\n\[mcp_servers\.sandglass\.http_headers\]\nAuthorization = "Bearer secret"\n/)
})
