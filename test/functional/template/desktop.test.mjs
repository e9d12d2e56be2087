// The ready-made template desktop, by the npm client that is made for it: what the screen shows, clicks, keys, the stream in a browser.
//
// The data directory stays in build/test-cache: the packages of the template are fetched once.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { testPage } from '../docs/snippets.mjs'
import { openBrowser } from '../lib/browser.mjs'
import { deleteTemplates } from '../lib/build/builds.mjs'
import { keptServer } from '../lib/kept_server.mjs'
import { api } from '../lib/raw.mjs'
import { firstUse } from '../lib/build/ready_made.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { textOf, withTools } from '../lib/tools.mjs'
import { until } from '../lib/wait.mjs'

const toolServer = fileURLToPath(new URL('../../../build/sandglass-mcp', import.meta.url))
let server, client, browser, page
before(async () => {
  server = await keptServer('desktop')
  Object.assign(process.env, clientEnvironment(server, 'http'), { E2B_DOMAIN: server.domain }) // the domain for addresses of the stream
  client = await import('@e2b/desktop')
  browser = await openBrowser(server.env.NODE_EXTRA_CA_CERTS)
  page = await browser.newPage()
  page.setDefaultTimeout(60_000)
  await deleteTemplates(api, server, 'desktop')
  await firstUse(server, 'desktop')
}, { timeout: 590_000 })
after(async () => {
  await browser?.close()
  await server?.cleanUp()
})

/** What a picture shows: {width, height, colours: how many, most: the share of the most frequent one, panel: of light points in the
 *  first 20 lines}. */
const look = (url) => page.evaluate(async (address) => {
  const image = await createImageBitmap(await (await fetch(address)).blob())
  const canvas = new OffscreenCanvas(image.width, image.height)
  const drawing = canvas.getContext('2d')
  drawing.drawImage(image, 0, 0)
  const points = new Uint32Array(drawing.getImageData(0, 0, image.width, image.height).data.buffer)
  const counts = new Map()
  for (const point of points) counts.set(point, (counts.get(point) ?? 0) + 1)
  const isLight = (point) => [0, 8, 16].every((shift) => ((point >>> shift) & 255) > 200)
  const top = points.subarray(0, image.width * 20)
  return { width: image.width, height: image.height, colours: counts.size, most: Math.max(...counts.values()) / points.length, panel: top.filter(isLight).length / top.length }
}, url)
const pictureOf = async (sandbox) => look(`data:image/png;base64,${Buffer.from(await sandbox.screenshot()).toString('base64')}`)

/** A panel over the whole width, and a background with a picture. */
const isDesktop = ({ colours, most, panel }) => panel > 0.6 && colours > 200 && most < 0.6
const showsDesktop = (sandbox) => {
  let seen
  return until(() => `a desktop, not ${JSON.stringify(seen)}`, async () => isDesktop(seen = await pictureOf(sandbox)) && seen, 60_000)
}

const run = (sandbox, command) => sandbox.commands.run(command).then((r) => r.stdout.trim())
const windows = (sandbox, name) => sandbox.getApplicationWindows(name).catch(() => [])
const window = (sandbox, name) => until(`a window of ${name}`, async () => (await windows(sandbox, name)).find(Boolean), 60_000)

async function withDesktop(body, options = {}) {
  await page.goto('about:blank')
  const sandbox = await client.Sandbox.create({ timeoutMs: 300_000, ...options })
  try {
    return await body(sandbox)
  } finally {
    await sandbox.kill()
  }
}

/** A file in the editor, ready for keys. */
async function openInEditor(sandbox, file, text) {
  await sandbox.files.write(file, text)
  await sandbox.open(file)
  const id = await window(sandbox, 'mousepad')
  await until('the title', async () => (await sandbox.getWindowTitle(id)).includes(file.split('/').at(-1)))
  const [, x, y] = /X=(\d+)\nY=(\d+)/.exec(await run(sandbox, `xdotool getwindowgeometry --shell ${id}`))
  await sandbox.leftClick(Number(x) + 200, Number(y) + 200)
  return id
}

/** The file is saved by keys that came before; `wanted` is all of its text. */
async function hasText(sandbox, file, wanted) {
  let text
  await until(() => `${JSON.stringify(wanted)}, not ${JSON.stringify(text)}`, async () => (text = (await sandbox.files.read(file)).trimEnd()) === wanted)
}

