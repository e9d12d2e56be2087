// `sandglass mcp` against a server: every tool, through the official client.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import test, { after, before } from 'node:test'
import { fileURLToPath } from 'node:url'

import { assistant, bare, byHttp } from '../lib/platform.mjs'
import { binary, sandglass, Server, temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

const interpreter = fileURLToPath(new URL('../inside/interpreter.py', import.meta.url))
let server, files, main, box

const entry = (...more) => ({ command: binary, args: ['mcp', '--data', server.data, ...more] })
const fails = (result, words) => {
  assert.equal(result.isError, true, result.text)
  assert.match(result.text, words)
}
const ids = () => JSON.parse(sandglass(['ps', '--json', '--data', server.data]).stdout).map((one) => one.sandboxID)

before(async () => {
  server = await Server.start()
  files = temporaryDir('files')
  main = await assistant(entry('--files', files))
  box = (await main.tool('create_sandbox', { timeout_s: 1800, env: { COLOUR: 'green' }, metadata: { suite: 'platform' } })).facts.sandbox_id
})
after(async () => {
  await main.close()
  await server.cleanUp()
  fs.rmSync(files, { recursive: true, force: true })
})
const tool = (name, args = {}, options) => main.tool(name, { sandbox_id: box, ...args }, options)

test('every tool has a title, a description, a strict schema and all annotations', async () => {
  const { tools } = await main.client.listTools()
  assert.deepEqual(tools.map(({ name }) => name), ['create_sandbox', 'list_sandboxes', 'get_sandbox', 'list_templates', 'run_command', 'run_code', 'start_command', 'read_command', 'write_command', 'kill_command', 'list_commands', 'read_file', 'write_file', 'edit_file', 'list_files', 'move_file', 'delete_file', 'upload_file', 'download_file', 'preview_url', 'set_timeout', 'pause_sandbox', 'resume_sandbox', 'fork_sandbox', 'snapshot_sandbox', 'list_snapshots', 'delete_snapshot', 'rollback_sandbox', 'kill_sandbox'])
  for (const one of tools) {
    assert.ok(one.title && one.description.length > 20, one.name)
    assert.equal(one.inputSchema.additionalProperties, false, one.name)
    for (const hint of ['readOnlyHint', 'destructiveHint', 'idempotentHint', 'openWorldHint']) assert.equal(typeof one.annotations[hint], 'boolean', one.name)
    for (const [name, argument] of Object.entries(one.inputSchema.properties)) assert.ok(argument.type, `${one.name}.${name}`)
  }
  const hints = Object.fromEntries(tools.map(({ name, annotations }) => [name, annotations]))
  assert.ok(hints.list_sandboxes.readOnlyHint && !hints.create_sandbox.readOnlyHint)
  assert.ok(hints.kill_sandbox.destructiveHint && !hints.fork_sandbox.destructiveHint && !hints.pause_sandbox.destructiveHint)
  assert.match(main.client.getInstructions(), /Sandboxes go on when this server ends/)
})

test('sandboxes are found and described', async () => {
  const { facts, text } = await main.tool('list_sandboxes', { metadata: { suite: 'platform' } })
  assert.deepEqual(facts.sandboxes.map((one) => [one.sandbox_id, one.state, one.metadata]), [[box, 'running', { suite: 'platform' }]])
  assert.match(text, new RegExp(`^${box}  base  running, ends in \\d+ s`))
  assert.deepEqual((await main.tool('list_sandboxes', { metadata: { suite: 'other' } })).facts, { sandboxes: [], has_more: false })
  assert.equal((await tool('get_sandbox')).facts.state, 'running')
  assert.ok(Array.isArray((await main.tool('list_templates')).facts.templates))
  await tool('set_timeout', { timeout_s: 3000 })
  assert.ok((await tool('get_sandbox')).facts.seconds_left > 2000)
})

test('a command: output, exit code, duration, variables, input', async () => {
  const { facts, text } = await tool('run_command', { command: 'echo "$COLOUR $X"; pwd; cat; echo err >&2; exit 7', env: { X: 'é' }, cwd: '/tmp', input: 'read me' })
  assert.deepEqual([facts.exit_code, facts.stdout, facts.stderr, facts.timed_out, facts.truncated], [7, 'green é\n/tmp\nread me', 'err\n', false, false])
  assert.ok(facts.duration_ms >= 0)
  assert.match(text, /\[stderr\]\nerr\n\[exit code 7, \d+\.\d{3} s\]$/)
  assert.equal((await tool('run_command', { command: 'id -un', user: 'root' })).facts.stdout, 'root\n')
})

test('long output loses its middle; bytes that are no text are replaced', async () => {
  const { facts } = await tool('run_command', { command: `printf 'a\\0\\377b'; seq 100000`, max_output_bytes: 1000 })
  assert.equal(facts.truncated, true)
  assert.match(facts.stdout, /^a\ufffd\ufffdb1\n2\n.*\[\.\.\. \d+ bytes left out here \.\.\.\].*99999\n100000\n$/s)
  assert.ok(facts.stdout.length < 1200)
})

test('progress has the output as it comes', async () => {
  const seen = []
  const went = await tool('run_command', { command: 'echo one; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo two' }, {
    onprogress: ({ message }) => {
      seen.push(message)
      if (seen.length === 1) void tool('write_file', { path: '/tmp/go', content: '' })
    },
  })
  assert.equal(went.facts.stdout, 'one\ntwo\n')
  assert.equal(seen[0], 'one\n')
})

test('the time limit ends a command, and what it printed is told', async () => {
  const { facts, text, isError } = await tool('run_command', { command: 'echo before; sleep 654321; true', timeout_s: 5 })
  assert.deepEqual([facts.timed_out, facts.stdout, isError], [true, 'before\n', false])
  assert.match(text, /stopped after 5 s, the time limit/)
  await until('the command is gone, with its children', async () => !/654321/.test((await tool('run_command', { command: 'ps ax' })).facts.stdout))
})

test('a cancelled command ends in the sandbox, too', async () => {
  const aborts = new AbortController()
  const options = { signal: aborts.signal, onprogress: () => aborts.abort(new Error('enough')) }
  await assert.rejects(tool('run_command', { command: 'echo begun; sleep 987654; true' }, options), /enough/)
  await until('the command is gone, with its children', async () => !/987654/.test((await tool('run_command', { command: 'ps ax' })).facts.stdout))
})

test('commands that are cancelled while they start end, too', async () => {
  const program = bare(['--data', server.data])
  program.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-06-18' } })
  await program.next()
  for (let id = 1; id <= 60; id++) {
    const name = id % 2 ? 'run_command' : 'start_command'
    program.send({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: { sandbox_id: box, command: 'exec sleep 876543' } } })
    await new Promise((done) => setTimeout(done, id / 10)) // at any moment of the start
    program.send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } })
  }
  const answered = [] // some were started before they were cancelled
  program.send({ jsonrpc: '2.0', id: 99, method: 'ping' })
  for (let one; (one = await program.next()).id !== 99; ) answered.push(one)
  for (const { result } of answered) await tool('kill_command', { pid: result.structuredContent.pid, signal: 'SIGKILL' })
  assert.equal((await program.end()).code, 0)
  await until('the commands are gone', async () => !/876543/.test((await tool('run_command', { command: 'ps ax' })).facts.stdout))
})

