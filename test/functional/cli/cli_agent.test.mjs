// `sandglass agent` and `sandglass create` beside a stand-in for the API, and the agent's script beside a stand-in for the SDK: what
// a real server does too seldom, or too slowly.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import readline from 'node:readline'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { binary, temporaryDir } from '../lib/server.mjs'
import { within } from '../lib/wait.mjs'

const script = fileURLToPath(new URL('../../../src/cli/agent/agent.mjs', import.meta.url))
const built = (seconds) => ({ status: 503, headers: { 'Retry-After': String(seconds) }, json: { code: 503, message: "template 'slow' is being built for its first use" } })
const refused = { status: 400, json: { code: 400, message: 'not today' } }

let dir, api
before(async () => {
  dir = temporaryDir('cli-agent')
  const modules = path.join(dir, 'workspace', 'node_modules')
  const sdk = path.join(modules, '@anthropic-ai', 'claude-agent-sdk')
  fs.mkdirSync(sdk, { recursive: true })
  fs.mkdirSync(path.join(modules, 'zod'))
  fs.writeFileSync(path.join(sdk, 'package.json'), '{"type":"module","main":"sdk.mjs"}')
  // Its answer: how long the prompt is, and what the tool says.
  fs.writeFileSync(path.join(sdk, 'sdk.mjs'), `
    export const tool = (name, about, shape, run) => run
    export const createSdkMcpServer = ({ tools }) => tools
    export async function* query({ prompt, options }) {
      const [run] = options.mcpServers?.workers ?? []
      const said = run ? await run({ worker: 'one', command: 'true', timeout: 300 }) : { content: [{ text: 'no tool' }] }
      yield { type: 'result', subtype: 'success', result: prompt.length + ' ' + said.content[0].text, isError: said.isError }
    }`)
  fs.writeFileSync(path.join(modules, 'zod', 'package.json'), '{"type":"module","main":"zod.mjs"}')
  fs.writeFileSync(path.join(modules, 'zod', 'zod.mjs'), 'const any = new Proxy(() => any, { get: () => any })\nexport const z = any\n')
  api = http.createServer((asked, answer) => {
    api.asked.push(`${asked.method} ${asked.url}`)
    const { status, headers, json } = api.answers.length > 1 ? api.answers.shift() : api.answers[0]
    asked.resume().on('end', () => answer.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(json)))
  })
  await once(api.listen(0, '127.0.0.1'), 'listening')
})
after(() => {
  api?.closeAllConnections()
  api?.close()
  fs.rmSync(dir, { recursive: true, force: true })
})

const variables = () => ({ PATH: process.env.PATH, HOME: dir, ANTHROPIC_API_KEY: 'the-key', E2B_API_KEY: 'e2b_00', E2B_API_URL: `http://127.0.0.1:${api.address().port}` })

