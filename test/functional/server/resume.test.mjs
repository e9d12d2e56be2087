// Traffic to sandboxes at rest: held until they run, woken once however many come, and only by those who may.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import http2 from 'node:http2'
import { after, before, test } from 'node:test'
import tls from 'node:tls'

import { leakless as leaklessOn } from '../lib/census.mjs'
import { api, createRaw, envd, killRaw } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'
import { RawStream } from '../lib/stream.mjs'
import { until } from '../lib/wait.mjs'

let server
before(async () => (server = await Server.start()))
after(() => server.cleanUp())
const leakless = (body) => (t) => leaklessOn(server, body)(t)

/** Counts requests in its memory, says how long bodies were, echoes what comes behind an upgrade, streams when asked. */
const program = `
import hashlib, http.server, itertools, time
count = itertools.count(1)
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self, body):
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers(); self.wfile.write(body)
    def do_GET(self):
        if self.headers.get("Upgrade") == "echo":
            self.wfile.write(b"HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: echo\\r\\n\\r\\n")
            while line := self.rfile.readline(): self.wfile.write(line)
        elif self.path == "/stream":
            self.send_response(200); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
            while True:
                self.wfile.write(b"4\\r\\ntick\\r\\n"); time.sleep(0.05)
        else:
            self.answer(b"%d" % next(count))
    def do_POST(self):
        self.answer(hashlib.sha256(self.rfile.read(int(self.headers["Content-Length"]))).hexdigest().encode())
    def log_message(self, *args): pass
http.server.ThreadingHTTPServer.request_queue_size = 512
http.server.ThreadingHTTPServer(("127.0.0.1", 8000), Handler).serve_forever()
`

const wakes = { templateID: 'base', timeout: 600, autoPause: true, autoResume: { enabled: true }, secure: true }
const route = (sandbox, port = 8000) => ({ 'E2b-Sandbox-Id': sandbox.sandboxID, 'E2b-Sandbox-Port': String(port) })
const ask = (sandbox, { method = 'GET', path = '/', port, headers, body } = {}) => api(server, method, path, { key: null, body, headers: { ...route(sandbox, port), ...headers } })
const state = async (sandbox) => (await api(server, 'GET', `/sandboxes/${sandbox.sandboxID}`)).json.state
const resumptions = (sandbox) => server.log.split(`sandbox.resumed sandbox=${sandbox.sandboxID}`).length - 1

async function pause(sandbox, body = {}) {
  const answer = await api(server, 'POST', `/sandboxes/${sandbox.sandboxID}/pause`, { body })
  assert.equal(answer.status, 204, answer.body)
}

/** A case with a sandbox in which the program runs. */
const withProgram = (create, body) => leakless(async () => {
  const sandbox = await createRaw(server, { ...wakes, ...create })
  const token = sandbox.trafficAccessToken ? { 'e2b-traffic-access-token': sandbox.trafficAccessToken } : {}
  try {
    await envd(server, sandbox, 'POST', '/files?path=/tmp/server.py', { body: program, headers: { 'Content-Type': 'application/octet-stream' } })
    const message = Buffer.from(JSON.stringify({ process: { cmd: 'python3', args: ['/tmp/server.py'] }, stdin: false }))
    const head = Buffer.alloc(5)
    head.writeUInt32BE(message.length, 1)
    const stream = envd(server, sandbox, 'POST', '/process.Process/Start', { body: Buffer.concat([head, message]), headers: { 'Content-Type': 'application/connect+json' } })
    stream.catch(() => {}) // cut by the pause
    await until('the program', async () => (await ask(sandbox, { method: 'POST', body: '', headers: token })).status === 200)
    await body(sandbox, token)
  } finally {
    await killRaw(server, sandbox.sandboxID)
  }
})

const numbers = (answers) => answers.map((a) => Number(a.body)).sort((a, b) => a - b)

test('two hundred requests at once: one wake, each served once', withProgram({}, async (sandbox) => {
  await pause(sandbox)
  const answers = await Promise.all(Array.from({ length: 200 }, () => ask(sandbox)))
  assert.deepEqual([...new Set(answers.map((a) => a.status))], [200], answers.find((a) => a.status !== 200)?.body)
  assert.deepEqual(numbers(answers), Array.from({ length: 200 }, (_, i) => i + 1))
  await until('the log', () => resumptions(sandbox) > 0)
  assert.equal(resumptions(sandbox), 1)
  assert.equal(await state(sandbox), 'running')
}))

test('two hundred streams of one HTTP/2 connection: the same', withProgram({}, async (sandbox) => {
  const [name, port] = server.domain.split(':')
  const ca = fs.readFileSync(server.env.NODE_EXTRA_CA_CERTS)
  const session = http2.connect(`https://${server.domain}`, { createConnection: () => tls.connect({ host: '127.0.0.1', port: Number(port), servername: `8000-x.${name}`, ca, ALPNProtocols: ['h2'] }) })
  await once(session, 'connect')
  await pause(sandbox)
  const get = async () => {
    const stream = session.request({ ':path': '/', ':authority': `8000-${sandbox.sandboxID}.${server.domain}` }).setEncoding('utf8')
    let body = ''
    stream.on('data', (piece) => (body += piece))
    const [head] = await once(stream, 'response')
    await once(stream, 'end')
    return { status: head[':status'], body }
  }
  const answers = await Promise.all(Array.from({ length: 200 }, get))
  session.close()
  assert.deepEqual(numbers(answers), Array.from({ length: 200 }, (_, i) => i + 1))
  assert.equal(resumptions(sandbox), 1)
}))