test('a create that is cancelled at once leaves no sandbox', async () => {
  const had = ids()
  const program = bare(['--data', server.data])
  program.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-06-18' } })
  await program.next()
  for (let id = 1; id <= 20; id++)
    program.send({ jsonrpc: '2.0', id, method: 'tools/call', params: { name: 'create_sandbox', arguments: {} } }, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } }, { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id } })
  program.send({ jsonrpc: '2.0', id: 99, method: 'ping' })
  assert.equal((await program.next()).id, 99, 'what is cancelled has no answer')
  assert.equal((await program.end()).code, 0)
  await until('there is no further sandbox', () => ids().every((id) => had.includes(id)))
})

test('background commands: started, read, written to, ended', async () => {
  const { facts: { pid } } = await tool('start_command', { command: 'echo ready; read line; echo "got $line"; sleep 765432; true', keeps_input: true })
  await until('its first output', async () => /ready/.test((await tool('read_command', { pid })).facts.stdout))
  assert.ok((await tool('list_commands')).facts.commands.some((one) => one.pid === pid))
  await tool('write_command', { pid, input: 'a line\n' })
  await until('its answer', async () => /got a line/.test((await tool('read_command', { pid })).facts.stdout))
  assert.equal((await tool('read_command', { pid, wait_s: 1 })).facts.running, true)
  let waiting
  await new Promise((resolve) => { waiting = tool('read_command', { pid, wait_s: 60 }, { onprogress: resolve }) }) // it follows the command
  await tool('kill_command', { pid, signal: 'SIGKILL' })
  const ended = (await waiting).facts
  assert.deepEqual([ended.running, ended.exit_code, ended.duration_is_exact], [false, 137, true])
  assert.deepEqual((await tool('read_command', { pid })).facts, ended, 'the same to whoever comes later')
  await until('its children are gone', async () => !/765432/.test((await tool('run_command', { command: 'ps ax' })).facts.stdout))
  fails(await tool('kill_command', { pid: 4_000_000 }), /./)
  fails(await tool('read_command', { pid: 4_000_000 }), /./)
})

