// A hostile server in a sandbox: what it says costs nobody else anything, and never passes for a whole answer.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import test, { before } from 'node:test'

import { request } from '../lib/preview.mjs'
import { exchange } from '../lib/raw.mjs'
import { RawStream } from '../lib/stream.mjs'
import { suite } from '../lib/suite.mjs'

const context = await suite()
const { Sandbox, leakless, server } = context
const ask = (...args) => request(context, ...args)
const hostile = fs.readFileSync(new URL('../inside/hostile.cjs', import.meta.url), 'utf8')
let box
before(async () => {
  box = await Sandbox.create()
  await box.files.write('hostile.cjs', hostile)
  await box.commands.run('node hostile.cjs 3000', { background: true, timeoutMs: 0 })
  await box.commands.run('until (exec 3<>/dev/tcp/127.0.0.1/3000) 2>/dev/null; do sleep 0.02; done')
})

const edgeMemory = () => server.roles().edge.reduce((sum, pid) => sum + Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]), 0)
const open = (way) => new RawStream(server.port, `GET /${way} HTTP/1.1\r\nHost: ${box.getHost(3000)}\r\n\r\n`)

test('no answer worth the name: 502, as if the port were closed', leakless(async () => {
  const bad = ['endless-headers', 'endless-line', 'endless-status', 'interim-flood', 'early-close', 'reset', 'half-head', 'garbage', 'old', 'two-lengths', 'both-lengths', 'split', 'unasked-upgrade']
  const before = edgeMemory()
  for (const way of bad) {
    const answer = await ask(box, 3000, { path: `/${way}` })
    assert.equal(answer.status, 502, `${way}: ${answer.status} ${answer.body.slice(0, 80)}`)
    const told = JSON.parse(answer.body)
    assert.deepEqual([told.sandboxId, told.code], [box.sandboxId, 502], way)
  }
  assert.equal((await ask(box, 3000, { path: '/fine' })).body, 'fine')
  assert.ok(edgeMemory() < before + 4096, `edge: ${before} -> ${edgeMemory()} KiB`)
}))

test('twenty of each at once, and others are served meanwhile', leakless(async () => {
  const other = await Sandbox.create()
  const before = edgeMemory()
  const storm = ['endless-headers', 'interim-flood', 'early-close', 'short', 'bad-chunk'].flatMap((way) => Array.from({ length: 20 }, () => ask(box, 3000, { path: `/${way}` }).catch((e) => e)))
  for (let i = 0; i < 5; i++) assert.equal((await other.commands.run(`echo ${i}`)).stdout, `${i}\n`)
  await Promise.all(storm)
  assert.ok(edgeMemory() < before + 16_384, `edge: ${before} -> ${edgeMemory()} KiB`)
  await other.kill()
}))

test('an answer that breaks off is broken off, not ended', leakless(async () => {
  for (const way of ['short', 'short-chunk', 'no-last-chunk']) {
    const stream = open(way)
    await stream.closed
    assert.match(stream.text, /^HTTP\/1\.1 200[^]*only this/, way)
    assert.doesNotMatch(stream.body, /(^|\r\n)0\r\n\r\n$/, way)
    await assert.rejects(ask(box, 3000, { path: `/${way}` }), /aborted|hang up|ECONNRESET|Parse Error/, way)
  }
  // Seen together with the head, nothing of it is out yet: an honest 502.
  const answer = await ask(box, 3000, { path: '/bad-chunk' }).catch((e) => e)
  assert.ok(answer.status === 502 || /aborted|hang up|ECONNRESET|Parse Error/.test(answer.message), `${answer.status} ${answer.message}`)
}))

test('more than was announced is not passed on, nor taken for the next answer', leakless(async () => {
  const one = (way) => `GET /${way} HTTP/1.1\r\nHost: ${box.getHost(3000)}\r\n\r\n`
  const stream = new RawStream(server.port, one('long'))
  await stream.until(/\r\n\r\nthis/)
  stream.write(one('fine'))
  await stream.until(/fine$/)
  assert.doesNotMatch(stream.text, /forged/)
  assert.equal(stream.text.match(/HTTP\/1\.1 200/g).length, 2)
  await stream.close()
}))

test('honest but unusual answers arrive', leakless(async () => {
  assert.equal((await ask(box, 3000, { path: '/hints' })).body, 'fine')
  assert.equal((await ask(box, 3000, { path: '/until-close' })).body, 'up to the end')
  const old = await exchange(server.port, `GET /fine HTTP/1.0\r\nHost: ${box.getHost(3000)}\r\n\r\n`)
  assert.deepEqual([old.status, old.body], [200, 'fine'])
}))
