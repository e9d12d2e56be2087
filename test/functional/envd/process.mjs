// process.Process: starting, listening, input, signals, terminals.
import { execFileSync } from 'node:child_process'
import { assert, basic, children, envd, envelope, fails, fs, isRoot, later, main, proc, run, sh, start, Stream, succeeds, test, until } from './lib.mjs'

const b64 = (text) => Buffer.from(text).toString('base64')
const isAlive = (pid) => fs.existsSync(`/proc/${pid}`)

test('a command streams start, output and end, and ends well', async () => {
  const s = await sh('echo out; echo err >&2').whole()
  assert.equal(s.rs.statusCode, 200)
  assert.equal(s.rs.headers['content-type'], 'application/connect+json')
  assert.deepEqual(Object.keys(s.messages[0].event), ['start'])
  assert.equal(String(s.output()), 'out\n')
  assert.equal(String(s.output('stderr')), 'err\n')
  assert.deepEqual(s.messages.at(-1), { event: { end: { exited: true, status: 'exit status 0' } } })
  assert.deepEqual(s.end, {})
})

test('an exit code is told in three ways', async () => {
  assert.deepEqual((await run('exit 3')).end, { exitCode: 3, exited: true, status: 'exit status 3', error: 'exit status 3' })
})

test('death by signal is exit code -1 with the name of the signal', async () => {
  assert.deepEqual((await run('kill -9 $$')).end, { exitCode: -1, status: 'signal: killed', error: 'signal: killed' })
  assert.deepEqual((await run('kill -15 $$')).end, { exitCode: -1, status: 'signal: terminated', error: 'signal: terminated' })
  assert.equal((await run('ulimit -c 0; kill -6 $$')).end.status, 'signal: aborted')
  assert.equal((await run('kill -34 $$')).end.status, 'signal: signal 34')
})

test('the reported pid is the process itself', async () => {
  const r = await run('echo $$')
  assert.equal(Number(r.stdout), r.pid)
})

test('an unknown command runs and exits 127 with a word on stderr', async () => {
  const r = await run({ cmd: 'no-such-command' })
  assert.equal(r.exitCode, 127)
  assert.match(r.stderr, /no-such-command: No such file or directory/)
  assert.equal((await run({ cmd: '/no/such/file' })).exitCode, 127)
  assert.equal((await run({ cmd: '' })).exitCode, 127)
})

test('a file that cannot be executed exits 126', async () => {
  const r = await run({ cmd: '/etc/passwd' })
  assert.equal(r.exitCode, 126)
  assert.match(r.stderr, /Permission denied/)
  assert.equal((await run({ cmd: '/tmp' })).exitCode, 126)
})

test('a script without "#!" is given to the shell, with its arguments', async () => {
  const file = `${envd.dir}/script`
  fs.writeFileSync(file, 'echo "$0 $1 $2"\n', { mode: 0o755 })
  assert.equal((await run({ cmd: file, args: ['a b', 'c'] })).stdout, `${file} a b c\n`)
})

test('a command is searched in the PATH of its own environment', async () => {
  fs.mkdirSync(`${envd.dir}/bin`)
  fs.writeFileSync(`${envd.dir}/bin/mine`, '#!/bin/sh\necho found\n', { mode: 0o755 })
  assert.equal((await run({ cmd: 'mine', envs: { PATH: `/nowhere:${envd.dir}/bin` } })).stdout, 'found\n')
  assert.equal((await run({ cmd: 'mine', envs: { PATH: '' } })).exitCode, 127)
})

test('the environment is PATH HOME USER LOGNAME, the defaults, and what the request adds', async () => {
  const r = await run({ cmd: '/usr/bin/env', envs: { A: '1', HOME: '/elsewhere', 'WITH SPACE': 'x=y', EMPTY: '' } })
  const env = Object.fromEntries(r.stdout.trimEnd().split('\n').map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]))
  assert.deepEqual(env, {
    PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', HOME: '/elsewhere', USER: 'root', LOGNAME: 'root',
    E2B_SANDBOX: 'true', A: '1', 'WITH SPACE': 'x=y', EMPTY: '',
  })
})

