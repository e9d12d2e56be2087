// commands.*: output, exit codes, environment, stdin, background processes, timeouts.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const { CommandExitError, NotFoundError, TimeoutError, withSandbox } = await suite()

test('text passes unchanged through command and output', withSandbox(async (sandbox) => {
  for (const text of ['Hello, World!', 'äöü 漢字 🎉', "a 'single' \"double\" `tick` $dollar \\back", 'two\nlines\n\nand more'])
    assert.equal((await sandbox.commands.run('printf %s "$TEXT"', { envs: { TEXT: text } })).stdout, text)
}))

test('bytes that are no UTF-8 arrive as the replacement character', withSandbox(async (sandbox) => {
  const { stdout, exitCode } = await sandbox.commands.run(`printf 'a%.0s' $(seq 8191); printf '\\xe2'`)
  assert.equal(exitCode, 0)
  assert.equal(stdout.length, 8192)
  assert.ok(stdout.endsWith('\uFFFD'))
}))

test('a failing command throws with its code and both outputs', withSandbox(async (sandbox) => {
  await assert.rejects(sandbox.commands.run('echo out; echo err >&2; exit 3'), (e) => {
    assert.ok(e instanceof CommandExitError)
    assert.deepEqual([e.exitCode, e.stdout, e.stderr], [3, 'out\n', 'err\n'])
    return true
  })
  await assert.rejects(sandbox.commands.run('no-such-command'), (e) => e.exitCode === 127)
  await assert.rejects(sandbox.commands.run('kill -9 $$'), (e) => e instanceof CommandExitError && e.exitCode !== 0)
}))

test('large output arrives complete and in order', withSandbox(async (sandbox) => {
  const { stdout } = await sandbox.commands.run('seq 1 300000')
  assert.equal(stdout.length, 1988895)
  const numbers = stdout.split('\n')
  assert.equal(numbers.length, 300001)
  assert.ok(numbers.slice(0, -1).every((n, i) => Number(n) === i + 1))
}))

test('variables of the sandbox and of the command', withSandbox(async (sandbox) => {
  const { stdout } = await sandbox.commands.run('echo "$ALL|$MINE|$HOME|$USER"', { envs: { MINE: 'b c' } })
  assert.equal(stdout, 'from create & more|b c|/home/user|user\n')
  assert.equal((await sandbox.commands.run('echo "$MINE"')).stdout, '\n')
  assert.equal((await sandbox.commands.run('python3 -c "import os; print(os.environ[\'ALL\'])"')).stdout, 'from create & more\n')
  assert.equal((await sandbox.commands.run('sudo printenv MINE || true', { envs: { MINE: 'x' } })).stdout, '')
}, { envs: { ALL: 'from create & more' } }))

