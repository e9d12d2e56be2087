// Credentials in sandboxes that the agent API makes: as their user's files and variables, in these sandboxes and nowhere else.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import crypto from 'node:crypto'
import fs from 'node:fs'
import { after, afterEach, before, test } from 'node:test'

import { credentials, filesWith, memoryHas } from '../lib/credentials.mjs'
import { Disk } from '../lib/disk.mjs'
import { api } from '../lib/raw.mjs'
import { sandglass, Server } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const { Sandbox, Template } = await import('e2b')

const secret = (what) => `${what}-${crypto.randomBytes(16).toString('hex')}`
const values = { access: secret('sk-ant-oat01'), openai: secret('sk'), git: secret('ghp'), own: secret('sk-own'), custom: secret('custom') }
const all = Object.values(values)
const claude = JSON.stringify({ claudeAiOauth: { accessToken: values.access, scopes: ['user:inference'] } })

let server, log
const debug = { args: ['--log-level', 'debug'], settings: { access_log: true, warm_mb: 0 } }
before(async () => {
  server = await Server.start(debug)
  log = server.log
  for (const out of [server.child.stdout, server.child.stderr]) out.on('data', (text) => (log += text))
  Object.assign(process.env, clientEnvironment(server, 'http'))
  const set = (name, input) => assert.equal(credentials(server, ['set', name], { input }).status, 0)
  set('claude', claude)
  set('openai', values.openai)
  set('git', `https://me:${values.git}@git.example\n`)
  set('mine', JSON.stringify({ env: { MINE: `it's "${values.custom}" $HOME` }, files: { '.mine/key': values.custom } }))
})
after(() => server.cleanUp())
afterEach(async () => {
  for (const s of (await agent('GET', '/sandboxes')).json.sandboxes) await end(s.sandbox_id) // of a case that failed
})

const agent = (method, path, { body, key = server.key, from = server } = {}) =>
  api(from, method, `/api/v1/agent${path}`, { body, key: null, headers: { Authorization: `Bearer ${key}` } })
async function create(body = { template_id: 'base' }, options = {}) {
  const made = await agent('POST', '/sandboxes', { body, ...options })
  assert.equal(made.status, 201, made.body)
  return made.json.sandbox_id
}
async function run(id, command, { env, ...options } = {}) {
  const r = await agent('POST', `/sandboxes/${id}/commands`, { body: { command, env }, ...options })
  assert.deepEqual([r.status, r.json.exit_code, r.json.stderr], [200, 0, ''], r.body)
  return r.json.stdout.trimEnd()
}
const end = async (id, options) => assert.ok([200, 204].includes((await agent('DELETE', `/sandboxes/${id}`, options)).status))
/** Once nothing is on its way to the trash, where a search could miss it. */
async function nowhere(what) {
  const below = (dir) => fs.readdirSync(server.file(dir))
  await until(() => `no sandbox on disk ${what}: ${below('sandboxes')} ${below('trash')}`, () => below('sandboxes').length === 0 && below('trash').length === 0)
  await until(() => `no file with a credential ${what}: ${filesWith(server, all)}`, () => filesWith(server, all).length === 0) // checkpoints go a little later
}

test('a sandbox has them when create returns: files 0600 of its user, variables in its login shells', async () => {
  const id = await create()
  const files = '.claude/.credentials.json .git-credentials .config/git/config .mine/key'
  assert.equal(await run(id, `cd && stat -c '%U %G %a %n' ${files}`), files.split(' ').map((f) => `user user 600 ${f}`).join('\n'))
  assert.equal(await run(id, 'cat ~/.claude/.credentials.json'), claude)
  assert.equal(await run(id, 'printenv OPENAI_API_KEY MINE'), `${values.openai}\nit's "${values.custom}" $HOME`)
  assert.match(await run(id, 'printf "protocol=https\\nhost=git.example\\n\\n" | git credential fill'), new RegExp(`password=${values.git}$`, 'm'))
  const sandbox = await Sandbox.connect(id)
  assert.equal((await sandbox.commands.run('echo $OPENAI_API_KEY')).stdout, `${values.openai}\n`)
  assert.equal((await sandbox.commands.run('su nobody -s /bin/sh -c "cat /etc/profile.d/sandglass-credentials.sh" 2>&1; true', { user: 'root' })).stdout.includes(values.openai), false)
  await end(id)
})

test('all that can be set reaches a sandbox: many variables, large ones, and quotes', async () => {
  const text = (i) => (i % 2 ? "'" : 'é"$(x) ').repeat(60_000).slice(0, i % 2 ? 60_000 : 40_000)
  const named = (i) => `large${i}?scope=${i < 5 ? 'team' : 'user'}`
  for (let i = 0; i < 10; i++) {
    const files = Object.fromEntries(Array.from({ length: 16 }, (_, j) => [`.large/${'d/'.repeat(14)}${i}-${j}`, 'x']))
    const r = await agent('PUT', `/credentials/${named(i)}`, { body: { value: { env: { [`LARGE_${i}`]: text(i) }, files } } })
    assert.equal(r.status, 204, r.body)
  }
  const id = await create()
  const sums = await run(id, 'for i in 0 1 2 3 4 5 6 7 8 9; do eval "printf %s \\"\\$LARGE_$i\\"" | sha256sum; done')
  assert.equal(sums, Array.from({ length: 10 }, (_, i) => `${crypto.createHash('sha256').update(text(i)).digest('hex')}  -`).join('\n'))
  assert.equal(await run(id, 'find ~/.large -type f | wc -l; env | wc -c').then((said) => said.split('\n').map(Number)).then(([files, bytes]) => files === 160 && bytes > 450_000), true)
  await end(id)
  for (let i = 0; i < 10; i++) assert.equal((await agent('DELETE', `/credentials/${named(i)}`)).status, 204)
})

