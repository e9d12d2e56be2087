// What breaks while sandboxes are restored ahead and handed over: every process killed at every step, memory that runs short, host
// files that change, servers that stop.  No sandbox is lost, no standby becomes one by mistake, and nothing is left behind.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import { after, before, test } from 'node:test'

import { templateName } from '../lib/build/builds.mjs'
import { everythingOf, settled, take } from '../lib/census.mjs'
import { isAlive } from '../lib/proc.mjs'
import { api, createRaw, killRaw } from '../lib/raw.mjs'
import { Server, sandglass, temporaryDir } from '../lib/server.mjs'
import { ahead, askWeb, buildWeb, calm, directories, processesOf, ready, stall } from '../lib/standby.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const name = templateName('web')
const settings = { ...calm, standbys: 2 }
const held = {}
let client
const speak = () => Object.assign(process.env, clientEnvironment(held.server, 'http'))
before(async () => {
  held.server = await Server.start({ settings })
  speak()
  client = await import('e2b')
  await buildWeb(client, name)
  await killRaw(held.server, (await createRaw(held.server, { templateID: name })).sandboxID)
})
after(async () => {
  held.server.keepsData = false
  await held.server.cleanUp()
})

const create = () => api(held.server, 'POST', '/v2/sandboxes', { body: { templateID: name, timeout: 300 } }).catch((e) => ({ status: 0, body: String(e) }))
const running = async () => (await api(held.server, 'GET', '/v2/sandboxes')).json.map((s) => s.sandboxID)
const onDisk = () => fs.readdirSync(held.server.file('sandboxes')).filter((id) => id.startsWith('i'))

/** It answers, and is the sandbox that the API says it is. */
async function works(id) {
  const sandbox = await client.Sandbox.connect(id)
  assert.equal((await askWeb(sandbox)).host, id)
  assert.equal((await sandbox.commands.run('echo $E2B_SANDBOX_ID')).stdout.trim(), id)
}

/** Sandboxes that the API knows, those on disk, and nothing else; all are ended, and the counts are those of before. */
async function endsClean(before) {
  await until('the API answers', async () => (await api(held.server, 'GET', '/v2/sandboxes').catch(() => ({}))).status === 200)
  for (const id of await running()) {
    await works(id)
    await killRaw(held.server, id)
  }
  await until(() => `no sandbox left, but ${onDisk()}\n${held.server.log.slice(-3000)}`, async () => (await running()).length === 0 && onDisk().length === 0, 60_000)
  await ready(held.server, 2)
  let now
  const alike = () => {
    now = take(held.server)
    return ['processes', 'cgroups', 'sandboxes', 'checkpoints', 'sealed', 'trash', 'zombies'].every((k) => now[k] === before[k])
  }
  await until(() => `as before: ${JSON.stringify(before)}, not ${JSON.stringify(now)}\n${held.server.log.slice(-3000)}`, alike, 60_000, 50)
  assert.deepEqual(fs.readdirSync(held.server.file('lost')), [], 'nothing is lost')
}

const atRest = async () => {
  await ready(held.server, 2)
  return settled(held.server, 30_000)
}

/** Everything but the sandboxes is killed at once, and another server is started on the data. */
async function killServer() {
  const { data, supervisor } = held.server
  const pids = [supervisor, ...held.server.rolePids()]
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  await until('all are dead', () => pids.every((pid) => !isAlive(pid))) // a job process that waits keeps the output open
  held.server = await Server.start({ data, settings })
  speak()
}

const handOver = ['handing_over', 'recorded', 'named', 'thawed_standby']
for (const point of handOver)
  test(`kill -9 of the job process at '${point}' of a hand-over: the create is done by a restore`, async () => {
    const before = await atRest()
    const trap = stall(held.server, point)
    const under = create()
    const pid = await trap.held()
    process.kill(pid, 'SIGKILL')
    await trap.release()
    const answer = await under
    assert.equal(answer.status, 201, answer.body)
    await works(answer.json.sandboxID)
    await endsClean(before)
  })

for (const point of handOver)
  for (const role of ['engine', 'control'])
    test(`kill -9 of ${role} at '${point}' of a hand-over`, async () => {
      const before = await atRest()
      const trap = stall(held.server, point)
      const under = create()
      await trap.held()
      await held.server.killRoles(role)
      await trap.release()
      const answer = await under
      if (answer.status === 201) assert.deepEqual(await running(), [answer.json.sandboxID])
      await endsClean(before)
    })

