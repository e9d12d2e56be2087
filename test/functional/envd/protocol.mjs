// The layers around the calls: Connect framing, methods and types, CORS, tokens, signatures, init.
import crypto from 'node:crypto'
import { assert, basic, call, envd, envelope, fails, files, fs, main, path, proc, raw, refuses, request, run, Stream, succeeds, test } from './lib.mjs'

const token = 'secret-token'
const init = (body, headers = {}) => request('POST', '/init', { headers: { 'content-type': 'application/json', ...headers }, body: body === undefined ? undefined : JSON.stringify(body) })
const streamed = async (body, headers) => (await new Stream('process.Process/Start', null, headers, body).whole())

test('health is 204 and may not be stored', async () => {
  const rs = await request('GET', '/health')
  assert.deepEqual([rs.status, rs.text, rs.headers['cache-control']], [204, '', 'no-store'])
})

test('unknown paths are 404, wrong methods 405', async () => {
  const rs = await request('GET', '/nope')
  assert.deepEqual([rs.status, rs.text], [404, '404 page not found\n'])
  assert.equal((await request('POST', '/process.Process/Nope')).status, 404)
  assert.equal((await request('POST', '/health')).status, 405)
  const get = await request('GET', '/process.Process/List')
  assert.deepEqual([get.status, get.headers.allow], [405, 'POST'])
})

test('wrong content types are 415 and say what is taken', async () => {
  for (const type of ['text/plain', 'application/proto', 'application/connect+json', undefined]) {
    const rs = await request('POST', '/process.Process/List', { headers: type ? { 'content-type': type } : {}, body: '{}' })
    assert.deepEqual([rs.status, rs.headers['accept-post']], [415, 'application/json'], type)
  }
  const rs = await request('POST', '/process.Process/Start', { headers: { 'content-type': 'application/json' }, body: '{}' })
  assert.deepEqual([rs.status, rs.headers['accept-post']], [415, 'application/connect+json'])
  assert.equal((await request('POST', '/process.Process/List', { headers: { 'content-type': 'application/json; charset=utf-8' }, body: '{}' })).status, 200)
})

test('malformed messages are invalid_argument', async () => {
  for (const bad of ['', '{', '[]', '"x"', '{"a":1,"a":2}', '{} x', 'null', '\xff'])
    await fails(proc('List', Buffer.from(bad, 'latin1')), 400, 'invalid_argument')
  for (const bad of ['', '{', '[]']) assert.equal((await streamed(envelope(bad))).end.error.code, 'invalid_argument')
  assert.equal((await request('POST', '/filesystem.Filesystem/Stat', { headers: { 'content-type': 'application/json' }, body: '['.repeat(100_000) })).status, 400)
})

test('unknown fields are ignored, null is unset', async () => {
  await succeeds(files('Stat', { path: '/', bogus: { a: [1] } }))
  assert.equal((await succeeds(files('Stat', { path: null }))).entry.path, '/root')
})

test('broken envelopes', async () => {
  assert.equal((await streamed(Buffer.alloc(0))).end.error.code, 'unimplemented')
  assert.equal((await streamed(Buffer.from([0, 0]))).end.error.code, 'invalid_argument')
  assert.equal((await streamed(envelope('{}').subarray(0, 6))).end.error.code, 'invalid_argument')
  assert.equal((await streamed(envelope({}, 1))).end.error.code, 'internal')
  assert.equal((await streamed(envelope({}, 0x40))).end.error.code, 'invalid_argument')
  assert.equal((await streamed(Buffer.concat([envelope({}), envelope({})]))).end.error.code, 'unimplemented')
  assert.equal((await streamed(Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1]))).end.error.code, 'resource_exhausted')
})

test('a body beyond the limit is 413', async () => {
  const rs = await raw('POST /process.Process/List HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 99999999999\r\n\r\n', (t) => t.includes('413'))
  assert.match(rs, /^HTTP\/1\.1 413 /)
})

