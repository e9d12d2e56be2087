// What the server's records do not know is moved aside, never deleted; and what is deleted was named before.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import test from 'node:test'

import { settled } from '../lib/census.mjs'
import { hold } from '../lib/inside.mjs'
import { api } from '../lib/raw.mjs'
import { Server, sandglass } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { openWhenRead, until } from '../lib/wait.mjs'

const { Sandbox } = await import('e2b')

const speakTo = (server) => Object.assign(process.env, clientEnvironment(server, 'http'))

/** A server for one case; `again` in the body replaces it. */
const withServer = (settings, body) => async () => {
  const held = { server: await Server.start({ settings }) }
  held.again = async () => {
    held.server = await held.server.again({ settings })
    speakTo(held.server)
  }
  speakTo(held.server)
  const keeps = held.server.keepsData
  try {
    await body(held)
  } finally {
    held.server.keepsData = keeps
    await held.server.cleanUp()
  }
}

/** The command with this server's data directory: what it prints. */
function lost(server, ...args) {
  const [word, ...rest] = args[0]?.match(/^[a-z]/) && !args[0].startsWith('-') ? args : [null, ...args]
  const r = sandglass(['lost', ...(word ? [word] : []), '--data', server.data, ...rest])
  assert.equal(r.status, 0, r.stderr)
  return r.stdout
}

const listed = (server) => JSON.parse(lost(server, '--json'))
const whatIsLost = (server) => listed(server).map((e) => `${e.kind} ${e.was}`).sort()
const doctorSays = (server) =>
  JSON.parse(sandglass(['doctor', '--json', '--data', server.data]).stdout).checks.find((c) => c.name === 'lost')
const namesIn = (server, dir) => fs.readdirSync(server.file(dir))

/** A sandbox with something in memory and in a file, and a question that fails when it began anew. */
async function counting() {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000, envs: { WORD: 'kept' }, metadata: { of: 'a test' } })
  const ask = await hold(sandbox, 'python', { port: 8000, args: '8' })
  await ask()
  await sandbox.files.write('kept', 'kept')
  return { sandbox, id: sandbox.sandboxId, ask }
}

test('the records are taken away', withServer({ warm_mb: 0 }, async (held) => {
  const paused = await counting()
  await paused.sandbox.pause()
  const running = await Sandbox.create({ timeoutMs: 300_000 })
  await running.files.write('kept', 'of one that ran')
  const copied = await Sandbox.create({ timeoutMs: 300_000 })
  await copied.files.write('kept', 'of a snapshot')
  await copied.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  await api(held.server, 'POST', `/sandboxes/${copied.sandboxId}/snapshots`, { body: {} })
  await copied.kill()
  assert.equal(doctorSays(held.server).state, 'ok')
  await held.server.stop()
  fs.rmSync(held.server.file('store'), { recursive: true })
  await held.again()

  const { server } = held
  await until('all of it moved aside', () => listed(server).length === 5)
  assert.deepEqual(whatIsLost(server), ['checkpoint complete', 'checkpoint complete', 'layer complete', 'sandbox paused', 'sandbox running'])
  assert.ok(listed(server).every((e) => e.why === 'no row of the store names it' && e.bytes > 0 && Date.parse(e.lostAt)))
  assert.match(lost(server), new RegExp(`${paused.id} +sandbox +paused`))
  assert.deepEqual((await api(server, 'GET', '/v2/sandboxes')).json, [])
  assert.deepEqual([...namesIn(server, 'sandboxes'), ...namesIn(server, 'checkpoints'), ...namesIn(server, 'sealed')], [])
  const said = doctorSays(server)
  assert.equal(said.state, 'note')
  assert.match(said.detail, /^2 sandboxes, 2 checkpoints, 1 layers/)
  assert.match(server.log, /warn +engine lost.kept name=/)

  assert.equal(lost(server, 'restore', paused.id), `${paused.id}\n`)
  const again = await Sandbox.connect(paused.id) // with its memory, though nobody knows the token of before any more
  await paused.ask(again)
  assert.equal(await again.files.read('kept'), 'kept')
  assert.deepEqual((await again.getInfo()).metadata, { of: 'a test' })
  await again.pause()
  await paused.ask(await Sandbox.connect(paused.id))

  assert.equal(lost(server, 'restore', running.sandboxId), `${running.sandboxId}\n`)
  assert.equal(await (await Sandbox.connect(running.sandboxId)).files.read('kept'), 'of one that ran')

  const memory = listed(server).find((e) => e.kind === 'checkpoint').id
  const id = lost(server, 'restore', memory).trim()
  const copy = await Sandbox.connect(id)
  assert.equal(await copy.files.read('kept'), 'of a snapshot')
  assert.equal((await copy.commands.run('pgrep -f "^sleep 1000"')).exitCode, 0)

  assert.deepEqual(listed(server), [])
  assert.equal(doctorSays(server).state, 'ok')
  const twice = sandglass(['lost', 'restore', '--data', server.data, paused.id])
  assert.equal(twice.status, 1)
  assert.match(twice.stderr, /there is a sandbox/)
  for (const one of [paused.id, running.sandboxId, id]) await Sandbox.kill(one)
  await until('nothing left', () => namesIn(server, 'checkpoints').length + namesIn(server, 'sealed').length === 0)
}))

