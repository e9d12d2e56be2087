// What breaks while sandboxes go to rest and come back: disks, images, roles, the machine.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'

import { cellProcesses, instanceName, returned, settled, pausedRecord } from '../lib/census.mjs'
import { hold } from '../lib/inside.mjs'
import { isAlive, processes } from '../lib/proc.mjs'
import { api, createRaw, killRaw } from '../lib/raw.mjs'
import { Server, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { openWhenRead, until } from '../lib/wait.mjs'

const { Sandbox, SandboxError } = await import('e2b')
const cold = { warm_mb: 0 }

const speakTo = (server) => Object.assign(process.env, clientEnvironment(server, 'http'))

/** A server for one case; `again` in the body replaces it. */
const withServer = (settings, body) => async () => {
  const held = { server: await Server.start({ settings }) }
  held.again = async () => {
    held.server = await held.server.again({ settings })
    speakTo(held.server)
  }
  speakTo(held.server)
  const keeps = held.server.keepsData
  try {
    await body(held)
  } finally {
    held.server.keepsData = keeps
    await held.server.cleanUp()
  }
}

const post = (server, id, what, body = {}) => api(server, 'POST', `/sandboxes/${id}/${what}`, { body })
const stateOf = async (server, id) => (await api(server, 'GET', `/sandboxes/${id}`)).json?.state ?? 'gone'

/** A sandbox with a counter in memory, and a question that fails when it began anew. */
async function counting(options = {}) {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000, ...options })
  const ask = await hold(sandbox, 'python', { port: 8000, args: '8' })
  await ask()
  await sandbox.files.write('kept', 'kept')
  return { sandbox, ask }
}

/** The files of a paused sandbox's checkpoint, largest first. */
function images(server, id) {
  const dir = server.file(`checkpoints/${pausedRecord(server, id).checkpoint}`)
  const found = fs.readdirSync(dir, { recursive: true }).map((name) => path.join(dir, name)).filter((f) => fs.statSync(f).isFile())
  return { dir, manifest: path.join(dir, 'manifest.json'), files: found.sort((a, b) => fs.statSync(b).size - fs.statSync(a).size) }
}

function flipByte(file, at) {
  const fd = fs.openSync(file, 'r+')
  const byte = Buffer.alloc(1)
  fs.readSync(fd, byte, 0, 1, at)
  byte[0] ^= 0x40
  fs.writeSync(fd, byte, 0, 1, at)
  fs.closeSync(fd)
}

test('a damaged image is noticed, and the files are still there', withServer(cold, async ({ server }) => {
  const before = await settled(server)
  const damages = {
    'a byte of memory': ({ files }) => flipByte(files[0], Math.floor(fs.statSync(files[0]).size / 2)),
    'a small image': ({ files }) => flipByte(files.findLast((f) => f.endsWith('.img') && fs.statSync(f).size > 30), 20),
    'a file cut short': ({ files }) => fs.truncateSync(files[0], 4096),
    'a file gone': ({ files }) => fs.rmSync(files[0]),
    'the manifest': ({ manifest }) => fs.writeFileSync(manifest, fs.readFileSync(manifest, 'utf8').slice(0, -20)),
  }
  for (const [what, damage] of Object.entries(damages)) {
    const { sandbox } = await counting()
    await sandbox.pause()
    damage(images(server, sandbox.sandboxId))
    const answer = await post(server, sandbox.sandboxId, 'connect', { timeout: 100 })
    assert.ok(answer.status >= 400, `${what}: ${answer.body}`)
    assert.match(answer.json.message, /damaged/, what)
    assert.equal(await stateOf(server, sandbox.sandboxId), 'paused')
    await assert.rejects(sandbox.connect(), SandboxError)
    const rebooted = await Sandbox.connect(sandbox.sandboxId, { onResume: 'reboot' })
    assert.equal(await rebooted.files.read('kept'), 'kept', what)
    await rebooted.kill()
  }
  await returned(server, before)
}))

