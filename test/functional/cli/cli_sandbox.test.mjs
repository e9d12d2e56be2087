// create, shell, cp, logs and info against a real server.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'

import { Sandbox } from 'e2b'

import { binary, sandglass, Server, temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

let server, id, dir
before(async () => {
  server = await Server.start()
  dir = temporaryDir('cp')
  id = good('create', ['--timeout', '600', '-e', 'GREETING=hello', '--metadata', 'owner=me']).trim()
})
after(() => {
  fs.rmSync(dir, { recursive: true, force: true })
  return server.cleanUp()
})

const cli = (command, args = [], options = {}) => sandglass([command, '--data', server.data, ...args], { input: '', cwd: dir, ...options })
function good(command, args, options) {
  const r = cli(command, args, options)
  assert.deepEqual([r.status, r.stderr], [0, ''], `${command} ${args.join(' ')}`)
  return r.stdout
}
const inside = (script) => good('exec', [id, 'sh', '-c', script])

test('create prints an id; info describes the sandbox', () => {
  assert.match(id, /^[a-z0-9]+$/)
  assert.equal(inside('echo $GREETING'), 'hello\n')
  const text = good('info', [id])
  assert.match(text, new RegExp(`^sandbox +${id}\ntemplate +.*base.*\nstate +running\n`))
  assert.match(text, /\nmetadata +owner=me\n/)
  const info = JSON.parse(good('info', ['--json', id]))
  assert.deepEqual([info.sandboxID, info.metadata], [id, { owner: 'me' }])
  const made = JSON.parse(good('create', ['base', '--json']))
  assert.equal(made.state, 'running')
  good('kill', [made.sandboxID])
})

test('create says what the server says of an unknown template', () => {
  const r = cli('create', ['nope'])
  assert.equal(r.status, 1)
  assert.match(r.stderr, /^sandglass create: .*nope.*\n$/)
  assert.equal(cli('info', ['x']).stderr, "sandglass info: 'x' is not a sandbox id\n")
})

// ---- cp ----

test('cp takes a file in and out, with its mode', () => {
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7) % 256))
  fs.writeFileSync(path.join(dir, 'a.bin'), bytes)
  fs.writeFileSync(path.join(dir, 'run.sh'), '#!/bin/sh\necho ran\n', { mode: 0o755 })
  good('cp', ['a.bin', 'run.sh', `${id}:/tmp/`])
  assert.equal(inside('wc -c </tmp/a.bin; /tmp/run.sh'), '300000\nran\n')
  good('cp', ['a.bin', `${id}:sub/other.bin`]) // relative: below the home
  assert.equal(inside('stat -c "%U %s" /home/user/sub/other.bin'), 'user 300000\n')
  good('cp', [`${id}:/tmp/a.bin`, 'back.bin'])
  assert.ok(fs.readFileSync(path.join(dir, 'back.bin')).equals(bytes))
  good('cp', [`${id}:/tmp/run.sh`, '.'])
  assert.equal(fs.statSync(path.join(dir, 'run.sh')).mode & 0o777, 0o755)
})

test('cp takes directories, with links', () => {
  const tree = path.join(dir, 'tree')
  fs.mkdirSync(path.join(tree, 'deep', 'empty'), { recursive: true })
  fs.writeFileSync(path.join(tree, 'deep', 'file'), 'content')
  fs.symlinkSync('deep/file', path.join(tree, 'link'))
  good('cp', ['tree', `${id}:/tmp/new`]) // not there yet: it becomes the copy
  assert.equal(inside('cd /tmp/new && cat link && readlink link && ls -d deep/empty'), 'contentdeep/file\ndeep/empty\n')
  good('cp', ['tree/', `${id}:/tmp/new`]) // there: the copy is inside
  assert.equal(inside('cat /tmp/new/tree/deep/file'), 'content')
  good('cp', [`${id}:/tmp/new`, 'out'])
  assert.equal(fs.readlinkSync(path.join(dir, 'out', 'link')), 'deep/file')
  assert.equal(fs.readFileSync(path.join(dir, 'out', 'tree', 'deep', 'file'), 'utf8'), 'content')
})

