// Servers inside a sandbox, reached through getHost(port).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import test from 'node:test'

import { echoServer } from '../lib/echo.mjs'
import { request, webSocket } from '../lib/preview.mjs'
import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const context = await suite()
const { Sandbox, leakless, withSandbox } = context
const ask = (...args) => request(context, ...args)

/** Start a program inside and wait until its port answers. */
async function serve(sandbox, command, port) {
  await sandbox.commands.run(command, { background: true, timeoutMs: 0 })
  await until(`port ${port} open`, async () => (await ask(sandbox, port)).status !== 502)
}

test('an HTTP server inside is reachable by its host name', withSandbox(async (sandbox) => {
  await sandbox.files.write('www/index.html', '<h1>inside</h1>')
  await serve(sandbox, 'python3 -m http.server 8000 --directory www', 8000)
  const page = await ask(sandbox, 8000)
  assert.deepEqual([page.status, page.body], [200, '<h1>inside</h1>'])
  assert.equal((await ask(sandbox, 8000, { path: '/none' })).status, 404)
}))

test('servers on each kind of local address are reachable', withSandbox(async (sandbox) => {
  await sandbox.files.write('echo.cjs', echoServer)
  let port = 9001
  for (const address of ['0.0.0.0', '127.0.0.1', 'localhost', '::', '::1']) {
    await serve(sandbox, `node echo.cjs ${port} ${address}`, port)
    assert.equal((await ask(sandbox, port)).status, 200, address)
    assert.ok((await fastest(() => ask(sandbox, port))) < 100, `${address}: at once`)
    port++
  }
}))

/** Milliseconds of the fastest of a few tries: what it takes on a machine that is busy otherwise, too. */
async function fastest(action) {
  let best = Infinity
  for (let i = 0; i < 5; i++) {
    const start = performance.now()
    await action()
    best = Math.min(best, performance.now() - start)
  }
  return best
}

test('a request that comes a moment before the server listens is answered by it', withSandbox(async (sandbox) => {
  const script = 'input(); import http.server as h; h.HTTPServer(("127.0.0.1", PORT), h.SimpleHTTPRequestHandler).serve_forever()'
  const answers = []
  for (let port = 9001; port < 9006 && !answers.includes(200); port++) { // one that dawdles, on a busy machine, says nothing
    const server = await sandbox.commands.run(`python3 -c '${script.replace('PORT', port)}'`, { background: true, stdin: true, timeoutMs: 0 })
    const early = ask(sandbox, port)
    await sandbox.commands.sendStdin(server.pid, '\n')
    answers.push((await early).status)
  }
  assert.ok(answers.includes(200), answers.join())
}))

test('method, path, headers and body pass through unchanged', withSandbox(async (sandbox) => {
  await sandbox.files.write('echo.cjs', echoServer)
  await serve(sandbox, 'node echo.cjs 3000 127.0.0.1', 3000)
  const body = 'x'.repeat(300_000)
  const answer = await ask(sandbox, 3000, { method: 'PUT', path: '/a%20b/..%2f?q=1&q=2', headers: { 'X-Mine': 'yes', 'X-Forwarded-For': '1.2.3.4' }, body })
  const seen = JSON.parse(answer.body)
  assert.deepEqual([seen.method, seen.url, seen.bytes, seen.headers['x-mine']], ['PUT', '/a%20b/..%2f?q=1&q=2', 300_000, 'yes'])
  assert.equal(seen.headers['x-forwarded-for'], undefined)
  assert.equal(seen.headers.host, sandbox.getHost(3000))
}))

test('a WebSocket is tunnelled both ways', withSandbox(async (sandbox) => {
  await sandbox.files.write('echo.cjs', echoServer)
  await serve(sandbox, 'node echo.cjs 3000 127.0.0.1', 3000)
  const socket = webSocket(context, sandbox, 3000, '/live')
  await once(socket, 'open')
  for (const text of ['hello', 'x'.repeat(5000), 'ü']) {
    socket.send(text)
    const [data] = await once(socket, 'message')
    assert.equal(data.toString(), text)
  }
  const closed = once(socket, 'close')
  await sandbox.kill() // cuts the tunnel
  await closed
}))

test('a closed port: 502, JSON with sandbox and port', withSandbox(async (sandbox) => {
  const answer = await ask(sandbox, 4321)
  assert.equal(answer.status, 502)
  assert.deepEqual(JSON.parse(answer.body), { sandboxId: sandbox.sandboxId, message: 'The sandbox is running but port is not open', port: 4321, code: 502 })
}))

test('after kill, and for ids that never were: 502, not found', leakless(async () => {
  const sandbox = await Sandbox.create()
  await sandbox.kill()
  for (const [who, id] of [[sandbox, sandbox.sandboxId], ['i' + 'n0'.repeat(10), 'i' + 'n0'.repeat(10)]]) {
    const answer = await ask(who, 3000)
    assert.equal(answer.status, 502)
    assert.deepEqual(JSON.parse(answer.body), { sandboxId: id, message: 'The sandbox was not found', code: 502 })
  }
}))

test('a browser gets a page instead of JSON', withSandbox(async (sandbox) => {
  const headers = { 'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0', Accept: 'text/html' }
  const closed = await ask(sandbox, 4321, { headers })
  assert.equal(closed.status, 502)
  assert.match(closed.headers['content-type'], /^text\/html/)
  assert.match(closed.body, /no service running on port/)
  const gone = await ask('i' + 'n0'.repeat(10), 4321, { headers })
  assert.match(gone.body, /Sandbox Not Found/)
}))

test('endpoints of the control plane are closed to the outside', withSandbox(async (sandbox) => {
  for (const path of ['/init', '/freeze', '/upgrade', '/x/../init']) {
    const answer = await ask(sandbox, 49983, { method: 'POST', path })
    assert.deepEqual([answer.status, JSON.parse(answer.body).code], [404, 404], path)
  }
}))

test('the daemon of a sandbox refuses calls without its token', withSandbox(async (sandbox) => {
  const answer = await ask(sandbox, 49983, { method: 'POST', path: '/process.Process/List', headers: { 'Content-Type': 'application/json' }, body: '{}' })
  assert.equal(answer.status, 401)
  assert.equal((await ask(sandbox, 49983, { path: '/files?path=/etc/passwd' })).status, 401)
  assert.ok((await ask(sandbox, 49983, { path: '/health' })).status < 300)
}))

test('traffic can be made private with a token', withSandbox(async (sandbox) => {
  await serveTiny(sandbox)
  assert.ok(sandbox.trafficAccessToken)
  assert.equal((await ask(sandbox, 8000)).status, 403)
  assert.equal((await ask(sandbox, 8000, { headers: { 'E2B-Traffic-Access-Token': 'wrong' } })).status, 403)
  const headers = { 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken }
  await until('port open', async () => (await ask(sandbox, 8000, { headers })).status === 200)
}, { network: { allowPublicTraffic: false } }))

async function serveTiny(sandbox) {
  await sandbox.commands.run('python3 -m http.server 8000', { background: true, timeoutMs: 0 })
}
