// Clients of other versions, with the exports of data/env as they are: one address for the API and all sandboxes.
//
// SANDGLASS_TEST_CLIENTS: more of them, packages or files to import (…/dist/index.mjs), with a space between two.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, before, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

import { leakless as leaklessOn } from '../lib/census.mjs'
import { echoServer } from '../lib/echo.mjs'
import { api, createRaw, envd, killRaw } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

const library = (name) => fileURLToPath(new URL(`../lib/${name}.mjs`, import.meta.url))
let server
before(async () => (server = await Server.start()))
after(() => server.cleanUp())
const leakless = (body) => (t) => leaklessOn(server, body)(t)

// 2.0: the domain only, by TLS and names.  2.7 and 2.10: nothing but the token on /files and /health.
const packages = ['e2b-2.0', 'e2b-2.7', 'e2b-2.10', ...(process.env.SANDGLASS_TEST_CLIENTS ?? '').split(' ').filter(Boolean)]
for (const name of packages)
  test(`${name}: commands, files, signed URLs, connect, pause, kill`, leakless(async () => {
    const env = { ...process.env, ...server.env, SANDGLASS_TEST_NAMES: server.domain.replace(/:\d+$/, '') }
    const { stdout } = await promisify(execFile)('node', ['--import', pathToFileURL(library('names')), library('anyclient'), name], { env, timeout: 60_000 })
    assert.equal(stdout.trim(), 'commands; files: write, read, list; signed URLs; connect; pause and resume; kill')
  }))

/** What the Python client sends with every API call of a sandbox object it has connected to (versions 2.7 to 2.26). */
const python = (id, more = {}) => ({
  Accept: '*/*',
  'Accept-Encoding': 'gzip, deflate',
  Connection: 'keep-alive',
  'User-Agent': 'e2b-python-sdk/2.10.2',
  lang: 'python',
  package_version: '2.10.2',
  publisher: 'e2b',
  'E2b-Sandbox-Id': id,
  'E2b-Sandbox-Port': '49983',
  ...more,
})

test('Python: API calls that carry routing headers reach the API, whether the sandbox runs or rests', leakless(async () => {
  const box = await createRaw(server)
  const id = box.sandboxID
  const call = async (method, path, body, headers) => {
    const answer = await api(server, method, path, { body, headers: python(id, headers) })
    return [answer.status, answer.json]
  }
  const [running, connected] = await call('POST', `/sandboxes/${id}/connect`, { timeout: 300 })
  assert.deepEqual([running, connected.sandboxID, connected.envdAccessToken], [200, id, box.envdAccessToken])
  assert.equal((await call('POST', `/sandboxes/${id}/timeout`, { timeout: 200 }))[0], 204)
  assert.equal((await call('GET', `/sandboxes/${id}`))[1].state, 'running')
  assert.equal((await call('GET', `/sandboxes/${id}/metrics`))[0], 200)
  assert.equal((await call('GET', '/v2/sandboxes?state=running'))[1][0].sandboxID, id)
  assert.equal((await call('GET', '/snapshots'))[0], 200)
  assert.deepEqual(await call('PUT', `/sandboxes/${id}/network`, {}), [404, { code: 404, message: `Unknown route: PUT /sandboxes/${id}/network` }])
  assert.equal((await call('POST', `/sandboxes/${id}/pause`))[0], 204)
  assert.equal((await call('GET', `/sandboxes/${id}`, undefined, { 'X-Access-Token': box.envdAccessToken }))[1].state, 'paused')
  assert.equal((await call('POST', `/sandboxes/${id}/connect`, { timeout: 300 }))[0], 201)
  // A wrong key is the API's to refuse.
  assert.match((await api(server, 'GET', `/sandboxes/${id}`, { key: 'e2b_' + '0'.repeat(40), headers: python(id) })).json.message, /Invalid API key/)
  // The daemon's calls go where they went, key or not.
  for (const key of [null, server.key]) assert.equal((await envd(server, box, 'GET', '/health', { key })).status, 204)
  assert.equal((await envd(server, box, 'POST', '/process.Process/List', { key: server.key, body: {} })).status, 200)
  assert.equal((await call('DELETE', `/sandboxes/${id}`))[0], 204)
  assert.equal((await call('DELETE', `/sandboxes/${id}`))[0], 404)
}))