test('a background command: its exit code, how long it took, and its output from a byte on', async () => {
  const { facts: { pid } } = await tool('start_command', { command: 'echo first; echo other >&2; read line; echo "$line"; exit 7', keeps_input: true })
  await until('its first output', async () => (await tool('read_command', { pid })).facts.next === 12)
  const running = await tool('read_command', { pid, from: 12 })
  assert.deepEqual([running.facts.running, running.facts.exit_code, running.facts.stdout, running.facts.next], [true, null, '', 12])
  assert.match(running.text, /^\[process \d+ runs, for \d+\.\d{3} s; read on from 12\]$/)
  await tool('write_command', { pid, input: 'last\n' })
  await until('its end', async () => !(await tool('list_commands')).facts.commands.some((one) => one.pid === pid))
  const late = await tool('read_command', { pid, from: 12 })
  assert.deepEqual([late.facts.running, late.facts.exit_code, late.facts.stdout, late.facts.stderr, late.facts.next, late.facts.duration_is_exact], [false, 7, 'last\n', '', 17, false])
  assert.match(late.text, /^last\n\[process \d+ has ended, exit code 7, at most \d+\.\d{3} s; read on from 17\]$/)
  const loud = await tool('start_command', { command: 'head -c 3000000 /dev/zero | tr "\\0" x; echo end' })
  const all = (await tool('read_command', { pid: loud.facts.pid, wait_s: 60, from: 2_999_990 })).facts
  assert.deepEqual([all.stdout, all.next, all.exit_code, all.truncated], [`${'x'.repeat(10)}end\n`, 3_000_004, 0, false])
})

