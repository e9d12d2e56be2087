// Every row of the agent API about sandboxes, with good input and bad.
import assert from 'node:assert/strict'
import http from 'node:http'
import { after, before, test } from 'node:test'

import { call, collect, events, startWithTwoTeams } from '../lib/agent_api.mjs'
import { request } from '../lib/preview.mjs'
import { api, exchange } from '../lib/raw.mjs'
import { until } from '../lib/wait.mjs'

let server, otherKey
before(async () => ({ server, otherKey } = await startWithTwoTeams()))
after(() => server.cleanUp())

const ask = (...args) => call(server, ...args)
async function make(body = {}) {
  const made = await ask('POST', '/sandboxes', { template_id: 'base', ...body })
  assert.equal(made.status, 201, made.body)
  return made.json
}
const remove = async (id) => assert.equal((await ask('DELETE', `/sandboxes/${id}`)).status, 204)
const run = (id, command, more = {}) => ask('POST', `/sandboxes/${id}/commands`, { command, ...more })

/** An error in the form of this API. */
function isError(answer, status, code, words = /./) {
  assert.equal(answer.status, status, answer.body)
  assert.deepEqual(Object.keys(answer.json ?? {}), ['error'], answer.body)
  assert.equal(answer.json.error.code, code, answer.body)
  assert.match(answer.json.error.message, words)
}

test('what create takes reaches the sandbox', async () => {
  const box = await make({ env: { STAGE: 'a "test"' }, metadata: { owner: 'me', 'odd key': 'a&b=c' }, cpu: 1, memory_mb: 512, timeout_s: 600, unknown: { x: 1 } })
  const { json } = await ask('GET', `/sandboxes/${box.sandbox_id}`)
  assert.deepEqual([json.cpu, json.memory_mb, json.template], [1, 512, 'base'])
  assert.deepEqual(json.metadata, { owner: 'me', 'odd key': 'a&b=c' })
  const left = (Date.parse(json.ends_at) - Date.parse(json.created_at)) / 1000
  assert.equal(Math.round(left), 600)
  assert.equal((await run(box.sandbox_id, 'echo "$STAGE"')).json.stdout, 'a "test"\n')
  const found = await ask('GET', `/sandboxes?metadata.owner=me&metadata.odd%20key=a%26b%3Dc`)
  assert.deepEqual(found.json.sandboxes.map((s) => s.sandbox_id), [box.sandbox_id])
  assert.deepEqual((await ask('GET', '/sandboxes?metadata.owner=you')).json, { sandboxes: [] })
  await remove(box.sandbox_id)
})

