// A full disk: every role starts, lists, kills and deletes; what needs room is answered with 507; and once there is room
// again everything works without a restart.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'

import { returned, settled } from '../lib/census.mjs'
import { Disk } from '../lib/disk.mjs'
import { api, createRaw, killRaw } from '../lib/raw.mjs'
import { Server, sandglass } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const { Sandbox } = await import('e2b')

/** A server on a disk of its own; `held.server` is the one that runs now. */
const onDisk = (disk, body) => async (t) => {
  const own = disk()
  const held = { disk: own }
  try {
    held.server = await Server.start({ data: own.dir, settings: { warm_mb: 0 } })
    Object.assign(process.env, clientEnvironment(held.server, 'http'))
    await body(held, t)
  } finally {
    await held.server?.cleanUp()
    own.remove()
  }
}

const listed = async (server) => {
  const answer = await api(server, 'GET', '/v2/sandboxes?state=running,paused')
  assert.equal(answer.status, 200, answer.body)
  return Object.fromEntries(answer.json.map((s) => [s.sandboxID, s.state]))
}

async function refusesForRoom(server, method, path, body) {
  const answer = await api(server, method, path, { body })
  assert.equal(answer.status, 507, `${path}: ${answer.status} ${answer.body}`)
  assert.match(answer.json.message, /disk|space/)
}
const create = { templateID: 'base' }

/** From inside a sandbox, and whatever becomes free is taken again at once. */
async function fillFromInside(sandbox, disk) {
  const greedy = 'dd if=/dev/zero of=fill bs=1M status=none; while :; do head -c 4096 /dev/zero >>fill; done 2>/dev/null'
  await sandbox.commands.run(greedy, { background: true, timeoutMs: 0 })
  await until(() => `the disk full: ${disk.freeBlocks} blocks are free`, () => disk.freeBlocks === 0, 60_000)
}

/** A role that starts anew removes leftovers, and the sandbox needs a moment to take what became free. */
async function staysFull(disk, what) {
  let looks = 0
  await until(() => `no room, ${what}: ${disk.freeBlocks} blocks are free`, () => {
    looks = disk.freeBlocks === 0 ? looks + 1 : 0
    return looks === 10
  })
}

/** A create that found room in just that moment is right, and is undone; the next one has none. */
async function refusesToCreate(server, disk) {
  for (let i = 0; i < 5; i++) {
    await staysFull(disk, 'create')
    const answer = await api(server, 'POST', '/v2/sandboxes', { body: create })
    if (answer.status !== 201) return assert.equal(answer.status, 507, answer.body)
    assert.equal((await killRaw(server, answer.json.sandboxID)).status, 204)
  }
  assert.fail('five creates found room on a full disk')
}

test('filled from inside a sandbox: all roles killed in turn, listing, killing, deleting; then room again', onDisk(() => new Disk(256), async (held) => {
  const { disk } = held
  const before = await settled(held.server)
  const filler = await Sandbox.create({ timeoutMs: 600_000 })
  let bystander = await Sandbox.create({ timeoutMs: 600_000 })
  await bystander.files.write('kept', 'kept')
  const paused = await createRaw(held.server)
  const kept = await createRaw(held.server)
  for (const s of [paused, kept]) assert.equal((await api(held.server, 'POST', `/sandboxes/${s.sandboxID}/pause`, { body: { memory: false } })).status, 204)
  const { snapshotId } = await bystander.createSnapshot()
  await fillFromInside(filler, disk)

  const all = { [filler.sandboxId]: 'running', [bystander.sandboxId]: 'running', [paused.sandboxID]: 'paused', [kept.sandboxID]: 'paused' }
  const refused = async (path, body) => { // one that is refused may leave a little room, which is taken again
    await staysFull(disk, path)
    await refusesForRoom(held.server, 'POST', path, body)
  }
  const isServed = async (what) => {
    assert.deepEqual(await listed(held.server), all, what)
    await refusesToCreate(held.server, disk)
  }
  await isServed('at first')
  await refused(`/sandboxes/${bystander.sandboxId}/pause`, {})
  await refused(`/sandboxes/${bystander.sandboxId}/pause`, { memory: false })
  await refused(`/sandboxes/${bystander.sandboxId}/snapshots`, {})
  await refused(`/sandboxes/${bystander.sandboxId}/fork`, {})
  await refused(`/v2/sandboxes/${kept.sandboxID}/connect`, { timeout: 300 })
  await refused('/v2/sandboxes', { templateID: snapshotId })
  for (const role of ['control', 'engine', 'edge']) {
    await held.server.killRoles(role)
    await isServed(role)
  }
  await held.server.stop('SIGKILL')
  held.server = await held.server.again({ settings: { warm_mb: 0 } })
  Object.assign(process.env, clientEnvironment(held.server, 'http'))
  await isServed('supervisor')
  bystander = await Sandbox.connect(bystander.sandboxId, { timeoutMs: 600_000 }) // there is another port now
  assert.equal((await bystander.commands.run('cat kept')).stdout, 'kept')
  assert.equal((await api(held.server, 'POST', `/sandboxes/${bystander.sandboxId}/timeout`, { body: { timeout: 500 } })).status, 204)

  assert.equal((await killRaw(held.server, paused.sandboxID)).status, 204)
  delete all[paused.sandboxID]
  assert.equal((await api(held.server, 'DELETE', `/templates/${snapshotId}`)).status, 204)
  await until('what became free taken', () => disk.freeBlocks === 0)
  await held.server.killRoles('control')
  await isServed('control, after a kill')
  assert.deepEqual((await api(held.server, 'GET', '/snapshots')).json, [])

  assert.equal((await killRaw(held.server, filler.sandboxId)).status, 204) // the way out
  await until('its files removed', () => disk.freeBlocks > 20_000)
  const made = await createRaw(held.server)
  assert.equal(await bystander.pause(), true)
  await bystander.connect()
  assert.equal(await bystander.files.read('kept'), 'kept')
  const back = await Sandbox.connect(kept.sandboxID)
  assert.equal((await back.commands.run('echo back')).stdout, 'back\n')
  for (const id of [made.sandboxID, bystander.sandboxId, kept.sandboxID]) assert.equal((await killRaw(held.server, id)).status, 204)
  await returned(held.server, before)
}))

