// A sandbox never dies because a part of the server did.
import assert from 'node:assert/strict'
import test from 'node:test'

import { everythingOf, leakless, settled, returned } from '../lib/census.mjs'
import { isAlive } from '../lib/proc.mjs'
import { api } from '../lib/raw.mjs'
import { Server, sandglass } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until, within } from '../lib/wait.mjs'

const { Sandbox } = await import('e2b')
const counting = 'i=0; while :; do i=$((i+1)); echo $i > /tmp/count; echo $i; sleep 0.05; done'

async function withServer(body) {
  const start = async (options) => {
    const server = await Server.start(options)
    Object.assign(process.env, clientEnvironment(server, 'http'))
    return server
  }
  const again = async () => {
    keep.server = await keep.server.again()
    Object.assign(process.env, clientEnvironment(keep.server, 'http'))
  }
  const keep = { server: await start(), again }
  try {
    await body(keep)
  } finally {
    await keep.server.cleanUp()
  }
}

/** A sandbox that counts, with the stream of its output open. */
async function counter(options) {
  const sandbox = await Sandbox.create({ timeoutMs: 600_000, ...options })
  const seen = []
  const stream = await sandbox.commands.run(counting, { background: true, timeoutMs: 0, onStdout: (text) => seen.push(text) })
  await until('the counter counting', () => seen.length > 2)
  const broken = stream.wait().then(() => null, (e) => e)
  return { sandbox, stream, seen, broken }
}

const countOf = async (sandbox) => Number(await sandbox.files.read('/tmp/count'))

/** The same sandbox, with the same process in it, is there and useful. */
async function goesOn({ sandbox, stream }, countBefore) {
  const again = await until('the client to connect again', () => Sandbox.connect(sandbox.sandboxId).catch(() => null))
  assert.equal(again.sandboxId, sandbox.sandboxId)
  await until('the counter to go on', async () => (await countOf(again)) > countBefore)
  assert.equal((await again.commands.run('echo hello again')).stdout, 'hello again\n')
  assert.equal((await again.commands.run(`kill -0 ${stream.pid} && echo same process`)).stdout, 'same process\n')
  assert.equal((await again.getInfo()).state, 'running')
  return again
}

for (const roles of [['edge'], ['control'], ['engine'], ['edge', 'control', 'engine']])
  test(`kill -9 of ${roles.join(', ')}`, async () => {
    await withServer(async ({ server }) => {
      await leakless(server, async () => {
        const one = await counter()
        const count = await countOf(one.sandbox)
        await server.killRoles(...roles)
        const again = await goesOn(one, count)
        if (!roles.includes('edge')) { // whoever carries no bytes can die without anyone's stream noticing
          const length = one.seen.length
          await until('the open stream to go on', () => one.seen.length > length + 2)
        } else assert.ok(await within('the end of the open stream', one.broken), 'the open stream ended with an error')
        const another = await Sandbox.create()
        assert.equal((await another.commands.run('echo new')).stdout, 'new\n')
        assert.equal(await another.kill(), true)
        assert.equal(await again.kill(), true)
      })()
      assert.deepEqual((await api(server, 'GET', '/v2/sandboxes')).json, [])
    })
  })

test('each role killed three times in a row', async () => {
  await withServer(async ({ server }) => {
    const one = await counter()
    for (let i = 0; i < 3; i++) for (const role of ['engine', 'control', 'edge']) await server.killRoles(role)
    await goesOn(one, await until('a count', () => countOf(one.sandbox).catch(() => null)))
    await one.sandbox.kill()
  })
})

test('kill -9 of the supervisor, then a new start', async () => {
  await withServer(async (keep) => {
    const before = await settled(keep.server)
    const one = await counter()
    const count = await countOf(one.sandbox)
    const roles = keep.server.rolePids()
    await keep.server.stop('SIGKILL')
    await until('the roles to end with it', () => roles.every((pid) => !isAlive(pid)))
    await keep.again()
    const same = await until('connect', () => Sandbox.connect(one.sandbox.sandboxId).catch(() => null))
    await until('the counter to go on', async () => (await countOf(same)) > count)
    assert.equal((await same.commands.run(`kill -0 ${one.stream.pid} && echo same process`)).stdout, 'same process\n')
    await same.kill()
    await returned(keep.server, before)
  })
})