const crc32c = (text) => {
  let crc = ~0
  for (const byte of Buffer.from(text)) {
    crc ^= byte
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0x82f63b78 : 0)
  }
  return (~crc >>> 0).toString(16).padStart(8, '0')
}
const inOrder = (value) =>
  Array.isArray(value) ? value.map(inOrder) : value && typeof value === 'object' ? Object.fromEntries(Object.keys(value).sort().map((k) => [k, inOrder(value[k])])) : value

/** A manifest whose own sum is right. */
function withSum({ manifest_crc32c: sum, ...rest }) {
  assert.match(sum, /^[0-9a-f]{8}$/)
  return JSON.stringify(inOrder({ ...rest, manifest_crc32c: crc32c(JSON.stringify(inOrder(rest))) }))
}

test('an image of another version is refused in words', withServer(cold, async ({ server }) => {
  const before = await settled(server)
  const changes = [
    [{ format: 4711 }, /the checkpoint is of format 4711, this server reads format \d/],
    [{ machine: 'vax' }, /the checkpoint is of another machine: vax, this is \w/],
    [{ envd: 'f'.repeat(64) }, /checkpoint damaged: its envd \(f{12}\) is not kept any more/],
  ]
  for (const [change, words] of changes) {
    const { sandbox } = await counting()
    await sandbox.pause()
    const { manifest } = images(server, sandbox.sandboxId)
    const old = JSON.parse(fs.readFileSync(manifest, 'utf8'))
    assert.ok(Object.keys(change).every((k) => k in old), `manifest has ${Object.keys(old)}`)
    assert.equal(JSON.parse(withSum(old)).manifest_crc32c, old.manifest_crc32c) // or what follows would say nothing
    fs.writeFileSync(manifest, withSum({ ...old, ...change }))
    const answer = await post(server, sandbox.sandboxId, 'connect', { timeout: 100 })
    assert.ok(answer.status >= 400, answer.body)
    assert.match(answer.json.message, words)
    assert.equal(await stateOf(server, sandbox.sandboxId), 'paused')
    fs.writeFileSync(manifest, JSON.stringify(old))
    await sandbox.connect() // put right, it works
    assert.equal(await sandbox.files.read('kept'), 'kept')
    await sandbox.kill()
  }
  await returned(server, before)
}))

test('disk full while pausing: it goes on, and nothing half-written stays', async () => {
  const data = temporaryDir('full')
  assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=160m,mode=755', 'sandglass-test', data]).status, 0)
  let server
  try {
    server = await Server.start({ data, settings: cold })
    speakTo(server)
    const before = await settled(server)
    const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
    const ask = await hold(sandbox, 'python', { port: 8000, args: '190' })
    await ask()
    await sandbox.files.write('kept', 'kept')
    const answer = await post(server, sandbox.sandboxId, 'pause')
    assert.ok(answer.status >= 500, answer.body)
    assert.match(answer.json.message, /space|disk|full/i)
    assert.equal(await stateOf(server, sandbox.sandboxId), 'running')
    assert.equal((await ask()).requests, 2)
    await until('nothing half-written', () => ['checkpoints', 'trash'].every((d) => fs.readdirSync(server.file(d)).length === 0))
    assert.equal(await sandbox.pause({ keepMemory: false }), true) // the way out
    await sandbox.connect()
    assert.equal(await sandbox.files.read('kept'), 'kept')
    await sandbox.kill()
    await returned(server, before)
  } finally {
    await server?.cleanUp()
    spawnSync('umount', [data])
    fs.rmSync(data, { recursive: true, force: true })
  }
})

/** As if the machine had lost its power: every process gone, the directory kept, another boot. */
async function reboot(held) {
  const { server } = held
  await server.stop('SIGKILL')
  await until('the roles gone', () => !server.rolePids().some(isAlive))
  // The instance number is this server's while a sandbox runs, and free for any other server afterwards: list them once.
  const own = cellProcesses(instanceName(server.data)).filter((p) => p.state !== 'Z')
  assert.ok(own.length > 0)
  for (const { pid } of own) if (isAlive(pid)) process.kill(pid, 'SIGKILL')
  await until('no process left', () => !own.some(({ pid }) => isAlive(pid)))
  for (const name of fs.readdirSync(server.file('sandboxes'))) {
    const cell = server.file(`sandboxes/${name}/running.json`)
    if (fs.existsSync(cell)) fs.writeFileSync(cell, fs.readFileSync(cell, 'utf8').replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}/, '00000000-0000-0000-0000-000000000000'))
  }
  await held.again()
}

