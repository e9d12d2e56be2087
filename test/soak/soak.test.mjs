// Random operations against a server whose processes are killed, for half a minute; and that harm done to a real server is
// noticed.  Longer: `make soak`.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'

import { sandboxPids, pausedRecord } from '../functional/lib/census.mjs'
import { Server } from '../functional/lib/server.mjs'
import { until } from '../functional/lib/wait.mjs'
import { Client, Gate } from './client.mjs'
import { perform } from './operations.mjs'
import { lookAtLists } from './quiet.mjs'
import { Random } from './random.mjs'
import { Report } from './report.mjs'
import { seedOf, soak } from './soak.mjs'

const seconds = Number(process.env.SOAK_SECONDS ?? 30)
const seed = seedOf(process.env.SOAK_SEED)

test('operations by the thousand and kill -9 of every process: nothing lost, nothing hanging, nothing left', async () => {
  console.log(`seed ${seed}; again: SOAK_SEED=${seed} tools/test soak`)
  const report = await soak({ seconds, seed })
  for (const line of report.summary()) console.log(line)
  assert.ok(report.isClean(), `${report.findings.length} findings: operations in ${report.file}, the server's log in ${report.serverLog}`)
  assert.ok(report.sum(report.operations) > 100 && report.sum(report.kills) > 0)
})

const file = { name: 'write', file: 'a', content: 'v0-1.5000' }
const inUpper = (server, id, name) => server.file(`sandboxes/${id}/upper/home/user/soak/${name}`)

/** What is done behind the server's back, and the operation that must not go unnoticed.  All but the first two are paused then. */
const harm = {
  'a sandbox is killed by somebody else': async ({ server, sandbox }) => void (await perform(server, sandbox, { name: 'kill' })),
  'the first process of a sandbox is killed': async ({ server, sandbox }) => {
    process.kill(sandboxPids(server, sandbox.id)[0], 'SIGKILL')
    await until('the server to notice', async () => (await perform(server, sandbox, { name: 'get' })).kind === 'gone')
  },
  'a file is removed': ({ server, sandbox }) => fs.rmSync(inUpper(server, sandbox.id, 'a')),
  'a byte of a file is changed': ({ server, sandbox }) => {
    const name = inUpper(server, sandbox.id, 'a')
    const bytes = fs.readFileSync(name)
    bytes[4000] ^= 1
    fs.writeFileSync(name, bytes)
  },
  'a file appears': ({ server, sandbox }) => fs.writeFileSync(inUpper(server, sandbox.id, 'b'), 'x'),
  'the kept memory is removed': ({ server, sandbox }) =>
    fs.rmSync(path.join(server.file('checkpoints'), pausedRecord(server, sandbox.id).checkpoint, 'images'), { recursive: true }),
}

/** The tag chooses `base`: no other template is built on this server. */
test('harm that is done to a real server is noticed', async () => {
  const server = await Server.start({ settings: { warm_mb: 0 } })
  try {
    for (const [what, act] of Object.entries(harm)) {
      const report = new Report()
      const ask = (box, operation) => perform(server, box, operation)
      const client = new Client(0, { random: new Random(0), perform: ask, report, gate: new Gate(1) })
      const operation = { name: 'create', tag: 't0-2', traits: { onEnd: 'kill', autoResume: false } }
      const sandbox = client.ledger.created(operation, await ask(null, operation))
      await client.group(sandbox, [file])
      await client.group(sandbox, [{ name: 'start', nonce: 'n0-1' }])
      if (!/killed/.test(what)) await client.group(sandbox, [{ name: 'pause', memory: true }])
      await lookAtLists(ask, [client], report)
      assert.deepEqual(report.findings, [], `before ${what}`)
      await act({ server, sandbox })
      await lookAtLists(ask, [client], report)
      await client.finish()
      assert.ok(!report.isClean(), `not noticed: ${what}`)
    }
  } finally {
    await server.cleanUp()
  }
})