test('cp says what is missing, and copies the rest', () => {
  fs.writeFileSync(path.join(dir, 'there'), 'x')
  const up = cli('cp', ['missing', 'there', `${id}:/tmp/`])
  assert.deepEqual([up.status, up.stderr], [1, "sandglass cp: 'missing': No such file or directory\n"])
  assert.equal(inside('cat /tmp/there'), 'x')
  const down = cli('cp', [`${id}:/nope`, 'x'])
  assert.deepEqual([down.status, down.stderr], [1, "sandglass cp: there is no '/nope' in the sandbox\n"])
  const denied = cli('cp', ['there', `${id}:/etc/denied`, '-u', 'nobody-at-all'])
  assert.equal(denied.status, 1)
  for (const args of [['a', 'b'], [`${id}:/a`, `${id}:/b`], ['a']]) assert.equal(cli('cp', args).status, 2, args.join(' '))
})

// ---- logs ----

test('logs prints the output of running commands, and of one that ended', async () => {
  const sandbox = await Sandbox.connect(id, { apiKey: server.key, apiUrl: server.apiUrl, sandboxUrl: server.env.E2B_SANDBOX_URL, domain: server.domain })
  const command = await sandbox.commands.run('echo first; read x; echo "got $x"; exit 3', { background: true, stdin: true, timeoutMs: 0 })
  await until('the first line is written', () => cli('logs', [id, String(command.pid)]).stdout === 'first\n')
  const all = good('logs', [id])
  assert.match(all, new RegExp(`^==> ${command.pid}: /bin/bash .*<==\nfirst\n$`))
  assert.equal(JSON.parse(good('logs', ['--json', id]))[0].pid, command.pid)
  const follower = spawn(binary, ['logs', '--data', server.data, '--follow', id], { stdio: ['ignore', 'pipe', 'pipe'] })
  let text = ''
  follower.stdout.on('data', (data) => (text += data))
  const ended = once(follower, 'close')
  await until('it follows', () => text.endsWith('first\n'))
  await sandbox.commands.sendStdin(command.pid, 'more\n')
  assert.deepEqual([(await ended)[0], text.split('\n').slice(1)], [3, ['first', 'got more', '']])
  const late = cli('logs', [id, String(command.pid)])
  assert.equal(late.stdout, 'first\ngot more\n')
  assert.equal(good('logs', [id]), '')
  const none = cli('logs', [id, '999999'])
  assert.equal(none.status, 1)
  assert.match(none.stderr, /999999/)
})

// ---- shell ----

/** A shell at a terminal of its own: what it shows, and a way to type. */
function terminal(command) {
  const child = spawn('script', ['-qfec', command, '/dev/null'], { env: { ...process.env, TERM: 'xterm' }, stdio: ['pipe', 'pipe', 'pipe'] })
  const t = { shown: '', type: (text) => child.stdin.write(text), ended: once(child, 'close') }
  child.stdout.on('data', (data) => (t.shown += data))
  child.stderr.on('data', (data) => (t.shown += data))
  return t
}

test('shell is a terminal, and exits with the shell\'s code', async () => {
  const t = terminal(`stty cols 91 rows 33; ${binary} shell --data ${server.data} -e X=y -w /tmp ${id}`)
  await until('a prompt', () => /\$ $/.test(t.shown))
  t.type('tty; stty size; echo "$X-$PWD-$TERM"\r')
  await until(() => `its answers in ${JSON.stringify(t.shown)}`, () => /\/dev\/pts\/\d+\r\n33 91\r\ny-\/tmp-xterm\r\n/.test(t.shown))
  t.type('sleep 100\r')
  await until('it sleeps', () => /sleep 100\r\n/.test(t.shown))
  t.type('\x03')
  await until('interrupted', () => /\^C/.test(t.shown))
  t.type('exit 7\r')
  assert.equal((await t.ended)[0], 7)
})

test('shell runs another command, and needs a terminal', async () => {
  const t = terminal(`${binary} shell --data ${server.data} ${id} sh -c 'test -t 0 && exit 5'`)
  assert.equal((await t.ended)[0], 5, t.shown)
  const r = cli('shell', [id])
  assert.deepEqual([r.status, r.stderr], [1, `sandglass shell: input is no terminal: use \`sandglass exec ${id} COMMAND\`\n`])
})

test('a change of size reaches the shell', async () => {
  const t = terminal(`stty cols 80 rows 24; (sleep 1; stty cols 100 rows 40 </dev/tty) & ${binary} shell --data ${server.data} ${id} sh -c 'trap "stty size; exit 0" WINCH; echo up; while :; do sleep 0.1; done'`)
  await until(() => `its new size in ${JSON.stringify(t.shown)}`, () => /up\r\n[^]*40 100\r\n/.test(t.shown))
  assert.equal((await t.ended)[0], 0)
})
