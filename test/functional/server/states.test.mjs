// Programs that hold every kind of state: all of it is there after a pause, whether the memory came back from disk
// (no warm budget here, so it always does) or the sandbox was paused again and again.
import assert from 'node:assert/strict'
import test, { after } from 'node:test'

import { leakless as counted, pausedRecord } from '../lib/census.mjs'
import { hold, holdEverything, openTerminal, reopenTerminal, startPostgres, startReady } from '../lib/inside.mjs'
import { postgresArchive } from '../lib/postgres.mjs'
import { webSocket } from '../lib/preview.mjs'
import { Server } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const server = await Server.start({ settings: { warm_mb: 0 } })
after(() => server.cleanUp())
Object.assign(process.env, clientEnvironment(server, 'http'))
const { Sandbox } = await import('e2b')
const context = { server, transport: 'http' }

async function cycle(sandbox) {
  assert.equal(await sandbox.pause(), true)
  assert.ok(pausedRecord(server, sandbox.sandboxId)?.checkpoint, 'its memory is on disk')
  await sandbox.connect({ timeoutMs: 200_000 })
}

const withSandbox = (body, options = {}) =>
  counted(server, async (t) => {
    const sandbox = await Sandbox.create({ timeoutMs: 200_000, ...options })
    try {
      await body(sandbox, t)
    } finally {
      await sandbox.kill()
    }
  })

test('C: files, sockets, memory, processes, signals, timers', withSandbox(async (sandbox) => {
  const ask = await holdEverything(sandbox)
  await ask()
  for (let i = 0; i < 3; i++) {
    await cycle(sandbox)
    await ask()
  }
}))

test('Python: threads, a transaction, a child, a generator; clocks go on', withSandbox(async (sandbox) => {
  const ask = await hold(sandbox, 'python', { port: 8000, args: '64' })
  let last = await ask()
  for (let i = 0; i < 2; i++) {
    await cycle(sandbox)
    const now = await ask()
    assert.ok(now.touched && now.requests === last.requests + 1)
    assert.ok(Math.abs(now.wall - Date.now() / 1000) < 30, 'the wall clock is right')
    assert.ok(now.mono >= last.mono && now.mono - last.mono <= now.wall - last.wall + 1, 'the monotonic clock does not jump')
    last = now
  }
}))

test('node: HTTP and WebSocket server, timers, a child', withSandbox(async (sandbox) => {
  const ask = await hold(sandbox, 'node', { port: 3000 })
  const before = await ask()
  const talk = async (text) => {
    const ws = webSocket(context, sandbox, 3000)
    await new Promise((done, fail) => ws.once('open', done).once('error', fail))
    const answer = new Promise((done, fail) => ws.once('message', (m) => done(String(m))).once('close', () => fail(new Error('closed'))))
    ws.send(text)
    return { ws, number: Number((await answer).split(' ')[1]) }
  }
  const first = await talk('one')
  const cut = new Promise((done) => first.ws.once('close', done).on('error', () => {}))
  await cycle(sandbox)
  await cut // the pause ended it
  const second = await talk('two')
  assert.ok(second.number > first.number)
  second.ws.terminate()
  const after = await ask()
  assert.equal(after.memory, before.memory)
}))

test('python3 -m http.server', withSandbox(async (sandbox) => {
  await sandbox.files.write('index.html', 'hello')
  const command = await sandbox.commands.run('exec python3 -m http.server 8080', { background: true, timeoutMs: 0 })
  command.wait().catch(() => {})
  const get = async () => (await sandbox.commands.run('until curl -sf localhost:8080/; do :; done')).stdout
  assert.equal(await get(), 'hello')
  await cycle(sandbox)
  assert.equal(await get(), 'hello')
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === command.pid))
}))

