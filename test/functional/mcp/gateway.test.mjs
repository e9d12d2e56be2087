// mcp-gateway: several servers behind one endpoint, started as the client's library starts it.
import assert from 'node:assert/strict'
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import test, { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'

import { temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

const program = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../build/mcp-gateway')

/** A server that does what its MODE says; its tools are `echo` and one of its own. */
const source = `
import fs from 'node:fs'
import { createInterface } from 'node:readline'
const send = (m) => process.stdout.write(JSON.stringify({ jsonrpc: '2.0', ...m }) + '\\n')
const mode = process.env.MODE
process.stdout.write('words that are no message\\n\\n{"jsonrpc":"2.0","id":99,"result":{}}\\n')
if (mode === 'endless') { const more = () => process.stdout.write('x'.repeat(1 << 20), more); more() } // no line ever ends
if (mode === 'babbles') { const more = () => process.stdout.write('garbage\\n{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\\n[]\\n{"jsonrpc":"2.0","id":999999,"result":7}\\n'.repeat(1000), () => setImmediate(more)); more() }
while (mode === 'late' && !fs.existsSync(process.env.GO)) await new Promise((done) => setTimeout(done, 20))
if (mode === 'dies') { console.error('cannot go on'); process.exit(5) }
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line)
  if (mode === 'silent') return
  if (method === 'initialize') send({ id, result: { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: mode, version: '1' } } })
  else if (method === 'tools/list' && mode === 'pages' && !params.cursor) send({ id, result: { tools: [{ name: 'first', inputSchema: { type: 'object' } }], nextCursor: 'x' } })
  else if (method === 'tools/list' && mode === 'forever') send({ id, result: { tools: [{ name: 'same', description: 7, inputSchema: { type: 'text' }, outputSchema: [], annotations: 'none' }, { title: 'nameless' }, 7], nextCursor: 'again' } })
  else if (method === 'tools/list' && mode === 'swamps') send({ id, result: { tools: Array.from({ length: 5000 }, (_, i) => ({ name: 'one of many ' + i, inputSchema: { type: 'object' } })) } })
  else if (method === 'tools/call' && mode === 'twice') for (const text of ['first', 'second']) send({ id, result: { content: [{ type: 'text', text }] } })
  else if (method === 'tools/list') send({ id, result: { tools: ['echo', 'only in ' + mode, 'die', 'hang', 'refuse'].filter((name) => mode !== 'pages' || name === 'die').map((name) => ({ name, inputSchema: { type: 'object' } })) } })
  else if (method === 'tools/call' && params.name === 'die') process.exit(3)
  else if (method === 'tools/call' && params.name === 'refuse') send({ id, error: { code: -32050, message: 'not today', data: { until: [7] } } })
  else if (method === 'tools/call' && params.name !== 'hang') {
    send({ method: 'notifications/progress', params: { progressToken: params._meta.progressToken, progress: 0.5, total: 2, message: 'a quarter' } })
    send({ method: 'notifications/progress', params: { progressToken: params._meta.progressToken, progress: 'much', message: 'garbage' } })
    send({ method: 'notifications/progress', params: { progressToken: params._meta.progressToken, progress: 2, total: null } })
    send({ id, result: { content: [{ type: 'text', text: mode + ' ' + JSON.stringify(params.arguments) + (process.env.installed ?? '') }] } })
  }
})
`

let dir, daemon, port
const free = () => new Promise((resolve) => { const s = net.createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => resolve(port)) }) })
const server = (mode, more = {}) => ({ runCmd: 'node server.mjs', envs: { MODE: mode }, ...more })

/** Run the program as a client's library does: its exit code and what it printed. */
async function start(config, { token = 'secret', wait = 120, args = [] } = {}) {
  port = await free()
  const environment = { ...process.env, MCP_GATEWAY_GITHUB_URL: `file://${dir}/repos`, ...(token ? { GATEWAY_ACCESS_TOKEN: token } : {}) }
  const child = spawn(program, ['--config', typeof config === 'string' ? config : JSON.stringify(config), '--listen', `127.0.0.1:${port}`, '--dir', `${dir}/servers`, '--token-file', `${dir}/etc/.token`, '--log', `${dir}/log`, '--wait', String(wait), ...args], { env: environment, stdio: ['ignore', 'pipe', 'pipe'] })
  let out = '', err = ''
  child.stdout.on('data', (piece) => (out += piece))
  child.stderr.on('data', (piece) => (err += piece))
  const code = await new Promise((resolve) => child.once('close', resolve)) // also: nobody holds the pipes
  daemon = ofGateway()[0]
  return { code, out, err }
}

