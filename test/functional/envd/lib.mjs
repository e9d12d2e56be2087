// Drives a standalone in-sandbox daemon over raw HTTP.  After each case it must hold no more fds, and have no more
// children, than before.
//
//   node process.mjs PATH-OF-sandglass-envd
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'

export { assert, fs, path }
export const isRoot = process.getuid() === 0
const binary = process.argv[2]
const cases = []

/** The daemon under test: port, pid, and a directory for files. */
export const envd = { dir: fs.mkdtempSync(path.join(os.tmpdir(), 'envd-test-')) }
fs.chmodSync(envd.dir, 0o755)

export function test(name, fn, options = {}) {
  cases.push({ name, fn, ...options })
}

export const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

/** Wait until fn() is true: the state of another process has no event to wait for. */
export async function until(what, fn, ms = 5000) {
  for (const end = Date.now() + ms; Date.now() < end; await later(5)) if (await fn()) return
  assert.fail(`not within ${ms} ms: ${what}`)
}

/** A root daemon does what a test asks for, also by mistake: it sees this machine read-only, but for the directory for files. */
const fenced = (dir) => ['--mount', '--propagation', 'slave', 'sh', '-c', `mount --bind ${dir} ${dir} && mount -o remount,bind,ro / && exec "$0" "$@"`]

async function startDaemon() {
  const args = ['--standalone', '--listen', '127.0.0.1:0', ...(isRoot ? [] : ['--root-user-map'])]
  const child = spawn(...(isRoot ? ['unshare', [...fenced(envd.dir), binary, ...args]] : [binary, args]), { stdio: ['ignore', 'pipe', 'inherit'] })
  const line = await new Promise((resolve, reject) => {
    child.stdout.once('data', (data) => resolve(String(data)))
    child.once('exit', (code) => reject(new Error(`the daemon exited with ${code}`)))
  })
  envd.port = Number(/port (\d+)/.exec(line)[1])
  envd.pid = child.pid
  envd.child = child
}

export const fds = () => fs.readdirSync(`/proc/${envd.pid}/fd`).length
export const children = () =>
  fs.readFileSync(`/proc/${envd.pid}/task/${envd.pid}/children`, 'utf8').split(' ').filter(Boolean)

/** One request on a connection of its own. */
export function request(method, target, { headers = {}, body, onResponse } = {}) {
  return new Promise((resolve, reject) => {
    const rq = http.request({ port: envd.port, method, path: target, headers, agent: false }, (rs) => {
      const chunks = []
      onResponse?.(rs, rq)
      rs.on('data', (chunk) => chunks.push(chunk))
      rs.on('error', reject)
      rs.on('end', () => {
        const bytes = Buffer.concat(chunks)
        resolve({ status: rs.statusCode, headers: rs.headers, bytes, text: String(bytes), get json() { return JSON.parse(String(bytes)) } })
      })
    })
    rq.on('error', reject)
    if (body && typeof body.pipe === 'function') body.pipe(rq)
    else rq.end(body)
  })
}

/** A unary call: {status, json}. */
export function call(method, message, headers = {}) {
  const body = typeof message === 'string' || Buffer.isBuffer(message) ? message : JSON.stringify(message)
  return request('POST', `/${method}`, {
    headers: { 'content-type': 'application/json', ...headers },
    body,
  })
}
export const proc = (name, message, headers) => call(`process.Process/${name}`, message, headers)
export const files = (name, message, headers) => call(`filesystem.Filesystem/${name}`, message, headers)

export async function succeeds(promise) {
  const rs = await promise
  assert.equal(rs.status, 200, rs.text)
  return rs.json
}

/** A Connect error body: code, and message (text or pattern). */
export async function fails(promise, status, code, message) {
  const rs = await promise
  assert.equal(rs.status, status, rs.text)
  assert.equal(rs.headers['content-type'], 'application/json')
  assert.equal(rs.json.code, code)
  if (message instanceof RegExp) assert.match(rs.json.message, message)
  else if (message !== undefined) assert.equal(rs.json.message, message)
}

/** A REST error body. */
export async function refuses(promise, status, message) {
  const rs = await promise
  assert.equal(rs.status, status, rs.text)
  assert.equal(rs.headers['content-type'], 'application/json; charset=utf-8')
  assert.equal(rs.json.code, status)
  if (message instanceof RegExp) assert.match(rs.json.message, message)
  else if (message !== undefined) assert.equal(rs.json.message, message)
}