/** An https server on port 8443, whose authority is added to those of the system, as those of the host are. */
const secureServer = `cd $(mktemp -d)
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj '/CN=authority of a test' -days 30
openssl req -newkey rsa:2048 -nodes -keyout own.key -out own.csr -subj /CN=localhost
openssl x509 -req -in own.csr -CA ca.crt -CAkey ca.key -out own.crt -days 20 -extfile <(echo subjectAltName=DNS:localhost)
sudo tee -a /etc/ssl/certs/ca-certificates.crt <ca.crt
mkdir pages && echo '<title>a secure page</title>' >pages/index.html && cd pages
exec python3 -c '
import http.server, ssl
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("../own.crt", "../own.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()'
`

test('create, look, click, type into an editor; a browser that trusts what the system trusts', { timeout: 300_000 }, () => withDesktop(async (sandbox) => {
  assert.deepEqual(await sandbox.getScreenSize(), { width: 1280, height: 800 })
  const { width, height } = await showsDesktop(sandbox)
  assert.deepEqual([width, height], [1280, 800])

  await sandbox.moveMouse(321, 234)
  assert.deepEqual(await sandbox.getCursorPosition(), { x: 321, y: 234 })

  const file = '/home/user/letter.txt'
  await openInEditor(sandbox, file, 'Dear reader,\n')
  await sandbox.press(['ctrl', 'end'])
  await sandbox.write("it's 100% \"typed\"; by an $agent & saved")
  await sandbox.press(['ctrl', 's'])
  await hasText(sandbox, file, 'Dear reader,\nit\'s 100% "typed"; by an $agent & saved')

  await sandbox.files.write('/tmp/serve.sh', secureServer)
  await sandbox.commands.run('exec bash /tmp/serve.sh', { background: true, timeoutMs: 0 })
  await until('the page', () => run(sandbox, 'curl -fs https://localhost:8443/').then(() => true, () => false))
  await sandbox.launch('firefox-esr', 'https://localhost:8443/')
  await until('the page in Firefox', async () => (await Promise.all((await windows(sandbox, 'firefox')).filter(Boolean).map((id) => sandbox.getWindowTitle(id)))).some((title) => title.startsWith('a secure page')), 60_000)
}, { resolution: [1280, 800] }))

test('the stream in a browser shows the desktop, and takes keys; without its password it shows nothing', { timeout: 480_000 }, () => withDesktop(async (sandbox) => {
  await showsDesktop(sandbox)
  const file = '/home/user/streamed.txt'
  await openInEditor(sandbox, file, '')
  await sandbox.stream.start({ requireAuth: true })
  const canvas = page.locator('#noVNC_container canvas')

  await page.goto(sandbox.stream.getUrl({ authKey: 'wrong' }))
  await page.locator('#noVNC_status.noVNC_open, #noVNC_credentials_dlg.noVNC_open').first().waitFor()
  assert.equal(await page.locator('html.noVNC_connected').count(), 0)

  await page.goto(sandbox.stream.getUrl({ authKey: sandbox.stream.getAuthKey() }))
  await page.locator('html.noVNC_connected').waitFor({ state: 'attached' })
  let seen
  await until(() => `the desktop in the canvas, not ${JSON.stringify(seen)}`, async () => isDesktop(seen = await look(await canvas.evaluate((c) => c.toDataURL()))), 60_000)

  await canvas.click()
  await page.keyboard.type('from the browser')
  await page.keyboard.press('Control+s')
  await hasText(sandbox, file, 'from the browser')
  await sandbox.stream.stop()
}))

/** How many points of two pictures are not the same. */
const difference = (a, b) => page.evaluate(async (urls) => {
  const [one, two] = await Promise.all(urls.map(async (url) => {
    const image = await createImageBitmap(await (await fetch(url)).blob())
    const drawing = new OffscreenCanvas(image.width, image.height).getContext('2d')
    drawing.drawImage(image, 0, 0)
    return new Uint32Array(drawing.getImageData(0, 0, image.width, image.height).data.buffer)
  }))
  return one.reduce((count, point, i) => count + (point !== two[i]), 0)
}, [a, b].map((bytes) => `data:image/png;base64,${Buffer.from(bytes).toString('base64')}`))

