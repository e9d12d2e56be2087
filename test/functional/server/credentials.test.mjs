// Credentials of agents in the server: set, listed, replaced, removed, of whom; and that nobody else sees what they are.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import crypto from 'node:crypto'
import fs from 'node:fs'
import { after, before, test } from 'node:test'

import { binary, sandglass, Server } from '../lib/server.mjs'
import { agentUid, credentials, fetchCredentials, filesWith, seenOfProcesses, together } from '../lib/credentials.mjs'
import { api } from '../lib/raw.mjs'

const secret = (what) => `${what}-${crypto.randomBytes(16).toString('hex')}`
const claude = JSON.stringify({ claudeAiOauth: { accessToken: secret('sk-ant-oat01'), refreshToken: secret('sk-ant-ort01'), expiresAt: 4102444800000, scopes: ['user:inference'], subscriptionType: 'max' } })
const values = {} // all that was ever set: nobody may find any of them
const told = (name, value) => (values[value] = name, value)

let server, log
const debug = { args: ['--log-level', 'debug'], settings: { access_log: true } }
const follow = () => {
  log = server.log
  for (const out of [server.child.stdout, server.child.stderr]) out.on('data', (text) => (log += text))
}
before(async () => {
  server = await Server.start(debug)
  follow()
})
after(() => server.cleanUp())

const list = (key) => JSON.parse(credentials(server, ['list', '--json'], { key }).stdout)
const names = (key) => list(key).map((c) => `${c.scope} ${c.name}${c.readable ? '' : ' unreadable'}`)
const keyFor = (name, ...more) => sandglass(['key', 'create', '--data', server.data, ...more, name]).stdout.trim()
const allValues = () => [...Object.keys(values), ...Object.values(JSON.parse(claude).claudeAiOauth).filter((v) => typeof v === 'string' && v.length > 20)]

test('a credential is set from a file or standard input, and listed without being shown', () => {
  const file = `${server.data}/../${process.pid}-claude.json`
  fs.writeFileSync(file, told('claude', claude), { mode: 0o600 })
  try {
    const r = credentials(server, ['set', 'claude', '--file', file])
    assert.deepEqual([r.status, r.stdout], [0, ''])
    assert.match(r.stderr, /everybody with a key of the team/)
  } finally {
    fs.rmSync(file)
  }
  assert.equal(credentials(server, ['set', 'openai'], { input: told('openai', secret('sk')) + '\n' }).status, 0)
  const shown = credentials(server, ['list'])
  assert.match(shown.stdout, /^NAME +FOR +FIRST SET +SET +STATE\nclaude +team .* ok\nopenai +team .* ok\n$/)
  const listed = list()
  assert.deepEqual(listed.map((c) => Object.keys(c).sort().join()), Array(2).fill('createdAt,name,readable,scope,updatedAt'))
  for (const value of allValues()) assert.ok(!JSON.stringify(listed).includes(value))
  const { env, files } = together(fetchCredentials(server))
  assert.deepEqual(files, { '.claude/.credentials.json': claude })
  assert.deepEqual(env, { OPENAI_API_KEY: Object.keys(values).find((v) => values[v] === 'openai') })
})

test('one is replaced and removed; what is not there cannot be removed', () => {
  assert.equal(credentials(server, ['set', 'gemini'], { input: told('gemini', secret('first')) }).status, 0)
  const before = list().find((c) => c.name === 'gemini')
  const second = told('gemini', secret('second'))
  assert.equal(credentials(server, ['set', 'gemini'], { input: second }).status, 0)
  const now = list().find((c) => c.name === 'gemini')
  assert.equal(now.createdAt, before.createdAt)
  assert.ok(now.updatedAt > before.updatedAt)
  assert.equal(together(fetchCredentials(server)).env.GEMINI_API_KEY, second)
  assert.equal(credentials(server, ['rm', 'gemini']).status, 0)
  const again = credentials(server, ['rm', 'gemini'])
  assert.deepEqual([again.status, again.stderr], [1, "sandglass credentials: there is no credential 'gemini' of the team\n"])
  assert.ok(!('GEMINI_API_KEY' in together(fetchCredentials(server)).env))
})

