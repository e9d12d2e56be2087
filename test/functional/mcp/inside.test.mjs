// The MCP tool server where it belongs: inside a sandbox, reached through the edge; with an interpreter and a desktop that are stand-ins.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import test, { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { Sandbox } from 'e2b'

import { Server } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const here = (name) => fileURLToPath(new URL(name, import.meta.url))
const bytes = (name) => new Blob([fs.readFileSync(here(name))])
const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')

let server, sandbox, client, transport
const tool = async (name, args = {}, options) => {
  const result = await client.callTool({ name, arguments: args }, undefined, options)
  return { ...result, text: result.content.find((one) => one.type === 'text')?.text, facts: result.structuredContent }
}

before(async () => {
  server = await Server.start()
  Object.assign(process.env, clientEnvironment(server, 'http'))
  sandbox = await Sandbox.create('base', { timeoutMs: 600_000 })
  await sandbox.files.write('/tmp/interpreter.py', bytes('../inside/interpreter.py'))
  await sandbox.files.write('/usr/local/bin/sandglass-mcp', bytes('../../../build/sandglass-mcp'), { user: 'root' })
  await sandbox.files.write('/tmp/screen.png', new Blob([png]))
  await sandbox.files.write('/usr/bin/scrot', '#!/bin/sh\n[ "$DISPLAY" = :0 ] || exit 1\n[ ! -e /tmp/dark ] || { echo "no display" >&2; exit 1; }\ncat /tmp/screen.png\n', { user: 'root' })
  await sandbox.files.write('/usr/bin/xdotool', '#!/bin/sh\nprintf "%s|" "$@" >>/tmp/pressed\n', { user: 'root' })
  await sandbox.commands.run('chmod 755 /usr/local/bin/sandglass-mcp /usr/bin/scrot /usr/bin/xdotool; printf token >/home/user/.mcp-token; mkdir -p /home/user/workspace; chown user:user /home/user/.mcp-token /home/user/workspace', { user: 'root' })
  await sandbox.commands.run('python3 /tmp/interpreter.py', { background: true, timeoutMs: 0 })
  await sandbox.commands.run('sandglass-mcp --workspace /home/user/workspace --token-file /home/user/.mcp-token', { background: true, timeoutMs: 0 })
  const headers = { Authorization: 'Bearer token', 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '6060' }
  client = new Client({ name: 'test', version: '1' })
  await until('the tool server listens', async () => (await fetch(`${server.apiUrl}/health`, { headers }).catch(() => ({}))).status === 200)
  transport = new StreamableHTTPClientTransport(new URL(`${server.apiUrl}/mcp`), { requestInit: { headers } })
  await client.connect(transport)
  await until('the interpreter listens', async () => (await tool('list_ports')).facts.ports.some(({ port }) => port === 49999))
})
after(async () => {
  await client?.close()
  await server.cleanUp()
})

test('tools are there where the sandbox has what they need', async () => {
  const names = (await client.listTools()).tools.map(({ name }) => name)
  for (const name of ['run_code', 'screenshot', 'click', 'type']) assert.ok(names.includes(name), name)
})

test('run_code: output, the value, pictures, errors, a run that never ends', async () => {
  const went = await tool('run_code', { code: `send('stdout', text='printed\\n'); send('result', text='42', png='${png.toString('base64')}', is_main_result=True)` })
  assert.match(went.text, /^printed\n42\n/)
  assert.deepEqual([went.content[1].type, went.content[1].mimeType, went.content[1].data], ['image', 'image/png', png.toString('base64')])
  const failed = await tool('run_code', { code: 'raise ValueError("no")' })
  assert.equal(failed.isError, true)
  assert.match(failed.text, /ValueError: no/)
  const endless = await tool('run_code', { code: 'hang()', timeout_s: 1 })
  assert.equal(endless.isError, true)
  assert.match(endless.text, /the time limit/)
})

test('run_code: long output loses its middle, whatever its characters, and keeps its end, its error and its duration', async () => {
  const long = await tool('run_code', { code: `for i in range(50): send('stdout', text='\u00e9' * 5001)\nsend('stdout', text='a\\0b\\n')\nsend('result', text='42', is_main_result=True)` })
  assert.match(long.text, /^\u00e9+\n\n\[\.\.\. \d+ bytes left out here \.\.\.\]\n\n\u00e9+a\ufffdb\n42\n\[done, \d+\.\d{3} s\]$/)
  const failed = await tool('run_code', { code: `send('stdout', text='x' * 100000 + '\\n')\nraise ValueError('at the end')` })
  assert.equal(failed.isError, true)
  assert.match(failed.text, /ValueError: at the end\n.*Traceback.*\[failed, \d+\.\d{3} s\]$/s)
  const many = await tool('run_code', { code: `for i in range(10): send('result', png='${png.toString('base64')}')` })
  assert.equal(many.content.length, 9)
  assert.match(many.text, /2 more pictures were left out/)
  const other = await tool('run_code', { code: `send('result', markdown='**m**')\nsend('result', json={'a': [1]})` })
  assert.match(other.text, /^\*\*m\*\*\n{"a":\[1\]}\n/)
  const broken = await tool('run_code', { code: `send('stdout', text='before'); cut()` })
  assert.equal(broken.isError, true)
  assert.match(broken.text, /^before\[?.*ended the connection/s)
})

test('the desktop: a picture of it, clicks, keys, and words where it is dark', async () => {
  const screen = await tool('screenshot')
  assert.deepEqual([screen.content[0].mimeType, screen.content[0].data], ['image/png', png.toString('base64')])
  await tool('click', { x: 10, y: 20, button: 'right', times: 2 })
  await tool('type', { text: '--it is "text" $HOME' })
  await tool('type', { key: 'ctrl+c' })
  assert.equal(await sandbox.files.read('/tmp/pressed'), 'mousemove|--sync|10|20|click|--repeat|2|3|type|--delay|12|--|--it is "text" $HOME|key|--|ctrl+c|')
  assert.equal((await tool('type', { text: 'a', key: 'b' })).isError, true)
  await sandbox.files.write('/tmp/dark', '')
  const dark = await tool('screenshot')
  assert.equal(dark.isError, true)
  assert.match(dark.text, /no display/)
})

test('a session goes on after the sandbox was paused and resumed, with its shell', async () => {
  await tool('run_command', { command: 'X=kept; cd /tmp' })
  await sandbox.pause()
  sandbox = await Sandbox.connect(sandbox.sandboxId)
  assert.equal((await tool('run_command', { command: 'echo $X; pwd' })).facts.stdout, 'kept\n/tmp\n')
})

test('cancelled through the edge, a command ends', async () => {
  const aborts = new AbortController()
  await assert.rejects(tool('run_command', { command: 'echo begun; sleep 987654' }, { signal: aborts.signal, onprogress: () => aborts.abort(new Error('enough')) }), /enough/)
  await until('the command is gone', async () => !/987654/.test((await sandbox.commands.run('ps ax')).stdout))
})
