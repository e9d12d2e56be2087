// Things that break: disk, processes, daemon, template, client.  The server stays, says what is wrong, and cleans up.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import test from 'node:test'

import { leakless, returned, sandboxPids, settled } from '../lib/census.mjs'
import { api, createRaw, envd, killRaw } from '../lib/raw.mjs'
import { Server, imagesDir, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const { CommandExitError, NotEnoughSpaceError, Sandbox } = await import('e2b')

function removeImages(dir) {
  spawnSync('umount', [path.join(dir, 'layers')])
  fs.rmdirSync(path.join(dir, 'layers')) // fails, and with it the case, while something is mounted there
  fs.rmSync(dir, { recursive: true })
}

/** A server for one case; the client speaks to it. */
const withServer = (options, body) => async (t) => {
  const server = await Server.start(options)
  Object.assign(process.env, clientEnvironment(server, 'http'))
  try {
    await body(server, t)
  } finally {
    await server.cleanUp()
  }
}

/** An image directory of our own that shares the layers of the real one and has further templates. */
function imagesWith(templates) {
  const dir = temporaryDir('images')
  const real = imagesDir()
  fs.mkdirSync(path.join(dir, 'templates'))
  fs.mkdirSync(path.join(dir, 'layers'))
  assert.equal(spawnSync('mount', ['--bind', path.join(real, 'layers'), path.join(dir, 'layers')]).status, 0)
  fs.copyFileSync(path.join(real, 'templates', 'base.json'), path.join(dir, 'templates', 'base.json'))
  for (const [alias, text] of Object.entries(templates)) fs.writeFileSync(path.join(dir, 'templates', `${alias}.json`), text)
  return dir
}

test('disk full: writes fail with the right error, the sandbox lives, room makes it work again', async () => {
  const data = temporaryDir('full')
  assert.equal(spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=96m,mode=755', 'sandglass-test', data]).status, 0)
  try {
    await withServer({ data }, async (server) => {
      const before = await settled(server)
      const sandbox = await Sandbox.create()
      await assert.rejects(sandbox.commands.run('dd if=/dev/zero of=/home/user/fill bs=1M status=none'), (e) => e instanceof CommandExitError && /No space left/.test(e.stderr))
      await assert.rejects(sandbox.files.write('more', 'x'.repeat(1 << 20)), NotEnoughSpaceError)
      assert.equal((await sandbox.commands.run('echo still here')).stdout, 'still here\n')
      const second = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'base' } })
      if (second.status === 201) await killRaw(server, second.json.sandboxID)
      else assert.ok(second.status >= 500 && second.json.message.length > 0, second.body)
      assert.equal((await sandbox.commands.run('rm /home/user/fill; echo freed')).stdout, 'freed\n')
      await sandbox.files.write('more', 'fits')
      assert.equal(await sandbox.files.read('more'), 'fits')
      await sandbox.kill()
      const third = await createRaw(server)
      await killRaw(server, third.sandboxID)
      await returned(server, before)
    })()
  } finally {
    spawnSync('umount', [data])
    fs.rmSync(data, { recursive: true, force: true })
  }
})

test('out of processes: a fork bomb is contained and the sandbox still answers', withServer({}, async (server) => {
  await leakless(server, async () => {
    const sandbox = await Sandbox.create()
    const neighbour = await Sandbox.create()
    const bomb = 'import os,time\nn=0\ntry:\n  while True:\n    if os.fork()==0:\n      time.sleep(1000)\n      os._exit(0)\n    n+=1\nexcept OSError as e:\n  print(n, e.errno, flush=True)\n  time.sleep(1000)\n'
    await sandbox.files.write('bomb.py', bomb)
    const running = await sandbox.commands.run('python3 bomb.py', { background: true, timeoutMs: 0 })
    await until('the limit reached', () => running.stdout !== '', 60_000)
    const [children, errno] = running.stdout.trim().split(' ').map(Number)
    assert.equal(errno, 11) // EAGAIN: the limit of the sandbox, not of the machine
    assert.ok(children > 50 && children < 100_000, `${children} children`)
    assert.equal(await sandbox.isRunning(), true)
    assert.equal(await sandbox.files.read('bomb.py'), bomb)
    assert.equal((await neighbour.commands.run('echo fine')).stdout, 'fine\n')
    assert.equal(await sandbox.kill(), true)
    await neighbour.kill()
  })()
}))

test('a fork bomb that never stops: the daemon answers, nobody else notices, the sandbox can be ended', withServer({}, async (server) => {
  await leakless(server, async () => {
    const sandbox = await Sandbox.create()
    const neighbour = await Sandbox.create()
    await sandbox.files.write('bomb.sh', 'bomb() { bomb | bomb & }; bomb; while :; do bomb; done')
    const { pid } = await sandbox.commands.run('bash bomb.sh >/dev/null 2>&1', { background: true, timeoutMs: 0 })
    await until('the limit reached', async () => {
      const tried = await sandbox.commands.run('true', { requestTimeoutMs: 30_000 }).catch((e) => e)
      return tried instanceof Error && tried // no process for a command: an error, not silence
    }, 60_000)
    assert.equal(await sandbox.isRunning(), true)
    await sandbox.files.write('during.txt', 'written meanwhile')
    assert.equal(await sandbox.files.read('during.txt'), 'written meanwhile')
    assert.ok((await sandbox.commands.list()).some((p) => p.pid === pid))
    assert.equal((await neighbour.commands.run('echo fine')).stdout, 'fine\n')
    assert.equal(await sandbox.kill(), true)
    await neighbour.kill()
  })()
}))

