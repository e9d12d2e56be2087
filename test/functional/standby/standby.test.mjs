// Sandboxes of a template with a start command that were restored ahead: each create gets one of its own, with an identity that no
// other has, and nobody reaches one before.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'

import { templateName } from '../lib/build/builds.mjs'
import { api, createRaw, envd, killRaw } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'
import { ahead, askWeb, buildWeb, calm, directories, processesOf, ready } from '../lib/standby.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const name = templateName('web')
let server, client
before(async () => {
  server = await Server.start({ settings: { ...calm, standbys: 3 } })
  Object.assign(process.env, clientEnvironment(server, 'http'))
  client = await import('e2b')
  await buildWeb(client, name)
})
after(() => server.cleanUp())

/** Every sandbox that this case began is ended. */
const withSandboxes = (body) => async () => {
  const made = []
  const create = async (options = {}) => {
    const sandbox = await client.Sandbox.create(name, { timeoutMs: 300_000, ...options })
    made.push(sandbox)
    return sandbox
  }
  try {
    await body(create)
  } finally {
    await Promise.all(made.map((sandbox) => sandbox.kill().catch(() => {})))
  }
}

test('a template that nobody used has none, and the first use makes some', withSandboxes(async (create) => {
  assert.deepEqual(directories(server), [])
  assert.equal((await ahead(server)).hitRate, null)
  await create()
  const now = await ready(server, 3)
  assert.deepEqual([now.hits, now.misses, now.hitRate], [0, 0, null])
  assert.ok(now.memoryBytes > 1 << 20)
}))

test('they are frozen, have not run, and are in no list', withSandboxes(async (create) => {
  await create()
  await ready(server, 3)
  const frozen = processesOf(server)
  assert.ok(frozen.length >= 6, `${frozen.length} processes`)
  let seen = 0
  for (const id of directories(server)) {
    let record, stat
    try {
      record = JSON.parse(fs.readFileSync(server.file(`sandboxes/${id}/running.json`), 'utf8'))
      stat = fs.readFileSync(`/proc/${record.pid}/stat`, 'utf8')
    } catch (e) {
      await until(() => `${id} is gone if a part of it is: ${e}\n${server.log.slice(-3000)}`, () => !directories(server).includes(id))
      continue // dropped, as the machine has too much to do
    }
    seen++
    assert.equal(record.stranger, true)
    const [user, system] = stat.split(') ')[1].split(' ').slice(11, 13)
    assert.deepEqual([user, system], ['0', '0'], 'no time on a processor')
    assert.equal((await api(server, 'GET', `/sandboxes/${id}`)).status, 404)
    assert.equal((await killRaw(server, id)).status, 404)
    assert.ok((await envd(server, { sandboxID: id, envdAccessToken: 'x' }, 'GET', '/health')).status >= 400)
  }
  assert.ok(seen > 0, server.log.slice(-3000))
  const listed = (await api(server, 'GET', '/v2/sandboxes?state=running,paused')).json
  assert.equal(listed.length, 1)
}))

test('each has an identity of its own', withSandboxes(async (create) => {
  const { hits } = await ready(server, 3)
  const seen = {}
  for (let i = 0; i < 3; i++) {
    const sandbox = await create({ envs: { MINE: `value ${i}` }, metadata: { number: `${i}` } })
    const { stdout } = await sandbox.commands.run('hostname; cat /etc/machine-id; cat /run/e2b/.E2B_SANDBOX_ID; echo; echo $E2B_SANDBOX_ID; echo $MINE; echo $OF_TEMPLATE; cat /proc/sys/kernel/hostname; hostname -i')
    const [host, machine, file, variable, mine, inherited, kernel] = stdout.split('\n')
    for (const text of [host, file, variable, kernel]) assert.equal(text, sandbox.sandboxId)
    assert.deepEqual([mine, inherited], [`value ${i}`, 'yes'])
    assert.match(machine, /^[0-9a-f]{32}$/)
    const web = await askWeb(sandbox)
    assert.equal(web.host, sandbox.sandboxId)
    const info = await sandbox.getInfo()
    assert.deepEqual(info.metadata, { number: `${i}` })
    for (const [what, value] of Object.entries({ id: sandbox.sandboxId, machine, token: sandbox.envdAccessToken ?? i })) {
      assert.ok(!(seen[what] ??= new Set()).has(value), `${what} ${value} twice`)
      seen[what].add(value)
    }
    seen.web ??= web
    assert.equal(web.number, seen.web.number, 'the memory of the template')
    assert.equal(web.pid, seen.web.pid)
  }
  assert.equal((await ahead(server)).hits, hits + 3)
  assert.ok(!server.log.includes('hand_over.failed'), server.log.slice(-2000))
}))

