// The tools of the MCP server, through the official client: what each does, and what it says when it cannot.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import test, { after, before } from 'node:test'

import { Client as NewClient, StreamableHTTPClientTransport as NewTransport } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ResourceUpdatedNotificationSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'

import { ToolServer } from '../lib/tool_server.mjs'
import { until } from '../lib/wait.mjs'

let server
before(async () => (server = await ToolServer.start()))
after(async () => assert.equal(await server.stop(), 0))

const requestInit = () => ({ headers: { Authorization: `Bearer ${server.token}` } })

/** A case with a client of its own, by the streamable transport; nothing of it stays in the server. */
const withClient = (body) => (t) =>
  server.clean(async () => {
    const client = new Client({ name: 'test', version: '1' })
    const transport = new StreamableHTTPClientTransport(new URL(server.url), { requestInit: requestInit() })
    await client.connect(transport)
    const tool = async (name, args = {}, options) => {
      const result = await client.callTool({ name, arguments: args }, undefined, options)
      return { ...result, text: result.content.find((one) => one.type === 'text')?.text, facts: result.structuredContent }
    }
    try {
      await body(tool, client, t)
    } finally {
      await transport.terminateSession()
      await client.close()
    }
  })(t)

const fails = (result, words) => {
  assert.equal(result.isError, true, result.text)
  assert.match(result.text, words)
}

test('every tool has a title, a description, a strict schema and annotations', withClient(async (_, client) => {
  const { tools } = await client.listTools()
  assert.deepEqual(tools.map((tool) => tool.name), ['run_command', 'start_command', 'read_command', 'write_command', 'kill_command', 'list_commands', 'read_file', 'write_file', 'edit_file', 'apply_patch', 'list_directory', 'glob', 'grep', 'move', 'delete', 'watch', 'preview_url', 'list_ports'])
  for (const tool of tools) {
    assert.ok(tool.title && tool.description.length > 20, tool.name)
    assert.equal(tool.inputSchema.additionalProperties, false, tool.name)
    assert.equal(typeof tool.annotations.readOnlyHint, 'boolean', tool.name)
  }
  assert.equal(tools.find((tool) => tool.name === 'read_file').annotations.readOnlyHint, true)
  assert.equal(tools.find((tool) => tool.name === 'delete').annotations.destructiveHint, true)
}))

test('arguments that do not fit are told to the model', withClient(async (tool) => {
  fails(await tool('run_command'), /command is missing/)
  fails(await tool('run_command', { command: 5 }), /command must be of type string/)
  fails(await tool('run_command', { command: 'true', nope: 1 }), /nope is not an argument/)
  fails(await tool('run_command', { command: 'true', timeout_s: 0 }), /timeout_s must be from 1/)
  fails(await tool('read_file', { path: 'a\u0000b' }), /NUL/)
}))

test('a shell that keeps its directory, variables and functions; exit code and duration are told', withClient(async (tool) => {
  const first = await tool('run_command', { command: 'mkdir -p d && cd d; X="a b"; f() { echo "f: $1"; }; echo out; echo err >&2; (exit 7)' })
  assert.deepEqual([first.facts.exit_code, first.facts.stdout, first.facts.stderr, first.facts.timed_out], [7, 'out\n', 'err\n', false])
  assert.match(first.text, /^out\n\[stderr\]\nerr\n\[exit code 7, \d+\.\d{3} s\]$/)
  assert.equal((await tool('run_command', { command: 'pwd; f "$X"' })).facts.stdout, `${server.file('d')}\nf: a b\n`)
  assert.equal((await tool('run_command', { command: 'pwd', cwd: '/' })).facts.stdout, '/\n')
  const awkward = `cat <<'END'\nit's "quoted" $HOME \\ \`x\`\nEND\nprintf %s 'no line end'`
  assert.equal((await tool('run_command', { command: awkward })).facts.stdout, `it's "quoted" $HOME \\ \`x\`\nno line end`)
  assert.equal((await tool('run_command', { command: 'echo "open' })).facts.exit_code, 2)
  assert.equal((await tool('run_command', { command: 'read x; echo "[$x]"' })).facts.stdout, '[]\n', 'there is no input')
}))

