// envd --cell: what it says to the engine on fd 3 when things go wrong.  (That they go right, the client suites show.)
//
//   node cell.mjs PATH-OF-sandglass-envd
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'

const cases = []
const test = (name, fn) => cases.push({ name, fn })

/** A cell in a network namespace of its own, so that its port is free. */
function cell() {
  const child = spawn('unshare', ['--net', process.argv[2], '--cell'], { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] })
  const socket = child.stdio[3]
  let said = ''
  let wake = () => {}
  socket.on('data', (data) => { said += data; wake() })
  socket.on('error', () => {})
  const exit = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)))
  const ended = new Promise((resolve) => socket.once('close', resolve))
  return {
    socket, exit, ended,
    said: () => said,
    async waiting() {
      while (!said) await new Promise((resolve) => (wake = resolve))
      assert.equal(said, 'W')
    },
  }
}

function message(text, length = Buffer.byteLength(text)) {
  const head = Buffer.alloc(4)
  head.writeUInt32BE(length)
  return Buffer.concat([head, Buffer.from(text)])
}

test('it ends when the engine is gone before anything was said', async () => {
  const c = cell()
  await c.waiting()
  c.socket.destroy()
  assert.equal(await c.exit, 0)
})

test('it ends when the engine is gone in the middle of the message', async () => {
  const c = cell()
  await c.waiting()
  c.socket.end(message('{"sandboxID"', 100))
  assert.equal(await c.exit, 0)
  assert.equal(c.said(), 'W')
})

test('a message without a root is refused', async () => {
  const c = cell()
  await c.waiting()
  c.socket.write(message('{"sandboxID":"i"}'))
  assert.equal(await c.exit, 1)
  await c.ended
  assert.equal(c.said(), 'WEinit message without a root')
})

test('a message that is too long is refused before it is read', async () => {
  const c = cell()
  await c.waiting()
  c.socket.write(message('', 0xffffffff))
  assert.equal(await c.exit, 1)
  await c.ended
  assert.equal(c.said(), 'WEinit message of 4294967295 bytes')
})

let failures = 0
const skip = process.getuid() !== 0 && 'needs root for a network namespace'
for (const [i, { name, fn }] of cases.entries()) {
  if (skip) {
    if (process.env.TESTS_MUST_RUN) failures++
    console.log(`${process.env.TESTS_MUST_RUN ? 'not ok' : 'ok'} ${i + 1} - ${name} # SKIP ${skip}`)
    continue
  }
  try {
    await fn()
    console.log(`ok ${i + 1} - ${name}`)
  } catch (error) {
    failures++
    console.log(`not ok ${i + 1} - ${name}\n${String(error.stack ?? error).replaceAll(/^/gm, '# ')}`)
  }
}
console.log(`1..${cases.length}`)
process.exit(failures ? 1 : 0)
