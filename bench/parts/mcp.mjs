// The MCP tool server in a sandbox beside a command as the clients' libraries run it there; and what many sessions take.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { createRaw, envd, killRaw } from '../../test/functional/lib/raw.mjs'
import { ToolServer } from '../../test/functional/lib/tool_server.mjs'
import { until } from '../../test/functional/lib/wait.mjs'
import { row } from '../table.mjs'

const program = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '..', 'build', 'sandglass-mcp')
const port = '6060'
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

/** One request on a kept connection, through the edge into the sandbox: {status, headers, body}. */
function ask(server, agent, sandbox, to, path_, body, headers) {
  const all = { 'E2b-Sandbox-Id': sandbox.sandboxID, 'E2b-Sandbox-Port': to, 'Content-Length': Buffer.byteLength(body), ...headers }
  return new Promise((done, fail) => {
    const rq = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path: path_, agent, headers: all }, (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('error', fail)
      answer.on('end', () => done({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(pieces).toString('latin1') }))
    })
    rq.on('error', fail)
    rq.end(body)
  })
}

/** A command as a call of the daemon, to its end: a frame of Connect's stream. */
async function command(server, agent, sandbox, cmd, args = []) {
  const json = Buffer.from(JSON.stringify({ process: { cmd, args } }))
  const frame = Buffer.concat([Buffer.alloc(5), json])
  frame.writeUInt32BE(json.length, 1)
  const answer = await ask(server, agent, sandbox, '49983', '/process.Process/Start', frame, { 'Content-Type': 'application/connect+json', 'Connect-Protocol-Version': '1', 'X-Access-Token': sandbox.envdAccessToken })
  if (answer.status !== 200 || !/"exited":true|exit status 0/.test(answer.body)) throw new Error(`command: ${answer.status} ${answer.body.slice(0, 200)}`)
}

const toolHeaders = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }

async function startTools(server, agent, sandbox) {
  const form = new FormData()
  form.append('file', new Blob([fs.readFileSync(program)]), 'sandglass-mcp')
  const request = new Request('http://x/', { method: 'POST', body: form })
  const body = Buffer.from(await request.arrayBuffer())
  const up = await envd(server, sandbox, 'POST', '/files?path=/tmp/sandglass-mcp', { body, headers: { 'Content-Type': request.headers.get('content-type') } })
  if (up.status !== 200) throw new Error(`upload: ${up.status} ${up.body}`)
  await command(server, agent, sandbox, '/bin/bash', ['-c', `chmod 755 /tmp/sandglass-mcp; setsid /tmp/sandglass-mcp --listen 0.0.0.0:${port} --workspace /tmp --no-token >/dev/null 2>&1 &`])
  const hello = JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'bench', version: '1' } } })
  const begun = await until('the tool server listens', async () => {
    const answer = await ask(server, agent, sandbox, port, '/mcp', hello, toolHeaders)
    return answer.status === 200 && answer
  })
  return begun.headers['mcp-session-id']
}

async function callTool(server, agent, sandbox, session, id) {
  const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'run_command', arguments: { command: '/bin/true' } } })
  const answer = await ask(server, agent, sandbox, port, '/mcp', body, { ...toolHeaders, 'Mcp-Session-Id': session })
  if (answer.status !== 200 || !answer.body.includes('"exit_code":0')) throw new Error(`tool: ${answer.status} ${answer.body.slice(0, 200)}`)
}

async function measureCalls(server, rounds) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 2 })
  const sandbox = await createRaw(server)
  const times = { tool: [], raw: [] }
  try {
    const session = await startTools(server, agent, sandbox)
    for (let i = 1; i <= rounds + 10; i++)
      for (const [name, body] of [['raw', () => command(server, agent, sandbox, '/bin/true', [])], ['tool', () => callTool(server, agent, sandbox, session, i)]]) {
        const begun = performance.now()
        await body()
        if (i > 10) times[name].push((performance.now() - begun) * 1000) // the first ones warm both up
      }
  } finally {
    await killRaw(server, sandbox.sandboxID)
    agent.destroy()
  }
  return { tool: median(times.tool), raw: median(times.raw) }
}

async function measureSessions(count) {
  const tools = await ToolServer.start()
  try {
    const first = tools.residentKiB()
    for (let i = 0; i < count; i++) await tools.session()
    return { start: first, held: tools.residentKiB() }
  } finally {
    await tools.stop()
  }
}

export async function measureMcp({ server, quick, result, rows }) {
  const calls = await measureCalls(server, quick ? 100 : 500)
  const sessions = await measureSessions(1000)
  result.figures.mcp = { calls, sessions }
  rows.push(
    row('MCP tool call: a command', calls.tool, 'us', { floor: calls.raw, floorName: 'the same by the daemon' }),
    row('MCP tool call, more than a raw command', Math.max(0, calls.tool - calls.raw), 'us', { atMost: 1000 }),
    row('MCP tool server, resident', sessions.start, 'kib', { atMost: 3 * 1024 }),
    row('MCP tool server with 1,000 sessions', sessions.held, 'kib', { atMost: 3 * 1024 }),
  )
}