test('memory over the limit: the command dies, the sandbox and the machine do not', withServer({}, async (server) => {
  await leakless(server, async () => {
    const sandbox = await Sandbox.create()
    await assert.rejects(sandbox.commands.run('python3 -c "x = bytearray(3 << 30)"', { timeoutMs: 60_000 }), CommandExitError)
    assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n')
    await sandbox.kill()
  })()
}))

test('the daemon cannot be killed from inside', withServer({}, async (server) => {
  await leakless(server, async () => {
    const sandbox = await Sandbox.create()
    await sandbox.commands.run('sudo kill -9 1; sudo kill -TERM 1; sudo kill -STOP 1; sudo kill -SEGV 1; true')
    await sandbox.commands.run('sudo kill -9 -1 || true').catch(() => {}) // everybody but the daemon, also the shell that asks
    assert.equal(await sandbox.isRunning(), true)
    assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n')
    await sandbox.kill()
  })()
}))

test('the daemon killed from outside: the sandbox is gone everywhere and cleaned up', withServer({}, async (server) => {
  await leakless(server, async () => {
    const sandbox = await Sandbox.create()
    await sandbox.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    const [first] = sandboxPids(server, sandbox.sandboxId)
    process.kill(first, 'SIGKILL')
    await until('the API to know', async () => (await api(server, 'GET', `/sandboxes/${sandbox.sandboxId}`)).status === 404)
    assert.equal(await sandbox.isRunning(), false)
    assert.deepEqual((await api(server, 'GET', '/v2/sandboxes')).json, [])
    assert.equal(await sandbox.kill(), false)
  })()
}))

test('a template with a missing layer, and manifests that are broken', async () => {
  const manifest = (alias, layers) => JSON.stringify({ alias, templateID: alias.padEnd(20, '0'), layers, cpuCount: 1, memoryMB: 256, diskSizeMB: 1024, defaultUser: 'user', defaultWorkdir: '/home/user' })
  const images = imagesWith({ holey: manifest('holey', ['no-such-layer']), climber: manifest('climber', ['../../etc']), garbage: '{"alias":' })
  try {
    await withServer({ images }, async (server) => {
      await leakless(server, async () => {
        const holey = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'holey' } })
        assert.ok(holey.status >= 400, holey.body)
        assert.match(holey.json.message, /layer/)
        for (const templateID of ['climber', 'garbage']) {
          const answer = await api(server, 'POST', '/v2/sandboxes', { body: { templateID } })
          assert.ok(answer.status >= 400, `${templateID}: ${answer.body}`)
          assert.equal(answer.json.code, answer.status)
        }
        const good = await createRaw(server)
        await killRaw(server, good.sandboxID)
      })()
    })()
  } finally {
    removeImages(images)
  }
})

test('a client that leaves while its sandbox is made', withServer({}, async (server) => {
  const before = await settled(server)
  const body = JSON.stringify({ templateID: 'base', timeout: 3 })
  const request = `POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ${server.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  const leave = (afterMs) =>
    new Promise((done) => {
      const socket = net.connect(server.port, '127.0.0.1', () => {
        socket.write(request, () => setTimeout(() => socket.destroy(), afterMs))
      })
      socket.on('close', done).on('error', () => {})
    })
  for (let i = 0; i < 10; i++) await Promise.all([leave(0), leave(0.5 * i), leave(1 * i)])
  await returned(server, before) // those whose answer was on its way end at their deadline
  assert.deepEqual((await api(server, 'GET', '/v2/sandboxes')).json, [])
}))

test('an upload whose client leaves in the middle', withServer({}, async (server) => {
  await leakless(server, async () => {
    const sandbox = await createRaw(server)
    for (let i = 0; i < 5; i++)
      await new Promise((done) => {
        const head = `POST /files?path=part${i} HTTP/1.1\r\nHost: 127.0.0.1\r\nE2b-Sandbox-Id: ${sandbox.sandboxID}\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: ${sandbox.envdAccessToken}\r\nContent-Type: application/octet-stream\r\nContent-Length: 100000000\r\n\r\n`
        const socket = net.connect(server.port, '127.0.0.1', () => socket.write(head + 'x'.repeat(500_000), () => socket.destroy()))
        socket.on('close', done).on('error', () => {})
      })
    assert.ok((await envd(server, sandbox, 'GET', '/health')).status < 300)
    await killRaw(server, sandbox.sandboxID)
  })()
}))

test('a slow reader does not make the server hold the output in memory', withServer({}, async (server) => {
  await leakless(server, async () => {
    const sandbox = await createRaw(server)
    const memory = () => server.rolePids().reduce((sum, pid) => sum + Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]), 0)
    const message = Buffer.from(JSON.stringify({ process: { cmd: '/bin/bash', args: ['-c', 'head -c 300000000 /dev/zero'] }, stdin: false }))
    const envelope = Buffer.concat([Buffer.from([0, 0, 0, 0, 0]), message])
    envelope.writeUInt32BE(message.length, 1)
    const before = memory()
    const socket = net.connect(server.port, '127.0.0.1')
    socket.on('error', () => {})
    socket.write(`POST /process.Process/Start HTTP/1.1\r\nHost: 127.0.0.1\r\nE2b-Sandbox-Id: ${sandbox.sandboxID}\r\nE2b-Sandbox-Port: 49983\r\nX-Access-Token: ${sandbox.envdAccessToken}\r\nContent-Type: application/connect+json\r\nContent-Length: ${envelope.length}\r\n\r\n`)
    socket.write(envelope)
    await new Promise((done) => socket.once('data', done))
    socket.pause()
    await new Promise((done) => setTimeout(done, 1500)) // time enough to produce all of it, were it not held back
    const grown = memory() - before
    assert.ok(grown < 16 << 10, `roles grew by ${grown} KiB`)
    socket.destroy()
    await killRaw(server, sandbox.sandboxID)
  })()
}))
