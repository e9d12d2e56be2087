// Bad requests: refused with the right answer, and nothing is left behind.
import assert from 'node:assert/strict'
import test, { after } from 'node:test'

import { leakless } from '../lib/census.mjs'
import { api, createRaw, envd, exchange, killRaw } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'

const server = await Server.start()
after(() => server.cleanUp())
const clean = (body) => leakless(server, body)
const isError = (answer, status, message) => {
  assert.equal(answer.status, status, answer.body)
  const body = answer.json ?? JSON.parse(answer.body)
  assert.equal(body.code, status)
  if (message instanceof RegExp) assert.match(body.message, message)
  else if (message) assert.equal(body.message, message)
  else assert.ok(body.message.length > 0)
}
const post = (path, body, headers = '') =>
  `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ${server.key}\r\nContent-Type: application/json\r\n${headers}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

test('a head that is too large: 431', clean(async () => {
  const answer = await exchange(server.port, `GET /sandboxes HTTP/1.1\r\nHost: x\r\nX-Big: ${'b'.repeat(256 << 10)}\r\n\r\n`)
  assert.equal(answer.status, 431, answer.text)
  const many = Array.from({ length: 2000 }, (_, i) => `X-${i}: 1\r\n`).join('')
  assert.equal((await exchange(server.port, `GET /sandboxes HTTP/1.1\r\nHost: x\r\n${many}\r\n`)).status, 431)
  const line = await exchange(server.port, `GET /${'a'.repeat(256 << 10)} HTTP/1.1\r\nHost: x\r\n\r\n`)
  assert.ok([414, 431].includes(line.status), line.text)
}))

test('a body that is too large: 413, announced or not', clean(async () => {
  const head = `POST /v2/sandboxes HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ${server.key}\r\nContent-Type: application/json\r\n`
  assert.equal((await exchange(server.port, `${head}Content-Length: 1000000000\r\n\r\n`)).status, 413)
  const chunk = `100000\r\n${'x'.repeat(1 << 20)}\r\n`
  const chunked = await exchange(server.port, [`${head}Transfer-Encoding: chunked\r\n\r\n`, ...Array(20).fill(chunk), '0\r\n\r\n'])
  assert.equal(chunked.status, 413)
}))

test('requests that two readers could understand differently: 400, connection closed', clean(async () => {
  const smuggled = {
    'two lengths': 'POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
    'length and chunked': 'POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'bare line feed': 'GET /health HTTP/1.1\nHost: x\n\n',
    'folded header': 'GET /health HTTP/1.1\r\nHost: x\r\nX-A: b\r\n c\r\n\r\n',
    'blank before colon': 'GET /health HTTP/1.1\r\nHost: x\r\nX-A : b\r\n\r\n',
    'unknown transfer coding': 'POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'no host': 'GET /health HTTP/1.1\r\n\r\n',
    'two hosts': 'GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    'negative length': 'POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n',
    'NUL in a header': 'GET /health HTTP/1.1\r\nHost: x\r\nX-A: a\0b\r\n\r\n',
    'garbage': '\x16\x03\x01\x02\x00\x01\x00\r\n\r\n',
  }
  for (const [what, bytes] of Object.entries(smuggled)) {
    const answer = await exchange(server.port, bytes)
    assert.ok([400, 501].includes(answer.status), `${what}: ${answer.text || 'no answer'}`)
  }
}))

test('malformed JSON: 400 and where', clean(async () => {
  for (const body of ['{"templateID": "base",', '{"templateID" "base"}', '[1,2', 'nonsense', '{"templateID":"base"} trailing']) {
    const answer = await api(server, 'POST', '/v2/sandboxes', { body })
    isError(answer, 400, /\d/)
  }
  isError(await api(server, 'POST', '/v2/sandboxes', { body: '' }), 400)
  isError(await api(server, 'POST', '/v2/sandboxes', { body: '['.repeat(100_000) }), 400)
  isError(await api(server, 'POST', '/v2/sandboxes', { body: Buffer.from('{"templateID":"\xff\xfe"}', 'latin1') }), 400)
}))

test('fields of the wrong kind: 400 and which', clean(async () => {
  const wrong = {
    templateID: [undefined, 7, null, '', {}],
    timeout: ['soon', -1, 0, 1.5, 1e12],
    metadata: ['x', { a: 1 }, []],
    envVars: ['x', { A: null }, { 'A=B': 'c' }, { '': 'c' }],
    secure: undefined,
  }
  for (const [field, values] of Object.entries(wrong))
    for (const value of values ?? []) {
      const answer = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'base', [field]: value } })
      isError(answer, 400)
      if (field !== 'timeout') assert.match(answer.json.message, field === 'templateID' ? /template/i : new RegExp(field), JSON.stringify(value))
    }
  isError(await api(server, 'POST', '/v2/sandboxes', { body: [] }), 400)
}))

test('unknown template: 404 with the exact text: that of the contract, and the templates that there are', clean(async () => {
  const text = "template 'no-such' not found. There are: base; ready-made, built at their first use: agent-sandbox, agents-backend-sandbox, code-interpreter, code-interpreter-beta, code-interpreter-v1, desktop, mcp-gateway, nextjs-developer, node, nodejs, python, python3"
  isError(await api(server, 'POST', '/v2/sandboxes', { body: { templateID: 'no-such' } }), 404, text)
  isError(await api(server, 'POST', '/sandboxes', { body: { templateID: 'no-such' } }), 404, text)
  isError(await api(server, 'POST', '/sandboxes', { body: { templateID: '../../etc/passwd' } }), 400)
}))

test('no key, wrong key, key of the wrong form: 401', clean(async () => {
  for (const key of [null, 'e2b_' + 'f'.repeat(40), 'nonsense', server.key + '0', server.key.slice(0, -1), '']) {
    isError(await api(server, 'GET', '/v2/sandboxes', { key }), 401)
    isError(await api(server, 'POST', '/v2/sandboxes', { key, body: { templateID: 'base' } }), 401)
  }
  assert.ok((await api(server, 'GET', '/health', { key: null })).status < 300)
}))

test('a sandbox of nobody: 404 everywhere', clean(async () => {
  const id = 'i' + 'q7'.repeat(10)
  const text = `Sandbox "${id}" doesn't exist or you don't have access to it`
  isError(await api(server, 'GET', `/sandboxes/${id}`), 404, text)
  isError(await api(server, 'DELETE', `/sandboxes/${id}`), 404)
  isError(await api(server, 'POST', `/sandboxes/${id}/timeout`, { body: { timeout: 5 } }), 404)
  isError(await api(server, 'POST', `/sandboxes/${id}/connect`, { body: { timeout: 5 } }), 404)
  isError(await api(server, 'POST', `/v2/sandboxes/${id}/connect`, { body: {} }), 404)
}))

test('ids with strange characters are refused, never looked up as paths', clean(async () => {
  for (const id of ['..', '%2e%2e', '..%2f..%2fetc', 'i%00', 'I' + 'A'.repeat(20), 'ü', '%ff', 'i' + 'a'.repeat(5000), "i';drop table", '%20'])
    for (const method of ['GET', 'DELETE']) {
      const answer = await api(server, method, `/sandboxes/${encodeURI(id).replaceAll('%25', '%')}`)
      assert.ok([400, 404].includes(answer.status), `${method} ${id}: ${answer.status} ${answer.body}`)
      assert.equal(answer.json?.code, answer.status)
    }
}))

test('unknown routes 404, wrong methods 404 or 405, always JSON', clean(async () => {
  for (const [method, path] of [['GET', '/nothing'], ['GET', '/sandboxes/a/b/c/d'], ['PATCH', '/sandboxes'], ['GET', '//'], ['POST', '/health']]) {
    const answer = await api(server, method, path)
    assert.ok([404, 405].includes(answer.status), `${method} ${path}: ${answer.status}`)
    assert.equal(answer.json?.code, answer.status)
  }
}))

test('bad list parameters: 400', clean(async () => {
  for (const query of ['limit=0', 'limit=101', 'limit=x', 'nextToken=nonsense', 'metadata=novalue', 'order=sideways', 'state=flying', 'startedAfter=yesterday'])
    isError(await api(server, 'GET', `/v2/sandboxes?${query}`), 400)
}))

test('paths with NUL or dots stay inside the sandbox', clean(async () => {
  const sandbox = await createRaw(server)
  const call = (method, path, options) => envd(server, sandbox, method, path, options)
  const rpc = (name, body) => call('POST', `/filesystem.Filesystem/${name}`, { body })
  assert.ok((await call('GET', '/files?path=%2Fetc%2Fpass%00wd')).status >= 400)
  assert.ok((await rpc('Stat', { path: '/etc/pass\u0000wd' })).status >= 400)
  assert.ok((await rpc('MakeDir', { path: '/tmp/a\u0000b' })).status >= 400)
  const above = await call('GET', '/files?path=../../../../../../etc/hostname')
  assert.ok([200, 404].includes(above.status))
  const stat = await rpc('Stat', { path: '/../../../../home/user' })
  assert.deepEqual([stat.status, stat.json?.entry?.name], [200, 'user']) // the root of the sandbox is above itself
  assert.ok((await call('GET', '/health')).status < 300)
  await killRaw(server, sandbox.sandboxID)
}))

test('the daemon of a sandbox refuses bad calls and lives on', clean(async () => {
  const sandbox = await createRaw(server)
  const call = (method, path, options) => envd(server, sandbox, method, path, options)
  const rpc = (path, body, type = 'application/json') => call('POST', path, { body, headers: { 'Content-Type': type } })
  assert.equal((await rpc('/filesystem.Filesystem/Stat', '{"path":')).status, 400)
  assert.equal((await rpc('/filesystem.Filesystem/Stat', '{"path":7}')).status, 400)
  assert.equal((await rpc('/filesystem.Filesystem/Stat', '{}', 'text/plain')).status, 415)
  assert.equal((await call('GET', '/filesystem.Filesystem/Stat')).status, 405)
  assert.ok((await rpc('/process.Process/NoSuch', '{}')).status >= 400)
  assert.equal((await call('GET', '/no/such/path')).status, 404)
  const short = await rpc('/process.Process/Start', Buffer.from([0, 0, 0, 1, 0, 123]), 'application/connect+json')
  assert.match(short.body, /invalid_argument|internal/)
  const broken = await call('POST', '/files?path=x', { body: '--b\r\nnonsense', headers: { 'Content-Type': 'multipart/form-data; boundary=b' } })
  assert.ok(broken.status >= 400)
  assert.ok((await call('GET', '/health')).status < 300)
  await killRaw(server, sandbox.sandboxID)
}))

test('bad routing: illegal hosts and headers are refused', clean(async () => {
  const get = (host, headers = '') => exchange(server.port, `GET /health HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n`)
  assert.equal((await get('localhost', 'E2b-Sandbox-Id: iabc\r\n')).status, 400)
  assert.equal((await get('localhost', 'E2b-Sandbox-Id: ../x\r\nE2b-Sandbox-Port: 80\r\n')).status, 400)
  assert.equal((await get('localhost', `E2b-Sandbox-Id: i${'a'.repeat(20)}\r\nE2b-Sandbox-Port: 99999\r\n`)).status, 400)
  assert.equal((await get(`80-UPPER_case.${server.domain}`)).status, 400)
  assert.equal((await get(`x-i${'a'.repeat(20)}.${server.domain}`)).status, 400)
}))

test('pipelined requests are answered in order', clean(async () => {
  const one = (path) => `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nX-API-Key: ${server.key}\r\n\r\n`
  const last = `GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n`
  const answer = await exchange(server.port, one('/v2/sandboxes') + one('/nothing') + last, { quietMs: 2000 })
  assert.match(answer.text, /^HTTP\/1\.1 200/)
}))

test('a client that sends half a request and leaves', clean(async () => {
  for (let i = 0; i < 20; i++) await exchange(server.port, post('/v2/sandboxes', '{"templateID":"base"}').slice(0, -5 - i), { end: true, quietMs: 300 })
  assert.equal((await api(server, 'GET', '/v2/sandboxes')).json.length, 0)
}))
