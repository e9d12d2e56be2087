// What a paused sandbox needs is not there for a while: its template's layer, its own directory.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'

import { hold } from '../lib/inside.mjs'
import { api } from '../lib/raw.mjs'
import { imagesDir, Server, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'

const { Sandbox } = await import('e2b')

const post = (server, id, what, body = {}) => api(server, 'POST', `/v2/sandboxes/${id}/${what}`, { body })
const stateOf = async (server, id) => (await api(server, 'GET', `/sandboxes/${id}`)).json?.state ?? 'gone'

/** A copy of the images that shares their files: it can be taken apart. */
function ownImages() {
  const dir = temporaryDir('images')
  const copied = spawnSync('cp', ['-al', `${imagesDir()}/.`, dir])
  assert.equal(copied.status, 0, String(copied.stderr))
  return dir
}

async function withServer(images, body) {
  let server = await Server.start({ images, settings: { warm_mb: 0 } })
  Object.assign(process.env, clientEnvironment(server, 'http'))
  try {
    await body(server, async (between = () => {}) => {
      await server.stop()
      between()
      server = await server.again({ images, settings: { warm_mb: 0 } })
      Object.assign(process.env, clientEnvironment(server, 'http'))
      return server
    })
  } finally {
    server.keepsData = false
    await server.cleanUp()
    if (images !== imagesDir()) fs.rmSync(images, { recursive: true, force: true })
  }
}

test('a layer that cannot be opened for a while costs nothing', async () => {
  await withServer(ownImages(), async (server, again) => {
    const sandboxes = []
    for (const keepMemory of [false, true]) {
      const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
      const ask = await hold(sandbox, 'python', { port: 8000, args: '8' })
      await sandbox.files.write('kept', 'kept')
      assert.equal((await api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/pause`, { body: { memory: keepMemory } })).status, 204)
      sandboxes.push({ sandbox, ask, keepMemory, id: sandbox.sandboxId })
    }
    const layers = path.join(server.images, 'layers')
    const away = temporaryDir('away')
    const names = fs.readdirSync(layers)
    for (const name of names) fs.renameSync(path.join(layers, name), path.join(away, name))
    try {
      for (const { id } of sandboxes)
        for (const memory of [true, false]) {
          const answer = await post(server, id, 'connect', { memory })
          assert.equal(answer.status, 500, JSON.stringify(answer.json))
          assert.match(answer.json.message, /No such file or directory/)
          assert.equal(await stateOf(server, id), 'paused')
        }
    } finally {
      for (const name of names) fs.renameSync(path.join(away, name), path.join(layers, name))
      fs.rmdirSync(away)
    }
    server = await again()
    for (const { id, ask, keepMemory } of sandboxes) {
      assert.equal((await post(server, id, 'connect')).status, 201)
      const sandbox = await Sandbox.connect(id)
      assert.equal(await sandbox.files.read('kept'), 'kept')
      if (keepMemory) await ask(sandbox)
      await sandbox.kill()
    }
  })
})

test('a paused sandbox whose directory is away answers so, and comes back with it', async () => {
  await withServer(imagesDir(), async (server, again) => {
    const sandbox = await Sandbox.create({ timeoutMs: 300_000 })
    const ask = await hold(sandbox, 'python', { port: 8000, args: '8' })
    const id = sandbox.sandboxId
    assert.equal((await api(server, 'POST', `/sandboxes/${id}/pause`, { body: {} })).status, 204)
    const home = server.file(`sandboxes/${id}`)
    const away = server.file('away')
    server = await again(() => fs.renameSync(home, away))
    for (const memory of [false, true]) {
      const answer = await post(server, id, 'connect', { memory })
      assert.equal(answer.status, 404, JSON.stringify(answer.json))
      assert.match(answer.json.message, /its files are not on this server's disk/)
    }
    assert.equal(await stateOf(server, id), 'gone')
    assert.deepEqual((await api(server, 'GET', '/v2/sandboxes')).json, [])
    server = await again(() => fs.renameSync(away, home))
    assert.equal(await stateOf(server, id), 'paused')
    assert.equal((await post(server, id, 'connect')).status, 201)
    const back = await Sandbox.connect(id)
    await ask(back)
    await back.kill()
  })
})