test('a directory for one command holds for all of the command, and without that directory nothing runs', withClient(async (tool) => {
  const run = async (command, cwd) => (await tool('run_command', { command, cwd })).facts
  fs.mkdirSync(server.file("it's here"))
  const here = server.file("it's here")
  assert.equal((await run('sleep 0.1 & pwd; wait', '/')).stdout, '/\n')
  assert.equal((await run('pwd', "it's here")).exit_code, 1, 'a relative path begins where the shell is')
  assert.equal((await run('pwd; cd /', here)).stdout, `${here}\n`)
  fs.writeFileSync(server.file('stays'), '')
  await run('true', server.workspace)
  const lost = await run('echo a; rm -f stays; touch came', '/nope')
  assert.deepEqual([lost.exit_code, lost.stdout], [1, ''])
  assert.match(lost.stderr, /nope: No such file/)
  assert.deepEqual([fs.existsSync(server.file('stays')), fs.existsSync(server.file('came'))], [true, false])
  assert.equal((await run('cat <<END\n$PWD\nEND', '/')).stdout, '/\n')
  assert.deepEqual([(await run('(exit 7) # a comment', '/')).exit_code, (await run('echo "open', '/')).exit_code], [7, 2])
  assert.equal((await run('cd /usr; cd /', '/')).exit_code, 0)
  assert.equal((await run('pwd', '-')).exit_code, 1, 'not the last directory')
  fs.rmSync(here, { recursive: true })
  fs.unlinkSync(server.file('stays'))
}))

test('the time limit stops a command, and the shell goes on', withClient(async (tool) => {
  await tool('run_command', { command: 'X=kept' })
  const slow = await tool('run_command', { command: 'echo before; while true; do sleep 1; done', timeout_s: 5 })
  assert.deepEqual([slow.facts.timed_out, slow.facts.stdout, slow.facts.shell_ended], [true, 'before\n', false])
  assert.equal((await tool('run_command', { command: 'echo $X' })).facts.stdout, 'kept\n')
}))

test('a command that ignores signals is ended with its shell, and the next one begins anew', withClient(async (tool) => {
  const deaf = await tool('run_command', { command: `trap '' INT; X=gone; while true; do sleep 1; done`, timeout_s: 5 })
  assert.deepEqual([deaf.facts.timed_out, deaf.facts.shell_ended], [true, true])
  assert.equal((await tool('run_command', { command: 'echo "[$X]"' })).facts.stdout, '[]\n')
  const left = await tool('run_command', { command: 'exit 3' })
  assert.deepEqual([left.facts.exit_code, left.facts.shell_ended], [3, true])
  assert.doesNotMatch((await tool('run_command', { command: 'true' })).text, /new shell/, 'that was told')
}))

test('a cancelled command that ends with its shell: the next answer says so, and only that one', withClient(async (tool) => {
  const aborts = new AbortController()
  const options = { signal: aborts.signal, onprogress: () => aborts.abort(new Error('enough')) }
  await assert.rejects(tool('run_command', { command: `trap '' INT; echo begun; while true; do sleep 1; done` }, options), /enough/)
  assert.match((await tool('run_command', { command: 'echo next' })).text, /^next\n\[a new shell: the last one ended with a command that was cancelled\]\n/)
  assert.doesNotMatch((await tool('run_command', { command: 'true' })).text, /new shell/)
}))

test('long output loses its middle, whatever it is', withClient(async (tool) => {
  const result = await tool('run_command', { command: 'echo first; head -c 1000000 /dev/zero | tr "\\0" x; echo; echo last', max_output_bytes: 1000 })
  assert.ok(result.facts.truncated && result.facts.stdout.length < 1200)
  assert.match(result.facts.stdout, /^first\n.*bytes left out here.*last\n$/s)
  const binary = await tool('run_command', { command: `printf 'a\\0\\377b'` })
  assert.equal(binary.facts.stdout, 'a\ufffd\ufffdb')
}))

test('a gigabyte of output: the memory of the server does not grow', { timeout: 300_000 }, withClient(async (tool) => {
  const megabytes = Number(process.env.SANDGLASS_TEST_LOUD_MB ?? 200)
  const result = await tool('run_command', { command: `head -c ${megabytes}000000 /dev/zero | tr '\\0' y`, timeout_s: 250 }, { timeout: 280_000 })
  assert.equal(result.facts.exit_code, 0)
  assert.ok(server.residentKiB() < 8 * 1024, `${server.residentKiB()} KiB`)
}))

test('progress has the output as it comes', withClient(async (tool) => {
  const seen = []
  await tool('run_command', { command: 'for i in 1 2 3; do echo $i; sleep 0.5; done' }, { onprogress: ({ message }) => seen.push(message) })
  assert.equal(seen.join(''), '1\n2\n3\n')
  assert.ok(seen.length > 1)
}))

test('commands of one session wait for each other, those of two do not', withClient(async (tool) => {
  let second
  const onprogress = () => (second ??= tool('run_command', { command: 'cat order; rm order' }))
  await tool('run_command', { command: 'echo begun; sleep 0.5; echo a >order' }, { onprogress })
  assert.equal((await second).facts.stdout, 'a\n')
}))

