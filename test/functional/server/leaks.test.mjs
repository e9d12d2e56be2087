// Many lives, and nothing grows.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import test, { after } from 'node:test'

import { returned, settled, take } from '../lib/census.mjs'
import { api, createRaw, envd, killRaw } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'

const server = await Server.start()
after(() => server.cleanUp())

async function life() {
  const sandbox = await createRaw(server)
  assert.ok((await envd(server, sandbox, 'GET', '/health')).status < 300)
  assert.equal((await killRaw(server, sandbox.sandboxID)).status, 204)
}
const memory = () => Object.fromEntries(Object.entries(server.roles()).map(([role, pids]) => [role, pids.reduce((sum, pid) => sum + Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]), 0)]))

test('two hundred lives in a row', async () => {
  for (let i = 0; i < 20; i++) await life()
  const before = await settled(server)
  const used = memory()
  for (let i = 0; i < 200; i++) await life()
  await returned(server, before)
  for (const [role, kib] of Object.entries(memory())) assert.ok(kib < used[role] + 4096, `${role}: ${used[role]} -> ${kib} KiB`)
})

test('a hundred at once, then none', async () => {
  const before = await settled(server)
  const all = await Promise.all(Array.from({ length: 100 }, () => createRaw(server)))
  assert.equal(new Set(all.map((s) => s.sandboxID)).size, 100)
  assert.ok(take(server).processes >= before.processes + 100 - 64)
  await Promise.all(all.map((s) => killRaw(server, s.sandboxID)))
  assert.deepEqual((await api(server, 'GET', '/v2/sandboxes')).json, [])
  const idle = 64 * server.roles().edge.length // idle_api_max of each edge (src/edge/limits/limits.c)
  await returned(server, before, { deadlineMs: 30_000, kept: { edge: idle, control: idle, engine: 4 } })
})

test('create and kill racing: a sandbox killed while its create is answered elsewhere', async () => {
  const before = await settled(server)
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      const { sandboxID } = await createRaw(server)
      const answers = await Promise.all([killRaw(server, sandboxID), killRaw(server, sandboxID), api(server, 'GET', `/sandboxes/${sandboxID}`)])
      assert.ok(answers.slice(0, 2).some((a) => a.status === 204))
      assert.ok(answers.every((a) => [200, 204, 404, 409].includes(a.status)))
    }),
  )
  await returned(server, before)
})
