// Snapshots and forks of a running sandbox do not disturb it: streams, sockets and pids go on; with many files it is begun
// again.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import test from 'node:test'

import { echoServer } from '../lib/echo.mjs'
import { startReady } from '../lib/inside.mjs'
import { request, webSocket } from '../lib/preview.mjs'
import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const context = await suite()
const { Sandbox, leakless } = context
const megabytes = (n) => `head -c ${n}M /dev/urandom`

const counting = `
import sys, time
i = 0
while True:
    sys.stdout.write("%d\\n" % i)
    sys.stdout.flush()
    i += 1
    if i % 8 == 0: time.sleep(0.0005)
`

// Two connections inside, each with counted messages in both directions; says how far it has got, or what went wrong.
const talking = `
import socket, threading, time, struct, http.server
made = [0, 0]
wrong = []
def full(s, n):
    b = b""
    while len(b) < n:
        p = s.recv(n - len(b))
        if not p: raise EOFError
        b += p
    return b
def say(s):
    i = 0
    while True:
        s.sendall(struct.pack("<Q", i) * 64)
        i += 1
        if i % 32 == 0: time.sleep(0.005) # other tests need the processors, too
def hear(s, who):
    try:
        while True:
            if full(s, 512) != struct.pack("<Q", made[who]) * 64: raise ValueError(made[who])
            made[who] += 1
    except Exception as e: wrong.append(repr(e))
ln = socket.create_server(("127.0.0.1", 5555))
a = socket.create_connection(("127.0.0.1", 5555))
b = ln.accept()[0]
for f, args in ((say, (a,)), (say, (b,)), (hear, (a, 0)), (hear, (b, 1))): threading.Thread(target=f, args=args, daemon=True).start()
class Answer(http.server.BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(repr((wrong, made)).encode())
server = http.server.ThreadingHTTPServer(("127.0.0.1", 5556), Answer)
print("ready", flush=True)
server.serve_forever()
`

/** Counted lines of a command, as they come; .wrong: what did not follow. */
async function countedLines(sandbox) {
  const seen = { next: 0, wrong: [], rest: '', over: null }
  await sandbox.files.write('count.py', counting)
  seen.handle = await sandbox.commands.run('exec python3 count.py', {
    background: true,
    timeoutMs: 0,
    onStdout: (text) => {
      const lines = (seen.rest + text).split('\n')
      seen.rest = lines.pop()
      for (const line of lines) {
        if (line !== String(seen.next)) seen.wrong.push([line, seen.next])
        seen.next = Number(line) + 1
      }
    },
  })
  seen.handle.wait().then((r) => (seen.over = r), (e) => (seen.over = e))
  return seen
}

/** Texts that go through a WebSocket and come back, one after the other. */
async function pingPong(socket) {
  const seen = { count: 0, wrong: [], over: false }
  socket.on('close', () => (seen.over = true))
  socket.on('message', (data) => {
    if (data.toString() !== `message ${seen.count}`) seen.wrong.push(data.toString())
    socket.send(`message ${++seen.count}`)
  })
  await new Promise((done, fail) => socket.once('open', done).once('error', fail))
  socket.send('message 0')
  return seen
}

test('ten snapshots: what is under way in the original goes on, nothing lost and nothing twice', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
  await sandbox.files.write('echo.cjs', echoServer)
  await sandbox.files.write('talk.py', talking)
  await sandbox.commands.run('exec node echo.cjs 3000 127.0.0.1', { background: true, timeoutMs: 0 })
  await startReady(sandbox, 'exec python3 talk.py')
  await until('the echo', async () => (await request(context, sandbox, 3000)).status === 200)
  const lines = await countedLines(sandbox)
  const socket = webSocket(context, sandbox, 3000, '/live')
  const texts = await pingPong(socket)
  const stdin = await sandbox.commands.run('cat', { background: true, timeoutMs: 0, stdin: true })
  const ids = []
  let sent = ''
  for (let i = 0; i < 10; i++) {
    const before = [lines.next, texts.count]
    const line = `line ${i} ${'x'.repeat(2000)}\n`
    const [{ snapshotId }] = await Promise.all([sandbox.createSnapshot(), sandbox.commands.sendStdin(stdin.pid, line)])
    ids.push(snapshotId)
    sent += line
    await until('more of everything', () => lines.next > before[0] && texts.count > before[1])
  }
  await until('all that was sent', () => stdin.stdout.length >= sent.length)
  assert.equal(stdin.stdout, sent)
  assert.deepEqual([lines.wrong, lines.over, texts.wrong, texts.over], [[], null, [], false])
  const said = async () => (await request(context, sandbox, 5556)).body
  const first = await said()
  assert.match(first, /^\(\[\], /)
  await until('more inside', async () => (await said()) !== first)
  assert.match(await said(), /^\(\[\], /)
  const copy = await Sandbox.create(ids[4])
  assert.match((await request(context, copy, 5556)).body, /^\(\[\], /) // both ends of it are in the copy
  socket.close()
  await copy.kill()
  await sandbox.kill()
  for (const id of ids) assert.equal(await Sandbox.deleteSnapshot(id), true)
}))

test('uploads and downloads go on while copies are made', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
  await sandbox.commands.run(`mkdir -p /dev/shm/d; ${megabytes(12)} > /dev/shm/d/down`)
  const sum = (await sandbox.commands.run('sha256sum < /dev/shm/d/down')).stdout.split(' ')[0]
  const up = Buffer.alloc(6 << 20, 'counted bytes ')
  let going = true
  const transfers = (async () => {
    for (let n = 0; going || n < 2; n++) {
      const [, down] = await Promise.all([
        sandbox.files.write('/dev/shm/d/up', new Blob([up])),
        sandbox.files.read('/dev/shm/d/down', { format: 'bytes' }),
      ])
      assert.equal(createHash('sha256').update(down).digest('hex'), sum)
      const there = (await sandbox.commands.run('sha256sum < /dev/shm/d/up')).stdout.split(' ')[0]
      assert.equal(there, createHash('sha256').update(up).digest('hex'))
    }
  })()
  for (let i = 0; i < 4; i++) {
    const [copy] = await sandbox.fork()
    if (copy instanceof Error) throw copy
    await copy.kill()
  }
  going = false
  await transfers
  await sandbox.kill()
}))