test("a user's own is there instead of the team's, for that user only, and goes with the key", () => {
  const [ci, other] = [keyFor('ci'), keyFor('other')]
  const own = told('openai', secret('own'))
  assert.equal(credentials(server, ['set', 'openai', '--user'], { input: own, key: ci }).status, 0)
  assert.deepEqual(names(ci), ['team claude', 'team openai', 'user openai'])
  assert.deepEqual(names(other), ['team claude', 'team openai'])
  assert.equal(together(fetchCredentials(server, { key: ci })).env.OPENAI_API_KEY, own)
  assert.notEqual(together(fetchCredentials(server, { key: other })).env.OPENAI_API_KEY, own)
  assert.equal(credentials(server, ['rm', 'openai', '--user'], { key: other }).status, 1)
  assert.equal(sandglass(['key', 'revoke', '--data', server.data, 'ci']).status, 0)
  assert.equal(fetchCredentials(server, { key: ci }).status, 401)
})

test('members of the group keep their own', async () => {
  const [alice, group] = [1879050011, 1879050001]
  const with_group = await Server.start({ settings: { group: `${group}` } })
  try {
    const as = (args, input = '') => spawnSync('setpriv', ['--reuid', alice, '--regid', alice, '--groups', group, '--', binary, 'credentials', ...args, '--data', with_group.data].map(String), { encoding: 'utf8', input, timeout: 60_000, env: { PATH: '/usr/bin:/bin' } })
    const own = secret('alice')
    assert.equal(as(['set', 'openai', '--user'], own).status, 0)
    assert.deepEqual(JSON.parse(as(['list', '--json']).stdout).map((c) => `${c.scope} ${c.name}`), ['user openai'])
    assert.deepEqual(JSON.parse(credentials(with_group, ['list', '--json']).stdout), [])
    assert.deepEqual(filesWith(with_group, [own]), [])
    for (const secrets of ['secret-key', 'store/sandglass.db', 'run/credentials.sock'])
      assert.notEqual(spawnSync('setpriv', ['--reuid', alice, '--regid', alice, '--groups', group, '--', 'cat', with_group.file(secrets)].map(String)).status, 0, secrets)
  } finally {
    await with_group.cleanUp()
  }
})

test('only the role agent is told what they are', () => {
  const { mode, uid, gid } = fs.statSync(server.file('run/credentials.sock'))
  assert.deepEqual([mode & 0o777, uid, gid], [0o660, 1879048193, agentUid])
  for (const other of [1000, 1879048193, 1879048194, 1879048195, 1879048196, 0]) {
    const r = fetchCredentials(server, { uid: other })
    assert.ok(!r.status, `user ${other}: ${r.status}`)
    assert.match(r.error, /PermissionError|ConnectionReset|RemoteDisconnected|BrokenPipe/)
  }
  for (const key of ['', 'x', 'e2b_0000000000000000000000000000000000000000']) assert.equal(fetchCredentials(server, { key }).status, 401)
})

test('bad values are refused in words that do not repeat them', async () => {
  const wrong = told('wrong', secret('wrong'))
  for (const [name, input] of [['claude', `{"${wrong}":1}`], ['codex', `{"${wrong}"`], ['git', wrong], ['openai', `${wrong} two`], ['mine', wrong], ['a/b', wrong]]) {
    const r = credentials(server, ['set', name], { input })
    assert.equal(r.status, 1, name)
    assert.ok(r.stderr.length > 30 && !r.stderr.includes(wrong), r.stderr)
  }
  for (const body of [`{"value":"${wrong}`, wrong, `{"value":"${wrong} x"}`, `{"value":["${wrong}"]}`]) {
    const r = await api(server, 'PUT', '/sandglass/credentials/openai', { body })
    assert.equal(r.status, 400, body)
    assert.ok(!r.body.includes(wrong), r.body)
  }
  const large = credentials(server, ['set', 'npm'], { input: 'a='.padEnd(65537, wrong) })
  assert.match(large.stderr, /more than 65536 bytes/)
  assert.match(credentials(server, ['set', 'npm'], { input: Buffer.from([97, 61, 0xff]) }).stderr, /must be text/)
  assert.equal((await api(server, 'PUT', '/sandglass/credentials/npm', { body: { value: 'a='.padEnd(600_000, 'x') } })).status, 413)
  assert.equal(credentials(server, ['set']).status, 2)
  assert.equal(credentials(server, ['set', 'openai', wrong]).status, 2, 'a value is never an argument')
  assert.equal(credentials(server, ['set', 'openai', '--team', '--user'], { input: 'x' }).status, 2)
})

