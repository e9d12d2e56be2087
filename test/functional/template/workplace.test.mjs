// The ready-made template agents-backend-sandbox: tools by MCP on port 6060 and VS Code on port 9000, each with the sandbox's own token.
//
// The data directory stays in build/test-cache: what the template installs is fetched once.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, test } from 'node:test'

import { testPage } from '../docs/snippets.mjs'
import { call as agentApi } from '../lib/agent_api.mjs'
import { openBrowser } from '../lib/browser.mjs'
import { deleteTemplates } from '../lib/build/builds.mjs'
import { keptServer } from '../lib/kept_server.mjs'
import { request } from '../lib/preview.mjs'
import { api } from '../lib/raw.mjs'
import { firstUse } from '../lib/build/ready_made.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { textOf, withTools } from '../lib/tools.mjs'
import { until } from '../lib/wait.mjs'

const name = 'agents-backend-sandbox'
const tokens = '/etc/sandglass/tokens'
let server, client, browser, page, context
before(async () => {
  server = await keptServer('workplace')
  Object.assign(process.env, clientEnvironment(server, 'http'))
  context = { server, transport: 'http' }
  client = await import('e2b')
  browser = await openBrowser(server.env.NODE_EXTRA_CA_CERTS)
  page = await browser.newPage()
  page.setDefaultTimeout(60_000)
  await deleteTemplates(api, server, name)
  await firstUse(server, name)
}, { timeout: 590_000 })
after(async () => {
  await browser?.close()
  await server?.cleanUp()
})

const address = (sandbox, port = 9000) => `https://${port}-${sandbox.sandboxId}.${server.domain}`
const run = (sandbox, command, options) => sandbox.commands.run(command, options).then((r) => r.stdout.trim())
const contentOf = (sandbox, file) => sandbox.files.read(file).catch(() => null)
const hasContent = (sandbox, file, wanted) => until(`${file} to have the content`, async () => (await contentOf(sandbox, file)) === wanted)

/** A sandbox with tokens, as a backend without the agent API writes them. */
async function withWorkplace(body, options = {}) {
  const sandbox = await client.Sandbox.create(name, { timeoutMs: 300_000, ...options })
  try {
    const token = randomBytes(24).toString('base64url')
    for (const service of ['mcp_server', 'code_server']) await sandbox.files.write(`${tokens}/${service}`, token, { user: 'root' })
    return await body(sandbox, token)
  } finally {
    await sandbox.kill()
  }
}

test('the layout: user pn with sudo, /workspace, the command lines of agents; both services answer when create returns', async () => {
  const sandbox = await client.Sandbox.create(name)
  try {
    const [code, mcp] = await Promise.all([request(context, sandbox, 9000), request(context, sandbox, 6060, { path: '/health' })])
    assert.deepEqual([code.status, mcp.status], [401, 200])
    assert.equal(await run(sandbox, 'whoami; pwd; echo $HOME; sudo -n whoami; touch x && ls'), 'pn\n/workspace\n/home/pn\nroot\nx')
    assert.match(await run(sandbox, 'claude --version; codex --version; node --version; rg --version'), /^\d.* \(Claude Code\)\ncodex-cli \d.*\nv24\..*\nripgrep /)
    const { services } = JSON.parse(await sandbox.files.read('/etc/sandglass/services.json'))
    assert.deepEqual(services.map((s) => [s.name, s.port, s.token_file]), [['mcp_server', 6060, `${tokens}/mcp_server`], ['code_server', 9000, `${tokens}/code_server`]])
  } finally {
    await sandbox.kill()
  }
})

test('without a token file, and with another sandbox\'s token, nobody gets in', () => withWorkplace(async (sandbox, token) => {
  const other = await client.Sandbox.create(name)
  try {
    const ask = (box, given) => Promise.all([
      request(context, box, 9000, { path: `/?tkn=${given}` }),
      request(context, box, 6060, { path: '/mcp', method: 'POST', headers: { Authorization: `Bearer ${given}`, 'Content-Type': 'application/json' }, body: '{}' }),
    ]).then((answers) => answers.map((a) => a.status))
    assert.deepEqual(await ask(other, token), [401, 401])
    assert.deepEqual(await ask(other, ''), [401, 401])
    assert.deepEqual(await ask(sandbox, 'wrong'), [401, 401])
    const [code, mcp] = await ask(sandbox, token)
    assert.deepEqual([code, mcp === 401], [303, false])
    assert.equal(await run(sandbox, `sudo -u nobody cat ${tokens}/mcp_server 2>&1 || true`), `cat: ${tokens}/mcp_server: Permission denied`)
  } finally {
    await other.kill()
  }
}))

test('tools by MCP work in /workspace as pn, with the variables of this sandbox', () => withWorkplace(async (sandbox, token) => {
  await withTools(server, sandbox, token, async (call) => {
    assert.match(textOf(await call('run_command', { command: 'whoami; pwd; echo "$GIVEN"' })), /^pn\n\/workspace\nof this one\n/)
    await call('write_file', { path: 'notes.txt', content: 'by the tool' })
    assert.equal(await sandbox.files.read('/workspace/notes.txt'), 'by the tool')
  })
}, { envs: { GIVEN: 'of this one' } }))

