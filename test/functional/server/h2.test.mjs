// HTTP/2 at the edge: one connection carries many sandboxes and many streams, and streams end as they do on HTTP/1.1.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import fs from 'node:fs'
import http2 from 'node:http2'
import net from 'node:net'
import tls from 'node:tls'
import test from 'node:test'

import { sandboxPids } from '../lib/census.mjs'
import { openFiles, processInfo } from '../lib/proc.mjs'
import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const { Sandbox, leakless, server, withSandbox } = await suite()
const [name, port] = server.domain.split(':')
const ca = fs.readFileSync(server.env.NODE_EXTRA_CA_CERTS)

/** A connection to the one origin of all sandboxes, or to the host of one. */
async function connect(authority = `sandbox.${name}:${port}`) {
  const servername = authority.replace(/:\d+$/, '')
  const session = http2.connect(`https://${authority}`, { createConnection: () => tls.connect({ host: '127.0.0.1', port: Number(port), servername, ca, ALPNProtocols: ['h2'] }) })
  await once(session, 'connect')
  return session
}

/** One exchange: what came, and how it ended ('end' in order, or the code of the reset). */
function call(session, sandbox, path, { port = 49983, method = 'POST', headers = {}, body } = {}) {
  const stream = session.request({ ':method': method, ':path': path, 'e2b-sandbox-id': sandbox.sandboxId, 'e2b-sandbox-port': String(port), 'x-access-token': sandbox.envdAccessToken, ...headers }, { endStream: body === undefined })
  const x = { stream, text: '', how: null }
  stream.setEncoding('latin1')
  x.head = new Promise((done) => stream.once('response', (h) => done((x.status = h[':status']))))
  stream.on('data', (piece) => { x.text += piece; stream.emit('more') })
  stream.on('end', () => { if (!stream.aborted && stream.rstCode === 0) x.how ??= 'end' })
  stream.on('error', () => {})
  x.closed = new Promise((done) => stream.once('close', () => { if (stream.rstCode) x.how = stream.rstCode; done() }))
  x.until = async (pattern) => { while (!pattern.test(x.text)) { assert.ok(!stream.destroyed, `ended without ${pattern}: ${x.text.slice(-300)}`); await Promise.race([once(stream, 'more'), x.closed]) } }
  if (body) stream.end(body) // null: it stays open
  return x
}

