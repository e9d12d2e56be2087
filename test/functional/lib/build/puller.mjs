// A puller by itself, with a client that speaks its channel (test/puller/puller_client.c).
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { temporaryDir } from '../server.mjs'

const build = process.env.SANDGLASS_BUILD ?? path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../../build')

export class Puller {
  #next = 1
  #waiting = new Map()

  constructor(conf = {}, dir = null) {
    this.ownsDir = !dir
    this.dir = dir ?? temporaryDir('puller')
    fs.mkdirSync(path.join(this.dir, 'blobs'), { recursive: true })
    this.log = ''
    this.child = spawn(path.join(build, 'test/puller/puller_client'), [this.dir, JSON.stringify(conf)])
    this.child.stderr.on('data', (text) => { this.log += text })
    createInterface({ input: this.child.stdout }).on('line', (line) => this.#take(JSON.parse(line)))
    this.ended = once(this.child, 'close')
  }

  #take(msg) {
    if ('exit' in msg) { this.exit = msg.exit; return }
    const call = this.#waiting.get(msg.req)
    if (!call) return
    if (msg.event) call.events.push(msg)
    else {
      this.#waiting.delete(msg.req)
      delete msg.req
      call.resolve({ ...msg, events: call.events })
    }
  }

  /** The answer, with the facts before it as `events`. */
  ask(op, members = {}) {
    const req = this.#next++
    this.child.stdin.write(JSON.stringify({ op, req, ...members }) + '\n')
    return new Promise((resolve) => this.#waiting.set(req, { resolve, events: [] }))
  }

  pull(image, auth) { return this.ask('pull', { image, ...(auth ? { auth } : {}) }) }

  blobs() { return fs.existsSync(path.join(this.dir, 'blobs/sha256')) ? fs.readdirSync(path.join(this.dir, 'blobs/sha256')).sort() : [] }
  parts() { return fs.readdirSync(path.join(this.dir, 'blobs')).filter((name) => name.startsWith('.tmp-')) }

  /** Close the channel; the puller ends by itself a little later. */
  async end() {
    this.child.stdin.end()
    await this.ended
    if (this.ownsDir) fs.rmSync(this.dir, { recursive: true })
    return this.exit
  }
}
