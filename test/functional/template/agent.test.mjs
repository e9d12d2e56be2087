// An agent behind a WebSocket, from template to pause, by each way to build it: the builder's calls, a Dockerfile, the command
// lines of both sides, an image of a registry; and the ready-made one.
//
// The packages of the agent are large.  The data directory stays in build/test-cache, so they are fetched once,
// and later runs find every step in the cache.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { checkAgent } from '../lib/agent.mjs'
import { call } from '../lib/agent_api.mjs'
import { withAgentImage } from '../lib/build/agent_image.mjs'
import { buildLog, deleteTemplates } from '../lib/build/builds.mjs'
import { keptServer } from '../lib/kept_server.mjs'
import { webSocket } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { firstUse } from '../lib/build/ready_made.mjs'
import { binary, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until, within } from '../lib/wait.mjs'

const app = fileURLToPath(new URL('../inside/agent', import.meta.url))
const modules = fileURLToPath(new URL('../node_modules', import.meta.url))
let server, client, context
before(async () => {
  server = await keptServer('agent')
  Object.assign(process.env, clientEnvironment(server, 'http'))
  client = await import('e2b')
  context = { server, transport: 'http' }
})
after(() => server.cleanUp())

const dockerfile = `FROM node:24
WORKDIR /home/user
RUN npm init -y
RUN npm install @anthropic-ai/claude-agent-sdk hono
COPY ./server /home/user/server
USER user
CMD cd /home/user/server && node index.js
`

/** A directory as a project has it: the application, a Dockerfile, e2b.toml. */
function project(extra = {}) {
  const dir = temporaryDir('project')
  fs.cpSync(app, dir, { recursive: true })
  for (const [name, text] of Object.entries(extra)) fs.writeFileSync(path.join(dir, name), text)
  return dir
}

async function command(program, args, options) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  let text = ''
  for (const out of [child.stdout, child.stderr]) out.setEncoding('utf8').on('data', (piece) => (text += piece))
  const [code] = await once(child, 'close')
  assert.equal(code, 0, `${program} ${args.join(' ')}: ${text}`)
  return text
}

test('the builder: npm packages, a copied folder, a start command, a WebSocket; paused and connected, the same process answers', async () => {
  const { Template } = client
  const template = Template({ fileContextPath: app })
    .fromNodeImage('24')
    .setWorkdir('/home/user')
    .runCmd('npm init -y')
    .npmInstall(['@anthropic-ai/claude-agent-sdk', 'hono'])
    .copy('./server', '/home/user/server')
    .setStartCmd('cd /home/user/server && node index.js', { waitForPort: 3000 })
  const log = buildLog()
  await Template.build(template, { alias: 'agent-sandbox', ...log })
  await checkAgent(context, client, 'agent-sandbox', 'agent')
  await deleteTemplates(api, server, 'agent-sandbox')
})

test('fromDockerfile', async () => {
  await client.Template.build(client.Template({ fileContextPath: app }).fromDockerfile(dockerfile).setReadyCmd(client.waitForPort(3000)), 'agent-dockerfile')
  await checkAgent(context, client, 'agent-dockerfile', 'agent')
  await deleteTemplates(api, server, 'agent-dockerfile')
})

test('e2b template create', async () => {
  const dir = project({ 'e2b.Dockerfile': dockerfile })
  const args = [path.join(modules, '@e2b/cli/dist/index.js'), 'template', 'create', 'agent-cli', '--ready-cmd', 'ss -Htln sport = :3000 | grep -q .', '--cpu-count', '2', '--memory-mb', '1024']
  const said = await command('node', args, { cwd: dir, env: { ...process.env, ...clientEnvironment(server, 'http'), E2B_ACCESS_TOKEN: 'unused' } })
  fs.rmSync(dir, { recursive: true })
  await checkAgent(context, client, 'agent-cli', 'agent').catch((e) => { throw Object.assign(e, { message: `${e.message}\n${said}` }) })
  await deleteTemplates(api, server, 'agent-cli')
})