/** What the command says and ends with, while the API gives these answers in turn; the last one again and again. */
async function command(args, answers, { env = variables(), onStderr = () => {} } = {}) {
  Object.assign(api, { asked: [], answers: [...answers] })
  const child = spawn(binary, args, { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => (said.stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text) => {
    said.stderr += text
    onStderr(said.stderr, child)
  })
  const [code, signal] = await within(() => `the end of ${args}: ${JSON.stringify(said)}`, once(child, 'close'))
  return { status: code ?? signal, ...said }
}

const lastLine = ({ stdout }) => JSON.parse(stdout.trim().split('\n').at(-1))
const creates = () => api.asked.filter((line) => line === 'POST /v2/sandboxes').length

test('agent, e2b: a template that is being built is waited for, and the last line of --json is there', async () => {
  const said = await command(['agent', '--mode', 'e2b', '--json', 'x'], [built(1), built(1), refused])
  assert.equal(said.status, 1)
  assert.match(said.stderr, /^sandglass agent: waiting: template 'slow' is being built for its first use$/m)
  assert.match(said.stderr, /not today/)
  assert.equal(creates(), 3)
  assert.deepEqual(lastLine(said), { type: 'sandglass', event: 'end', mode: 'e2b', session: '', sandbox: '', state: '' })
})

test('agent: no wait longer than --timeout, and a signal ends the wait', async () => {
  const late = await command(['agent', '--mode', 'e2b', '--timeout', '30', 'x'], [built(60)])
  assert.equal(late.status, 1)
  assert.match(late.stderr, /is being built for its first use/)
  assert.equal(creates(), 1)
  const onStderr = (text, child) => text.includes('waiting:') && child.kill('SIGINT')
  const interrupted = await command(['agent', '--mode', 'e2b', '--json', 'x'], [built(600)], { onStderr })
  assert.equal(interrupted.status, 130)
  assert.equal(creates(), 1)
  assert.equal(lastLine(interrupted).event, 'end')
})

test('agent, hybrid: a worker waits, too; a long prompt reaches the script', async () => {
  const prompt = '\n'.repeat(131_000) // longer than a pipe, as JSON
  const said = await command(['agent', '--mode', 'hybrid', '--json', prompt], [built(1), refused])
  assert.equal(said.status, 0, said.stderr)
  assert.match(said.stderr, /^sandglass agent: waiting: worker one: template 'slow' is being built for its first use$/m)
  const result = said.stdout.split('\n').filter(Boolean).map((line) => JSON.parse(line)).find((m) => m.type === 'result')
  assert.deepEqual([result.result, result.isError], ['131000 [worker one: not today]', true])
  assert.equal(lastLine(said).event, 'end')
})

test('agent: --json has its last line without a key, and when the sandbox cannot be paused', async () => {
  const { ANTHROPIC_API_KEY, ...keyless } = variables()
  const said = await command(['agent', '--json', 'x'], [refused], { env: keyless })
  assert.equal(said.status, 1)
  assert.match(said.stderr, /there is no key for the model/)
  assert.deepEqual(lastLine(said), { type: 'sandglass', event: 'end', mode: 'local', session: '', sandbox: '', state: '' })
  const left = await command(['agent', '--mode', 'e2b', '--json', '--resume', 'iabcdefghij0123456789', 'x'], [{ status: 500, json: { code: 500, message: 'the disk' } }])
  assert.equal(left.status, 1)
  assert.match(left.stderr, /what is left may still run: .*the disk/)
  assert.deepEqual(lastLine(left), { type: 'sandglass', event: 'end', mode: 'e2b', session: '', sandbox: 'iabcdefghij0123456789', state: 'unknown' })
})

test('create: a template that is being built is waited for; another 503 is told at once', async () => {
  const made = { status: 201, json: { sandboxID: 'iabcdefghij0123456789', templateID: 'slow', envdAccessToken: 't' } }
  const said = await command(['create', 'slow'], [built(1), made])
  assert.deepEqual([said.status, said.stdout, creates()], [0, 'iabcdefghij0123456789\n', 2], said.stderr)
  assert.equal(said.stderr, "sandglass: waiting: template 'slow' is being built for its first use\n")
  const busy = await command(['create', 'slow'], [{ status: 503, json: { code: 503, message: 'no memory' } }])
  assert.deepEqual([busy.status, creates()], [1, 1])
})

test('the script: what is missing in the output of a worker is told to the agent', async () => {
  const results = [
    [{ exitCode: 0, output: '1\n2\n', note: '7 bytes more are left out' }, '1 1\n2\n\n[7 bytes more are left out]\n[exit code 0]'],
    [{ exitCode: 3, output: '1\n' }, '1 1\n\n[exit code 3]'],
    [{ error: 'too long', output: '1', note: '7 bytes more are left out' }, '1 1\n[7 bytes more are left out]\n[too long]'],
    [{ error: 'no sandbox' }, '1 [no sandbox]'],
  ]
  for (const [answer, text] of results) {
    const child = spawn(process.execPath, [script], { cwd: path.join(dir, 'workspace'), env: variables(), stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = once(child, 'close')
    child.stdin.write(`${JSON.stringify({ prompt: 'x', workers: true })}\n`)
    let result
    for await (const line of readline.createInterface({ input: child.stdout })) {
      const message = JSON.parse(line)
      if (message.event === 'worker') child.stdin.write(`${JSON.stringify({ id: message.id, ...answer })}\n`)
      if (message.type === 'result') result = message.result
    }
    await within('the end of the script', ended)
    assert.equal(result, text)
  }
})
