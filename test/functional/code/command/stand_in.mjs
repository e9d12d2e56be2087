// A sandbox with a stand-in for the code interpreter (inside/interpreter.py), for tests of the command line.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

import { Sandbox } from 'e2b'

import { binary, sandglass } from '../../lib/server.mjs'
import { until } from '../../lib/wait.mjs'

const program = fileURLToPath(new URL('../../inside/interpreter.py', import.meta.url))

export const connection = (server) => ({ apiKey: server.key, apiUrl: server.apiUrl, sandboxUrl: server.env.E2B_SANDBOX_URL, domain: server.domain })

/** A new sandbox, in which the stand-in answers.  options: of Sandbox.create. */
export async function startInterpreter(server, options = {}) {
  const sandbox = await Sandbox.create('base', { ...connection(server), timeoutMs: 900_000, ...options })
  const copied = sandglass(['cp', '--data', server.data, program, `${sandbox.sandboxId}:/tmp/interpreter.py`])
  if (copied.status !== 0) throw new Error(copied.stderr)
  await sandbox.commands.run('python3 /tmp/interpreter.py >/tmp/interpreter.log 2>&1', { background: true, timeoutMs: 0 })
  await until('the stand-in answers', async () => (await inside(server, sandbox.sandboxId, 'curl -s localhost:49999/health')) === '"OK"', 60_000, 50)
  return sandbox
}

/** What a line of shell prints in the sandbox. */
export async function inside(server, id, line) {
  return sandglass(['exec', '--data', server.data, id, 'sh', '-c', line], { input: '' }).stdout
}

/** The stand-in's notes since the last time. */
export async function takeNotes(server, id) {
  const text = await inside(server, id, 'cat /tmp/notes 2>/dev/null; rm -f /tmp/notes')
  return text.split('\n').filter(Boolean)
}

/** Wait until the stand-in has noted this. */
export const noted = (server, id, text) => until(`the stand-in notes ${text}`, async () => (await inside(server, id, 'cat /tmp/notes 2>/dev/null')).split('\n').includes(text), 60_000, 20)

const terminals = new Set()
/** In an `after` hook: a terminal that a failed test left open would keep the process. */
export const closeTerminals = () => { for (const child of terminals) child.kill('SIGKILL') }

/** A process of the command line: what it wrote so far, and how it ended. */
export function start(args, { input, ...options } = {}) {
  const child = spawn(binary, args, { stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'], ...options })
  const p = { child, stdout: '', stderr: '', ended: once(child, 'close').then(([code, signal]) => ({ code, signal })) }
  child.stdout.setEncoding('utf8').on('data', (text) => (p.stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => (p.stderr += text))
  if (input !== undefined) child.stdin.end(input)
  return p
}

/** A command at a terminal of its own: what it shows, and a way to type. */
export function terminal(args, { env = {}, size = 'cols 80 rows 24' } = {}) {
  const words = [binary, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')
  const child = spawn('script', ['-qfec', `stty ${size}; exec ${words}`, '/dev/null'], {
    env: { PATH: process.env.PATH, HOME: process.env.HOME, TERM: 'xterm', ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  terminals.add(child)
  child.once('close', () => terminals.delete(child))
  const t = { child, shown: '', type: (text) => child.stdin.write(text), ended: once(child, 'close').then(([code]) => code) }
  child.stdout.setEncoding('latin1').on('data', (data) => (t.shown += data))
  child.stderr.setEncoding('latin1').on('data', (data) => (t.shown += data))
  t.shows = (pattern) => until(() => `${pattern} in ${JSON.stringify(t.shown)}`, () => pattern.test(t.shown))
  return t
}
