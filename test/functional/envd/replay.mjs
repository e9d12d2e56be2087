// Output that was missed, for those who ask for it; and what those who do not ask see.
import { assert, envd, fs, later, main, proc, run, sh, Stream, succeeds, test, until } from './lib.mjs'

const from = (offset) => ({ 'sandglass-replay-from': String(offset) })
const connect = (pid, headers) => new Stream('process.Process/Connect', { process: { pid } }, headers)
const isDone = (file) => () => fs.existsSync(file)
const data = (s) => s.messages.map((m) => m.event.data).filter(Boolean)
/** Pieces follow each other without a hole, beginning at the start event's offset. */
function checkOffsets(s) {
  let at = s.messages[0].event.start.offset
  for (const d of data(s)) {
    assert.equal(d.offset, at + (d.dropped ?? 0))
    at = d.offset + Buffer.from(d.stdout ?? d.stderr ?? d.pty, 'base64').length
  }
  return at
}

test('a client that does not ask gets no replay and no offsets', async () => {
  const s = sh('echo missed; read x; echo seen')
  const pid = await s.pid()
  await s.until(() => s.output().length)
  assert.deepEqual(s.messages[1].event.data, { stdout: Buffer.from('missed\n').toString('base64') })
  s.cut()
  const again = connect(pid)
  await again.pid()
  await succeeds(proc('SendInput', { process: { pid }, input: { stdin: Buffer.from('\n').toString('base64') } }))
  await again.whole()
  assert.deepEqual(again.messages[0], { event: { start: { pid } } })
  assert.equal(String(again.output()), 'seen\n')
  assert.deepEqual(again.last, { exited: true, status: 'exit status 0' })
})

test('a client that asks gets everything from the start', async () => {
  const file = `${envd.dir}/all`
  const s = sh(`echo out; echo err >&2; touch ${file}; read x; echo more`)
  const pid = await s.pid()
  s.cut()
  await until('all is written', isDone(file))
  const again = connect(pid, from(0))
  assert.equal(await again.pid(), pid)
  await again.until(() => again.output().length && again.output('stderr').length)
  await succeeds(proc('SendInput', { process: { pid }, input: { stdin: Buffer.from('\n').toString('base64') } }))
  await again.whole()
  const { next, ...start } = again.messages[0].event.start
  assert.deepEqual(start, { pid, offset: 0, dropped: 0 })
  assert.ok(next <= 8, `${next}: what was written before, as far as the daemon had read it; never what came later`)
  assert.equal(String(again.output()), 'out\nmore\n')
  assert.equal(String(again.output('stderr')), 'err\n')
  assert.equal(checkOffsets(again), 13)
  assert.deepEqual(again.last, { exited: true, status: 'exit status 0', offset: 13 })
})

test('reconnecting where the last stream broke off loses and repeats nothing', async () => {
  const script = 'i=0; while [ $i -lt 400 ]; do echo "line $i"; i=$((i+1)); [ $((i % 20)) = 0 ] && sleep 0.01; done'
  let s = sh(script, { stdin: false }, from(0))
  const pid = await s.pid()
  let text = ''
  let next = 0
  while (!s.last) {
    await s.until(() => data(s).length > 2 || s.last, 'pieces')
    s.cut()
    next = checkOffsets(s)
    text += s.output()
    if (s.last) break
    s = connect(pid, from(next))
    await s.pid()
    const { next: end, ...start } = s.messages[0].event.start
    assert.deepEqual(start, { pid, offset: next, dropped: 0 })
    assert.ok(end >= next)
  }
  assert.equal(text, Array.from({ length: 400 }, (_, i) => `line ${i}\n`).join(''))
  assert.equal(s.last.offset, text.length)
})

