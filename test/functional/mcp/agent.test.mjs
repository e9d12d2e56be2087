// An agent SDK that uses the MCP servers, with a stand-in for the model's API: the tool server by HTTP, `sandglass mcp` by stdio.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import test, { after, before } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'

import { binary, temporaryDir } from '../lib/server.mjs'
import { ToolServer } from '../lib/tool_server.mjs'

const cache = process.env.SANDGLASS_TEST_CACHE ?? fileURLToPath(new URL('../../../build/test-cache', import.meta.url))
const name = '@anthropic-ai/claude-agent-sdk'

/** The SDK is large, and is installed once. */
async function agentSdk() {
  const places = [path.join(cache, 'examples'), path.join(cache, 'agent-sdk')]
  let place = places.find((dir) => fs.existsSync(path.join(dir, 'node_modules', name, 'sdk.mjs')))
  if (!place) {
    place = places[1]
    const went = spawnSync('npm', ['install', '--prefix', place, '--no-audit', '--no-fund', '--loglevel=error', `${name}@0.3.327`], { encoding: 'utf8' })
    assert.equal(went.status, 0, went.stderr)
  }
  return import(pathToFileURL(path.join(place, 'node_modules', name, 'sdk.mjs')))
}

/** A model that calls the tools of `script`, one after the other, and then says what they returned. */
async function startModel() {
  const model = { script: [], offered: [] }
  const answer = (response, request) => {
    const results = request.messages.flatMap(({ content }) => (Array.isArray(content) ? content.filter(({ type }) => type === 'tool_result') : []))
    const next = model.script[results.length]
    model.offered = (request.tools ?? []).map((tool) => tool.name)
    const words = results.map(({ content }) => (typeof content === 'string' ? content : content.map(({ text }) => text).join(''))).join('|')
    const block = next && model.offered.includes(next.name) ? { type: 'tool_use', id: `call_${results.length}`, name: next.name, input: {} } : { type: 'text', text: '' }
    const message = { id: 'msg_1', type: 'message', role: 'assistant', model: request.model, content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } }
    const send = (type, data) => response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`)
    response.setHeader('Content-Type', 'text/event-stream')
    send('message_start', { message })
    send('content_block_start', { index: 0, content_block: block })
    send('content_block_delta', { index: 0, delta: block.type === 'text' ? { type: 'text_delta', text: words || 'nothing' } : { type: 'input_json_delta', partial_json: JSON.stringify(next.input) } })
    send('content_block_stop', { index: 0 })
    send('message_delta', { delta: { stop_reason: block.type === 'text' ? 'end_turn' : 'tool_use', stop_sequence: null }, usage: { output_tokens: 1 } })
    send('message_stop', {})
    response.end()
  }
  const server = http.createServer(async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    if (request.method === 'POST' && request.url.startsWith('/v1/messages') && !request.url.includes('count_tokens')) answer(response, JSON.parse(body))
    else response.setHeader('Content-Type', 'application/json').end('{"input_tokens":1}')
  }).listen(0, '127.0.0.1')
  await new Promise((done) => server.once('listening', done))
  return Object.assign(model, { url: `http://127.0.0.1:${server.address().port}`, close: () => (server.closeAllConnections(), server.close()) })
}

let sdk, model, server, home
before(async () => {
  sdk = await agentSdk()
  model = await startModel()
  server = await ToolServer.start()
  home = temporaryDir('home')
})
after(async () => {
  model.close()
  assert.equal(await server.stop(), 0)
  fs.rmSync(home, { recursive: true, force: true })
})

test('an agent works with the tools of a sandbox, and with the sandboxes of a platform', { timeout: 180_000 }, async () => {
  const mcpServers = {
    sandbox: { type: 'http', url: server.url, headers: { Authorization: `Bearer ${server.token}` } },
    platform: { type: 'stdio', command: binary, args: ['mcp'], env: { E2B_API_URL: 'http://127.0.0.1:1', E2B_API_KEY: `e2b_${'0'.repeat(40)}` } },
  }
  model.script = [
    { name: 'mcp__sandbox__write_file', input: { path: 'made', content: 'by the agent\n' } },
    { name: 'mcp__sandbox__run_command', input: { command: 'cat made; exit 3' } },
    { name: 'mcp__platform__get_sandbox', input: { sandbox_id: 'i00000000000000000000' } },
  ]
  const messages = []
  const query = sdk.query({ prompt: 'go', options: { mcpServers, allowedTools: model.script.map((one) => one.name), tools: [], settingSources: [], cwd: home, env: { PATH: process.env.PATH, HOME: home, ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'the-key' } } })
  for await (const message of query) messages.push(message)
  const begun = messages.find(({ type, subtype }) => type === 'system' && subtype === 'init')
  assert.deepEqual(begun.mcp_servers.map((one) => [one.name, one.status]).sort(), [['platform', 'connected'], ['sandbox', 'connected']], JSON.stringify(begun.mcp_servers))
  const { result } = messages.find(({ type }) => type === 'result')
  const [written, ran, refused] = result.split('|')
  assert.match(written, /^Created .*made: 13 bytes/)
  assert.match(ran, /by the agent(\n|\\n)/)
  assert.match(ran, /exit code 3|"exit_code":3/)
  assert.match(refused, /connect|refused|reached/i)
  assert.equal(fs.readFileSync(server.file('made'), 'utf8'), 'by the agent\n')
})