for (const settings of [cold, { warm_mb: 1024 }])
  test(`after the machine went down, the paused come back with memory (warm_mb ${settings.warm_mb})`, withServer(settings, async (held) => {
    const { sandbox, ask } = await counting({ metadata: { mark: 'kept' } })
    const files = await counting()
    const running = await createRaw(held.server)
    const { snapshotId } = await sandbox.createSnapshot()
    await sandbox.pause()
    await files.sandbox.pause({ keepMemory: false })
    await reboot(held)
    assert.equal(await stateOf(held.server, running.sandboxID), 'gone')
    assert.equal(await stateOf(held.server, sandbox.sandboxId), 'paused')
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal((await ask(again)).requests, 2)
    assert.deepEqual((await again.getInfo()).metadata, { mark: 'kept' })
    const cold = await Sandbox.connect(files.sandbox.sandboxId)
    assert.equal(await cold.files.read('kept'), 'kept')
    const copy = await Sandbox.create(snapshotId)
    const answer = JSON.parse((await copy.commands.run('curl -s http://127.0.0.1:8000/')).stdout)
    assert.equal(answer.requests, 2) // it had answered once
    await Promise.all([again.kill(), cold.kill(), copy.kill()])
    await Sandbox.deleteSnapshot(snapshotId)
    await until('nothing kept', () => ['checkpoints', 'sealed', 'sandboxes'].every((d) => fs.readdirSync(held.server.file(d)).length === 0))
  }))

const healthy = (server) => until('an answer', async () => (await api(server, 'GET', '/health').catch(() => null))?.status < 300)

/** Whatever the killed role was at: the sandbox ends up running or paused, with its memory, and nothing is left over. */
async function killedDuring(held, what, role, delayMs) {
  const { server } = held
  const { sandbox, ask } = await counting()
  const id = sandbox.sandboxId
  if (what === 'resume') await sandbox.pause()
  const under = (what === 'fork' ? post(server, id, 'fork', { count: 2, timeout: 60 }) : what === 'snapshot' ? post(server, id, 'snapshots') : post(server, id, what)).catch(() => null)
  await new Promise((done) => setTimeout(done, delayMs)) // anywhere in between
  await server.killRoles(role)
  await under
  await healthy(server)
  await until('it settles', async () => ['running', 'paused'].includes(await stateOf(server, id)))
  const again = await Sandbox.connect(id, { timeoutMs: 300_000 })
  await ask(again)
  assert.equal(await again.files.read('kept'), 'kept')
  assert.equal(await again.pause(), true)
  await again.connect()
  await ask(again)
  for (const { sandboxID } of (await api(server, 'GET', '/v2/sandboxes')).json) await killRaw(server, sandboxID)
  for (const { snapshotID } of (await api(server, 'GET', '/snapshots')).json) await api(server, 'DELETE', `/templates/${encodeURIComponent(snapshotID)}`)
}

for (const role of ['engine', 'control', 'edge'])
  test(`kill -9 of ${role} during pause, resume, snapshot and fork`, withServer(cold, async (held) => {
    const before = await settled(held.server)
    const delays = { pause: [5, 40, 90], resume: [5, 40], snapshot: [60], fork: [30, 110] }
    for (const [what, list] of Object.entries(delays)) for (const delay of role === 'edge' ? list.slice(-1) : list) await killedDuring(held, what, role, delay)
    await until('nothing kept', () => ['checkpoints', 'sealed', 'sandboxes'].every((d) => fs.readdirSync(held.server.file(d)).length === 0))
    await returned(held.server, before, { kept: { edge: 40, control: 40, engine: 40 } })
  }))

