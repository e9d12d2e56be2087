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

/** Directories of all cgroup hierarchies below the server's own group, without the groups of the roles. */
export function cgroupDirs(name) {
  const found = []
  const walk = (dir) => {
    for (const entry of list(dir)) {
      const below = path.join(dir, entry)
      if (!fs.statSync(below, { throwIfNoEntry: false })?.isDirectory()) continue
      found.push(below)
      walk(below)
    }
  }
  for (const hierarchy of ['', ...list(cgroupRoot)]) {
    const dir = path.join(cgroupRoot, hierarchy, name)
    if (fs.existsSync(dir)) walk(dir)
  }
  return [...new Set(found)]
}

/** Name of the cgroup this server's sandboxes are below, the same in each hierarchy; null before the first one. */
export function serverCgroup(server) {
  for (const p of sandboxProcesses(server)) {
    const own = cgroupsOf(p.pid).find((c) => c.includes('sandglass'))
    if (own) return own.split('/').find((part) => part.startsWith('sandglass'))
  }
  return null
}

/** Processes of the server, of its sandboxes and of its pool: by parent, and by network namespace for the adopted. */
function sandboxProcesses(server, all = processes()) {
  const roles = new Set(server.rolePids())
  return descendants(server.supervisor, all).filter((p) => !roles.has(p.pid))
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

function countFds(server) {
  const inodes = hostTcpInodes()
  const counts = {}
  for (const [role, pids] of Object.entries(server.roles()))
    counts[role] = pids.reduce((sum, pid) => sum + openFiles(pid).filter(([, t]) => !isClientSocket(t, inodes)).length, 0)
  return counts
}

function netNamespaces(server, inside) {
  const found = new Set(inside.map((p) => namespaceOf(p.pid, 'net')))
  for (const pid of [server.supervisor, ...server.rolePids(), ...inside.map((p) => p.pid)])
    for (const [, target] of openFiles(pid)) if (target.startsWith('net:[')) found.add(target)
  for (const known of ownNamespaces) found.delete(known)
  found.delete(null)
  return found
}

function mountCount(server) {
  const host = fs.readFileSync('/proc/self/mountinfo', 'utf8').split('\n').filter((l) => l.includes(server.data)).length
  const engine = server.roles().engine[0]
  let inner = 0
  try {
    inner = fs.readFileSync(`/proc/${engine}/mountinfo`, 'utf8').split('\n').filter((l) => l.includes(server.data)).length
  } catch {
    // between two engines
  }
  return { host, engine: inner }
}

/** Everything, as plain numbers. */
export function take(server) {
  const inside = sandboxProcesses(server)
  const group = serverCgroup(server) ?? server.cgroup
  server.cgroup = group
  const links = lines('ip', ['-o', 'link']).filter((l) => /link-netns|@if/.test(l) && /(^|\s)sg/.test(l))
  return {
    processes: inside.filter((p) => p.state !== 'Z').length,
    zombies: inside.filter((p) => p.state === 'Z').length,
    cgroups: group ? cgroupDirs(group).length : 0,
    netns: netNamespaces(server, inside).size,
    links: links.length,
    nftables: lines('nft', ['list', 'tables']).filter((l) => l.includes('sandglass')).length,
    mounts: mountCount(server),
    fds: countFds(server),
    sandboxes: list(server.file('sandboxes')).length,
    trash: list(server.file('trash')).length,
  }
}

const flatten = (count) => ({ ...count, mounts: undefined, fds: undefined, mountsHost: count.mounts.host, mountsEngine: count.mounts.engine })

/** Connections between edge and control, and to the engine, are kept open for the next request. */
const keptAlive = { edge: 12, control: 12, engine: 4 }

export function differences(before, after) {
  const a = flatten(before)
  const b = flatten(after)
  const found = Object.keys(a).filter((k) => a[k] !== b[k]).map((k) => `${k}: ${a[k]} -> ${b[k]}`)
  for (const role of Object.keys(after.fds)) {
    const slack = keptAlive[role] ?? 0
    if (after.fds[role] > before.fds[role] + slack) found.push(`fds of ${role}: ${before.fds[role]} -> ${after.fds[role]}`)
  }
  return found
}

/** Two censuses in a row are alike: the pool is full and nothing is being removed. */
export async function settled(server, deadlineMs = 15_000) {
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
      return performance.now() - since > 150 && now
    },
    deadlineMs,
  )
}

/** The counts come back to `before`, or the assertion says which did not. */
export async function returned(server, before, deadlineMs = 15_000) {
  let found = []
  try {
    await until('', () => (found = differences(before, take(server))).length === 0, deadlineMs)
  } catch (e) {
    if (!(e instanceof Late)) throw e
    assert.fail(`left behind: ${found.join('; ')}\n${server.log.slice(-3000)}`)
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
  const cell = JSON.parse(fs.readFileSync(server.file(`sandboxes/${id}/cell.json`), 'utf8'))
  return [cell.pid, ...descendants(cell.pid).map((p) => p.pid)]
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
  for (const name of list(path.join(data, 'sandboxes'))) found.push(`sandboxes/${name}`)
  for (const name of list(path.join(data, 'trash'))) found.push(`trash/${name}`)
  return found
}

const mountLines = (pid) => {
  try {
    return fs.readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
  } catch {
    return []
  }
}