test('copies have every kind of file as it was', leakless(async () => {
  const sandbox = await Sandbox.create()
  await sandbox.commands.run(`set -e
    mkdir -p t/deep/er t/opaque && cd t
    echo one > plain; ln plain second; ln -s plain soft; ln -s /nowhere broken; mkfifo pipe
    truncate -s 100M sparse; printf end >> sparse; touch -d 2001-02-03T04:05:06 old; chmod 4751 old
    cp /bin/true capable; setcap cap_net_bind_service+ep capable 2>/dev/null || true
    python3 -c 'import os; os.setxattr("plain", "user.mark", b"x\\\\0y")' || true
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
    head -c 300000 /dev/urandom > deep/er/random
    rm -rf /usr/share/perl5 && mkdir /usr/share/perl5 && echo new > /usr/share/perl5/only
    rm /etc/hostname; mv /usr/share/doc/bash /usr/share/doc/moved; chown 1234:4321 deep
  `, { user: 'root', cwd: '/root' })
  const look = `cd /root/t; find . /usr/share/perl5 /usr/share/doc/moved -printf '%p %y %m %U %G %n %s %T@ %l\\n' | sort
    find . -type f | sort | xargs sha256sum; getcap -r . 2>/dev/null; du -k sparse | cut -f1
    python3 -c 'import os; print([(n, os.listxattr(n)) for n in sorted(os.listdir("."))])'
    ls /etc/hostname /usr/share/doc/bash 2>&1; true`
  const seen = async (box) => (await box.commands.run(look, { user: 'root' })).stdout
  const before = await seen(sandbox)
  assert.match(before, /plain f 644 0 0 2 4 /)
  const [one] = await sandbox.fork()
  assert.equal(await seen(one), before)
  const [two] = await one.fork() // of a copy that has written nothing
  assert.equal(await seen(two), before)
  assert.equal(await seen(sandbox), before)
  await Promise.all([sandbox, one, two].map((s) => s.kill()))
}))

test('with many files it is begun again, and its streams are cut; then it is small', leakless(async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 200_000 })
  await sandbox.commands.run(`${megabytes(20)} > large`)
  const sum = async (box) => (await box.commands.run('sha256sum < large')).stdout
  const before = await sum(sandbox)
  const lines = await countedLines(sandbox)
  await until('a line', () => lines.next > 0)
  const [copy] = await sandbox.fork()
  await until('the end of the stream', () => lines.over)
  assert.ok(lines.over instanceof Error)
  assert.deepEqual(lines.wrong, [])
  assert.deepEqual([await sum(sandbox), await sum(copy)], [before, before])
  assert.match((await copy.commands.run('pgrep -f count.py')).stdout, /^\d+\n$/)
  let heard = ''
  const again = await sandbox.commands.connect(lines.handle.pid, { onStdout: (text) => (heard += text), timeoutMs: 0 })
  let over
  again.wait().then(() => (over = 'ended'), (e) => (over = e))
  const { snapshotId } = await sandbox.createSnapshot() // what was large is a layer now
  const had = heard.length
  await until('more of it', () => heard.length > had)
  assert.equal(over, undefined)
  const other = await Sandbox.create(snapshotId)
  assert.equal(await sum(other), before)
  await Promise.all([sandbox, copy, other].map((s) => s.kill()))
  await Sandbox.deleteSnapshot(snapshotId)
}))

test('several at once, and a kill in between', leakless(async () => {
  const sandbox = await Sandbox.create()
  await sandbox.commands.run('echo here > state')
  const made = await Promise.all([sandbox.createSnapshot(), sandbox.fork({ count: 2 }), sandbox.createSnapshot(), sandbox.commands.run('cat state')])
  assert.equal(made[3].stdout, 'here\n')
  for (const copy of made[1]) assert.equal((await copy.commands.run('cat state')).stdout, 'here\n')
  const late = sandbox.createSnapshot().then((s) => s.snapshotId, () => null)
  await sandbox.kill()
  const id = await late
  await Promise.all(made[1].map((s) => s.kill()))
  for (const snapshot of [made[0].snapshotId, made[2].snapshotId, id]) if (snapshot) await Sandbox.deleteSnapshot(snapshot)
}))
