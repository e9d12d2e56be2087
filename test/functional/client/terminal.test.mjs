// pty.*: create, input, size, kill, leaving and coming back.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { CommandExitError, NotFoundError, TimeoutError, withSandbox } = await suite()
const bytes = (text) => new TextEncoder().encode(text)

/** What a terminal printed so far, and a wait for more of it. */
function screen({ keep = Infinity } = {}) {
  const decoder = new TextDecoder()
  let text = ''
  let wake = () => {}
  const onData = (data) => {
    text += decoder.decode(data, { stream: true })
    if (text.length > keep) text = text.slice(-keep)
    wake()
  }
  const shows = async (pattern) => {
    const late = setTimeout(() => wake('late'), 15_000)
    for (let how; !pattern.test(text); how = await new Promise((done) => (wake = done)))
      if (how === 'late') assert.fail(`no ${pattern} in ${JSON.stringify(text.slice(-4000))}`)
    clearTimeout(late)
  }
  return { onData, shows, get text() { return text } }
}

async function open(sandbox, { keep, ...options } = {}) {
  const seen = screen({ keep })
  const handle = await sandbox.pty.create({ cols: 80, rows: 24, onData: seen.onData, timeoutMs: 30_000, ...options })
  return { handle, seen, send: (text) => sandbox.pty.sendInput(handle.pid, bytes(text)) }
}

test('variables, directory, and the exit code of the shell', withSandbox(async (sandbox) => {
  const { handle, seen, send } = await open(sandbox, { envs: { ABC: '123' }, cwd: '/tmp' })
  await send('echo "<$ABC>" "<$PWD>" "<$TERM>" "<$LANG>"; whoami; tty\nexit\n')
  assert.equal((await handle.wait()).exitCode, 0)
  assert.match(seen.text, /<123> <\/tmp> <xterm-256color> <C.UTF-8>\r\nuser\r\n\/dev\/pts\/\d+\r\n/)
  const failing = await open(sandbox)
  await failing.send('exit 9\n')
  await assert.rejects(failing.handle.wait(), (e) => e instanceof CommandExitError && e.exitCode === 9)
}))

test('the size is what was asked for, and follows a resize', withSandbox(async (sandbox) => {
  const { handle, seen, send } = await open(sandbox)
  await send('echo "is $(tput cols) $(tput lines)"\n')
  await seen.shows(/is 80 24\r/)
  await sandbox.pty.resize(handle.pid, { cols: 100, rows: 40 })
  await send('echo "now $(tput cols) $(tput lines)"; exit\n')
  assert.equal((await handle.wait()).exitCode, 0)
  assert.match(seen.text, /now 100 40\r/)
}))

test('resized before any input', withSandbox(async (sandbox) => {
  const { handle, seen, send } = await open(sandbox)
  await sandbox.pty.resize(handle.pid, { cols: 100, rows: 24 })
  await send('tput cols\nexit\n')
  await handle.wait()
  assert.match(seen.text, /^100\r$/m)
}))

test('control characters act on the foreground command', withSandbox(async (sandbox) => {
  const { handle, seen, send } = await open(sandbox)
  const cat = async (name) => {
    await send(`echo re''ady ${name}; cat; echo "${name} ended $?"\n`)
    await seen.shows(new RegExp(`ready ${name}\r`)) // from here on the tty belongs to cat
  }
  await cat('one')
  await send('ünd\n')
  await seen.shows(/ünd\r\nünd\r\n/) // its echo, then what cat printed
  await send('\x03')
  await seen.shows(/\^C[^]*\$ /) // the shell's prompt: until then it drops what is typed
  await cat('two')
  await send('\x04')
  await seen.shows(/two ended 0\r/)
  assert.doesNotMatch(seen.text, /one ended \d/)
  await send('exit\n')
  assert.equal((await handle.wait()).exitCode, 0)
}))

test('kill ends it and its pid is gone; nobody there is false', withSandbox(async (sandbox) => {
  const { handle } = await open(sandbox)
  assert.ok((await sandbox.commands.list()).some((p) => p.pid === handle.pid))
  assert.equal(await sandbox.pty.kill(handle.pid), true)
  await assert.rejects(handle.wait(), CommandExitError)
  await assert.rejects(sandbox.commands.run(`kill -0 ${handle.pid}`), CommandExitError)
  assert.equal(await sandbox.pty.kill(999999), false)
  await assert.rejects(sandbox.pty.resize(999999, { cols: 1, rows: 1 }), NotFoundError)
  await assert.rejects(sandbox.pty.connect(999999, { onData() {} }), NotFoundError)
}))

test('left and joined again: only what is new, and the exit code', withSandbox(async (sandbox) => {
  const { handle, seen, send } = await open(sandbox, { timeoutMs: 0 })
  await send('export KEPT=yes; echo "first $((6 * 7))"\n')
  await seen.shows(/first 42/)
  await handle.disconnect()
  const second = screen()
  const again = await sandbox.pty.connect(handle.pid, { onData: second.onData })
  assert.equal(again.pid, handle.pid)
  await sandbox.pty.sendInput(handle.pid, bytes('echo "second $KEPT"; exit\n'))
  assert.equal((await again.wait()).exitCode, 0)
  assert.match(second.text, /second yes\r/)
  assert.doesNotMatch(second.text, /first 42/)
  assert.doesNotMatch(seen.text, /second yes/)
}))

test('one that prints without end: others are served, Ctrl-C ends the flood, leaving it does not', withSandbox(async (sandbox) => {
  const { handle, seen, send } = await open(sandbox, { timeoutMs: 0, keep: 2000 })
  await send('yes "a flood of lines"\n')
  await seen.shows(/^[^$]{2000}$/)
  for (let i = 0; i < 5; i++) assert.equal((await sandbox.commands.run(`echo ${i}`)).stdout, `${i}\n`)
  await send('\x03')
  await seen.shows(/\$ $/) // the prompt: until then what is typed is dropped
  await send('echo after$((1 + 1))\n')
  await seen.shows(/after2\r/)
  await send('yes "a second one"\n')
  await seen.shows(/second one\r\n/)
  await handle.disconnect() // now nobody listens, and it goes on
  await sandbox.files.write('while.txt', 'it floods')
  assert.equal((await sandbox.commands.run('cat while.txt; pgrep -xc yes')).stdout, 'it floods1\n')
  assert.equal(await sandbox.pty.kill(handle.pid), true)
  await sandbox.commands.run('while pgrep -x yes; do sleep 0.02; done') // its terminal went with it
}))

test('over its time: TimeoutError', withSandbox(async (sandbox) => {
  await assert.rejects(async () => (await open(sandbox, { timeoutMs: 500 })).handle.wait(), TimeoutError)
}))
