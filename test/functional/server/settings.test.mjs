// What an operator can set at the edge: a limit of connections into each sandbox, and a line in the log for each request.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import test, { after, before } from 'node:test'

import { leakless as counted } from '../lib/census.mjs'
import { request } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { Server, temporaryDir } from '../lib/server.mjs'
import { RawStream } from '../lib/stream.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const most = 3
const dir = temporaryDir('settings')
fs.writeFileSync(path.join(dir, 'config.json'), JSON.stringify({ edge_count: 1, sandbox_connections_max: most, access_log: true }))
const server = await Server.start({ args: ['--config', path.join(dir, 'config.json')] })
after(async () => {
  await server.cleanUp()
  fs.rmSync(dir, { recursive: true })
})
Object.assign(process.env, clientEnvironment(server, 'http'))
const { Sandbox, SandboxError } = await import('e2b')
const leakless = (body) => counted(server, body)
const ask = (...args) => request({ server, transport: 'http' }, ...args)
const lab = fs.readFileSync(new URL('../inside/lab.cjs', import.meta.url), 'utf8')

async function withLab(options) {
  const sandbox = await Sandbox.create(options)
  await sandbox.files.write('lab.cjs', lab)
  await sandbox.commands.run('node lab.cjs 3000 >/dev/null 2>&1 &')
  await sandbox.commands.run('until (exec 3<>/dev/tcp/127.0.0.1/3000) 2>/dev/null; do sleep 0.02; done')
  return sandbox
}

let box
before(async () => { box = await withLab() })

/** A stream from inside that stays open. */
async function events(sandbox = box, headers = '') {
  const stream = new RawStream(server.port, `GET /events HTTP/1.1\r\nHost: ${sandbox.getHost(3000)}\r\n${headers}\r\n`)
  await stream.until(/data: 0\n/)
  return stream
}

/** Who leaves is not counted any more as soon as the edge has heard of it. */
const free = (sandbox = box) => until('room for another connection', async () => (await ask(sandbox, 3000)).status === 200)

test('one connection too many: 429 with the limit, for any port; room again when one ends', leakless(async () => {
  const open = [await events(), await events()]
  const tunnel = new RawStream(server.port, `GET / HTTP/1.1\r\nHost: ${box.getHost(3000)}\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n`)
  await tunnel.until(/ 101 /) // tunnels count, too
  for (const port of [3000, 4321, 49983]) {
    const answer = await ask(box, port)
    assert.equal(answer.status, 429)
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
    assert.deepEqual(JSON.parse(answer.body), { sandboxId: box.sandboxId, message: `The sandbox has too many concurrent incoming connections (limit: ${most})`, code: 429, connectionLimit: most })
  }
  const page = await ask(box, 3000, { headers: { 'User-Agent': 'Mozilla/5.0 Firefox/140.0' } })
  assert.deepEqual([page.status, page.headers['content-type']], [429, 'text/html; charset=utf-8'])
  assert.ok(page.body.startsWith('<html') && page.body.includes(box.sandboxId) && page.body.includes(`limit: ${most}`))
  assert.equal((await ask(box, 49983, { method: 'POST', path: '/init' })).status, 404, 'what is refused anyway is refused as always')
  await tunnel.close()
  await free()
  for (const stream of open) await stream.close()
  await free()
}))

test('the client gives its user an error, and works again when there is room', leakless(async () => {
  const commands = []
  for (let i = 0; i < most; i++) commands.push(await box.commands.run('sleep 60', { background: true }))
  await assert.rejects(box.files.read('/etc/hostname'), (e) => e instanceof SandboxError && e.message.includes('too many concurrent incoming connections'))
  await assert.rejects(box.files.list('/'), SandboxError) // 429 and 502 are the same to its call layer
  await assert.rejects(box.commands.run('true'), SandboxError)
  await assert.rejects(box.isRunning(), SandboxError, 'it is not said to be gone')
  await commands[0].disconnect()
  await free()
  assert.equal(await box.isRunning(), true)
  for (const { pid } of commands) assert.equal(await box.commands.kill(pid), true)
  await Promise.allSettled(commands.slice(1).map((c) => c.wait()))
}))

