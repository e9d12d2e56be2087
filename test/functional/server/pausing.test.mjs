// Sandboxes at rest, many hands at once: nothing is done twice, nothing is lost, what cannot be done is said.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import test, { after } from 'node:test'

import { cellProcesses, leakless as counted, instanceName, settled, pausedRecord } from '../lib/census.mjs'
import { hold, holdEverything, startReady } from '../lib/inside.mjs'
import { request } from '../lib/preview.mjs'
import { api, createRaw, killRaw } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const server = await Server.start({ settings: { warm_mb: 0 } })
after(() => server.cleanUp())
Object.assign(process.env, clientEnvironment(server, 'http'))
const { Sandbox, SandboxError } = await import('e2b')
const context = { server, transport: 'http' }
const leakless = (body) => counted(server, body)
const post = (id, what, body = {}) => api(server, 'POST', `/sandboxes/${id}/${what}`, { body })
const stateOf = async (id) => (await api(server, 'GET', `/sandboxes/${id}`)).json?.state ?? 'gone'

const withSandbox = (body, options = {}) =>
  leakless(async (t) => {
    const sandbox = await Sandbox.create({ timeoutMs: 200_000, ...options })
    try {
      await body(sandbox, t)
    } finally {
      await sandbox.kill()
    }
  })

test('pause twice at once: both hear that it is paused', withSandbox(async (sandbox) => {
  await sandbox.commands.run('echo kept > /dev/shm/kept')
  const both = await Promise.all([post(sandbox.sandboxId, 'pause'), post(sandbox.sandboxId, 'pause')])
  assert.deepEqual(both.map((a) => a.status), [204, 204])
  assert.equal((await post(sandbox.sandboxId, 'pause')).status, 409)
  await sandbox.connect()
  assert.equal((await sandbox.commands.run('cat /dev/shm/kept')).stdout, 'kept\n')
}))

test('resume many times at once: it comes back once', withSandbox(async (sandbox) => {
  const ask = await hold(sandbox, 'python', { port: 8000 })
  await ask()
  await sandbox.pause()
  const all = await Promise.all(Array.from({ length: 8 }, () => Sandbox.connect(sandbox.sandboxId)))
  assert.deepEqual(new Set(all.map((s) => s.sandboxId)), new Set([sandbox.sandboxId]))
  assert.equal((await ask()).requests, 2)
}))

test('pause while it is being paused, connect waits and brings it back', withSandbox(async (sandbox) => {
  await sandbox.commands.run('echo kept > /dev/shm/kept')
  const connect = () => api(server, 'POST', `/v2/sandboxes/${sandbox.sandboxId}/connect`, { body: {} })
  const both = async () => {
    const pausing = post(sandbox.sandboxId, 'pause')
    const connected = connect()
    assert.equal((await pausing).status, 204)
    assert.ok([200, 201].includes((await connected).status))
    return stateOf(sandbox.sandboxId)
  }
  let state = await both()
  for (let i = 0; i < 10 && state === 'paused'; i++) { // they are two connections: the later request came first
    assert.equal((await connect()).status, 201)
    state = await both()
  }
  assert.equal(state, 'running')
  assert.equal((await sandbox.commands.run('cat /dev/shm/kept')).stdout, 'kept\n')
}))

test('kill while it is being paused, and while it comes back', leakless(async () => {
  for (const what of ['pause', 'resume']) {
    const { sandboxID } = await createRaw(server)
    if (what === 'resume') assert.equal((await post(sandboxID, 'pause')).status, 204)
    const under = post(sandboxID, what)
    assert.equal((await killRaw(server, sandboxID)).status, 204)
    const { status } = await under
    assert.ok([201, 204, 404, 409].includes(status), `${what}: ${status}`)
    await until('it is gone', async () => (await stateOf(sandboxID)) === 'gone')
    assert.equal((await killRaw(server, sandboxID)).status, 404)
  }
}))

test('pause as soon as it is there', leakless(async () => {
  const { sandboxID } = await createRaw(server)
  assert.equal((await post(sandboxID, 'pause')).status, 204)
  const back = await post(sandboxID, 'connect', { timeout: 60 })
  assert.equal(back.status, 201, back.body)
  await killRaw(server, sandboxID)
}))

test('pause during heavy writing: files and the writer agree', withSandbox(async (sandbox) => {
  const writer = `import os, time
f = open('/home/user/numbers', 'w', buffering=1)
print('ready', flush=True)
n = 0
while True:
    n += 1
    f.write(f'{n}\\n')
    if n % 200 == 0:
        open(f'/home/user/piece-{n % 4000}', 'wb').write(os.urandom(50000))
`
  await sandbox.files.write('writer.py', writer)
  await startReady(sandbox, 'exec python3 writer.py')
  for (let i = 0; i < 3; i++) {
    await sandbox.pause()
    await sandbox.connect()
    const { stdout } = await sandbox.commands.run(`awk '$1 != NR { print "hole at " NR; exit 1 } END { print NR }' <(head -n -1 numbers)`)
    assert.ok(Number(stdout) > 0, stdout)
  }
}))