test('an older copy of the records is put back', withServer({ warm_mb: 0 }, async (held) => {
  const early = await counting()
  await early.sandbox.pause()
  await held.server.stop()
  fs.cpSync(held.server.file('store'), held.server.file('older'), { recursive: true, preserveTimestamps: true })
  fs.chownSync(held.server.file('older'), fs.statSync(held.server.file('store')).uid, fs.statSync(held.server.file('store')).gid)
  for (const name of namesIn(held.server, 'older')) {
    const { uid, gid } = fs.statSync(held.server.file(`store/${name}`))
    fs.chownSync(held.server.file(`older/${name}`), uid, gid)
  }
  await held.again()
  const late = await counting()
  await api(held.server, 'POST', `/sandboxes/${late.id}/snapshots`, { body: {} })
  await late.sandbox.pause()
  await held.server.stop()
  fs.rmSync(held.server.file('store'), { recursive: true })
  fs.renameSync(held.server.file('older'), held.server.file('store'))
  await held.again()

  const { server } = held
  await until('what it does not know moved aside', () => listed(server).length === 4)
  assert.deepEqual(whatIsLost(server), ['checkpoint complete', 'checkpoint complete', 'layer complete', 'sandbox paused'])
  await early.ask(await Sandbox.connect(early.id))
  lost(server, 'restore', late.id)
  await late.ask(await Sandbox.connect(late.id))

  const left = listed(server)
  assert.deepEqual(left.map((e) => e.kind).sort(), ['checkpoint', 'layer'])
  const note = server.file(`lost/${left[0].id}.json`)
  const before = JSON.parse(fs.readFileSync(note, 'utf8'))
  fs.writeFileSync(note, JSON.stringify({ ...before, kept_ns: 31 * 86400e9 })) // so much time has passed
  await server.killRoles('engine')
  await until('its time to be up', () => listed(server).length === 1)
  assert.ok(!fs.existsSync(server.file(`lost/${left[0].id}`)) && !fs.existsSync(note))
  lost(server, 'remove', left[1].id)
  assert.deepEqual(listed(server), [])
  assert.equal(sandglass(['lost', 'remove', '--data', server.data, left[1].id]).status, 1)
  lost(server, 'remove', '--all')
  assert.deepEqual(namesIn(server, 'lost'), [])
}))

