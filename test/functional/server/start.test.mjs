// Starting, stopping, and refusing to start: each with a clear message and nothing left behind.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import test from 'node:test'

import { everythingOf, settled } from '../lib/census.mjs'
import { isAlive } from '../lib/proc.mjs'
import { api, createRaw, envd } from '../lib/raw.mjs'
import { Server, binary, parseExports, sandglass, temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

/** Start a server that must refuse: -> {code, log}. */
async function refused(options) {
  try {
    const server = await Server.start(options)
    await server.cleanUp()
  } catch (e) {
    if (e.log === undefined) throw e
    return e
  }
  assert.fail('the server started')
}

test('ready: the exports are there, private, and true', async () => {
  const server = await Server.start()
  try {
    assert.equal(fs.statSync(server.file('env')).mode & 0o777, 0o600)
    assert.match(server.key, /^e2b_[0-9a-f]{40}$/)
    assert.match(server.env.NODE_EXTRA_CA_CERTS, /^\//)
    assert.ok(fs.existsSync(server.env.NODE_EXTRA_CA_CERTS))
    assert.match(server.domain, /^localhost:\d+$/)
    assert.equal((await api(server, 'GET', '/v2/sandboxes')).status, 200)
    assert.ok(!fs.readdirSync(server.file('store')).some((f) => fs.readFileSync(server.file(`store/${f}`)).includes(server.key)), 'the key is stored hashed only')
  } finally {
    await server.cleanUp()
  }
})

test('what is kept on disk is closed to the other users of the host', async () => {
  const server = await Server.start()
  const mode = (file) => fs.statSync(file).mode & 0o777
  try {
    const sandbox = await createRaw(server)
    assert.equal(mode(server.file('lock')), 0o600, 'who can open it can hold it')
    for (const dir of ['sandboxes', 'trash', 'store']) assert.equal(mode(server.file(dir)), 0o700, dir)
    assert.equal(mode(server.file(`sandboxes/${sandbox.sandboxID}`)), 0o700)
    assert.equal(mode(path.join(server.images, 'layers')), 0o700, 'a setuid program in there is root\'s')
    for (const key of ['ca/ca.key', 'ca/key.pem']) assert.equal(mode(server.file(key)), 0o600, key)
  } finally {
    await server.cleanUp()
  }
})

test('roles without need of root run without it', async () => {
  const server = await Server.start()
  try {
    const uids = (pid) => /^Uid:\t(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1]
    const { edge, control, engine } = server.roles()
    for (const pid of [...edge, ...control]) {
      assert.notEqual(uids(pid), '0')
      assert.match(fs.readFileSync(`/proc/${pid}/status`, 'utf8'), /^CapEff:\t0{16}$/m)
    }
    assert.equal(engine.length, 1)
  } finally {
    await server.cleanUp()
  }
})

test('a port in use: a clear message', async () => {
  const blocker = net.createServer().listen(0, '127.0.0.1')
  await new Promise((done) => blocker.once('listening', done))
  const { port } = blocker.address()
  for (const which of ['listen', 'tlsListen']) {
    const data = temporaryDir()
    const { code, log } = await refused({ data, [which]: `127.0.0.1:${port}` })
    assert.notEqual(code, 0)
    assert.match(log, new RegExp(`127\\.0\\.0\\.1:${port}`))
    assert.match(log, /in use/i)
    await until(() => `nothing left of ${data}: ${everythingOf(data)}`, () => everythingOf(data).length === 0)
    fs.rmSync(data, { recursive: true, force: true })
  }
  blocker.close()
})

test('a second server on the same data directory is refused, the first unharmed', async () => {
  const server = await Server.start()
  try {
    const exports = fs.readFileSync(server.file('env'), 'utf8')
    const second = sandglass(['serve', '--data', server.data, '--images', server.images, '--listen', '127.0.0.1:0', '--tls-listen', '127.0.0.1:0'])
    assert.notEqual(second.status, 0)
    assert.match(second.stderr + second.stdout, /already|in use|lock/i)
    assert.match(second.stderr + second.stdout, new RegExp(String(server.supervisor)))
    assert.equal(fs.readFileSync(server.file('env'), 'utf8'), exports)
    assert.equal((await api(server, 'GET', '/v2/sandboxes')).status, 200)
  } finally {
    await server.cleanUp()
  }
})

/** Everything below a directory with kind, size and times. */
const listing = (dir) => fs.readdirSync(dir, { recursive: true }).sort().map((name) => {
  const s = fs.lstatSync(path.join(dir, name), { bigint: true })
  return `${name} ${s.mode} ${s.size} ${s.mtimeNs} ${s.ctimeNs}`
}).concat(String(fs.statSync(dir, { bigint: true }).mtimeNs))

test('a data directory of another layout: every command says so and touches nothing', async () => {
  let server = await Server.start()
  try {
    const sandbox = await createRaw(server)
    assert.equal((await api(server, 'POST', `/sandboxes/${sandbox.sandboxID}/pause`, { body: { memory: false } })).status, 204)
    const layout = server.file('layout')
    const number = fs.readFileSync(layout, 'utf8')
    assert.match(number, /^\d+\n$/)
    await server.stop()
    const commands = [['serve', '--images', server.images], ['down'], ['template', 'base'], ['criu']]
    for (const [other, said] of [['77\n', /has layout 77, and sandglass \S+ works with layout \d+: use the version/], [null, /no layout version/], ['x', /not the number/]]) {
      if (other === null) fs.rmSync(layout)
      else fs.writeFileSync(layout, other)
      const before = listing(server.data)
      for (const command of commands) {
        const r = sandglass([...command, '--data', server.data], { timeout: 20_000 })
        assert.equal(r.status, 1, `${command}: ${r.stderr}`)
        assert.match(r.stderr, said)
        assert.match(r.stderr, /another --data/)
        assert.deepEqual(listing(server.data), before, command.join(' '))
      }
    }
    fs.writeFileSync(layout, number)
    server = await server.again()
    assert.equal((await api(server, 'GET', `/sandboxes/${sandbox.sandboxID}`)).json.state, 'paused')
  } finally {
    await server.cleanUp()
  }
})

test('without root: a clear message', async () => {
  const data = temporaryDir()
  fs.chmodSync(data, 0o777)
  const copy = path.join(data, 'sandglass') // where nobody may read it, whatever the checkout's modes are
  fs.copyFileSync(binary, copy)
  fs.chmodSync(copy, 0o755)
  const r = spawnSync('setpriv', ['--reuid=65534', '--regid=65534', '--clear-groups', copy, 'serve', '--data', path.join(data, 'd'), '--listen', '127.0.0.1:0', '--tls-listen', '127.0.0.1:0'], { encoding: 'utf8', timeout: 20_000 })
  assert.notEqual(r.status, 0)
  assert.match(r.stderr + r.stdout, /root/i)
  assert.ok(!fs.existsSync(path.join(data, 'd', 'env')))
  fs.rmSync(data, { recursive: true, force: true })
})

test('bad options and configuration: named, exit code 2 or 1', async () => {
  for (const args of [['--no-such-option'], ['--listen', 'nonsense'], ['--listen', '127.0.0.1:99999'], ['--data'], ['--config', '/no/such/file']]) {
    const r = sandglass(['serve', '--data', '/proc/no/such', ...args], { timeout: 20_000 })
    assert.ok(r.status === 1 || r.status === 2, `${args}: ${r.status} ${r.signal}`)
    assert.ok((r.stderr + r.stdout).trim().length > 0)
  }
  const dir = temporaryDir()
  const config = path.join(dir, 'config.json')
  for (const text of ['{', '{"no_such_key": 1}', '{"pool_size": "many"}']) {
    fs.writeFileSync(config, text)
    const r = sandglass(['serve', '--data', path.join(dir, 'd'), '--config', config], { timeout: 20_000 })
    assert.ok(r.status === 1 || r.status === 2, `${text}: ${r.status} ${r.signal}`)
  }
  fs.rmSync(dir, { recursive: true, force: true })
})

test('a certificate that is not there is named at once', async () => {
  const { code, log } = await refused({ args: ['--tls-cert', '/no/such/cert.pem', '--tls-key', '/no/such/key.pem'] })
  assert.equal(code, 1)
  assert.equal(log, "sandglass serve: tls_cert: read '/no/such/cert.pem': No such file or directory\n")
})

test('SIGTERM ends the server and leaves sandboxes running; a new server takes them over', async () => {
  let server = await Server.start()
  try {
    const sandbox = await createRaw(server)
    const { key } = server
    const how = await server.stop('SIGTERM')
    assert.equal(how.code, 0)
    server = await server.again()
    assert.equal(server.key, key)
    const list = (await api(server, 'GET', '/v2/sandboxes')).json
    assert.deepEqual(list.map((s) => s.sandboxID), [sandbox.sandboxID])
    assert.ok((await envd(server, sandbox, 'GET', '/health')).status < 300)
  } finally {
    await server.cleanUp()
  }
})

test('--stop-sandboxes ends them with the server', async () => {
  let server = await Server.start({ args: ['--stop-sandboxes'] })
  try {
    const sandbox = await createRaw(server)
    assert.ok(sandbox.sandboxID)
    assert.equal((await server.stop('SIGTERM')).code, 0)
    await until(() => `nothing left of ${server.data}: ${everythingOf(server.data)}`, () => everythingOf(server.data).length === 0)
    server = await server.again()
    assert.deepEqual((await api(server, 'GET', '/v2/sandboxes')).json, [])
  } finally {
    await server.cleanUp()
  }
})

test('down ends server and sandboxes and leaves nothing at all', async () => {
  for (const first of ['running', 'stopped', 'killed']) {
    const server = await Server.start()
    await Promise.all([createRaw(server), createRaw(server)])
    await settled(server)
    if (first === 'stopped') await server.stop('SIGTERM')
    if (first === 'killed') await server.stop('SIGKILL')
    const r = sandglass(['down', '--data', server.data])
    assert.equal(r.status, 0, `${first}: ${r.stderr}`)
    await until(() => `${first}: nothing left of ${server.data}: ${everythingOf(server.data)}`, () => !isAlive(server.supervisor) && everythingOf(server.data).length === 0)
    const again = sandglass(['down', '--data', server.data])
    assert.equal(again.status, 0, 'down of what is down')
    await server.cleanUp()
  }
})

test('exports are what a shell reads', async () => {
  const server = await Server.start()
  try {
    const shell = spawnSync('sh', ['-c', `. '${server.file('env')}' && printf '%s\\n' "$E2B_API_KEY" "$E2B_API_URL" "$E2B_DOMAIN"`], { encoding: 'utf8' })
    assert.equal(shell.stdout, `${server.key}\n${server.apiUrl}\n${server.domain}\n`)
    assert.deepEqual(parseExports(fs.readFileSync(server.file('env'), 'utf8')), server.env)
  } finally {
    await server.cleanUp()
  }
})

test('directories that the unprivileged roles could not reach: which, and what to do', async () => {
  const closed = temporaryDir('closed')
  const { code, log } = await refused({ data: path.join(closed, 'data') })
  assert.notEqual(code, 0)
  assert.ok(log.includes(closed) && /chmod/.test(log), log)
  fs.rmSync(closed, { recursive: true, force: true })
})

test('a default template that cannot be made: why, and no half of it is left', async () => {
  const images = temporaryDir('images')
  const { code, log } = await refused({ images, args: ['--mirror', 'http://127.0.0.1:1/debian'] })
  assert.notEqual(code, 0)
  assert.match(log, /template/i)
  const left = fs.existsSync(images) ? fs.readdirSync(images, { recursive: true }).filter((name) => !['layers', 'templates', 'lock'].includes(name)) : []
  assert.deepEqual(left, [])
  fs.rmSync(images, { recursive: true, force: true })
})
