// Users of the machine who are not root: members of the server's group, others with a key, and others without one.  They are
// numbers only; the system's own users and groups are as before.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import { after, before, test } from 'node:test'

import { binary, parseExports, sandglass, Server, temporaryDir } from '../lib/server.mjs'
import { api } from '../lib/raw.mjs'

const group = 1879050001
const [alice, bob, eve] = [1879050011, 1879050012, 1879050013]

let server, home
before(async () => {
  server = await Server.start({ settings: { group: `${group}` } })
  home = temporaryDir('home')
  fs.chownSync(home, alice, alice)
})
after(async () => {
  fs.rmSync(home, { recursive: true })
  await server.cleanUp()
})

/** The command line as this user, with the group as one of several, or without it. */
function as(uid, args, { groups = `${group}`, env = {}, data = server.data, program = [binary] } = {}) {
  const who = ['--reuid', uid, '--regid', uid, ...(groups ? ['--groups', groups] : ['--clear-groups'])].map(String)
  const argv = args.includes('--data') || program[0] !== binary ? args : [args[0], ...args.slice(1, args[0] === 'key' ? 2 : 1), '--data', data, ...args.slice(args[0] === 'key' ? 2 : 1)]
  const r = spawnSync('setpriv', [...who, '--', ...program, ...argv], { encoding: 'utf8', input: '', timeout: 60_000, env: { PATH: '/usr/bin:/bin', HOME: home, ...env } }) // the test's own PATH may lead through root's home
  return { status: r.status, stdout: r.stdout, stderr: r.stderr }
}

const root = (...args) => sandglass([...args.slice(0, 2), '--data', server.data, ...args.slice(2)])
const keys = () => JSON.parse(root('key', 'list', '--json').stdout)
const keyOf = (uid) => parseExports(as(uid, ['env']).stdout).E2B_API_KEY

test('a member of the group runs commands in sandboxes, with a key that is the same each time and only theirs', async () => {
  const r = as(alice, ['run', '--', 'echo', 'hello'])
  assert.deepEqual([r.status, r.stdout, r.stderr], [0, 'hello\n', ''])
  const exports = parseExports(as(alice, ['env']).stdout)
  const { E2B_API_KEY: own, ...rest } = exports
  const { E2B_API_KEY: operators, ...expected } = server.env
  assert.deepEqual(rest, expected)
  assert.equal(keyOf(alice), own)
  const others = keyOf(bob)
  assert.equal(new Set([own, others, operators]).size, 3)
  for (const key of [own, others]) assert.equal((await api(server, 'GET', '/sandboxes', { key })).status, 200)
  assert.deepEqual(keys().filter((k) => k.kind === 'user').map((k) => k.uid).sort(), [alice, bob].sort())
})

test('the primary group counts as well', () => {
  const r = spawnSync(binary, ['ps', '--data', server.data], { uid: alice, gid: group, encoding: 'utf8', env: {} })
  assert.equal(r.status, 0, r.stderr)
})

test('a saved file belongs to its user and is what a shell needs', () => {
  const saved = as(alice, ['env', '--save'])
  assert.deepEqual([saved.status, saved.stderr], [0, ''])
  const file = saved.stdout.trim()
  assert.equal(file, `${home}/.config/sandglass/env`)
  const { uid, mode } = fs.statSync(file)
  assert.deepEqual([uid, mode & 0o777], [alice, 0o600])
  assert.equal(as(bob, [file], { program: ['cat'] }).status, 1, 'not even another member can read it')
  const shell = as(alice, ['-c', `. ${file} && exec ${binary} ps`], { groups: '', program: ['sh'] })
  assert.match(shell.stdout, /^SANDBOX /, shell.stderr)
})