test('background commands: output from a byte on, input, the end, signals', withClient(async (tool) => {
  const { facts: { id, pid } } = await tool('start_command', { command: 'echo ready; read line; echo "got $line"; exec sleep 1000' })
  assert.ok(pid > 0)
  const first = await tool('read_command', { id, wait_s: 30 })
  assert.deepEqual([first.facts.output, first.facts.running, first.facts.next], ['ready\n', true, 6])
  await tool('write_command', { id, input: 'a line\n' })
  assert.equal((await tool('read_command', { id, from: 6, wait_s: 30 })).facts.output, 'got a line\n')
  assert.equal((await tool('list_commands')).facts.commands.length, 1)
  await tool('kill_command', { id, signal: 'SIGTERM' })
  const last = await tool('read_command', { id, from: 17, wait_s: 30 })
  assert.deepEqual([last.facts.running, last.facts.exit_code], [false, 143])
  fails(await tool('kill_command', { id }), /has ended/)
  fails(await tool('write_command', { id, input: 'x' }), /has ended/)
  fails(await tool('read_command', { id: 99 }), /no command has this id/)
}))

test('a background command begins in the workspace, and a relative directory begins there, too', withClient(async (tool) => {
  fs.mkdirSync(server.file('bg'))
  for (const [cwd, where] of [[undefined, ''], ['bg', '/bg'], ['./bg', '/bg'], ['/', null]]) {
    const { facts: { id } } = await tool('start_command', { command: 'pwd', cwd })
    assert.equal((await tool('read_command', { id, wait_s: 30 })).facts.output, where === null ? '/\n' : `${server.workspace}${where}\n`)
  }
  fails(await tool('start_command', { command: 'pwd', cwd: 'nope' }), /nope/)
  fs.rmdirSync(server.file('bg'))
}))

test('a background command ends with its session, with all of its children', withClient(async (tool) => {
  await tool('start_command', { command: 'sleep 1000 & sleep 1000' })
  await tool('start_command', { command: 'cat' })
}))

test('read_file: lines, pictures, what is no text', withClient(async (tool) => {
  fs.writeFileSync(server.file('lines'), Array.from({ length: 5000 }, (_, i) => `line ${i + 1}\n`).join(''))
  const part = await tool('read_file', { path: 'lines', first_line: 4000, lines: 2 })
  assert.match(part.text, /^line 4000\nline 4001\n\n\[lines 4000 to 4001; the file goes on\]$/)
  assert.match((await tool('read_file', { path: 'lines' })).text, /line 2000\n\n\[lines 1 to 2000; the file goes on\]$/)
  assert.match((await tool('read_file', { path: 'lines', first_line: 9999 })).text, /has no line 9999/)
  fs.writeFileSync(server.file('empty'), '')
  assert.match((await tool('read_file', { path: 'empty' })).text, /is empty/)
  const png = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==', 'base64')
  fs.writeFileSync(server.file('dot.png'), png)
  const picture = await tool('read_file', { path: 'dot.png' })
  assert.deepEqual([picture.content[0].type, picture.content[0].mimeType, picture.content[0].data], ['image', 'image/png', png.toString('base64')])
  fs.writeFileSync(server.file('binary'), Buffer.from([1, 0, 2]))
  fails(await tool('read_file', { path: 'binary' }), /binary file of 3 bytes/)
  fails(await tool('read_file', { path: 'nope' }), /nope does not exist/)
  fails(await tool('read_file', { path: '.' }), /is a directory/)
  fails(await tool('read_file', { path: '/dev/zero' }), /not a regular file/)
  fs.symlinkSync('/etc/hostname', server.file('link'))
  assert.equal((await tool('read_file', { path: 'link' })).text.trim(), fs.readFileSync('/etc/hostname', 'utf8').trim(), 'the sandbox is the fence, not the workspace')
}))

test('write_file makes directories, keeps the mode, follows links', withClient(async (tool) => {
  assert.match((await tool('write_file', { path: 'deep/er/file', content: 'é\n' })).text, /^Created .*: 3 bytes/)
  fs.chmodSync(server.file('deep/er/file'), 0o750)
  fs.symlinkSync('er/file', server.file('deep/link'))
  assert.match((await tool('write_file', { path: 'deep/link', content: 'new' })).text, /^Replaced/)
  assert.equal(fs.readFileSync(server.file('deep/er/file'), 'utf8'), 'new')
  assert.equal(fs.statSync(server.file('deep/er/file')).mode & 0o777, 0o750)
  assert.ok(fs.lstatSync(server.file('deep/link')).isSymbolicLink())
  fails(await tool('write_file', { path: 'deep', content: '' }), /is a directory/)
  fails(await tool('write_file', { path: 'deep/er/file/x', content: '' }), /does not exist|not a directory/i)
  assert.deepEqual(fs.readdirSync(server.file('deep/er')), ['file'], 'no temporary file stays')
}))