test('files: text, lines, pictures, bytes, edits, lists', async () => {
  await tool('write_file', { path: 'deep/er/file', content: Array.from({ length: 50 }, (_, i) => `line ${i + 1}\n`).join('') })
  assert.match((await tool('read_file', { path: 'deep/er/file', first_line: 40, lines: 2 })).text, /^line 40\nline 41\n\n\[lines 40 to 41; the file goes on\]$/)
  assert.equal((await tool('read_file', { path: 'deep/er/file' })).facts.is_complete, true)
  assert.match((await tool('read_file', { path: 'deep/er/file', first_line: 99 })).text, /has no line 99/)
  assert.equal((await tool('edit_file', { path: 'deep/er/file', edits: [{ old_text: 'line 7\n', new_text: 'seven\n' }, { old_text: 'line', new_text: 'LINE', replace_all: true }] })).facts.replacements, 50)
  fails(await tool('edit_file', { path: 'deep/er/file', edits: [{ old_text: 'seven', new_text: '7' }, { old_text: 'LINE', new_text: 'x' }] }), /edit 2: old_text occurs 49 times.*Nothing was changed/)
  assert.match((await tool('read_file', { path: 'deep/er/file' })).text, /seven/)
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  await tool('write_file', { path: 'deep/dot.png', content: png, encoding: 'base64' })
  const picture = await tool('read_file', { path: 'deep/dot.png' })
  assert.deepEqual([picture.content[0].type, picture.content[0].mimeType, picture.content[0].data], ['image', 'image/png', png])
  assert.equal((await tool('read_file', { path: 'deep/dot.png', encoding: 'base64' })).text, png)
  fails(await tool('write_file', { path: 'x', content: '!', encoding: 'base64' }), /no base64/)
  await tool('write_file', { path: 'deep/binary', content: 'AQAC', encoding: 'base64' })
  fails(await tool('read_file', { path: 'deep/binary' }), /binary file of 3 bytes/)
  const { entries } = (await tool('list_files', { path: 'deep', depth: 2 })).facts
  assert.deepEqual(entries.map((one) => [path.basename(one.path), one.type]).sort(), [['binary', 'file'], ['dot.png', 'file'], ['er', 'directory'], ['file', 'file']])
  assert.deepEqual((await tool('list_files', { path: 'deep', limit: 1 })).facts.left_out, 2)
  await tool('move_file', { from: 'deep/binary', to: 'deep/moved' })
  fails(await tool('delete_file', { path: 'deep' }), /set recursive/)
  await tool('delete_file', { path: 'deep/moved' })
  await tool('delete_file', { path: 'deep', recursive: true })
  fails(await tool('read_file', { path: 'deep/er/file' }), /./)
  fails(await tool('list_files', { path: 'deep' }), /./)
  fails(await tool('delete_file', { path: 'deep' }), /./)
})

test('files of this machine, below the directory that the user has named and nowhere else', async () => {
  fs.mkdirSync(`${files}/sub`)
  const bytes = Buffer.alloc(3_000_000, 'sandglass')
  fs.writeFileSync(`${files}/sub/in`, bytes)
  fs.symlinkSync('/etc/passwd', `${files}/link`)
  fs.symlinkSync('/etc', `${files}/out`)
  assert.match((await tool('upload_file', { local_path: 'sub/in', path: '/tmp/up/in' })).text, /3000000 bytes/)
  assert.match((await tool('download_file', { local_path: 'sub/back', path: '/tmp/up/in' })).text, /3000000 bytes/)
  assert.ok(fs.readFileSync(`${files}/sub/back`).equals(bytes))
  for (const local_path of ['/etc/passwd', '../x', 'link', 'out/passwd', 'sub/../../x']) {
    fails(await tool('upload_file', { local_path, path: '/tmp/x' }), /not below the directory|no file/)
    if (local_path !== 'link') fails(await tool('download_file', { local_path, path: '/tmp/up/in' }), /not below the directory|no file/)
  }
  await tool('download_file', { local_path: 'link', path: '/tmp/up/in' })
  assert.ok(fs.lstatSync(`${files}/link`).isFile() && fs.readFileSync('/etc/passwd', 'utf8').startsWith('root:'), 'the link is replaced, not what it leads to')
  fails(await tool('download_file', { local_path: 'new', path: '/tmp/nope' }), /./)
  fails(await tool('download_file', { local_path: 'nodir/new', path: '/tmp/up/in' }), /no file/)
  fails(await tool('upload_file', { local_path: 'sub', path: '/tmp/x' }), /not a regular file/)
  assert.deepEqual(fs.readdirSync(files).sort(), ['link', 'out', 'sub'], 'nothing half stays')
})