test('arguments arrive unchanged, without a shell', async () => {
  const args = ['%s|', 'a b', '$HOME', '*', '"quoted"', 'new\nline', 'ünï', '']
  assert.equal((await run({ cmd: '/usr/bin/printf', args })).stdout, args.slice(1).map((a) => `${a}|`).join(''))
})

test('signals, priorities and fds of a process are ordinary ones', async () => {
  const r = await run('cat /proc/self/oom_score_adj; ls /proc/self/fd | tr "\\n" " "; grep -E "^Sig(Blk|Ign)" /proc/self/status; umask; cut -d" " -f19 /proc/self/stat')
  const [oom, fds, blocked, ignored, mask, nice] = r.stdout.trimEnd().split('\n').flatMap((l) => (l.includes('SigBlk') ? [l.split('SigBlk')[0], 'SigBlk' + l.split('SigBlk')[1]] : [l]))
  assert.equal(oom, '100')
  assert.equal(fds.trim(), '0 1 2 3')
  assert.match(blocked, /^SigBlk:\s+0+$/)
  assert.match(ignored, /^SigIgn:\s+0+$/)
  assert.equal(mask, '0022')
  assert.equal(nice, '0')
})

test('a process runs with uid, gid and groups of the user asked for', async () => {
  const r = await run('id -u; id -g; id -G; echo $HOME $USER; cat /proc/self/oom_score_adj', { stdin: false }, basic('daemon'))
  assert.equal(r.stdout, '1\n1\n1\n/usr/sbin daemon\n100\n')
  assert.equal((await run('cat /proc/self/oom_score_adj')).stdout, '100\n')
}, { skip: !isRoot && 'needs root' })

test('an unknown user is unauthenticated, on a stream in its end frame', async () => {
  const s = await start({ cmd: '/bin/true' }, {}, basic('nobody-here')).whole()
  assert.equal(s.rs.statusCode, 200)
  assert.deepEqual(s.messages, [])
  assert.deepEqual(s.end, { error: { code: 'unauthenticated', message: "invalid username: 'nobody-here'" } })
})

test('cwd: given, ~, relative to home; missing and wrong ones are invalid_argument', async () => {
  const pwd = async (cwd) => (await run({ cmd: '/bin/pwd', cwd })).stdout.trim()
  const error = async (cwd, headers) => (await start({ cmd: '/bin/pwd', args: ['-P'], cwd }, {}, headers).whole()).end.error
  assert.equal(await pwd('/usr'), '/usr')
  assert.equal(await pwd('~'), '/root')
  assert.equal(await pwd(''), '/root')
  assert.deepEqual(await error('/no/such/dir'), { code: 'invalid_argument', message: "cwd '/no/such/dir' does not exist" })
  assert.deepEqual(await error('/etc/passwd'), { code: 'invalid_argument', message: "error starting process '/bin/pwd -P': fork/exec /bin/sh: not a directory" })
  if (isRoot)
    assert.deepEqual(await error('/root', basic('daemon')), { code: 'invalid_argument', message: "error starting process '/bin/pwd -P': fork/exec /bin/sh: permission denied" })
})

test('too long arguments fail the start', async () => {
  const s = await start({ cmd: '/bin/true', args: ['x'.repeat(200_000)] }).whole()
  assert.equal(s.end.error.code, 'invalid_argument')
  assert.match(s.end.error.message, /argument list too long$/)
})

test('bytes are passed on raw, whatever they mean', async () => {
  const s = await sh("head -c 8191 /dev/zero | tr '\\0' a; printf '\\342'", { stdin: false }).whole()
  assert.deepEqual(s.output(), Buffer.concat([Buffer.alloc(8191, 'a'), Buffer.from([0xe2])]))
})

test('20 MB of output arrive whole and in order', async () => {
  const s = await sh('seq 1 2500000', { stdin: false }).whole()
  const text = String(s.output())
  assert.ok(text.endsWith('\n2499999\n2500000\n'))
  assert.equal(text.length, 18888896)
  assert.ok(s.messages.every((m) => m.event.data?.stdout === undefined || m.event.data.stdout.length <= 43692))
})