/** `credentials set openrouter` at a terminal, at which these bytes are typed: {code, shown}. */
function typedAtTerminal(bytes) {
  const script = `
import os, pty, sys, threading
pid, fd = pty.fork()
if pid == 0: os.execv(sys.argv[1], sys.argv[1:])
seen = b""
while b"not shown" not in seen: seen += os.read(fd, 1024)
def type(left):
    while left: left = left[os.write(fd, left[:512]):]
threading.Thread(target=type, args=(sys.stdin.buffer.read(),), daemon=True).start()
try:
    while piece := os.read(fd, 1024): seen += piece
except OSError: pass
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])); print(seen.decode())`
  const r = spawnSync('python3', ['-c', script, binary, 'credentials', 'set', 'openrouter', '--data', server.data], { encoding: 'utf8', input: bytes, timeout: 60_000 })
  const [code, ...shown] = r.stdout.split('\n')
  return { code: Number(code), shown: shown.join('\n') + r.stderr }
}

test('a terminal is asked without echo', () => {
  const typed = told('openrouter', secret('typed'))
  const long = told('openrouter', secret('typed') + 'x'.repeat(8000)) // a line of the kernel has 4095 bytes
  const stored = () => together(fetchCredentials(server)).env.OPENROUTER_API_KEY
  const cases = [
    [`${typed}\n`, typed],
    [`${long}\n`, long],
    [`wrong\u0015${typed}é\x7f two\x17\x7f\x04`, typed], // all, a character, a word and the blank before it are erased; Ctrl-D
  ]
  for (const [bytes, value] of cases) {
    const { code, shown } = typedAtTerminal(bytes)
    assert.equal(code, 0, shown)
    assert.ok(!shown.includes(value.slice(0, 38)))
    assert.equal(stored(), value)
  }
  const tooLong = typedAtTerminal(`${'x'.repeat(65_537)}\n`)
  assert.equal(tooLong.code, 1)
  assert.match(tooLong.shown, /more than 65536 bytes/)
  assert.equal(typedAtTerminal('never\x03').code, -2, 'Ctrl-C')
  assert.equal(stored(), typed)
})

test('a restart and kill -9 of control lose nothing', async () => {
  const before = together(fetchCredentials(server))
  await server.killRoles('control')
  assert.deepEqual(together(fetchCredentials(server)), before)
  const atOnce = told('huggingface', secret('hf'))
  assert.equal(credentials(server, ['set', 'huggingface'], { input: atOnce }).status, 0)
  await server.killRoles('control', 'engine')
  before.env.HF_TOKEN = atOnce
  assert.deepEqual(together(fetchCredentials(server)), before)
  const key = fs.readFileSync(server.file('secret-key'))
  await server.stop()
  server = await server.again(debug)
  follow()
  assert.deepEqual(together(fetchCredentials(server)), before)
  assert.deepEqual(fs.readFileSync(server.file('secret-key')), key)
})