test('each sandbox has its own count; a missing token is told before it', leakless(async () => {
  const own = await withLab({ network: { allowPublicTraffic: false } })
  const open = await Promise.all(Array.from({ length: most }, () => events()))
  assert.equal((await ask(box, 3000)).status, 429)
  assert.equal((await ask(own, 3000, { headers: { 'e2b-traffic-access-token': own.trafficAccessToken } })).status, 200)
  const all = await Promise.all(Array.from({ length: most }, () => events(own, `E2b-Traffic-Access-Token: ${own.trafficAccessToken}\r\n`)))
  assert.equal((await ask(own, 3000)).status, 403)
  assert.equal((await ask(own, 3000, { headers: { 'e2b-traffic-access-token': own.trafficAccessToken } })).status, 429)
  for (const stream of [...open, ...all]) await stream.close()
  await own.kill()
  await free()
}))

/** The line of the access log that has all of these. */
const line = (...parts) => until(`a line with ${parts}`, () => server.log.split('\n').find((l) => / edge exchange /.test(l) && parts.every((p) => l.includes(` ${p} `))))
const field = (text, name) => Number(new RegExp(` ${name}=(\\d+)`).exec(text)[1])

test('the access log: protocol, sandbox, port, method, status, bytes both ways, time; nothing secret', leakless(async () => {
  const body = 'x'.repeat(5000)
  const of = (id, port, method, status) => ['proto=h1', `sandbox=${id}`, `port=${port}`, `method=${method}`, `status=${status}`]
  await ask(box, 3000, { method: 'PUT', path: '/echo?private-word', body, headers: { Authorization: 'private-word', Cookie: 'private-word' } })
  const echoed = await line(...of(box.sandboxId, 3000, 'PUT', 200))
  assert.match(echoed, /^\d{4}-\d\d-\d\dT\S+ info  edge exchange /)
  assert.ok(field(echoed, 'in') >= body.length && field(echoed, 'out') >= body.length, echoed)
  assert.ok(field(echoed, 'ms') < 60_000)
  await ask(box, 3000, { path: '/slow' })
  const slow = await until('the slow one', () => server.log.split('\n').find((l) => l.includes(` sandbox=${box.sandboxId} `) && l.includes(' method=GET ') && field(l, 'ms') >= 2500))
  assert.match(slow, / status=200 /)
  await ask(box, 4321, { method: 'DELETE' })
  await line(...of(box.sandboxId, 4321, 'DELETE', 502))
  await ask('i' + 'n0'.repeat(10), 80, { method: 'PATCH' })
  await line(...of('i' + 'n0'.repeat(10), 80, 'PATCH', 502))
  await api(server, 'GET', '/sandboxes?private-word')
  await line('sandbox=-', 'method=GET', 'status=200')
  const stream = await events()
  await stream.close() // also who leaves before the end
  await until('the stream', () => server.log.split('\n').some((l) => l.includes(' port=3000 method=GET status=200 ') && field(l, 'out') > 0))
  assert.doesNotMatch(server.log, /private-word/)
  assert.ok(!server.log.includes(server.key))
}))

test('a log that nobody reads holds nobody up; what is missing is counted when it is read again', leakless(async () => {
  server.child.stderr.pause()
  const many = new RawStream(server.port, 'GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(3000))
  await many.until({ exec: (text) => text.split('HTTP/1.1 204 ').length > 3000 })
  await many.close()
  assert.equal((await box.commands.run('echo on')).stdout, 'on\n')
  server.child.stderr.resume()
  await until('word of the missing lines', async () => {
    await api(server, 'GET', '/health')
    return / warn  edge log\.dropped lines=[1-9]/.test(server.log)
  })
}))