test('the end waits for a grandchild that holds the output open', async () => {
  const s = await sh('(sleep 0.3; echo late) & echo early', { stdin: false }).whole()
  assert.equal(String(s.output()), 'early\nlate\n')
})

test('after SIGKILL the end does not wait for those who hold the output', async () => {
  const s = sh('sleep 30 & echo $!; wait', { stdin: false })
  const pid = await s.pid()
  await s.until(() => s.output().length > 0)
  await succeeds(proc('SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' }))
  await s.whole()
  assert.equal(s.last.status, 'signal: killed')
  process.kill(Number(String(s.output())), 'SIGKILL')
})

test('a signal to one that exited, its output held open, ends it', async () => {
  const s = sh('sleep 30 & echo $!', { stdin: false })
  const pid = await s.pid()
  await s.until(() => s.output().length > 0)
  await until('the shell is reaped', () => !isAlive(pid))
  await succeeds(proc('SendSignal', { process: { pid }, signal: 'SIGNAL_SIGTERM' }))
  await s.whole()
  assert.equal(s.last.status, 'exit status 0')
  process.kill(Number(String(s.output())), 'SIGKILL')
})

test('a client that leaves does not end the process; its output is dropped', async () => {
  const s = sh('yes | head -c 3000000; sleep 0.1; exit 7', { stdin: false })
  const pid = await s.pid()
  s.cut()
  const again = new Stream('process.Process/Connect', { process: { pid } })
  await again.whole()
  assert.equal(again.last.exitCode, 7)
})

test('Connect-Timeout-Ms ends the stream and kills the process', async () => {
  const s = sh('exec sleep 30', { stdin: false }, { 'connect-timeout-ms': '150' })
  const pid = await s.pid()
  await s.whole()
  assert.deepEqual(s.end, { error: { code: 'deadline_exceeded', message: 'context deadline exceeded' } })
  await until('it is killed', () => !isAlive(pid))
})

test('the kill timer holds when the client has left', async () => {
  const s = sh('exec sleep 30', { stdin: false }, { 'connect-timeout-ms': '200' })
  const pid = await s.pid()
  s.cut()
  await until('it is killed', () => !isAlive(pid))
})

test('the timeout of Connect ends only that stream', async () => {
  const s = sh('read x; exit 4')
  const pid = await s.pid()
  const c = await new Stream('process.Process/Connect', { process: { pid } }, { 'connect-timeout-ms': '50' }).whole()
  assert.equal(c.end.error.code, 'deadline_exceeded')
  await succeeds(proc('SendInput', { process: { pid }, input: { stdin: b64('x\n') } }))
  await s.whole()
  assert.equal(s.last.exitCode, 4)
})

test('bad timeouts are refused', async () => {
  for (const bad of ['-1', 'abc', '12345678901', '1.5']) {
    const s = await sh('true', {}, { 'connect-timeout-ms': bad }).whole()
    assert.equal(s.end.error.code, 'invalid_argument', bad)
  }
})

test('keepalives come after silence, and start is always first', async () => {
  const s = await sh('sleep 2.5', { stdin: false }, { 'keepalive-ping-interval': '1' }).whole()
  assert.ok(s.messages[0].event.start)
  assert.equal(s.messages.filter((m) => JSON.stringify(m) === '{"event":{"keepalive":{}}}').length, 2)
})

test('several listeners get all that comes after they joined', async () => {
  const s = sh('read x; echo one; read y; echo two')
  const pid = await s.pid()
  const other = new Stream('process.Process/Connect', { process: { pid } })
  assert.equal(await other.pid(), pid)
  await succeeds(proc('SendInput', { process: { pid }, input: { stdin: b64('\n') } }))
  await other.until(() => other.output().length > 0)
  const third = new Stream('process.Process/Connect', { process: { pid } })
  await third.pid()
  await succeeds(proc('SendInput', { process: { pid }, input: { stdin: b64('\n') } }))
  await Promise.all([s.whole(), other.whole(), third.whole()])
  assert.equal(String(s.output()), 'one\ntwo\n')
  assert.equal(String(other.output()), 'one\ntwo\n')
  assert.equal(String(third.output()), 'two\n')
})

