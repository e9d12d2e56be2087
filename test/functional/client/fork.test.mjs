// fork: copies of a running sandbox with its memory; each is somebody of its own.
import assert from 'node:assert/strict'
import test from 'node:test'

import { hold } from '../lib/inside.mjs'
import { request } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const context = await suite()
const { Sandbox, leakless, server } = context

async function forks(sandbox, options) {
  const made = await sandbox.fork(options)
  for (const f of made) if (f instanceof Error) throw f
  return made
}

const killAll = (...all) => Promise.all(all.flat().map((s) => s.kill()))

test('copies go on from the same moment, apart from each other and from the original', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 200_000, metadata: { carried: 'over' } })
  const ask = await hold(sandbox, 'node', { port: 3000 })
  const before = await ask()
  await sandbox.files.write('state', 'common')
  const { endAt } = await sandbox.getInfo()
  const copies = await forks(sandbox, { count: 3 })
  assert.equal(copies.length, 3)
  assert.equal(new Set([sandbox, ...copies].map((s) => s.sandboxId)).size, 4)
  assert.deepEqual((await sandbox.getInfo()).endAt, endAt)
  for (const [i, copy] of copies.entries()) {
    const answer = JSON.parse((await request(context, copy, 3000)).body)
    assert.deepEqual([answer.pid, answer.memory, answer.requests], [before.pid, before.memory, before.requests + 1])
    assert.equal(await copy.files.read('state'), 'common')
    assert.deepEqual((await copy.getInfo()).metadata, { carried: 'over' })
    await copy.files.write('state', `own ${i}`)
  }
  assert.equal(await sandbox.files.read('state'), 'common')
  assert.equal((await ask()).requests, before.requests + 1)
  await sandbox.kill() // the copies do not mind
  for (const [i, copy] of copies.entries()) assert.equal(await copy.files.read('state'), `own ${i}`)
  await killAll(copies)
}))

test('names, tokens, machine id, network and randomness are their own', leakless(async () => {
  const sandbox = await Sandbox.create({ secure: true })
  const [a, b] = await forks(sandbox, { count: 2 })
  const all = [sandbox, a, b]
  const each = async (command) => Promise.all(all.map(async (s) => (await s.commands.run(command)).stdout.trim()))
  const differ = (values, what) => assert.equal(new Set(values).size, all.length, `${what}: ${values}`)
  differ(all.map((s) => s.envdAccessToken), 'token')
  assert.deepEqual(await each('hostname'), all.map((s) => s.sandboxId))
  assert.deepEqual(await each('echo $E2B_SANDBOX_ID'), all.map((s) => s.sandboxId))
  assert.deepEqual(await each('cat /run/e2b/.E2B_SANDBOX_ID'), all.map((s) => s.sandboxId))
  assert.ok((await each('getent hosts $(hostname) >/dev/null && echo known')).every((t) => t === 'known'))
  differ(await each('cat /etc/machine-id'), 'machine id')
  differ(await each('cat /proc/sys/kernel/random/uuid; head -c 16 /dev/urandom | od -An -tx1'), 'random bytes')
  differ(await each('python3 -c "import random; print(random.random())"'), 'random number')
  differ(await each('ip -4 -o addr show dev eth0 | tr -s " " | cut -d" " -f4'), 'address')
  await a.commands.run('exec python3 -m http.server 8080', { background: true, timeoutMs: 0 })
  assert.equal((await a.commands.run('until curl -s -o /dev/null localhost:8080; do :; done; echo up')).stdout, 'up\n')
  await assert.rejects(b.commands.run('curl -s localhost:8080'))
  await killAll(all)
}))

test('a command that runs goes on in each, with streams apart', leakless(async () => {
  const sandbox = await Sandbox.create()
  const script = 'i=0; while read -r line; do i=$((i+1)); echo "$i $line"; done'
  const command = await sandbox.commands.run(script, { background: true, timeoutMs: 0, stdin: true })
  let over
  command.wait().catch((e) => (over = e))
  await sandbox.commands.sendStdin(command.pid, 'before\n')
  await until('its output', () => command.stdout.includes('1 before'))
  const [copy] = await forks(sandbox)
  const heard = await Promise.all([sandbox, copy].map(async (box) => {
    const listener = { out: '' }
    listener.handle = await box.commands.connect(command.pid, { onStdout: (text) => (listener.out += text), timeoutMs: 0 })
    return listener
  }))
  await sandbox.commands.sendStdin(command.pid, 'original\n')
  await copy.commands.sendStdin(command.pid, 'copy\n')
  await until(() => JSON.stringify(heard.map((h) => h.out)), () => heard[0].out.includes('2 original\n') && heard[1].out.includes('2 copy\n'))
  assert.ok(!heard[0].out.includes('copy') && !heard[1].out.includes('original'))
  await until('the first stream', () => command.stdout.includes('2 original\n')) // it went on
  assert.equal(over, undefined)
  await Promise.all(heard.map((h) => h.handle.kill()))
  await killAll(sandbox, copy)
}))

test('copies of copies', leakless(async () => {
  const sandbox = await Sandbox.create()
  await sandbox.commands.run('echo 0 > /dev/shm/depth; echo 0 > depth')
  const line = [sandbox]
  for (let depth = 1; depth <= 4; depth++) {
    const [next] = await forks(line.at(-1))
    assert.equal((await next.commands.run('paste /dev/shm/depth depth')).stdout, `${depth - 1}\t${depth - 1}\n`)
    await next.commands.run(`echo ${depth} > /dev/shm/depth; echo ${depth} > depth`)
    line.push(next)
  }
  for (const [depth, one] of line.entries()) assert.equal((await one.commands.run('cat /dev/shm/depth')).stdout, `${depth}\n`)
  await line[2].pause()
  await line[2].connect()
  assert.equal((await line[2].commands.run('paste /dev/shm/depth depth')).stdout, '2\t2\n')
  await killAll(line)
}))

test('of a paused sandbox, which sleeps on', leakless(async () => {
  const sandbox = await Sandbox.create()
  await sandbox.commands.run('echo kept > /dev/shm/kept; echo kept > kept')
  await sandbox.pause()
  const [copy] = await forks(sandbox)
  assert.equal((await copy.commands.run('cat /dev/shm/kept kept')).stdout, 'kept\nkept\n')
  assert.equal((await Sandbox.getInfo(sandbox.sandboxId)).state, 'paused')
  await copy.commands.run('echo other > /dev/shm/kept')
  await sandbox.connect()
  assert.equal((await sandbox.commands.run('cat /dev/shm/kept')).stdout, 'kept\n')
  await killAll(sandbox, copy)
}))

test('counts that cannot be', leakless(async () => {
  const sandbox = await Sandbox.create()
  const post = (body) => api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/fork`, { body })
  for (const count of [0, -1, 101, 1.5, 'two']) assert.equal((await post({ count })).status, 400, String(count))
  assert.equal((await api(server, 'POST', '/sandboxes/inosuchsandbox0000000/fork', { body: {} })).status, 404)
  const one = await post(undefined)
  assert.equal(one.status, 201, one.body)
  assert.equal(one.json.length, 1)
  await api(server, 'DELETE', `/sandboxes/${one.json[0].sandbox.sandboxID}`)
  await sandbox.kill()
}))