test('the agent API sets, shows and removes them, for who has the token', async () => {
  const path = '/credentials/npm?scope=user', value = secret('npm')
  all.push(value)
  assert.equal((await agent('PUT', path, { body: { value } })).status, 204)
  const shown = await agent('GET', '/credentials/npm')
  assert.deepEqual([shown.status, Object.keys(shown.json).sort().join(), shown.json.scope], [200, 'created_at,name,readable,scope,updated_at', 'user'])
  assert.deepEqual((await agent('GET', '/credentials')).json.credentials.map((c) => `${c.scope} ${c.name}`), ['team claude', 'team git', 'team mine', 'team openai', 'user npm'])
  const id = await create()
  assert.equal(await run(id, 'echo $NPM_TOKEN'), value)
  await end(id)
  for (const body of [`{"value":"${value}`, `${value}`, JSON.stringify({ value: `${value} two words` })]) {
    const r = await agent('PUT', path, { body })
    assert.equal(r.status, 400)
    assert.ok(r.json.error.message && !r.body.includes(value), r.body)
  }
  assert.equal((await agent('PUT', path, { body: { value }, key: 'e2b_0000000000000000000000000000000000000000' })).status, 401)
  assert.equal((await agent('DELETE', path)).status, 204)
  assert.equal((await agent('DELETE', path)).status, 404)
  assert.equal((await agent('GET', '/credentials/npm')).status, 404)
})

test('a variable of the request, and one of the command, win', async () => {
  const id = await create({ template_id: 'base', env: { OPENAI_API_KEY: 'of the request' } })
  assert.equal(await run(id, 'echo $OPENAI_API_KEY'), 'of the request')
  assert.equal(await run(id, 'echo $OPENAI_API_KEY', { env: { OPENAI_API_KEY: 'of the command' } }), 'of the command')
  await end(id)
})

test("a user's own is there instead of the team's; another team's sandbox has none", async () => {
  const ci = sandglass(['key', 'create', '--data', server.data, 'ci']).stdout.trim()
  assert.equal(credentials(server, ['set', 'openai', '--user'], { key: ci, input: values.own }).status, 0)
  const mine = await create(undefined, { key: ci })
  assert.equal(await run(mine, 'echo $OPENAI_API_KEY', { key: ci }), values.own)
  assert.equal(await run(mine, 'cat ~/.claude/.credentials.json', { key: ci }), claude)
  await end(mine, { key: ci })
  await server.stop()
  const sql = "INSERT INTO team (id, slug, name, created_ns) VALUES ('6f1c0000-0000-4000-8000-000000000002', 'other', 'Other', 1)"
  assert.equal(spawnSync('python3', ['-c', 'import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit(); c.close()', server.file('store/sandglass.db'), sql]).status, 0)
  server = await server.again(debug)
  for (const out of [server.child.stdout, server.child.stderr]) out.on('data', (text) => (log += text))
  Object.assign(process.env, clientEnvironment(server, 'http'))
  const key = sandglass(['key', 'create', '--data', server.data, '--team', 'other', 'theirs']).stdout.trim()
  const theirs = await create(undefined, { key })
  assert.equal(await run(theirs, 'ls -A ~/.claude /etc/profile.d/sandglass-credentials.sh 2>/dev/null; echo $OPENAI_API_KEY', { key }), '')
  await end(theirs, { key })
})

