// The parts of agents-backend-sandbox that are ours, by themselves: the gate before VS Code, before a server of this test; variables.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import { createRequire } from 'node:module'
import net from 'node:net'
import path from 'node:path'
import { after, before, beforeEach, test } from 'node:test'

import WebSocket, { WebSocketServer } from 'ws'

import { temporaryDir } from '../lib/server.mjs'

const require = createRequire(import.meta.url)
const { makeGate } = require('../../../templates/agents-backend-sandbox/code/gate.js')
const { variablesOf } = require('../../../templates/agents-backend-sandbox/code/variables.js')
const token = 'T0ken/with+signs=&%'
const query = `tkn=${encodeURIComponent(token)}`
const dir = temporaryDir('gate')
const tokenFile = path.join(dir, 'token')
let gate, inner, port, seen

before(async () => {
  inner = http.createServer((request, response) => {
    seen.push({ method: request.method, url: request.url, cookie: request.headers.cookie })
    request.pipe(response)
  })
  const sockets = new WebSocketServer({ server: inner })
  sockets.on('connection', (socket, request) => {
    seen.push({ url: request.url, cookie: request.headers.cookie })
    socket.on('message', (data) => socket.send(`heard ${data}`))
  })
  gate = makeGate(inner, tokenFile)
  gate.listen(0, '127.0.0.1')
  await once(gate, 'listening')
  port = gate.address().port
})
after(() => {
  gate.closeAllConnections()
  gate.close()
  fs.rmSync(dir, { recursive: true })
})
beforeEach(() => {
  seen = []
  fs.writeFileSync(tokenFile, `${token}\n`)
})

const ask = (address, { headers = {}, ...rest } = {}) => fetch(`http://127.0.0.1:${port}${address}`, { redirect: 'manual', headers, ...rest })
const setCookie = async (headers = {}) => (await ask(`/?${query}`, { headers })).headers.get('set-cookie')
const cookie = async () => (await setCookie()).split(';')[0]
const refused = async (address, options) => {
  const answer = await ask(address, options)
  assert.equal(answer.status, 401)
  assert.equal(answer.headers.get('set-cookie'), null)
  assert.deepEqual(seen, [])
  return answer
}

test('the token in the address: a cookie, and the same address without the token', async () => {
  const answer = await ask(`/a/b?folder=%2Fworkspace&${query}&x=1&y`)
  assert.deepEqual([answer.status, answer.headers.get('location')], [303, '/a/b?folder=%2Fworkspace&x=1&y'])
  assert.match(answer.headers.get('set-cookie'), /^sandglass-code=[0-9a-f]{64}; Path=\/; HttpOnly; SameSite=Lax$/)
  assert.equal(answer.headers.get('cache-control'), 'no-store')
  assert.deepEqual(seen, [])
})

test('by https the cookie is for https only, and also for an embedded page', async () => {
  assert.match(await setCookie({ 'X-Forwarded-Proto': 'https' }), /; HttpOnly; SameSite=None; Secure; Partitioned$/)
})

test('with the cookie a request passes, with its body; VS Code does not see the cookie', async () => {
  const answer = await ask('/some/page?q=1', { method: 'POST', body: 'body', headers: { Cookie: `a=1; ${await cookie()}; b=2` } })
  assert.deepEqual([answer.status, await answer.text()], [200, 'body'])
  assert.deepEqual(seen, [{ method: 'POST', url: '/some/page?q=1', cookie: 'a=1; b=2' }])
})

test('without token, with a wrong one, with two, with a part, with the token as cookie: refused', async () => {
  await refused('/')
  for (const wrong of ['wrong', '', token.slice(1), `${token}x`]) await refused(`/?tkn=${encodeURIComponent(wrong)}`)
  await refused(`/?${query}&tkn=wrong`)
  await refused('/', { headers: { Cookie: 'sandglass-code=wrong' } })
  await refused('/', { headers: { Cookie: `sandglass-code=${encodeURIComponent(token)}` } })
  await refused('/', { headers: { Authorization: `Bearer ${token}` } })
  await refused(`/?${query}`, { method: 'POST' })
})

test('the refusal is a page with a form for people, and a line for programs', async () => {
  const page = await refused('/', { headers: { Accept: 'text/html,*/*' } })
  assert.match(page.headers.get('content-type'), /^text\/html/)
  assert.match(await page.text(), /<input name="tkn" type="password"/)
  assert.match(await (await refused('/')).text(), /^The token of this sandbox is needed/)
  assert.equal(await (await refused('/', { method: 'HEAD' })).text(), '')
})