for (const point of handOver)
  test(`kill -9 of everything at '${point}' of a hand-over`, async () => {
    const before = await atRest()
    const trap = stall(held.server, point)
    const under = create()
    const pid = await trap.held()
    if (point === 'recorded') process.kill(pid, 'SIGKILL') // or it goes on with no server there
    await killServer()
    await trap.release()
    await under
    await until('the job process ends', () => !isAlive(pid))
    await endsClean(before)
  })

for (const point of ['standby_placed', 'standby_restored', 'standby_alone', 'standby_frozen'])
  for (const what of ['job process', 'engine', 'control', 'everything'])
    test(`kill -9 of ${what} at '${point}' while a standby is made`, async () => {
      const before = await atRest()
      const trap = stall(held.server, point)
      const first = await create()
      assert.equal(first.status, 201, first.body)
      const pid = await trap.held()
      if (what === 'job process') process.kill(pid, 'SIGKILL')
      else if (what === 'everything') await killServer()
      else await held.server.killRoles(what)
      await trap.release()
      await until('the job process ends', () => !isAlive(pid))
      await works(first.json.sandboxID)
      const next = await create()
      assert.equal(next.status, 201, next.body)
      await endsClean(before)
    })

test('kill -9 of everything and of the job process while a standby is made: what was restored does not run', async () => {
  const before = await atRest()
  const former = directories(held.server)
  const trap = stall(held.server, 'standby_alone')
  const kept = await create()
  const job = await trap.held()
  const { data, supervisor } = held.server
  const restored = processesOf(held.server, directories(held.server).filter((id) => !former.includes(id))).map((p) => p.pid)
  assert.ok(restored.length >= 2, `${restored}`)
  const pids = [supervisor, ...held.server.rolePids(), job]
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  await until('the processes of the standby have ended, too', () => [...pids, ...restored].every((pid) => !isAlive(pid)))
  await trap.release()
  held.server = await Server.start({ data, settings })
  speak()
  await works(kept.json.sandboxID)
  await endsClean(before)
})

test('kill -9 of an engine that has standbys: the next one ends them and makes others', async () => {
  const before = await atRest()
  const former = directories(held.server)
  const pids = processesOf(held.server).map((p) => p.pid)
  assert.ok(pids.length >= 4)
  await held.server.killRoles('engine')
  await until('they are gone', () => pids.every((pid) => !isAlive(pid)) && former.every((id) => !directories(held.server).includes(id)))
  await endsClean(before)
})

test('a standby whose processes are killed is replaced', async () => {
  const before = await atRest()
  const [first] = directories(held.server)
  for (const p of processesOf(held.server, [first])) if (isAlive(p.pid)) process.kill(p.pid, 'SIGKILL')
  await until('it is gone', () => !directories(held.server).includes(first))
  await endsClean(before)
})

test('killed while it is handed over: neither the sandbox nor the standby is left', async () => {
  const before = await atRest()
  const trap = stall(held.server, 'named')
  const left = new AbortController()
  const under = api(held.server, 'POST', '/v2/sandboxes', { body: { templateID: name }, signal: left.signal }).catch(() => null)
  await trap.held()
  left.abort()
  await under
  await trap.release()
  await endsClean(before)
})

test('files of the host that changed: the standby is not used, and others are made', async () => {
  const before = await atRest()
  const former = directories(held.server)
  const given = held.server.file('host/given')
  const now = fs.readlinkSync(given)
  fs.cpSync(held.server.file(`host/${now}`), held.server.file('host/given-0123abcd'), { recursive: true })
  fs.rmSync(given)
  fs.symlinkSync('given-0123abcd', given)
  try {
    const answer = await create()
    assert.equal(answer.status, 201, answer.body)
    assert.match(held.server.log, /hand_over\.failed .*name servers of the host have changed/)
    await works(answer.json.sandboxID)
    await ready(held.server, 2)
    assert.ok(directories(held.server).every((id) => !former.includes(id)))
  } finally {
    fs.rmSync(given)
    fs.symlinkSync(now, given)
  }
  await killRaw(held.server, (await create()).json.sandboxID) // these are out of date as well
  await endsClean(before)
})

