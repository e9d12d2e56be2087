// Measures a server of its own and the floor under it in the same run; prints a table and writes bench/result.json.
//
//   bench/run --compare OLD.json [NEW.json]     measures nothing: both, and new/old; NEW is bench/result.json
//   bench/run [--quick] [memory|floor|mounts|life|client|parallel|lives|many|files|output|big|proxy|percore|streams|http2|tunnels|others|pause|templates|workplace|agent|code|mcp|library ...]
import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { descendants } from '../test/functional/lib/proc.mjs'
import { createRaw, envd, killRaw } from '../test/functional/lib/raw.mjs'
import { Server, temporaryDir } from '../test/functional/lib/server.mjs'
import { until } from '../test/functional/lib/wait.mjs'
import { measureAgent } from './parts/agent.mjs'
import { measureCode } from './parts/code.mjs'
import { compareFiles } from './compare/compare.mjs'
import { measureBig, measureOutput } from './parts/data.mjs'
import { measureHttp2, measurePerCore, measureStreams, measureTunnels } from './parts/edge.mjs'
import { measureLibrary } from './parts/library.mjs'
import { measureMcp } from './parts/mcp.mjs'
import { measureOthers } from './parts/others.mjs'
import { measurePause } from './parts/pause.mjs'
import { print, row } from './table.mjs'
import { measureTemplates, measureWorkplace } from './parts/templates.mjs'

const here = path.dirname(fileURLToPath(import.meta.url))
const programs = path.join(here, '..', 'build', 'bench')
const quick = process.argv.includes('--quick')
const wanted = process.argv.slice(2).filter((a) => !a.startsWith('-'))
const wants = (part) => wanted.length === 0 || wanted.includes(part)
const few = (n) => String(quick ? Math.ceil(n / 5) : n)
const result = { when: new Date().toISOString(), quick, parts: wanted, machine: machine(), peers: peers(), figures: {} }
const rows = []

function machine() {
  const cpu = os.cpus()
  const system = /^PRETTY_NAME="?([^"\n]*)/m.exec(fs.readFileSync('/etc/os-release', 'utf8'))?.[1]
  const cgroups = fs.existsSync('/sys/fs/cgroup/cgroup.controllers') ? 'v2' : 'v1'
  return { system, kernel: /^[\d.]+/.exec(os.release())[0], cpus: cpu.length, cpu: cpu[0]?.model, memoryMB: Math.round(os.totalmem() / 2 ** 20), cgroups }
}

/** What is compared with, and in which version; null: not installed. */
function peers() {
  const version = (argv) => {
    const r = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8' })
    return r.error ? null : (/\d+\.\d[\w.+~-]*/.exec(r.stdout + r.stderr)?.[0] ?? null)
  }
  return Object.fromEntries(['nginx -v', 'wrk -v', 'podman --version', 'buildah --version', 'crun --version', 'runc --version'].map((c) => [c.split(' ')[0], version(c.split(' '))]))
}

/** Run a program to its end while we go on reading the server's log: {status, stdout, stderr}. */
function execute(argv) {
  const child = spawn(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] })
  const text = { stdout: '', stderr: '' }
  for (const name of Object.keys(text)) child[name].setEncoding('utf8').on('data', (piece) => (text[name] += piece))
  return new Promise((done) => {
    child.once('error', (e) => done({ status: -1, stdout: '', stderr: e.message }))
    child.once('close', (code, signal) => done({ status: code ?? signal, ...text }))
  })
}

/** One of our own; its last line is the result. */
async function measure(program, args) {
  const r = await execute([path.join(programs, program), ...args])
  if (r.status !== 0) throw new Error(`${program} ${args.join(' ')}: ${r.stderr || r.status}`)
  return JSON.parse(r.stdout.trim().split('\n').at(-1))
}

const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0
const client = (server, mode, ...args) => measure('client', ['-p', String(server.port), '-k', server.key, ...args, mode])

function meminfo() {
  const all = {}
  for (const m of fs.readFileSync('/proc/meminfo', 'utf8').matchAll(/^(\w+):\s+(\d+)/gm)) all[m[1]] = Number(m[2])
  return all
}