test('edit_file: all edits or none', withClient(async (tool) => {
  fs.writeFileSync(server.file('edit'), 'one two two\n')
  assert.equal((await tool('edit_file', { path: 'edit', edits: [{ old_text: 'one', new_text: 'three' }, { old_text: 'two', new_text: '2', replace_all: true }] })).facts.replacements, 3)
  assert.equal(fs.readFileSync(server.file('edit'), 'utf8'), 'three 2 2\n')
  fails(await tool('edit_file', { path: 'edit', edits: [{ old_text: 'three', new_text: 'x' }, { old_text: '2', new_text: 'y' }] }), /edit 2: old_text occurs 2 times.*Nothing was changed/)
  fails(await tool('edit_file', { path: 'edit', edits: [{ old_text: 'nope', new_text: 'y' }] }), /does not occur/)
  fails(await tool('edit_file', { path: 'edit', edits: [] }), /0 items/)
  assert.equal(fs.readFileSync(server.file('edit'), 'utf8'), 'three 2 2\n')
}))

test('apply_patch: change, create, delete, rename; all or nothing', withClient(async (tool) => {
  fs.writeFileSync(server.file('p1'), 'a\nb\nc\n')
  fs.writeFileSync(server.file('p2'), 'gone\n')
  fs.writeFileSync(server.file('p3'), 'moved\n')
  const patch = '--- a/p1\n+++ b/p1\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n--- a/p2\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n--- /dev/null\n+++ b/new/p4\n@@ -0,0 +1 @@\n+hello\n--- a/p3\n+++ b/p5\n@@ -1 +1 @@\n-moved\n+here\n'
  assert.match((await tool('apply_patch', { patch })).text, /changed .*p1\ncreated .*p4\nrenamed .*p3 to .*p5\ndeleted .*p2/)
  assert.deepEqual([fs.readFileSync(server.file('p1'), 'utf8'), fs.existsSync(server.file('p2')), fs.readFileSync(server.file('new/p4'), 'utf8'), fs.existsSync(server.file('p3')), fs.readFileSync(server.file('p5'), 'utf8')], ['a\nB\nc\n', false, 'hello\n', false, 'here\n'])
  fails(await tool('apply_patch', { patch: '--- a/p1\n+++ b/p1\n@@ -1 +1 @@\n-a\n+A\n--- a/p5\n+++ b/p5\n@@ -1 +1 @@\n-zzz\n+y\n' }), /nothing was changed.*p5.*hunk 1 does not fit/)
  assert.equal(fs.readFileSync(server.file('p1'), 'utf8'), 'a\nB\nc\n')
  fails(await tool('apply_patch', { patch: 'no patch' }), /no file/)
}))