test("a user's server with paths like the API's gets its requests, by name and by header, its keys included", leakless(async () => {
  const box = await createRaw(server)
  const id = box.sandboxID
  try {
    await envd(server, box, 'POST', '/files?path=/tmp/echo.cjs', { body: echoServer, headers: { 'Content-Type': 'application/octet-stream' } })
    const start = { process: { cmd: '/bin/bash', args: ['-lc', 'node /tmp/echo.cjs 3000 127.0.0.1 >/dev/null 2>&1 & disown'] } }
    const payload = Buffer.from(JSON.stringify(start))
    const head = Buffer.alloc(5)
    head.writeUInt32BE(payload.length, 1)
    await envd(server, box, 'POST', '/process.Process/Start', { body: Buffer.concat([head, payload]), headers: { 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1' } })
    const ways = [{ Host: `3000-${id}.localhost` }, { Host: `3000-${id}.localhost`, 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983' }, { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '3000' }]
    for (const way of ways)
      for (const [method, path] of [['GET', '/sandboxes'], ['POST', `/v2/sandboxes/${id}/connect`], ['DELETE', `/sandboxes/${id}`], ['GET', '/health']]) {
        const ask = () => api(server, method, path, { headers: { ...way, 'X-Access-Token': 'mine' }, key: 'my own key' })
        const { json } = await until('the server inside answers', async () => { const a = await ask(); return a.status === 200 && a })
        assert.deepEqual([json.method, json.url, json.headers['x-api-key'], json.headers['x-access-token']], [method, path, 'my own key', 'mine'])
      }
    assert.equal((await api(server, 'GET', `/sandboxes/${id}`)).json.state, 'running')
  } finally {
    await killRaw(server, id)
  }
}))

test('a token alone names its sandbox and opens nothing else', leakless(async () => {
  const boxes = await Promise.all([createRaw(server), createRaw(server), createRaw(server)])
  const [box] = boxes
  const bare = (token, method, path, options = {}) => api(server, method, path, { key: null, ...options, headers: { 'X-Access-Token': token, ...options.headers } })
  const raw = { 'Content-Type': 'application/octet-stream' }
  const gone = { sandboxId: '', message: 'The sandbox was not found', code: 502 }
  try {
    for (const { sandboxID, envdAccessToken } of boxes) {
      assert.equal((await bare(envdAccessToken, 'POST', '/files?path=/tmp/who', { body: sandboxID, headers: raw })).status, 200)
      assert.equal((await bare(envdAccessToken, 'GET', '/files?path=/tmp/who')).body, sandboxID)
      assert.equal((await bare(envdAccessToken, 'GET', '/health')).status, 204)
    }
    // The same names over the plain name of the server; a killed role forgets nothing that matters.
    await server.killRoles('control')
    assert.equal((await bare(box.envdAccessToken, 'GET', '/files?path=/tmp/who', { headers: { Host: 'localhost' } })).body, box.sandboxID)
    await server.killRoles('edge')
    assert.equal((await bare(box.envdAccessToken, 'GET', '/files?path=/tmp/who')).body, box.sandboxID)
    // Nobody's, and what was none.
    const wrong = box.envdAccessToken.replace(/.$/, (c) => (c === '0' ? '1' : '0'))
    for (const token of [wrong, wrong.toUpperCase(), 'x', box.envdAccessToken + '0'])
      for (const path of ['/files?path=/tmp/who', '/health']) {
        const answer = await bare(token, 'GET', path)
        assert.deepEqual([answer.status, answer.json], [502, gone], token.length)
      }
    // It is no key of the API, and no way to what is closed.
    assert.equal((await bare(box.envdAccessToken, 'GET', '/sandboxes')).status, 401)
    assert.equal((await bare(box.envdAccessToken, 'DELETE', `/sandboxes/${box.sandboxID}`)).status, 401)
    assert.match((await bare(box.envdAccessToken, 'POST', '/init', { body: {} })).json.message, /reserved for the E2B control plane/)
    // Without it nothing has changed.
    assert.equal((await api(server, 'GET', '/health', { key: null })).status, 204)
    assert.equal((await api(server, 'GET', '/files?path=/tmp/who', { key: null })).status, 404)
  } finally {
    for (const { sandboxID } of boxes) await killRaw(server, sandboxID)
  }
  const after = await bare(box.envdAccessToken, 'GET', '/health')
  assert.deepEqual([after.status, after.json.message], [502, 'The sandbox was not found'])
}))