function start(session, sandbox, command) {
  const payload = Buffer.from(JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', command] }, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(payload.length, 1)
  return call(session, sandbox, '/process.Process/Start', { headers: { 'content-type': 'application/connect+json' }, body: Buffer.concat([head, payload]) })
}
const outputOf = (x) => [...x.text.matchAll(/"stdout":"([^"]*)"/g)].map((m) => Buffer.from(m[1], 'base64').toString()).join('')

test('the client chooses: h2 or http/1.1', leakless(async () => {
  for (const protocol of ['h2', 'http/1.1']) {
    const socket = tls.connect({ host: '127.0.0.1', port: Number(port), servername: `sandbox.${name}`, ca, ALPNProtocols: [protocol] })
    await once(socket, 'secureConnect')
    assert.equal(socket.alpnProtocol, protocol)
    socket.destroy()
  }
}))

test('without TLS: a client that begins with the preface of HTTP/2 is spoken to in it, however it arrives', withSandbox(async (sandbox) => {
  const session = http2.connect(`http://127.0.0.1:${server.port}`)
  const x = start(session, sandbox, 'echo in the clear')
  const none = call(session, sandbox, '/', { method: 'GET', port: 3000 })
  await Promise.all([x.closed, none.closed])
  assert.deepEqual([x.status, x.how, outputOf(x)], [200, 'end', 'in the clear\n'])
  assert.deepEqual([none.status, JSON.parse(none.text).port], [502, 3000])
  session.destroy()

  const first = async (pieces) => {
    const socket = net.connect({ port: server.port, host: '127.0.0.1', noDelay: true })
    const heard = once(socket, 'data')
    for (const piece of pieces) await new Promise((done) => socket.write(piece, 'latin1', done))
    const [bytes] = await heard
    socket.destroy()
    return bytes
  }
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + '\x00'.repeat(3) + '\x04' + '\x00'.repeat(5)
  assert.equal((await first(preface.split('')))[3], 4, 'a SETTINGS frame')
  assert.equal((await first([preface]))[3], 4)
  for (const near of ['PRI * HTTP/2.1\r\n\r\n', 'PRI / HTTP/2.0\r\n\r\n', 'PRIX / HTTP/1.1\r\n\r\n']) assert.match(String(await first(near.split(''))), /^HTTP\/1\.1 (400|505) /)
  assert.match(String(await first('PROPFIND /health HTTP/1.1\r\nHost: x\r\n\r\n'.split(''))), /^HTTP\/1\.1 4\d\d /)
}))

test('one origin, several sandboxes, one connection', leakless(async () => {
  const boxes = await Promise.all([Sandbox.create(), Sandbox.create(), Sandbox.create()])
  const session = await connect()
  const calls = boxes.map((box) => start(session, box, 'printf %s "$E2B_SANDBOX_ID"'))
  await Promise.all(calls.map((x) => x.closed))
  calls.forEach((x, i) => assert.deepEqual([x.status, x.how, outputOf(x)], [200, 'end', boxes[i].sandboxId]))
  const lost = call(session, { sandboxId: 'i' + 'n0'.repeat(10), envdAccessToken: '' }, '/health', { method: 'GET' })
  await lost.closed
  assert.deepEqual([lost.status, JSON.parse(lost.text).message], [502, 'The sandbox was not found'])
  session.destroy()
  await Promise.all(boxes.map((box) => box.kill()))
}))

test('five hundred commands at once on one connection', withSandbox(async (sandbox) => {
  const session = await connect()
  await sandbox.commands.run('mkfifo /tmp/gate')
  const keeper = await sandbox.commands.run('exec sleep 600 <> /tmp/gate', { background: true, timeoutMs: 0 })
  const calls = Array.from({ length: 500 }, (_, i) => start(session, sandbox, `read -r _ < /tmp/gate; echo number ${i}`))
  await Promise.all(calls.map((x) => x.until(/"pid":\d+/)))
  assert.equal((await sandbox.commands.list()).length, 501)
  await sandbox.commands.run(`printf '\\n%.0s' $(seq 500) > /tmp/gate`)
  await Promise.all(calls.map((x) => x.closed))
  calls.forEach((x, i) => assert.deepEqual([x.how, outputOf(x)], ['end', `number ${i}\n`]))
  await keeper.kill()
  session.destroy()
}))

test('a stream given up is given up inside at once; the others go on', withSandbox(async (sandbox) => {
  const session = await connect()
  const pid = sandboxPids(server, sandbox.sandboxId).find((p) => /envd/.test(processInfo(p)?.name ?? ''))
  const sockets = () => openFiles(pid).filter(([, t]) => t.startsWith('socket:')).length
  const calls = Array.from({ length: 20 }, () => start(session, sandbox, 'exec sleep 600'))
  await Promise.all(calls.map((x) => x.until(/"pid":\d+/)))
  const busy = sockets()
  for (const x of calls.slice(1)) x.stream.close(http2.constants.NGHTTP2_CANCEL)
  await until(() => `connections of the daemon closed: ${busy} -> ${sockets()}`, () => sockets() <= busy - 19)
  assert.equal((await sandbox.commands.list()).length, 20, 'the processes stay')
  assert.equal(calls[0].stream.destroyed, false)
  session.destroy()
}))

test('a kill resets the streams, without an end', leakless(async () => {
  const [doomed, other] = await Promise.all([Sandbox.create(), Sandbox.create()])
  const session = await connect()
  const cut = start(session, doomed, 'echo up; exec sleep 600')
  const kept = start(session, other, 'echo up; exec sleep 600')
  await Promise.all([cut.until(/"stdout"/), kept.until(/"stdout"/)])
  await doomed.kill()
  await cut.closed
  assert.equal(cut.how, http2.constants.NGHTTP2_INTERNAL_ERROR)
  assert.equal(kept.stream.destroyed, false, 'only its own')
  const health = call(session, doomed, '/health', { method: 'GET' })
  await health.closed
  assert.equal(health.status, 502)
  session.destroy()
  await other.kill()
}))

test('a WebSocket as a stream among others', withSandbox(async (sandbox) => {
  const script = "require('node:http').createServer().on('upgrade', (rq, s) => { s.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: x\\r\\n\\r\\n' + rq.url + ' '); s.pipe(s) }).listen(3000)"
  await sandbox.files.write('ws.cjs', script)
  await sandbox.commands.run('node ws.cjs', { background: true, timeoutMs: 0 })
  await sandbox.commands.run('until (exec 3<>/dev/tcp/127.0.0.1/3000) 2>/dev/null; do sleep 0.02; done')
  const session = await connect(`3000-${sandbox.sandboxId}.${name}:${port}`)
  if (!session.remoteSettings.enableConnectProtocol) await once(session, 'remoteSettings')
  assert.equal(session.remoteSettings.enableConnectProtocol, true)
  const headers = { ':protocol': 'websocket', 'sec-websocket-version': '13', origin: 'https://page.example' }
  const socket = call(session, sandbox, '/live?x=1', { method: 'CONNECT', headers, body: null })
  assert.equal(await socket.head, 200)
  for (const text of ['one', 'two', 'three']) {
    socket.stream.write(text)
    await socket.until(new RegExp(`${text}$`))
  }
  assert.equal(socket.text, '/live?x=1 onetwothree')
  await sandbox.kill()
  await socket.closed
  assert.notEqual(socket.how, 'end')
  session.destroy()
}))

test('a large body both ways, many streams sharing the connection', withSandbox(async (sandbox) => {
  const session = await connect()
  const body = Buffer.alloc(3 << 20, 'abcdefghijklmnop')
  const headers = { 'content-type': 'application/octet-stream' }
  const up = Array.from({ length: 8 }, (_, i) => call(session, sandbox, `/files?path=big${i}`, { headers, body }))
  await Promise.all(up.map((x) => x.closed))
  assert.deepEqual(up.map((x) => x.status), Array(8).fill(200))
  const down = Array.from({ length: 8 }, (_, i) => call(session, sandbox, `/files?path=big${i}`, { method: 'GET' }))
  await Promise.all(down.map((x) => x.closed))
  for (const x of down) assert.ok(x.how === 'end' && x.text === body.toString('latin1'))
  session.destroy()
}))
