// Making the default template: what a build that does not come to its end leaves behind.  The mirror is ours and never
// answers, so each build is caught in its middle.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { test } from 'node:test'

import { binary, sandglass, temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

/** Run the body with a build that waits for the mirror: {images, child, ended, connections}. */
async function inTheMiddle(body) {
  const images = temporaryDir('images')
  const open = new Set()
  const mirror = net.createServer((socket) => {
    open.add(socket)
    socket.on('error', () => {}).on('close', () => open.delete(socket))
    socket.resume()
  })
  mirror.listen(0, '127.0.0.1')
  await once(mirror, 'listening')
  const url = `http://127.0.0.1:${mirror.address().port}/debian`
  const child = spawn(binary, ['template', 'base', '--images', images, '--mirror', url], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'close')
  let text = ''
  for (const out of [child.stdout, child.stderr]) out.setEncoding('utf8').on('data', (piece) => (text += piece))
  try {
    await once(mirror, 'connection', { signal: AbortSignal.timeout(30_000) })
    await body({ images, child, ended, open, said: () => text })
  } finally {
    child.kill('SIGKILL')
    for (const socket of open) socket.destroy()
    mirror.close()
    fs.rmSync(images, { recursive: true, force: true })
  }
}

const leftovers = (images) =>
  fs.readdirSync(images, { recursive: true }).filter((name) => !['layers', 'templates'].includes(name))

for (const signal of ['SIGINT', 'SIGTERM'])
  test(`a build interrupted by ${signal} ends, says so and leaves nothing`, async () => {
    await inTheMiddle(async ({ images, child, ended, said }) => {
      child.kill(signal)
      const [code] = await ended
      assert.equal(code, 1)
      assert.match(said(), /interrupted/)
      assert.deepEqual(leftovers(images), [])
    })
  })

test('a build that is killed takes its helpers along, and the next one removes what it left', async () => {
  await inTheMiddle(async ({ images, child, ended, open }) => {
    child.kill('SIGKILL')
    await ended
    await until(() => 'the helpers of the killed build to let go of the mirror', () => open.size === 0)
    assert.ok(!fs.existsSync(path.join(images, 'templates', 'base.json')))
    assert.match(leftovers(images).join(), /\.tmp-/)
    const next = sandglass(['template', 'base', '--images', images, '--mirror', 'http://127.0.0.1:1/debian'])
    assert.equal(next.status, 1)
    assert.match(next.stderr, /template base: mmdebstrap failed/)
    assert.deepEqual(leftovers(images), [])
  })
})

test('only the template base can be made, and only by root', () => {
  assert.equal(sandglass(['template', 'nope']).status, 2)
  assert.equal(sandglass(['template']).status, 2)
  const r = sandglass(['template', 'base', '--images', '/nonexistent'], { uid: 65534, gid: 65534 })
  assert.equal(r.status, 1)
  assert.match(r.stderr, /needs root/)
})