test('apply_patch: what git diff says of whole files, and several sections for one file', withClient(async (tool) => {
  const dir = server.file('g')
  const run = async (command) => assert.equal((await tool('run_command', { command: `cd ${dir} && ${command}` })).facts.exit_code, 0, command)
  const git = 'git -c user.name=t -c user.email=t@t -c diff.renames=copies'
  fs.mkdirSync(dir)
  fs.writeFileSync(server.file('g/whole'), Array.from({ length: 30 }, (_, i) => `line ${i}\n`).join(''), { mode: 0o755 })
  for (const [name, text] of [['gone', ''], ['plain', 'p\n'], ['twice', '1\n2\n3\n'], ['caf\u00e9 x', 'old\n']]) fs.writeFileSync(server.file(`g/${name}`), text)
  await run(`git init -q . && git add -A && ${git} commit -qm one && git mv whole moved && rm gone && : >empty && chmod +x plain && printf 'new\n' >'caf\u00e9 x' && git add -A && ${git} diff --cached -M >../g.patch && git reset -q --hard`)
  const patch = fs.readFileSync(server.file('g.patch'), 'utf8').replaceAll(/ ([ab])\//g, ' $1/g/').replaceAll('"a/', '"a/g/').replaceAll('"b/', '"b/g/').replaceAll(/^rename (from|to) /gm, 'rename $1 g/')
  const answer = await tool('apply_patch', { patch })
  assert.equal(answer.isError, false, answer.text)
  assert.deepEqual(fs.readdirSync(dir).sort(), ['.git', 'caf\u00e9 x', 'empty', 'moved', 'plain', 'twice'])
  assert.deepEqual(['moved', 'plain', 'empty'].map((name) => fs.statSync(server.file(`g/${name}`)).mode & 0o111), [0o111, 0o111, 0])
  assert.equal(fs.readFileSync(server.file('g/caf\u00e9 x'), 'utf8'), 'new\n')
  const hunk = (from, to) => `--- a/g/twice\n+++ b/g/twice\n@@ -${from} +${from} @@\n-${from}\n+${to}\n`
  await tool('apply_patch', { patch: `${hunk(1, 'one')}${hunk(3, 'three').replaceAll('/g/', '/g/./')}--- a/g/twice\n+++ b/g/renamed\n@@ -2 +2 @@\n-2\n+two\n` })
  assert.deepEqual([fs.readFileSync(server.file('g/renamed'), 'utf8'), fs.existsSync(server.file('g/twice'))], ['one\ntwo\nthree\n', false])
  const before = fs.readFileSync(server.file('g/plain'), 'utf8')
  const change = '--- a/g/plain\n+++ b/g/plain\n@@ -1 +1 @@\n-p\n+P\n'
  fails(await tool('apply_patch', { patch: `${change}diff --git a/g/pic b/g/pic\nindex 1..2 100644\nBinary files a/g/pic and b/g/pic differ\n` }), /binary file/)
  fails(await tool('apply_patch', { patch: `${change}diff --git a/g/plain b/g/moved\nrename from g/plain\nrename to g/moved\n` }), /nothing was changed.*exists already/)
  fails(await tool('apply_patch', { patch: `${change}--- a/g/moved\n+++ /dev/null\n@@ -1 +0,0 @@\n-line 0\n` }), /nothing was changed.*more than the patch says/)
  fails(await tool('apply_patch', { patch: `${change}diff --git a/g/empty b/g/empty\ndeleted file mode 100644\n--- a/g/empty\n+++ b/g/empty\n@@ -0,0 +1 @@\n+x\n--- a/g/nope\n+++ b/g/nope\n@@ -1 +1 @@\n-a\n+b\n` }), /nothing was changed.*nope does not exist/)
  assert.equal(fs.readFileSync(server.file('g/plain'), 'utf8'), before)
  fs.rmSync(dir, { recursive: true })
}))

test('list_directory, glob, grep', withClient(async (tool) => {
  for (const [name, content] of [['t/a.py', 'import os\nx = 1\n'], ['t/sub/b.py', 'IMPORT\n'], ['t/c.txt', 'import\n'], ['t/.hidden', 'import']]) {
    fs.mkdirSync(path.dirname(server.file(name)), { recursive: true })
    fs.writeFileSync(server.file(name), content)
  }
  assert.equal((await tool('list_directory', { path: 't', depth: 2 })).text, '.hidden  6\na.py  16\nc.txt  7\nsub/\nsub/b.py  7\n')
  assert.equal((await tool('glob', { pattern: '**/*.py', path: 't' })).text, './a.py\n./sub/b.py\n')
  assert.equal((await tool('grep', { pattern: '^import', path: 't', glob: '*.py' })).text, './a.py:1:import os\n')
  assert.match((await tool('grep', { pattern: 'import', path: 't', ignore_case: true, files_only: true })).text, /b\.py/)
  assert.equal((await tool('grep', { pattern: 'nowhere', path: 't' })).text, 'Nothing found.')
  fails(await tool('grep', { pattern: '(', path: 't' }), /regex|unclosed/)
  fails(await tool('list_directory', { path: 'nope' }), /does not exist/)
  fails(await tool('glob', { pattern: '*', path: 'nope' }), /does not exist/)
}))

test('glob and grep leave out what .gitignore names, unless they are asked for it', withClient(async (tool) => {
  for (const name of ['i/.gitignore', 'i/src/kept.js', 'i/src/lost.log', 'i/out/made.js', 'i/src/deep/kept.ts', 'i/.git/x.js']) {
    fs.mkdirSync(path.dirname(server.file(name)), { recursive: true })
    fs.writeFileSync(server.file(name), name === 'i/.gitignore' ? '*.log\nout/\n' : 'needle\n')
  }
  const glob = async (pattern, more = {}) => (await tool('glob', { pattern, path: 'i', ...more })).text
  const grep = async (more) => (await tool('grep', { pattern: 'needle', path: 'i', ...more })).text
  assert.equal(await glob('**/*.js'), './src/kept.js\n')
  assert.equal(await glob('*.js', { include_ignored: true }), './out/made.js\n./src/kept.js\n')
  assert.equal(await glob('*.log'), 'Nothing found.')
  assert.equal(await glob('src/**', { include_ignored: false }), './src/deep/kept.ts\n./src/kept.js\n')
  assert.equal(await glob('src/*.{js,log}', { include_ignored: true }), './src/kept.js\n./src/lost.log\n')
  fails(await tool('glob', { pattern: '*.{js', path: 'i' }), /brace/)
  assert.equal(await grep({ glob: '*.js' }), './src/kept.js:1:needle\n')
  assert.equal(await grep({ glob: '*.log' }), 'Nothing found.')
  assert.equal(await grep({ glob: 'src/**' }), './src/deep/kept.ts:1:needle\n./src/kept.js:1:needle\n')
  assert.equal(await grep({ glob: '!*.ts', files_only: true }), './src/kept.js\n')
  assert.equal(await grep({ glob: '*.{js,log}', include_ignored: true, files_only: true }), './out/made.js\n./src/kept.js\n./src/lost.log\n')
  assert.equal((await tool('grep', { pattern: 'needle', path: 'i/src/lost.log' })).text, '1:needle\n')
  fs.writeFileSync(server.file('i/src/kept.js'), 'a\nneedle\nb\nc\nd\nneedle\n')
  assert.equal(await grep({ glob: 'src/*.js', context: 1 }), './src/kept.js-1-a\n./src/kept.js:2:needle\n./src/kept.js-3-b\n--\n./src/kept.js-5-d\n./src/kept.js:6:needle\n')
  fs.rmSync(server.file('i'), { recursive: true })
}))

test('glob and grep say how much they leave out', withClient(async (tool) => {
  fs.writeFileSync(server.file('lines'), 'a line with a needle\n'.repeat(10_000))
  const { text } = await tool('grep', { pattern: 'needle', path: 'lines' })
  const told = text.split('\n').filter((line) => line.includes('needle')).length
  assert.ok(text.length < 32_000 && told > 500)
  assert.match(text, new RegExp(`\\[${10_000 - told} more lines left out: search for less\\]\\n$`))
  fs.unlinkSync(server.file('lines'))
}))

test('glob and grep say what they could not read, and that is no failure', async () => {
  const plain = await ToolServer.start({ uid: 65534 })
  const session = await plain.session()
  const tool = async (name, args) => (await (await session({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } })).json()).result
  for (const name of ['here', 'closed', 'closed too']) fs.mkdirSync(plain.file(name))
  fs.writeFileSync(plain.file('here/file'), 'a needle\n')
  fs.writeFileSync(plain.file('secret'), 'a needle\n')
  for (const [name, mode] of [['closed', 0], ['secret', 0]]) fs.chmodSync(plain.file(name), mode)
  assert.deepEqual(await tool('grep', { pattern: 'nowhere', path: 'here' }), { content: [{ type: 'text', text: 'Nothing found.' }], isError: false })
  const text = async (name, args) => ((result) => (assert.equal(result.isError, false), result.content[0].text))(await tool(name, args))
  assert.match(await text('grep', { pattern: 'nowhere' }), /^Nothing found\.\n\[2 paths could not be read, for example \.\/(closed|secret): Permission denied\]\n$/)
  assert.match(await text('grep', { pattern: 'needle' }), /^\.\/here\/file:1:a needle\n\[2 paths could not be read/)
  assert.equal(await text('glob', { pattern: '*.nope' }), 'Nothing found.\n[1 path could not be read: ./closed: Permission denied]\n')
  assert.match(await text('glob', { pattern: 'file' }), /^\.\/here\/file\n\[1 path could not be read/)
  for (let i = 0; i < 300; i++) fs.mkdirSync(plain.file(`closed too/${i}`), { mode: 0 })
  assert.match(await text('glob', { pattern: '*.nope' }), /^Nothing found\.\n\[more than \d+ paths could not be read, for example /)
  for (const [name, args, words] of [['grep', { pattern: '(' }, /regex|unclosed/], ['grep', { pattern: 'x', path: 'secret' }, /Permission denied/]]) {
    const result = await tool(name, args)
    assert.equal(result.isError, true)
    assert.match(result.content[0].text, words)
  }
  await session.end()
  assert.equal(await plain.stop(), 0)
})

test('without ripgrep there is no glob and no grep', async () => {
  const bin = path.join(server.dir, 'bin')
  fs.mkdirSync(bin)
  fs.symlinkSync('/bin/bash', path.join(bin, 'bash'))
  const bare = await ToolServer.start({ PATH: bin })
  const session = await bare.session()
  const { result } = await (await session({ jsonrpc: '2.0', id: 1, method: 'tools/list' })).json()
  assert.deepEqual(result.tools.filter(({ name }) => ['glob', 'grep', 'list_directory'].includes(name)).map(({ name }) => name), ['list_directory'])
  assert.match(JSON.stringify(await (await session({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'glob', arguments: { pattern: '*' } } })).json()), /unknown tool/)
  assert.equal(await bare.stop(), 0)
})

test('a session that listens hears that tools have come or gone', async () => {
  const bin = path.join(server.dir, 'changing')
  fs.mkdirSync(bin)
  fs.symlinkSync('/bin/bash', path.join(bin, 'bash'))
  const bare = await ToolServer.start({ PATH: bin })
  const client = new Client({ name: 'test', version: '1' })
  let told = 0
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void told++)
  await client.connect(new StreamableHTTPClientTransport(new URL(bare.url), { requestInit: requestInit() }))
  assert.equal(client.getServerCapabilities().tools.listChanged, true)
  const has = async (name) => (await client.listTools()).tools.some((tool) => tool.name === name)
  assert.equal(await has('grep'), false)
  fs.symlinkSync(execFileSync('bash', ['-c', 'command -v rg'], { encoding: 'utf8' }).trim(), path.join(bin, 'rg'))
  await until('ripgrep is told', () => told === 1)
  assert.equal(await has('grep'), true)
  fs.unlinkSync(path.join(bin, 'rg'))
  assert.equal(await has('grep'), false)
  await until('its end is told', () => told === 2)
  await client.close()
  assert.equal(await bare.stop(), 0)
})

test('a directory of 100,000 entries', withClient(async (tool) => {
  fs.mkdirSync(server.file('many'))
  await tool('run_command', { command: `cd ${server.file('many')} && seq 100000 | xargs touch` })
  const list = await tool('list_directory', { path: 'many', limit: 100 })
  assert.deepEqual([list.facts.entries.length, list.facts.left_out], [100, 99900])
  assert.match(list.text, /\[99900 more entries\]/)
  await tool('delete', { path: 'many', recursive: true })
  assert.equal(fs.existsSync(server.file('many')), false)
}))

test('move and delete', withClient(async (tool) => {
  fs.mkdirSync(server.file('m/x'), { recursive: true })
  fs.writeFileSync(server.file('m/x/f'), '')
  fs.writeFileSync(server.file('m/g'), '')
  fails(await tool('move', { from: 'm/x/f', to: 'm/g' }), /exists already/)
  await tool('move', { from: 'm/x/f', to: 'm/g', overwrite: true })
  await tool('move', { from: 'm/x', to: 'm/y' })
  assert.deepEqual(fs.readdirSync(server.file('m')), ['g', 'y'])
  fails(await tool('move', { from: 'nope', to: 'x' }), /does not exist/)
  fails(await tool('delete', { path: 'm' }), /set recursive/)
  fails(await tool('delete', { path: '.', recursive: true }), /not deleted/)
  fails(await tool('delete', { path: '/', recursive: true }), /not deleted/)
  fs.symlinkSync(server.file('m'), server.file('mlink'))
  await tool('delete', { path: 'mlink/' })
  assert.ok(fs.existsSync(server.file('m/g')), 'the link is deleted, not what it leads to')
  await tool('delete', { path: 'm', recursive: true })
  fails(await tool('delete', { path: 'm' }), /does not exist/)
}))

test('the workspace and what it is in are not deleted, however the workspace is named', async () => {
  for (const at of [(dir) => `${dir}/`, (dir) => (fs.symlinkSync(dir, `${dir}.link`), `${dir}.link`)]) {
    const one = await ToolServer.start({ at })
    const session = await one.session()
    for (const name of ['.', one.workspace, `${one.workspace}/`, `${one.workspace}/.`, one.dir, '/']) {
      const { result } = await (await session({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'delete', arguments: { path: name, recursive: true } } })).json()
      assert.equal(result.isError, true, name)
      assert.match(result.content[0].text, /is not deleted/)
    }
    assert.ok(fs.existsSync(one.workspace))
    await session.end()
    assert.equal(await one.stop(), 0)
  }
})