test('two teams have nothing of each other', async () => {
  await server.stop()
  const sql = "INSERT INTO team (id, slug, name, created_ns) VALUES ('6f1c0000-0000-4000-8000-000000000002', 'other', 'Other', 1)"
  const r = spawnSync('python3', ['-c', 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit(); c.close()', server.file('store/sandglass.db'), sql], { encoding: 'utf8' })
  assert.equal(r.status, 0, r.stderr)
  server = await server.again(debug)
  follow()
  const theirs = keyFor('theirs', '--team', 'other'), ours = fetchCredentials(server)
  assert.deepEqual(list(theirs), [])
  assert.deepEqual(fetchCredentials(server, { key: theirs }).json, { credentials: [] })
  const value = told('openai', secret('theirs'))
  assert.equal(credentials(server, ['set', 'openai'], { input: value, key: theirs }).status, 0)
  assert.deepEqual(together(fetchCredentials(server, { key: theirs })).env, { OPENAI_API_KEY: value })
  assert.equal(credentials(server, ['rm', 'claude'], { key: theirs }).status, 1)
  assert.deepEqual(fetchCredentials(server), ours)
})

test('no file, log, command line or environment has any of them', async () => {
  assert.deepEqual(filesWith(server, allValues()), [])
  for (const value of allValues()) assert.ok(!log.includes(value), `the log has a value of ${values[value]}`)
  const seen = seenOfProcesses([server.supervisor, ...server.rolePids()])
  for (const value of allValues()) assert.ok(!seen.includes(value))
  const key = fs.readFileSync(server.file('secret-key'), 'utf8').trim()
  assert.match(key, /^[0-9a-f]{64}$/)
  assert.deepEqual(filesWith(server, [key]), ['secret-key'])
  assert.deepEqual((({ mode, uid }) => [mode & 0o777, uid])(fs.statSync(server.file('secret-key'))), [0o600, 0])
  assert.ok(!log.includes(key) && !seen.includes(key))
  // The kernel writes no core of them: what belongs to the process belongs to root, not to its user.
  for (const pid of [...server.roles().control, ...server.roles().edge]) assert.equal(fs.statSync(`/proc/${pid}/environ`).uid, 0)
})

test('a search does find a value where there is one', () => {
  const [value] = Object.keys(values)
  fs.writeFileSync(server.file('here'), `x${value}y`)
  assert.deepEqual(filesWith(server, [value]), ['here'])
  fs.rmSync(server.file('here'))
})

test('with another key nothing is given and nothing lost; with the old one all is back', async () => {
  const old = fs.readFileSync(server.file('secret-key')), before = together(fetchCredentials(server))
  await server.stop()
  fs.renameSync(server.file('secret-key'), server.file('secret-key.away'))
  server = await server.again(debug)
  follow()
  assert.notDeepEqual(fs.readFileSync(server.file('secret-key')), old)
  assert.match(log, /error control credentials\.key count=\d+, encrypted with a key that is not in secret-key: put the file secret-key back/)
  assert.ok(names().every((n) => n.endsWith(' unreadable')) && names().length > 0)
  assert.match(credentials(server, ['list']).stdout, /encrypted with a key that is gone/)
  const r = fetchCredentials(server)
  assert.equal(r.status, 503)
  assert.match(r.json.message, /put the file secret-key back/)
  await server.stop()
  fs.renameSync(server.file('secret-key.away'), server.file('secret-key'))
  server = await server.again(debug)
  follow()
  assert.deepEqual(together(fetchCredentials(server)), before)
})

test('a new first line of secret-key encrypts all anew; then the old line can go', async () => {
  const before = together(fetchCredentials(server)), fresh = crypto.randomBytes(32).toString('hex')
  const start = async () => {
    server = await server.again(debug)
    follow()
  }
  await server.stop()
  fs.writeFileSync(server.file('secret-key'), `${fresh}\n${fs.readFileSync(server.file('secret-key'))}`)
  await start()
  assert.match(log, /credentials\.rekey count=\d+, the older keys can go/)
  await server.stop()
  fs.writeFileSync(server.file('secret-key'), `${fresh}\n`)
  await start()
  assert.deepEqual(together(fetchCredentials(server)), before)
})

test('a damaged or foreign secret-key keeps the server from starting, and says what to do', async () => {
  await server.stop()
  const good = fs.readFileSync(server.file('secret-key'))
  for (const [content, expected] of [['abc\n', /secret-key in the data directory is damaged .*put it back from a copy; or move it away/], ['', /damaged/]]) {
    fs.writeFileSync(server.file('secret-key'), content)
    await assert.rejects(server.again(debug), expected)
  }
  fs.rmSync(server.file('secret-key'))
  fs.symlinkSync('/etc/hostname', server.file('secret-key'))
  await assert.rejects(server.again(debug), /open '.*secret-key'/)
  fs.rmSync(server.file('secret-key'))
  fs.writeFileSync(server.file('secret-key'), good, { mode: 0o644 })
  server = await server.again(debug)
  follow()
  assert.match(log, /secret_key\.mode mode=0644/)
  assert.equal(fs.statSync(server.file('secret-key')).mode & 0o777, 0o600)
})

