// What the edge does with a request before, while and after a sandbox has it: routing, checks, answers of its own,
// forwarding, and how streams end.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import test, { before } from 'node:test'

import { request } from '../lib/preview.mjs'
import { exchange } from '../lib/raw.mjs'
import { RawStream } from '../lib/stream.mjs'
import { suite } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const context = await suite()
const { Sandbox, leakless, server } = context
const ask = (...args) => request(context, ...args)
const lab = fs.readFileSync(new URL('../inside/lab.cjs', import.meta.url), 'utf8')
const nobody = 'i' + 'n0'.repeat(10)
const browser = { 'User-Agent': 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0' }
const get = (host, headers = '', path = '/seen') => exchange(server.port, `GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n`)

async function withLab(options) {
  const sandbox = await Sandbox.create(options)
  await sandbox.files.write('lab.cjs', lab)
  await sandbox.commands.run('node lab.cjs 3000', { background: true, timeoutMs: 0 })
  await sandbox.commands.run('until (exec 3<>/dev/tcp/127.0.0.1/3000) 2>/dev/null; do sleep 0.02; done')
  return sandbox
}

let box
before(async () => { box = await withLab() })
const seen = async (options) => JSON.parse((await ask(box, 3000, { path: '/seen', ...options })).body)
const id = () => box.sandboxId

test('routing by host: port, id, further parts; the domain is not looked at, nor are the headers', leakless(async () => {
  for (const host of [`3000-${id()}.${server.domain}`, `3000-${id()}-client1.any.example`, `3000-${id()}.x:1234`])
    assert.equal((await get(host)).status, 200, host)
  assert.equal((await get(`3000-${id()}.localhost`, `E2b-Sandbox-Id: ${nobody}\r\nE2b-Sandbox-Port: 9\r\n`)).status, 200)
}))

test('routing by headers: on localhost, an address, sandbox.*', leakless(async () => {
  const headers = `E2b-Sandbox-Id: ${id()}\r\nE2b-Sandbox-Port: 3000\r\n`
  for (const host of ['localhost', 'localhost:3000', '127.0.0.1', '10.1.2.3:80', '[::1]', '[::1]:3000', `sandbox.${server.domain}`, 'sandbox.any.example'])
    assert.equal((await get(host, headers)).status, 200, host)
}))

test('routing that fails: the status and the text', leakless(async () => {
  const plain = async (answer, text) => {
    const { status, headers, body } = await answer
    assert.deepEqual([status, body.trim()], [400, text])
    assert.match(headers['content-type'], /^text\/plain/)
  }
  await plain(get('localhost', `E2b-Sandbox-Id: ${id()}\r\n`), 'missing header')
  await plain(get('sandbox.any.example', 'E2b-Sandbox-Port: 3000\r\n'), 'missing header')
  await plain(get(`3000-${id().toUpperCase()}.localhost`), 'Invalid sandbox ID')
  await plain(get('3000-a_b.localhost'), 'Invalid sandbox ID')
  await plain(get('localhost', 'E2b-Sandbox-Id: ../x\r\nE2b-Sandbox-Port: 80\r\n'), 'Invalid sandbox ID')
  await plain(get(`http-${id()}.localhost`), 'Invalid sandbox port')
  await plain(get(`99999-${id()}.localhost`), 'Invalid sandbox port')
  await plain(get('nodash.any.example'), 'Invalid host')
}))

test('control routes: 404 in any method and spelling, before anyone looks for the sandbox', leakless(async () => {
  for (const path of ['/init', '/freeze', '/unfreeze', '/collapse', '/fsfreeze', '/fsthaw', '/upgrade', '//init', '/x/../init', '/%69nit', '/init/', '/./upgrade?x=1'])
    for (const [who, method] of [[box, 'POST'], [box, 'GET'], [nobody, 'POST']]) {
      const answer = await ask(who, 49983, { method, path })
      assert.equal(answer.status, 404, `${method} ${path}`)
      const { message, code } = JSON.parse(answer.body)
      assert.deepEqual([message, code], ['This endpoint is reserved for the E2B control plane and is not reachable through the sandbox URL', 404])
    }
  assert.equal(JSON.parse((await ask(box, 49983, { method: 'POST', path: '/init' })).body).path, '/init')
  assert.equal((await ask(box, 3000, { path: '/init' })).status, 200, 'on other ports they are the user\'s')
}))

test('page or JSON: a page only for somebody who looks at it', leakless(async () => {
  const kinds = [
    ['html', browser],
    ['html', { ...browser, Accept: 'text/html,application/xhtml+xml,application/json;q=0.9' }],
    ['html', { ...browser, 'Sec-Fetch-Mode': 'navigate', 'X-Requested-With': 'x' }],
    ['html', { 'User-Agent': 'something with CHROME in it' }],
    ['json', { ...browser, Accept: 'application/json' }],
    ...['cors', 'no-cors', 'same-origin', 'websocket'].map((mode) => ['json', { ...browser, 'Sec-Fetch-Mode': mode }]),
    ['json', { ...browser, 'X-Requested-With': 'XMLHttpRequest' }],
    ['json', { 'User-Agent': 'curl/8.5.0' }],
    ['json', {}],
  ]
  await Promise.all(kinds.flatMap(([kind, headers]) =>
    [[nobody, 80, 'Sandbox Not Found'], [box, 4321, 'no service running on port']].map(async ([who, port, title]) => {
      const answer = await ask(who, port, { headers })
      const shown = `${JSON.stringify(headers)} ${answer.body.slice(0, 100)}`
      assert.equal(answer.status, 502)
      assert.equal(answer.headers['content-type'], kind === 'html' ? 'text/html; charset=utf-8' : 'application/json; charset=utf-8', shown)
      if (kind === 'json') assert.equal(JSON.parse(answer.body).code, 502)
      else {
        assert.ok(answer.body.startsWith('<html') && answer.body.trimEnd().endsWith('</html>'), shown)
        assert.ok(answer.body.includes(title) && answer.body.includes(who.sandboxId ?? who), shown)
      }
    })))
}))

test('private traffic: exact refusals; the daemon has its own token', leakless(async () => {
  const own = await withLab({ network: { allowPublicTraffic: false } })
  const sandboxId = own.sandboxId
  const missing = { sandboxId, message: "Sandbox is secured with traffic access token. Token header 'e2b-traffic-access-token' is missing", code: 403 }
  const wrong = { sandboxId, message: "Sandbox is secured with traffic access token. Provided token in header 'e2b-traffic-access-token' is invalid", code: 403 }
  const token = own.trafficAccessToken
  const body = async (options) => { const a = await ask(own, 3000, options); assert.equal(a.status, 403); return JSON.parse(a.body) }
  assert.deepEqual(await body(), missing)
  assert.deepEqual(await body({ path: `/?e2b-traffic-access-token=${token}`, headers: { Cookie: `e2b-traffic-access-token=${token}` } }), missing)
  assert.deepEqual(await body({ headers: { 'e2b-traffic-access-token': token.slice(1) } }), wrong)
  assert.match((await ask(own, 3000, { headers: browser })).body, /Missing Traffic Access Token/)
  assert.match((await ask(own, 3000, { headers: { ...browser, 'e2b-traffic-access-token': 'x' } })).body, /Invalid Traffic Access Token/)
  for (const name of ['e2b-traffic-access-token', 'E2B-Traffic-Access-Token'])
    assert.equal((await ask(own, 3000, { headers: { [name]: token } })).status, 200)
  for (const port of [1, 4321, 49999, 50005, 6080, 65535]) assert.equal((await ask(own, port)).status, 403, `port ${port}, open or not`)
  assert.equal((await own.commands.run('echo envd')).stdout, 'envd\n')
  const again = await Sandbox.connect(sandboxId)
  assert.equal(again.trafficAccessToken, token)
  assert.equal(box.trafficAccessToken, undefined)
  await own.kill()
}))

test('a masked host: the port filled in, the real one told', leakless(async () => {
  const own = await withLab({ network: { maskRequestHost: 'custom-host.example.com:${PORT}' } })
  const { raw } = JSON.parse((await ask(own, 3000, { path: '/seen', headers: { 'X-Forwarded-Host': 'liar' } })).body)
  const all = (name) => raw.filter((_, i) => i % 2 === 1 && raw[i - 1].toLowerCase() === name)
  assert.deepEqual([all('host'), all('x-forwarded-host')], [['custom-host.example.com:3000'], [own.getHost(3000)]])
  const upgrade = `GET /live HTTP/1.1\r\nHost: ${own.getHost(3000)}\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n`
  const tunnel = new RawStream(server.port, upgrade)
  await tunnel.until(/HTTP\/1\.1 101 /)
  assert.match((await tunnel.until(/\{.*\}/))[0], /"custom-host\.example\.com:3000"/, 'tunnels, too')
  await tunnel.close()
  assert.equal((await own.commands.run('echo envd')).stdout, 'envd\n')
  await own.kill()
}))

test('forwarded: what the client says of its way is dropped, nothing is invented', leakless(async () => {
  const drop = { 'X-Forwarded-For': '1.2.3.4', 'X-Forwarded-Proto': 'https', 'X-Forwarded-Host': 'h', 'X-Forwarded-Port': '1', 'X-Forwarded-Anything': 'x', Forwarded: 'for=1.2.3.4', TE: 'gzip', 'Proxy-Authorization': 'x', 'Keep-Alive': 'x', Connection: 'close, X-Hop', 'X-Hop': '1' }
  const { raw, line } = await seen({ headers: { ...drop, 'X-Kept': 'a  b', Cookie: 'c=1' }, path: '/seen?a=1&b=%20+&c' })
  const names = raw.filter((_, i) => i % 2 === 0).map((n) => n.toLowerCase())
  assert.deepEqual(names.filter((n) => n !== 'connection').sort(), ['cookie', 'host', 'x-kept'])
  assert.equal(raw[raw.indexOf('X-Kept') + 1], 'a  b')
  assert.equal(raw[names.indexOf('host') * 2 + 1], box.getHost(3000))
  assert.equal(line, 'GET /seen?a=1&b=%20+&c HTTP/1.1')
  const odd = '/seen?a=%zz&b=1;c=2&=&%&é'.replace('é', '%C3%A9')
  assert.equal((await seen({ path: odd })).line, `GET ${odd} HTTP/1.1`, 'also what is no proper query')
  const agent = await seen({ headers: { 'User-Agent': 'mine/1', 'Accept-Encoding': 'br' } })
  assert.ok(agent.raw.includes('mine/1') && agent.raw.includes('br'))
}))

test('answers pass: redirects, cookies, encodings untouched; what concerned the connection does not', leakless(async () => {
  const answer = await ask(box, 3000, { path: '/redirect' })
  const { headers } = answer
  assert.deepEqual([answer.status, headers.location, headers['set-cookie'], headers['x-odd'], headers['content-encoding'], answer.body],
    [302, 'http://elsewhere.example/x', ['a=1; Secure', 'b=2'], 'kept', 'gzip', 'not really gzip'])
  assert.deepEqual([headers['x-hop'], headers['keep-alive']?.includes('77') ?? false], [undefined, false])
}))

test('an upstream may take its time, and answer while it is still asked', leakless(async () => {
  const slow = ask(box, 3000, { path: '/slow' })
  const both = new RawStream(server.port, `POST /echo HTTP/1.1\r\nHost: ${box.getHost(3000)}\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n`)
  await both.until(/one/)
  both.write('3\r\ntwo\r\n')
  await both.until(/two/)
  both.write('0\r\n\r\n')
  await both.until(/\r\n0\r\n\r\n$/)
  await both.close()
  assert.deepEqual([(await slow).status, (await slow).body], [200, 'late'])
}))

test('a request that may not be repeated is sent once', leakless(async () => {
  for (let i = 0; i < 3; i++) await ask(box, 3000) // leaves connections that could be used again
  const answer = await ask(box, 3000, { method: 'POST', path: '/broken', body: 'x' })
  assert.deepEqual([answer.status, JSON.parse(answer.body).message], [502, 'The sandbox is running but port is not open'])
  assert.equal((await ask(box, 3000, { path: '/posts' })).body, '1')
}))

test('server-sent events come one by one; leaving ends them inside, too', leakless(async () => {
  const stream = new RawStream(server.port, `GET /events HTTP/1.1\r\nHost: ${box.getHost(3000)}\r\n\r\n`)
  await stream.until(/data: 0\n/)
  await stream.until(/data: 30\n/)
  const connections = async () => Number((await box.commands.run("ss -Htn state established '( sport = :3000 )' | wc -l")).stdout)
  assert.ok((await connections()) > 0)
  await stream.close()
  await until('no connection inside, also none kept for a next request', async () => (await connections()) === 0, 5_000)
}))

test('CORS: a preflight needs no token; answers may be read by any page', leakless(async () => {
  const headers = { Origin: 'https://page.example', 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'content-type,x-access-token' }
  for (const path of ['/process.Process/Start', '/files?path=x']) {
    const answer = await ask(box, 49983, { method: 'OPTIONS', path, headers })
    assert.equal(answer.status, 204, path)
    assert.equal(answer.headers['access-control-allow-origin'], '*')
    assert.match(answer.headers['access-control-allow-methods'], /POST/)
    assert.ok(/x-access-token/i.test(answer.headers['access-control-allow-headers']) || answer.headers['access-control-allow-headers'] === '*')
    assert.equal(answer.headers['access-control-max-age'], '7200')
  }
  const health = await ask(box, 49983, { path: '/health', headers: { Origin: 'https://page.example' } })
  assert.deepEqual([health.status, health.headers['access-control-allow-origin']], [204, '*'])
}))

for (const [what, end] of [['kill', (s) => s.kill()], ['the deadline', (s) => s.setTimeout(500)]])
  test(`${what} cuts every stream, never ends one in order, and the health says so`, leakless(async () => {
    const own = await withLab({ timeoutMs: 60_000 })
    const open = (path) => new RawStream(server.port, `GET ${path} HTTP/1.1\r\nHost: ${own.getHost(3000)}\r\n\r\n`)
    const [chunked, counted] = [open('/events'), open('/endless')]
    await Promise.all([chunked.until(/data: 0/), counted.until(/some of it/)])
    const tunnel = new RawStream(server.port, `GET /live HTTP/1.1\r\nHost: ${own.getHost(3000)}\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n`)
    await tunnel.until(/\{.*\}/)
    const command = await own.commands.run('sleep 60', { background: true })
    const waiting = assert.rejects(command.wait(), /killed or reached its end of life/)
    const cut = chunked.closed.then(() => own.isRunning())
    await end(own)
    await Promise.all([chunked.closed, counted.closed, tunnel.closed, waiting])
    assert.equal(await cut, false, 'gone for everybody at the moment its streams are cut')
    assert.doesNotMatch(chunked.text, /\r\n0\r\n\r\n$/)
    assert.ok(counted.body.length < 1 << 30)
    for (const path of ['/health', '/any']) assert.equal((await ask(own, 49983, { path })).status, 502)
    assert.equal((await ask(nobody, 49983, { path: '/health' })).status, 502)
  }))
