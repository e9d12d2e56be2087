// A host on which CRIU does not work: everything is served but memory, and answers say so.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'

import { api, createRaw } from '../lib/raw.mjs'
import { Server, sandglass, temporaryDir } from '../lib/server.mjs'

const nowhere = 'http://127.0.0.1:1/' // no mirror: what does not work cannot be replaced

/** A CRIU directory with a program that ends at once. */
function brokenCriu() {
  const dir = temporaryDir('criu')
  fs.chmodSync(dir, 0o711)
  fs.mkdirSync(path.join(dir, 'tool', 'lib'), { recursive: true })
  for (const name of ['ld.so', 'criu']) {
    fs.writeFileSync(path.join(dir, 'tool', name), '#!/bin/sh\necho this one is broken >&2\nexit 1\n')
    fs.chmodSync(path.join(dir, 'tool', name), 0o755)
  }
  return dir
}

const start = (criu, data) => Server.start({ data, args: ['--criu', criu, '--mirror', nowhere] })
const post = (server, what, body = {}) => api(server, 'POST', what, { body })

test('a server whose CRIU does not work serves everything but memory', async () => {
  const criu = brokenCriu()
  const server = await start(criu)
  try {
    assert.match(server.log, /criu\.missing .*cannot be paused with their memory/)
    const { sandboxID } = await createRaw(server)
    const run = (...command) => sandglass(['exec', '--data', server.data, sandboxID, '--', ...command])
    for (const what of [`/sandboxes/${sandboxID}/pause`, `/sandboxes/${sandboxID}/fork`, `/sandboxes/${sandboxID}/snapshots`]) {
      const answer = await post(server, what)
      assert.equal(answer.status, 503, what)
      assert.match(answer.body, /CRIU does not work here/, what)
    }
    assert.match((await post(server, `/sandboxes/${sandboxID}/pause`)).body, /memory:false keeps the files/)
    assert.equal(run('sh', '-c', 'echo kept >/home/user/note').status, 0)
    assert.equal((await post(server, `/sandboxes/${sandboxID}/pause`, { memory: false })).status, 204)
    assert.equal((await post(server, `/v2/sandboxes/${sandboxID}/connect`, { timeout: 60 })).status, 201)
    assert.equal(run('cat', '/home/user/note').stdout, 'kept\n')
  } finally {
    await server.cleanUp()
    fs.rmSync(criu, { recursive: true })
  }
})

test('what failed is not tried again until the next boot, and nothing is fetched for it', async () => {
  const criu = brokenCriu()
  const first = await start(criu)
  await first.cleanUp()
  assert.match(first.log, /fetching one/)
  const second = await start(criu)
  try {
    assert.doesNotMatch(second.log, /fetching one/)
    assert.match(second.log, /criu\.missing .*CRIU does not work here/)
  } finally {
    await second.cleanUp()
    fs.rmSync(criu, { recursive: true })
  }
})
