// pause, connect, and what happens at the deadline: processes, memory and files go on where they were.
import assert from 'node:assert/strict'
import test from 'node:test'

import { hold, openTerminal, reopenTerminal } from '../lib/inside.mjs'
import { request } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const context = await suite()
const { Sandbox, SandboxNotFoundError, leakless, withSandbox, server } = context
const near = (date, ms) => assert.ok(Math.abs(date - Date.now() - ms) < 10_000, `${date.toISOString()} is not in about ${ms} ms`)
const stateOf = async (sandbox) => (await Sandbox.getInfo(sandbox.sandboxId)).state
const paused = (sandbox) => until('state paused', async () => (await stateOf(sandbox)) === 'paused')

async function listed(metadata, state) {
  const found = []
  for (const pages = Sandbox.list({ query: { metadata, ...(state ? { state } : {}) } }); pages.hasNext; ) found.push(...(await pages.nextItems()))
  return found.map((s) => [s.sandboxId, s.state])
}

test('a paused sandbox goes on with memory, processes and files', withSandbox(async (sandbox) => {
  const ask = await hold(sandbox, 'python', { port: 8000 })
  await sandbox.files.write('kept.txt', 'kept')
  const before = await ask()
  const token = sandbox.envdAccessToken
  assert.equal(await sandbox.pause(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await stateOf(sandbox), 'paused')
  assert.equal(await sandbox.pause(), false) // it is already

  const again = await Sandbox.connect(sandbox.sandboxId, { timeoutMs: 100_000 })
  assert.equal(again.sandboxId, sandbox.sandboxId)
  assert.equal(again.envdAccessToken, token)
  assert.equal(await again.isRunning(), true)
  const after = await ask(again)
  assert.equal(after.requests, before.requests + 1)
  assert.ok(after.touched)
  assert.equal(await again.files.read('kept.txt'), 'kept')
  near((await again.getInfo()).endAt, 100_000)
  await again.setTimeout(50_000)
  near((await again.getInfo()).endAt, 50_000)

  assert.equal(await sandbox.betaPause(), true)
  await sandbox.connect() // the object of before, with the token of before
  assert.equal((await ask()).requests, before.requests + 2)
  assert.equal(await Sandbox.pause(sandbox.sandboxId), true)
  await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await sandbox.commands.run('echo $KEPT')).stdout, 'yes\n')
}, { envs: { KEPT: 'yes' } }))

test('pause of what is not there', leakless(async () => {
  await assert.rejects(Sandbox.pause('inosuchsandbox0000000'), SandboxNotFoundError)
  const sandbox = await Sandbox.create()
  await sandbox.kill()
  await assert.rejects(sandbox.pause(), SandboxNotFoundError)
  await assert.rejects(Sandbox.connect(sandbox.sandboxId), SandboxNotFoundError)
}))

test('paused ones are listed as such, keep what they were given, and can be killed', leakless(async () => {
  const metadata = { mark: `paused-${process.pid}-${Date.now()}` }
  const sandbox = await Sandbox.create({ metadata, timeoutMs: 200_000 })
  const other = await Sandbox.create({ metadata })
  await sandbox.pause()
  assert.deepEqual(await listed(metadata, ['paused']), [[sandbox.sandboxId, 'paused']])
  assert.deepEqual(await listed(metadata, ['running']), [[other.sandboxId, 'running']])
  assert.equal((await listed(metadata)).length, 2)
  const info = await Sandbox.getInfo(sandbox.sandboxId)
  assert.deepEqual(info.metadata, metadata)
  near(info.endAt, 0) // when it was paused
  await assert.rejects(sandbox.setTimeout(10_000), SandboxNotFoundError)
  await assert.rejects(sandbox.commands.run('true'))
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.kill(), false)
  assert.deepEqual(await listed(metadata), [[other.sandboxId, 'running']])
  await other.kill()
}))

test('without memory: files and token stay, the rest begins anew', withSandbox(async (sandbox) => {
  const boot = async () => (await sandbox.commands.run('cat /proc/sys/kernel/random/boot_id')).stdout
  const first = await boot()
  assert.match(first, /^[0-9a-f-]{36}\n$/)
  const server = await sandbox.commands.run('exec sleep 1000', { background: true, timeoutMs: 0 })
  await sandbox.files.write('kept.txt', 'kept')
  await sandbox.commands.run('echo gone > /dev/shm/gone')
  assert.equal(await sandbox.pause({ keepMemory: false }), true)
  assert.equal(await stateOf(sandbox), 'paused')
  await sandbox.connect()
  assert.notEqual(await boot(), first)
  assert.equal(await sandbox.files.read('kept.txt'), 'kept')
  assert.equal(await sandbox.files.exists('/dev/shm/gone'), false)
  assert.ok(!(await sandbox.commands.list()).some((p) => p.pid === server.pid && p.args.join(' ').includes('sleep 1000')))
  assert.equal((await sandbox.commands.run('echo $GIVEN')).stdout, 'at create\n')
}, { envs: { GIVEN: 'at create' } }))