test('bash with job control in a terminal', withSandbox(async (sandbox) => {
  const first = await openTerminal(sandbox)
  first.handle.wait().catch(() => {})
  await first.send('sleep 1000 & sleep 2000\n')
  await until('the foreground job', async () => (await sandbox.commands.run('pgrep -xf "sleep 2000" || true')).stdout !== '')
  await first.send('\x1a') // ^Z
  await first.shows(/Stopped/)
  await first.send('value=kept; jobs; echo "is $value."\n')
  await first.shows(/is kept\./)
  await cycle(sandbox)
  const second = await reopenTerminal(sandbox, first.handle.pid)
  await second.send('jobs; fg %2\n')
  await second.shows(/Running\s+sleep 1000[^]*Stopped\s+sleep 2000/)
  await second.shows(/sleep 2000\r\n$/m)
  await second.send('\x03') // ^C
  await second.send('kill %1; wait; echo "$value and over"\n')
  await second.shows(/kept and over/)
  await second.send('exit\n')
  assert.equal((await second.handle.wait()).exitCode, 0)
}))

test('vim in a terminal', withSandbox(async (sandbox) => {
  const first = await openTerminal(sandbox)
  first.handle.wait().catch(() => {})
  await first.send('vi -u NONE note.txt\n')
  await first.shows(/note\.txt" \[New/) // not the echo of the command: vim throws away what was typed before
  await first.send('ihalf a sent')
  await first.shows(/half a sent/)
  await cycle(sandbox)
  const second = await reopenTerminal(sandbox, first.handle.pid)
  await second.send('ence\x1b:wq\n') // still in insert mode
  await until('the file', () => sandbox.files.exists('note.txt'))
  await second.send('exit\n')
  assert.equal((await second.handle.wait()).exitCode, 0)
  assert.equal(await sandbox.files.read('note.txt'), 'half a sentence\n')
}))

test('Postgres with an open transaction', withSandbox(async (sandbox, t) => {
  let archive
  try {
    archive = postgresArchive()
  } catch (e) {
    return t.skip(`no packages of Postgres: ${e.message}`)
  }
  await startPostgres(sandbox, archive)
  const sql = (text) => sandbox.commands.run(`echo "${text}" > /tmp/sql`)
  const says = (pattern) => until(pattern, async () => pattern.test(await sandbox.files.read('/tmp/answers')))
  const others = async () => (await sandbox.commands.run(`$(echo /usr/lib/postgresql/*/bin)/psql -h 127.0.0.1 -Atc "select count(*) from kept" postgres`)).stdout
  assert.equal(await others(), '0\n')
  await cycle(sandbox)
  assert.equal(await others(), '0\n') // not committed so far
  await sql("insert into kept values (42); select 'sees ' || sum(n) from kept;")
  await says(/^sees 83$/m)
  await cycle(sandbox)
  await sql("commit; select 'committed ' || sum(n) from kept;")
  await says(/^committed 83$/m)
  assert.equal(await others(), '2\n')
}))

test('twenty times in a row: sums of memory and files', withSandbox(async (sandbox) => {
  const ask = await hold(sandbox, 'python', { port: 8000, args: '32' })
  await sandbox.commands.run('mkdir tree; for i in $(seq 200); do head -c $((i * 97)) /dev/urandom > tree/$i; done')
  const sums = async () => (await sandbox.commands.run('find tree -type f | sort | xargs cat | sha256sum')).stdout
  const files = await sums()
  let last = await ask()
  for (let i = 1; i <= 20; i++) {
    await cycle(sandbox)
    const now = await ask()
    assert.ok(now.touched && now.requests === last.requests + 1, `memory after ${i}`)
    last = now
    assert.equal(await sums(), files, `files after ${i}`)
    await sandbox.commands.run(`echo ${i} >> rounds; mv tree tree.tmp; mv tree.tmp tree`)
  }
  assert.equal((await sandbox.files.read('rounds')).trim().split('\n').length, 20)
}))

test('a command that sleeps over the pause ends after it', withSandbox(async (sandbox) => {
  const command = await startReady(sandbox, 'echo ready; sleep 3; echo slept > slept')
  await cycle(sandbox)
  await until('it ended', () => sandbox.files.exists('slept'))
  assert.ok(!(await sandbox.commands.list()).some((p) => p.pid === command.pid))
}))