async function stop() {
  process.kill(daemon, 'SIGTERM')
  await until('the gateway and its servers are gone', () => !fs.existsSync(`/proc/${daemon}`) && left() === 0)
}
const ofGateway = () => spawnSync('pgrep', ['-f', `127.0.0.1:${port}`], { encoding: 'utf8' }).stdout.split('\n').filter(Boolean).map(Number)
const ofServers = () => fs.readdirSync('/proc').filter((pid) => { try { return /^\d+$/.test(pid) && fs.readlinkSync(`/proc/${pid}/cwd`).startsWith(`${dir}/servers`) } catch { return false } })
const left = () => ofServers().length
const parent = (pid) => Number(fs.readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')[1])

async function connect(token = 'secret') {
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`http://127.0.0.1:${port}/mcp`), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }))
  return client
}
const text = async (promise) => (await promise).content[0].text

before(() => {
  dir = temporaryDir()
  for (const name of ['acme/one', 'acme/two', 'other/one']) {
    const tree = `${dir}/trees/${name}`
    fs.mkdirSync(tree, { recursive: true })
    fs.writeFileSync(`${tree}/server.mjs`, source)
    const git = (...args) => execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@example.com', ...args], { cwd: tree })
    git('init', '--quiet')
    git('add', '.')
    git('commit', '--quiet', '-m', 'x')
    fs.mkdirSync(path.dirname(`${dir}/repos/${name}`), { recursive: true })
    git('clone', '--quiet', '--bare', '.', `${dir}/repos/${name}`)
  }
})
after(() => fs.rmSync(dir, { recursive: true, force: true }))

test('one endpoint with all tools; names are unique; failing servers are named and the rest serve', async () => {
  const { code, out } = await start({
    'github/acme/one': server('a', { installCmd: 'echo "export default 1" >built.mjs' }),
    'github/acme/two': { run_cmd: 'node server.mjs', install_cmd: 'true', envs: { MODE: 'pages' } },
    'github/other/one': server('b'),
    'github/acme/missing': server('x'),
    'github/../etc': server('x'),
    'github/acme/norun': {},
    nosuch: { key: 1 },
  })
  assert.equal(code, 0, out)
  assert.match(out, /github\/acme\/one: 5 tools\ngithub\/acme\/two: 2 tools\ngithub\/other\/one: 5 tools\n/)
  assert.match(out, /github\/acme\/missing: failed: ended with exit code 128/)
  assert.match(out, /github\/\.\.\/etc: failed: .*is no repository/)
  assert.match(out, /norun: failed: runCmd is missing/)
  assert.match(out, /nosuch: failed: no package of npm/)
  assert.equal(fs.readFileSync(`${dir}/etc/.token`, 'utf8'), 'secret', 'no line end')
  assert.equal(fs.statSync(`${dir}/etc/.token`).mode & 0o777, 0o600)
  assert.ok(fs.existsSync(`${dir}/servers/github/acme/one/built.mjs`))
  const client = await connect()
  assert.match(client.getInstructions(), /missing: failed/)
  const names = (await client.listTools()).tools.map(({ name }) => name)
  assert.deepEqual(names, ['one_echo', 'only_in_a', 'one_die', 'one_hang', 'one_refuse', 'first', 'two_die', 'one_echo_2', 'only_in_b', 'one_die_2', 'one_hang_2', 'one_refuse_2'])
  assert.equal(new Set(names).size, names.length)
  assert.ok(names.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name)))
  const seen = []
  assert.equal(await text(client.callTool({ name: 'one_echo_2', arguments: { x: 'é' } }, undefined, { onprogress: (step) => seen.push(step) })), 'b {"x":"é"}')
  assert.deepEqual(seen, [{ progress: 0.5, total: 2, message: 'a quarter' }, { progress: 2 }])
  await assert.rejects(client.callTool({ name: 'one_refuse', arguments: {} }), (e) => e.code === -32050 && /not today/.test(e.message) && e.data.until[0] === 7)
  await assert.rejects(client.callTool({ name: 'nope', arguments: {} }), /unknown tool/)
  await client.close()
  await stop()
})

