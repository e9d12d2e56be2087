// The programs of examples/, as they are, against the stand-in for the model.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { pathToFileURL, fileURLToPath } from 'node:url'

import { processes } from '../lib/proc.mjs'
import { temporaryDir } from '../lib/server.mjs'
import { until, within } from '../lib/wait.mjs'
import { run } from './library.mjs'
import { modelPort, startModel, templateName } from './places.mjs'

const names = pathToFileURL(fileURLToPath(new URL('../lib/names.mjs', import.meta.url))).href

/** context(): {client, examples, exports}; exports: all that a server exports to its users.  hooks: {begin, end}, lists of functions. */
export function exampleTests(context, hooks) {
  let dir, model, environment
  hooks.begin.push(async () => {
    const { exports } = context()
    dir = temporaryDir('examples')
    model = await startModel()
    environment = { PATH: process.env.PATH, HOME: dir, ...exports, NODE_OPTIONS: `--import ${names}`, SANDGLASS_TEST_NAMES: exports.E2B_DOMAIN.replace(/:\d+$/, ''), AGENT_TEMPLATE: templateName, ANTHROPIC_API_KEY: 'the-key' }
  })
  hooks.end.push(() => {
    model?.close()
    fs.rmSync(dir, { recursive: true, force: true })
  })
  const tsx = () => path.join(context().examples, 'node_modules/.bin/tsx')
  const example = (file, args, more) => run(tsx(), [path.join(context().examples, file), ...args], { cwd: dir, env: { ...environment, ...more } })
  const inSandboxes = { ANTHROPIC_BASE_URL: `http://127.0.0.1:${modelPort}` }
  const nothingIsLeft = async () => assert.deepEqual(await context().client.Sandbox.list().nextItems(), [])

  test('examples: mode local', async () => {
    const { code, text } = await example('modes/main.ts', ['say: hello'], { ANTHROPIC_BASE_URL: model.url })
    assert.deepEqual([code, text], [0, 'HELLO\n'])
    assert.ok(fs.existsSync(path.join(dir, 'workspace')))
  })

  test('examples: mode local, nothing of the agent stays, and lines that are no objects are text', async () => {
    // The modes with an agent that leaves a process behind, which holds the output open.
    const copy = path.join(context().examples, 'modes-beside')
    fs.cpSync(path.join(context().examples, 'modes'), copy, { recursive: true })
    const lines = ['null', '7', '[{}]', JSON.stringify({ type: 'result', subtype: 'success', result: 'done' })]
    const leaves = `import { spawn } from 'node:child_process'\nspawn('sleep', ['98767'], { stdio: 'inherit' }).unref()\n`
    fs.writeFileSync(path.join(copy, 'agent.mjs'), `${leaves}process.stdout.write(${JSON.stringify(`${lines.join('\n')}\n`)})\n`)
    try {
      const { code, text } = await within('the end of the agent', example('modes-beside/main.ts', ['x'], { ANTHROPIC_BASE_URL: model.url }))
      assert.equal(code, 0, text)
      assert.deepEqual(text.trim().split('\n').sort(), ['7', '[{}]', 'done', 'null'])
      await until('no process', () => !processes().some((p) => p.state !== 'Z' && p.args.includes('98767')))
    } finally {
      fs.rmSync(copy, { recursive: true })
    }
  })

  test('examples: mode e2b', async () => {
    const { code, text } = await example('modes/main.ts', ['use: Bash {"command":"pwd","description":"d"}'], { SANDBOX_MODE: 'E2B', ...inSandboxes })
    assert.equal(code, 0, text)
    assert.match(text, /e2b: Bash .*\nthe tool said: \/home\/user\/workspace/)
    await nothingIsLeft()
  })

  test('examples: mode hybrid, the workers in sandboxes at the same time', async () => {
    const args = ['say: both are done', 'one=say: first', 'two=say: second']
    const { code, text } = await example('modes/main.ts', args, { SANDBOX_MODE: 'hybrid', ANTHROPIC_BASE_URL: model.url, AGENT_BASE_URL: inSandboxes.ANTHROPIC_BASE_URL })
    assert.equal(code, 0, text)
    assert.match(text, /^one: FIRST$/m)
    assert.match(text, /^two: SECOND$/m)
    assert.match(text, /^BOTH ARE DONE/m)
    await nothingIsLeft()
  })

  test('examples: an agent that has no key has failed', async () => {
    const { code, text } = await example('modes/main.ts', ['say: x'], { ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: '' })
    assert.equal(code, 1, text)
    assert.match(text, /the agent failed: Not logged in/)
  })

  test('examples: the WebSocket server, two prompts of one conversation', async () => {
    const { code, text } = await example('websocket/client.ts', ['say: one', 'say: two'], inSandboxes)
    assert.deepEqual([code, text], [0, 'ONE\nTWO\n'])
    await nothingIsLeft()
  })

  test('examples: the fragments route gives the URL of a server, and says what is wrong', async () => {
    const child = spawn(tsx(), [path.join(context().examples, 'fragments/server.ts')], { cwd: dir, env: { ...environment, PORT: '0' }, stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      const [line] = await within('the address of the route', once(child.stdout.setEncoding('utf8'), 'data'))
      const post = async (body) => {
        const answer = await fetch(line.trim(), { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify({ fragment: body }) })
        return { status: answer.status, ...(await answer.json()) }
      }
      const files = [{ path: 'server.mjs', content: `import http from 'node:http'\nhttp.createServer((q, a) => a.end('from the fragment')).listen(3010)\n` }]
      const fragment = { template: templateName, code: '', files, port: 3010, additional_dependencies: ['none'], install_dependencies_command: 'true' }
      const started = await post({ ...fragment, start_command: 'node server.mjs' })
      assert.equal(started.status, 200, JSON.stringify(started))
      assert.match(started.url, new RegExp(`^https://3010-${started.sbxId}\\.`))
      const box = await context().client.Sandbox.connect(started.sbxId)
      assert.equal((await box.commands.run('curl -s http://127.0.0.1:3010/')).stdout, 'from the fragment')
      await box.kill()
      const code = 'send("stdout", text="42\\n"); send("result", text="6", is_main_result=True)'
      const { sbxId, ...result } = await post({ template: 'code-interpreter-v1', code })
      assert.deepEqual([result.status, result.stdout, result.cellResults?.[0]?.text], [200, ['42\n'], '6'], JSON.stringify(result))
      assert.match((await post({ template: 'code-interpreter-v1', code: 'raise ValueError("no")' })).runtimeError.value, /no/)
      for (const body of ['null', '5', '[]', '{"fragment":null}']) assert.deepEqual(await post(body), { status: 400, error: 'template: must be a text' })
      assert.deepEqual(await post('{'), { status: 400, error: 'template: must be a text' })
      assert.deepEqual(await post({ template: 't', code: 5 }), { status: 400, error: 'code: must be a text or a list of files' })
      assert.deepEqual(await post({ template: 't', code: '', port: 0 }), { status: 400, error: 'port: must be a number from 1 to 65535' })
      assert.equal((await post({ template: 'no-such-template', code: '' })).status, 502)
    } finally {
      child.kill()
      await once(child, 'close')
    }
    await nothingIsLeft()
  })
}