test('a stopped server leaves nothing of its standbys, and the next one makes new ones', async () => {
  const before = await atRest()
  const kept = await create()
  const pids = processesOf(held.server).map((p) => p.pid)
  const { data } = held.server
  await held.server.stop()
  assert.ok(pids.every((pid) => !isAlive(pid)), 'no process of a standby')
  assert.deepEqual(directories({ file: (below) => `${data}/${below}` }), [])
  held.server = await Server.start({ data, settings })
  speak()
  await works(kept.json.sandboxID)
  await endsClean(before)
})

for (const point of ['standby_restored', 'standby_alone'])
  test(`stopped while a standby is made, at '${point}': the same`, async () => {
    const before = await atRest()
    const trap = stall(held.server, point)
    const kept = await create()
    await trap.held()
    const { data } = held.server
    const stopped = held.server.stop()
    await trap.release()
    await stopped
    assert.deepEqual(directories({ file: (below) => `${data}/${below}` }), [])
    held.server = await Server.start({ data, settings })
    speak()
    await works(kept.json.sandboxID)
    await endsClean(before)
  })

test('little memory: none are made, and those that are there go', async () => {
  const own = await Server.start({ settings: { ...calm, standby_memory_mb: 16 } })
  Object.assign(process.env, clientEnvironment(own, 'http'))
  try {
    await buildWeb(client, name)
    await killRaw(own, (await createRaw(own, { templateID: name })).sandboxID)
    await until('one was made, which is too many', () => /standby\.dropped .*reason=budget/.test(own.log) || /standby\.ready/.test(own.log))
    await until('no more than fit', async () => (await ahead(own)).memoryBytes <= 16 << 20)
    await killRaw(own, (await createRaw(own, { templateID: name })).sandboxID)
  } finally {
    await own.cleanUp()
    speak()
  }
})

test('the machine runs short of memory: they go first, and creates go on', async () => {
  const own = await Server.start({ settings: { warm_stall_ms: 1, standbys: 2 } })
  Object.assign(process.env, clientEnvironment(own, 'http'))
  try {
    await buildWeb(client, name)
    await killRaw(own, (await createRaw(own, { templateID: name })).sandboxID)
    await until('one is ready', () => /standby\.ready/.test(own.log))
    const greedy = await createRaw(own, { templateID: 'base', timeout: 60 })
    const sandbox = await client.Sandbox.connect(greedy.sandboxID)
    const eats = sandbox.commands.run('for i in 1 2 3 4 5 6; do python3 -c "x = bytearray(3000000000)"; done; true', { timeoutMs: 60_000 }).catch(() => {})
    await until(() => `a standby goes\n${own.log.slice(-2000)}`, () => /standby\.dropped .*reason=pressure/.test(own.log), 60_000)
    const answer = await api(own, 'POST', '/v2/sandboxes', { body: { templateID: name } })
    assert.equal(answer.status, 201, answer.body)
    await sandbox.kill() // the machine is others' as well
    await eats
  } finally {
    await own.cleanUp()
    speak()
  }
})

test('switched off, there are none, and every create is a restore', async () => {
  for (const off of [{ standbys: 0 }, { standby_memory_mb: 0 }]) {
    const own = await Server.start({ settings: { ...calm, ...off }, args: ['--log-level', 'debug'] })
    Object.assign(process.env, clientEnvironment(own, 'http'))
    try {
      await buildWeb(client, name)
      for (let i = 0; i < 2; i++) await killRaw(own, (await createRaw(own, { templateID: name })).sandboxID)
      assert.deepEqual([(await ahead(own)).ready, directories(own).length], [0, 0])
      assert.ok(!/standby\.ready|from=standby/.test(own.log))
    } finally {
      await own.cleanUp()
    }
  }
  speak()
})

test('`down` leaves nothing', async () => {
  const own = await Server.start({ settings, data: temporaryDir() })
  Object.assign(process.env, clientEnvironment(own, 'http'))
  await buildWeb(client, name)
  await createRaw(own, { templateID: name })
  await ready(own, 2)
  const r = sandglass(['down', '--data', own.data])
  assert.equal(r.status, 0, r.stderr)
  await own.ended
  let left // the kernel removes the link of a namespace a moment after the namespace
  await until(() => `nothing is left, but ${left}`, () => (left = everythingOf(own.data).filter((line) => !/^(checkpoints|sealed)\//.test(line))).length === 0)
  spawnSync('rm', ['-rf', own.data])
  speak()
})