test('sandglass template build, with e2b.toml', async () => {
  const toml = 'template_name = "agent-toml"\ndockerfile = "e2b.Dockerfile"\nstart_cmd = "cd /home/user/server && node index.js"\nready_cmd = "ss -Htln sport = :3000 | grep -q ."\ncpu_count = 2\nmemory_mb = 1024\n'
  const dir = project({ 'e2b.Dockerfile': dockerfile.replace(/^CMD.*\n/m, ''), 'e2b.toml': toml })
  await command(binary, ['template', 'build', dir, '--data', server.data])
  fs.rmSync(dir, { recursive: true })
  await checkAgent(context, client, 'agent-toml', 'agent')
  await deleteTemplates(api, server, 'agent-toml')
})

test('an image of a registry', { timeout: 400_000 }, async () => {
  await withAgentImage(app, async (image) => {
    const { Template, waitForPort } = client
    const log = buildLog()
    const template = Template().fromImage(image).runCmd('test "$FROM_IMAGE" = yes').setStartCmd('cd /srv/agent && node server/index.js', waitForPort(3000))
    await Template.build(template, 'agent-image', log).catch((e) => { throw Object.assign(e, { message: `${e.message}\n${log.text()}` }) })
    await checkAgent(context, client, 'agent-image', 'agent')
    await deleteTemplates(api, server, 'agent-image')
  })
})

/** A sandbox of the ready-made template, with a stand-in for the model inside. */
async function withReadyAgent(envs, body, make = (all) => client.Sandbox.create('agent-sandbox', { timeoutMs: 300_000, envs: all })) {
  const sandbox = await make({ ANTHROPIC_BASE_URL: 'http://127.0.0.1:8089', ...envs })
  try {
    await sandbox.files.write('model.js', fs.readFileSync(path.join(app, 'server/model.js'), 'utf8'))
    await sandbox.commands.run(`exec node -e "require('/home/user/model.js').start(8089)"`, { background: true, timeoutMs: 0 })
    await until('the model', () => sandbox.commands.run('curl -fs http://127.0.0.1:8089/').then(() => true, () => false))
    return await body(sandbox)
  } finally {
    await sandbox.kill()
  }
}

/** An open WebSocket: `ask(message)` gives the messages up to the end of the answer. */
async function withConversation(sandbox, body, where = '/', headers = {}) {
  const socket = webSocket(context, sandbox, 3000, where, headers)
  const messages = []
  let wake = () => {}
  socket.on('message', (data) => { messages.push(JSON.parse(data)); wake() })
  await within('a conversation', once(socket, 'open'))
  const isEnd = ({ type }) => type === 'result' || type === 'error'
  const answer = async () => {
    while (!messages.some(isEnd)) await new Promise((done) => (wake = done))
    return messages.splice(0, messages.findIndex(isEnd) + 1)
  }
  const ask = (message) => {
    socket.send(typeof message === 'string' ? message : JSON.stringify(message))
    return within(`an answer to ${JSON.stringify(message)}`, answer())
  }
  try {
    return await body(ask, socket)
  } finally {
    socket.terminate()
  }
}

/** A WebSocket of somebody without the token. */
async function refused(sandbox, where = '/', headers = {}) {
  const socket = webSocket(context, sandbox, 3000, where, headers)
  socket.on('error', () => {})
  const [, answer] = await within('a refusal', once(socket, 'unexpected-response'))
  assert.equal(answer.statusCode, 401)
  socket.terminate()
}

const resultOf = (messages) => messages.at(-1).result ?? messages.at(-1).error

