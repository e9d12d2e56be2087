// A server for other machines: its own domain, a certificate from files that is renewed while the server runs, and `doctor --remote`.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import tls from 'node:tls'

import { Authority } from '../lib/certificates.mjs'
import { binary, Server, temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

const domain = 'box.sandglass.test'
const names = [domain, `*.${domain}`]

let dir, authority, server, pair
before(async () => {
  dir = temporaryDir('remote')
  authority = new Authority(dir)
  pair = authority.issue('first', names)
  server = await Server.start({ args: ['--domain', domain, '--tls-cert', pair.cert, '--tls-key', pair.key], settings: { edge_count: 2 }, tlsListen: '0.0.0.0:0' })
})
after(async () => {
  await server.cleanUp()
  fs.rmSync(dir, { recursive: true })
})

const tlsPort = (s = server) => JSON.parse(fs.readFileSync(s.file('run/listening'), 'utf8')).tls_listen.split(':').at(-1)

/** An open TLS connection to the server by the name of a sandbox, accepted as a client would accept it. */
function connect(s = server) {
  return new Promise((done, fail) => {
    const socket = tls.connect({ host: '127.0.0.1', port: tlsPort(s), servername: `3000-i0123.${domain}`, ca: fs.readFileSync(authority.cert), ALPNProtocols: ['http/1.1'] })
    socket.once('secureConnect', () => done(socket))
    socket.once('error', fail)
  })
}

const certificateSerial = (file) => new X509Certificate(fs.readFileSync(file)).serialNumber

/** The serial numbers that some new connections see, without those of connections that are open. */
async function served(s = server) {
  const seen = new Set()
  for (let i = 0; i < 8; i++) {
    const socket = await connect(s)
    seen.add(socket.getPeerCertificate().serialNumber)
    socket.destroy()
  }
  return [...seen]
}

const ask = (socket) => new Promise((done, fail) => {
  let text = ''
  const more = (piece) => {
    text += piece
    if (!text.includes('\r\n\r\n')) return
    socket.off('data', more)
    done(text.split(' ')[1])
  }
  socket.on('data', more).once('error', fail).once('close', () => fail(new Error('closed')))
  socket.write(`GET /health HTTP/1.1\r\nHost: api.${domain}\r\n\r\n`)
})

/** Put another pair where the server looks for its own, as certbot does: one file after the other. */
function replace(next) {
  for (const kind of ['cert', 'key']) {
    fs.copyFileSync(next[kind], `${pair[kind]}.new`)
    fs.renameSync(`${pair[kind]}.new`, pair[kind])
  }
}

test('the certificate of the operator is served', async () => {
  assert.deepEqual(await served(), [certificateSerial(pair.cert)])
  assert.equal(server.env.NODE_EXTRA_CA_CERTS, undefined)
})

test('a renewed certificate is served by all edges without a restart, and open connections go on', async () => {
  const open = await connect()
  assert.equal(await ask(open), '204')
  const roles = server.rolePids()
  const next = authority.issue('second', names)
  replace(next)
  const wanted = certificateSerial(next.cert)
  await until('the new certificate', async () => `${await served()}` === wanted)
  assert.equal(await ask(open), '204')
  open.destroy()
  assert.deepEqual(server.rolePids(), roles)
  assert.match(server.log, /certificate\.renewed file=\S+ ends=\d{4}-/)
})

test('a broken pair is logged, and the one before stays, also for an edge that starts again', async () => {
  const [good] = await served()
  fs.writeFileSync(pair.key, 'not a key\n')
  await until('the error', () => /certificate\.refused error="the certificate '\S+' cannot be used with the key '\S+': .*the one before stays in use/.test(server.log))
  assert.deepEqual(await served(), [good])
  await server.killRoles('edge')
  assert.deepEqual(await served(), [good])
  const foreign = authority.issue('third', names)
  fs.copyFileSync(foreign.key, pair.key) // of another certificate
  await until('the second error', () => server.log.match(/certificate\.refused/g).length === 2)
  assert.deepEqual(await served(), [good])
  replace(foreign)
  await until('the third certificate', async () => `${await served()}` === certificateSerial(foreign.cert))
})

test('a certificate for other names is served, with a warning; one that cannot be read ends the start with an explanation', async () => {
  const other = authority.issue('other', ['elsewhere.test'])
  const wrong = await Server.start({ args: ['--domain', domain, '--tls-cert', other.cert, '--tls-key', other.key] })
  try {
    assert.match(wrong.log, /warn\s+serve certificate\.names file=\S+: it is not for 3000-i\.box\.sandglass\.test/)
  } finally {
    await wrong.cleanUp()
  }
  const data = temporaryDir()
  await assert.rejects(Server.start({ data, args: ['--tls-cert', other.cert, '--tls-key', pair.key] }), /the certificate '\S+' cannot be used with the key '\S+': key values mismatch/)
  const empty = path.join(dir, 'empty.pem')
  fs.writeFileSync(empty, '')
  await assert.rejects(Server.start({ data, args: ['--tls-cert', empty, '--tls-key', pair.key] }), /the certificate '\S+' cannot be used/)
  fs.rmSync(data, { recursive: true })
})

/** `doctor --remote` where these names are this machine: {status, states: {name: state}, text}. */
function doctor(args, { hosts = ['api', '3000-i0123456789', 'sandbox'], more = '', env = {} } = {}) {
  const file = path.join(dir, 'hosts')
  fs.writeFileSync(file, `127.0.0.1 localhost\n127.0.0.1 ${hosts.map((label) => `${label}.${domain}`).join(' ')}\n${more}`)
  const r = spawnSync('unshare', ['--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', file, binary, 'doctor', '--remote', '--json', ...args], {
    encoding: 'utf8', timeout: 60_000, env: { PATH: process.env.PATH, SSL_CERT_FILE: authority.cert, ...env },
  })
  const { checks, exports } = JSON.parse(r.stdout || '{}')
  return { status: r.status, exports, states: Object.fromEntries((checks ?? []).map((c) => [c.name, c.state])), text: r.stdout + r.stderr }
}

test('doctor --remote: a server that other machines can use, seen from its own machine and from theirs', () => {
  const here = doctor(['--data', server.data, '--domain', `${domain}:${tlsPort()}`])
  const fine = { domain: 'ok', names: 'ok', listening: 'ok', 'certificate file': 'ok', port: 'ok', 'certificate served': 'ok', API: 'ok', key: 'ok' }
  assert.deepEqual(here.states, fine, here.text)
  assert.equal(here.status, 0)
  assert.deepEqual(here.exports, { E2B_DOMAIN: `${domain}:${tlsPort()}`, E2B_API_KEY: 'e2b_...' })
  assert.ok(!here.text.includes(server.key))
  const there = doctor([], { env: { E2B_DOMAIN: `${domain}:${tlsPort()}`, E2B_API_KEY: server.key } })
  assert.deepEqual([there.status, there.states], [0, { ...fine, listening: 'note' }], there.text)
})

test('the command line and what clients export: a domain and a key are enough', () => {
  const file = path.join(dir, 'hosts')
  const env = { PATH: process.env.PATH, SSL_CERT_FILE: authority.cert, E2B_DOMAIN: `${domain}:${tlsPort()}`, E2B_API_KEY: server.key }
  const r = spawnSync('unshare', ['--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', file, binary, 'run', '--', 'echo', 'from afar'], { encoding: 'utf8', input: '', timeout: 60_000, env })
  assert.deepEqual([r.status, r.stdout, r.stderr], [0, 'from afar\n', ''])
})

test('doctor --remote says what is wrong: names, port, authority, key, listening', async () => {
  const at = ['--domain', `${domain}:${tlsPort()}`]
  const unnamed = doctor(at, { hosts: ['api'] })
  assert.equal(unnamed.status, 1)
  assert.equal(unnamed.states.names, 'missing')
  assert.match(unnamed.text, /"3000-i0123456789\.box\.sandglass\.test: .*"[^}]*"fix": "add DNS entries/)
  const distrusted = doctor(at, { env: { SSL_CERT_FILE: '/etc/ssl/certs/ca-certificates.crt' } })
  assert.deepEqual([distrusted.states['certificate served'], distrusted.states.API], ['missing', 'missing'], distrusted.text)
  assert.match(distrusted.text, /not trusted: unable to get local issuer certificate/)
  const stranger = doctor(at, { env: { E2B_API_KEY: `e2b_${'0'.repeat(40)}` } })
  assert.deepEqual([stranger.status, stranger.states.key, stranger.states.API], [1, 'missing', 'ok'])
  const half = doctor(at, { more: `::1 3000-i0123456789.${domain}\n` }) // the server has no IPv6 address: clients try the next one
  assert.deepEqual([half.status, half.states.names, half.states.port, half.states['certificate served']], [0, 'note', 'note', 'ok'], half.text)
  const closed = doctor(['--domain', `${domain}:1`])
  assert.deepEqual([closed.states.port, closed.states['certificate served']], ['missing', 'missing'])

  const local = await Server.start() // with its own authority, for this machine only
  try {
    const found = doctor(['--data', local.data])
    assert.equal(found.status, 1)
    assert.deepEqual([found.states.domain, found.states.listening, found.states['certificate file']], ['missing', 'missing', 'ok'], found.text)
    assert.match(found.text, /"TLS is only on 127\.0\.0\.1:\d+, which other machines cannot reach"/)
  } finally {
    await local.cleanUp()
  }
  const none = doctor(['--data', dir])
  assert.equal(none.status, 1)
  assert.match(none.text, /which server\? No server has been started in/)
})