test('user and working directory', withSandbox(async (sandbox) => {
  assert.equal((await sandbox.commands.run('whoami; echo ~', { user: 'root' })).stdout, 'root\n/root\n')
  assert.equal((await sandbox.commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  await assert.rejects(sandbox.commands.run('pwd', { cwd: '/no/such' }), { name: 'InvalidArgumentError' })
}))

test('many commands at once do not mix their output', withSandbox(async (sandbox) => {
  const results = await Promise.all(Array.from({ length: 20 }, (_, i) => sandbox.commands.run(`for k in 1 2 3; do echo ${i}; done`)))
  results.forEach((r, i) => assert.equal(r.stdout, `${i}\n`.repeat(3)))
}))

test('a command over its time is killed and raises TimeoutError', withSandbox(async (sandbox) => {
  await assert.rejects(sandbox.commands.run('exec sleep 1234', { timeoutMs: 300 }), TimeoutError)
  await assert.rejects(sandbox.commands.run('until ! pgrep -x sleep; do sleep 0.02; done; exit 7'), (e) => e.exitCode === 7)
}))

test('background commands: wait, list, connect, kill', withSandbox(async (sandbox) => {
  const quick = await sandbox.commands.run('echo started; exit 0', { background: true })
  assert.equal((await quick.wait()).stdout, 'started\n')

  const slow = await sandbox.commands.run('sleep 1000', { background: true })
  const other = await sandbox.commands.run('sleep 1001', { background: true })
  const pids = (await sandbox.commands.list()).map((p) => p.pid)
  assert.ok(pids.includes(slow.pid) && pids.includes(other.pid))
  assert.equal((await sandbox.commands.run(`kill -0 ${slow.pid} && echo there`)).stdout, 'there\n')

  const again = await sandbox.commands.connect(slow.pid)
  assert.equal(again.pid, slow.pid)
  assert.equal(await sandbox.commands.kill(slow.pid), true)
  await assert.rejects(again.wait(), CommandExitError)
  assert.equal(await other.kill(), true)
  assert.equal(await sandbox.commands.kill(999999), false)
  await assert.rejects(sandbox.commands.connect(999999), NotFoundError)
  await assert.rejects(sandbox.commands.run(`kill -0 ${slow.pid}`), CommandExitError)
}))

test('a command outlives the client that started it', withSandbox(async (sandbox) => {
  const handle = await sandbox.commands.run('while [ ! -e /tmp/end ]; do sleep 0.02; done; echo alive > /tmp/proof', { background: true, timeoutMs: 0 })
  await handle.disconnect()
  await sandbox.files.write('/tmp/end', '')
  await sandbox.commands.run('until [ -s /tmp/proof ]; do sleep 0.02; done')
  assert.equal(await sandbox.files.read('/tmp/proof'), 'alive\n')
}))

test('standard input: text, end of input, and none by default', withSandbox(async (sandbox) => {
  const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
  await sandbox.commands.sendStdin(cat.pid, 'first ünd\n')
  await sandbox.commands.sendStdin(cat.pid, 'second')
  await sandbox.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'first ünd\nsecond')
  assert.equal((await sandbox.commands.run('cat; echo done')).stdout, 'done\n')
}))

test('standard input: bytes and lines in one piece come out as they went in', withSandbox(async (sandbox) => {
  const all = Uint8Array.from({ length: 256 }, (_, i) => i)
  const hex = await sandbox.commands.run('od -An -v -tx1 | tr -d " \\n"', { background: true, stdin: true })
  await sandbox.commands.sendStdin(hex.pid, all)
  await hex.closeStdin()
  assert.equal((await hex.wait()).stdout, Buffer.from(all).toString('hex'))

  const text = 'line one\nline "two" $HOME `x`\n\n!@#%^&*()_+ ü 漢字 🎉\n'
  const pieces = []
  let arrived
  const first = new Promise((done) => (arrived = done))
  const cat = await sandbox.commands.run('cat', { background: true, stdin: true, onStdout: (piece) => { pieces.push(piece); arrived() } })
  await sandbox.commands.sendStdin(cat.pid, text)
  await first
  assert.deepEqual(pieces, [text])
  await assert.rejects(sandbox.commands.sendStdin(999999, 'x'), NotFoundError)
  await cat.kill()

  const none = await sandbox.commands.run('sleep 30', { background: true })
  await assert.rejects(sandbox.commands.sendStdin(none.pid, 'x'), /stdin not enabled or closed/)
  await none.kill()
}))

test('the time of a background command kills it, that of a second listener only ends the listening', withSandbox(async (sandbox) => {
  assert.equal((await sandbox.commands.run('echo quick', { timeoutMs: 10_000 })).stdout, 'quick\n')
  await assert.rejects(async () => (await sandbox.commands.run('sleep 10', { background: true, timeoutMs: 500 })).wait(), TimeoutError)
  await until('the killed one gone', async () => (await sandbox.commands.list()).length === 0) // either side's clock may be the first
  const lasting = await sandbox.commands.run('sleep 10', { background: true })
  await assert.rejects(async () => (await sandbox.commands.connect(lasting.pid, { timeoutMs: 500 })).wait(), TimeoutError)
  assert.equal(await lasting.kill(), true)
}))

test('what runs is listed as it was asked for, until it ends', withSandbox(async (sandbox) => {
  const handle = await sandbox.commands.run('sleep 30', { background: true, envs: { LISTED: 'yes' }, cwd: '/tmp' })
  const found = (await sandbox.commands.list()).find((p) => p.pid === handle.pid)
  assert.deepEqual([found.cmd, found.args, found.envs, found.cwd], ['/bin/bash', ['-l', '-c', 'sleep 30'], { LISTED: 'yes' }, '/tmp'])
  assert.equal(await handle.kill(), true)
  await assert.rejects(handle.wait(), (e) => e instanceof CommandExitError && e.exitCode === -1 && e.error === 'signal: killed')
  assert.deepEqual(await sandbox.commands.list(), [])
  assert.equal(await handle.kill(), false)
}))

test('two who listen both get all that comes', withSandbox(async (sandbox) => {
  const first = await sandbox.commands.run('while [ ! -e /tmp/go ]; do sleep 0.01; done; seq 1 2000', { background: true })
  const second = await sandbox.commands.connect(first.pid)
  await sandbox.files.write('/tmp/go', '')
  const [a, b] = await Promise.all([first.wait(), second.wait()])
  assert.equal(a.stdout.length, 8893)
  assert.equal(b.stdout, a.stdout)
}))

test('a launcher that leaves a server behind ends when the server lets go of its output', withSandbox(async (sandbox) => {
  const { stdout } = await sandbox.commands.run('(sleep 30 >/dev/null 2>&1 &); echo launched', { timeoutMs: 10_000 })
  assert.equal(stdout, 'launched\n')
  assert.equal((await sandbox.commands.run('pgrep -xc sleep')).stdout, '1\n')
}))

test('a command that signals its group reaches what it started, and no other command', withSandbox(async (sandbox) => {
  const other = await sandbox.commands.run('cat; echo unharmed', { background: true, stdin: true })
  await assert.rejects(sandbox.commands.run('trap "kill 0" EXIT; sleep 1234 & exit 0'), (e) => e instanceof CommandExitError && e.error === 'signal: terminated')
  await assert.rejects(sandbox.commands.run('kill -KILL 0', { user: 'root' }), (e) => e.error === 'signal: killed')
  await assert.rejects(sandbox.commands.run('pgrep -x sleep'), CommandExitError)
  await sandbox.commands.closeStdin(other.pid)
  assert.equal((await other.wait()).stdout, 'unharmed\n')
}))
