// The leak counter: everything a sandbox is made of, counted before and after a case.
//
// Cells kept ready in the engine's pool are part of the background, so a baseline is taken once things stand still, and
// afterwards the same counts must come back within a deadline.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { cgroupsOf, descendants, namespaceOf, openFiles, processes } from './proc.mjs'
import { Late, until } from './wait.mjs'

const kernelThreads = 2 // the parent of them all; none is in a sandbox
const cgroupRoot = '/sys/fs/cgroup'
const ownNamespaces = new Set(['net'].map((kind) => namespaceOf('self', kind)))

const lines = (command, args) => (spawnSync(command, args, { encoding: 'utf8' }).stdout ?? '').split('\n').filter(Boolean)
const list = (dir) => {
  try {
    return fs.readdirSync(dir)
  } catch {
    return []
  }
}

const directories = (dir) => {
  try {
    return fs.readdirSync(dir, { withFileTypes: true }).filter((entry) => entry.isDirectory()).map((entry) => entry.name)
  } catch {
    return []
  }
}

/** "sandglass-N": the name of this data directory's share of the machine; null when it has none. */
export function instanceName(data) {
  try {
    return `sandglass-${JSON.parse(fs.readFileSync(path.join(data, 'engine.json'), 'utf8')).instance}`
  } catch {
    return null
  }
}

/** The same, unless another data directory has taken the number since: that happens when nothing of this one is left. */
function ownInstanceName(data) {
  const name = instanceName(data)
  if (!name) return null
  try {
    const owner = fs.readFileSync(`/run/sandglass/instance-${name.replace('sandglass-', '')}`, 'utf8')
    const { identity } = JSON.parse(fs.readFileSync(path.join(data, 'engine.json'), 'utf8'))
    return owner === '' || owner === identity ? name : null
  } catch {
    return name
  }
}

/** Directories below the instance's own in every cgroup hierarchy, without memory groups kept for the next sandbox. */
export function cgroupDirs(instance, { all = false } = {}) {
  const found = []
  const walk = (dir) => {
    for (const entry of directories(dir)) {
      const below = path.join(dir, entry)
      if (!isKeptGroup(below) || all) found.push(below)
      walk(below)
    }
  }
  for (const hierarchy of ['', ...directories(cgroupRoot)]) walk(path.join(cgroupRoot, hierarchy, instance))
  return found
}

const isKeptGroup = (dir) => {
  try {
    return fs.existsSync(path.join(dir, 'memory.limit_in_bytes')) && fs.readFileSync(path.join(dir, 'cgroup.procs'), 'utf8') === ''
  } catch {
    return false
  }
}

/** Processes of sandboxes and of cells kept ready: whoever is in one of the instance's cgroups, whoever the parent is. */
export function cellProcesses(instance, all = processes()) {
  if (!instance) return []
  return all.filter((p) => p.parent !== kernelThreads && cgroupsOf(p.pid).some((group) => group.startsWith(`/${instance}/`)))
}

/** Established TCP connections of this machine's own network namespace, by socket inode: clients, not sandboxes. */
function hostTcpInodes() {
  const inodes = new Set()
  for (const file of ['/proc/net/tcp', '/proc/net/tcp6'])
    for (const line of fs.readFileSync(file, 'utf8').split('\n').slice(1)) {
      const field = line.trim().split(/\s+/)
      if (field[3] && field[3] !== '0A') inodes.add(field[9])
    }
  return inodes
}

const isClientSocket = (target, inodes) => inodes.has(/^socket:\[(\d+)\]$/.exec(target)?.[1])

function countFds(roles) {
  const inodes = hostTcpInodes()
  const counts = {}
  for (const [role, pids] of Object.entries(roles))
    counts[role] = pids.reduce((sum, pid) => sum + openFiles(pid).filter(([, t]) => !isClientSocket(t, inodes) && !t.startsWith('net:[')).length, 0)
  return counts
}

function netNamespaces(server, roles, inside) {
  const found = new Set(inside.map((p) => namespaceOf(p.pid, 'net')))
  for (const pid of [server.supervisor, ...Object.values(roles).flat(), ...inside.map((p) => p.pid)])
    for (const [, target] of openFiles(pid)) if (target.startsWith('net:[')) found.add(target)
  for (const known of ownNamespaces) found.delete(known)
  found.delete(null)
  return found
}

function mountCount(server, roles) {
  const host = fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter((l) => l.includes(server.data)).length
  const engine = roles.engine[0]
  let inner = 0
  try {
    inner = fs.readFileSync(`/proc/${engine}/mountinfo`, 'utf8').split('\n').filter((l) => l.includes(server.data)).length
  } catch {
    // between two engines
  }
  return { host, engine: inner }
}

const links = (instance) => list('/sys/class/net').filter((name) => name.startsWith(`${instance.replace('sandglass-', 'sg')}-`))
const tables = (instance) => lines('nft', ['list', 'tables']).filter((l) => l.endsWith(` ${instance}`))

