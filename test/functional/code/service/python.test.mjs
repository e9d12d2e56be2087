// As E2B's Python client speaks: python_client.py, in sandboxes of every kind of access.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { codeSuite, inCodeSandbox } from '../../lib/code/suite.mjs'

const suite = await codeSuite()
const program = fileURLToPath(new URL('python_client.py', import.meta.url))

for (const [kind, options] of Object.entries({ 'as created': {}, 'private traffic': { secure: true, network: { allowPublicTraffic: false } } }))
  test(`${kind}: what the Python client relies on`, { timeout: 300_000 }, async () =>
    inCodeSandbox(suite, async ({ sandboxId, trafficAccessToken, envdAccessToken }) => {
      const { port } = suite.server
      const said = await new Promise((done) =>
        execFile('python3', [program, JSON.stringify({ port, sandboxId, trafficAccessToken, envdAccessToken })], (error, stdout, stderr) => done({ error, text: stdout + stderr })))
      assert.equal(said.error, null, said.text)
      assert.equal(said.text.match(/^ok - /gm)?.length, 8, said.text)
    }, options))