test('no file, an empty file, a directory, a file that is too large: nobody gets in', async () => {
  const old = await cookie()
  const nobody = async () => {
    for (const text of ['', token]) await refused(`/?tkn=${encodeURIComponent(text)}`)
    await refused('/', { headers: { Cookie: old } })
  }
  fs.writeFileSync(tokenFile, ' \n')
  await nobody()
  fs.writeFileSync(tokenFile, 'x'.repeat(4097))
  await refused(`/?tkn=${'x'.repeat(4097)}`)
  await nobody()
  fs.rmSync(tokenFile)
  await nobody()
  fs.mkdirSync(tokenFile)
  await nobody()
  fs.rmdirSync(tokenFile)
})

test('another token counts at once, and the cookie of the one before no more', async () => {
  const old = await cookie()
  assert.equal((await ask('/', { headers: { Cookie: old } })).status, 200)
  fs.writeFileSync(tokenFile, 'another')
  seen = []
  await refused(`/?${query}`)
  await refused('/', { headers: { Cookie: old } })
  assert.equal((await ask('/?tkn=another')).status, 303)
})

test('the address after the token is of this host, whatever was asked for', async () => {
  const raw = (target) =>
    new Promise((done, fail) => {
      const socket = net.connect(port, '127.0.0.1', () => socket.write(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`))
      let text = ''
      socket.on('data', (piece) => (text += piece)).on('error', fail).on('end', () => done(/\r\nLocation: (.*)\r\n/i.exec(text)?.[1]))
    })
  for (const target of ['//evil.example/', '/\\evil.example/', '///evil.example/']) assert.equal(await raw(`${target}?${query}`), '/evil.example/')
  assert.equal(await raw(`http://evil.example/?${query}`), '/http://evil.example/')
})

test('a page of another site does not get through with the cookie of a visitor', async () => {
  const headers = { Cookie: await cookie() }
  await refused('/', { method: 'POST', headers: { ...headers, Origin: 'https://evil.example' } })
  await refused('/', { headers: { ...headers, Origin: 'null' } })
  assert.equal((await ask('/', { headers: { ...headers, Origin: `http://127.0.0.1:${port}` } })).status, 200)
  assert.equal((await ask('/', { headers: { ...headers, Origin: 'https://9000-i.example', 'X-Forwarded-Host': '9000-i.example' } })).status, 200)
})

test('a WebSocket: with the cookie, from this site', async () => {
  const open = async (headers) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/live?a=1`, { headers })
    socket.on('error', () => {})
    const [what] = await Promise.race([once(socket, 'open').then(() => ['open']), once(socket, 'unexpected-response').then(([, answer]) => [answer.statusCode])])
    return { what, socket }
  }
  const own = await cookie()
  for (const headers of [{}, { Cookie: 'sandglass-code=wrong' }, { Cookie: own, Origin: 'https://evil.example' }]) {
    const { what, socket } = await open(headers)
    assert.equal(what, 401)
    socket.terminate()
  }
  assert.deepEqual(seen, [])
  const { what, socket } = await open({ Cookie: `x=1; ${own}`, Origin: `http://127.0.0.1:${port}` })
  assert.equal(what, 'open')
  socket.send('words')
  assert.equal(String((await once(socket, 'message'))[0]), 'heard words')
  assert.deepEqual(seen, [{ url: '/live?a=1', cookie: 'x=1' }])
  socket.terminate()
})

test('the variables of a sandbox replace those of the one before, and are gone with their file', () => {
  const file = path.join(dir, 'environ')
  const path0 = process.env.PATH
  const refresh = variablesOf(file)
  const now = () => {
    refresh()
    return [process.env.GATE_ONE, process.env.GATE_TWO, process.env.PATH === path0]
  }
  const write = (text) => {
    fs.rmSync(file, { force: true })
    fs.writeFileSync(file, text)
  }
  assert.deepEqual(now(), [undefined, undefined, true])
  write('GATE_ONE=a=b\nc\0PATH=/nowhere\0=none\0broken\0')
  assert.deepEqual(now(), ['a=b\nc', undefined, false])
  assert.deepEqual(now(), ['a=b\nc', undefined, false])
  write('GATE_TWO=\0')
  assert.deepEqual(now(), [undefined, '', true])
  fs.rmSync(file)
  assert.deepEqual(now(), [undefined, undefined, true])
})