test('the default screen; mouse; a stream without a password, and one that only shows', { timeout: 480_000 }, () => withDesktop(async (sandbox) => {
  assert.deepEqual(await sandbox.getScreenSize(), { width: 1024, height: 768 })
  assert.deepEqual(await sandbox.getCursorPosition(), { x: 512, y: 384 })
  await showsDesktop(sandbox)
  await sandbox.moveMouse(100, 200)
  assert.deepEqual(await sandbox.getCursorPosition(), { x: 100, y: 200 })
  /** Do it, until so many points have changed: more than a clock has. */
  const changes = async (what, act, points = 3000) => {
    const before = await sandbox.screenshot()
    await act()
    let seen
    await until(() => `${what}, not ${seen} points`, async () => (seen = await difference(before, await sandbox.screenshot())) > points)
  }
  await changes('a menu', () => sandbox.rightClick(800, 500))
  await changes('no menu', () => sandbox.press('Escape'))

  const file = '/home/user/lines.txt'
  const lines = Array.from({ length: 300 }, (_, i) => `line ${i} ${'x'.repeat(i % 40)}`).join('\n')
  const id = await openInEditor(sandbox, file, lines)
  await changes('later lines', () => sandbox.scroll('down', 10))
  await changes('the first lines', () => sandbox.scroll('up', 10))
  const [, x, y] = /X=(\d+)\nY=(\d+)/.exec(await run(sandbox, `xdotool getwindowgeometry --shell ${id}`)).map(Number)
  await changes('selected lines', () => sandbox.drag([x + 60, y + 120], [x + 90, y + 260]))
  await sandbox.write('!')
  await sandbox.press(['ctrl', 's'])
  const saved = await until('the selected lines are replaced', async () => { const text = await sandbox.files.read(file); return text.includes('!') && text })
  assert.ok(saved.length < lines.length - 50 && saved.length > lines.length / 2, `${saved.length} of ${lines.length}`)

  await sandbox.press(['ctrl', 'a'])
  await sandbox.press('Delete')
  await sandbox.press(['ctrl', 's'])
  await hasText(sandbox, file, '')
  await sandbox.stream.start()
  assert.doesNotMatch(sandbox.stream.getUrl(), /password/)
  for (const [url, text] of [[sandbox.stream.getUrl({ viewOnly: true }), 'not this'], [sandbox.stream.getUrl(), 'but this']]) {
    await page.goto(url)
    await page.locator('html.noVNC_connected').waitFor({ state: 'attached' })
    const canvas = page.locator('#noVNC_container canvas')
    await until('the desktop in the canvas', async () => isDesktop(await look(await canvas.evaluate((c) => c.toDataURL()))), 60_000)
    await canvas.click()
    await page.keyboard.type(text)
    await page.keyboard.press('Control+s')
  }
  await hasText(sandbox, file, 'but this')
  await sandbox.stream.stop()
}))

test('paused and forked, the desktop goes on with its windows', { timeout: 480_000 }, () => withDesktop(async (sandbox) => {
  await showsDesktop(sandbox)
  const file = '/home/user/kept.txt'
  const id = await openInEditor(sandbox, file, '')
  await sandbox.write('before')
  const [forked] = await sandbox.fork()
  if (forked instanceof Error) throw forked
  try {
    await sandbox.pause()
    await sandbox.connect()
    for (const [box, text] of [[sandbox, 'the same'], [forked, 'a copy']]) {
      assert.ok((await run(box, 'DISPLAY=:0 xdotool search --onlyvisible --class mousepad')).split('\n').includes(id))
      await box.commands.run(`xdotool type --delay 75 -- ', ${text}' && xdotool key ctrl+s`, { envs: { DISPLAY: ':0' } })
      await hasText(box, file, `before, ${text}`)
    }
    assert.ok(isDesktop(await pictureOf(sandbox)))
  } finally {
    await forked.kill()
  }
}))

test('the tool server has the tools screenshot, click and type here', { timeout: 480_000 }, () => withDesktop(async (sandbox) => {
  await showsDesktop(sandbox)
  const file = '/home/user/tool.txt'
  const id = await openInEditor(sandbox, file, '')
  await sandbox.files.write('/tmp/sandglass-mcp', new Blob([fs.readFileSync(toolServer)]))
  await sandbox.commands.run('chmod +x /tmp/sandglass-mcp && exec /tmp/sandglass-mcp --no-token --workspace /home/user', { background: true, timeoutMs: 0 })
  await until('the tool server', () => run(sandbox, 'curl -fs http://localhost:6060/health').then(() => true, () => false))
  await withTools(server, sandbox, null, async (call) => {
    const [, x, y] = /X=(\d+)\nY=(\d+)/.exec(await run(sandbox, `xdotool getwindowgeometry --shell ${id}`))
    assert.equal(textOf(await call('click', { x: Number(x) + 200, y: Number(y) + 200 })), 'Done.')
    assert.equal(textOf(await call('type', { text: 'by a tool' })), 'Done.')
    assert.equal(textOf(await call('type', { key: 'ctrl+s' })), 'Done.')
    await hasText(sandbox, file, 'by a tool')
    const picture = (await call('screenshot', {})).find((part) => part.type === 'image')
    assert.ok(isDesktop(await look(`data:${picture.mimeType};base64,${picture.data}`)))
  })
}))

testPage('desktop.md', () => server)