test('created through the agent API: both services take the tokens of the answer when it comes; credentials are there', async () => {
  const ask = (...args) => agentApi(server, ...args)
  const secret = `sk-ant-${randomBytes(16).toString('hex')}`
  for (const name of ['claude', 'codex']) assert.equal((await ask('PUT', `/credentials/${name}`, { value: secret })).status, 204)
  const made = await ask('POST', '/sandboxes', { template_id: name })
  assert.equal(made.status, 201, made.body)
  const { sandbox_id, ports, mcp_url, mcp_token, code_url } = made.json
  const box = { sandboxId: sandbox_id }
  try {
    const { pathname, search, origin } = new URL(code_url)
    const [entered, refused] = await Promise.all([pathname + search, '/?tkn=wrong'].map((path) => request(context, sandbox_id, 9000, { path })))
    assert.deepEqual([entered.status, refused.status], [303, 401])
    assert.equal(origin, address(box))
    await withTools(server, box, mcp_token, async (call) => assert.match(textOf(await call('run_command', { command: 'pwd' })), /^\/workspace\n/))
    assert.deepEqual([ports, mcp_url], [{ mcp_server: 6060, code_server: 9000 }, `${address(box, 6060)}/mcp`])
    const shell = await ask('POST', `/sandboxes/${sandbox_id}/commands`, { command: 'pwd; stat -c "%U %a %n" ~/.codex/auth.json; cat ~/.codex/auth.json; printenv ANTHROPIC_API_KEY || stat -c "%U %a" ~/.claude/.credentials.json' })
    assert.match(shell.json.stdout, /^\/workspace\npn 600 \/home\/pn\/.codex\/auth.json\n/)
    assert.ok(shell.json.stdout.includes(secret), 'the key of codex')
    const shown = await ask('GET', `/sandboxes/${sandbox_id}`)
    assert.deepEqual([shown.json.mcp_token, shown.json.code_url], [mcp_token, code_url])
  } finally {
    assert.equal((await ask('DELETE', `/sandboxes/${sandbox_id}`)).status, 204)
    for (const name of ['claude', 'codex']) await ask('DELETE', `/credentials/${name}`)
  }
})

/** Choose from the quick pick, by its own words. */
async function pick(key, text, row) {
  await page.keyboard.press(key)
  const input = page.locator('.quick-input-widget input')
  await input.waitFor()
  await input.fill(text)
  await page.locator('.quick-input-list .monaco-list-row', { hasText: row }).first().waitFor()
  await page.keyboard.press('Enter')
}

/** Open the file, replace its text, save. */
async function edit(file, text) {
  await pick('Control+P', file, file)
  await page.locator(`.tab.active[data-resource-name="${file}"]`).waitFor()
  await page.locator('.monaco-editor .view-lines').first().click()
  await page.keyboard.press('Control+A')
  await page.keyboard.type(text)
  await page.keyboard.press('Control+S')
}

async function openTerminal() {
  await pick('F1', '>Terminal: Create New Terminal', 'Terminal: Create New Terminal')
  await page.locator('.terminal-wrapper.active .xterm-helper-textarea').waitFor({ state: 'attached' })
}

async function inTerminal(command) {
  await page.locator('.terminal-wrapper.active .xterm-helper-textarea').focus()
  await page.keyboard.type(`${command}\n`)
}

async function openWorkbench(sandbox, token) {
  const answer = await page.goto(`${address(sandbox)}/?tkn=${token}`)
  assert.equal(answer.status(), 200)
  assert.equal(new URL(page.url()).search, '?folder=/workspace')
  await page.locator('.monaco-workbench .explorer-folders-view').waitFor()
}

test('VS Code in a browser: refused without the token; with it a file is edited, and a command runs in the terminal, also after a pause', { timeout: 240_000 }, () => withWorkplace(async (sandbox, token) => {
  const answer = await page.goto(address(sandbox))
  assert.deepEqual([answer.status(), await page.title()], [401, 'VS Code: token needed'])
  await page.fill('input[name=tkn]', 'wrong')
  await page.click('button')
  await page.waitForURL(/tkn=wrong/)
  assert.equal(await page.title(), 'VS Code: token needed')

  await sandbox.files.write('/workspace/greeting.txt', 'before')
  await openWorkbench(sandbox, token)
  await edit('greeting.txt', 'written in VS Code')
  await hasContent(sandbox, '/workspace/greeting.txt', 'written in VS Code')
  await openTerminal()
  await inTerminal('echo "$(whoami) in $PWD: $GIVEN" > terminal.txt')
  await hasContent(sandbox, '/workspace/terminal.txt', 'pn in /workspace: of this one\n')

  await sandbox.pause()
  await sandbox.connect()
  await inTerminal('echo "after a pause: $GIVEN" > terminal.txt')
  await hasContent(sandbox, '/workspace/terminal.txt', 'after a pause: of this one\n')
}, { envs: { GIVEN: 'of this one' } }))

test('forked and paused, both services go on, with the same token', () => withWorkplace(async (sandbox, token) => {
  await withTools(server, sandbox, token, (call) => call('run_command', { command: 'echo begun > state' }))
  const [forked] = await sandbox.fork()
  if (forked instanceof Error) throw forked
  try {
    await sandbox.pause()
    await sandbox.connect()
    for (const box of [forked, sandbox]) {
      assert.equal((await request(context, box, 9000)).status, 401)
      const entered = await request(context, box, 9000, { path: `/?tkn=${token}` })
      const workbench = await request(context, box, 9000, { path: '/?folder=/workspace', headers: { Cookie: entered.headers['set-cookie'][0].split(';')[0] } })
      assert.match(workbench.body, /workbench/)
      await withTools(server, box, token, async (call) => assert.match(textOf(await call('run_command', { command: 'cat state' })), /^begun\n/))
    }
  } finally {
    await forked.kill()
  }
}))

testPage('vscode.md', () => server)