/** As a version wrote it that set no room aside: no log, and no block more than there are pages. */
function withoutRoom(file) {
  const head = Buffer.alloc(32)
  const fd = fs.openSync(file, 'r')
  fs.readSync(fd, head, 0, 32, 0)
  fs.closeSync(fd)
  fs.truncateSync(file, head.readUInt32BE(28) * 4096)
  fs.rmSync(`${file}-wal`)
}

test('a store without room of its own: it is served, and rows follow once there is room', onDisk(() => new Disk(128), async (held) => {
  const { disk } = held
  const filler = await createRaw(held.server)
  const paused = await createRaw(held.server)
  assert.equal((await api(held.server, 'POST', `/sandboxes/${paused.sandboxID}/pause`, { body: { memory: false } })).status, 204)
  await held.server.stop()
  withoutRoom(held.server.file('store/sandglass.db'))
  disk.fill()
  assert.equal(disk.freeBlocks, 0)
  held.server = await held.server.again({ settings: { warm_mb: 0 } })
  assert.deepEqual(await listed(held.server), { [filler.sandboxID]: 'running', [paused.sandboxID]: 'paused' })
  await refusesForRoom(held.server, 'POST', '/v2/sandboxes', create)
  disk.fill() // a pause gives room, and so may the rest
  assert.equal((await killRaw(held.server, paused.sandboxID)).status, 204)
  assert.deepEqual(await listed(held.server), { [filler.sandboxID]: 'running' })
  disk.makeRoom()
  await until('the log has its room', () => fs.statSync(held.server.file('store/sandglass.db-wal')).blocks * 512 >= 4 << 20)
  await held.server.killRoles('control')
  assert.deepEqual(await listed(held.server), { [filler.sandboxID]: 'running' })
  const made = await createRaw(held.server)
  for (const s of [made, filler]) assert.equal((await killRaw(held.server, s.sandboxID)).status, 204)
}))

test('no inode left: the same', onDisk(() => new Disk(128, '-N', '1200'), async (held) => {
  const { disk } = held
  const filler = await Sandbox.create({ timeoutMs: 600_000 })
  await filler.commands.run('mkdir many; cd many; i=0; while true >$i; do i=$((i+1)); done 2>/dev/null')
  assert.equal(disk.freeInodes, 0)
  await refusesForRoom(held.server, 'POST', '/v2/sandboxes', create)
  await held.server.killRoles('control', 'engine')
  await refusesForRoom(held.server, 'POST', '/v2/sandboxes', create)
  await held.server.stop('SIGKILL')
  held.server = await held.server.again({ settings: { warm_mb: 0 } })
  await refusesForRoom(held.server, 'POST', '/v2/sandboxes', create)
  assert.deepEqual(await listed(held.server), { [filler.sandboxId]: 'running' })
  assert.equal((await killRaw(held.server, filler.sandboxId)).status, 204)
  const made = await until('inodes for a sandbox', async () => {
    const answer = await api(held.server, 'POST', '/v2/sandboxes', { body: create })
    return answer.status === 201 && answer.json
  })
  assert.equal((await killRaw(held.server, made.sandboxID)).status, 204)
}))

/** Names in the directory until it would need another block; none of them can be removed before release(). */
function crowd(dir) {
  for (const length of [200, 24])
    try {
      for (let i = 0; ; i++) fs.writeFileSync(path.join(dir, `${i}`.padStart(length, 'x')), '')
    } catch (e) {
      assert.equal(e.code, 'ENOSPC')
    }
  const names = fs.readdirSync(dir).map((name) => path.join(dir, name))
  const set = (flag) => assert.equal(spawnSync('chattr', [flag, ...names]).status, 0)
  set('+i')
  return { release: () => set('-i') }
}

test('no room for one more name in the trash: what is killed is thrown away later', onDisk(() => new Disk(64), async (held) => {
  const { disk, server } = held
  const filler = await createRaw(server)
  disk.fill()
  const crowded = crowd(server.file('trash'))
  assert.equal((await killRaw(server, filler.sandboxID)).status, 204)
  assert.ok(fs.existsSync(server.file(`sandboxes/${filler.sandboxID}`)))
  assert.deepEqual(await listed(server), {})
  crowded.release()
  await until('it is thrown away', () => !fs.existsSync(server.file(`sandboxes/${filler.sandboxID}`)))
  await until('and removed', () => fs.readdirSync(server.file('trash')).length === 0)
}))

test('down ends everything on a full disk', onDisk(() => new Disk(64), async (held) => {
  await createRaw(held.server)
  held.disk.fill()
  const r = sandglass(['down', '--data', held.disk.dir])
  assert.equal(r.status, 0, r.stderr)
  assert.deepEqual(fs.readdirSync(held.server.file('sandboxes')), [])
}))