test('watch tells what changed, or that nothing did', withClient(async (tool) => {
  fs.mkdirSync(server.file('w'), { recursive: true })
  const changes = tool('watch', { path: 'w', wait_s: 60 }, { timeout: 90_000 })
  const writes = setInterval(() => fs.writeFileSync(server.file('w/new'), 'x'), 100)
  assert.ok((await changes).facts.changes.some(({ name }) => name === 'new'))
  clearInterval(writes)
  assert.equal((await tool('watch', { path: '/proc/self', wait_s: 1 })).text, 'Nothing changed.')
  fails(await tool('watch', { path: 'nope' }), /does not exist/)
}))

test('watch sees a file that is kept open, and says how many changes it does not show', withClient(async (tool) => {
  fs.mkdirSync(server.file('wo'), { recursive: true })
  const open = fs.openSync(server.file('wo/log'), 'a')
  const changes = tool('watch', { path: 'wo', wait_s: 60 }, { timeout: 90_000 })
  const writes = setInterval(() => fs.writeSync(open, 'x'), 5)
  assert.deepEqual((await changes).facts, { changes: [{ change: 'changed', name: 'log' }], left_out: 0 })
  clearInterval(writes)
  fs.closeSync(open)
  const many = tool('watch', { path: 'wo', wait_s: 60 }, { timeout: 90_000 })
  await tool('list_ports') // the watch began before
  server.child.kill('SIGSTOP') // so that all changes come together
  for (let i = 0; i < 600; i++) fs.writeFileSync(server.file(`wo/${i}`), 'x')
  server.child.kill('SIGCONT')
  const { facts, text } = await many
  assert.deepEqual([facts.changes.length, facts.left_out], [1000, 200])
  assert.match(text, /\[200 more changes are not shown\]\n$/)
  fs.rmSync(server.file('wo'), { recursive: true })
}))

