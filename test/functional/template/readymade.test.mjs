// Templates that come with the program: built on the first use of their name, or by the command line; each does what it is for.
//
// The data directory stays in build/test-cache: their packages are fetched once.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'

import { deleteTemplates, inSandbox } from '../lib/builds.mjs'
import { keptServer } from '../lib/kept_server.mjs'
import { request } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { binary } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

let server, client
before(async () => {
  server = await keptServer('readymade')
  Object.assign(process.env, clientEnvironment(server, 'http'))
  client = await import('e2b')
  await deleteTemplates(api, server, 'node', 'nodejs', 'python', 'nextjs-developer')
})
after(() => server.cleanUp())

/** The first use begins the build and waits for it, or says that it goes on. */
async function firstUse(name) {
  await until(`template ${name}`, async () => {
    const { status, json } = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: name } })
    if (status === 201) await api(server, 'DELETE', `/sandboxes/${json.sandboxID}`)
    else {
      assert.equal(status, 503, JSON.stringify(json))
      assert.match(json.message, new RegExp(`template '${name}' is being built for its first use`))
    }
    return status === 201
  }, 500_000, 500)
}

const run = (sandbox, command) => sandbox.commands.run(command).then((r) => r.stdout.trim())

test('node and nodejs: on first use by name', async () => {
  await firstUse('node')
  await inSandbox(client, 'node', async (sandbox) => assert.match(await run(sandbox, 'node --version; npm --version; pwd; whoami'), /^v24\.\d+\.\d+\n\d+\.\d+\.\d+\n\/home\/user\nuser$/))
  await firstUse('nodejs') // from the cache
})

test('python: by the command line', async () => {
  await promisify(execFile)(binary, ['template', 'build', 'python', '--data', server.data], { timeout: 300_000 })
  await inSandbox(client, 'python', async (sandbox) => assert.match(await run(sandbox, 'python --version; pip --version; python3-config --includes'), /^Python 3\.13\.\d+\npip .*\n-I/))
})

test('nextjs-developer: the server answers when create returns', async () => {
  await firstUse('nextjs-developer')
  await inSandbox(client, 'nextjs-developer', async (sandbox) => {
    const answer = await request({ server, transport: 'http' }, sandbox, 3000)
    assert.equal(answer.status, 200, answer.body)
    assert.match(answer.body, /<html/)
    await sandbox.files.write('pages/index.tsx', 'export default function Page() { return <h1>changed by the agent</h1> }\n')
    await until('the changed page', async () => /changed by the agent/.test((await request({ server, transport: 'http' }, sandbox, 3000)).body), 30_000, 100)
  })
})

test('an unknown template: the error lists what there is', async () => {
  const { status, json } = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'no-such-template' } })
  assert.equal(status, 404)
  for (const name of ['base', 'node', 'python', 'nextjs-developer']) assert.match(json.message, new RegExp(name))
})
