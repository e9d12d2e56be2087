// A small disk of our own, that a test can fill: ext4 in a file, without blocks set aside for root.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { temporaryDir } from './server.mjs'

function run(command, ...args) {
  const r = spawnSync(command, args, { encoding: 'utf8' })
  assert.equal(r.status, 0, `${command} ${args.join(' ')}: ${r.error ?? r.stderr}`)
}

function writeAll(fd, piece) {
  try {
    for (;;) fs.writeSync(fd, piece)
  } catch (e) {
    if (e.code !== 'ENOSPC') throw e
  }
}

export class Disk {
  constructor(megabytes, ...options) {
    this.top = temporaryDir('disk')
    this.dir = path.join(this.top, 'data')
    this.image = path.join(this.top, 'image')
    fs.chmodSync(this.top, 0o755)
    fs.mkdirSync(this.dir)
    fs.closeSync(fs.openSync(this.image, 'w'))
    fs.truncateSync(this.image, megabytes << 20)
    run('mkfs.ext4', '-q', '-m', '0', '-b', '4096', ...options, this.image)
    run('mount', '-o', 'loop', this.image, this.dir)
  }

  get freeBlocks() {
    return fs.statfsSync(this.dir).bavail // the others are for the file system itself
  }
  get freeInodes() {
    return fs.statfsSync(this.dir).ffree
  }

  /** What nobody else took, to the last block.  What is set aside for writing it becomes free when it is written. */
  fill() {
    const fd = fs.openSync(path.join(this.dir, 'filler'), 'a')
    try {
      for (let size = 1 << 20, bytes = -1; bytes !== fs.fstatSync(fd).size; size = 4096) {
        bytes = size > 4096 ? -1 : fs.fstatSync(fd).size
        writeAll(fd, Buffer.alloc(size))
        fs.fsyncSync(fd)
      }
    } finally {
      fs.closeSync(fd)
    }
  }

  makeRoom() {
    fs.rmSync(path.join(this.dir, 'filler'), { force: true })
  }

  remove() {
    spawnSync('umount', [this.dir])
    fs.rmdirSync(this.dir) // fails, and with it the case, while something is mounted there
    fs.rmSync(this.top, { recursive: true })
  }
}