test('long calls leave room for those that end them', async () => {
  const aborts = new AbortController()
  const long = Array.from({ length: 40 }, () => tool('run_command', { command: 'sleep 600' }, { signal: aborts.signal, timeout: 600_000 }).catch(() => 'ended'))
  await until('24 of them run', async () => (await tool('list_commands')).facts.commands.filter(({ command }) => /sleep 600/.test(command)).length === 24, 60_000)
  const { facts: { pid } } = await tool('start_command', { command: 'sleep 601' })
  await tool('kill_command', { pid, signal: 'SIGKILL' })
  assert.ok((await main.tool('list_sandboxes')).facts.sandboxes.length > 0)
  aborts.abort()
  assert.deepEqual(new Set(await Promise.all(long)), new Set(['ended']))
  await until('none is left', async () => !(await tool('list_commands')).facts.commands.some(({ command }) => /sleep 600/.test(command)), 60_000)
})

test('download_file has a limit, and what is beyond leaves nothing', async () => {
  await tool('run_command', { command: 'truncate -s 1T /tmp/huge; truncate -s 2M /tmp/two' })
  fails(await tool('download_file', { path: '/tmp/huge', local_path: 'huge' }), /larger than 1024 MiB: nothing was kept here/)
  fails(await tool('download_file', { path: '/tmp/two', local_path: 'two', max_mb: 1 }), /larger than 1 MiB/)
  assert.equal((await tool('download_file', { path: '/tmp/two', local_path: 'two', max_mb: 2 })).isError, false)
  await tool('run_command', { command: 'rm /tmp/huge /tmp/two' })
  assert.deepEqual(fs.readdirSync(files).filter((name) => /huge|tmp/.test(name)), [])
})

test('run_code: output, values, pictures, errors; and a sandbox without an interpreter', async () => {
  const { facts: { sandbox_id } } = await main.tool('create_sandbox')
  const code = (text, more = {}, options) => main.tool('run_code', { sandbox_id, code: text, ...more }, options)
  fails(await code('1'), /./)
  fs.copyFileSync(interpreter, `${files}/interpreter.py`)
  await main.tool('upload_file', { sandbox_id, local_path: 'interpreter.py', path: '/tmp/interpreter.py' })
  await main.tool('start_command', { sandbox_id, command: 'exec python3 /tmp/interpreter.py' })
  await until('the interpreter listens', async () => (await main.tool('preview_url', { sandbox_id, port: 49999 })).facts.listening)
  const seen = []
  const went = await code(`import os, time\nsend('stdout', text='printed\\n')\nwhile not os.path.exists('/tmp/go'): time.sleep(0.05)\nsend('result', text='42', png='iVBORw0=', is_main_result=True)`, {}, { onprogress: ({ message }) => (seen.push(message), void main.tool('write_file', { sandbox_id, path: '/tmp/go', content: '' })) })
  assert.match(went.text, /^printed\n42\n\[done, \d+\.\d{3} s\]$/)
  assert.deepEqual([went.content[1].type, went.content[1].mimeType, went.content[1].data], ['image', 'image/png', 'iVBORw0='])
  assert.deepEqual(seen, ['printed\n'])
  fails(await code('raise ValueError("no")'), /ValueError: no/)
  fails(await code('hang()', { timeout_s: 1 }), /stopped after 1 s, the time limit/)
  assert.match((await code(`send('stdout', text='x' * 100000)`)).text, /bytes left out here/)
  await main.tool('kill_sandbox', { sandbox_id })
})

test('the address of a port', async () => {
  assert.equal((await tool('preview_url', { port: 8123 })).facts.listening, false)
  await tool('start_command', { command: 'exec python3 -m http.server 8123' })
  await until('it listens', async () => (await tool('preview_url', { port: 8123 })).facts.listening)
  assert.match((await tool('preview_url', { port: 8123 })).facts.url, new RegExp(`^https?://8123-${box}\\.`))
})