test('protocol version and compression', async () => {
  await fails(proc('List', {}, { 'connect-protocol-version': '2' }), 400, 'invalid_argument', 'connect-protocol-version must be "1": got "2"')
  await succeeds(proc('List', {}, { 'connect-protocol-version': '1', 'content-encoding': 'identity' }))
  await fails(proc('List', {}, { 'content-encoding': 'gzip' }), 501, 'unimplemented')
  assert.equal((await streamed(envelope({}), { 'connect-content-encoding': 'gzip' })).end.error.code, 'unimplemented')
})

test('chunked request bodies are taken', async () => {
  assert.equal((await request('POST', '/process.Process/List', { headers: { 'content-type': 'application/json', 'transfer-encoding': 'chunked' }, body: '{}' })).status, 200)
})

test('CORS: preflight, and what answers carry', async () => {
  const pre = await request('OPTIONS', '/process.Process/Start', { headers: { origin: 'https://a.example', 'access-control-request-method': 'POST', 'access-control-request-headers': 'x-access-token,content-type' } })
  assert.equal(pre.status, 204)
  assert.equal(pre.headers['access-control-allow-origin'], '*')
  assert.equal(pre.headers['access-control-allow-methods'], 'HEAD, GET, POST, PUT, PATCH, DELETE')
  assert.equal(pre.headers['access-control-allow-headers'], 'x-access-token,content-type')
  assert.equal(pre.headers['access-control-max-age'], '7200')
  for (const rs of [await request('GET', '/health', { headers: { origin: 'x' } }), await request('GET', '/nope', { headers: { origin: 'x' } }), await proc('List', {}, { origin: 'x' })]) {
    assert.equal(rs.headers['access-control-allow-origin'], '*')
    assert.match(rs.headers['access-control-expose-headers'], /Grpc-Status/)
  }
  assert.equal((await request('GET', '/health')).headers['access-control-allow-origin'], undefined)
})

test('metrics', async () => {
  const rs = await request('GET', '/metrics')
  const m = rs.json
  assert.deepEqual(Object.keys(m), ['ts', 'cpu_count', 'cpu_used_pct', 'mem_total_mib', 'mem_used_mib', 'mem_total', 'mem_used', 'mem_cache', 'disk_used', 'disk_total'])
  assert.ok(m.cpu_count >= 1 && m.mem_total > 0 && m.disk_total > m.disk_used && m.cpu_used_pct <= 100)
})

test('init: variables replace, the internal ones cannot be changed', async () => {
  assert.equal((await init()).status, 204)
  const rs = await init({ envVars: { A: '1', E2B_SANDBOX: 'no' } })
  assert.deepEqual([rs.status, rs.headers['x-envd-version'], rs.headers['cache-control']], [204, '0.6.13', 'no-store'])
  assert.deepEqual((await request('GET', '/envs')).json, { A: '1', E2B_SANDBOX: 'true' })
  assert.equal((await run('echo $A')).stdout, '1\n')
  await init({})
  assert.equal((await request('GET', '/envs')).json.A, '1')
  await init({ envVars: { B: '2' } })
  assert.deepEqual((await request('GET', '/envs')).json, { B: '2', E2B_SANDBOX: 'true' })
  await init({ envVars: {} })
})

test('init: what is wrong is named', async () => {
  for (const [body, message] of [
    [{ accessToken: '' }, /accessToken/], [{ envVars: { A: 1 } }, /envVars/], [{ envVars: { 'A=B': '1' } }, /A=B/], [{ timestamp: 'soon' }, /timestamp/],
    [{ defaultUser: 7 }, /defaultUser/], [{ volumeMounts: [] }, /volumeMounts is not supported/], [[], /object/],
  ]) await refuses(init(body), 400, message)
  await refuses(request('POST', '/init', { body: '{"a"' }), 400, /^invalid JSON/)
})

test('init: an older timestamp changes nothing', async () => {
  const t = (s) => new Date(Date.UTC(2030, 0, 1, 0, 0, s)).toISOString()
  assert.equal((await init({ timestamp: t(10), envVars: { N: 'new' } })).status, 204)
  assert.equal((await init({ timestamp: t(5), envVars: { N: 'old' } })).status, 204)
  assert.equal((await request('GET', '/envs')).json.N, 'new')
  await init({ timestamp: t(11), envVars: {} })
})

