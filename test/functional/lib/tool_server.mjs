// An MCP tool server of its own for one suite, on this machine: its port, its token, and what its process holds.
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

import { temporaryDir } from './server.mjs'
import { until } from './wait.mjs'

const program = path.join(path.dirname(fileURLToPath(import.meta.url)), '../../../build/sandglass-mcp')

export class ToolServer {
  /** With a token, unless `token` is null; `more` are further options of the program, `descriptors` how many it may have: "soft:hard". With `uid`, it
   * belongs to this user. `at` is the text for the option --workspace, made of the real path. */
  static async start({ token = 'secret-token', more = [], PATH = process.env.PATH, descriptors, uid, at = (workspace) => workspace } = {}) {
    const dir = temporaryDir()
    const workspace = path.join(dir, 'workspace')
    fs.mkdirSync(workspace)
    const tokenFile = path.join(dir, 'token')
    if (token !== null) fs.writeFileSync(tokenFile, `${token}\n`)
    const access = token === null ? ['--no-token'] : ['--token-file', tokenFile]
    const environment = { PATH, HOME: dir }
    if (uid) for (const name of [dir, workspace, tokenFile]) fs.chownSync(name, uid, uid)
    const [command, ...first] = descriptors ? ['prlimit', `--nofile=${descriptors}`, program] : [program]
    const child = spawn(command, [...first, '--listen', '127.0.0.1:0', '--workspace', at(workspace), ...access, ...more], { uid, gid: uid, stdio: ['ignore', 'pipe', 'inherit'], env: environment })
    const port = await new Promise((resolve, reject) => {
      createInterface({ input: child.stdout }).once('line', (line) => resolve(Number(line.match(/port (\d+)/)[1])))
      child.once('exit', (code) => reject(new Error(`the tool server ended with ${code}`)))
    })
    return Object.assign(new ToolServer(), { child, port, workspace, tokenFile, token, dir, url: `http://127.0.0.1:${port}/mcp` })
  }

  file = (name) => path.join(this.workspace, name)
  proc = (what) => `/proc/${this.child.pid}/${what}`
  /** Without sockets: clients keep connections for their next request. */
  descriptors = () => fs.readdirSync(this.proc('fd')).filter((fd) => { try { return !fs.readlinkSync(this.proc(`fd/${fd}`)).startsWith('socket:') } catch { return false } }).length
  children = () => fs.readFileSync(this.proc(`task/${this.child.pid}/children`), 'utf8').trim().split(' ').filter(Boolean).length
  residentKiB = () => Number(fs.readFileSync(this.proc('status'), 'utf8').match(/VmRSS:\s+(\d+)/)[1])
  headers = () => ({ 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}) })

  /** One POST of any body; `more` are headers. */
  post = (body, more = {}) => fetch(this.url, { method: 'POST', headers: { ...this.headers(), ...more }, body: typeof body === 'string' ? body : JSON.stringify(body) })

  /** A session by hand: a function that sends one message in it. */
  async session(version = '2025-06-18') {
    const answer = await this.post({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: version, capabilities: {}, clientInfo: { name: 'test', version: '1' } } })
    const id = answer.headers.get('mcp-session-id')
    await answer.text()
    const send = (message, more = {}) => this.post(message, { 'Mcp-Session-Id': id, ...more })
    return Object.assign(send, { id, end: () => fetch(this.url, { method: 'DELETE', headers: { ...this.headers(), 'Mcp-Session-Id': id } }) })
  }

  /** After the case nothing is left of it: no process, no descriptor. */
  clean = (body) => async (t) => {
    const before = this.descriptors()
    await body(t)
    await until(() => `nothing is left: ${this.children()} processes, ${this.descriptors()} descriptors, ${before} before`, () => this.children() === 0 && this.descriptors() <= before)
  }

  async stop() {
    const ended = new Promise((resolve) => this.child.once('exit', (code) => resolve(code)))
    this.child.kill('SIGTERM')
    const code = await ended
    fs.rmSync(this.dir, { recursive: true, force: true })
    return code
  }
}