test('a listener that does not read stalls the process and lets it go when it leaves', async () => {
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${envd.pid}/status`, 'utf8'))[1])
  const before = rss()
  const s = sh('head -c 50000000 /dev/zero; echo done >&2', { stdin: false })
  const pid = await s.pid()
  const slow = new Stream('process.Process/Connect', { process: { pid } })
  await slow.pid()
  slow.rs.pause()
  let seen = -1
  await until('output stands still', async () => { const was = seen; seen = s.output().length; await later(150); return was === seen })
  assert.ok(seen < 50_000_000, 'it is stalled')
  assert.ok(isAlive(pid))
  assert.ok(rss() - before < 8_000, `bounded memory: ${rss() - before} kB more`)
  slow.cut()
  await s.whole()
  assert.equal(s.output().length, 50_000_000)
})

test('the end of a process is kept for those who connect late', async () => {
  const r = await run('exit 5')
  const s = await new Stream('process.Process/Connect', { process: { pid: r.pid } }).whole()
  assert.deepEqual(s.messages.map((m) => Object.keys(m.event)[0]), ['start', 'end'])
  assert.equal(s.last.exitCode, 5)
  await fails(proc('SendSignal', { process: { pid: r.pid }, signal: 'SIGNAL_SIGKILL' }), 404, 'not_found')
})

test('connecting to nothing is not_found in the end frame', async () => {
  const s = await new Stream('process.Process/Connect', { process: { pid: 999999 } }).whole()
  assert.equal(s.rs.statusCode, 200)
  assert.deepEqual(s.end, { error: { code: 'not_found', message: 'process with pid 999999 not found' } })
  const t = await new Stream('process.Process/Connect', { process: { tag: 'x' } }).whole()
  assert.equal(t.end.error.message, 'process with tag x not found')
  const u = await new Stream('process.Process/Connect', {}).whole()
  assert.equal(u.end.error.code, 'unimplemented')
})

test('List shows what was asked for, by tag too, and nothing once it ended', async () => {
  assert.deepEqual(await succeeds(proc('List', {})), {})
  const config = { cmd: '/bin/cat', args: ['-'], envs: { A: 'b' }, cwd: '/tmp' }
  const s = start(config, { tag: 'mine' })
  const pid = await s.pid()
  assert.deepEqual(await succeeds(proc('List', {})), { processes: [{ config, pid, tag: 'mine' }] })
  await succeeds(proc('CloseStdin', { process: { tag: 'mine' } }))
  await s.whole()
  assert.deepEqual(await succeeds(proc('List', {})), {})
})

test('stdin: written in order, closed once, closing again is fine', async () => {
  const s = start({ cmd: '/bin/cat' })
  const pid = await s.pid()
  for (const text of ['one ', 'zwei ü ', 'drei\n']) await succeeds(proc('SendInput', { process: { pid }, input: { stdin: b64(text) } }))
  await s.until(() => s.output().length === Buffer.byteLength('one zwei ü drei\n'))
  assert.equal(String(s.output()), 'one zwei ü drei\n')
  await succeeds(proc('CloseStdin', { process: { pid } }))
  await s.whole()
  assert.equal(s.last.status, 'exit status 0')
  await fails(proc('CloseStdin', { process: { pid } }), 404, 'not_found')
})

test('stdin: repeated close, then input fails', async () => {
  const s = sh('cat; sleep 0.3')
  const pid = await s.pid()
  await succeeds(proc('CloseStdin', { process: { pid } }))
  await succeeds(proc('CloseStdin', { process: { pid } }))
  await fails(proc('SendInput', { process: { pid }, input: { stdin: b64('x') } }), 500, 'internal', 'error writing to stdin: stdin not enabled or closed')
  await s.whole()
})

test('stdin: more than a pipe holds waits for the reader, CloseStdin waits for them', async () => {
  const s = sh('sleep 0.5; wc -c')
  const pid = await s.pid()
  const chunk = b64('x'.repeat(100_000))
  const all = [1, 2, 3].map(() => succeeds(proc('SendInput', { process: { pid }, input: { stdin: chunk } })))
  await later(50)
  await Promise.all([...all, succeeds(proc('CloseStdin', { process: { pid } }))])
  await s.whole()
  assert.equal(String(s.output()).trim(), '300000')
})

test('stdin: a deadline ends the wait for a reader', async () => {
  const s = sh('exec sleep 30')
  const pid = await s.pid()
  await fails(proc('SendInput', { process: { pid }, input: { stdin: b64('x'.repeat(500_000)) } }, { 'connect-timeout-ms': '100' }), 504, 'deadline_exceeded')
  await succeeds(proc('SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' }))
  await s.whole()
})

test('stdin: disabled, and /dev/null instead', async () => {
  const s = sh('readlink /proc/self/fd/0; sleep 0.3', { stdin: false })
  const pid = await s.pid()
  await fails(proc('SendInput', { process: { pid }, input: { stdin: b64('x') } }), 500, 'internal', 'error writing to stdin: stdin not enabled or closed')
  await s.whole()
  assert.equal(String(s.output()), '/dev/null\n')
})

test('stdin: nobody reads it any more', async () => {
  const s = sh('exec <&-; sleep 0.5')
  const pid = await s.pid()
  await until('its stdin is closed', () => !fs.existsSync(`/proc/${pid}/fd/0`))
  await fails(proc('SendInput', { process: { pid }, input: { stdin: b64('x') } }), 500, 'internal', `error writing to stdin: error writing to stdin of process '${pid}': write |1: broken pipe`)
  await s.whole()
})

test('input without a member, to nobody, of a wrong kind', async () => {
  const s = sh('cat')
  const pid = await s.pid()
  await fails(proc('SendInput', { process: { pid } }), 501, 'unimplemented', 'invalid input type <nil>')
  await fails(proc('SendInput', { process: { pid }, input: {} }), 501, 'unimplemented')
  await fails(proc('SendInput', { process: { pid }, input: { stdin: '!!' } }), 400, 'invalid_argument')
  await fails(proc('SendInput', { process: { pid }, input: { stdin: 7 } }), 400, 'invalid_argument')
  await fails(proc('SendInput', { process: { pid }, input: { pty: b64('x') } }), 500, 'internal', 'error writing to tty: tty not assigned to process — input should be written to the stdin, not the tty')
  await fails(proc('SendInput', { process: { pid: 999999 }, input: { stdin: '' } }), 404, 'not_found', 'process with pid 999999 not found')
  await succeeds(proc('SendInput', { process: { pid: String(pid) }, input: { stdin: '_-8' } }))
  await succeeds(proc('CloseStdin', { process: { pid } }))
  await s.whole()
  assert.deepEqual(s.output(), Buffer.from([0xff, 0xef].slice(0, 2)))
})

test('signals: only KILL and TERM, to that process alone', async () => {
  const s = sh('trap "echo got it; exit 9" TERM; while :; do sleep 0.05; done', { stdin: false })
  const pid = await s.pid()
  await fails(proc('SendSignal', { process: { pid } }), 501, 'unimplemented', 'invalid signal: SIGNAL_UNSPECIFIED')
  await fails(proc('SendSignal', { process: { pid }, signal: 2 }), 501, 'unimplemented')
  await fails(proc('SendSignal', { process: { pid }, signal: 'SIGNAL_BOGUS' }), 400, 'invalid_argument')
  await later(100)
  await succeeds(proc('SendSignal', { process: { pid }, signal: 15 }))
  await s.whole()
  assert.equal(s.last.exitCode, 9)
  assert.equal(String(s.output()), 'got it\n')
  await fails(proc('SendSignal', { process: { pid: 999999 }, signal: 'SIGNAL_SIGKILL' }), 404, 'not_found')
})

test('after a kill the pid is gone at once, no zombie', async () => {
  const s = sh('exec sleep 30', { stdin: false })
  const pid = await s.pid()
  await succeeds(proc('SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' }))
  await s.whole()
  assert.ok(!isAlive(pid))
})

test('orphans of a command are adopted and reaped', async () => {
  const r = await run('(setsid sh -c "sleep 0.2" >/dev/null 2>&1 &) ; true')
  assert.equal(r.exitCode, 0)
  await until('no child is left', () => children().length === 0)
})

test('a terminal: size, echo, input, resize, exit code', async () => {
  const s = start({ cmd: '/bin/bash', args: ['--norc', '-i'], envs: { TERM: 'xterm', PS1: '$ ' } }, { pty: { size: { cols: 80, rows: 24 } } })
  const pid = await s.pid()
  const type = (text) => succeeds(proc('SendInput', { process: { pid }, input: { pty: b64(text) } }))
  const seen = () => String(s.output('pty'))
  await type('stty size\n')
  await s.until(() => seen().includes('24 80'))
  await succeeds(proc('Update', { process: { pid }, pty: { size: { cols: 100, rows: 30 } } }))
  await type('stty size; tty\n')
  await s.until(() => /30 100[^]*\/dev\/pts/.test(seen()))
  await fails(proc('SendInput', { process: { pid }, input: { stdin: b64('x') } }), 500, 'internal', 'error writing to stdin: tty assigned to process — input should be written to the pty, not the stdin')
  await fails(proc('CloseStdin', { process: { pid } }), 500, 'unknown', 'error closing stdin: cannot close stdin for PTY process — send Ctrl+D (0x04) instead')
  await type('exit 6\n')
  await s.whole()
  assert.equal(s.last.exitCode, 6)
  assert.equal(s.output().length + s.output('stderr').length, 0)
})

test('a terminal survives its client, another takes over', async () => {
  const s = start({ cmd: '/bin/bash', args: ['--norc', '-i'] }, { pty: { size: {} } })
  const pid = await s.pid()
  s.cut()
  const again = new Stream('process.Process/Connect', { process: { pid } })
  await again.pid()
  await succeeds(proc('SendInput', { process: { pid }, input: { pty: b64('echo ba""ck; exit\n') } }))
  await again.whole()
  assert.match(String(again.output('pty')), /back/)
  assert.equal(again.last.status, 'exit status 0')
})

const rss = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${envd.pid}/status`, 'utf8'))[1])
const screen = { pty: { size: { cols: 80, rows: 24 } } }
const type = (pid, text) => succeeds(proc('SendInput', { process: { pid }, input: { pty: Buffer.from(text).toString('base64') } }))

