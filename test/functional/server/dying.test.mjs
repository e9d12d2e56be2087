// Sandboxes that are killed from outside in the middle of a pause: everybody who waits hears of it.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import test from 'node:test'

import { returned, sandboxPids, settled } from '../lib/census.mjs'
import { api } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const { Sandbox } = await import('e2b')
const megabytes = 300 // enough for the dump to take a moment

const isTraced = (pid) => {
  try {
    return !/^TracerPid:\t0$/m.test(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** A sandbox with much in memory; -> its id and the pid of its first process. */
async function large(server) {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
  const program = `x = bytearray(b'x' * (${megabytes} << 20)); open('up', 'w').close(); import time; time.sleep(1000)`
  await sandbox.commands.run(`exec python3 -c "${program}"`, { background: true, timeoutMs: 0 })
  await until('it has its memory', () => sandbox.files.exists('up'), 60_000)
  const id = sandbox.sandboxId
  return { id, first: JSON.parse(fs.readFileSync(server.file(`sandboxes/${id}/running.json`), 'utf8')).pid }
}

test('a sandbox that is killed while CRIU dumps it is gone for everybody who waits', async () => {
  const server = await Server.start()
  Object.assign(process.env, clientEnvironment(server, 'http'))
  try {
    const before = await settled(server)
    for (let round = 0; round < 4; round++) {
      const { id, first } = await large(server)
      const pids = sandboxPids(server, id).filter((pid) => pid !== first)
      const waiting = [api(server, 'POST', `/sandboxes/${id}/pause`, { body: {} })]
      await until('CRIU is at it', () => pids.some(isTraced))
      waiting.push(api(server, 'POST', `/v2/sandboxes/${id}/connect`, { body: {} }), api(server, 'POST', `/v2/sandboxes/${id}/connect`, { body: {} }))
      await new Promise((done) => setTimeout(done, round * 15)) // spread over the dump
      process.kill(first, 'SIGKILL')
      const statuses = (await Promise.all(waiting)).map((answer) => answer.status)
      // the dump may have been over already: then it is at rest with all its memory, and was resumed
      if (statuses[0] !== 204) assert.deepEqual(statuses, [404, 404, 404])
      await api(server, 'DELETE', `/sandboxes/${id}`)
    }
    await returned(server, before)
  } finally {
    await server.cleanUp()
  }
})
