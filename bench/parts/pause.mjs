// Pause, resume, fork and snapshots beside plain CRIU on the same processes; paused sandboxes, and what they hold.
import fs from 'node:fs'
import path from 'node:path'

import { descendants } from '../../test/functional/lib/proc.mjs'
import { api, createRaw, envd, killRaw } from '../../test/functional/lib/raw.mjs'
import { imagesDir, Server, temporaryDir } from '../../test/functional/lib/server.mjs'
import { until } from '../../test/functional/lib/wait.mjs'
import { measureCriu, measurePodman, median, pythonServer, since } from './criu.mjs'
import { row } from '../table.mjs'

const ms = (n) => n * 1000

async function must(answer, status, what) {
  const got = await answer
  if (got.status !== status) throw new Error(`${what}: ${got.status} ${got.body}`)
  return got.json
}

const roomy = 'bench-roomy'

/** The template once more, with room for a GiB in one program, for as long as the body runs. */
async function withRoomyTemplate(body) {
  const templates = path.join(imagesDir(), 'templates')
  const file = path.join(templates, `${roomy}.json`)
  const manifest = JSON.parse(fs.readFileSync(path.join(templates, 'base.json'), 'utf8'))
  fs.writeFileSync(file, JSON.stringify({ ...manifest, alias: roomy, templateID: 'bench0roomy000000000', memoryMB: 2048 }))
  try {
    return await body()
  } finally {
    fs.rmSync(file)
  }
}

/** A server of its own, so that the budget for warm ones is what is measured. */
async function withServer(settings, body) {
  const config = path.join(temporaryDir('bench'), 'config.json')
  fs.writeFileSync(config, JSON.stringify({ sandboxes_max: 10_000, ...settings }))
  const server = await Server.start({ args: ['--config', config] })
  try {
    return await body(server)
  } finally {
    await server.cleanUp()
    fs.rmSync(path.dirname(config), { recursive: true, force: true })
  }
}