test('kill -9 of everything at once, then a new start', async () => {
  await withServer(async (keep) => {
    const before = await settled(keep.server)
    const all = await Promise.all([counter(), counter(), counter()])
    const counts = await Promise.all(all.map((c) => countOf(c.sandbox)))
    for (const pid of [keep.server.supervisor, ...keep.server.rolePids()]) process.kill(pid, 'SIGKILL')
    await within('the end of every process that has the output of the server', keep.server.ended)
    await keep.again()
    for (const [i, one] of all.entries()) {
      const same = await until('connect', () => Sandbox.connect(one.sandbox.sandboxId).catch(() => null))
      await until('the counter to go on', async () => (await countOf(same)) > counts[i])
    }
    assert.equal((await api(keep.server, 'GET', '/v2/sandboxes')).json.length, 3)
    await Promise.all(all.map((one) => Sandbox.kill(one.sandbox.sandboxId)))
    await returned(keep.server, before)
  })
})

test('deadlines hold across a kill of the parts', async () => {
  for (const roles of [['control'], ['engine'], ['edge', 'control', 'engine']])
    await withServer(async ({ server }) => {
      await leakless(server, async () => {
        const { sandbox } = await counter({ timeoutMs: 5_000 })
        const { endAt } = await sandbox.getInfo()
        await server.killRoles(...roles)
        await until('the deadline', async () => !(await sandbox.isRunning().catch(() => true)))
        const late = Date.now() - endAt
        assert.ok(late > -500 && late < 3_000, `${roles}: ${late} ms after its end`)
      })()
    })
})

test('a deadline that passes while nothing runs is kept at the next start', async () => {
  await withServer(async (keep) => {
    const before = await settled(keep.server)
    const other = await counter()
    const { sandbox } = await counter({ timeoutMs: 5_000 })
    const { endAt } = await sandbox.getInfo()
    await keep.server.stop('SIGKILL')
    await until('the deadline to pass', () => Date.now() > endAt.getTime() + 200)
    await keep.again()
    await until('the late sandbox gone', async () => (await api(keep.server, 'GET', `/sandboxes/${sandbox.sandboxId}`)).status === 404)
    assert.equal((await api(keep.server, 'GET', '/v2/sandboxes')).json.length, 1)
    await Sandbox.kill(other.sandbox.sandboxId)
    await returned(keep.server, before)
  })
})

test('sandboxes that died while nobody looked are forgotten and cleaned up', async () => {
  await withServer(async (keep) => {
    const { sandboxPids } = await import('../lib/census.mjs')
    const before = await settled(keep.server)
    const one = await counter()
    const pids = sandboxPids(keep.server, one.sandbox.sandboxId)
    await keep.server.stop('SIGKILL')
    process.kill(pids[0], 'SIGKILL')
    await keep.again()
    await until('the store to know', async () => (await api(keep.server, 'GET', `/sandboxes/${one.sandbox.sandboxId}`)).status === 404)
    await returned(keep.server, before)
  })
})

test('kills in the middle of creates leave no orphan', async () => {
  await withServer(async ({ server }) => {
    await leakless(server, async () => {
      for (const role of ['control', 'engine', 'edge']) {
        const creates = Array.from({ length: 10 }, () => Sandbox.create({ timeoutMs: 600_000 }).catch((e) => e))
        await server.killRoles(role)
        await Promise.all(creates)
        const known = await until('the list', () => api(server, 'GET', '/v2/sandboxes').then((a) => a.json, () => null))
        await Promise.all(known.map((s) => Sandbox.kill(s.sandboxID)))
      }
      const rest = await until('the list', () => api(server, 'GET', '/v2/sandboxes').then((a) => a.json, () => null))
      await Promise.all(rest.map((s) => Sandbox.kill(s.sandboxID)))
    })()
  })
})

test('down after all that leaves nothing at all', async () => {
  await withServer(async ({ server }) => {
    await Promise.all([counter(), counter()])
    await server.killRoles('edge', 'control', 'engine')
    assert.equal(sandglass(['down', '--data', server.data]).status, 0)
    await until(() => `nothing left: ${everythingOf(server.data)}`, () => everythingOf(server.data).length === 0)
  })
})