export function envelope(message, flags = 0) {
  const payload = Buffer.isBuffer(message) ? message : Buffer.from(typeof message === 'string' ? message : JSON.stringify(message))
  const head = Buffer.alloc(5)
  head[0] = flags
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

/** Server stream: messages arrive in `messages`; `next(test)` waits for one; `end` is the end frame once it is there. */
export class Stream {
  messages = []
  end = null
  #waiting = []
  #bytes = Buffer.alloc(0)

  constructor(target, message, headers = {}, body = undefined) {
    this.closed = new Promise((resolve) => (this.#resolveClosed = resolve))
    this.rq = http.request({
      port: envd.port, method: 'POST', path: `/${target}`, agent: false,
      headers: { 'content-type': 'application/connect+json', ...headers },
    }, (rs) => {
      this.rs = rs
      rs.on('data', (chunk) => this.#take(chunk))
      rs.on('error', () => {})
      rs.on('close', () => { this.isClosed = true; this.#wake(); this.#resolveClosed() })
    })
    this.rq.on('error', (error) => { this.error = error; this.isClosed = true; this.#wake(); this.#resolveClosed() })
    this.rq.end(body ?? envelope(message))
  }
  #resolveClosed
  #wake() { for (const fn of this.#waiting.splice(0)) fn() }
  #take(chunk) {
    this.#bytes = Buffer.concat([this.#bytes, chunk])
    while (this.#bytes.length >= 5) {
      const length = this.#bytes.readUInt32BE(1)
      if (this.#bytes.length < 5 + length) break
      const payload = JSON.parse(String(this.#bytes.subarray(5, 5 + length)))
      assert.equal(this.#bytes[0] & ~2, 0, 'only the end flag is ever set')
      if (this.#bytes[0] & 2) this.end = payload
      else this.messages.push(payload)
      this.#bytes = this.#bytes.subarray(5 + length)
    }
    this.#wake()
  }
  async until(test, what = 'a message') {
    const end = Date.now() + 10_000
    while (!test()) {
      assert.ok(!this.isClosed, `${what}: the stream ended: ${JSON.stringify(this.messages.slice(-3))} ${JSON.stringify(this.end)} ${this.error ?? ''}`)
      assert.ok(Date.now() < end, `${what}: nothing for 10 s: ${JSON.stringify(this.messages.slice(-3))}`)
      await Promise.race([new Promise((resolve) => this.#waiting.push(resolve)), later(1000)])
    }
  }
  async pid() {
    await this.until(() => this.messages.length > 0, 'start')
    assert.deepEqual(Object.keys(this.messages[0].event), ['start'])
    return this.messages[0].event.start.pid
  }
  output(kind = 'stdout') {
    return Buffer.concat(this.messages.map((m) => Buffer.from(m.event?.data?.[kind] ?? '', 'base64')))
  }
  async whole() {
    await this.closed
    return this
  }
  get last() { return this.messages.at(-1)?.event?.end }
  cut() { this.rq.destroy() }
}

export const start = (config, more = {}, headers = {}) => new Stream('process.Process/Start', { process: config, ...more }, headers)
export const sh = (script, more, headers) => start({ cmd: '/bin/sh', args: ['-c', script] }, more, headers)

/** Run to the end: {exitCode, stdout, stderr, end}. */
export async function run(script, more = { stdin: false }, headers = {}) {
  const s = await (typeof script === 'string' ? sh(script, more, headers) : start(script, more, headers)).whole()
  assert.deepEqual(s.end, {}, `ends well: ${JSON.stringify(s.end)}`)
  return { exitCode: s.last?.exitCode ?? 0, stdout: String(s.output()), stderr: String(s.output('stderr')), end: s.last, pid: s.messages[0].event.start.pid }
}

/** Bytes on a bare socket; resolves with everything that comes back until the connection closes (or `enough`). */
export function raw(bytes, enough = () => false) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(envd.port, '127.0.0.1')
    let got = ''
    socket.setTimeout(10_000, () => { socket.destroy(); reject(new Error(`no answer: ${got}`)) })
    socket.on('data', (data) => { got += data; if (enough(got)) { socket.destroy(); resolve(got) } })
    socket.on('error', () => resolve(got))
    socket.on('close', () => resolve(got))
    socket.write(bytes)
  })
}

export const basic = (user) => ({ authorization: `Basic ${Buffer.from(`${user}:`).toString('base64')}` })

async function settle(before) {
  await until('fds and children as before', () => fds() <= before.fds && children().length <= before.children)
}

/** Run every case, one after the other; TAP. */
export async function main() {
  let failures = 0
  await startDaemon()
  await request('GET', '/health')
  await run('true')
  for (const [i, { name, fn, skip }] of cases.entries()) {
    if (skip && !process.env.TESTS_MUST_RUN) {
      console.log(`ok ${i + 1} - ${name} # SKIP ${skip}`)
      continue
    }
    const before = { fds: fds(), children: children().length }
    try {
      await fn()
      await settle(before)
      console.log(`ok ${i + 1} - ${name}`)
    } catch (error) {
      failures++
      console.log(`not ok ${i + 1} - ${name}`)
      console.log(String(error.stack ?? error).split('\n').map((line) => `# ${line}`).join('\n'))
    }
  }
  console.log(`1..${cases.length}`)
  envd.child.kill('SIGTERM')
  const code = await new Promise((resolve) => envd.child.once('exit', (c, signal) => resolve(c ?? signal)))
  if (code !== 0) { console.log(`# the daemon ended with ${code}`); failures++ }
  fs.rmSync(envd.dir, { recursive: true, force: true })
  process.exit(failures ? 1 : 0)
}