test('pause, resume, fork, snapshot, roll back, end', async () => {
  await tool('write_file', { path: '/tmp/state', content: 'first' })
  assert.match((await tool('pause_sandbox')).text, /is paused/)
  assert.equal((await tool('get_sandbox')).facts.state, 'paused')
  fails(await tool('run_command', { command: 'true' }), /paused: resume_sandbox lets it run again|is paused/)
  await tool('resume_sandbox', { timeout_s: 1800 })
  assert.equal((await tool('read_file', { path: '/tmp/state' })).text, 'first')
  const copies = (await tool('fork_sandbox', { count: 2 })).facts.sandbox_ids
  assert.equal(copies.length, 2)
  for (const sandbox_id of copies) assert.equal((await main.tool('read_file', { sandbox_id, path: '/tmp/state' })).text, 'first')
  const { snapshot_id } = (await tool('snapshot_sandbox')).facts
  assert.ok((await tool('list_snapshots')).facts.snapshots.some((one) => one.snapshot_id === snapshot_id))
  await tool('write_file', { path: '/tmp/state', content: 'second' })
  const { facts: { sandbox_id } } = await main.tool('create_sandbox', { template: snapshot_id })
  assert.equal((await main.tool('read_file', { sandbox_id, path: '/tmp/state' })).text, 'first')
  await tool('rollback_sandbox', { snapshot_id })
  assert.equal((await tool('read_file', { path: '/tmp/state' })).text, 'first')
  for (const id of [...copies, sandbox_id]) await main.tool('kill_sandbox', { sandbox_id: id })
  assert.ok(ids().every((id) => ![...copies, sandbox_id].includes(id)))
  await main.tool('delete_snapshot', { snapshot_id })
  fails(await main.tool('create_sandbox', { template: snapshot_id }), /./)
})

test('what is wrong is told in words, and nothing is sent', async () => {
  fails(await main.tool('run_command', { sandbox_id: 'nope', command: 'true' }), /./)
  fails(await main.tool('run_command', { sandbox_id: 'i00000000000000000000', command: 'true' }), /There is no sandbox/)
  fails(await main.tool('kill_sandbox', { sandbox_id: 'i00000000000000000000' }), /./)
  fails(await main.tool('create_sandbox', { template: 'no-such-template' }), /./)
  fails(await main.tool('create_sandbox', { env: { A: 1 } }), /env.A must be of type string/)
  fails(await main.tool('create_sandbox', { nope: 1 }), /nope is not an argument/)
  fails(await tool('preview_url', { port: 0 }), /port must be from 1/)
  await assert.rejects(main.tool('no_such_tool'), /unknown tool/)
})

test('the key is not accepted', async () => {
  const { command, args } = entry()
  const other = await assistant({ command, args: args.slice(0, 1), env: { E2B_API_URL: server.apiUrl, E2B_SANDBOX_URL: server.apiUrl, E2B_API_KEY: `e2b_${'0'.repeat(40)}` } })
  fails(await other.tool('list_sandboxes'), /key|401|not/i)
  await other.close()
})

test('two assistants at once, and many calls of each', async () => {
  const other = await assistant(entry())
  const all = await Promise.all([main, other].flatMap((one) => Array.from({ length: 50 }, (_, i) => one.tool('run_command', { sandbox_id: box, command: `echo ${i}` }))))
  assert.deepEqual(all.map(({ facts }) => facts.stdout), [...Array(100).keys()].map((i) => `${i % 50}\n`))
  assert.ok(fs.readdirSync(`/proc/${main.pid}/task`).length <= 33, 'at most 32 threads of work')
  await other.close()
})

