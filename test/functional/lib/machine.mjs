// A machine that can lose its power: a server in a process namespace of its own, with a data directory on a disk that
// forgets what was not flushed (test/disk/forgetful_disk.c).
//
// What a power cut takes: everything since the disk's last flush but for a random share of it, every process, every mount;
// and the next boot has another boot id.  What it leaves, unlike a real one: /run/sandglass, which other servers on this
// machine use, too, empty cgroups and the packet filter's table, which the engine clears or writes anew when it starts.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'

import { isAlive, processes, processInfo } from './proc.mjs'
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
    machine.sync() // so that it keeps its share of this machine: what it calls its cgroups, links, uids
    return machine
  }

  async boot() {
    await this.#plugIn()
    const data = path.join(this.mount, 'data')
    fs.rmSync(path.join(data, 'stall'), { recursive: true, force: true }) // a pipe that was removed may be there again
    fs.mkdirSync(path.join(data, 'stall'), { recursive: true })
    fs.writeFileSync(path.join(data, 'stall', 'boot_id'), randomUUID())
    // The first process of the namespace is one that outlives the server, and takes care of orphans.
    const first = ['bash', '-c', '"$@" & sleep infinity & wait', 'bash']
    const wrap = ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc', ...first]
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
    run('mount', '-o', 'commit=300', this.loop, this.mount) // the journal is written when somebody asks for it
  }

  /** Everything that was written so far is on disk. */
  sync() {
    run('sync', '--file-system', this.mount)
  }

  /** keep: how many percent of what was not flushed survive.  held: file handles on the disk, closed when nobody lives any
   *  more who could notice. -> what the disk says of it */
  async cut(seed = 1, keep = 0, held = []) {
    await this.#silence()
    this.disk.stdin.write(`cut ${seed} ${keep}\n`)
    const counts = (await this.lines.next()).value
    await this.#endProcesses()
    for (const handle of held) await handle.close()
    this.server = null
    const { diskEnded } = this
    this.#unplug()
    await diskEnded
    return counts
  }

  /** Nothing is acknowledged after the disk has stopped and before the processes have. */
  async #silence() {
    for (const pid of this.server.roles().control) {
      process.kill(pid, 'SIGSTOP')
      await until('control stopped', () => processInfo(pid)?.state === 'T')
    }
  }

  /** The first process is gone when all others are. */
  async #endProcesses() {
    const { child } = this.server
    const first = processes().find((p) => p.parent === child.pid)
    process.kill(first.pid, 'SIGKILL')
    await until('no process left', () => !isAlive(first.pid))
    await this.server.ended
  }

  /** What else still looks at the old mounts (a namespace that somebody else made meanwhile) finds a dead disk. */
  #unplug() {
    const { mount, fuse, loop, disk } = this
    spawnSync('umount', [mount])
    spawnSync('umount', ['--lazy', mount]) // nothing to do, as a rule
    const backing = `/sys/block/${path.basename(loop ?? '')}/loop/backing_file`
    if (loop && fs.existsSync(backing) && fs.readFileSync(backing, 'utf8').startsWith(fuse)) spawnSync('losetup', ['--detach', loop])
    disk?.kill('SIGKILL')
    spawnSync('umount', ['--lazy', fuse])
    this.loop = this.disk = null
  }

  /** Everything of it ends, in an orderly way where that is possible. */
  async remove() {
    try {
      if (this.server) {
        run('nsenter', '--target', String(this.server.supervisor), '--pid', '--mount', binary, 'down', '--data', this.server.data)
        await this.cut()
      }
    } finally {
      this.abandon()
      machines.delete(this)
    }
  }

  /** In the middle of anything. */
  abandon() {
    this.server?.child.kill('SIGKILL') // and with it its child
    this.#unplug()
    fs.rmSync(this.dir, { recursive: true, force: true })
  }
}

process.once('exit', () => {
  for (const machine of machines) machine.abandon()
})
