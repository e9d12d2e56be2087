// What /proc says about processes.
import fs from 'node:fs'

const read = (path) => {
  try {
    return fs.readFileSync(path, 'utf8')
  } catch {
    return null // it ended while we looked
  }
}

/** {pid, parent, state, name, args} of one process, or null.  args is read when it is asked for: few callers do, of few. */
export function processInfo(pid) {
  const stat = read(`/proc/${pid}/stat`)
  if (!stat) return null
  const after = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const name = stat.slice(stat.indexOf('(') + 1, stat.lastIndexOf(')'))
  return { pid: Number(pid), state: after[0], parent: Number(after[1]), name, get args() { return argsOf(pid) } }
}

const argsOf = (pid) => (read(`/proc/${pid}/cmdline`) ?? '').split('\0').filter((a) => a !== '')

export function processes() {
  return fs
    .readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(processInfo)
    .filter((p) => p && p.state !== 'X')
}

/** All below `root` (not itself), by parent. */
export function descendants(root, all = processes()) {
  const byParent = Map.groupBy ? Map.groupBy(all, (p) => p.parent) : groupByParent(all)
  const found = []
  for (const queue = [root]; queue.length; ) {
    for (const child of byParent.get(queue.shift()) ?? []) {
      found.push(child)
      queue.push(child.pid)
    }
  }
  return found
}

function groupByParent(all) {
  const map = new Map()
  for (const p of all) map.set(p.parent, [...(map.get(p.parent) ?? []), p])
  return map
}

/** What each fd of a process points at: [[fd, target], ...]. */
export function openFiles(pid) {
  let names = []
  try {
    names = fs.readdirSync(`/proc/${pid}/fd`)
  } catch {
    return []
  }
  const files = []
  for (const fd of names) {
    try {
      files.push([Number(fd), fs.readlinkSync(`/proc/${pid}/fd/${fd}`)])
    } catch {
      // closed while we looked
    }
  }
  return files
}

export const namespaceOf = (pid, kind) => {
  try {
    return fs.readlinkSync(`/proc/${pid}/ns/${kind}`)
  } catch {
    return null
  }
}

export const cgroupsOf = (pid) => (read(`/proc/${pid}/cgroup`) ?? '').split('\n').filter(Boolean).map((l) => l.split(':')[2])

export const isAlive = (pid) => {
  const p = processInfo(pid)
  return p !== null && p.state !== 'Z' && p.state !== 'X'
}