test('an ended process is replayed with its end', async () => {
  const r = await run('echo last words; exit 7')
  const again = await connect(r.pid, from(0)).whole()
  assert.equal(String(again.output()), 'last words\n')
  assert.equal(again.last.exitCode, 7)
  assert.equal(again.last.offset, 11)
  assert.deepEqual(again.end, {})
  const tail = await connect(r.pid, from(5)).whole()
  assert.equal(String(tail.output()), 'words\n')
  const none = await connect(r.pid, from(11)).whole()
  assert.equal(String(none.output()), '')
  assert.equal(none.last.exitCode, 7)
})

test('a terminal is replayed too', async () => {
  const s = sh('echo typed; sleep 0.1', { pty: { size: { cols: 80, rows: 24 } } })
  const pid = await s.pid()
  await s.whole()
  assert.equal(String((await connect(pid, from(0)).whole()).output('pty')), 'typed\r\n')
})

test('only the newest MiB is kept, and what is gone is told', async () => {
  const file = `${envd.dir}/big`
  const total = 3_000_000
  const s = sh(`yes | head -c ${total}; touch ${file}; read x`)
  const pid = await s.pid()
  s.cut()
  await until('all is written', isDone(file))
  const again = connect(pid, from(1000))
  const start = (await again.pid(), again.messages[0].event.start)
  assert.equal(start.offset, 1000 + start.dropped)
  await again.until(() => again.output().length === total - start.offset, 'the rest')
  assert.ok(again.output().length > 900_000 && again.output().length <= 1 << 20, again.output().length)
  assert.equal(checkOffsets(again), total)
  assert.equal(String(again.output()), 'y\n'.repeat(total / 2).slice(start.offset))
  await succeeds(proc('SendSignal', { process: { pid }, signal: 'SIGNAL_SIGKILL' }))
  await again.whole()
  assert.equal(again.last.offset, total)
})

test('one who reads the replay slowly holds the process up and loses nothing', async () => {
  const total = 8 << 20
  const s = sh(`head -c ${total} /dev/zero | tr '\\0' z`, { stdin: false })
  const pid = await s.pid()
  await s.until(() => s.output().length > 2 << 20)
  s.rs.pause()
  const slow = connect(pid, from(0))
  await slow.pid()
  slow.rs.pause()
  s.cut()
  await later(200)
  slow.rs.resume()
  await slow.whole()
  assert.equal(slow.messages[0].event.start.offset + slow.output().length, total)
  assert.equal(checkOffsets(slow), total)
  assert.deepEqual(slow.end, {})
})

test('many readers of one replay, one of which leaves in the middle', async () => {
  const r = await run('head -c 1000000 /dev/zero')
  const all = Array.from({ length: 8 }, () => connect(r.pid, from(0)))
  await all[0].pid()
  all[0].cut()
  for (const s of all.slice(1)) assert.equal((await s.whole()).messages[0].event.start.offset + s.output().length, 1000000)
})

test('nonsense in the header is refused, as is an offset beyond the output', async () => {
  const r = await run('echo 1234567')
  for (const bad of ['all', '-1', '1.5', '0x10', '18446744073709551616']) {
    const s = await connect(r.pid, from(bad)).whole()
    assert.equal(s.end.error.code, 'invalid_argument', bad)
  }
  assert.equal((await sh('true', {}, from('x')).whole()).end.error.code, 'invalid_argument')
  const s = await connect(r.pid, from(9)).whole()
  assert.equal(s.end.error.code, 'out_of_range')
  assert.match(s.end.error.message, /9 is beyond the output, which has 8 bytes/)
  assert.equal((await connect(999999, from(0)).whole()).end.error.code, 'not_found')
})

const rss = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${envd.pid}/status`, 'utf8'))[1])

test('memory stays bounded over many processes with much output', async () => {
  await run('head -c 2000000 /dev/zero')
  for (let i = 0; i < 40; i++) await run('head -c 2000000 /dev/zero')
  assert.ok(rss() < 32 << 10, `${rss()} KiB`)
})

test('hundreds of short commands cost next to nothing', async () => {
  const before = rss()
  for (let i = 0; i < 300; i++) await run('echo hello')
  assert.ok(rss() - before < 512, `${rss() - before} KiB`)
})

await main()