/** Everything, as plain numbers. */
export function take(server) {
  const all = processes()
  const instance = instanceName(server.data)
  const inside = cellProcesses(instance, all)
  const own = descendants(server.supervisor, all)
  const roles = server.roles(all)
  return {
    processes: inside.filter((p) => p.state !== 'Z').length,
    helpers: own.filter((p) => p.state !== 'Z' && !inside.some((q) => q.pid === p.pid)).length,
    zombies: own.filter((p) => p.state === 'Z').length,
    cgroups: instance ? cgroupDirs(instance).length : 0,
    netns: netNamespaces(server, roles, inside).size,
    links: instance ? links(instance).length : 0,
    nftables: instance ? tables(instance).length : 0,
    mounts: mountCount(server, roles),
    fds: countFds(roles),
    sandboxes: list(server.file('sandboxes')).length,
    trash: list(server.file('trash')).length,
    checkpoints: list(server.file('checkpoints')).length,
    sealed: list(server.file('sealed')).length,
  }
}

const flatten = ({ mounts, fds, netns, links, ...plain }) => ({ ...plain, mountsHost: mounts.host, mountsEngine: mounts.engine })

/** Network namespaces of ended sandboxes are kept for the next ones, up to a limit (src/engine/namespace/pool.c). */
const idleNetworks = 144

/** Connections between edge and control, and to the engine, are kept open for the next request. */
const keptAlive = { edge: 12, control: 12, engine: 4 }

export function differences(before, after, kept = keptAlive) {
  const a = flatten(before)
  const b = flatten(after)
  const found = Object.keys(a).filter((k) => a[k] !== b[k]).map((k) => `${k}: ${a[k]} -> ${b[k]}`)
  for (const k of ['netns', 'links']) if (after[k] > before[k] + idleNetworks) found.push(`${k}: ${before[k]} -> ${after[k]}`)
  for (const role of Object.keys(after.fds)) {
    const slack = kept[role] ?? 0
    if (after.fds[role] > before.fds[role] + slack) found.push(`fds of ${role}: ${before.fds[role]} -> ${after.fds[role]}`)
  }
  return found
}

const poolSize = 16 // the default of the setting pool_size; no suite has another one

/** The pool is full: beside the first processes of sandboxes there are those of as many cells as are kept ready. */
function poolIsFull(server) {
  const inside = cellProcesses(instanceName(server.data)).filter((p) => p.state !== 'Z')
  const pids = new Set(inside.map((p) => p.pid))
  const firsts = inside.filter((p) => !pids.has(p.parent)).length
  const running = list(server.file('sandboxes')).filter((id) => fs.existsSync(server.file(`sandboxes/${id}/running.json`))).length
  return firsts >= running + poolSize
}

/** Two censuses in a row are alike, and the pool is full: nothing is being made or removed. */
export async function settled(server, deadlineMs = 60_000) {
  let last = take(server)
  let since = performance.now()
  return until(
    () => `server at rest: ${JSON.stringify(last)}`,
    () => {
      const now = take(server)
      if (differences(last, now).length || differences(now, last).length || now.trash || now.zombies) {
        last = now
        since = performance.now()
      }
      return performance.now() - since > 150 && poolIsFull(server) && now
    },
    deadlineMs,
    50, // it takes that long anyway, and a census costs
  )
}

/** The counts come back to `before`, or the assertion says which did not. */
export async function returned(server, before, { deadlineMs = 60_000, kept = keptAlive } = {}) {
  let found = []
  try {
    await until('', () => (found = differences(before, take(server), kept)).length === 0, deadlineMs)
  } catch (e) {
    if (!(e instanceof Late)) throw e
    assert.fail(`left behind: ${found.join('; ')}\n${server.log.slice(-2000)}`)
  }
}

/** Wrap a case: counts before it, the same counts after it. */
export const leakless = (server, body) => async (t) => {
  const before = await settled(server)
  await body(t)
  await returned(server, before)
}

/** Processes of one sandbox, its first one first. */
export function sandboxPids(server, id) {
  const cell = JSON.parse(fs.readFileSync(server.file(`sandboxes/${id}/running.json`), 'utf8'))
  return [cell.pid, ...descendants(cell.pid).map((p) => p.pid)]
}

/** A paused sandbox's files as the engine keeps them: {id, checkpoint, sealed}; null while it is not paused. */
export function pausedRecord(server, id) {
  try {
    return JSON.parse(fs.readFileSync(server.file(`sandboxes/${id}/paused.json`), 'utf8'))
  } catch {
    return null
  }
}

/** Whatever on this machine still belongs to that data directory, as text; [] when nothing does. */
export function everythingOf(data) {
  const found = []
  for (const p of processes()) {
    if (p.pid === process.pid || p.state === 'Z') continue
    const holds = openFiles(p.pid).some(([, target]) => target.startsWith(data + '/'))
    if (holds || mountLines(p.pid).some((l) => l.includes(data + '/'))) found.push(`process ${p.pid} ${p.args.join(' ')}`)
  }
  for (const line of mountLines('self')) if (line.includes(data + '/')) found.push(`mount ${line}`)
  const instance = ownInstanceName(data)
  for (const p of cellProcesses(instance).filter((q) => q.state !== 'Z')) found.push(`process ${p.pid} ${p.args.join(' ')} in ${instance}`)
  for (const dir of instance ? cgroupDirs(instance, { all: true }) : []) found.push(`cgroup ${dir}`)
  for (const line of instance ? [...links(instance), ...tables(instance)] : []) found.push(line)
  for (const dir of ['sandboxes', 'trash', 'checkpoints', 'sealed'])
    for (const name of list(path.join(data, dir))) found.push(`${dir}/${name}`)
  return found
}

const mountLines = (pid) => {
  try {
    return fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
  } catch {
    return []
  }
}
