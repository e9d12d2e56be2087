// A disk that stalls for longer than anybody's patience: a data directory on a file system that is frozen for a while.
// Whoever needs no disk goes on; the others wait, and are answered when it is back.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'

import { api, createRaw, envd, killRaw } from '../lib/raw.mjs'
import { Server, temporaryDir } from '../lib/server.mjs'

const stallMs = 6000 // more than the five seconds after which a health check, a metric or a route used to be refused
const thawAfterS = 60 // whatever happens to us
const must = (...argv) => {
  const r = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8' })
  assert.equal(r.status, 0, `${argv.join(' ')}: ${r.stderr}`)
}

class Disk {
  constructor() {
    this.at = temporaryDir('stall')
    this.image = `${this.at}.img`
    must('truncate', '-s', '256M', this.image)
    must('mkfs.ext4', '-q', '-F', this.image)
    must('mount', '-o', 'loop', this.image, this.at)
    fs.chmodSync(this.at, 0o755)
  }
  freeze() {
    must('fsfreeze', '-f', this.at)
    this.watchman = spawn('sh', ['-c', `sleep ${thawAfterS}; fsfreeze -u '${this.at}'`], { stdio: 'ignore', detached: true })
    this.frozen = true
  }
  thaw() {
    if (!this.frozen) return
    spawnSync('fsfreeze', ['-u', this.at])
    process.kill(-this.watchman.pid, 'SIGKILL')
    this.frozen = false
  }
  remove() {
    this.thaw()
    spawnSync('umount', ['-R', '-l', this.at])
    fs.rmSync(this.at, { recursive: true, force: true })
    fs.rmSync(this.image, { force: true })
  }
}

/** store: another place for the store than the disk that stalls. */
async function onDisk({ store = false }, body) {
  const disk = new Disk()
  const elsewhere = store ? temporaryDir('store') : null
  let server
  try {
    if (store) {
      fs.mkdirSync(path.join(disk.at, 'store'))
      must('mount', '--bind', elsewhere, path.join(disk.at, 'store'))
    }
    server = await Server.start({ data: disk.at })
    await body(server, disk)
  } finally {
    disk.thaw()
    await server?.cleanUp()
    disk.remove()
    if (elsewhere) fs.rmSync(elsewhere, { recursive: true, force: true })
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms))

/** What an answer came to, and whether the disk was still frozen then. */
const told = (disk, asked) => asked.then((answer) => ({ status: answer.status, body: answer.body, during: disk.frozen }))

/** A file of the sandbox read through the edge and its daemon, over connections of their own, so by every edge. */
async function reads(server, sandbox) {
  for (let i = 0; i < 8; i++) {
    const answer = await envd(server, sandbox, 'GET', '/files?path=/etc/hostname&username=root')
    assert.equal(answer.status, 200, answer.body)
  }
}

test('the files stall: everything but what needs them goes on', () => onDisk({ store: true }, async (server, disk) => {
  const [first, second, third] = [await createRaw(server), await createRaw(server), await createRaw(server)]
  await reads(server, first)
  disk.freeze()
  const creates = [told(disk, api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'base' } })), told(disk, api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'base' } }))]
  const pauses = told(disk, api(server, 'POST', `/sandboxes/${third.sandboxID}/pause`))
  const end = performance.now() + stallMs
  let rounds = 0
  while (performance.now() < end) {
    await reads(server, first)
    await reads(server, second)
    assert.equal((await api(server, 'GET', '/health')).status, 204)
    assert.equal((await api(server, 'GET', '/v2/sandboxes')).status, 200)
    assert.equal((await api(server, 'GET', `/sandboxes/${first.sandboxID}`)).status, 200)
    assert.equal((await api(server, 'GET', `/sandboxes/${first.sandboxID}/metrics`)).status, 200)
    assert.equal((await api(server, 'POST', `/sandboxes/${first.sandboxID}/timeout`, { body: { timeout: 600 } })).status, 204)
    if (rounds++ === 0) assert.equal((await killRaw(server, second.sandboxID)).status, 204)
    if (rounds === 1) await assert.rejects(reads(server, second))
    if (rounds >= 1) second.sandboxID = first.sandboxID, second.envdAccessToken = first.envdAccessToken
    await pause(200)
  }
  assert.ok(disk.frozen && rounds > 3)
  disk.thaw()
  for (const create of await Promise.all(creates)) assert.deepEqual([create.status, create.during], [201, false], create.body)
  assert.equal((await pauses).status, 204)
  const made = JSON.parse((await creates[0]).body)
  await reads(server, made)
}))

test('everything stalls: the sandboxes go on, requests to the API are answered when it is over', () => onDisk({}, async (server, disk) => {
  const [first, second] = [await createRaw(server), await createRaw(server)]
  await reads(server, first) // every edge knows the way
  await reads(server, second)
  disk.freeze()
  const asked = {
    create: [201, told(disk, api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'base' } }))],
    list: [200, told(disk, api(server, 'GET', '/v2/sandboxes'))],
    get: [200, told(disk, api(server, 'GET', `/sandboxes/${first.sandboxID}`))],
    metrics: [200, told(disk, api(server, 'GET', `/sandboxes/${first.sandboxID}/metrics`))],
    timeout: [204, told(disk, api(server, 'POST', `/sandboxes/${first.sandboxID}/timeout`, { body: { timeout: 600 } }))],
    kill: [204, told(disk, killRaw(server, second.sandboxID))],
    health: [204, told(disk, api(server, 'GET', '/health'))],
    nobody: [502, told(disk, envd(server, { sandboxID: 'i0123456789abcdefghij', envdAccessToken: 'x' }, 'GET', '/health'))],
  }
  const end = performance.now() + stallMs
  while (performance.now() < end) {
    await reads(server, first)
    await pause(200)
  }
  assert.ok(disk.frozen)
  disk.thaw()
  for (const [what, [status, answer]] of Object.entries(asked)) assert.equal((await answer).status, status, `${what}: ${(await answer).body}`)
  assert.equal((await asked.create[1]).during, false)
  await reads(server, JSON.parse((await asked.create[1]).body))
}))