test('a server that crashes is started again, and gives up after three starts; others go on', async () => {
  assert.equal((await start({ 'github/acme/one': server('a'), 'github/acme/two': server('pages') })).code, 0)
  const client = await connect()
  for (let starts = 1; starts <= 3; starts++) {
    await until('the server is back', async () => (await client.listTools()).tools.some(({ name }) => name.endsWith('only_in_a')))
    assert.match(await text(client.callTool({ name: 'one_die', arguments: {} })), /github\/acme\/one (ended with exit code 3|has failed)/)
  }
  await until('it has failed', async () => !(await client.listTools()).tools.some(({ name }) => name === 'only_in_a'))
  assert.deepEqual((await client.listTools()).tools.map(({ name }) => name), ['first', 'two_die'], 'a name stays')
  assert.match(await text(client.callTool({ name: 'one_die', arguments: {} })), /the server github\/acme\/one is not running: ended with exit code 3/)
  await client.close()
  await stop()
})

test('names stay when another server comes, and sessions are told of each change', async () => {
  const go = `${dir}/go`
  const config = { 'github/acme/one': server('late', { envs: { MODE: 'late', GO: go } }), 'github/acme/two': server('a') }
  assert.equal((await start(config, { wait: 1 })).code, 0)
  const client = await connect()
  let told = 0
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void told++)
  assert.equal(client.getServerCapabilities().tools.listChanged, true)
  const names = async () => (await client.listTools()).tools.map(({ name }) => name)
  const first = await until('one server runs', async () => ((found) => found.length && found)(await names()))
  assert.deepEqual(first, ['echo', 'only_in_a', 'die', 'hang', 'refuse'])
  told = 0
  fs.writeFileSync(go, '')
  await until('a message about the other server', () => told > 0)
  assert.deepEqual(await names(), ['one_echo', 'only_in_late', 'one_die', 'one_hang', 'one_refuse', ...first])
  assert.equal(await text(client.callTool({ name: 'echo', arguments: {} })), 'a {}')
  assert.equal(await text(client.callTool({ name: 'one_echo', arguments: {} })), 'late {}')
  fs.rmSync(go)
  told = 0
  assert.match(await text(client.callTool({ name: 'one_die', arguments: {} })), /one ended with exit code 3/)
  await until('a message about the crash', () => told > 0)
  assert.deepEqual(await names(), first)
  assert.match(await text(client.callTool({ name: 'one_echo', arguments: {} })), /the server github\/acme\/one is starting/)
  told = 0
  fs.writeFileSync(go, '')
  await until('a message that it is back', () => told > 0)
  assert.equal(await text(client.callTool({ name: 'one_echo', arguments: {} })), 'late {}')
  await client.close()
  await stop()
})

test('the servers do not get the token of the gateway', async () => {
  assert.equal((await start({ 'github/acme/one': server('a') }, { token: 'not-for-servers' })).code, 0)
  const all = [daemon, ...ofServers()].map((pid) => fs.readFileSync(`/proc/${pid}/environ`, 'latin1'))
  assert.ok(all.length >= 2 && all.some((environment) => environment.includes('MODE=a')))
  for (const environment of all) assert.ok(!environment.includes('not-for-servers') && environment.includes('PATH='))
  for (const environment of all.slice(1)) assert.ok(!environment.includes('GATEWAY_ACCESS_TOKEN'))
  await stop()
})

test('a gateway that is killed while its servers start: said on stderr', async () => {
  const starting = start({ 'github/acme/one': server('silent') })
  const pids = await until('both processes', () => ((found) => found.length === 2 && ofServers().length && found)(ofGateway()))
  process.kill(pids.find((pid) => pids.includes(parent(pid))), 'SIGKILL')
  const { code, out, err } = await starting
  assert.deepEqual([code, out], [1, ''])
  assert.match(err, new RegExp(`^mcp-gateway: the gateway ended before its servers ran; its log is ${dir}/log\n$`))
  await until('its servers are gone', () => left() === 0)
})

test('a call to a server that hangs can be cancelled', async () => {
  assert.equal((await start({ 'github/acme/one': server('a') })).code, 0)
  const client = await connect()
  const aborts = new AbortController()
  setTimeout(() => aborts.abort(new Error('enough')), 200)
  await assert.rejects(client.callTool({ name: 'hang', arguments: {} }, undefined, { signal: aborts.signal }), /enough/)
  assert.equal(await text(client.callTool({ name: 'echo', arguments: {} })), 'a {}')
  await assert.rejects(connect('wrong'), /token/)
  await client.close()
  await stop()
})

test('a server that never answers does not hold up the start for ever', async () => {
  const { code, out } = await start({ 'github/acme/one': server('silent') }, { wait: 2 })
  assert.deepEqual([code, out], [0, 'the servers are still starting\n'])
  const client = await connect()
  assert.match(client.getInstructions(), /one: is starting/)
  assert.deepEqual((await client.listTools()).tools, [])
  await client.close()
  await stop()
})