test('terminals that print without end and nobody who listens: bounded memory, others are served', async () => {
  const before = rss()
  const pids = []
  for (let i = 0; i < 4; i++) {
    const s = start({ cmd: '/usr/bin/yes', args: ['flood '.repeat(100)] }, screen)
    pids.push(await s.pid())
    s.cut()
  }
  for (let i = 0; i < 20; i++) assert.equal((await run(`echo ${i}`)).stdout, `${i}\n`)
  assert.equal((await succeeds(proc('List', {}))).processes.length, 4)
  for (const pid of pids) assert.ok(isAlive(pid), 'it goes on without listeners')
  assert.ok(rss() - before < 12_000, `${rss() - before} kB more`)
  for (const pid of pids) await succeeds(proc('SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' }))
  await until('all gone', async () => !(await succeeds(proc('List', {}))).processes)
})

test('a terminal that prints without end and a listener that does not read: it is held up, Ctrl-C ends it', async () => {
  const before = rss()
  const s = start({ cmd: '/bin/bash', args: ['--norc', '-i'], envs: { PS1: '> ' } }, screen)
  const pid = await s.pid()
  await type(pid, 'yes; echo "yes ended $?"; exit 3\n')
  await s.until(() => s.output('pty').length > 100_000, 'the flood')
  s.rs.pause()
  const yes = Number(execFileSync('pgrep', ['-P', String(pid), 'yes'], { encoding: 'utf8' }))
  const printed = () => Number(/wchar: (\d+)/.exec(fs.readFileSync(`/proc/${yes}/io`, 'utf8'))[1])
  await until('the flood stands still', async () => { const was = printed(); await later(100); return was === printed() })
  assert.ok(rss() - before < 12_000, `${rss() - before} kB more`)
  assert.equal((await run('echo others')).stdout, 'others\n')
  await type(pid, '\x03')
  await until('yes is gone', () => !isAlive(yes))
  s.rs.resume()
  await type(pid, 'exit 3\n')
  await s.whole()
  assert.equal(s.last.exitCode, 3)
})