test('resources come in pages, sorted', withClient(async (_, client) => {
  const names = Array.from({ length: 2500 }, (_unused, i) => `page ${String(i).padStart(5, '0')} \u00e9`)
  for (const name of names) fs.writeFileSync(server.file(name), '')
  const seen = []
  let cursor, pages = 0
  do {
    const page = await client.listResources(cursor ? { cursor } : {})
    seen.push(...page.resources.map(({ name }) => name))
    cursor = page.nextCursor
    pages++
  } while (cursor)
  assert.deepEqual(seen.filter((name) => name.startsWith('page')), names)
  assert.equal(pages, 3)
  for (const bad of ['', 'x', '0', '00', 'zz', 'aa'.repeat(1000)]) await assert.rejects(client.listResources({ cursor: bad }), /-32602/)
  for (const name of names) fs.unlinkSync(server.file(name))
}))

test('ports: which listen, and their addresses from outside', withClient(async (tool) => {
  const listener = net.createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => listener.once('listening', resolve))
  const { port } = listener.address()
  assert.ok((await tool('list_ports')).facts.ports.some((one) => one.port === port))
  assert.deepEqual((await tool('preview_url', { port })).facts, { url: `http://localhost:${port}`, listening: true })
  await new Promise((resolve) => listener.close(resolve))
}))