test('a long body waits and arrives whole; an upgrade is held, then opened', withProgram({}, async (sandbox) => {
  const bytes = randomBytes(5 << 20)
  await pause(sandbox)
  const up = await ask(sandbox, { method: 'POST', body: bytes })
  assert.deepEqual([up.status, up.body], [200, createHash('sha256').update(bytes).digest('hex')])

  await pause(sandbox)
  const socket = new RawStream(server.port, `GET / HTTP/1.1\r\nHost: 8000-${sandbox.sandboxID}.localhost\r\n` + 'Connection: Upgrade\r\nUpgrade: echo\r\n\r\n')
  await socket.until(/^HTTP\/1.1 101 /)
  socket.socket.write('there and back\n')
  await socket.until(/\r\n\r\nthere and back\n/)
  socket.socket.destroy()
}))

test('streams are cut at a pause, never ended; then it is woken again', withProgram({}, async (sandbox) => {
  const host = `Host: 8000-${sandbox.sandboxID}.localhost\r\n`
  const stream = new RawStream(server.port, `GET /stream HTTP/1.1\r\n${host}\r\n`)
  await stream.until(/tick/)
  await pause(sandbox)
  await stream.closed
  assert.equal(stream.how, 'error')
  assert.equal((await ask(sandbox)).body, '1')
}))

test('private traffic wakes with its token only', withProgram({ network: { allowPublicTraffic: false } }, async (sandbox, token) => {
  await pause(sandbox)
  for (const headers of [{}, { 'e2b-traffic-access-token': 'wrong' }]) assert.equal((await ask(sandbox, { headers })).status, 403)
  assert.equal(await state(sandbox), 'paused')
  assert.equal((await ask(sandbox, { headers: token })).status, 200)
  assert.equal(await state(sandbox), 'running')
}))

test('commands and files wake with the access token only', withProgram({}, async (sandbox) => {
  await pause(sandbox)
  for (const headers of [{}, { 'X-Access-Token': 'wrong' }]) {
    const answer = await ask(sandbox, { path: '/health', port: 49983, headers })
    assert.deepEqual([answer.status, answer.json.message], [403, "This sandbox can't be resumed with the credentials provided. Check your access token and try again."])
  }
  assert.equal(await state(sandbox), 'paused')
  assert.equal((await ask(sandbox, { path: '/health', port: 49983, headers: { 'X-Access-Token': sandbox.envdAccessToken } })).status, 204)
}))

test('with files only it is not woken by traffic', withProgram({}, async (sandbox) => {
  await pause(sandbox, { memory: false })
  const answer = await ask(sandbox)
  assert.deepEqual([answer.status, answer.json.message], [502, 'The sandbox was not found'])
  assert.equal(await state(sandbox), 'paused')
}))

test('paused with files only and rolled back to a snapshot with memory, traffic resumes it', withProgram({}, async (sandbox) => {
  const { snapshotID } = (await api(server, 'POST', `/sandboxes/${sandbox.sandboxID}/snapshots`, { body: {} })).json
  await pause(sandbox, { memory: false })
  assert.equal((await ask(sandbox)).status, 502) // every edge may know by now that nothing resumes it
  const back = await api(server, 'POST', `/sandboxes/${sandbox.sandboxID}/rollback`, { body: { snapshotID } })
  assert.deepEqual([back.status, await state(sandbox)], [200, 'paused'])
  const answer = await ask(sandbox)
  assert.deepEqual([answer.status, answer.body], [200, '1'])
  await killRaw(server, sandbox.sandboxID)
  assert.equal((await api(server, 'DELETE', `/templates/${snapshotID}`)).status, 204)
}))

test('a request that comes while it goes to rest is held, too', withProgram({}, async (sandbox) => {
  for (let i = 0; i < 5; i++) {
    const going = pause(sandbox)
    const answers = await Promise.all(Array.from({ length: 10 }, () => ask(sandbox).catch((e) => e)))
    await going
    // Those that were in the sandbox already are cut; none hears that it is not there.
    for (const a of answers) assert.ok(a.status === 200 || a.code === 'ECONNRESET', `${a.status} ${a.body ?? a}`)
    assert.equal((await ask(sandbox)).status, 200)
  }
}))

test('a kill while requests wait: each is served or not found, none is left', withProgram({}, async (sandbox) => {
  await pause(sandbox)
  const waiting = Array.from({ length: 50 }, () => ask(sandbox).catch((e) => e))
  const killed = await killRaw(server, sandbox.sandboxID)
  assert.equal(killed.status, 204)
  for (const a of await Promise.all(waiting)) assert.ok([200, 502].includes(a.status) || a.code === 'ECONNRESET', `${a.status} ${a.body ?? a}`)
  assert.equal((await ask(sandbox)).status, 502)
}))

test('control killed while a request waits: it is woken all the same', withProgram({}, async (sandbox) => {
  await pause(sandbox)
  const waiting = Array.from({ length: 20 }, () => ask(sandbox))
  await server.killRoles('control')
  for (const a of await Promise.all(waiting)) assert.equal(a.status, 200, a.body)
}))
