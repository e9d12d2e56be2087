// A server of our own for a suite: `sandglass serve` in a temporary data directory, on ports the kernel picks.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { descendants, isAlive, processInfo, processes } from './proc.mjs'
import { until } from './wait.mjs'

const top = fileURLToPath(new URL('../../..', import.meta.url))
export const binary = process.env.SANDGLASS_BINARY ?? path.join(top, 'build', 'sandglass')
const startDeadlineMs = () => (fs.existsSync(path.join(criuDir(), 'tool')) ? 120_000 : 180_000) // the first one fetches it
const running = new Set()

/** The directory with the default template, built once and shared by all suites. */
export function imagesDir() {
  const places = [process.env.SANDGLASS_TEST_IMAGES, path.join(top, 'build', 'images'), path.join(top, 'data', 'images')]
  const found = places.find((dir) => dir && fs.existsSync(path.join(dir, 'templates', 'base.json')))
  if (!found) throw new Error(`no template 'base' in any of ${places.filter(Boolean).join(', ')}; make one: sandglass template base --images DIR`)
  return fs.realpathSync(found)
}

/** The program for pausing with memory, fetched once and shared like the template. */
export const criuDir = () => process.env.SANDGLASS_TEST_CRIU ?? path.join(path.dirname(imagesDir()), 'criu')

export function temporaryDir(what = 'data') {
  return fs.mkdtempSync(path.join(process.env.SANDGLASS_TEST_TMP ?? os.tmpdir(), `sandglass-${what}-`))
}

/** `export NAME=value` lines, as a shell would read the simple ones we write. */
export function parseExports(text) {
  const found = {}
  for (const line of text.split('\n')) {
    const m = /^export ([A-Z0-9_]+)=(.*)$/.exec(line)
    if (m) found[m[1]] = m[2].replace(/^'(.*)'$/s, '$1').replace(/^"(.*)"$/s, '$1')
  }
  return found
}

/** Run the command line tool to its end: {status, stdout, stderr}. */
export function sandglass(args, options = {}) {
  const r = spawnSync(binary, args, { encoding: 'utf8', timeout: 300_000, ...options })
  return { status: r.status, signal: r.signal, stdout: r.stdout ?? '', stderr: r.stderr ?? '' }
}

export class Server {
  /** data: reuse this directory.  images: another image directory.  args: further options.  settings: of a configuration
   *  file.  wrap: command in front.  isMachine: in a process namespace of its own, where `down` would not find it: whoever
   *  starts it ends it (machine.mjs). */
  static async start({ data, images, args = [], settings, wrap = [], isMachine = false, listen = '127.0.0.1:0', tlsListen = '127.0.0.1:0' } = {}) {
    const server = new Server()
    server.data = data ?? temporaryDir()
    server.images = images ?? imagesDir()
    const argv = [...wrap, binary, 'serve', '--data', server.data, '--images', server.images, '--listen', listen]
    argv.push('--tls-listen', tlsListen, '--criu', criuDir(), ...args)
    if (settings) {
      server.settings = temporaryDir('settings')
      fs.writeFileSync(path.join(server.settings, 'config.json'), JSON.stringify(settings))
      argv.push('--config', path.join(server.settings, 'config.json'))
    }
    server.log = ''
    server.keepsData = data !== undefined
    server.stamp = server.#envStamp()
    server.child = spawn(argv[0], argv.slice(1), { stdio: ['ignore', 'pipe', 'pipe'] })
    server.ended = new Promise((done) => {
      server.child.once('close', (code, signal) => done({ code, signal }))
      server.child.once('error', (e) => done({ code: e.code, signal: null }))
    })
    for (const out of [server.child.stdout, server.child.stderr])
      out.setEncoding('utf8').on('data', (text) => {
        server.log = (server.log + text).slice(-200_000)
        if (process.env.SANDGLASS_TEST_LOG) fs.appendFileSync(process.env.SANDGLASS_TEST_LOG, text)
      })
    server.isMachine = isMachine
    if (!isMachine) running.add(server)
    await server.#ready()
    return server
  }

  /** Speak to a server that somebody else started and ends. */
  static attach(data) {
    const server = new Server()
    server.data = data
    server.images = imagesDir()
    server.log = '(started by someone else)'
    server.supervisor = Number(fs.readFileSync(server.file('lock'), 'utf8').trim())
    server.env = parseExports(fs.readFileSync(server.file('env'), 'utf8'))
    return server
  }

