// Power cuts, on a disk with a volatile cache (lib/machine.mjs): what was acknowledged is there, exactly; what ran is gone
// with a reason, or paused; and nothing is shown that cannot be connected to.
//
//   SANDGLASS_POWER_ROUNDS=200 SANDGLASS_POWER_SEED=7 tools/test power
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import test, { after, before } from 'node:test'

import { getGeneration, holdGeneration, setGeneration } from '../lib/generation.mjs'
import { Machine, whyNoMachine } from '../lib/machine.mjs'
import { processes } from '../lib/proc.mjs'
import { api } from '../lib/raw.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { openWhenRead, until } from '../lib/wait.mjs'

const { Sandbox } = await import('e2b')
const skip = whyNoMachine()
const stopped = /is gone: it was running when the machine stopped/
let machine

const post = (id, what, body = {}) => api(machine.server, 'POST', `/sandboxes/${id}/${what}`, { body })
const find = (id) => api(machine.server, 'GET', `/sandboxes/${id}`)
const list = async () => (await api(machine.server, 'GET', '/v2/sandboxes?state=running,paused')).json.map((s) => s.sandboxID)
const connect = (id) => Sandbox.connect(id, { timeoutMs: 300_000 })

async function acknowledged(what, answer) {
  const { status, body } = await answer
  assert.ok(status < 300, `${what}: ${status} ${body}`)
}

const pause = (id, memory = true) => acknowledged('pause', post(id, 'pause', { memory }))

async function create() {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
  await holdGeneration(sandbox)
  return sandbox
}

/** What was done in this directory is on disk; bytes in files that were there before need not be. */
function flushDir(below) {
  const fd = fs.openSync(machine.server.file(below), 'r')
  fs.fsyncSync(fd)
  fs.closeSync(fd)
}

/** The bytes of the file that generation.py writes over are on disk; directories need not be. */
function flushGeneration(id) {
  const fd = fs.openSync(machine.server.file(`sandboxes/${id}/upper/home/user/generation`), 'r')
  fs.fdatasyncSync(fd)
  fs.closeSync(fd)
}

async function boot() {
  Object.assign(process.env, clientEnvironment(await machine.boot(), 'http'))
}

async function cutAndBoot(...how) {
  await machine.cut(...how)
  await boot()
}

/** Holds whoever comes to this point; -> a function that waits for him to be there. */
function stall(point) {
  const fifo = machine.server.file(`stall/${point}`)
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  return async () => {
    const held = await openWhenRead(fifo)
    fs.rmSync(fifo)
    return held
  }
}

/** A process of the machine by the pid it has in there. */
const inside = (pid) =>
  processes().find((p) => {
    const ids = /^NSpid:\s+(.*)$/m.exec(fs.existsSync(`/proc/${p.pid}/status`) ? fs.readFileSync(`/proc/${p.pid}/status`, 'utf8') : '')?.[1].split(/\s+/) ?? []
    return ids[1] === String(pid) && ownNamespace(p.pid)
  })
const ownNamespace = (pid) => {
  for (let p = pid; p > 1; p = processes().find((q) => q.pid === p)?.parent ?? 0) if (p === machine.server.supervisor) return true
  return false
}

async function assertGone(id, message) {
  assert.equal((await find(id)).status, 404)
  assert.ok(!(await list()).includes(id))
  const { status, json } = await post(id, 'connect', { timeout: 100 })
  assert.equal(status, 404, json.message)
  assert.match(json.message, message)
  assert.doesNotMatch(machine.server.log, new RegExp(`sandbox\\.missing sandbox=${id}`))
}

/** Where somebody else on this machine had all disks flushed meanwhile, it is gone. */
async function assertNewerFilesOrGone(id, number) {
  if ((await find(id)).status === 404) return assertGone(id, stopped)
  assert.deepEqual(await getGeneration(await connect(id)), { file: number })
}

before(async () => {
  if (skip) return
  machine = await Machine.create({ settings: { warm_mb: 1024 } })
  Object.assign(process.env, clientEnvironment(machine.server, 'http'))
})
after(() => machine?.remove())

const cases = (name, body) => test(name, { skip }, body)

/* ---- at chosen moments ---- */

for (const warm of [true, false])
  cases(`resumed, and cut when the disk knows that it is not paused any more (${warm ? 'warm' : 'from disk'})`, async () => {
    const { sandboxId: id } = await create()
    await pause(id)
    if (!warm) await cutAndBoot()
    await connect(id)
    flushDir(`sandboxes/${id}`)
    await cutAndBoot()
    await assertGone(id, stopped)
    await until('its files gone', () => !fs.existsSync(machine.server.file(`sandboxes/${id}`)))
  })

cases('resumed without memory, and cut likewise', async () => {
  const { sandboxId: id } = await create()
  await pause(id, false)
  await connect(id)
  flushDir(`sandboxes/${id}`)
  await cutAndBoot()
  await assertGone(id, stopped)
})

