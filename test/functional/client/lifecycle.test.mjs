// Sandboxes as the control plane knows them: info, list, connect, timeouts, deadlines.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const { Sandbox, SandboxNotFoundError, leakless, withSandbox, server } = await suite()
const near = (date, ms) => assert.ok(Math.abs(date - Date.now() - ms) < 5_000, `${date.toISOString()} is not in about ${ms} ms`)

async function listAll(options) {
  const found = []
  const pages = Sandbox.list(options)
  while (pages.hasNext) found.push(...(await pages.nextItems()))
  return found
}

test('getInfo tells what create was given', withSandbox(async (sandbox) => {
  const info = await sandbox.getInfo()
  assert.equal(info.sandboxId, sandbox.sandboxId)
  assert.equal(info.state, 'running')
  assert.equal(info.name, 'base')
  assert.match(info.templateId, /^[a-z0-9]{20}$/)
  assert.deepEqual(info.metadata, { purpose: 'info', 'odd key': 'ä & = %41' })
  assert.ok(info.endAt > info.startedAt)
  near(info.endAt, 120_000)
  assert.ok(info.cpuCount > 0 && info.memoryMB > 0)
  assert.equal((await Sandbox.getInfo(sandbox.sandboxId)).sandboxId, sandbox.sandboxId)
}, { timeoutMs: 120_000, metadata: { purpose: 'info', 'odd key': 'ä & = %41' } }))

test('list pages, newest first, and filters by metadata and state', leakless(async () => {
  const mark = `list-${process.pid}-${Date.now()}`
  const made = []
  for (let i = 0; i < 3; i++) made.push(await Sandbox.create({ metadata: { mark, number: String(i), 'odd key': 'a/b&c=d é' } }))
  const ids = made.map((s) => s.sandboxId)
  const query = { metadata: { mark } }

  assert.deepEqual((await listAll({ query })).map((s) => s.sandboxId), [...ids].reverse())
  const pages = Sandbox.list({ query, limit: 1 })
  const seen = []
  while (pages.hasNext) {
    const page = await pages.nextItems()
    assert.equal(page.length, 1)
    seen.push(page[0].sandboxId)
  }
  assert.deepEqual(seen, [...ids].reverse())
  assert.equal(pages.nextToken, undefined)

  const one = await listAll({ query: { metadata: { mark, number: '1', 'odd key': 'a/b&c=d é' } } })
  assert.deepEqual(one.map((s) => s.sandboxId), [ids[1]])
  assert.deepEqual(await listAll({ query: { metadata: { mark, number: '9' } } }), [])
  assert.equal((await listAll({ query: { ...query, state: ['running'] } })).length, 3)
  assert.equal((await listAll({ query: { ...query, state: ['paused'] } })).length, 0)

  await made[0].kill()
  assert.deepEqual((await listAll({ query })).map((s) => s.sandboxId), [ids[2], ids[1]])
  await Promise.all(made.slice(1).map((s) => s.kill()))
  assert.deepEqual(await listAll({ query }), [])
}))

test('order, startedAfter and template', leakless(async () => {
  const metadata = { mark: `order-${process.pid}-${Date.now()}` }
  const a = await Sandbox.create({ metadata })
  const b = await Sandbox.create({ metadata })
  const ids = async (query) => (await listAll({ ...query, query: { metadata, ...query } })).map((s) => s.sandboxId)
  assert.deepEqual(await ids({ order: 'asc' }), [a.sandboxId, b.sandboxId])
  const { startedAt, templateId } = await b.getInfo()
  assert.ok((await ids({ startedAfter: startedAt })).includes(b.sandboxId))
  assert.deepEqual(await ids({ startedAfter: new Date(startedAt.getTime() + 1000) }), [])
  assert.equal((await ids({ template: 'base' })).length, 2)
  assert.equal((await ids({ template: templateId })).length, 2)
  assert.deepEqual(await ids({ template: 'no-such-template' }), [])
  await Promise.all([a.kill(), b.kill()])
}))

test('connect finds the same sandbox and never shortens its life', withSandbox(async (sandbox) => {
  await sandbox.files.write('kept.txt', 'kept')
  const { endAt } = await sandbox.getInfo()
  const same = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 10_000 })
  assert.equal(same.sandboxId, sandbox.sandboxId)
  assert.equal(await same.files.read('kept.txt'), 'kept')
  assert.equal((await same.commands.run('echo hi')).stdout, 'hi\n')
  assert.deepEqual((await same.getInfo()).endAt, endAt)
  await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 900_000 })
  near((await same.getInfo()).endAt, 900_000)
}))