test('init: default user and working directory', async () => {
  await init({ defaultWorkdir: envd.dir, defaultUser: 'ghost' })
  const s = await new Stream('process.Process/Start', { process: { cmd: '/bin/pwd' } }).whole()
  assert.deepEqual(s.end.error, { code: 'unauthenticated', message: "invalid default user: 'ghost'" })
  await fails(files('Stat', { path: 'x' }), 401, 'unauthenticated', "invalid default user: 'ghost'")
  await init({ defaultUser: 'root' })
  assert.equal((await run({ cmd: '/bin/pwd' })).stdout.trim(), fs.realpathSync(envd.dir))
  assert.equal((await succeeds(files('Stat', { path: '' }))).entry.path, envd.dir)
  await fails(files('Stat', { path: 'x' }), 404, 'not_found', /lstat \/root\/x/)
  await init({ defaultWorkdir: '/root' })
})

test('with a token set, calls need it and open paths do not', async () => {
  assert.equal((await init({ accessToken: token })).status, 204)
  const message = 'unauthorized access, please provide a valid access token or method signing if supported'
  await refuses(proc('List', {}), 401, message)
  await refuses(proc('List', {}, { 'x-access-token': 'wrong' }), 401, message)
  await refuses(request('GET', '/envs'), 401, message)
  await refuses(request('GET', '/metrics'), 401, message)
  await refuses(request('GET', '/nope'), 401, message)
  await refuses(request('POST', '/process.Process/Start', { headers: { 'content-type': 'application/connect+json' }, body: envelope({}) }), 401, message)
  assert.equal((await request('GET', '/health')).status, 204)
  await succeeds(proc('List', {}, { 'x-access-token': token }))
  assert.equal((await request('OPTIONS', '/envs', { headers: { origin: 'x', 'access-control-request-method': 'GET' } })).status, 204)
})

test('with a token set, init must know it', async () => {
  for (const body of [{}, { accessToken: 'other' }, undefined]) {
    const rs = await init(body)
    assert.deepEqual([rs.status, rs.text], [401, 'access token validation failed'])
  }
  assert.equal((await init({ accessToken: token })).status, 204)
  assert.equal((await init({ accessToken: 'second' }, { 'x-access-token': token })).status, 204)
  await refuses(proc('List', {}, { 'x-access-token': token }), 401)
  assert.equal((await init({ accessToken: token }, { 'x-access-token': 'second' })).status, 204)
})

const sign = (p, operation, user, exp) => 'v1_' + crypto.createHash('sha256').update([p, operation, user, token, ...(exp === undefined ? [] : [exp])].join(':')).digest('base64').replace(/=+$/, '')
const url = (p, { user = '', signature, exp } = {}) =>
  `/files?${new URLSearchParams({ path: p, ...(user && { username: user }), ...(signature !== undefined && { signature }), ...(exp !== undefined && { signature_expiration: String(exp) }) })}`

test('files take the token or a signature', async () => {
  const file = path.join(envd.dir, 'signed file.txt')
  const now = Math.floor(Date.now() / 1000)
  const headers = { 'content-type': 'application/octet-stream' }
  await refuses(request('GET', url(file)), 401, 'missing signature query parameter')
  await refuses(request('GET', url(file), { headers: { 'x-access-token': 'wrong' } }), 401, 'access token present in header but does not match')
  await refuses(request('POST', url(file), { headers, body: 'x' }), 401, 'missing signature query parameter')
  assert.equal((await request('POST', url(file, { signature: sign(file, 'write', '') }), { headers, body: 'x' })).status, 200)
  assert.equal((await request('POST', url(file, { user: 'root', exp: now + 60, signature: sign(file, 'write', 'root', now + 60) }), { headers, body: 'signed' })).status, 200)
  assert.equal((await request('GET', url(file, { signature: sign(file, 'read', '') }))).text, 'signed')
  assert.equal((await request('GET', url(file, { exp: now + 60, signature: sign(file, 'read', '', now + 60) }))).status, 200)
  assert.equal((await request('GET', url(file), { headers: { 'x-access-token': token } })).text, 'signed')
  await refuses(request('GET', url(file, { exp: now - 1, signature: sign(file, 'read', '', now - 1) })), 401, 'signature is already expired')
  await refuses(request('GET', url(file, { exp: now + 61, signature: sign(file, 'read', '', now + 60) })), 401, 'invalid signature')
  await refuses(request('GET', url(file, { exp: now - 1, signature: 'v1_x' })), 401, 'invalid signature')
  await refuses(request('GET', url(file, { signature: sign(file, 'write', '') })), 401, 'invalid signature')
  await refuses(request('GET', url('/no/such', { signature: sign('/no/such', 'read', '') })), 404)
  assert.equal((await request('GET', '/envs', { headers: { 'x-access-token': token } })).status, 200)
})

