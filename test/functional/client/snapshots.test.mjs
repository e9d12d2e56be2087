// Snapshots: made of a running sandbox, named, listed, deleted; sandboxes made of them begin where it was.
import assert from 'node:assert/strict'
import test from 'node:test'

import { hold } from '../lib/inside.mjs'
import { request } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { suite } from '../lib/suite.mjs'

const context = await suite()
const { Sandbox, SandboxNotFoundError, leakless, server } = context
const mark = `s${process.pid}${Date.now().toString(36)}`

async function listed(options) {
  const found = []
  for (const pages = Sandbox.listSnapshots(options); pages.hasNext; ) found.push(...(await pages.nextItems()))
  return found.map((s) => s.snapshotId)
}

const rollback = (sandbox, snapshotID) => api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/rollback`, { body: { snapshotID } })

test('a snapshot of a running server is a template whose sandboxes answer at once', leakless(async () => {
  const source = await Sandbox.create({ timeoutMs: 120_000 })
  const ask = await hold(source, 'node', { port: 3000 })
  await source.files.write('kept.txt', 'kept')
  const before = await ask()
  const { endAt } = await source.getInfo()
  const { snapshotId } = await source.createSnapshot()
  assert.match(snapshotId, /^[a-z0-9]{20}:default$/)
  assert.equal((await ask()).requests, before.requests + 1) // goes on, the same process
  assert.deepEqual((await source.getInfo()).endAt, endAt)
  await source.kill()

  const made = await Promise.all([Sandbox.create(snapshotId), Sandbox.create(snapshotId)])
  for (const sandbox of made) {
    assert.notEqual(sandbox.sandboxId, source.sandboxId)
    const answer = await request(context, sandbox, 3000)
    assert.equal(answer.status, 200, answer.body)
    const { memory, requests } = JSON.parse(answer.body)
    assert.deepEqual([memory, requests], [before.memory, before.requests + 1])
    assert.equal(await sandbox.files.read('kept.txt'), 'kept')
  }
  await made[0].files.write('kept.txt', 'changed')
  assert.equal(await made[1].files.read('kept.txt'), 'kept')
  await assert.rejects(Sandbox.deleteSnapshot(snapshotId)) // in use
  await Promise.all(made.map((s) => s.kill()))
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), false)
  await assert.rejects(Sandbox.create(snapshotId))
}))

test('names, tags, and lists', leakless(async () => {
  const one = await Sandbox.create()
  const two = await Sandbox.create()
  await one.commands.run('echo first > state')
  const plain = await one.createSnapshot()
  const named = await one.createSnapshot({ name: mark })
  assert.match(named.snapshotId, new RegExp(`/${mark}:default$`))
  assert.equal(named.names.length, 1)
  await two.commands.run('echo second > state')
  const tagged = await two.createSnapshot({ name: `${mark}:v2` })
  assert.match(tagged.snapshotId, new RegExp(`/${mark}:v2$`))

  assert.deepEqual((await listed({ sandboxId: one.sandboxId })).sort(), [plain.snapshotId, named.snapshotId].sort())
  assert.deepEqual(await listed({ sandboxId: two.sandboxId }), [tagged.snapshotId])
  assert.deepEqual(await listed({ name: `${mark}:v2` }), [tagged.snapshotId])
  assert.deepEqual(await listed({ name: 'no-such-snapshot' }), [])
  assert.deepEqual((await listed({ name: mark, limit: 1 })).length > 0, true)

  const from = async (id) => {
    const sandbox = await Sandbox.create(id)
    const text = await sandbox.files.read('state')
    await sandbox.kill()
    return text
  }
  assert.equal(await from(named.snapshotId), 'first\n')
  assert.equal(await from(`${mark}:v2`), 'second\n')
  await one.commands.run('echo third > state')
  await one.createSnapshot({ name: mark }) // the name moves on
  assert.equal(await from(mark), 'third\n')
  await one.kill()
  await two.kill()
  assert.equal(await Sandbox.deleteSnapshot(plain.snapshotId), true)
  assert.equal(await Sandbox.deleteSnapshot(tagged.snapshotId), true) // all of that name
  assert.deepEqual(await listed({ name: mark }), [])
  assert.ok(!(await api(server, 'GET', '/templates')).body.includes(mark))
}))

test('snapshots of what is not there, is paused, or has no good name', leakless(async () => {
  await assert.rejects(Sandbox.createSnapshot('inosuchsandbox0000000'), SandboxNotFoundError)
  const sandbox = await Sandbox.create()
  const post = (name) => api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/snapshots`, { body: { name } })
  for (const name of ['../up', 'UPPER CASE', 'a'.repeat(300), 7]) assert.equal((await post(name)).status, 400, String(name))
  await sandbox.pause()
  await assert.rejects(sandbox.createSnapshot(), SandboxNotFoundError)
  await sandbox.kill()
}))

test('a sandbox goes back to its own snapshot in place', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 200_000, metadata: { mark } })
  const ask = await hold(sandbox, 'python', { port: 8000 })
  const before = await ask()
  await sandbox.files.write('state', 'early')
  const { snapshotId } = await sandbox.createSnapshot()
  await sandbox.files.write('state', 'late')
  await sandbox.files.write('more', 'late')
  await ask()
  const answer = await rollback(sandbox, snapshotId)
  assert.ok(answer.status < 300, answer.body)
  await sandbox.connect()
  assert.equal(await sandbox.files.read('state'), 'early')
  assert.equal(await sandbox.files.exists('more'), false)
  const now = JSON.parse((await sandbox.commands.run('curl -s http://127.0.0.1:8000/')).stdout)
  assert.deepEqual([now.pid, now.requests], [before.pid, before.requests + 1])
  assert.deepEqual((await sandbox.getInfo()).metadata, { mark })
  await sandbox.files.write('state', 'late again')
  assert.ok((await rollback(sandbox, snapshotId)).status < 300) // as often as one likes
  await sandbox.connect()
  assert.equal(await sandbox.files.read('state'), 'early')
  assert.equal((await rollback(sandbox, 'no-such-snapshot')).status, 404)
  await sandbox.kill()
  assert.equal(await Sandbox.deleteSnapshot(snapshotId), true)
}))

test('a secured snapshot: each sandbox of it has a token of its own', leakless(async () => {
  const source = await Sandbox.create({ secure: true })
  const { snapshotId } = await source.createSnapshot()
  const copy = await Sandbox.create(snapshotId, { secure: true })
  assert.notEqual(copy.envdAccessToken, source.envdAccessToken)
  assert.equal((await copy.commands.run('echo mine')).stdout, 'mine\n')
  assert.equal((await source.commands.run('echo mine')).stdout, 'mine\n')
  await Promise.all([source.kill(), copy.kill()])
  await Sandbox.deleteSnapshot(snapshotId)
}))