test('a program that runs already finds the variables of its sandbox in a file, which others cannot read', withSandboxes(async (create) => {
  const file = '/run/sandglass/environ'
  const variables = async (sandbox) => Object.fromEntries((await sandbox.files.read(file)).split('\0').filter(Boolean).map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)]))
  await ready(server, 3)
  const one = await create({ envs: { MINE: 'a=b\nc' } })
  const { MINE, OF_TEMPLATE, E2B_SANDBOX_ID } = await variables(one)
  assert.deepEqual([MINE, OF_TEMPLATE, E2B_SANDBOX_ID], ['a=b\nc', 'yes', one.sandboxId])
  assert.equal((await one.commands.run(`stat -c '%a %U' ${file}`)).stdout.trim(), '600 user')
  const other = await variables(await create())
  assert.deepEqual([other.MINE, other.OF_TEMPLATE], [undefined, 'yes'])
  const [copy] = await one.fork()
  try {
    assert.deepEqual({ ...(await variables(copy)) }, { ...(await variables(one)), E2B_SANDBOX_ID: copy.sandboxId })
  } finally {
    await copy.kill()
  }
}))

test('the token is the sandbox\'s own, and only that one opens it; without one it is open', withSandboxes(async (create) => {
  await ready(server, 3)
  const [one, other] = [await create({ secure: true }), await create({ secure: true })]
  const open = (await api(server, 'POST', '/sandboxes', { body: { templateID: name, secure: false } })).json // only there it may be open
  const metrics = ({ sandboxId }, token) => api(server, 'GET', '/metrics', { key: null, headers: { 'E2b-Sandbox-Id': sandboxId, 'E2b-Sandbox-Port': '49983', ...(token && { 'X-Access-Token': token }) } })
  assert.equal((await metrics(one, one.envdAccessToken)).status, 200)
  assert.equal((await metrics(one, other.envdAccessToken)).status, 401)
  assert.equal((await metrics(one, '')).status, 401)
  assert.equal((await metrics(other, other.envdAccessToken)).status, 200)
  assert.equal((await metrics({ sandboxId: open.sandboxID }, '')).status, 200)
  await killRaw(server, open.sandboxID)
  assert.ok((server.log.match(/from=standby/g) ?? []).length >= 3)
}))

test('nothing of one is seen in another', withSandboxes(async (create) => {
  await ready(server, 3)
  const one = await create()
  await one.commands.run('echo secret > /home/user/secret; echo secret > /tmp/secret; echo secret > /dev/shm/secret')
  const other = await create()
  const { stdout } = await other.commands.run('ls /home/user/secret /tmp/secret /dev/shm/secret 2>/dev/null; ls /proc | grep -c "^[0-9]"')
  assert.match(stdout.trim(), /^\d+$/)
  await one.kill()
  await ready(server, 3)
  const third = await create()
  assert.equal((await third.commands.run('ls /home/user/secret /tmp/secret 2>/dev/null; true')).stdout, '')
}))

test('network rules hold from the first packet on', withSandboxes(async (create) => {
  await ready(server, 3)
  const closed = await create({ allowInternetAccess: false })
  const some = await create({ network: { denyOut: ['1.1.1.1/32'] } })
  for (const [sandbox, net] of [[closed, { internet: false, allow: [], deny: [] }], [some, { internet: true, allow: [], deny: ['1.1.1.1/32'] }]])
    assert.deepEqual(JSON.parse(fs.readFileSync(server.file(`sandboxes/${sandbox.sandboxId}/running.json`), 'utf8')).net, net)
  // What a rule closes looks the same as in a sandbox that was made otherwise.
  const other = await client.Sandbox.create('base', { allowInternetAccess: false })
  const outcome = async (sandbox) => (await sandbox.commands.run("timeout 3 bash -c 'echo > /dev/tcp/192.0.2.1/9' 2>&1; echo $?")).stdout.trim().split('\n').at(-1)
  const outcomes = await Promise.all([closed, other].map(outcome)).finally(() => other.kill())
  assert.equal(outcomes[0], outcomes[1])
}))

