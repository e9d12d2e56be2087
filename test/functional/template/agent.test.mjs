// An agent behind a WebSocket, from template to pause, by each way to build it: the builder's calls, a Dockerfile, the command
// lines of both sides, an image of a registry.
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
import { withAgentImage } from '../lib/agent_image.mjs'
import { buildLog, deleteTemplates } from '../lib/builds.mjs'
import { keptServer } from '../lib/kept_server.mjs'
import { api } from '../lib/raw.mjs'
import { binary, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'

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