test('two hundred requests wake one sandbox once', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 200_000, lifecycle: { onTimeout: 'pause', autoResume: true } })
  const ask = await hold(sandbox, 'node', { port: 3000 })
  const before = await ask()
  await sandbox.pause()
  const answers = await Promise.all(Array.from({ length: 200 }, () => request(context, sandbox, 3000)))
  assert.deepEqual([...new Set(answers.map((a) => a.status))], [200])
  const pids = new Set(answers.map((a) => JSON.parse(a.body).pid))
  assert.deepEqual([...pids], [before.pid])
  assert.equal((await ask()).requests, before.requests + 201)
  await sandbox.kill()
}))

test('the wrong token wakes nobody', leakless(async () => {
  const sandbox = await Sandbox.create({ secure: true, network: { allowPublicTraffic: false }, lifecycle: { onTimeout: 'pause', autoResume: true } })
  const { handle } = await hold(sandbox, 'node', { port: 3000 })
  await handle.disconnect() // the client asks for the sandbox's health when a stream breaks, which wakes it
  await sandbox.pause()
  assert.equal((await request(context, sandbox, 3000)).status, 403)
  assert.equal((await request(context, sandbox, 3000, { headers: { 'e2b-traffic-access-token': 'wrong' } })).status, 403)
  assert.equal((await request(context, sandbox, 49983, { path: '/files?path=x', headers: { 'X-Access-Token': 'wrong' } })).status, 403)
  assert.equal(await stateOf(sandbox.sandboxId), 'paused')
  const right = { headers: { 'e2b-traffic-access-token': sandbox.trafficAccessToken } }
  assert.equal((await request(context, sandbox, 3000, right)).status, 200)
  await sandbox.kill()
}))

test('what cannot be saved is named, and goes on untouched', withSandbox(async (sandbox) => {
  const queue = `import ctypes, time
rt = ctypes.CDLL(None, use_errno=True)
q = rt.mq_open(b'/stuck', 0o102, 0o600, None)
assert q >= 0, ctypes.get_errno()
assert rt.mq_send(q, b'text', 4, 0) == 0
print('ready', flush=True)
time.sleep(1000)
`
  await sandbox.files.write('queue.py', queue)
  const holder = await startReady(sandbox, 'exec python3 queue.py')
  const ask = await hold(sandbox, 'python', { port: 8000 })
  const before = await ask()
  const answer = await post(sandbox.sandboxId, 'pause')
  assert.equal(answer.status, 409, answer.body)
  assert.ok(answer.json.message.includes(`pid ${holder.pid} (python3)`), answer.json.message)
  assert.match(answer.json.message, /memory:\s*false/)
  assert.notEqual(answer.json.code, 409) // the client would take that for "paused already"
  await assert.rejects(sandbox.pause(), SandboxError)
  assert.equal(await stateOf(sandbox.sandboxId), 'running')
  assert.equal((await ask()).requests, before.requests + 1)
  await until('no image is left', () => fs.readdirSync(server.file('checkpoints')).length === 0)
  await sandbox.commands.kill(holder.pid)
  await sandbox.commands.run('sudo rm -f /dev/mqueue/stuck')
  assert.equal(await sandbox.pause(), true) // now nothing stands in the way
  await sandbox.connect()
  assert.equal((await ask()).requests, before.requests + 2)
}))

test('without memory it can be paused all the same', withSandbox(async (sandbox) => {
  await sandbox.files.write('queue.py', `import ctypes\nrt = ctypes.CDLL(None)\nq = rt.mq_open(b'/stuck', 0o102, 0o600, None)\nrt.mq_send(q, b'x', 1, 0)\n`)
  await sandbox.commands.run('python3 queue.py; echo kept > kept')
  assert.equal(await sandbox.pause({ keepMemory: false }), true)
  await sandbox.connect()
  assert.equal(await sandbox.files.read('kept'), 'kept\n')
}))

test('paused ones hold no process and no memory', leakless(async () => {
  const before = await settled(server)
  const made = await Promise.all(Array.from({ length: 12 }, () => createRaw(server)))
  const paused = await Promise.all(made.map((s) => post(s.sandboxID, 'pause')))
  assert.ok(paused.every((a) => a.status === 204))
  await until('only the pool', () => cellProcesses(instanceName(server.data)).filter((p) => p.state !== 'Z').length <= before.processes)
  for (const { sandboxID } of made) {
    assert.ok(pausedRecord(server, sandboxID), 'at rest')
    assert.ok(!fs.existsSync(server.file(`sandboxes/${sandboxID}/running.json`)))
  }
  for (const { sandboxID } of made) await killRaw(server, sandboxID)
}))

test('chains of layers are kept short, under what has their files open', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 200_000 })
  const ask = await holdEverything(sandbox)
  const rounds = 19
  for (let i = 0; i < rounds; i++) {
    await sandbox.commands.run(`echo ${i} > file-${i}; echo ${i} >> all; mkdir -p d/${i}; rm -rf d/${i - 3}`)
    const { snapshotId } = await sandbox.createSnapshot()
    await Sandbox.deleteSnapshot(snapshotId)
  }
  await sandbox.pause()
  const sealed = () => fs.readdirSync(server.file('sealed')).filter((n) => n.startsWith('u-')).length
  await until(() => `few layers: ${sealed()}`, () => sealed() < 10)
  await sandbox.connect()
  await ask()
  const seen = await sandbox.commands.run('cat file-* | sort -n | xargs; cat all | wc -l; ls d | sort -n | xargs')
  assert.equal(seen.stdout, `${[...Array(rounds).keys()].join(' ')}\n${rounds}\n${rounds - 3} ${rounds - 2} ${rounds - 1}\n`)
  await sandbox.kill()
}))