test('Update without a terminal', async () => {
  const s = sh('cat')
  const pid = await s.pid()
  await succeeds(proc('Update', { process: { pid } }))
  await fails(proc('Update', { process: { pid }, pty: { size: { cols: 1, rows: 1 } } }), 500, 'internal', 'error resizing tty: tty not assigned to process')
  await fails(proc('Update', { process: { pid: 999999 } }), 404, 'not_found')
  await succeeds(proc('CloseStdin', { process: { pid } }))
  await s.whole()
})

test('StreamInput: start, data, keepalive, in order', async () => {
  const s = start({ cmd: '/bin/cat' })
  const pid = await s.pid()
  const body = Buffer.concat([
    envelope({ start: { process: { pid } } }), envelope({ data: { input: { stdin: b64('a') } } }), envelope({ keepalive: {} }),
    envelope({ data: { input: { stdin: b64('b'.repeat(300_000)) } } }), envelope({ data: { input: { stdin: b64('c') } } }),
  ])
  const input = await new Stream('process.Process/StreamInput', null, {}, body).whole()
  assert.deepEqual([input.messages, input.end], [[{}], {}])
  await succeeds(proc('CloseStdin', { process: { pid } }))
  await s.whole()
  assert.equal(String(s.output()), 'a' + 'b'.repeat(300_000) + 'c')
})