test('what is printed for assistants is what the client starts', async () => {
  const printed = sandglass(['mcp', '--print-config', '--data', server.data, '--files', files, '--kill-on-exit'])
  assert.equal(printed.status, 0, printed.stderr)
  const pasted = JSON.parse(printed.stdout).mcpServers.sandglass
  assert.ok(path.isAbsolute(pasted.command))
  const other = await assistant(pasted)
  assert.match(other.client.getInstructions(), /Sandboxes that were made here end with this server/)
  const { facts: { sandbox_id } } = await other.tool('create_sandbox')
  const kept = (await other.tool('fork_sandbox', { sandbox_id })).facts.sandbox_ids[0]
  assert.ok(ids().includes(sandbox_id) && ids().includes(kept))
  await other.close()
  await until('the sandboxes that were made there are gone', () => !ids().includes(sandbox_id) && !ids().includes(kept))
  assert.ok(ids().includes(box), 'others stay')
  const byKey = sandglass(['mcp', '--print-config=vscode'], { env: { ...process.env, E2B_API_URL: server.apiUrl, E2B_SANDBOX_URL: server.apiUrl, E2B_API_KEY: server.key } })
  const again = await assistant(JSON.parse(byKey.stdout).servers.sandglass)
  assert.equal((await again.tool('get_sandbox', { sandbox_id: box })).facts.state, 'running')
  await again.close()
})

test('sandboxes go on when the server for assistants ends', async () => {
  const other = await assistant(entry())
  const { facts: { sandbox_id } } = await other.tool('create_sandbox')
  await other.close()
  await until('the process is gone', () => !fs.existsSync(`/proc/${other.pid}`))
  assert.ok(ids().includes(sandbox_id))
  await main.tool('kill_sandbox', { sandbox_id })
})

test('by HTTP: a token that is made at the first use, two clients, cancelling', async () => {
  const home = temporaryDir('home')
  const http = await byHttp(['--data', server.data], { env: { HOME: home, XDG_CONFIG_HOME: '' } })
  assert.equal(http.file, `${home}/.config/sandglass/mcp-token`)
  assert.equal(fs.statSync(http.file).mode & 0o777, 0o600)
  await assert.rejects(http.connect('wrong'), /token/)
  const one = await http.connect(), two = await http.connect()
  assert.equal((await one.tool('run_command', { sandbox_id: box, command: 'echo 1' })).facts.stdout, '1\n')
  assert.equal((await two.tool('get_sandbox', { sandbox_id: box })).facts.state, 'running')
  const aborts = new AbortController()
  await assert.rejects(one.tool('run_command', { sandbox_id: box, command: 'echo begun; exec sleep 987654' }, { signal: aborts.signal, onprogress: () => aborts.abort(new Error('enough')) }), /enough/)
  await until('the command is gone', async () => !/987654/.test((await two.tool('run_command', { sandbox_id: box, command: 'ps ax' })).facts.stdout))
  for (const headers of [{ Origin: 'https://evil.example' }, { Host: 'evil.example' }]) assert.equal(await status(http, headers), 403)
  assert.notEqual(await status(http, { Origin: 'http://localhost:6274' }), 403)
  const config = sandglass(['mcp', '--http', new URL(http.url).host, '--print-config'], { env: { ...process.env, HOME: home, XDG_CONFIG_HOME: '' } })
  assert.deepEqual(JSON.parse(config.stdout).mcpServers.sandglass, { type: 'http', url: http.url, headers: { Authorization: `Bearer ${http.token}` } })
  await one.close()
  await two.close()
  assert.deepEqual(await http.stop(), { code: 0, signal: null })
  fs.rmSync(home, { recursive: true })
})

/** node's fetch sets Host and Origin itself. */
async function status(http, headers) {
  const { request } = await import('node:http')
  return new Promise((done, fail) => request(http.url, { method: 'POST', headers: { Authorization: `Bearer ${http.token}`, 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', ...headers } }, (answer) => done((answer.resume(), answer.statusCode))).on('error', fail).end('{}'))
}

test('a server that goes and comes back', async () => {
  const { port } = server
  await server.stop()
  fails(await tool('get_sandbox'), /Trying again later may help/)
  server = await Server.start({ data: server.data, listen: `127.0.0.1:${port}` })
  assert.equal((await tool('get_sandbox')).facts.state, 'running')
  assert.equal((await tool('run_command', { command: 'cat /tmp/state' })).facts.stdout, 'first')
  await tool('kill_sandbox')
})