test('files as resources, and changes of them', withClient(async (_, client) => {
  fs.writeFileSync(server.file('r é.txt'), 'text')
  fs.writeFileSync(server.file('r.bin'), Buffer.from([0, 255]))
  const { resources } = await client.listResources()
  const uri = resources.find(({ name }) => name === 'r é.txt').uri
  assert.equal((await client.readResource({ uri })).contents[0].text, 'text')
  assert.equal((await client.readResource({ uri: resources.find(({ name }) => name === 'r.bin').uri })).contents[0].blob, 'AP8=')
  assert.equal((await client.listResourceTemplates()).resourceTemplates.length, 1)
  await assert.rejects(client.readResource({ uri: 'file:///nope' }), /-32002.*does not exist/)
  await assert.rejects(client.readResource({ uri: 'https://example.com/' }), /file:\/\/\//)
  const told = []
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => told.push(params.uri))
  await client.subscribeResource({ uri })
  await until('the change is told', () => (fs.writeFileSync(server.file('r é.txt'), String(Math.random())), told.length > 0))
  assert.equal(told[0], uri)
  await client.unsubscribeResource({ uri })
}))

for (const [name, connect] of [
  ['the transport of 2024-11-05', async () => {
    const client = new Client({ name: 'test', version: '1' })
    await client.connect(new SSEClientTransport(new URL(server.url.replace('/mcp', '/sse')), { requestInit: requestInit(), eventSourceInit: { fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, ...requestInit().headers } }) } }))
    return client
  }],
  ['the client that asks for the newest revision', async () => {
    const client = new NewClient({ name: 'test', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } })
    await client.connect(new NewTransport(new URL(server.url), { requestInit: requestInit() }))
    return client
  }],
])
  test(`${name}: tools and cancelling`, async () => {
    const client = await connect()
    assert.equal((await client.listTools()).tools.length, 18)
    const result = await client.callTool({ name: 'run_command', arguments: { command: 'X=1; echo hi' } })
    assert.equal(result.structuredContent.stdout, 'hi\n')
    const aborts = new AbortController()
    setTimeout(() => aborts.abort(new Error('enough')), 200)
    const options = { signal: aborts.signal }
    await assert.rejects(client instanceof Client ? client.callTool({ name: 'run_command', arguments: { command: 'sleep 1000' } }, undefined, options) : client.callTool({ name: 'run_command', arguments: { command: 'sleep 1000' } }, options), /enough/)
    assert.equal((await client.callTool({ name: 'run_command', arguments: { command: 'echo $X' } })).structuredContent.stdout, '1\n')
    await client.close()
  })