test('StreamInput: data before start, nobody there, half an envelope', async () => {
  const error = async (...parts) => (await new Stream('process.Process/StreamInput', null, {}, Buffer.concat(parts)).whole()).end.error.code
  assert.equal(await error(envelope({ data: { input: { stdin: '' } } })), 'failed_precondition')
  assert.equal(await error(envelope({ start: { process: { pid: 999999 } } })), 'not_found')
  assert.equal(await error(envelope({ keepalive: {} }), Buffer.from([0, 0, 0, 0, 9, 1])), 'invalid_argument')
  assert.equal(await error(envelope({})), 'unimplemented')
})

test('wrong types in Start are named', async () => {
  const error = async (message) => (await new Stream('process.Process/Start', message).whole()).end.error
  for (const [message, field] of [
    [{ process: 'x' }, 'process'], [{ process: { cmd: 1 } }, 'cmd'], [{ process: { cmd: 'x', args: 'y' } }, 'args'],
    [{ process: { cmd: 'x', args: [1] } }, 'args'], [{ process: { cmd: 'x', envs: [] } }, 'envs'],
    [{ process: { cmd: 'x', envs: { A: 1 } } }, 'envs'], [{ process: { cmd: 'x', cwd: {} } }, 'cwd'],
    [{ process: { cmd: 'x' }, stdin: 'yes' }, 'stdin'], [{ process: { cmd: 'x' }, pty: 1 }, 'pty'],
    [{ process: { cmd: 'x' }, pty: { size: { cols: -1 } } }, 'cols'], [{ process: { cmd: 'x' }, pty: { size: { rows: 1.5 } } }, 'rows'],
    [{ process: { cmd: 'x' }, tag: 5 }, 'tag'],
  ]) {
    const e = await error(message)
    assert.equal(e.code, 'invalid_argument', JSON.stringify(message))
    assert.match(e.message, new RegExp(`field ${field}:`))
  }
})

test('200 commands, 20 at a time', async () => {
  const one = async (i) => assert.equal((await run(`echo ${i}`)).stdout, `${i}\n`)
  for (let i = 0; i < 200; i += 20) await Promise.all(Array.from({ length: 20 }, (_, k) => one(i + k)))
})

await main()