test('an authorised init without a token opens the daemon again', async () => {
  assert.equal((await init({}, { 'x-access-token': token })).status, 204)
  await succeeds(proc('List', {}))
})

test('init after a restore: other connections are cut, what ran goes on and can be connected to', async () => {
  const running = new Stream('process.Process/Start', { process: { cmd: '/bin/sh', args: ['-c', 'echo before; read x; echo after $x'] }, tag: 'kept' })
  const pid = await running.pid()
  await running.until(() => running.output().length)
  const idle = raw('GET /health HTTP/1.1\r\nHost: x\r\n\r\n')
  const halfway = raw('POST /files?path=/tmp/never HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 10\r\n\r\nhalf')
  await request('GET', '/health')
  const rs = await init({ resumed: true, sandboxID: 'iother', templateID: 't2', accessToken: 'fresh', envVars: { WHERE: 'here' } })
  assert.deepEqual([rs.status, rs.headers['x-envd-version']], [204, '0.6.13'])
  await running.closed
  assert.equal(running.end, null, 'cut, not ended')
  assert.match(await idle, /^HTTP\/1.1 204 /)
  assert.equal(await halfway, '')
  const known = { 'x-access-token': 'fresh' }
  await refuses(proc('List', {}), 401)
  const { processes } = await succeeds(proc('List', {}, known))
  assert.deepEqual(processes.map((p) => [p.pid, p.tag]), [[pid, 'kept']])
  const again = new Stream('process.Process/Connect', { process: { tag: 'kept' } }, { ...known, 'sandglass-replay-from': '0' })
  assert.equal(await again.pid(), pid)
  await succeeds(proc('SendInput', { process: { pid }, input: { stdin: Buffer.from('x\n').toString('base64') } }, known))
  await again.whole()
  assert.equal(String(again.output()), 'before\nafter x\n')
  assert.deepEqual((await request('GET', '/envs', { headers: known })).json, { WHERE: 'here', E2B_SANDBOX: 'true', E2B_SANDBOX_ID: 'iother', E2B_TEMPLATE_ID: 't2' })
  assert.equal(fs.existsSync('/run/e2b/.E2B_SANDBOX_ID'), false, 'an ordinary process furnishes nothing')
  await init({ envVars: {} }, known)
})

test('init after a restore: what is wrong changes nothing and cuts nothing', async () => {
  const running = new Stream('process.Process/Start', { process: { cmd: '/bin/sh', args: ['-c', 'read x; echo $x'] } })
  const pid = await running.pid()
  await refuses(init({ resumed: 'yes' }), 400, /resumed/)
  await refuses(init({ resumed: true, accessToken: '' }), 400, /accessToken/)
  await succeeds(proc('SendInput', { process: { pid }, input: { stdin: Buffer.from('still\n').toString('base64') } }))
  await running.whole()
  assert.equal(String(running.output()), 'still\n')
})

test('requests on one connection, pipelined', async () => {
  const one = 'GET /health HTTP/1.1\r\nHost: x\r\n\r\n'
  const got = await raw(one + one + 'GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
  assert.equal(got.match(/204 No Content/g).length, 3)
})

test('a user name that is not base64 counts as none', async () => {
  assert.equal((await request('GET', '/health', { headers: { authorization: 'Basic !!!' } })).status, 204)
  await succeeds(files('Stat', { path: '/' }, basic('root')))
})

await main()