  async #ready() {
    let over = null
    this.ended.then((how) => (over = how))
    try {
      await until(() => `server ready\n${this.log}`, () => over || this.#envStamp() !== this.stamp, startDeadlineMs())
    } catch (late) {
      if (this.isMachine) this.child.kill('SIGKILL')
      else await this.cleanUp()
      throw late
    }
    if (over) {
      running.delete(this)
      this.#forgetSettings()
      throw Object.assign(new Error(`server ended at start (${over.code ?? over.signal}):\n${this.log}`), { ...over, log: this.log })
    }
    this.supervisor = this.#findSupervisor()
    this.env = parseExports(fs.readFileSync(this.file('env'), 'utf8'))
  }

  /** Changes when the exports are written anew, which is when the server is ready. */
  #envStamp() {
    const s = fs.statSync(this.file('env'), { throwIfNoEntry: false, bigint: true })
    return s ? `${s.ino} ${s.mtimeNs} ${s.ctimeNs}` : ''
  }

  #findSupervisor() {
    const first = processInfo(this.child.pid)
    const all = [first, ...descendants(this.child.pid)]
    return (all.find((p) => p?.args[1] === 'serve') ?? first).pid
  }

  file(below) {
    return path.join(this.data, below)
  }

  get apiUrl() {
    return this.env.E2B_API_URL
  }
  get port() {
    return Number(new URL(this.apiUrl).port)
  }
  get key() {
    return this.env.E2B_API_KEY
  }
  get domain() {
    return this.env.E2B_DOMAIN
  }

  /** {edge: [pid, ...], control: [...], engine: [...]}: the supervisor's children by role. */
  roles(all = processes()) {
    const found = { edge: [], control: [], engine: [] }
    for (const p of all)
      if (p.parent === this.supervisor && p.args[1] === 'role' && p.state !== 'Z') (found[p.args[2]] ??= []).push(p.pid)
    return found
  }

  rolePids() {
    return Object.values(this.roles()).flat()
  }

  /** kill -9 these roles and wait until others stand in their place. */
  async killRoles(...names) {
    const old = names.flatMap((name) => this.roles()[name])
    for (const pid of old) process.kill(pid, 'SIGKILL')
    await until(
      () => `new ${names} in place of ${old}\n${this.log.slice(-2000)}`,
      () => names.every((n) => { const now = this.roles()[n]; return now.length > 0 && now.every((pid) => !old.includes(pid)) }),
    )
    return old
  }

  /** End the server only; sandboxes go on.  -> {code, signal} */
  async stop(signal = 'SIGTERM') {
    process.kill(this.supervisor, signal)
    const how = await Promise.race([this.ended, late(20_000)])
    if (!how) throw new Error(`server did not end on ${signal}:\n${this.log.slice(-2000)}`)
    running.delete(this)
    this.#forgetSettings()
    return how
  }

  #forgetSettings() {
    if (this.settings) fs.rmSync(this.settings, { recursive: true, force: true })
  }

  /** The same data directory again, after stop(). */
  async again(options = {}) {
    const next = await Server.start({ data: this.data, images: this.images, ...options })
    next.keepsData = this.keepsData
    return next
  }

  /** End server and sandboxes and remove the directory. */
  async cleanUp() {
    running.delete(this)
    this.#forgetSettings()
    const r = sandglass(['down', '--data', this.data])
    if (this.child && this.child.exitCode === null && this.child.signalCode === null) {
      if (r.status !== 0) this.child.kill('SIGKILL')
      await Promise.race([this.ended, late(10_000)])
    }
    if (!this.keepsData && r.status === 0) fs.rmSync(this.data, { recursive: true, force: true })
    if (r.status !== 0) throw new Error(`sandglass down failed (${r.status}): ${r.stderr}\n${this.log.slice(-2000)}`)
  }

  isUp() {
    return isAlive(this.supervisor)
  }
}

const late = (ms) => new Promise((done) => setTimeout(done, ms, null).unref())

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1))
process.once('exit', () => {
  for (const server of running) {
    const { status } = sandglass(['down', '--data', server.data])
    if (!server.keepsData && status === 0) fs.rmSync(server.data, { recursive: true, force: true })
  }
})
