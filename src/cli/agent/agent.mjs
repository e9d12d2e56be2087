// Runs one prompt of an agent with the Claude Agent SDK, and prints each of its messages as a line of JSON.
//
// The first line of standard input is the request:
//   {prompt, resume?, continues?, permissionMode?, maxTurns?, workers?}
// continues: the session that the last run in this directory had.  workers: offer the tool `run`, which runs commands in named
// sandboxes.  The program that started this one does it: this one prints {type: "sandglass", event: "worker", id, worker, command,
// timeout}, and reads {id, exitCode, output, note?} or {id, error, output, note?} as a further line of standard input.  note: what is
// missing in the output.
//
// Lines of its own have the type "sandglass": {event: "progress" | "error" | "worker", text?}.
// Exit codes: 0 the agent has answered, 1 it has failed, 3 the SDK cannot be had.
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import readline from 'node:readline'
import { pathToFileURL } from 'node:url'

const sdkName = '@anthropic-ai/claude-agent-sdk'
const sdkVersion = '0.3'
const sessionFile = path.join('.sandglass', 'session.json')

const print = (message) => fs.writeSync(1, `${JSON.stringify(message)}\n`)
const say = (event, text) => print({ type: 'sandglass', event, text })

// ---- the SDK: where the workspace, the template or an earlier run has it, else from npm ----

/** The directories with packages that node would look into from `dir`. */
function above(dir) {
  const found = []
  for (let at = path.resolve(dir); ; at = path.dirname(at)) {
    found.push(path.join(at, 'node_modules'))
    if (at === path.dirname(at)) return found
  }
}

const cache = () => path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'sandglass', 'agent')

function findSdk() {
  const beside = path.resolve(process.execPath, '..', '..', 'lib', 'node_modules')
  const ofTemplate = '/opt/sandglass/agent/node_modules' // of the template agent-sandbox
  const places = [...above('.'), ...above(os.homedir()), ofTemplate, path.join(cache(), 'node_modules'), beside, '/usr/local/lib/node_modules', '/usr/lib/node_modules', '/usr/share/nodejs']
  return places.map((place) => path.join(place, sdkName)).find((dir) => fs.existsSync(path.join(dir, 'package.json')))
}

/** npm's own words go to standard error. */
async function installSdk() {
  fs.mkdirSync(cache(), { recursive: true })
  const args = ['install', '--prefix', cache(), '--no-audit', '--no-fund', '--loglevel=error', `${sdkName}@${sdkVersion}`]
  const npm = spawn('npm', args, { stdio: ['ignore', 2, 2] })
  const code = await new Promise((done, fail) => npm.on('error', fail).on('exit', (status, signal) => done(status ?? signal)))
  if (code !== 0) throw new Error(`npm install ${sdkName} failed (${code})`)
}

async function loadSdk() {
  if (!findSdk()) {
    say('progress', `installing ${sdkName} with npm, which can take minutes; a template that has it starts at once`)
    await installSdk()
    say('progress', `${sdkName} is installed`)
  }
  const dir = findSdk()
  if (!dir) throw new Error(`${sdkName} is not there after npm installed it`)
  const { exports, main } = JSON.parse(fs.readFileSync(path.join(dir, 'package.json'), 'utf8'))
  const entry = exports?.['.'] ?? main ?? 'sdk.mjs'
  const file = typeof entry === 'string' ? entry : (entry.import ?? entry.default)
  return { dir, ...(await import(pathToFileURL(path.join(dir, file)))) }
}

// ---- workers ----

/** Requests to the program that started this one, each with a number, and its answers. */
class Workers {
  #waiting = new Map()
  #last = 0

  run(request) {
    const id = ++this.#last
    print({ type: 'sandglass', event: 'worker', id, ...request })
    return new Promise((done) => this.#waiting.set(id, done))
  }

  onLine(line) {
    const { id, ...answer } = JSON.parse(line)
    this.#waiting.get(id)?.(answer)
    this.#waiting.delete(id)
  }
}

async function workerTool(sdk, workers) {
  const { z } = await import(pathToFileURL(createRequire(path.join(sdk.dir, 'package.json')).resolve('zod')))
  const shape = {
    worker: z.string().describe('the name of the worker: letters, digits, "-", "_", "."; a new name makes a new sandbox'),
    command: z.string().describe('a command line for bash'),
    timeout: z.number().int().min(1).max(86400).default(300).describe('seconds after which the command is ended'),
  }
  const run = async (request) => {
    const { exitCode, output = '', note, error } = await workers.run(request)
    const shown = note ? `${output}\n[${note}]` : output
    const text = error ? `${shown}${note ? '\n' : ''}[${error}]` : `${shown}\n[exit code ${exitCode}]`
    return { content: [{ type: 'text', text }], isError: Boolean(error) }
  }
  const about = 'Run a command in the sandbox of a named worker. Each worker has a sandbox of its own with a workspace, made at the first use and kept until the end.'
  return sdk.createSdkMcpServer({ name: 'workers', tools: [sdk.tool('run', about, shape, run)] })
}

// ---- the run ----

function lastSession() {
  try {
    return JSON.parse(fs.readFileSync(sessionFile, 'utf8')).session
  } catch {
    return undefined // none yet: the agent begins a new one
  }
}

function keepSession(session) {
  fs.mkdirSync(path.dirname(sessionFile), { recursive: true })
  fs.writeFileSync(`${sessionFile}.new`, JSON.stringify({ session }))
  fs.renameSync(`${sessionFile}.new`, sessionFile)
}

async function optionsOf(sdk, request, workers) {
  const options = { cwd: process.cwd(), permissionMode: request.permissionMode ?? 'default', settingSources: ['project'] }
  options.resume = request.resume ?? (request.continues ? lastSession() : undefined)
  options.systemPrompt = { type: 'preset', preset: 'claude_code' }
  options.stderr = (text) => process.stderr.write(text)
  if (request.maxTurns) options.maxTurns = request.maxTurns
  if (options.permissionMode === 'bypassPermissions') options.allowDangerouslySkipPermissions = true
  if (request.workers) {
    options.mcpServers = { workers: await workerTool(sdk, workers) }
    options.allowedTools = ['mcp__workers__run']
  }
  return options
}

async function main() {
  const lines = readline.createInterface({ input: process.stdin, crlfDelay: Infinity })
  const workers = new Workers()
  const request = JSON.parse(await new Promise((done) => lines.once('line', done)))
  lines.on('line', (line) => workers.onLine(line))
  const sdk = await loadSdk().catch((e) => {
    say('error', e.message)
    process.exit(3)
  })
  let isGood = false
  for await (const message of sdk.query({ prompt: request.prompt, options: await optionsOf(sdk, request, workers) })) {
    print(message)
    if (message.type === 'system' && message.subtype === 'init') keepSession(message.session_id)
    if (message.type === 'result') isGood = message.subtype === 'success' && !message.is_error
  }
  process.exit(isGood ? 0 : 1)
}

await main().catch((e) => {
  say('error', e.message)
  process.exit(1)
})
