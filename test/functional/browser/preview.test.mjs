// Previews as people see them: a page and a WebSocket of a server inside a sandbox, and the pages for when there is none.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { Sandbox } from 'e2b'

import { openBrowser } from '../lib/browser.mjs'
import { echoServer } from '../lib/echo.mjs'
import { request } from '../lib/preview.mjs'
import { Server } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const livePage = `<!doctype html><title>Live</title><input id=say><p id=state>connecting</p><p id=heard></p>
<script>
  const show = (id, text) => (document.getElementById(id).textContent = text)
  const socket = new WebSocket(location.origin.replace('http', 'ws') + '/live')
  socket.onopen = () => show('state', 'open')
  socket.onmessage = (message) => show('heard', 'heard ' + message.data)
  socket.onclose = () => show('state', 'closed')
  say.onchange = () => socket.send(say.value)
</script>`

let server, browser, page
before(async () => {
  server = await Server.start()
  Object.assign(process.env, clientEnvironment(server, 'http'))
  browser = await openBrowser(server.env.NODE_EXTRA_CA_CERTS)
  page = await browser.newPage()
  page.setDefaultTimeout(10_000)
})
after(async () => {
  await browser?.close()
  await server?.cleanUp()
})

const withSandbox = (body, options) => async () => {
  const sandbox = await Sandbox.create(options)
  try {
    await body(sandbox)
  } finally {
    await sandbox.kill()
  }
}
const address = (sandbox, port) => `https://${port}-${sandbox.sandboxId}.${server.domain}`
const shows = (id, wanted) => page.waitForFunction(([i, w]) => document.getElementById(i).textContent === w, [id, wanted])

async function serveLivePage(sandbox) {
  await sandbox.files.write([{ path: 'echo.cjs', data: echoServer }, { path: 'page.html', data: livePage }])
  await sandbox.commands.run('node echo.cjs 3000 127.0.0.1', { background: true, timeoutMs: 0 })
  await until('port open', async () => (await request({ server, transport: 'http' }, sandbox.sandboxId, 3000)).status === 200)
}

async function talk(url) {
  const answer = await page.goto(url)
  assert.equal(answer.status(), 200)
  await shows('state', 'open')
  for (const word of ['hello', 'once more', 'ü'.repeat(1000)]) {
    await page.fill('#say', word)
    await page.press('#say', 'Enter')
    await shows('heard', `heard ${word}`)
  }
  return answer
}

test('a page over https, with a certificate the browser trusts and a live WebSocket', withSandbox(async (sandbox) => {
  await serveLivePage(sandbox)
  const answer = await talk(`${address(sandbox, 3000)}/page`)
  assert.match((await answer.securityDetails()).protocol, /^TLS 1\.[23]$/)
  await sandbox.kill()
  await shows('state', 'closed')
  await page.reload()
  assert.equal(await page.title(), 'Sandbox Not Found')
}))

test('a paused sandbox has a page that says so and how to resume it; then the visit goes on', withSandbox(async (sandbox) => {
  await serveLivePage(sandbox)
  await sandbox.pause()
  const answer = await page.goto(`${address(sandbox, 3000)}/page`)
  assert.equal(answer.status(), 502)
  assert.equal(await page.title(), 'Sandbox Is Paused')
  const words = await page.locator('body').innerText()
  assert.match(words, new RegExp(`sandglass resume ${sandbox.sandboxId}`))
  assert.doesNotMatch(words, /not found|new one/)
  const { status, body } = await request({ server, transport: 'http' }, sandbox.sandboxId, 3000)
  assert.deepEqual([status, JSON.parse(body)], [502, { sandboxId: sandbox.sandboxId, message: 'The sandbox was not found', code: 502 }])
  await sandbox.connect()
  await page.reload()
  assert.equal(await page.title(), 'Live')
}))

test('the same page over plain http', withSandbox(async (sandbox) => {
  await serveLivePage(sandbox)
  await talk(`http://3000-${sandbox.sandboxId}.localhost:${server.port}/page`)
}))

test('a closed port has a page that says so, until something listens', withSandbox(async (sandbox) => {
  const answer = await page.goto(`${address(sandbox, 3000)}/page`)
  assert.equal(answer.status(), 502)
  assert.match(await page.locator('body').innerText(), /no service running on port 3000/)
  assert.match(await page.locator('body').innerText(), new RegExp(sandbox.sandboxId))
  await serveLivePage(sandbox)
  await page.reload()
  assert.equal(await page.title(), 'Live')
}))

test('a script in a page gets JSON where a visitor gets a page', withSandbox(async (sandbox) => {
  await serveLivePage(sandbox)
  await page.goto(`${address(sandbox, 3000)}/page`)
  const found = await page.evaluate(async () => (await fetch('/anything', { method: 'POST', body: 'four' })).json())
  assert.deepEqual([found.method, found.url, found.bytes], ['POST', '/anything', 4])
  await sandbox.kill()
  const gone = await page.evaluate(async () => (await fetch('/anything')).json())
  assert.deepEqual(gone, { sandboxId: sandbox.sandboxId, message: 'The sandbox was not found', code: 502 })
}))

test('private traffic without the token has a page, too', withSandbox(async (sandbox) => {
  const answer = await page.goto(address(sandbox, 3000))
  assert.deepEqual([answer.status(), await page.title()], [403, 'Missing Traffic Access Token'])
}, { network: { allowPublicTraffic: false } }))

test('a browser that was told nothing does not trust the certificate', withSandbox(async (sandbox) => {
  const other = await openBrowser('/etc/ssl/certs/ca-certificates.crt')
  try {
    await assert.rejects((await other.newPage()).goto(address(sandbox, 3000)), /ERR_CERT_AUTHORITY_INVALID/)
  } finally {
    await other.close()
  }
}))