const rollup = (pid, key) => Number(new RegExp(`^${key}:\\s+(\\d+)`, 'm').exec(fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0)
const cpuTicks = (pid) => {
  const f = fs.readFileSync(`/proc/${pid}/stat`, 'utf8')
  const after = f.slice(f.lastIndexOf(')') + 2).split(' ')
  return Number(after[11]) + Number(after[12])
}

function baseLayer(server) {
  const manifest = JSON.parse(fs.readFileSync(path.join(server.images, 'templates', 'base.json'), 'utf8'))
  return manifest.layers.map((id) => path.join(server.images, 'layers', id))
}

async function measureFloor(server) {
  const work = temporaryDir('floor')
  const create = await measure('floor', ['create', '-n', few(200), '-r', baseLayer(server)[0], '-w', work, '-a', path.join(programs, 'floor_agent')])
  fs.rmSync(work, { recursive: true, force: true })
  return { ...create, ...(await measure('floor', ['spawn', '-n', few(300)])), ...(await measure('floor', ['http', '-n', few(300)])) }
}

/** Times the engine itself took, from its log lines. */
const engineTimes = (server) => [...server.log.matchAll(/create_us=(\d+)/g)].map((m) => Number(m[1]))
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

/** The mounts of a sandbox as every kernel has them, beside those that only newer kernels can make. */
async function measureMounts() {
  const work = temporaryDir('mounts')
  const times = await measure('mounts', [work, '-n', few(500)])
  fs.rmSync(work, { recursive: true, force: true })
  result.figures.mounts = times
  const sum = (way, what) => ['overlay', 'dev', 'proc'].reduce((all, name) => all + times[`${name}_${way}`][what].p50, 0)
  const beside = times.overlay_detached ? { floor: sum('detached', 'us'), floorName: 'mounts attached nowhere, Linux 6.17' } : {}
  rows.push(row('mounts of a sandbox, the way of every kernel', sum('attached', 'us'), 'us', { ...beside, note: `and ${Math.round(sum('attached', 'cleaned_up_us'))} us of clean-up that no request waits for` }))
}

async function measureLife(server, floor) {
  const seen = engineTimes(server).length
  const life = await client(server, 'life', '-n', few(200))
  const { exec } = await client(server, 'exec', '-n', few(300))
  const inside = engineTimes(server).slice(seen)
  result.figures.life = { ...life, execOneSandbox: exec, engineCreate: inside.length ? median(inside) : undefined }
  if (inside.length) rows.push(row('create → ready, in the engine', median(inside), 'us', { floor: floor?.ready.p50, ratioAtMost: 2 }))
  rows.push(
    row('POST /v2/sandboxes answered', life.create.p50, 'us', { floor: floor?.ready.p50, atMost: 5000 }),
    row('create → first output, raw HTTP', life.first_output.p50, 'us', { floor: floor && floor.ready.p50 + floor.http_spawn.p50, atMost: 10_000 }),
    row('exec /bin/true, raw HTTP', exec.p50, 'us', { floor: floor?.http_spawn.p50, floorName: 'HTTP + posix_spawn', atMost: floor ? 1.5 * floor.http_spawn.p50 + 1000 : 3000 }),
    row('kill, answered', life.kill.p50, 'us', { floor: floor?.kill.p50 }),
  )
  return life
}

function npmClient(server) {
  const require = createRequire(new URL('../test/functional/package.json', import.meta.url))
  const { E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL } = server.env
  Object.assign(process.env, { E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL })
  return import(pathToFileURL(require.resolve('e2b')))
}

/** The npm client, from create() to the first piece of output. */
async function measureClient(server, floor) {
  const { Sandbox } = await npmClient(server)
  const times = { create: [], firstOutput: [], exec: [], kill: [] }
  for (let i = -5; i < Number(few(100)); i++) {
    const t0 = performance.now()
    const sandbox = await Sandbox.create()
    const t1 = performance.now()
    let first
    await sandbox.commands.run('echo hello', { onStdout: () => (first ??= performance.now()) })
    const t2 = performance.now()
    await sandbox.commands.run('true')
    const t3 = performance.now()
    await sandbox.kill()
    const t4 = performance.now()
    if (i < 0) continue
    times.create.push((t1 - t0) * 1000)
    times.firstOutput.push((first - t0) * 1000)
    times.exec.push((t3 - t2) * 1000)
    times.kill.push((t4 - t3) * 1000)
  }
  const p50 = Object.fromEntries(Object.entries(times).map(([k, list]) => [k, median(list)]))
  result.figures.npmClient = p50
  rows.push(
    row('create → first output, npm client', p50.firstOutput, 'us', { floor: floor && floor.ready.p50 + floor.http_spawn.p50, note: 'its command runs in bash -l' }),
    row('commands.run("true"), npm client', p50.exec, 'us', { floor: floor?.http_spawn.p50, floorName: 'HTTP + posix_spawn' }),
  )
}

async function measureParallel(server) {
  const r = await client(server, 'parallel', '-c', '100')
  result.figures.parallel100 = r
  rows.push(row('100 creates at once, all answered', r.wall, 'us', { note: `each p50 ${(r.each.p50 / 1000).toFixed(0)} ms, max ${(r.each.max / 1000).toFixed(0)} ms` }))
}

async function measureLives(server) {
  const r = await client(server, 'lives', '-c', '4', '-s', quick ? '3' : '8')
  result.figures.lives = r
  rows.push(row('full lives (create, exec, kill)', r.per_second, 'rate', { atLeast: 150 }))
}

/** Memory and time with many alive; what one costs is what the machine has less, divided. */
async function measureMany(server) {
  const file = path.join(server.data, 'bench-ids')
  const steps = quick ? [200] : [1000, 3000]
  const before = meminfo()
  await client(server, 'many', '-n', '10', '-f', file)
  const probe = async () => (await client(server, 'life', '-n', few(100))).create.p50
  await quiet(server)
  const at10 = await probe()
  result.figures.many = { at10 }
  let alive = 10
  for (const target of steps) {
    const made = await client(server, 'many', '-n', String(target - alive), '-f', file)
    alive = target
    await quiet(server)
    const now = meminfo()
    const kib = (before.MemAvailable - now.MemAvailable) / alive
    const slab = (now.Slab - before.Slab) / alive
    const at = await probe()
    const idle = await idleCpu(server, quick ? 3 : 8)
    result.figures.many[target] = { kibEach: kib, slabEach: slab, createRate: made.per_second, createP50: at, idleCpuPercent: idle }
    rows.push(
      row(`memory of each of ${target} idle sandboxes`, kib, 'kib', { atMost: target === 1000 ? 1536 : undefined, note: `slab ${slab.toFixed(0)} KiB` }),
      row(`create rate up to ${target} alive`, made.per_second, 'rate'),
      row(`create p50 with ${target} alive`, at, 'us', { floor: at10, floorName: 'with 10 alive', ratioAtMost: 1.5 }),
      row(`idle CPU of the server, ${target} alive`, idle, 'percent', { atMost: target === 1000 ? 1 : undefined }),
    )
  }
  const gone = await client(server, 'kill', '-c', '4', '-f', file)
  result.figures.many.killRate = gone.per_second
  rows.push(row(`kill rate, ${alive} alive`, gone.per_second, 'rate'))
}

/** Until pools are full again and removals done: the server's own processes use no CPU for half a second. */
async function quiet(server) {
  const total = () => serverPids(server).reduce((sum, pid) => sum + safe(() => cpuTicks(pid)), 0)
  let last = total()
  let since = performance.now()
  await until('the server idle', () => {
    const now = total()
    if (now !== last) [last, since] = [now, performance.now()]
    return performance.now() - since > 500
  }, 120_000)
}

const safe = (f) => {
  try {
    return f()
  } catch {
    return 0
  }
}
const serverPids = (server) => [server.supervisor, ...server.rolePids(), ...helpers(server)]
/** Children of the roles that are ours and not sandboxes: they see the host's process ids. */
const helpers = (server) => server.rolePids().flatMap((pid) => descendants(pid)).filter((p) => p.args[0]?.includes('sandglass')).map((p) => p.pid)

async function idleCpu(server, seconds) {
  const pids = serverPids(server)
  const before = pids.map((pid) => safe(() => cpuTicks(pid)))
  await new Promise((done) => setTimeout(done, seconds * 1000))
  const used = pids.reduce((sum, pid, i) => sum + safe(() => cpuTicks(pid)) - before[i], 0)
  return used / seconds // ticks are hundredths of a second
}

async function measureFiles(server) {
  const r = await client(server, 'files', '-n', few(5), '-m', '100')
  const bytes = Buffer.alloc(100 << 20, 120)
  const file = path.join(server.data, 'bench-file')
  const copy = []
  for (let i = 0; i < 3; i++) {
    const t = performance.now()
    fs.writeFileSync(file, bytes)
    copy.push((performance.now() - t) * 1000)
  }
  fs.rmSync(file)
  const mbs = (time) => (100 * 1.048576 * 1e6) / time
  result.figures.files = { ...r, writeFile: median(copy) }
  rows.push(
    row('upload of 100 MB', mbs(r.upload.p50), 'mbs', { floor: mbs(median(copy)), floorName: 'plain write to disk cache' }),
    row('download of 100 MB', mbs(r.download.p50), 'mbs', { floor: mbs(median(copy)), floorName: 'plain write to disk cache' }),
  )
}

/** Requests through the edge to a server in a sandbox, and through nginx to the same program outside. */
async function measureProxy(server) {
  const seconds = quick ? '2' : '5'
  const load = (port, ...headers) => measure('client', ['-p', String(port), ...headers.flatMap((h) => ['-H', h]), 'load', '-c', '16', '-s', seconds])
  const sandbox = await createRaw(server)
  const program = fs.readFileSync(path.join(programs, 'hello'))
  await envd(server, sandbox, 'POST', '/files?path=/tmp/hello', { body: program, headers: { 'Content-Type': 'application/octet-stream' } })
  startInside(server, sandbox, 'chmod +x /tmp/hello && exec /tmp/hello 8080')
  const route = [`E2b-Sandbox-Id: ${sandbox.sandboxID}`, 'E2b-Sandbox-Port: 8080']
  const ask = () => fetch(`${server.apiUrl}/`, { headers: Object.fromEntries(route.map((h) => h.split(': '))) })
  await until('the server inside', async () => (await ask()).status === 200)
  const edge = await load(server.port, ...route)
  await killRaw(server, sandbox.sandboxID)
  const direct = await withHello((port) => load(port))
  const nginx = has('nginx') ? await withHello((port) => withNginx(port, (front) => load(front))) : undefined
  result.figures.proxy = { edge, direct, nginx }
  rows.push(row('proxied requests, 16 connections', edge.per_second, 'rate', nginx ? { floor: nginx.per_second, floorName: 'nginx, as many workers' } : { floor: direct.per_second, floorName: 'no proxy (nginx not installed)' }))
}

function startInside(server, sandbox, script) {
  const message = Buffer.from(JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', script] }, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  envd(server, sandbox, 'POST', '/process.Process/Start', { body: Buffer.concat([head, message]), headers: { 'Content-Type': 'application/connect+json' } }).catch(() => {})
}

async function freePort() {
  const { createServer } = await import('node:net')
  const probe = createServer().listen(0, '127.0.0.1')
  await new Promise((done) => probe.once('listening', done))
  const { port } = probe.address()
  await new Promise((done) => probe.close(done))
  return port
}

async function withProgram(argv, port, body) {
  const child = spawn(argv[0], argv.slice(1), { stdio: 'ignore' })
  const over = new Promise((done) => child.once('exit', done))
  try {
    await until(`${argv[0]} on port ${port}`, () => fetch(`http://127.0.0.1:${port}/`).then((r) => r.ok, () => false))
    return await body(port)
  } finally {
    child.kill()
    await over
  }
}

const withHello = async (body) => {
  const port = await freePort()
  return withProgram([path.join(programs, 'hello'), String(port)], port, body)
}

const withNginx = (upstream, body) =>
  nginx(`upstream u { server 127.0.0.1:${upstream}; keepalive 64; }`, 'location / { proxy_pass http://u; proxy_http_version 1.1; proxy_set_header Connection ""; }', body)
const withNginxFiles = (root, body) =>
  nginx('sendfile on; client_max_body_size 0;', `location / { root ${root}; dav_methods PUT; autoindex on; }`, body)

async function nginx(settings, location, body) {
  const dir = temporaryDir('nginx')
  const port = await freePort()
  fs.chmodSync(dir, 0o755)
  const temp = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map((t) => `${t}_temp_path ${dir}/${t};`).join(' ')
  fs.writeFileSync(`${dir}/nginx.conf`, `daemon off; user root; worker_processes auto; pid ${dir}/pid; error_log ${dir}/error.log;
events { worker_connections 1024; }
http { access_log off; ${temp} ${settings}
  server { listen 127.0.0.1:${port} reuseport; ${location} } }
`)
  try {
    return await withProgram(['nginx', '-p', dir, '-c', `${dir}/nginx.conf`], port, body)
  } finally {
    fs.rmSync(dir, { recursive: true, force: true })
  }
}

async function measureMemory(server) {
  const roles = Object.fromEntries(Object.entries(server.roles()).map(([role, pids]) => [role, pids.reduce((sum, pid) => sum + rollup(pid, 'Rss'), 0)]))
  const sum = Object.values(roles).reduce((a, b) => a + b, 0)
  const sandbox = await createRaw(server)
  const { pid } = JSON.parse(fs.readFileSync(server.file(`sandboxes/${sandbox.sandboxID}/running.json`), 'utf8'))
  const own = rollup(pid, 'Private_Dirty') + rollup(pid, 'Private_Clean')
  await killRaw(server, sandbox.sandboxID)
  result.figures.memory = { rolesKib: roles, envdPrivateKib: own }
  rows.push(
    row('RSS of edge, control, engine at start', sum, 'kib', { atMost: 40 * 1024, note: Object.entries(roles).map(([r, k]) => `${r} ${(k / 1024).toFixed(1)}`).join(', ') + ' MiB' }),
    row('private memory of the daemon in a sandbox', own, 'kib', { atMost: 1024 }),
  )
}

async function main() {
  const config = path.join(temporaryDir('bench'), 'config.json')
  fs.writeFileSync(config, JSON.stringify({ sandboxes_max: 10_000, log_level: 'info' }))
  const started = performance.now()
  const server = await Server.start({ args: ['--config', config] })
  rows.push(row('server start until ready', (performance.now() - started) * 1000, 'us', { atMost: 2e6 }))
  const step = async (name, body) => {
    if (!wants(name)) return undefined
    process.stderr.write(`${name} ...\n`)
    try {
      return await body()
    } catch (e) {
      rows.push({ name, value: undefined, unit: 'us', goal: '', note: `failed: ${e.message.split('\n')[0]}` })
      return undefined
    }
  }
  try {
    await step('memory', () => measureMemory(server))
    const floor = await step('floor', () => measureFloor(server))
    result.figures.floor = floor
    if (floor) rows.push(row('floor: sandbox from system calls, ready', floor.ready.p50, 'us'), row('floor: vfork + exec + wait', floor.spawn.p50, 'us'))
    await step('mounts', measureMounts)
    const life = await step('life', () => measureLife(server, floor))
    await step('client', () => measureClient(server, floor))
    await step('parallel', () => measureParallel(server))
    await step('lives', () => measureLives(server))
    await step('files', () => measureFiles(server))
    const data = { server, measure, quick, npmClient: () => npmClient(server), withNginxFiles: has('nginx') ? withNginxFiles : undefined, result, rows }
    await step('output', () => measureOutput(data))
    await step('big', () => measureBig(data))
    await step('proxy', () => measureProxy(server))
    await step('percore', () => measurePerCore({ ...data, execute, here }))
    await step('streams', () => measureStreams(data))
    await step('http2', () => measureHttp2({ ...data, execute, here }))
    await step('tunnels', () => measureTunnels(data))
    await step('others', () => measureOthers({ execute, layer: baseLayer(server)[0], own: life?.first_output.p50, quick, result, rows }))
    await step('pause', () => measurePause({ measure, programs, layer: baseLayer(server)[0], quick, result, rows }))
    await step('templates', () => measureTemplates({ server, execute, layer: baseLayer(server)[0], quick, result, rows }))
    await step('workplace', () => measureWorkplace({ quick, result, rows }))
    await step('agent', () => measureAgent({ server, quick, result, rows }))
    await step('code', () => measureCode({ quick, result, rows }))
    await step('mcp', () => measureMcp({ server, quick, result, rows }))
    await step('library', () => measureLibrary({ server, quick, result, rows, measure }))
    await step('many', () => measureMany(server))
  } finally {
    await server.cleanUp()
    fs.rmSync(path.dirname(config), { recursive: true, force: true })
  }
  const ordered = [...rows.filter((r) => r.ratio !== undefined), ...rows.filter((r) => r.ratio === undefined)]
  print(ordered)
  result.rows = ordered
  fs.writeFileSync(path.join(here, 'result.json'), JSON.stringify(result, null, 2) + '\n')
}

if (process.argv[2] === '--compare') compareFiles(process.argv[3], process.argv[4] ?? path.join(here, 'result.json'))
else await main()
