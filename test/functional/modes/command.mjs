// `sandglass agent` on this machine and in sandboxes, with the real Agent SDK and the stand-in for the model.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

import { processes } from '../lib/proc.mjs'
import { binary, temporaryDir } from '../lib/server.mjs'
import { until, within } from '../lib/wait.mjs'
import { modelPort, startModel, templateName } from './places.mjs'

const inSandboxes = { ANTHROPIC_BASE_URL: `http://127.0.0.1:${modelPort}`, ANTHROPIC_API_KEY: 'the-key' }

/** -> {status, stdout, stderr}; onText: each piece of both. */
async function agent(args, { cwd, env, onText = () => {} }) {
  const child = spawn(binary, ['agent', ...args], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'])
    child[name].setEncoding('utf8').on('data', (text) => {
      said[name] += text
      onText(said, child)
    })
  try {
    const [code, signal] = await within(() => `end of agent: ${JSON.stringify(said)}`, once(child, 'close'), 120_000)
    return { status: code ?? signal, ...said }
  } finally {
    child.kill('SIGKILL')
  }
}

/** context(): {client, examples, variables}; variables: what finds the server.  hooks: {begin, end}, lists of functions. */
export function commandTests(context, hooks) {
  let dir, model, here, sandboxes
  hooks.begin.push(async () => {
    const { client, examples, variables } = context()
    dir = temporaryDir('agent')
    fs.mkdirSync(path.join(dir, 'workspace'))
    fs.symlinkSync(path.join(examples, 'node_modules'), path.join(dir, 'workspace/node_modules'))
    model = await startModel()
    here = { cwd: dir, env: { PATH: process.env.PATH, HOME: dir, ...variables, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'the-key' } }
    const listed = async () => (await client.Sandbox.list().nextItems()).map((s) => ({ id: s.sandboxId, state: s.state }))
    sandboxes = { cwd: dir, env: { ...here.env, ...inSandboxes }, listed, kill: (id) => client.Sandbox.kill(id) }
  })
  hooks.end.push(() => {
    model?.close()
    fs.rmSync(dir, { recursive: true, force: true })
  })
  const inSandbox = (...args) => ['--mode', 'e2b', '-t', templateName, ...args]
  const idOf = ({ stderr }) => /sandbox (\S+) is (?:paused|running|killed)/.exec(stderr)?.[1]

  test('agent, local: says the answer, uses tools in ./workspace, and goes on with the session', async () => {
    const first = await agent(['say: hello there'], here)
    assert.deepEqual([first.status, first.stdout], [0, 'HELLO THERE\n'], first.stderr)
    assert.match(first.stderr, /done after [\d.]+ s, 1 turn, \$\d/)
    const session = /agent --resume ([0-9a-f-]{36}) /.exec(first.stderr)?.[1]
    assert.ok(session, first.stderr)
    const next = await agent(['--json', '--resume', session, 'use: Write {"file_path":"' + dir + '/workspace/made.txt","content":"by the agent"}'], here)
    assert.equal(next.status, 0, next.stderr)
    assert.equal(fs.readFileSync(path.join(dir, 'workspace/made.txt'), 'utf8'), 'by the agent')
    const messages = next.stdout.trim().split('\n').map((line) => JSON.parse(line))
    assert.equal(messages.find((m) => m.type === 'system' && m.subtype === 'init').session_id, session)
    assert.deepEqual(messages.at(-1), { type: 'sandglass', event: 'end', mode: 'local', session, sandbox: '', state: '' })
  })

  test('agent, e2b: the sandbox is paused at the end, and resumed with the session of the agent', async () => {
    const first = await agent(inSandbox('use: Bash {"command":"echo made > made.txt; pwd; id -un","description":"d"}'), sandboxes)
    assert.equal(first.status, 0, first.stderr)
    assert.match(first.stdout, /> Bash echo made > made.txt; pwd; id -un\n {2}\| \/home\/user\/workspace\n {2}\| user\nthe tool said: /)
    const id = idOf(first)
    assert.match(first.stderr, new RegExp(`agent --resume ${id} `))
    assert.deepEqual(await sandboxes.listed(), [{ id, state: 'paused' }])

    const next = await agent(['--json', '--keep', '--resume', id, 'use: Bash {"command":"cat made.txt","description":"d"}'], sandboxes)
    assert.equal(next.status, 0, next.stderr)
    const messages = next.stdout.trim().split('\n').map((line) => JSON.parse(line))
    assert.equal(messages.at(-1).state, 'running')
    assert.match(messages.find((m) => m.type === 'result').result, /made/)
    const session = messages.find((m) => m.type === 'system' && m.subtype === 'init').session_id
    assert.equal(messages.at(-1).session, session)
    assert.deepEqual(await sandboxes.listed(), [{ id, state: 'running' }])

    const last = await agent(['--kill', '--resume', id, 'say: the end'], sandboxes)
    assert.deepEqual([last.status, last.stdout], [0, 'THE END\n'], last.stderr)
    assert.deepEqual(await sandboxes.listed(), [])
  })

  test('agent, hybrid: the agent is here, its commands are in sandboxes, which are ended', async () => {
    const use = 'use: mcp__workers__run {"worker":"one","command":"echo ${ANTHROPIC_API_KEY-keyless}; id -un; pwd; exit 3"}'
    const { status, stdout, stderr } = await agent(['--mode', 'hybrid', '-t', templateName, use], here)
    assert.equal(status, 0, stderr)
    assert.match(stdout, /> mcp__workers__run echo .*; id -un; pwd; exit 3\n {2}\| keyless\n/)
    assert.match(stdout, / {2}\| user\n {2}\| \/home\/user\/workspace\n(.*\n)? {2}\| \[exit code 3\]/)
    assert.deepEqual(await sandboxes.listed(), [])
  })

  test('agent, hybrid: a command that takes too long is ended, and what it printed is told', async () => {
    const use = 'use: mcp__workers__run {"worker":"one","command":"echo begun; sleep 98764","timeout":5}'
    const { status, stdout, stderr } = await agent(['--mode', 'hybrid', '-t', templateName, use], here)
    assert.equal(status, 0, stderr)
    assert.match(stdout, / {2}! begun\n {2}! \[the command took longer than 5 s, and was ended\]/)
  })

  test('agent, hybrid: of long output the agent gets the beginning, and a note', async () => {
    const long = { 'seq 1 10000': '28894 bytes more are left out', 'head -c 30000 /dev/zero | tr "\\0" x': '10001 bytes more are left out' }
    for (const [command, note] of Object.entries(long)) {
      const use = `use: mcp__workers__run ${JSON.stringify({ worker: 'one', command })}`
      const { status, stdout, stderr } = await agent(['--mode', 'hybrid', '--json', '-t', templateName, use], here)
      assert.equal(status, 0, stderr)
      const answers = stdout.split('\n').filter((line) => line.includes('tool_result'))
      assert.ok(answers.some((line) => line.includes(`[${note}]\\n[exit code 0]`)), answers.join('\n').slice(-500))
    }
  })

  test('agent: SANDBOX_MODE chooses, in any case of letters', async () => {
    const { status, stdout, stderr } = await agent(['-t', templateName, '--kill', 'say: by mode'], { ...sandboxes, env: { ...sandboxes.env, SANDBOX_MODE: 'E2B' } })
    assert.deepEqual([status, stdout], [0, 'BY MODE\n'], stderr)
    assert.match(stderr, /sandbox \S+ is killed/)
  })

  test('agent: a signal ends the agent, and the sandbox is paused as at every end', async () => {
    let sent = false
    const onText = ({ stdout }, child) => {
      if (sent || !stdout.includes('> Bash')) return
      sent = true
      child.kill('SIGINT')
    }
    const { status, stderr } = await agent(inSandbox('use: Bash {"command":"sleep 98765","description":"d"}'), { ...sandboxes, onText })
    assert.equal(status, 130, stderr)
    const [{ id, state }] = await sandboxes.listed()
    assert.deepEqual([id, state], [idOf({ stderr }), 'paused'])
    await context().client.Sandbox.connect(id).then(async (box) => {
      const left = await box.commands.run('pgrep -fx "sleep 98765" || echo none')
      assert.equal(left.stdout, 'none\n')
      await box.kill()
    })
  })

  test('agent, local: a signal leaves no process', async () => {
    let sent = false
    const onText = ({ stdout }, child) => {
      if (sent || !stdout.includes('> Bash')) return
      sent = true
      child.kill('SIGTERM')
    }
    const bash = 'use: Bash {"command":"sleep 98766","description":"d"}'
    const { status, stderr } = await agent(['-e', 'IS_SANDBOX=1', '--permissions', 'bypassPermissions', bash], { ...here, onText })
    assert.equal(status, 143, stderr)
    await until('no process', () => !processes().some((p) => p.state !== 'Z' && p.args.includes('98766')))
  })

  test('agent: interrupted while the sandbox is made, nothing is left', async () => {
    const onText = (said, child) => child.kill('SIGINT') // at the first words
    const { status } = await agent(inSandbox('say: never'), { ...sandboxes, onText })
    assert.equal(status, 130)
    await until('no running sandbox', async () => (await sandboxes.listed()).every((s) => s.state === 'paused'))
    for (const { id } of await sandboxes.listed()) await sandboxes.kill(id)
  })

  test('agent: interrupted while a sandbox is resumed, the sandbox is paused again', async () => {
    const box = await context().client.Sandbox.create(templateName)
    await box.pause()
    const onText = (said, child) => child.kill('SIGINT') // at the first words
    const { status, stderr } = await agent(['--mode', 'e2b', '--resume', box.sandboxId, 'say: never'], { ...sandboxes, onText })
    assert.equal(status, 130, stderr)
    assert.deepEqual(await sandboxes.listed(), [{ id: box.sandboxId, state: 'paused' }])
    const killed = await agent(['--mode', 'e2b', '--kill', '--resume', box.sandboxId, 'say: never'], { ...sandboxes, onText })
    assert.equal(killed.status, 130, killed.stderr)
    assert.deepEqual(await sandboxes.listed(), [])
  })

  test('agent: a resume that is refused leaves the sandbox alone; one that fails half way does not', async () => {
    const box = await context().client.Sandbox.create(templateName)
    const refused = async (state) => {
      for (const more of [[], ['--kill']]) {
        const { status, stderr } = await agent(['--mode', 'e2b', ...more, '--timeout', '86400', '--resume', box.sandboxId, 'say: never'], sandboxes)
        assert.equal(status, 1, stderr)
        assert.deepEqual(await sandboxes.listed(), [{ id: box.sandboxId, state }])
      }
    }
    await refused('running')
    await box.files.write('/home/user/workspace', 'a file where the workspace would be')
    await box.pause()
    await refused('paused')
    const failed = await agent(['--mode', 'e2b', '--resume', box.sandboxId, 'say: never'], sandboxes)
    assert.equal(failed.status, 1, failed.stderr)
    assert.deepEqual(await sandboxes.listed(), [{ id: box.sandboxId, state: 'paused' }])
    await sandboxes.kill(box.sandboxId)
  })

  test('agent: what is missing is said, and what fails has an exit code', async () => {
    const { ANTHROPIC_API_KEY, ...keyless } = sandboxes.env
    const nodeless = await context().client.Sandbox.create('base')
    await nodeless.commands.run('sudo mv "$(readlink -f "$(command -v node)")" /root/')
    const cases = [
      [inSandbox('x'), { env: keyless }, 1, /there is no key for the model: set ANTHROPIC_API_KEY/],
      [['x'], { env: { ...here.env, PATH: '/nowhere' } }, 1, /node is not on this machine/],
      [['--kill', '--resume', nodeless.sandboxId, 'x'], { env: sandboxes.env }, 1, /node is not in the sandbox/],
      [['--mode', 'e2b', '-t', 'no-such-template', 'x'], { env: sandboxes.env }, 1, /no-such-template/],
      [['--mode', 'e2b', '--resume', 'i00000000000000000000', 'x'], { env: sandboxes.env }, 1, /i00000000000000000000/],
      [inSandbox('--timeout', '86400', 'x'), { env: sandboxes.env }, 1, /--timeout 86400: the sandbox has to live 300 s longer, but: Timeout cannot be greater than 24 hours/],
      [['--mode', 'cloud', 'x'], { env: here.env }, 2, /must be local, e2b or hybrid/],
      [['--keep', '--kill', 'x'], { env: here.env }, 2, /exclude each other/],
      [['--permissions', 'all', 'x'], { env: here.env }, 2, /there is no such choice/],
      [['one', 'two'], { env: here.env }, 2, /put it in quotes/],
      [[], { env: here.env }, 2, /^usage:/],
      [['--mode', 'local', '--resume', 'iabc', 'x'], { env: here.env }, 2, /a session of the agent/],
    ]
    for (const [args, options, status, words] of cases) {
      const said = await agent(args, { cwd: dir, ...options })
      assert.equal(said.status, status, `${args.join(' ')}: ${said.stderr}`)
      assert.match(said.stderr, words, args.join(' '))
    }
    assert.deepEqual(await sandboxes.listed(), [])
  })

  test('agent: an SDK that is not logged in has failed, whatever it calls that', async () => {
    const fake = path.join(dir, 'fake')
    const sdk = path.join(fake, 'workspace/node_modules/@anthropic-ai/claude-agent-sdk')
    fs.mkdirSync(sdk, { recursive: true })
    fs.writeFileSync(path.join(sdk, 'package.json'), '{"type":"module","main":"sdk.mjs"}')
    fs.writeFileSync(path.join(sdk, 'sdk.mjs'), `export async function* query() { yield { type: 'result', subtype: 'success', result: 'Not logged in · Please run /login' } }\n`)
    const said = await agent(['x'], { cwd: fake, env: { ...here.env, HOME: fake } })
    assert.equal(said.status, 1, said.stderr)
    assert.match(said.stderr, /the agent is not logged in: set ANTHROPIC_API_KEY/)
  })

  test('agent: control characters of an agent do not reach the terminal, and a script that fails is told', async () => {
    const fake = path.join(dir, 'hostile')
    const sdk = path.join(fake, 'workspace/node_modules/@anthropic-ai/claude-agent-sdk')
    fs.mkdirSync(sdk, { recursive: true })
    fs.writeFileSync(path.join(sdk, 'package.json'), '{"type":"module","main":"sdk.mjs"}')
    const text = '\\u001b]0;title\\u0007 red \\u009b31m\\u007f'
    fs.writeFileSync(path.join(sdk, 'sdk.mjs'), `export async function* query() { console.log('no json \\u001b[2J'); yield { type: 'assistant', message: { content: [{ type: 'text', text: '${text}' }] } }; throw new Error('broken SDK') }\n`)
    const said = await agent(['x'], { cwd: fake, env: { ...here.env, HOME: fake } })
    assert.equal(said.status, 1)
    assert.equal(said.stdout, ']0;title red 31m\n')
    assert.match(said.stderr, /no json \[2J\n[^]*the agent failed: broken SDK/)
    assert.ok(!said.stderr.includes('\u001b'))
    const lines = await agent(['--json', 'x'], { cwd: fake, env: { ...here.env, HOME: fake } })
    assert.match(lines.stdout, /^[\n -~]+$/)
    assert.equal(JSON.parse(lines.stdout.split('\n')[0]).message.content[0].text, '\u001b]0;title\u0007 red \u009b31m\u007f')
  })
}