test('at the deadline: paused when so asked, and woken by connect', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 2_000, lifecycle: { onTimeout: 'pause' } })
  const dies = await Sandbox.create({ timeoutMs: 2_000 })
  await sandbox.commands.run('echo kept > /dev/shm/kept')
  const { lifecycle } = await sandbox.getInfo()
  assert.deepEqual(lifecycle, { onTimeout: 'pause', autoResume: false })
  await paused(sandbox)
  await until('the other gone', async () => !(await listed({})).some(([id]) => id === dies.sandboxId))
  assert.equal(await sandbox.isRunning(), false) // asking does not wake it
  assert.equal(await stateOf(sandbox), 'paused')
  await sandbox.connect({ timeoutMs: 60_000 })
  assert.equal((await sandbox.commands.run('cat /dev/shm/kept')).stdout, 'kept\n')
  await sandbox.setTimeout(0) // the deadline is now
  await paused(sandbox)
  await sandbox.kill()
}))

test('at the deadline without memory', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 2_000, lifecycle: { onTimeout: { action: 'pause', keepMemory: false } } })
  await sandbox.commands.run('echo gone > /dev/shm/gone; echo kept > kept')
  await paused(sandbox)
  await sandbox.connect({ timeoutMs: 60_000 })
  assert.equal(await sandbox.files.read('kept'), 'kept\n')
  assert.equal(await sandbox.files.exists('/dev/shm/gone'), false)
  await sandbox.kill()
}))

test('the first request for a port wakes it, if so asked', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 120_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  const ask = await hold(sandbox, 'node', { port: 3000 })
  const before = await ask()
  assert.deepEqual((await sandbox.getInfo()).lifecycle, { onTimeout: 'pause', autoResume: true })
  await ask.handle.disconnect() // the client asks for the sandbox's health when a stream breaks, which wakes it
  await sandbox.pause()
  assert.equal(await stateOf(sandbox), 'paused')
  const answer = await request(context, sandbox, 3000)
  assert.equal(answer.status, 200, answer.body)
  const after = JSON.parse(answer.body)
  assert.deepEqual([after.pid, after.memory, after.requests], [before.pid, before.memory, before.requests + 1])
  assert.equal(await stateOf(sandbox), 'running')
  near((await sandbox.getInfo()).endAt, 300_000) // at least five minutes
  await sandbox.pause()
  assert.equal((await sandbox.commands.run('echo awake')).stdout, 'awake\n') // the daemon's port is one, too
  await sandbox.kill()
}))

test('without being asked to, it sleeps on', withSandbox(async (sandbox) => {
  await hold(sandbox, 'node', { port: 3000 })
  await sandbox.pause()
  const answer = await request(context, sandbox, 3000)
  assert.equal(answer.status, 502)
  assert.match(answer.body, /The sandbox was not found/)
  assert.equal(await stateOf(sandbox), 'paused')
}))

test('a background command keeps its pid, and its output can be had again', withSandbox(async (sandbox) => {
  const script = 'i=0; while read -r line; do i=$((i+1)); echo "$i $line"; done'
  const command = await sandbox.commands.run(script, { background: true, timeoutMs: 0, stdin: true })
  command.wait().catch(() => {}) // its stream is cut by the pause
  await sandbox.commands.sendStdin(command.pid, 'before\n')
  await until('its output', () => command.stdout.includes('1 before'))
  await sandbox.pause()
  await sandbox.connect()
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === command.pid))
  let out = ''
  const again = await sandbox.commands.connect(command.pid, { onStdout: (text) => (out += text), timeoutMs: 0 })
  await sandbox.commands.sendStdin(command.pid, 'after\n')
  await until(() => `its output: ${out}`, () => out.includes('2 after\n'))
  assert.equal(await again.kill(), true)
}))

test('a terminal survives, with its size and what was typed', withSandbox(async (sandbox) => {
  const first = await openTerminal(sandbox, { cols: 91, rows: 33 })
  first.handle.wait().catch(() => {})
  await first.send('name=kept; cd /tmp; echo "half $((40+1))"\n')
  await first.shows(/half 41/)
  await sandbox.pause()
  await sandbox.connect()
  const second = await reopenTerminal(sandbox, first.handle.pid)
  await second.send('echo "$name $PWD $(tput cols) $(tput lines) end"\n')
  await second.shows(/kept \/tmp 91 33 end/)
  await sandbox.pty.resize(first.handle.pid, { cols: 100, rows: 40 })
  await second.send('echo "now $(tput cols)"; exit 5\n')
  await assert.rejects(second.handle.wait(), (e) => e.exitCode === 5)
}))

test('requests that make no sense', leakless(async () => {
  const sandbox = await Sandbox.create()
  const post = (what, body) => api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/${what}`, { body })
  for (const body of [{ memory: 'yes' }, { memory: 1 }, []]) assert.equal((await post('pause', body)).status, 400, JSON.stringify(body))
  assert.equal((await post('resume', {})).status, 409) // it runs
  const bad = (body) => api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'base', ...body } })
  assert.equal((await bad({ autoPauseMemory: false })).status, 400)
  assert.equal((await bad({ autoPause: true, autoPauseMemory: false, autoResume: { enabled: true } })).status, 400)
  await sandbox.pause()
  const resumed = await post('resume', { timeout: 60 })
  assert.equal(resumed.status, 201, resumed.body)
  assert.equal(resumed.json.sandboxID, sandbox.sandboxId)
  await sandbox.kill()
}))