test('limits are those of the template, and clocks never go back', withSandboxes(async (create) => {
  await ready(server, 3)
  const sandbox = await create()
  const before = await askWeb(sandbox)
  assert.ok(before.age >= 0)
  assert.ok((await askWeb(sandbox)).age >= before.age)
  const wall = Number((await sandbox.commands.run('date +%s')).stdout)
  assert.ok(Math.abs(wall - Date.now() / 1000) < 30)
  const { limits, namespace } = JSON.parse(fs.readFileSync(server.file(`sandboxes/${sandbox.sandboxId}/running.json`), 'utf8'))
  assert.deepEqual([limits.memory_bytes, limits.cpu_count], [512 << 20, 1])
  const groups = fs.readdirSync('/sys/fs/cgroup').map((dir) => `/sys/fs/cgroup/${dir}`).concat('/sys/fs/cgroup')
  const { instance } = JSON.parse(fs.readFileSync(server.file('engine.json'), 'utf8'))
  const max = groups.flatMap((dir) => ['memory.limit_in_bytes', 'memory.max'].map((file) => `${dir}/sandglass-${instance}/${namespace.slot}/${file}`)).find((file) => fs.existsSync(file))
  assert.equal(Number(fs.readFileSync(max, 'utf8')), 512 << 20)
}))

test('more creates at once than there are standbys: all get their sandbox', withSandboxes(async (create) => {
  const { hits, misses } = await ready(server, 3)
  const all = await Promise.all(Array.from({ length: 8 }, () => create()))
  const hosts = await Promise.all(all.map(async (sandbox) => (await askWeb(sandbox)).host))
  assert.deepEqual(hosts, all.map((sandbox) => sandbox.sandboxId))
  const now = await ahead(server)
  assert.ok(now.hits >= hits + 3)
  assert.equal(now.hits + now.misses, hits + misses + 8)
}))

test('one that was handed over is paused, resumed, forked, snapshotted and killed as any other', withSandboxes(async (create) => {
  await ready(server, 3)
  const sandbox = await create()
  const before = await askWeb(sandbox)
  await sandbox.files.write('/home/user/kept', 'kept')
  for (const settle of [async () => {}, async () => { await server.killRoles('engine') }]) {
    await sandbox.pause()
    await settle()
    await sandbox.connect()
    assert.equal((await askWeb(sandbox)).number, before.number)
    assert.equal(await sandbox.files.read('/home/user/kept'), 'kept')
  }
  const snapshot = await sandbox.createSnapshot()
  const copy = await client.Sandbox.create(snapshot.snapshotId)
  assert.equal(await copy.files.read('/home/user/kept'), 'kept')
  assert.equal((await askWeb(copy)).host, copy.sandboxId)
  const forked = await api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/fork`, { body: { timeout: 300 } })
  assert.equal(forked.status, 201, forked.body)
  await killRaw(server, forked.json[0].sandbox.sandboxID)
  await copy.kill()
  await api(server, 'DELETE', `/templates/${encodeURIComponent(snapshot.snapshotId)}`)
  assert.equal(await sandbox.kill(), true)
  await until('the directory to go', () => !fs.existsSync(server.file(`sandboxes/${sandbox.sandboxId}`)))
}))

test('a client that leaves before the answer leaves nothing', async () => {
  await ready(server, 3)
  const left = new AbortController()
  const under = api(server, 'POST', '/v2/sandboxes', { body: { templateID: name }, signal: left.signal }).catch(() => null)
  left.abort()
  await under
  await ready(server, 3)
  await until('no sandbox is left', async () => (await api(server, 'GET', '/v2/sandboxes')).json.length === 0 && fs.readdirSync(server.file('sandboxes')).length === 3)
})

test('a rebuilt template has new ones, a deleted template has none, and its files go', async () => {
  const own = templateName('own')
  await buildWeb(client, own)
  await killRaw(server, (await createRaw(server, { templateID: own })).sandboxID)
  await until('standbys of both templates', async () => (await ahead(server)).ready >= 4, 60_000)
  const former = new Set(directories(server))
  await buildWeb(client, own, { more: (t) => t.runCmd('echo new > /home/user/new') })
  await until('standbys of the new build', () => directories(server).some((id) => !former.has(id)), 60_000)
  const sandbox = await client.Sandbox.create(own)
  assert.equal(await sandbox.files.read('/home/user/new'), 'new\n')
  await sandbox.kill()
  assert.equal((await api(server, 'DELETE', `/templates/${own}`)).status, 204)
  await ready(server, 3)
  await until('its checkpoints are gone', () => fs.readdirSync(server.file('checkpoints')).length === 1)
})