test('the records are away for one start, and come back', withServer({ warm_mb: 0 }, async (held) => {
  const one = await counting()
  await one.sandbox.pause()
  await held.server.stop()
  for (const name of ['store', 'env']) fs.renameSync(held.server.file(name), held.server.file(`${name}.away`))
  await held.again()
  await until('moved aside', () => listed(held.server).length === 2)
  await held.server.stop()
  fs.rmSync(held.server.file('store'), { recursive: true })
  for (const name of ['store', 'env']) fs.renameSync(held.server.file(`${name}.away`), held.server.file(name))
  await held.again()

  const { server } = held
  assert.match((await api(server, 'POST', `/v2/sandboxes/${one.id}/connect`, { body: {} })).json.message, /files are not on this server's disk/)
  assert.equal(lost(server, 'restore', one.id), `${one.id}\n`)
  await one.ask(await Sandbox.connect(one.id))
  assert.deepEqual(namesIn(server, 'lost'), [])
}))

test('what cannot be known to be at rest keeps its memory', withServer({ warm_mb: 0 }, async (held) => {
  const [one, other] = [await counting(), await counting()]
  for (const { sandbox } of [one, other]) await sandbox.pause()
  await held.server.stop()
  const still = held.server.file(`sandboxes/${one.id}/paused.json`)
  const kept = fs.readFileSync(still)
  fs.writeFileSync(still, '')
  await held.again()

  const { server } = held
  await until('moved aside', () => listed(server).length === 1)
  assert.deepEqual(whatIsLost(server), ['sandbox paused'])
  await Sandbox.kill(other.id) // after the flush and the drop that this takes, the other one's memory would be gone, too
  await until('dropped', () => namesIn(server, 'checkpoints').length < 2)
  assert.equal(namesIn(server, 'checkpoints').length, 1)
  fs.writeFileSync(server.file(`lost/${one.id}/paused.json`), kept)
  lost(server, 'restore', one.id)
  await one.ask(await Sandbox.connect(one.id))
}))

test('what is kept for ever stays', withServer({ lost_days: 0 }, async ({ server }) => {
  const name = 'caaaaaaaaaaaaaaaaaaaa'
  fs.mkdirSync(server.file(`lost/${name}`))
  fs.writeFileSync(server.file(`lost/${name}.json`), '{"lost_ns":1,"kept_ns":9000000000000000000}')
  await server.killRoles('engine')
  await until('the engine', () => listed(server).length === 1)
}))

test('kill -9 of control in the middle of everything loses nothing and leaves nothing', withServer({ warm_mb: 0 }, async ({ server }) => {
  const quietly = (promise) => promise.then((v) => v, () => null)
  const all = async () => (await api(server, 'GET', '/v2/sandboxes?state=running,paused')).json.map((s) => s.sandboxID)
  const deeds = {
    kill: (id) => api(server, 'DELETE', `/sandboxes/${id}`),
    snapshot: (id) => api(server, 'POST', `/sandboxes/${id}/snapshots`, { body: {} }),
    fork: (id) => api(server, 'POST', `/sandboxes/${id}/fork`, { body: { count: 2 } }),
    pause: (id) => api(server, 'POST', `/sandboxes/${id}/pause`, { body: {} }),
  }
  for (const [name, deed] of Object.entries(deeds)) {
    const ids = []
    for (let i = 0; i < 3; i++) ids.push((await Sandbox.create({ timeoutMs: 300_000 })).sandboxId)
    for (const [i, id] of ids.entries()) {
      const doing = quietly(deed(id))
      for (let turn = 0; turn < i * 20; turn++) await new Promise(setImmediate) // a little later each time
      await server.killRoles('control')
      await doing
    }
    await until(`the server after ${name}`, () => quietly(all()))
    assert.deepEqual(namesIn(server, 'lost'), [], `${name}\n${server.log.slice(-3000)}`)
  }
  // An answer that is held back by a worker: control dies while the copy is made.
  const { sandboxId } = await Sandbox.create({ timeoutMs: 300_000 })
  fs.mkdirSync(server.file('stall'))
  for (const name of ['snapshot', 'fork']) {
    const fifo = server.file('stall/copied')
    spawnSync('mkfifo', [fifo])
    const begin = async () => {
      for (;;) {
        const answer = await quietly(deeds[name](sandboxId))
        if (answer?.status !== 409 || !fs.existsSync(fifo)) return answer // 409: what was begun before is not over
      }
    }
    const doing = begin()
    const fd = await openWhenRead(fifo) // the worker is there
    await server.killRoles('control')
    fs.unlinkSync(fifo)
    await fd.close()
    await doing
    await until(`the server after ${name}`, () => quietly(all()))
  }
  for (const id of await all()) await Sandbox.kill(id)
  for (const s of (await api(server, 'GET', '/snapshots')).json) await api(server, 'DELETE', `/templates/${encodeURIComponent(s.snapshotID)}`)
  await until('everything disposed of', () => ['sandboxes', 'checkpoints', 'sealed'].every((dir) => namesIn(server, dir).length === 0))
  assert.deepEqual(namesIn(server, 'lost'), [])
  await settled(server)
}))
