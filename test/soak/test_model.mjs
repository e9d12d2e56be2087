// The model against a fake server: it believes an honest one, whatever answers are lost, and catches every lie.
import assert from 'node:assert/strict'
import test from 'node:test'

import { Client, Gate } from './client.mjs'
import { bytesOf, nameOf, part } from './content.mjs'
import { Fake, lies } from './fake.mjs'
import { closure, explain, newborn } from './model.mjs'
import { lookAtLists } from './quiet.mjs'
import { Random } from './random.mjs'
import { Report } from './report.mjs'
import { wrongLines } from './serverlog.mjs'

const always = { from: -Infinity, to: Infinity, what: 'somebody' }

/** turns: how often each client asks between two looks at the lists. */
async function hammer({ seed, lie = null, lossy = true, rounds = 4, turns = 150 }) {
  const fake = new Fake({ random: new Random(seed, 'fake'), lie, lossy })
  const now = () => fake.time
  const report = new Report({ now })
  if (lossy) report.windows.push(always)
  const ask = (sandbox, operation) => fake.perform(sandbox, operation)
  const gate = new Gate(2)
  const clients = [0, 1].map((i) => new Client(i, { random: new Random(seed, `client ${i}`), perform: ask, report, gate, now, staggerMs: 0, pollMs: 0 }))
  for (let round = 0; round < rounds && report.isClean(); round++) {
    let left = turns
    await Promise.all(clients.map((client) => client.run(() => left-- <= 0 || !report.isClean())))
    await Promise.all(fake.late)
    await lookAtLists(ask, clients, report)
  }
  await Promise.all(clients.map((client) => client.finish()))
  await Promise.all(fake.late)
  await lookAtLists(ask, clients, report)
  return { fake, report }
}

test('an honest server is believed, with all its answers and without some', async () => {
  for (const lossy of [false, true])
    for (let seed = 1; seed <= (Number(process.env.SEEDS) || 8); seed++) {
      const { report, fake } = await hammer({ seed, lossy })
      assert.deepEqual(report.findings, [], `seed ${seed}, ${lossy ? 'lossy' : 'reliable'}`)
      assert.equal(report.answers.lost > 0, lossy)
      if (!lossy) assert.equal(fake.sandboxes.size + fake.snapshots.size, 0, 'nothing is left at the end')
    }
})

for (const lie of lies)
  test(`a server that ${lie} is caught`, async () => {
    let told = 0
    for (let seed = 1; seed <= 6; seed++) {
      const { report, fake } = await hammer({ seed, lie, lossy: false })
      told += fake.lied
      if (!report.isClean()) return
    }
    assert.fail(`never noticed, though it did so ${told} times`)
  })

const traits = { autoResume: false, onEnd: 'kill' }
const kinds = (...list) => list.map(([operation, answer]) => ({ operation, answer }))

test('without an answer both is possible, and one look decides', () => {
  const write = { name: 'write', file: 'a', content: 'new.20' }
  const before = [newborn({ files: { a: 'old.20' }, counter: null })]
  const after = explain(before, kinds([write, { kind: 'lost' }]), traits).worlds
  for (const value of ['old.20', 'new.20', part])
    assert.equal(explain(after, kinds([{ name: 'read', file: 'a' }, { kind: 'ok', value }]), traits).worlds.length > 0, true, value)
  assert.deepEqual(explain(after, kinds([{ name: 'read', file: 'a' }, { kind: 'ok', value: 'other.20' }]), traits).worlds, [])
  const seen = explain(after, kinds([{ name: 'read', file: 'a' }, { kind: 'ok', value: 'new.20' }]), traits).worlds
  assert.deepEqual(explain(seen, kinds([{ name: 'read', file: 'a' }, { kind: 'ok', value: 'old.20' }]), traits).worlds, [])
})

test('at the same time: some order must explain all answers', () => {
  const start = [newborn({ files: {}, counter: { nonce: 'n', count: 0 } })]
  const count = () => ({ name: 'count' })
  const both = (a, b) => explain(start, kinds([count(), { kind: 'ok', value: a }], [count(), { kind: 'ok', value: b }]), traits).worlds.length
  assert.equal(both('n 2 whole', 'n 1 whole'), 1)
  assert.equal(both('n 1 whole', 'n 1 whole'), 0)
  assert.equal(both('n 1 whole', 'n 2 damaged'), 0)
})

test('a copy that is taken while something changes goes on with that, once', () => {
  const append = { name: 'append', file: 'log', word: 'w' }
  const { copies } = explain([newborn()], kinds([append, { kind: 'ok', value: 'w' }], [{ name: 'snapshot' }, { kind: 'ok' }]), traits)
  const worlds = copies[1].map(newborn)
  const see = (before, operation, answer) => explain(before, kinds([operation, answer]), traits).worlds
  const read = { name: 'read', file: 'log' }
  const empty = see(worlds, { name: 'list' }, { kind: 'ok', value: '' })
  const later = see(empty, read, { kind: 'ok', value: 'w ' })
  assert.equal(later.length > 0, true)
  assert.deepEqual(see(later, read, { kind: 'missing' }), [])
  assert.deepEqual(see(worlds, read, { kind: 'ok', value: 'w w ' }), [])
})

test('a deadline ends it as it was created to, at any moment from then on', () => {
  const armed = explain([newborn()], kinds([{ name: 'timeout', now: true }, { kind: 'ok' }]), { ...traits, onEnd: 'pause' }).worlds
  assert.deepEqual(closure(armed, traits).map(({ state }) => state).sort(), ['paused', 'running'])
  assert.deepEqual(explain(armed, kinds([{ name: 'kill' }, { kind: 'gone' }]), { ...traits, onEnd: 'pause' }).worlds, [])
})

test('bytes of a file tell whether they are whole, and whose they are', () => {
  for (const name of ['v1-2.20', 'v3-4.100000']) {
    const bytes = bytesOf(name)
    assert.equal(nameOf(bytes), name)
    assert.equal(nameOf(bytes.subarray(0, -1)), part)
    assert.equal(nameOf(Buffer.concat([bytes, bytes])).startsWith('damaged'), true)
    const flipped = Buffer.from(bytes)
    flipped[flipped.length - 1] ^= 1
    assert.notEqual(nameOf(flipped), name)
    assert.notEqual(nameOf(flipped), part)
  }
})

test('errors in the log are found, deaths of those who were killed are not errors', () => {
  const line = (level, event) => `2026-01-01T00:00:00.000000Z ${level} engine ${event} x=1`
  const log = [line('info ', 'sandbox.lost'), line('error', 'job_queue.died'), line('error', 'sandbox.lost'), line('warn ', 'x "a bug"')].join('\n')
  assert.equal(wrongLines(log, {}).length, 3)
  assert.equal(wrongLines(log, { 'sg-job-queue': 1 }).length, 2)
  const helper = '2026-01-01T00:00:00.000000Z error engine helper.died name=resume-mark, starting another'
  assert.equal(wrongLines(helper, { 'sg-trash': 1 }).length, 1)
  assert.equal(wrongLines(helper, { 'sg-resume-mark': 1 }).length, 0)
})