function envelope(script) {
  const message = Buffer.from(JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', script] }, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

const start = (server, sandbox, script) =>
  envd(server, sandbox, 'POST', '/process.Process/Start', { body: envelope(script), headers: { 'Content-Type': 'application/connect+json' } })
/** A command to its end: what "answered" means. */
const command = (server, sandbox) => must(start(server, sandbox, 'exit 0'), 200, 'command')
const write = (server, sandbox, file, body) => must(envd(server, sandbox, 'POST', `/files?path=${file}`, { body, headers: { 'Content-Type': 'application/octet-stream' } }), 200, file)
const port = (server, sandbox, number) => api(server, 'GET', '/', { key: null, headers: { 'E2b-Sandbox-Id': sandbox.sandboxID, 'E2b-Sandbox-Port': String(number) } })

const pause = (server, sandbox) => must(api(server, 'POST', `/sandboxes/${sandbox.sandboxID}/pause`, { body: {} }), 204, 'pause')

/** A sandbox in which this answers on the port; its stream is dropped, the program stays. */
async function withProgram(server, { file, text, run, on, templateID = 'base' }) {
  const sandbox = await createRaw(server, { templateID, timeout: 3600 })
  await write(server, sandbox, file, text)
  start(server, sandbox, run).catch(() => {})
  await until('the program inside', async () => (await port(server, sandbox, on)).status === 200, 60_000)
  return sandbox
}
const python = (server, mbytes) => withProgram(server, { templateID: mbytes > 500 ? roomy : 'base', file: '/tmp/server.py', text: pythonServer(mbytes), run: 'exec python3 /tmp/server.py', on: 8000 })

/** Pause and resume n times over, by a raw client: percentiles of pause, resume, and of the same requests without a pause. */
async function cycle(server, sandbox, n, measure) {
  const times = await measure('cycle', ['-p', String(server.port), '-k', server.key, '-i', sandbox.sandboxID, '-t', sandbox.envdAccessToken, '-n', String(n)])
  if ((await port(server, sandbox, 8000)).status !== 200) throw new Error('the server inside is lost')
  return times
}

function writeFloor(mbytes, synced) {
  const file = path.join(temporaryDir('write'), 'file')
  const bytes = Buffer.alloc(mbytes << 20, 120)
  const times = []
  for (let i = 0; i < 3; i++) {
    fs.rmSync(file, { force: true })
    const t = performance.now()
    const fd = fs.openSync(file, 'w')
    fs.writeSync(fd, bytes)
    if (synced) fs.fsyncSync(fd)
    fs.closeSync(fd)
    times.push(since(t))
  }
  fs.rmSync(path.dirname(file), { recursive: true })
  return median(times)
}

async function measureCycle(server, { measure, floor, quick, result, rows }) {
  const n = quick ? 3 : 9
  const sandbox = await python(server, 50)
  const times = await cycle(server, sandbox, n, measure)
  await killRaw(server, sandbox.sandboxID)
  const p50 = { pause: times.pause.p50, resume: times.resume.p50 }
  const written = writeFloor(57, true)
  result.small = { ...times, written }
  rows.push(
    row('pause, envd + python of 50 MB, durable', p50.pause, 'us', { floor: floor?.synced, floorName: 'plain criu dump + fsync', atMost: floor && floor.synced + ms(20) }),
    row('pause, the same, against the time to write as much', p50.pause, 'us', { floor: written, floorName: '57 MB written + fsync', atMost: ms(200) + written }),
    row('resume → first command answered, same', p50.resume, 'us', { floor: floor?.restore, floorName: 'plain criu restore', atMost: floor && floor.restore + ms(20) }),
    row('resume, the same, in itself', p50.resume, 'us', { atMost: ms(150) }),
  )
}

async function measureLarge(server, { measure, quick, result, rows }) {
  const mbytes = quick ? 256 : 1024
  const sandbox = await python(server, mbytes)
  const times = await cycle(server, sandbox, quick ? 1 : 3, measure)
  await killRaw(server, sandbox.sandboxID)
  result.large = { mbytes, ...times }
  rows.push(
    row(`pause, ${mbytes} MiB touched`, times.pause.p50, 'us', { floor: writeFloor(mbytes, true), floorName: 'written + fsync', atMost: ms(2000) }),
    row(`resume → first command, ${mbytes} MiB`, times.resume.p50, 'us'),
  )
}

/** Notes the longest time between two looks at the wall clock: the monotonic one stands still while it is stopped. */
const watcher = `
import time
last, most = time.time(), 0
while True:
    time.sleep(0.001)
    now = time.time()
    if now - last > most:
        most = now - last
        with open("/tmp/most", "w") as f: f.write("%d" % (most * 1e6))
    last = now
`

async function measureFork(server, { quick, result, rows }) {
  const n = quick ? 2 : 5
  const times = { stopped: [], answering: [] }
  for (let i = 0; i < n; i++) {
    const sandbox = await python(server, 100)
    await write(server, sandbox, '/tmp/watch.py', watcher)
    start(server, sandbox, 'exec python3 /tmp/watch.py').catch(() => {})
    await until('the watch', async () => (await envd(server, sandbox, 'GET', '/files?path=/tmp/most')).status === 200)
    const t = performance.now()
    const forks = await must(api(server, 'POST', `/sandboxes/${sandbox.sandboxID}/fork`, { body: { count: 10, timeout: 600 } }), 201, 'fork')
    const copies = forks.map((f) => f.sandbox ?? (() => { throw new Error(`fork: ${JSON.stringify(f.error)}`) })())
    await Promise.all(copies.map((copy) => command(server, copy)))
    times.answering.push(since(t))
    await command(server, sandbox)
    times.stopped.push(Number((await envd(server, sandbox, 'GET', '/files?path=/tmp/most')).body))
    await Promise.all([sandbox, ...copies].map((s) => killRaw(server, s.sandboxID)))
  }
  const written = writeFloor(107, false)
  result.fork = { ...times, written }
  rows.push(
    row('fork of 100 MB: the original stopped for', median(times.stopped), 'us', { floor: written, floorName: '107 MB written', atMost: ms(150) + written }),
    row('fork of 100 MB: 10 copies answering', median(times.answering), 'us', { atMost: ms(1500) }),
  )
}

const nodeServer = "require('http').createServer((request, answer) => answer.end('hello')).listen(3000)"

async function measureSnapshot(server, { quick, result, rows }) {
  const sandbox = await withProgram(server, { file: '/tmp/server.cjs', text: nodeServer, run: 'exec node /tmp/server.cjs', on: 3000 })
  const { snapshotID } = await must(api(server, 'POST', `/sandboxes/${sandbox.sandboxID}/snapshots`, { body: {} }), 201, 'snapshot')
  const times = []
  for (let i = -1; i < (quick ? 3 : 9); i++) {
    const t = performance.now()
    const made = await createRaw(server, { templateID: snapshotID, timeout: 600 })
    const answer = await port(server, made, 3000)
    const took = since(t)
    if (answer.status !== 200) throw new Error(`the server from the snapshot: ${answer.status} ${answer.body}`)
    if (i >= 0) times.push(took)
    await killRaw(server, made.sandboxID)
  }
  await killRaw(server, sandbox.sandboxID)
  result.snapshot = times
  rows.push(row('create from snapshot → node server answers', median(times), 'us', { atMost: ms(150) }))
}

async function measureWarm(server, { measure, quick, result, rows }) {
  const sandbox = await python(server, 50)
  const times = await cycle(server, sandbox, quick ? 5 : 25, measure)
  await killRaw(server, sandbox.sandboxID)
  result.warm = times
  rows.push(row('resume from the warm tier → first command', times.resume.p50, 'us', { floor: times.running.p50, floorName: 'the same two requests, running', atMost: ms(5) }))
}

const available = () => Number(/MemAvailable:\s+(\d+)/.exec(fs.readFileSync('/proc/meminfo', 'utf8'))[1])
/** Processes in this server's sandboxes and cells: its descendants that are not in our pid namespace. */
const inSandboxes = (server) => {
  const own = fs.readlinkSync('/proc/self/ns/pid')
  return descendants(server.supervisor).filter((p) => {
    try {
      return fs.readlinkSync(`/proc/${p.pid}/ns/pid`) !== own
    } catch {
      return false
    }
  }).length
}

/** Many paused sandboxes, and what they hold: the pool's cells are there before and after. */
async function measurePaused({ quick, result, rows }) {
  const count = quick ? 50 : 500
  await withServer({ warm_mb: 0, pool_size: 1 }, async (server) => {
    await killRaw(server, (await createRaw(server)).sandboxID)
    const settled = async () => {
      let [last, times] = [-1, 0]
      await until('the pool as before', () => {
        const now = inSandboxes(server)
        times = now === last ? times + 1 : 0
        last = now
        return times >= 20
      }, 60_000)
      return last
    }
    const before = { processes: await settled(), kib: available() }
    for (let i = 0; i < count; i += 10)
      await Promise.all(Array.from({ length: 10 }, async () => pause(server, await createRaw(server, { templateID: 'base', timeout: 3600 }))))
    const after = { processes: await settled(), kib: available() }
    result.paused = { count, before, after }
    rows.push(
      row(`processes of ${count} paused sandboxes`, after.processes - before.processes, 'count', { atMost: 0, note: `${before.processes} ready cells before and after` }),
      row(`memory of each of ${count} paused sandboxes`, Math.max(0, before.kib - after.kib) / count, 'kib', { atMost: 64, note: 'what the machine has less, divided: noise and kernel caches included' }),
    )
    const ids = fs.readdirSync(server.file('sandboxes'))
    for (let i = 0; i < ids.length; i += 10) await Promise.all(ids.slice(i, i + 10).map((id) => killRaw(server, id)))
  })
}

export async function measurePause({ measure, programs, layer, quick, result, rows }) {
  const figures = (result.figures.pause = {})
  const n = quick ? 3 : 9
  const floor = measureCriu({ programs, layer, mbytes: 50, n })
  figures.floor = floor
  rows.push(row('floor: criu dump, envd + python of 50 MB', floor.dump, 'us', { note: `with fsync ${(floor.synced / 1000).toFixed(0)} ms` }), row('floor: criu restore of it', floor.restore, 'us'))
  const podman = measurePodman({ layer, mbytes: 50, n: quick ? 1 : 3 })
  figures.podman = podman
  rows.push(
    row('podman container checkpoint, same python', podman.dump, 'us', { floor: podman.dump && floor.synced, floorName: 'plain criu dump + fsync', note: podman.error }),
    row('podman container restore', podman.restore, 'us', { floor: podman.restore && floor.restore, floorName: 'plain criu restore', note: podman.error }),
  )
  const part = { measure, floor, quick, result: figures, rows }
  /** One that fails does not take the others with it. */
  const attempt = async (name, body) => {
    try {
      await body()
    } catch (e) {
      rows.push(row(name, undefined, 'us', { note: `failed: ${e.message.split('\n')[0]}` }))
    }
  }
  await withRoomyTemplate(() => withServer({ warm_mb: 0 }, async (server) => {
    for (const [name, take] of Object.entries({ 'pause and resume': measureCycle, 'a large memory': measureLarge, fork: measureFork, snapshot: measureSnapshot }))
      await attempt(name, () => take(server, part))
  }))
  await attempt('warm tier', () => withServer({ warm_mb: 4096 }, (server) => measureWarm(server, part)))
  await attempt('many paused sandboxes', () => measurePaused(part))
}