test('a member can read nothing of the server and cannot manage keys', async () => {
  const groups = `${group},${fs.statSync(server.file('store')).gid}` // the group may be that of the role control, too
  for (const secret of ['env', 'store/sandglass.db', 'ca/ca.key', 'ca/key.pem', 'lock'])
    assert.equal(as(alice, [server.file(secret)], { groups, program: ['cat'] }).status, 1, secret)
  for (const socket of ['api', 'routes', 'engine', 'dial'])
    assert.match(as(alice, ['-c', 'import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])', server.file(`run/${socket}.sock`)], { groups, program: ['python3'] }).stderr, /PermissionError/, socket)
  const listed = as(alice, ['key', 'list'])
  assert.equal(listed.status, 1)
  assert.match(listed.stderr, /only the operator's key can do this/)
  assert.match(as(alice, ['lost']).stderr, /only the operator's key can do this/) // it may be any team's
  assert.equal((await api(server, 'POST', '/api-keys', { key: keyOf(alice), body: { name: 'x' } })).status, 403)
})

test('who is in neither is told what to do, and gets no key', () => {
  const r = as(eve, ['ps'], { groups: '' })
  assert.deepEqual([r.status, r.stdout], [1, ''])
  assert.equal(r.stderr, `sandglass ps: you are neither root nor in the server's group ${group}. Ask its operator: \`adduser ${eve} ${group}\` (then log in again), or a key of \`sandglass key create\`\n`)
  assert.ok(!keys().some((k) => k.uid === eve))
})

test('what a member sends is not read: the answer comes at once, and is the only one', () => {
  const script = `
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
try: s.sendall(b"x" * 100000)
except OSError: pass
text = b""
try:
    while piece := s.recv(65536): text += piece
except ConnectionResetError: pass
print(text.count(b"E2B_API_KEY"))`
  const r = as(alice, ['-c', script, server.file('run/users.sock')], { program: ['python3'] })
  assert.deepEqual([r.status, r.stdout, r.stderr], [0, '1\n', ''])
  assert.equal(as(alice, ['ps']).status, 0)
})

test('the operator makes a key: shown once, listed by its mask, revoked at once on an open connection', async () => {
  const made = root('key', 'create', 'for eve')
  assert.match(made.stdout, /^e2b_[0-9a-f]{40}\n$/)
  assert.match(made.stderr, /not shown again/)
  const key = made.stdout.trim()
  assert.match(root('key', 'list').stdout, new RegExp(`^[0-9a-f-]{36} e2b_${key.slice(4, 6)}\\.\\.\\.${key.slice(-4)} +given +\\S+ +- +for eve$`, 'm'))

  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const ask = () => new Promise((done, fail) => {
    const rq = http.get(`${server.apiUrl}/v2/sandboxes`, { agent, headers: { 'X-API-Key': key } }, (answer) => {
      answer.resume().on('end', () => done([answer.statusCode, rq.reusedSocket]))
    })
    rq.on('error', fail)
  })
  assert.deepEqual(await ask(), [200, false])
  assert.ok(keys().find((k) => k.name === 'for eve').lastUsed)
  const eves = as(eve, ['-c', `exec ${binary} ps`], { groups: '', program: ['sh'], env: { E2B_API_URL: server.apiUrl, E2B_API_KEY: key } })
  assert.equal(eves.status, 0, eves.stderr)
  assert.deepEqual(root('key', 'revoke', 'for eve'), { status: 0, signal: null, stdout: '', stderr: '' })
  assert.deepEqual(await ask(), [401, true])
  agent.destroy()

  const again = root('key', 'revoke', 'for eve')
  assert.equal(again.status, 1)
  assert.match(again.stderr, /no key is called 'for eve'/)
  assert.equal(sandglass(['key']).status, 2)
  assert.match(root('key', 'create', '--team', 'nobody', 'x').stderr, /there is no team 'nobody'/)
})

test("revoking a user's key gives them another; revoking the operator's own is refused", async () => {
  const old = keyOf(bob)
  const revoked = root('key', 'revoke', keys().find((k) => k.uid === bob).id)
  assert.match(revoked.stderr, /gets another key with the next command/)
  assert.equal((await api(server, 'GET', '/sandboxes', { key: old })).status, 401)
  assert.notEqual(keyOf(bob), old)
  assert.equal(as(bob, ['ps']).status, 0)
  const own = root('key', 'revoke', 'first')
  assert.equal(own.status, 1)
  assert.match(own.stderr, /the key that the request itself uses/)
})

test('a restart of control changes no key', async () => {
  const before = keyOf(alice)
  await server.killRoles('control')
  assert.equal(keyOf(alice), before)
})

test('without a group only root is served, and a group that does not exist is refused', async () => {
  const plain = await Server.start({ settings: { group: 'root' } })
  try {
    const r = as(alice, ['ps'], { data: plain.data })
    assert.equal(r.status, 1)
    assert.match(r.stderr, /only root can use this server: it has no group for other users\. Use sudo, or ask for a key/)
  } finally {
    await plain.cleanUp()
  }
  const data = temporaryDir()
  await assert.rejects(Server.start({ data, settings: { group: 'no-such-group' } }), /group: this system has no group 'no-such-group'/)
  fs.rmSync(data, { recursive: true })
})

test('plain HTTP for other machines is refused, unless insisted on', () => {
  const r = sandglass(['serve', '--data', server.data, '--listen', '0.0.0.0:0'])
  assert.equal(r.status, 2)
  assert.match(r.stderr, /listen: '0\.0\.0\.0:0' is plain HTTP for other machines.*--insecure-listen/)
})