test('servers that never end a line, babble, list tools for ever, or answer twice: the rest serve', async () => {
  fs.mkdirSync(`${dir}/repos/acme`, { recursive: true })
  for (const name of ['endless', 'babbles', 'forever', 'swamps', 'twice']) fs.cpSync(`${dir}/repos/acme/one`, `${dir}/repos/acme/${name}`, { recursive: true })
  const { code, out } = await start({ ...Object.fromEntries(['endless', 'babbles', 'forever', 'swamps', 'twice'].map((name) => [`github/acme/${name}`, server(name)])), 'github/acme/two': server('pages') })
  assert.equal(code, 0, out)
  assert.match(out, /endless: failed: the server sent a message that is too long/)
  assert.match(out, /forever: 1 tools/)
  assert.match(out, /swamps: 2000 tools/)
  const client = await connect()
  const { tools } = await client.listTools()
  assert.equal(new Set(tools.map(({ name }) => name)).size, tools.length)
  assert.equal(await text(client.callTool({ name: tools.find(({ name }) => /twice.*/.test(name)).name, arguments: {} })), 'first')
  assert.equal(await text(client.callTool({ name: tools.find(({ name }) => name === 'first').name, arguments: {} })), 'pages {}')
  assert.equal(await text(client.callTool({ name: tools.find(({ name }) => /^babbles_echo/.test(name)).name, arguments: {} })), 'babbles {}')
  assert.deepEqual(tools.find(({ name }) => name === 'same'), { name: 'same', inputSchema: { type: 'object' } }, 'what is malformed is left out')
  assert.ok(Number(fs.readFileSync(`/proc/${daemon}/status`, 'utf8').match(/VmRSS:\s+(\d+)/)[1]) < 64 * 1024)
  await client.close()
  await stop()
})

test('servers from npm by their names: pulled ahead, or installed at the start; with variables and arguments', { timeout: 300_000 }, async () => {
  const pulled = spawnSync(program, ['--dir', `${dir}/servers`, 'pull', 'memory'], { encoding: 'utf8' })
  assert.equal(pulled.status, 0, pulled.stderr)
  assert.equal(spawnSync(program, ['pull', 'nosuch'], { encoding: 'utf8' }).status, 1)
  fs.mkdirSync(`${dir}/shared`)
  fs.writeFileSync(`${dir}/shared/hello it's`, 'from a file')
  const { code, out } = await start({ memory: {}, filesystem: { paths: [`${dir}/shared`] }, 'github/acme/one': server('a') }, { wait: 200 })
  assert.equal(code, 0, out)
  assert.match(out, /memory: \d+ tools\nfilesystem: \d+ tools\ngithub\/acme\/one: 5 tools\n/)
  const client = await connect()
  const names = (await client.listTools()).tools.map(({ name }) => name)
  assert.ok(names.includes('create_entities') && names.includes('read_text_file') && names.includes('echo'))
  assert.match(await text(client.callTool({ name: 'read_text_file', arguments: { path: `${dir}/shared/hello it's` } })), /from a file/)
  assert.equal((await client.callTool({ name: 'read_text_file', arguments: { path: '/etc/passwd' } })).isError, true)
  await client.callTool({ name: 'create_entities', arguments: { entities: [{ name: 'x', entityType: 'y', observations: [] }] } })
  assert.match(await text(client.callTool({ name: 'read_graph', arguments: {} })), /"x"/)
  await client.close()
  await stop()
})

test('what is wrong at once is told on stderr, and nothing stays', async () => {
  const cases = [['nonsense', {}, /no JSON object/], ['[]', {}, /no JSON object/], [{}, { token: null }, /GATEWAY_ACCESS_TOKEN is not set/], [{}, { args: ['--nope', 'x'] }, /^usage/], [{}, { args: ['--listen', 'nowhere'] }, /mcp-gateway: ./]]
  for (const [config, options, words] of cases) {
    const { code, out, err } = await start(config, options)
    assert.ok(code === 1 || code === 2)
    assert.equal(out, '')
    assert.match(err, words)
    assert.equal(daemon, undefined)
  }
})

test('a second gateway on the same port is refused', async () => {
  assert.equal((await start({})).code, 0)
  const second = spawn(program, ['--config', '{}', '--listen', `127.0.0.1:${port}`, '--token-file', `${dir}/etc/.token2`, '--log', `${dir}/log`], { env: { ...process.env, GATEWAY_ACCESS_TOKEN: 'x' } })
  let err = ''
  second.stderr.on('data', (piece) => (err += piece))
  assert.equal(await new Promise((resolve) => second.once('close', resolve)), 1)
  assert.match(err, /in use/i)
  await stop()
})
