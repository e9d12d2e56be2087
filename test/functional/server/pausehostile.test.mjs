// Sandboxes whose root prepares its own pause and resume: what it set up must not lead out of it, nor hold anybody up.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import test, { after } from 'node:test'

import { leakless as counted, pausedRecord } from '../lib/census.mjs'
import { startReady } from '../lib/inside.mjs'
import { api } from '../lib/raw.mjs'
import { Server, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const server = await Server.start({ settings: { warm_mb: 0 } })
after(() => server.cleanUp())
Object.assign(process.env, clientEnvironment(server, 'http'))
const { Sandbox } = await import('e2b')
const post = (id, what, body = {}) => api(server, 'POST', `/sandboxes/${id}/${what}`, { body })

const withSandbox = (body) =>
  counted(server, async (t) => {
    const sandbox = await Sandbox.create({ timeoutMs: 200_000 })
    try {
      await body(sandbox, t)
    } finally {
      await sandbox.kill()
    }
  })

/** A Python program of root's that says "ready" when it has set its trap. */
const startTrap = (sandbox, lines) => startReady(sandbox, `exec python3 -u -c '${lines.join('\n')}'`, { user: 'root' })

// First: no copy of envd is kept yet.
test('an init that became another program is not what others are woken with', withSandbox(async (sandbox) => {
  // attach to it, and let it call execve("/bin/sleep", {"sleep", "1000"}, {})
  await sandbox.files.write('/tmp/swap.py', [
    'import ctypes, os, struct, time', 'c = ctypes.CDLL(None, use_errno=True)', 'c.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]',
    'assert c.ptrace(16, 1, None, None) == 0, ctypes.get_errno()', 'os.waitpid(1, 0x40000000)',
    'regs = (ctypes.c_ulonglong * 27)()', 'assert c.ptrace(12, 1, None, ctypes.cast(regs, ctypes.c_void_p)) == 0',
    'sp = (regs[19] - 4096) & ~15', 'data = b"/bin/sleep\\0" + b"\\0" * 5 + b"1000\\0" + b"\\0" * 11',
    'data += struct.pack("<QQQ", sp, sp + 16, 0)', 'm = open("/proc/1/mem", "r+b", buffering=0)', 'm.seek(sp)', 'm.write(data)',
    'm.seek(regs[16])', 'm.write(b"\\x0f\\x05\\xcc")',
    'regs[10], regs[14], regs[13], regs[12], regs[15] = 59, sp, sp + 32, sp + 48, 2**64 - 1',
    'assert c.ptrace(13, 1, None, ctypes.cast(regs, ctypes.c_void_p)) == 0', 'c.ptrace(17, 1, None, None)',
    'while "sleep" not in os.readlink("/proc/1/exe"): time.sleep(0.01)', 'open("/tmp/done", "w").write("swapped")', 'time.sleep(1000)',
  ].join('\n'), { user: 'root' })
  const cell = JSON.parse(fs.readFileSync(server.file(`sandboxes/${sandbox.sandboxId}/running.json`)))
  await sandbox.commands.run('setsid python3 /tmp/swap.py > /tmp/swap.log 2>&1 < /dev/null & sleep 1; cat /tmp/swap.log', { user: 'root' }).catch(() => {})
  assert.match(fs.readlinkSync(`/proc/${cell.pid}/exe`), /sleep/)
  await post(sandbox.sandboxId, 'pause')
  for (const name of fs.readdirSync(server.file('envd')))
    assert.equal(createHash('sha256').update(fs.readFileSync(path.join(server.file('envd'), name))).digest('hex'), name)
}))

for (const [what, lines] of Object.entries({
  'a deleted file': ['f = open("/tmp/trap/it", "w+")', 'f.write("x")', 'f.flush()', 'os.unlink("/tmp/trap/it")'],
  'a deleted directory': ['os.mkdir("/tmp/trap/it")', 'd = os.open("/tmp/trap/it", 0)', 'os.rmdir("/tmp/trap/it")'],
  'a deleted link': ['f = open("/tmp/trap/it", "w+")', 'os.link("/tmp/trap/it", "/tmp/other")', 'os.unlink("/tmp/trap/it")'],
  'a deleted socket': ['s = socket.socket(socket.AF_UNIX)', 's.bind("/tmp/trap/it")', 's.listen()', 'os.unlink("/tmp/trap/it")'],
}))
  test(`${what} behind a link to a directory of the host makes nothing there`, withSandbox(async (sandbox) => {
    const open = temporaryDir('open')
    try {
      fs.chmodSync(open, 0o1777)
      await startTrap(sandbox, ['import os, socket, time', 'os.mkdir("/tmp/trap")', ...lines, 'os.rmdir("/tmp/trap")',
        `os.symlink("${open}", "/tmp/trap")`, 'print("ready")', 'time.sleep(1000)'])
      const before = fs.statSync(open, { bigint: true })
      const paused = await post(sandbox.sandboxId, 'pause')
      if (paused.status === 204) await post(sandbox.sandboxId, 'resume') // it may fail: the path is not there any more
      const now = fs.statSync(open, { bigint: true })
      assert.deepEqual(fs.readdirSync(open), [])
      assert.equal(now.mtimeNs, before.mtimeNs)
    } finally {
      fs.rmSync(open, { recursive: true })
    }
  }))

test('nine hundred processes come back; more than can come back are not saved, and go on', withSandbox(async (sandbox) => {
  const count = async () => Number((await sandbox.commands.run('pgrep -xc sleep')).stdout)
  const start = (n) => startReady(sandbox, `bash -c 'for i in $(seq ${n}); do sleep 1000 & done; echo ready; wait'`)
  await start(900)
  assert.equal((await post(sandbox.sandboxId, 'pause')).status, 204)
  await sandbox.connect()
  assert.equal(await count(), 900)
  await start(200)
  const refused = await post(sandbox.sandboxId, 'pause')
  assert.equal(refused.status, 409)
  assert.match(refused.json.message, /it has 11\d\d processes, and no more than 1000 can be saved; pause with memory:false/)
  assert.equal(await count(), 1100)
}))

test('limits are as they were once it is back', withSandbox(async (sandbox) => {
  const id = sandbox.sandboxId
  const group = (name, file) => {
    const { slot } = JSON.parse(fs.readFileSync(server.file(`sandboxes/${id}/running.json`))).namespace
    const { instance } = JSON.parse(fs.readFileSync(server.file('engine.json')))
    const places = [`/sys/fs/cgroup/${name}`, '/sys/fs/cgroup', '/sys/fs/cgroup/unified'].map((p) => `${p}/sandglass-${instance}/${slot}/`)
    const found = places.flatMap((p) => file.map((f) => p + f)).find((p) => fs.existsSync(p))
    return fs.readFileSync(found, 'utf8')
  }
  const limits = () => [group('memory', ['memory.limit_in_bytes', 'memory.max']), group('pids', ['pids.max'])]
  const before = limits()
  assert.equal((await post(id, 'pause')).status, 204)
  await sandbox.connect()
  assert.deepEqual(limits(), before)
}))

test('a process that is traced is named at once, and goes on', withSandbox(async (sandbox) => {
  await startTrap(sandbox, ['import ctypes, os, time', 'p = os.fork()', 'if p == 0: time.sleep(1000)',
    'c = ctypes.CDLL(None)', 'assert c.ptrace(16, p, 0, 0) == 0', 'os.waitpid(p, 0)', 'c.ptrace(7, p, 0, 0)', 'print("ready")', 'time.sleep(1000)'])
  const refused = await post(sandbox.sandboxId, 'pause')
  assert.equal(refused.status, 409)
  assert.match(refused.json.message, /pid \d+ \(python3\): another process traces it; pause with memory:false keeps the files/)
  assert.equal((await sandbox.commands.run('echo on')).stdout, 'on\n')
}))

test('an envd that is held when it wakes: refused after a while, and nobody else notices; its files are kept', withSandbox(async (sandbox) => {
  // It notices by its clocks that it was away, and then stops its init for ever.
  await startTrap(sandbox, ['import ctypes, time', 'c = ctypes.CDLL(None)', 'away = lambda: time.time() - time.monotonic()', 'was = away()',
    'print("ready")', 'while away() - was < 0.3: time.sleep(0.0002)', 'c.ptrace(16, 1, 0, 0)', 'time.sleep(1000)'])
  const id = sandbox.sandboxId
  assert.equal((await post(id, 'pause')).status, 204)
  await new Promise((done) => setTimeout(done, 600)) // how long it was away
  let isOver = false
  const held = post(id, 'resume').finally(() => (isOver = true))
  const others = await Promise.all(Array.from({ length: 6 }, () => Sandbox.create({ timeoutMs: 100_000 })))
  try {
    for (let round = 0; !isOver; round++)
      for (const other of others) {
        assert.equal((await post(other.sandboxId, 'pause')).status, 204, `round ${round}`)
        assert.equal((await post(other.sandboxId, 'resume')).status, 201, `round ${round}`)
      }
  } finally {
    await Promise.all(others.map((other) => other.kill()))
  }
  const answer = await held
  assert.equal(answer.status, 504)
  assert.match(answer.json.message, /envd.*only its files are kept: pid 1 .* another process traces it/) // no image of before on files of now
  assert.equal((await api(server, 'GET', `/sandboxes/${id}`)).json.state, 'paused')
  assert.equal(pausedRecord(server, id).checkpoint, null)
  await until('the image is given up', () => fs.readdirSync(server.file('checkpoints')).length === 0)
  assert.equal((await post(id, 'resume')).status, 201)
  assert.equal((await sandbox.commands.run('pgrep -c python3 || true')).stdout, '0\n')
}))

test('an envd that does not answer when it wakes: what ran meanwhile is what is kept, files and memory', withSandbox(async (sandbox) => {
  const id = sandbox.sandboxId
  const inside = (name) => server.file(`sandboxes/${id}/upper/tmp/${name}`)
  // Makes a loop of the next instruction of its init, and what it was of it when it was woken the second time.
  await sandbox.files.write('/tmp/loop.py', [
    'import ctypes, os, time', 'c = ctypes.CDLL(None, use_errno=True)', 'c.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]',
    'regs = (ctypes.c_ulonglong * 27)()', 'm = open("/proc/1/mem", "r+b", buffering=0)',
    'def put(what):', '  assert c.ptrace(16, 1, None, None) == 0, ctypes.get_errno()', '  os.waitpid(1, 0x40000000)',
    '  assert c.ptrace(12, 1, None, ctypes.cast(regs, ctypes.c_void_p)) == 0', '  m.seek(regs[16])', '  was = m.read(2)', '  m.seek(regs[16])', '  m.write(what)',
    '  c.ptrace(17, 1, None, None)', '  return was',
    'away = lambda: time.time() - time.monotonic()', 'def sleep_through():', '  was = away()', '  while away() - was < 0.3: time.sleep(0.005)',
    'wakes = 0', 'was = put(b"\\xeb\\xfe")', 'open("/tmp/held", "w").close()',
    'sleep_through()', 'wakes += 1', 'open("/tmp/wakes", "w").write(str(wakes))',
    'sleep_through()', 'wakes += 1', 'put(was)', 'open("/tmp/wakes", "w").write(str(wakes))', 'time.sleep(1000)',
  ].join('\n'), { user: 'root' })
  await sandbox.commands.run('setsid python3 /tmp/loop.py > /tmp/loop.log 2>&1 < /dev/null & echo', { user: 'root' })
  await until('it is held', () => fs.existsSync(inside('held')))
  assert.equal((await post(id, 'pause')).status, 204)
  const first = pausedRecord(server, id).checkpoint
  await new Promise((done) => setTimeout(done, 600)) // how long it was away
  const failed = await post(id, 'resume')
  assert.equal(failed.status, 504)
  assert.match(failed.json.message, /envd/)
  assert.equal((await api(server, 'GET', `/sandboxes/${id}`)).json.state, 'paused')
  assert.equal(fs.readFileSync(inside('wakes'), 'utf8'), '1')
  assert.match(pausedRecord(server, id).checkpoint, /^c/)
  assert.notEqual(pausedRecord(server, id).checkpoint, first)
  await until('the image of before is given up', () => !fs.existsSync(server.file(`checkpoints/${first}`)))
  await new Promise((done) => setTimeout(done, 600))
  assert.equal((await post(id, 'resume')).status, 201)
  await until('it has noticed', async () => (await sandbox.files.read('/tmp/wakes')) === '2') // it remembered the first
}))
