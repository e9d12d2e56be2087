// A machine that can lose its power: a server in a process namespace of its own, with a data directory on a disk that
// forgets what was not flushed (test/disk/forgetful_disk.c).
//
// What a power cut takes: everything since the disk's last flush but for a random share of it, every process, every mount,
// the cgroups; and the next boot has another boot id.  What it leaves, unlike a real one: /run/sandglass, which other
// servers on this machine use, too, and the packet filter's table, which the engine writes anew when it starts.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { cellProcesses, instanceName } from './census.mjs'
import { binary, Server, temporaryDir } from './server.mjs'
import { until } from './wait.mjs'

const diskBytes = 4 * 2 ** 30 // sparse
const forgetfulDisk = path.join(path.dirname(binary), 'test', 'disk', 'forgetful_disk')
const machines = new Set()

function run(command, ...args) {
  const r = spawnSync(command, args, { encoding: 'utf8' })
  if (r.status !== 0) throw new Error(`${command} ${args.join(' ')}: ${r.stderr || r.error?.message}`)
  return r.stdout.trim()
}

/** Why there can be no such machine here; undefined: there can. */
export function whyNoMachine() {
  if (process.getuid() !== 0) return 'needs root'
  for (const device of ['/dev/fuse', '/dev/loop-control']) if (!fs.existsSync(device)) return `needs ${device}`
}

/** The directories of our cgroups, deepest first; empty by now, so that a boot finds none. */
function removeCgroups(instance) {
  const remove = (dir) => {
    if (!fs.existsSync(dir)) return
    for (const entry of fs.readdirSync(dir, { withFileTypes: true })) if (entry.isDirectory()) remove(path.join(dir, entry.name))
    try {
      fs.rmdirSync(dir)
    } catch {
      // somebody's last process is still on its way out: the engine finds it empty
    }
  }
  for (const hierarchy of ['', ...fs.readdirSync('/sys/fs/cgroup')]) remove(path.join('/sys/fs/cgroup', hierarchy, instance))
}

export class Machine {
  static async create(options = {}) {
    const machine = new Machine()
    machine.options = options
    machine.dir = temporaryDir('machine')
    fs.chmodSync(machine.dir, 0o711) // the unprivileged roles pass through it
    machine.image = path.join(machine.dir, 'image')
    machine.mount = path.join(machine.dir, 'mount')
    machine.fuse = path.join(machine.dir, 'fuse')
    for (const dir of [machine.mount, machine.fuse]) fs.mkdirSync(dir)
    fs.writeFileSync(machine.image, '')
    fs.truncateSync(machine.image, diskBytes)
    run('mkfs.ext4', '-q', '-E', 'lazy_itable_init=1,lazy_journal_init=1', machine.image)
    machines.add(machine)
    await machine.boot()
    return machine
  }

  async boot() {
    await this.#plugIn()
    const data = path.join(this.mount, 'data')
    fs.mkdirSync(path.join(data, 'stall'), { recursive: true })
    fs.writeFileSync(path.join(data, 'stall', 'boot_id'), randomUUID())
    const wrap = ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
    this.server = await Server.start({ data, wrap, isMachine: true, ...this.options })
    return this.server
  }

  async #plugIn() {
    this.disk = spawn(forgetfulDisk, [this.image, this.fuse], { stdio: ['pipe', 'pipe', 'inherit'] })
    this.diskEnded = new Promise((done) => this.disk.once('close', done))
    this.disk.stdin.on('error', () => {}) // it ended
    this.lines = createInterface({ input: this.disk.stdout })[Symbol.asyncIterator]()
    assert.equal((await this.lines.next()).value, 'ready')
    this.loop = run('losetup', '--find', '--show', path.join(this.fuse, 'disk'))
    run('mount', this.loop, this.mount)
  }

  /** Everything that was written so far is on disk. */
  sync() {
    run('sync', '--file-system', this.mount)
  }

  /** keep: how many percent of what was not flushed survive. -> what the disk says of it */
  async cut(seed = 1, keep = 0) {
    const instance = instanceName(this.server.data)
    this.disk.stdin.write(`cut ${seed} ${keep}\n`)
    const counts = (await this.lines.next()).value
    await this.server.stop('SIGKILL') // the first process of its namespace: all others end with it
    await until('no process left', () => cellProcesses(instance).every((p) => p.state === 'Z'))
    if (instance) removeCgroups(instance)
    this.server = null
    await this.#unplug()
    return counts
  }

  async #unplug() {
    await until('unmounted', () => spawnSync('umount', [this.mount]).status === 0 || !this.#isMounted())
    await until('the loop device let go', () => {
      spawnSync('losetup', ['--detach', this.loop])
      return !fs.existsSync(`/sys/block/${path.basename(this.loop)}/loop/backing_file`)
    })
    this.disk.stdin.end()
    await this.diskEnded
    this.disk = null
  }

  #isMounted() {
    return fs.readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${this.mount} `)
  }

  /** The power is cut for good. */
  async remove() {
    if (this.server) await this.cut()
    machines.delete(this)
    fs.rmSync(this.dir, { recursive: true, force: true })
  }

  /** The test program ends in the middle of it. */
  abandon() {
    if (this.server) try { process.kill(this.server.supervisor, 'SIGKILL') } catch { /* gone */ }
    spawnSync('umount', ['--lazy', this.mount])
    if (this.loop) spawnSync('losetup', ['--detach', this.loop])
    this.disk?.kill('SIGKILL')
    spawnSync('umount', ['--lazy', this.fuse])
    fs.rmSync(this.dir, { recursive: true, force: true })
  }
}

process.once('exit', () => {
  for (const machine of machines) machine.abandon()
})