test('the ready-made agent-sandbox: messages of the SDK, with the variables of each sandbox', { timeout: 590_000 }, async () => {
  await deleteTemplates(api, server, 'agent-sandbox')
  await firstUse(server, 'agent-sandbox')
  await withReadyAgent({ ANTHROPIC_API_KEY: 'key-one' }, (one) => withReadyAgent({ ANTHROPIC_API_KEY: 'key-two' }, async (two) => {
    await withConversation(one, async (ask, socket) => {
      const messages = await ask({ prompt: 'say: this is KEY', options: { includePartialMessages: true } })
      assert.deepEqual([messages[0].type, messages[0].subtype, messages[0].cwd], ['system', 'init', '/home/user/workspace'])
      assert.ok(messages.filter((m) => m.type === 'stream_event').length > 3, 'the answer is streamed')
      assert.ok(messages.some((m) => m.type === 'assistant'))
      assert.deepEqual([messages.at(-1).subtype, resultOf(messages)], ['success', 'THIS IS KEY-ONE'])
      const next = await ask('say: a plain text')
      assert.deepEqual([resultOf(next), next.at(-1).session_id], ['A PLAIN TEXT', messages.at(-1).session_id])
      assert.equal(resultOf(await ask({ prompt: 'say: this is KEY', env: { ANTHROPIC_API_KEY: 'key-of-message' } })), 'THIS IS KEY-OF-MESSAGE')
      for (const wrong of ['{', '{"prompt":5}', '{"prompt":"x","options":[]}', '{"prompt":"x","env":{"A":1}}']) assert.equal((await ask(wrong)).at(-1).type, 'error', wrong)
      const interrupted = ask({ prompt: 'say: nothing', env: { ANTHROPIC_BASE_URL: 'http://127.0.0.1:9' } }) // nobody listens: the agent tries again for minutes
      socket.send('{"interrupt":true}')
      assert.equal(resultOf(await interrupted), 'interrupted')
    })
    await withConversation(two, async (ask) => assert.equal(resultOf(await ask('say: this is KEY')), 'THIS IS KEY-TWO'))
  }))
})

test('the ready-made agent-sandbox: only with its token, where it has one; paused and forked, it answers', { timeout: 240_000 }, () => withReadyAgent({ ANTHROPIC_API_KEY: 'key', AGENT_TOKEN: 'a token' }, async (sandbox) => {
  for (const where of ['/', '/?tkn=wrong', '/?tkn=']) await refused(sandbox, where)
  const check = (box) => withConversation(box, async (ask) => assert.equal(resultOf(await ask('say: here is KEY')), 'HERE IS KEY'), '/?tkn=a%20token')
  await check(sandbox)
  await sandbox.files.write('.agent/own.mjs', "import { query } from '@anthropic-ai/claude-agent-sdk'\nconsole.log(typeof query)\n")
  assert.equal((await sandbox.commands.run('pwd; node /home/user/.agent/own.mjs', { cwd: '/home/user/workspace' })).stdout, '/home/user/workspace\nfunction\n')
  const [forked] = await sandbox.fork()
  if (forked instanceof Error) throw forked
  try {
    await sandbox.pause()
    await sandbox.connect()
    await check(sandbox)
    await check(forked)
    await forked.files.write('/etc/sandglass/tokens/agent', 'another\n', { user: 'root' })
    await refused(forked, '/?tkn=a%20token')
    await forked.files.write('/etc/sandglass/tokens/agent', '', { user: 'root' })
    await refused(forked, '/?tkn=')
  } finally {
    await forked.kill()
  }
}))

test('the ready-made agent-sandbox, made by the agent API: each has a token of its own, and answers only with that', { timeout: 240_000 }, async () => {
  const tokens = []
  const make = async (env) => {
    const { status, json, body } = await call(server, 'POST', '/sandboxes', { template_id: 'agent-sandbox', timeout_s: 300, env })
    assert.equal(status, 201, body)
    assert.deepEqual(json.ports, { agent: 3000 })
    assert.deepEqual(json.services.map(({ name, port, url }) => [name, port, url]), [['agent', 3000, `https://3000-${json.sandbox_id}.${server.domain}/`]])
    assert.match(json.services[0].token, /^[a-z0-9]{64}$/)
    tokens.push(json.services[0].token)
    return client.Sandbox.connect(json.sandbox_id)
  }
  await withReadyAgent({ ANTHROPIC_API_KEY: 'key' }, (one) => withReadyAgent({ ANTHROPIC_API_KEY: 'key' }, async (two) => {
    for (const [box, own, other] of [[one, ...tokens], [two, ...tokens.toReversed()]]) {
      const bearer = (token) => ({ Authorization: `Bearer ${token}` })
      await refused(box)
      await refused(box, `/?tkn=${other}`)
      await refused(box, '/', bearer(other))
      await withConversation(box, async (ask) => assert.equal(resultOf(await ask('say: here is KEY')), 'HERE IS KEY'), '/', bearer(own))
    }
  }, make), make)
})