test('setTimeout lengthens and shortens', withSandbox(async (sandbox) => {
  await sandbox.setTimeout(600_000)
  near((await sandbox.getInfo()).endAt, 600_000)
  await sandbox.setTimeout(20_000)
  near((await sandbox.getInfo()).endAt, 20_000)
  assert.equal(await sandbox.isRunning(), true)
}))

/** A question that is under way when the sandbox ends is cut; the next one is answered. */
const hasEnded = async (sandbox) => !(await sandbox.isRunning().catch(() => true))

test('the deadline ends a sandbox, on time', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 2_000 })
  const born = performance.now()
  assert.equal(await sandbox.isRunning(), true)
  await until('end of the sandbox', () => hasEnded(sandbox))
  const lived = performance.now() - born
  assert.ok(lived > 1_500 && lived < 4_000, `lived ${lived} ms`)
  await assert.rejects(sandbox.getInfo(), SandboxNotFoundError)
  await sandbox.kill() // waits for the end, in case the sandbox is still being killed: connect would answer 409
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), SandboxNotFoundError)
  assert.equal(await sandbox.kill(), false)
}))

test('setTimeout(1 s) ends a sandbox that had long to live', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
  await sandbox.setTimeout(1_000)
  await until('end of the sandbox', () => hasEnded(sandbox))
}))

test('a kill during a command ends its stream with a clear error', leakless(async () => {
  const sandbox = await Sandbox.create()
  const running = await sandbox.commands.run('echo up; sleep 60', { background: true })
  const waiting = assert.rejects(running.wait(), (e) => e.name === 'TimeoutError' && /killed or reached its end of life/.test(e.message))
  await sandbox.kill()
  await waiting
}))

test('a kill during a command that is waited for, too', leakless(async () => {
  const sandbox = await Sandbox.create()
  let started
  const up = new Promise((done) => (started = done))
  const waiting = assert.rejects(sandbox.commands.run('echo up; sleep 60', { onStdout: started }), (e) => e.name === 'TimeoutError' && /sandbox was killed or reached its end of life/.test(e.message))
  await up
  await sandbox.kill()
  await waiting
}))

test('variables of create: none, and with every kind of character', leakless(async () => {
  const envs = { PLAIN: 'a', ODD: `"double" 'single' $HOME \`tick\` \\ & = % ü 漢字`, LINES: 'one\ntwo', EMPTY: '' }
  const [none, some] = await Promise.all([Sandbox.create({ envs: {} }), Sandbox.create({ envs })])
  assert.equal((await none.commands.run('echo ok')).stdout, 'ok\n')
  const { stdout } = await some.commands.run(`python3 -c "import json, os; print(json.dumps({k: os.environ.get(k) for k in ('PLAIN', 'ODD', 'LINES', 'EMPTY')}))"`)
  assert.deepEqual(JSON.parse(stdout), envs)
  await Promise.all([none.kill(), some.kill()])
}))

test('metrics: what the sandbox uses, and nothing of long ago', withSandbox(async (sandbox) => {
  const [sample] = await until('a sample', async () => { const all = await sandbox.getMetrics(); return all.length > 0 && all })
  for (const field of ['cpuCount', 'cpuUsedPct', 'memUsed', 'memTotal', 'diskUsed', 'diskTotal']) assert.equal(typeof sample[field], 'number', field)
  assert.ok(sample.cpuCount > 0 && sample.memTotal > 0 && sample.diskTotal > 0)
  await sandbox.commands.run('head -c 8388608 /dev/urandom > /tmp/big')
  const after = (await sandbox.getMetrics()).at(-1)
  assert.ok(after.diskUsed - sample.diskUsed >= 8 << 20, `${sample.diskUsed}, then ${after.diskUsed}`)
  assert.ok(after.memUsed > 0 && after.memUsed <= after.memTotal, `${after.memUsed} of ${after.memTotal}`)
  assert.deepEqual(await sandbox.getMetrics({ start: new Date('2020-01-01'), end: new Date('2020-01-02') }), [])
}))

test('shortened, then lengthened in time: it lives on', withSandbox(async (sandbox) => {
  await sandbox.setTimeout(1_000)
  await sandbox.setTimeout(60_000)
  await new Promise((done) => setTimeout(done, 1_300))
  assert.equal(await sandbox.isRunning(), true)
}))

test('the health of the server needs no key', async () => {
  const answer = await fetch(new URL('/health', server.apiUrl))
  assert.ok(answer.ok)
})