test('the address without a port is port 80', async () => {
  const box = await make()
  await run(box.sandbox_id, 'mkdir -p /tmp/web && cd /tmp/web && echo hello >index.html && sudo python3 -m http.server 80', { background: true })
  const host = new URL(box.url).host
  const page = await until('a page on port 80', async () => {
    const answer = await exchange(server.port, `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
    return answer.status === 200 && answer
  })
  assert.match(page.body, /hello/)
  const { json } = await ask('GET', `/sandboxes/${box.sandbox_id}/ports`)
  assert.deepEqual(json.ports, [{ port: 80, address: 'any', url: `https://80-${box.sandbox_id}.${server.domain}` }])
  await remove(box.sandbox_id)
})

test('the network that was asked for', async () => {
  const box = await make({ network: { internet: false, allow_public_traffic: false } })
  const { json } = await api(server, 'GET', `/sandboxes/${box.sandbox_id}`)
  assert.equal(json.allowInternetAccess, false)
  assert.equal(json.network.allowPublicTraffic, false)
  assert.equal((await run(box.sandbox_id, 'true')).json.exit_code, 0) // its owner gets in
  await remove(box.sandbox_id)
})

test('ports that are not public are reached with the token of the answer, also by a call of this API', async () => {
  const open = await make()
  assert.equal(open.traffic_access_token, undefined)
  const box = await make({ network: { allow_public_traffic: false } })
  const at = `/sandboxes/${box.sandbox_id}`
  assert.match(box.traffic_access_token, /^\S{20,}$/)
  for (const answer of [await ask('GET', at), await ask('POST', `${at}/timeout`, { timeout_s: 600 })]) assert.equal(answer.json.traffic_access_token, box.traffic_access_token)
  assert.ok((await ask('GET', '/sandboxes')).json.sandboxes.every((s) => s.traffic_access_token === undefined))
  await run(box.sandbox_id, 'mkdir /tmp/web && cd /tmp/web && echo private >index.html && python3 -m http.server 3000', { background: true })
  const page = (token) => request({ server, transport: 'http' }, box.sandbox_id, 3000, { headers: token ? { 'E2b-Traffic-Access-Token': token } : {} })
  assert.equal((await page()).status, 403)
  assert.equal((await page('x'.repeat(64))).status, 403)
  assert.equal((await until('the page', async () => { const answer = await page(box.traffic_access_token); return answer.status === 200 && answer })).body, 'private\n')
  isError(await ask('POST', `${at}/code`, { code: '1' }), 501, 'no_interpreter') // not 403: the call has the token
  await Promise.all([open, box].map((b) => remove(b.sandbox_id)))
})

test('create refuses what is wrong, and names the field', async () => {
  const cases = [['{', /line 1/], ['[]', /object/], ['"x"', /line 1/], [{ template_id: 7 }, /template_id/], [{ template_id: 'no such thing!' }, /template/], [{ timeout_s: 'long' }, /timeout_s/], [{ timeout_s: 1e9 }, /timeout_s/], [{ env: { 'A=B': 'x' } }, /env/], [{ env: { A: 1 } }, /env/], [{ metadata: [] }, /metadata/], [{ cpu: 0 }, /cpu/], [{ cpu: 5000 }, /cpu/i], [{ memory_mb: 1 }, /memory/i], [{ network: 'open' }, /network/], [{ network: { deny_out: ['nowhere'] } }, /nowhere/], [{ auto_pause: 'yes' }, /auto_pause/], [{ template_id: 'base\0x' }, /template_id/], [{ env: { A: 'x\0y' } }, /env\.A/], [{ metadata: { k: 'x\0y' } }, /metadata\.k/], [{ network: { deny_out: ['10.0.0.0/8\0'] } }, /deny_out/], [{ network: { mask_request_host: 'a\0b' } }, /mask_request_host/]]
  for (const [body, words] of cases) isError(await ask('POST', '/sandboxes', body), 400, 'invalid_request', words)
  isError(await ask('POST', '/sandboxes', { template_id: 'nosuchtemplate' }), 404, 'not_found', /nosuchtemplate/)
  isError(await ask('POST', '/sandboxes', ' '.repeat(2 << 20)), 413, 'too_large')
  assert.deepEqual((await ask('GET', '/sandboxes')).json.sandboxes, [])
})

test('credentials refuse what is wrong, and name the field', async () => {
  for (const value of ['a\0b', '', 5, null]) isError(await ask('PUT', '/credentials/github', { value }), 400, 'invalid_request', /value/)
  isError(await ask('PUT', '/credentials/..', { value: 'x' }), 400, 'invalid_request', /name/)
  isError(await ask('PUT', '/credentials/github', { value: 'x'.repeat(2 << 20) }), 413, 'too_large')
  assert.deepEqual((await ask('GET', '/credentials')).json, { credentials: [] })
})

test('who may: no token, wrong tokens, and those of another team', async () => {
  const box = await make()
  const at = `/sandboxes/${box.sandbox_id}`
  const rows = [['GET', at], ['DELETE', at], ['POST', `${at}/commands`, { command: 'true' }], ['GET', `${at}/commands`], ['GET', `${at}/commands/1`], ['DELETE', `${at}/commands/1`], ['POST', `${at}/commands/1/stdin`, { data: 'x' }], ['GET', `${at}/files?path=/etc/passwd`], ['POST', `${at}/files`, { path: '/tmp/x', content: '' }], ['PUT', `${at}/files?path=/tmp/x`, 'x'], ['DELETE', `${at}/files?path=/tmp`], ['GET', `${at}/files/list?path=/`], ['GET', `${at}/files/stat?path=/`], ['POST', `${at}/files/rename`, { from: '/a', to: '/b' }], ['POST', `${at}/files/mkdir`, { path: '/a' }], ['GET', `${at}/files/archive?path=/tmp`], ['PUT', `${at}/files/archive?path=/tmp`, 'x'], ['GET', `${at}/ports`], ['POST', `${at}/code`, { code: '1' }], ['POST', `${at}/timeout`, { timeout_s: 1 }], ['POST', `${at}/pause`], ['POST', `${at}/resume`], ['POST', `${at}/fork`], ['POST', `${at}/snapshots`], ['GET', `${at}/events`]]
  for (const [method, path, body] of rows) {
    isError(await ask(method, path, body, { token: null }), 401, 'unauthorized', /token/)
    isError(await ask(method, path, body, { token: 'e2b_' + 'f'.repeat(40) }), 401, 'unauthorized')
    isError(await ask(method, path, body, { token: otherKey }), 404, 'not_found')
  }
  for (const header of ['Bearer', 'Bearer ', 'Basic dXNlcjo=', `bearer${server.key}`, `Bearer ${'x'.repeat(2000)}`])
    isError(await ask('GET', at, undefined, { token: null, headers: { Authorization: header } }), 401, 'unauthorized')
  assert.equal((await ask('GET', at, undefined, { token: null, headers: { Authorization: `bearer ${server.key}` } })).status, 200)
  assert.deepEqual((await ask('GET', '/sandboxes', undefined, { token: otherKey })).json.sandboxes, [])
  assert.equal((await ask('GET', at)).json.status, 'running') // nobody else did anything to it
  await remove(box.sandbox_id)
})

test('wrong methods, paths and ids', async () => {
  isError(await ask('PATCH', '/sandboxes'), 405, 'method_not_allowed')
  assert.equal((await ask('PATCH', '/sandboxes')).headers.allow, 'POST, GET')
  for (const path of ['', '/', '/nothing', '/sandboxes/', '/sandboxes/x/y', `/${'a/'.repeat(12)}`]) isError(await ask('GET', path), 404, 'not_found')
  for (const id of ['inope', 'i'.repeat(21), 'I-UPPER', '..%2f..', 'sbx_', 'sbx_sbx_i', 'x'.repeat(500), '%00'])
    isError(await ask('GET', `/sandboxes/${id}`), 404, 'not_found')
  const preflight = await ask('OPTIONS', '/sandboxes', undefined, { token: null, headers: { Origin: 'https://page.example' } })
  assert.deepEqual([preflight.status, preflight.headers['access-control-allow-origin']], [204, '*'])
  const long = await exchange(server.port, `GET /api/v1/agent/sandboxes?x=${'y'.repeat(40_000)} HTTP/1.1\r\nHost: localhost\r\n\r\n`)
  assert.equal(long.status, 414)
})

test('a list has pages', async () => {
  const made = [await make(), await make(), await make()].map((b) => b.sandbox_id).reverse()
  const first = await ask('GET', '/sandboxes?limit=2&status=running')
  assert.deepEqual(first.json.sandboxes.map((s) => s.sandbox_id), made.slice(0, 2))
  const second = await ask('GET', `/sandboxes?limit=2&cursor=${encodeURIComponent(first.json.next_cursor)}`)
  assert.deepEqual(second.json.sandboxes.map((s) => s.sandbox_id), made.slice(2))
  assert.equal(second.json.next_cursor, undefined)
  assert.deepEqual((await ask('GET', '/sandboxes?status=paused')).json.sandboxes, [])
  assert.deepEqual((await ask('GET', '/sandboxes?status=running,stopped')).json.sandboxes.length, 3)
  const stopped = await ask('GET', '/sandboxes?status=stopped')
  assert.deepEqual([stopped.status, stopped.json], [200, { sandboxes: [] }]) // those that were deleted are none
  isError(await ask('GET', '/sandboxes?status=stopped', undefined, { token: 'e2b_' + 'f'.repeat(40) }), 401, 'unauthorized')
  for (const query of ['limit=0', 'limit=x', 'status=gone', 'cursor=%ff%zz']) isError(await ask('GET', `/sandboxes?${query}`), 400, 'invalid_request')
  isError(await ask('GET', '/sandboxes?cursor=nonsense'), 400, 'invalid_request')
  await Promise.all(made.map(remove))
})

test('paused: told by its status, resumed by a request only where that was asked for', async () => {
  const stays = await make()
  const wakes = await make({ auto_pause: true })
  for (const { sandbox_id: id } of [stays, wakes]) {
    await run(id, 'echo kept >/tmp/kept')
    const paused = await ask('POST', `/sandboxes/${id}/pause`)
    assert.deepEqual([paused.status, paused.json.status], [200, 'paused'])
    isError(await ask('POST', `/sandboxes/${id}/pause`), 409, 'conflict')
    assert.equal((await ask('GET', `/sandboxes/${id}`)).json.status, 'paused') // looking does not resume it
  }
  const at = `/sandboxes/${stays.sandbox_id}`
  for (const [method, path, body] of [['POST', '/commands', { command: 'true' }], ['GET', '/commands'], ['GET', '/files?path=/tmp/kept'], ['GET', '/ports'], ['POST', '/code', { code: '1' }]])
    isError(await ask(method, at + path, body), 409, 'paused', /resume/)
  assert.equal((await run(wakes.sandbox_id, 'cat /tmp/kept')).json.stdout, 'kept\n')
  const resumed = await ask('POST', `${at}/resume`, { timeout_s: 100 })
  assert.deepEqual([resumed.status, resumed.json.status], [200, 'running'])
  assert.equal((await run(stays.sandbox_id, 'cat /tmp/kept')).json.stdout, 'kept\n')
  isError(await ask('POST', `${at}/resume`, { timeout_s: 0 }), 400, 'invalid_request', /timeout_s/)
  await Promise.all([stays, wakes].map((b) => remove(b.sandbox_id)))
})

test('timeouts, forks and snapshots', async () => {
  const { sandbox_id: id } = await make()
  const later = await ask('POST', `/sandboxes/${id}/timeout`, { timeout_s: 5000 })
  assert.ok(Date.parse(later.json.ends_at) > Date.now() + 4_000_000)
  isError(await ask('POST', `/sandboxes/${id}/timeout`, {}), 400, 'invalid_request', /timeout_s/)
  await run(id, 'echo one >/tmp/state')
  const forks = await ask('POST', `/sandboxes/${id}/fork`, { count: 2 })
  assert.equal(forks.status, 201, forks.body)
  for (const { sandbox_id: copy } of forks.json.sandboxes) {
    assert.equal((await run(copy, 'cat /tmp/state')).json.stdout, 'one\n')
    await remove(copy)
  }
  isError(await ask('POST', `/sandboxes/${id}/fork`, { count: 1000 }), 400, 'invalid_request', /count/)
  const snapshot = await ask('POST', `/sandboxes/${id}/snapshots`, { name: 'kept' })
  assert.equal(snapshot.status, 201, snapshot.body)
  for (const path of ['/snapshots', `/sandboxes/${id}/snapshots`]) assert.deepEqual((await ask('GET', path)).json.snapshots, [snapshot.json])
  const again = await make({ template_id: snapshot.json.snapshot_id })
  assert.equal((await run(again.sandbox_id, 'cat /tmp/state')).json.stdout, 'one\n')
  await Promise.all([id, again.sandbox_id].map(remove))
  const templates = async () => (await api(server, 'GET', '/v2/templates')).json
  const known = await templates()
  for (const name of ['base', 'tags', 'aliases', known.map?.((t) => t.templateID)[0] ?? 'base']) isError(await ask('DELETE', `/snapshots/${name}`), 404, 'not_found', /snapshot/)
  assert.deepEqual(await templates(), known)
  const path = `/snapshots/${encodeURIComponent(snapshot.json.snapshot_id)}`
  isError(await ask('DELETE', path, undefined, { token: otherKey }), 404, 'not_found')
  assert.equal((await ask('DELETE', path)).status, 204)
  isError(await ask('DELETE', path), 404, 'not_found')
})

test('what happens to a sandbox comes as events, and again after the last one seen', async () => {
  const { sandbox_id: id } = await make()
  const heard = []
  const watching = (async () => {
    for await (const event of events(server, `/sandboxes/${id}/events`)) heard.push(event)
  })()
  await until('created', () => heard.length === 1)
  await ask('POST', `/sandboxes/${id}/pause`)
  await until('paused', () => heard.length === 2)
  await ask('POST', `/sandboxes/${id}/resume`)
  await remove(id)
  await watching
  assert.deepEqual(heard.map((e) => e.event), ['created', 'paused', 'resumed', 'ended'])
  assert.equal(heard[3].data.reason, 'deleted')
  assert.ok(heard.every((e) => e.data.sandbox_id === id && Date.parse(e.data.at) > 0))
  const rest = await collect(events(server, `/sandboxes/${id}/events`, { headers: { 'Last-Event-ID': heard[1].id } }))
  assert.deepEqual(rest.map((e) => e.event), ['resumed', 'ended'])
  isError(await ask('GET', `/sandboxes/${id}/events`, undefined, { token: otherKey }), 404, 'not_found')
})

test('one token cannot hold all connections by streams', async () => {
  const { sandbox_id: id } = await make()
  const open = () => new Promise((done, fail) => {
    const rq = http.get({ host: '127.0.0.1', port: server.port, path: `/api/v1/agent/sandboxes/${id}/events`, headers: { Authorization: `Bearer ${server.key}` }, agent: false }, (answer) => {
      answer.on('error', () => {})
      done({ rq, answer })
    })
    rq.on('error', fail)
  })
  const all = []
  for (let i = 0; i < 256; i++) all.push(await open())
  assert.deepEqual([...new Set(all.map(({ answer }) => answer.statusCode))], [200])
  isError(await ask('GET', `/sandboxes/${id}/events`), 429, 'too_many', /256/)
  isError(await ask('GET', `/sandboxes/${id}/commands/1?stream=1`), 429, 'too_many', /256/)
  assert.equal((await run(id, 'echo x')).json.stdout, 'x\n')
  for (const { rq } of all) rq.destroy()
  await until('they are gone', async () => (await ask('GET', `/sandboxes/${id}/commands/1?stream=1`)).status !== 429)
  await remove(id)
})

test('stopped, with the reason, unless it was deleted', async () => {
  const late = await make({ timeout_s: 1, metadata: { a: 'b' } })
  const dies = await make()
  await run(dies.sandbox_id, 'sudo kill -9 1; sudo sh -c "kill -TERM 1"', { timeout_s: 5 })
  const stopped = await until('its time is up', async () => {
    const answer = await ask('GET', `/sandboxes/${late.sandbox_id}`)
    return answer.json.status === 'stopped' && answer
  })
  assert.deepEqual([stopped.status, stopped.json.reason, stopped.json.metadata], [200, 'timeout', { a: 'b' }])
  assert.ok(Date.parse(stopped.json.ended_at) >= Date.parse(stopped.json.created_at))
  isError(await run(late.sandbox_id, 'true'), 404, 'not_found')
  isError(await ask('GET', `/sandboxes/${late.sandbox_id}`, undefined, { token: otherKey }), 404, 'not_found')
  const list = async (query, options) => (await ask('GET', `/sandboxes?${query}`, undefined, options)).json.sandboxes.map((s) => `${s.sandbox_id} ${s.status}`)
  assert.deepEqual(await list('status=stopped'), [`${late.sandbox_id} stopped`])
  assert.deepEqual((await ask('GET', '/sandboxes?status=stopped&metadata.a=b')).json.sandboxes, [stopped.json])
  assert.deepEqual(await list('status=stopped&metadata.a=c'), [])
  assert.deepEqual(await list('status=running,stopped'), [`${dies.sandbox_id} running`, `${late.sandbox_id} stopped`])
  assert.deepEqual(await list(''), [`${dies.sandbox_id} running`])
  assert.deepEqual(await list('status=stopped', { token: otherKey }), [])
  const pid = server.roles().engine[0]
  assert.ok(pid)
  await ask('DELETE', `/sandboxes/${dies.sandbox_id}`)
  isError(await ask('GET', `/sandboxes/${dies.sandbox_id}`), 404, 'not_found')
  assert.deepEqual(await list('status=stopped'), [`${late.sandbox_id} stopped`])
})

test('those that have stopped come behind the others, in pages', async () => {
  const alive = await make({ metadata: { page: 'yes' } })
  const ends = [await make({ timeout_s: 1, metadata: { page: 'yes' } }), await make({ timeout_s: 1, metadata: { page: 'yes' } }), await make({ timeout_s: 1, metadata: { page: 'yes' } })]
  await until('their time is up', async () => (await ask('GET', '/sandboxes?status=stopped&metadata.page=yes')).json.sandboxes.length === 3)
  const pages = []
  for (let query = 'limit=2&status=running,stopped&metadata.page=yes', cursor = ''; cursor !== undefined;) {
    const { status, json } = await ask('GET', `/sandboxes?${query}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`)
    assert.equal(status, 200)
    pages.push(json.sandboxes.map((s) => s.sandbox_id))
    cursor = json.next_cursor
  }
  assert.ok(pages.every((page) => page.length <= 2))
  assert.equal(pages.flat()[0], alive.sandbox_id)
  assert.deepEqual(pages.flat().slice(1).sort(), ends.map((b) => b.sandbox_id).sort())
  for (const cursor of ['stopped:x', 'stopped:-1', 'nonsense']) isError(await ask('GET', `/sandboxes?status=stopped&cursor=${cursor}`), 400, 'invalid_request')
  isError(await ask('GET', '/sandboxes?status=running&cursor=stopped:5'), 400, 'invalid_request', /cursor/)
  isError(await ask('GET', '/sandboxes?status=stopped&limit=5', undefined, { token: 'e2b_' + 'f'.repeat(40) }), 401, 'unauthorized')
  await remove(alive.sandbox_id)
})

/** A template whose services.json says this. */
async function templateWithServices(services) {
  const { sandbox_id: id } = await make()
  const written = await ask('POST', `/sandboxes/${id}/files`, { path: '/etc/sandglass/services.json', content: typeof services === 'string' ? services : JSON.stringify({ services }), user: 'root' })
  assert.equal(written.status, 201, written.body)
  const { json } = await ask('POST', `/sandboxes/${id}/snapshots`)
  await remove(id)
  return json.snapshot_id
}

test('services of the template: each sandbox has tokens of its own, in files of its user', async () => {
  const template = await templateWithServices([
    { name: 'mcp_server', port: 6060, path: '/mcp', token_file: '/etc/sandglass/tokens/mcp_server', token_goes: 'bearer' },
    { name: 'code_server', port: 9000, path: '/', token_file: '/etc/sandglass/tokens/code_server', token_goes: 'tkn' },
  ])
  const [a, b] = [await make({ template_id: template }), await make({ template_id: template })]
  for (const box of [a, b]) {
    const id = box.sandbox_id
    assert.deepEqual(box.ports, { mcp_server: 6060, code_server: 9000 })
    assert.equal(box.mcp_url, `https://6060-${id}.${server.domain}/mcp`)
    assert.match(box.code_url, new RegExp(`^https://9000-${id}\\.[^/]+/\\?tkn=[a-z0-9]{64}$`))
    const { json } = await run(id, 'cat /etc/sandglass/tokens/mcp_server; echo; cat /etc/sandglass/tokens/code_server; echo; stat -c "%a %U" /etc/sandglass/tokens /etc/sandglass/tokens/*')
    assert.equal(json.stdout, `${box.mcp_token}\n${new URL(box.code_url).searchParams.get('tkn')}\n700 user\n600 user\n600 user\n`)
    const got = (await ask('GET', `/sandboxes/${id}`)).json
    assert.deepEqual([got.mcp_token, got.code_url, got.ports], [box.mcp_token, box.code_url, box.ports])
  }
  assert.notEqual(a.mcp_token, b.mcp_token)
  assert.doesNotMatch(server.log, new RegExp(`${a.mcp_token}|${b.mcp_token}`))
  await Promise.all([a, b].map((box) => remove(box.sandbox_id)))
  await ask('DELETE', `/snapshots/${encodeURIComponent(template)}`)
})

test('what a sandbox answers is bounded, in bytes and in values', async () => {
  const { sandbox_id: id } = await make()
  const many = `[${'[],'.repeat(300_000)}1]`
  isError(await ask('POST', '/sandboxes', `{"metadata":${many}}`), 413, 'too_large', /values/)
  const large = await ask('POST', `/sandboxes/${id}/files`, { path: '/etc/sandglass/services.json', content: `{"services":[]${' '.repeat(70_000)}}`, user: 'root' })
  assert.equal(large.status, 201, large.body)
  assert.deepEqual((await ask('GET', `/sandboxes/${id}`)).json.ports, {})
  // Somebody else on the interpreter's port.
  const liar = `import http.server
class Liar(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        body = b'{"type":"result","a":[' + b'[],' * 300000 + b'1]}\\n{"type":"end_of_execution"}\\n'
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(('', 49999), Liar).serve_forever()
`
  await ask('POST', `/sandboxes/${id}/files`, { path: '/tmp/liar.py', content: liar })
  await run(id, 'python3 /tmp/liar.py', { background: true })
  const answer = await until('it listens', async () => {
    const a = await ask('POST', `/sandboxes/${id}/code`, { code: '1' })
    return a.status !== 501 && a
  })
  isError(answer, 413, 'too_large', /results/)
  await remove(id)
})

test('tokens that cannot be written: no sandbox; a services.json of another form: no services', async () => {
  const broken = await templateWithServices([{ name: 'web', port: 3000, token_file: '/proc/nothing/token' }])
  isError(await ask('POST', '/sandboxes', { template_id: broken }), 503, 'unavailable', /tokens/)
  await until('it is gone', async () => (await ask('GET', '/sandboxes')).json.sandboxes.length === 0)
  const odd = await templateWithServices('{"services": "many"}')
  const box = await make({ template_id: odd })
  assert.deepEqual(box.ports, {})
  await remove(box.sandbox_id)
  for (const id of [broken, odd]) await ask('DELETE', `/snapshots/${encodeURIComponent(id)}`)
})

test('a client that leaves while its sandbox is made leaves no sandbox', async () => {
  const engine = server.roles().engine[0]
  const leave = new AbortController()
  process.kill(engine, 'SIGSTOP')
  const making = ask('POST', '/sandboxes', { template_id: 'base' }, { signal: leave.signal }).catch((e) => e.name)
  for (let i = 0; i < 20; i++) assert.equal((await ask('GET', '/sandboxes')).status, 200) // by then control has the request
  leave.abort()
  assert.equal(await making, 'AbortError')
  assert.equal((await ask('GET', '/sandboxes')).status, 200)
  process.kill(engine, 'SIGCONT')
  const made = await make() // what was asked for before has been answered
  await until('only this one', async () => (await ask('GET', '/sandboxes')).json.sandboxes.map((s) => s.sandbox_id).join() === made.sandbox_id)
  await remove(made.sandbox_id)
})

test('the description and its page are there for everybody', async () => {
  const { status, json } = await ask('GET', '/openapi.json', undefined, { token: null })
  assert.deepEqual([status, json.openapi], [200, '3.1.0'])
  const page = await ask('GET', '/docs', undefined, { token: null })
  assert.match(page.headers['content-type'], /text\/html/)
  assert.doesNotMatch(page.body, /(src|href)="https?:/)
})