/** Holds the next worker at this point; -> kill(), which waits for it to be there, and ends it. */
function trap(server, point) {
  const fifo = server.file(`stall/${point}`)
  fs.mkdirSync(path.dirname(fifo), { recursive: true })
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  return async () => {
    const held = await openWhenRead(fifo)
    fs.rmSync(fifo)
    const at = (pid) => { try { return fs.readdirSync(`/proc/${pid}/fd`).some((fd) => fs.readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(fifo)) } catch { return false } }
    const workers = processes().filter((p) => p.pid !== process.pid && at(p.pid))
    assert.equal(workers.length, 1)
    process.kill(workers[0].pid, 'SIGKILL')
    await held.close()
  }
}

test('kill -9 of the process that makes a layer of the files, or flushes it: another one does it, and nothing is lost', withServer(cold, async ({ server }) => {
  const before = await settled(server)
  for (const point of ['moved', 'flushing']) {
    const { sandbox, ask } = await counting()
    await sandbox.pause()
    const killIt = trap(server, point)
    const under = post(server, sandbox.sandboxId, 'fork', { timeout: 300 })
    await killIt()
    const answer = await under
    assert.equal(answer.status, 201, `${point}: ${answer.body}`)
    const copy = await Sandbox.connect(answer.json[0].sandbox.sandboxID)
    await sandbox.connect({ timeoutMs: 300_000 })
    for (const one of [sandbox, copy]) assert.equal(await one.files.read('kept'), 'kept', point)
    await ask()
    await Promise.all([sandbox.kill(), copy.kill()])
  }
  await returned(server, before)
}))

test('kill -9 of the worker that pauses or resumes: what the API says of the sandbox is so', withServer(cold, async ({ server }) => {
  const before = await settled(server)
  const points = { pause: { frozen: 'running', dumped: 'running', kept: 'paused' }, resume: { placed: 'paused', restored: 'paused', resumed: 'running' } }
  const done = { kept: 204, resumed: 201 } // all was done, and only the word of it was missing
  for (const [what, list] of Object.entries(points)) for (const [point, state] of Object.entries(list)) {
    const { sandbox, ask } = await counting()
    const id = sandbox.sandboxId
    if (what === 'resume') await sandbox.pause()
    const killIt = trap(server, point)
    const under = post(server, id, what)
    await killIt()
    assert.equal((await under).status, done[point] ?? 503, `${what} ${point}`)
    await until(`${state} after ${point}`, async () => (await stateOf(server, id)) === state)
    const again = await Sandbox.connect(id, { timeoutMs: 300_000 })
    await ask(again)
    assert.equal(await again.pause(), true)
    await again.connect()
    await ask(again)
    await again.kill()
  }
  await returned(server, before)
}))

test('kill -9 of everything during a pause', withServer(cold, async (held) => {
  for (const delay of [10, 60]) {
    const { sandbox, ask } = await counting()
    const under = post(held.server, sandbox.sandboxId, 'pause').catch(() => null)
    await new Promise((done) => setTimeout(done, delay))
    const roles = held.server.rolePids()
    await held.server.stop('SIGKILL')
    for (const pid of roles) try { process.kill(pid, 'SIGKILL') } catch { /* it ended with its supervisor */ }
    await under
    await held.again()
    await until('it settles', async () => ['running', 'paused'].includes(await stateOf(held.server, sandbox.sandboxId)))
    const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 300_000 })
    await ask(again)
    await again.kill()
  }
  await until('nothing kept', () => ['checkpoints', 'sealed', 'sandboxes'].every((d) => fs.readdirSync(held.server.file(d)).length === 0))
}))

test('server stopped and started: the paused are paused, with memory', withServer({ warm_mb: 1024 }, async (held) => {
  const { sandbox, ask } = await counting()
  await sandbox.pause()
  await held.server.stop()
  await held.again()
  assert.equal(await stateOf(held.server, sandbox.sandboxId), 'paused')
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await ask(again)).requests, 2)
  await again.kill()
}))