test('while a sandbox lives only its own directory has them; paused, only what is kept of it; afterwards nothing', async () => {
  await nowhere('of the cases before')
  const id = await create()
  assert.deepEqual(filesWith(server, all, [`sandboxes/${id}`]), [])
  assert.ok(filesWith(server, all).length > 0, 'the search finds what is there')
  assert.equal((await agent('POST', `/sandboxes/${id}/pause`)).status, 200)
  for (const name of filesWith(server, all, [`sandboxes/${id}`])) assert.match(name, /^checkpoints\//)
  assert.equal((await agent('POST', `/sandboxes/${id}/resume`)).status, 200)
  assert.equal(await run(id, 'echo $OPENAI_API_KEY'), values.openai)
  assert.deepEqual(filesWith(server, all, [`sandboxes/${id}`, 'checkpoints', 'trash']), [])
  await end(id)
  await nowhere('after its end')
})

test('a sandbox of another client, its snapshot, and a template have none', async () => {
  const plain = await Sandbox.create('base')
  assert.equal((await plain.commands.run('ls -A ~/.claude /etc/profile.d/sandglass-credentials.sh 2>&1; echo "[$OPENAI_API_KEY]"')).stdout.includes('[]'), true)
  const snapshot = await plain.createSnapshot()
  await Template.build(Template().fromTemplate('base').runCmd('echo built > ~/built'), 'with-steps')
  assert.deepEqual(filesWith(server, all), [])
  const id = await create({ template_id: 'with-steps' })
  assert.equal(await run(id, 'cat ~/built ~/.claude/.credentials.json'), `built\n${claude}`)
  await end(id)
  await plain.kill()
  assert.equal((await api(server, 'DELETE', `/templates/${snapshot.snapshotId}`)).status, 204)
  await nowhere('with a template that is used')
})

test('where one cannot be written create fails, says why, and leaves nothing', async () => {
  const odd = await Sandbox.create('base')
  await odd.commands.run('mkdir -p ~/.claude/.credentials.json')
  const snapshot = await odd.createSnapshot()
  await odd.kill()
  const r = await agent('POST', '/sandboxes', { body: { template_id: snapshot.snapshotId } })
  assert.equal(r.status, 503, r.body)
  assert.match(r.json.error.message, /credentials could not be written/)
  for (const value of all) assert.ok(!r.body.includes(value))
  await until('no sandbox is left', async () => (await agent('GET', '/sandboxes')).json.sandboxes.length === 0)
  assert.equal((await api(server, 'DELETE', `/templates/${snapshot.snapshotId}`)).status, 204)
  await nowhere('after a create that failed')
})

test('with a credential that cannot be decrypted create fails before there is a sandbox', async () => {
  await server.stop()
  fs.renameSync(server.file('secret-key'), server.file('secret-key.away'))
  server = await server.again(debug)
  const r = await agent('POST', '/sandboxes', { body: { template_id: 'base' } })
  assert.equal(r.status, 503, r.body)
  assert.match(r.json.error.message, /secret-key/)
  assert.deepEqual((await agent('GET', '/sandboxes')).json.sandboxes, [])
  await server.stop()
  fs.renameSync(server.file('secret-key.away'), server.file('secret-key'))
  server = await server.again(debug)
  Object.assign(process.env, clientEnvironment(server, 'http'))
  await end(await create())
})

test('between requests the roles that see them have none in memory', async () => {
  const value = secret('npm'), long = secret('long').repeat(1000)
  all.push(value, long)
  assert.equal((await agent('PUT', '/credentials/npm', { body: { value } })).status, 204)
  assert.equal((await agent('PUT', '/credentials/long', { body: { value: { env: { LONG: long } } } })).status, 204)
  assert.equal((await api(server, 'PUT', '/sandglass/credentials/npm', { body: { value: `//registry.example/:_authToken=${value}\n` } })).status, 204)
  const id = await create()
  assert.equal(await run(id, 'echo ${#LONG}; tail -c 33 ~/.npmrc'), `${long.length}\n${value.slice(-32)}`)
  await end(id)
  const { control, agent: roles } = server.roles()
  const found = () => [...control, ...roles].flatMap((pid) => [...Object.values(values), value, long.slice(0, 60)].filter((v) => memoryHas(pid, v)))
  await until(() => `no value in memory: ${found().map((v) => v.slice(0, 6))}`, () => found().length === 0)
  assert.ok(memoryHas(process.pid, value), 'where there is one, it is found')
  for (const name of ['npm', 'long']) assert.equal((await agent('DELETE', `/credentials/${name}`)).status, 204)
})

test('no log has any of them, whatever happened', () => {
  for (const value of all) assert.ok(!log.includes(value) && !server.log.includes(value))
})

test('a full disk: create fails, and nothing is left', async () => {
  const disk = new Disk(256)
  let small
  try {
    small = await Server.start({ data: disk.dir, settings: { warm_mb: 0 } })
    const filler = 'x'.repeat(60_000)
    for (let i = 0; i < 8; i++) assert.equal(credentials(small, ['set', `large${i}`], { input: JSON.stringify({ files: { [`large${i}`]: filler } }) }).status, 0)
    const made = await create(undefined, { from: small, key: small.key }) // with room; and the directories for the next one are there
    await end(made, { from: small, key: small.key })
    await until('the first sandbox is gone', () => fs.readdirSync(small.file('sandboxes')).length === 0 && fs.readdirSync(small.file('trash')).length === 0)
    disk.fill()
    fs.truncateSync(`${disk.dir}/filler`, fs.statSync(`${disk.dir}/filler`).size - 200 * 1024)
    const r = await agent('POST', '/sandboxes', { body: { template_id: 'base' }, from: small, key: small.key })
    assert.equal(r.status, 507, r.body)
    assert.match(r.json.error.message, /credentials could not be written/)
    await until('nothing is left', async () => (await agent('GET', '/sandboxes', { from: small, key: small.key })).json.sandboxes.length === 0 && fs.readdirSync(small.file('sandboxes')).length === 0)
    disk.makeRoom()
    await end(await create(undefined, { from: small, key: small.key }), { from: small, key: small.key })
  } finally {
    await small?.cleanUp()
    disk.remove()
  }
})