cases('resumed, and cut when only newer bytes in its files are on disk: never with the old memory', async () => {
  const sandbox = await create()
  const id = sandbox.sandboxId
  await setGeneration(sandbox, 1)
  await pause(id)
  await setGeneration(await connect(id), 2)
  flushGeneration(id)
  await cutAndBoot()
  await assertNewerFilesOrGone(id, 2)
})

cases('the engine dies before a resumed one moves, then the power is cut: never with the old memory', async () => {
  const sandbox = await create()
  const id = sandbox.sandboxId
  await setGeneration(sandbox, 1)
  await pause(id)
  const { engine } = machine.server.roles()
  const marker = processes().find((p) => p.parent === engine[0] && p.name === 'sg-resume-mark')
  process.kill(marker.pid, 'SIGSTOP')
  const under = post(id, 'connect', { timeout: 300 }).catch(() => null)
  await new Promise((done) => setTimeout(done, 100)) // whatever the engine has done of it by then, it cannot have finished
  await machine.server.killRoles('engine') // its helpers end with it
  await under
  await setGeneration(await connect(id), 2)
  flushGeneration(id)
  await cutAndBoot()
  await assertNewerFilesOrGone(id, 2)
})

cases('resumed and killed, and cut when its files are gone: it does not come back', async () => {
  const { sandboxId: id } = await create()
  await pause(id, false) // with memory, its checkpoint is dropped soon, and the store flushed for that
  await connect(id)
  await acknowledged('kill', api(machine.server, 'DELETE', `/sandboxes/${id}`))
  flushDir('sandboxes')
  await cutAndBoot()
  await assertGone(id, /doesn't exist/)
})

cases('resumed, ended by itself, and cut when its files could be gone: it does not come back', async () => {
  const { sandboxId: id } = await create()
  await pause(id, false) // with memory, its checkpoint is dropped soon, and the store flushed for that
  await connect(id)
  process.kill(inside(JSON.parse(fs.readFileSync(machine.server.file(`sandboxes/${id}/running.json`), 'utf8')).pid).pid, 'SIGKILL')
  await until('it is gone', async () => (await find(id)).status === 404)
  flushDir('sandboxes')
  await cutAndBoot()
  await assertGone(id, /doesn't exist|is gone/)
})

cases('cut while its upper directory becomes a layer: nothing of it is lost', async () => {
  const sandbox = await create()
  const id = sandbox.sandboxId
  const { nonce } = await setGeneration(sandbox, 1)
  await pause(id)
  const reached = stall('sealing')
  const under = post(id, 'fork', { count: 1, timeout: 60 }).catch(() => null)
  await machine.cut(1, 0, [await reached()])
  await under
  await boot()
  assert.deepEqual(await getGeneration(await connect(id)), { nonce, memory: 1, file: 1 })
})

cases('cut while a large one is stopped for a snapshot: its unfinished image is not taken for a pause', async () => {
  const sandbox = await create()
  const id = sandbox.sandboxId
  await pause(id)
  const again = await connect(id)
  await again.commands.run('head -c 20000000 /dev/urandom >large')
  const reached = stall('placed')
  const under = post(id, 'snapshots').catch(() => null)
  const held = await reached()
  flushDir(`sandboxes/${id}`)
  await machine.cut(1, 0, [held])
  await under
  await boot()
  await assertGone(id, stopped)
})

/* ---- at random ones ---- */

function generator(seed) {
  let x = (seed * 2654435769) >>> 0 || 1
  return (n) => {
    x ^= x << 13
    x ^= x >>> 17
    x ^= x << 5
    return (x >>> 0) % n
  }
}

/** What must be true of one sandbox after a cut at this moment: the last acknowledged word, and what is under way. */
class Known {
  constructor(sandbox, nonce) {
    this.id = sandbox.sandboxId
    this.sandbox = sandbox
    Object.assign(this, { nonce, number: 0, state: 'running', underWay: null, snapshots: [] })
  }

  /** Do this; if no answer comes, it was under way. */
  async step(what, action, then) {
    this.underWay = what
    await action()
    this.underWay = null
    then()
  }

  async pause(memory) {
    await this.step('pause', () => pause(this.id, memory), () => Object.assign(this, { state: 'paused', memory }))
  }

  async resume() {
    await this.step('resume', async () => { this.sandbox = await connect(this.id) }, () => (this.state = 'resumed'))
    if (!this.memory) this.nonce = null
  }

  async set(number) {
    this.next = number
    await this.step('set', () => setGeneration(this.sandbox, number), () => (this.number = number))
  }

  async snapshot() {
    let answer
    const number = this.number
    await this.step('snapshot', async () => {
      answer = await post(this.id, 'snapshots')
      assert.ok(answer.status < 300, answer.body)
    }, () => this.snapshots.push({ id: answer.json.snapshotID, number, nonce: this.nonce }))
  }

  async kill() {
    await this.step('kill', () => acknowledged('kill', api(machine.server, 'DELETE', `/sandboxes/${this.id}`)), () => (this.state = 'killed'))
  }
}

/** One client's life with one sandbox, until the power is cut. */
async function live(known, random) {
  for (let number = known.number + 1; ; number++) {
    if (known.state === 'paused') await known.resume()
    if (known.nonce && random(3)) await known.set(number)
    else if (known.nonce && random(3) === 0) await known.snapshot()
    if (random(12) === 0) return known.kill()
    if (random(4)) await known.pause(random(4) > 0)
    if (known.state === 'paused' && random(3) === 0) return // and stays so
  }
}

async function check(known) {
  const { status, json } = await find(known.id)
  const why = `${known.id} ${known.state}, ${known.underWay ?? 'nothing'} under way: now ${status} ${json.state}`
  if (known.state === 'killed') return assert.equal(status, 404, why)
  if (status === 404) {
    assert.ok(known.state !== 'paused' || ['resume', 'kill'].includes(known.underWay), why)
    return false
  }
  assert.equal(json.state, 'paused', why)
  assert.ok(known.state !== 'running' || known.underWay === 'pause', why)
  known.sandbox = await connect(known.id).catch((e) => assert.fail(`${why}: ${e.message}`))
  const now = await getGeneration(known.sandbox)
  const numbers = known.underWay === 'set' ? [known.number, known.next] : [known.number]
  const is = `${why}: ${JSON.stringify(now)} after ${numbers}`
  if (now.nonce) {
    assert.equal(now.nonce, known.nonce, is)
    assert.equal(now.memory, now.file, is)
    assert.equal(now.memory, known.number, is)
    assert.ok(known.state === 'paused' || known.underWay === 'pause', is)
  } else {
    assert.ok(known.state !== 'paused' || !known.memory || !known.nonce || known.underWay === 'resume', is)
    if (known.state === 'paused' && !known.underWay) assert.equal(now.file, known.number, is)
  }
  return true
}

/** Restored exactly; those whose sandbox went on since, too. */
async function checkSnapshot({ id, number, nonce }) {
  const copy = await Sandbox.create(id, { timeoutMs: 60_000 })
  assert.deepEqual(await getGeneration(copy), { nonce, memory: number, file: number }, `snapshot ${id}`)
  await copy.kill()
  await acknowledged('delete', api(machine.server, 'DELETE', `/templates/${encodeURIComponent(id)}`))
}

async function killAll() {
  for (const id of await list()) await acknowledged('kill', api(machine.server, 'DELETE', `/sandboxes/${id}`))
}

async function begin() {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
  return new Known(sandbox, (await holdGeneration(sandbox)).nonce)
}

/** Sandboxes live until the cut; what there is after the boot is checked, and ended. -> counts */
async function round(random, seed) {
  const known = await Promise.all([begin(), begin(), begin()])
  const lives = known.map((k) => live(k, random).catch(() => {})) // of the cut
  await new Promise((done) => setTimeout(done, 50 + random(700)))
  const counts = await machine.cut(seed, [0, 0, 50, 90, 100][random(5)])
  await Promise.all(lives)
  await boot()
  const there = await list()
  const kept = await Promise.all(known.map(check))
  for (const id of there) assert.ok(known.some((k) => k.id === id), `${id} is nobody's`)
  const snapshots = known.flatMap((k) => k.snapshots)
  for (const snapshot of snapshots) await checkSnapshot(snapshot)
  await killAll()
  return { counts, kept: kept.filter(Boolean).length, snapshots: snapshots.length, acknowledged: known.filter((k) => k.state === 'paused' && !k.underWay).length }
}

cases('cut at random moments', async (t) => {
  const rounds = Number(process.env.SANDGLASS_POWER_ROUNDS ?? 12)
  const first = Number(process.env.SANDGLASS_POWER_SEED ?? Date.now() % 1_000_000)
  t.diagnostic(`seed ${first}`)
  console.log(`seed ${first}, ${rounds} rounds: SANDGLASS_POWER_SEED, SANDGLASS_POWER_ROUNDS`)
  await killAll()
  const sum = { kept: 0, snapshots: 0, acknowledged: 0 }
  for (let seed = first; seed < first + rounds; seed++) {
    const one = await round(generator(seed), seed).catch((e) => { throw new Error(`seed ${seed}: ${e.message}\n${machine.server?.log.slice(-4000)}`, { cause: e }) })
    for (const key of Object.keys(sum)) sum[key] += one[key]
  }
  console.log(`after ${rounds} cuts: ${sum.kept} sandboxes connected to (${sum.acknowledged} of them paused when the power went), ${sum.snapshots} snapshots restored, all exact`)
})
