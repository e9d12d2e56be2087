// What sandboxes get of the host's network: certificates of an authority of its own, variables, name servers.
import assert from 'node:assert/strict'
import dgram from 'node:dgram'
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import test, { after } from 'node:test'

import { leakless as counted } from '../lib/census.mjs'
import { Authority } from '../lib/certificates.mjs'
import { api } from '../lib/raw.mjs'
import { Server, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const dir = temporaryDir('network')
const trusted = path.join(dir, 'trusted')
fs.mkdirSync(trusted)
fs.mkdirSync(path.join(dir, 'first'))
fs.mkdirSync(path.join(dir, 'second'))
const first = new Authority(path.join(dir, 'first'))
fs.copyFileSync(first.cert, path.join(trusted, 'company.crt'))

// ---------------------------------------------------------------- a name server that sandboxes do not reach

/** On an address of the host's loopback that no other test uses. */
const address = `127.${80 + (process.pid % 100)}.${(process.pid >> 7) % 250}.53`

class NameServer {
  asked = []

  static async start() {
    const it = new NameServer()
    it.udp = dgram.createSocket('udp4').bind(53, address)
    await once(it.udp, 'listening')
    it.udp.on('message', (m, from) => it.udp.send(it.answer(m, 'udp'), from.port, from.address))
    it.tcp = net.createServer((c) => {
      let got = Buffer.alloc(0)
      c.on('data', (d) => {
        got = Buffer.concat([got, d])
        while (got.length >= 2 && got.length >= 2 + got.readUInt16BE(0)) {
          const answer = it.answer(got.subarray(2, 2 + got.readUInt16BE(0)), 'tcp')
          got = got.subarray(2 + got.readUInt16BE(0))
          c.write(Buffer.concat([Buffer.from([answer.length >> 8, answer.length & 255]), answer]))
        }
      }).on('error', () => {})
    }).listen(53, address)
    await once(it.tcp, 'listening')
    return it
  }

  /** A record for each name of example; "long.example" has more than a packet of UDP takes. */
  answer(query, way) {
    let end = 12
    const labels = []
    for (; query[end]; end += 1 + query[end]) labels.push(query.subarray(end + 1, end + 1 + query[end]).toString())
    const name = labels.join('.')
    const type = query.readUInt16BE(end + 1)
    this.asked.push(`${way} ${name}`)
    const question = query.subarray(12, end + 5)
    const isKnown = name.endsWith('.example') && type === 1
    const isCut = name === 'long.example' && way === 'udp' && isKnown
    const count = isCut || !isKnown ? 0 : name === 'long.example' ? 100 : 1
    const head = Buffer.from([query[0], query[1], 0x81 | (isCut ? 2 : 0), 0x80 | (name.endsWith('.example') ? 0 : 3), 0, 1, 0, count, 0, 0, 0, 0])
    const record = (i) => Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 203, 0, 113, i])
    return Buffer.concat([head, question, ...Array.from({ length: count }, (_, i) => record(i + 7))])
  }

  stop() {
    this.udp.close()
    this.tcp.close()
  }
}

const names = await NameServer.start()
const settings = {
  warm_mb: 0, // a sandbox that is kept warm is thawed as it was
  sandbox_ca: trusted,
  sandbox_dns: [address],
  sandbox_env: { HTTPS_PROXY: 'http://proxy.example:3128', COMPANY: 'ours', NO_PROXY: 'localhost,127.0.0.1', no_proxy: 'localhost,127.0.0.1' },
}
const server = await Server.start({ settings })
after(async () => {
  names.stop()
  await server.cleanUp()
  fs.rmSync(dir, { recursive: true })
})
Object.assign(process.env, clientEnvironment(server, 'http'))
const { Sandbox } = await import('e2b')
const leakless = (body) => counted(server, body)

const output = async (sandbox, command, options) => (await sandbox.commands.run(command, options)).stdout.trim()
const says = async (sandbox, command, options) => {
  try {
    return await output(sandbox, command, options)
  } catch (e) {
    return `failed: ${e.stdout ?? ''}${e.stderr ?? e.message}`
  }
}

async function withSandbox(body, options = {}) {
  const sandbox = await Sandbox.create({ timeoutMs: 300_000, ...options })
  try {
    return await body(sandbox)
  } finally {
    await sandbox.kill()
  }
}

// ---------------------------------------------------------------- certificates

const program = `
import http.server, ssl
c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER); c.load_cert_chain("/tmp/site.crt", "/tmp/site.key")
s = http.server.ThreadingHTTPServer(("127.0.0.1", 8443), http.server.SimpleHTTPRequestHandler)
s.socket = c.wrap_socket(s.socket, server_side=True); s.serve_forever()
`

/** A server inside, with a certificate of this authority for "localhost". */
async function serveInside(sandbox, authority) {
  const site = authority.issue('site', ['localhost'])
  await sandbox.files.write([{ path: '/tmp/site.crt', data: fs.readFileSync(site.cert, 'utf8') }, { path: '/tmp/site.key', data: fs.readFileSync(site.key, 'utf8') }, { path: '/tmp/site.py', data: program }])
  await sandbox.commands.run('mkdir -p /tmp/www; cd /tmp/www; python3 /tmp/site.py >/dev/null 2>&1 &')
  await sandbox.commands.run('until (exec 3<>/dev/tcp/127.0.0.1/8443) 2>/dev/null; do sleep 0.05; done')
}

const url = 'https://localhost:8443/'
const bare = 'env -i PATH=$PATH HOME=$HOME'
const nodeGet = `node -e 'require("https").get("${url}", (r) => { console.log(r.statusCode); r.resume() }).on("error", (e) => { console.log(e.code); process.exit(1) })'`
const pythonGet = `python3 -c 'import urllib.request as u; print(u.urlopen("${url}").status)'`
const programs = {
  curl: `curl -sS -o /dev/null -w '%{http_code}' ${url}`,
  'curl without variables': `${bare} curl -sS -o /dev/null -w '%{http_code}' ${url}`,
  'wget without variables': `${bare} wget -q -O /dev/null ${url} && echo 200`,
  node: nodeGet,
  'node with sudo': `sudo ${nodeGet}`,
  python: pythonGet,
  'python without variables': `${bare} ${pythonGet}`,
  'python with sudo': `sudo ${pythonGet}`,
  git: `git ls-remote ${url}x.git 2>&1 | grep -q 'not found' && echo 200`, // it came as far as HTTP
  'git without variables': `${bare} git ls-remote ${url}x.git 2>&1 | grep -q 'not found' && echo 200`,
  pip: `pip download -q --no-deps --no-build-isolation -i ${url} nothing-there 2>&1 | grep -q 'No matching distribution' && echo 200`,
  npm: `npm view --registry ${url} nothing-there 2>&1 | grep -q E404 && echo 200`,
}

async function assertTrusted(sandbox, which = Object.keys(programs)) {
  for (const name of which) assert.equal(await says(sandbox, programs[name], { timeoutMs: 120_000 }), '200', name)
}

test("every program trusts the company's certificates", leakless(() => withSandbox(async (sandbox) => {
  await serveInside(sandbox, first)
  await assertTrusted(sandbox)
})))

test('update-ca-certificates works in a sandbox, and keeps them beside its own', leakless(() => withSandbox(async (sandbox) => {
  const own = new Authority(fs.mkdtempSync(path.join(dir, 'own-')))
  await serveInside(sandbox, own)
  assert.match(await says(sandbox, programs.curl), /certificate/i) // nobody knows it yet
  await sandbox.files.write('/usr/local/share/ca-certificates/mine.crt', fs.readFileSync(own.cert, 'utf8'), { user: 'root' })
  await sandbox.commands.run('update-ca-certificates', { user: 'root', timeoutMs: 120_000 })
  await assertTrusted(sandbox, ['curl', 'curl without variables', 'python without variables', 'git'])
  await sandbox.commands.run(`pkill -f '[s]ite.py'; while (exec 3<>/dev/tcp/127.0.0.1/8443) 2>/dev/null; do sleep 0.05; done`)
  await serveInside(sandbox, first)
  await assertTrusted(sandbox, ['curl', 'curl without variables', 'python without variables', 'node'])
})))

test('paused, resumed, without memory, forked, from a snapshot: still trusted, and in none of its files', leakless(() => withSandbox(async (sandbox) => {
  await serveInside(sandbox, first)
  await sandbox.pause()
  const upper = server.file(`sandboxes/${sandbox.sandboxId}/upper`)
  for (const file of ['etc/sandglass', 'etc/ssl', 'etc/resolv.conf', 'usr/local/share/ca-certificates', 'etc/sudoers.d']) assert.ok(!fs.existsSync(path.join(upper, file)), file)
  await sandbox.connect()
  await assertTrusted(sandbox, ['curl', 'node', 'python without variables'])
  const { snapshotId } = await sandbox.createSnapshot()
  const copy = await Sandbox.create(snapshotId, { timeoutMs: 60_000 })
  await assertTrusted(copy, ['curl', 'node'])
  await copy.kill()
  const forked = (await api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/fork`, { body: {} })).json
  for (const { sandbox: { sandboxID } } of forked.filter((f) => f.sandbox)) {
    const fork = await Sandbox.connect(sandboxID)
    await assertTrusted(fork, ['curl', 'node'])
    await fork.kill()
  }
  assert.equal((await api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/pause`, { body: { memory: false } })).status, 204)
  await sandbox.connect()
  await serveInside(sandbox, first)
  await assertTrusted(sandbox, ['curl', 'node', 'python without variables'])
  await api(server, 'DELETE', `/templates/${encodeURIComponent(snapshotId)}`)
})))

test('an image without certificates gets those of the host', leakless(() => withSandbox(async (sandbox) => {
  await sandbox.commands.run('rm -rf /etc/ssl /usr/share/ca-certificates /usr/local/share/ca-certificates', { user: 'root' })
  const { snapshotId } = await sandbox.createSnapshot()
  const bareBox = await Sandbox.create(snapshotId, { timeoutMs: 300_000 })
  try {
    assert.ok(Number(await output(bareBox, 'grep -c BEGIN /etc/ssl/certs/ca-certificates.crt')) > 50)
    await serveInside(bareBox, first)
    await assertTrusted(bareBox, ['curl', 'curl without variables', 'node', 'git'])
  } finally {
    await bareBox.kill()
    await api(server, 'DELETE', `/templates/${encodeURIComponent(snapshotId)}`)
  }
})))

test('a renewed certificate reaches sandboxes that start or resume afterwards', leakless(() => withSandbox(async (sandbox) => {
  await sandbox.commands.run('true')
  await sandbox.pause()
  const second = new Authority(path.join(dir, 'second'))
  fs.copyFileSync(second.cert, path.join(trusted, 'company.crt'))
  const given = () => fs.readFileSync(server.file('host/given/extra.pem'), 'utf8')
  await until('the server has seen it', () => given().replace(/\s/g, '') === fs.readFileSync(second.cert, 'utf8').replace(/\s/g, ''))
  try {
    await withSandbox(async (fresh) => {
      await serveInside(fresh, second)
      await assertTrusted(fresh, ['curl', 'node', 'python without variables'])
    })
    await sandbox.connect()
    await serveInside(sandbox, first)
    assert.match(await says(sandbox, programs['curl without variables']), /certificate/i)
  } finally {
    fs.copyFileSync(first.cert, path.join(trusted, 'company.crt'))
    await until('the server has seen it', () => given().replace(/\s/g, '') === fs.readFileSync(first.cert, 'utf8').replace(/\s/g, ''))
  }
})))

// ---------------------------------------------------------------- variables

test('sandbox_env is there, below what a client says', leakless(() => withSandbox(async (sandbox) => {
  assert.equal(await output(sandbox, 'echo $HTTPS_PROXY $COMPANY'), 'http://proxy.example:3128 theirs')
  assert.equal(await output(sandbox, 'sudo printenv HTTPS_PROXY'), 'http://proxy.example:3128')
  assert.equal(await output(sandbox, 'echo $COMPANY', { envs: { COMPANY: 'of the command' } }), 'of the command')
  assert.equal(await output(sandbox, 'echo $SSL_CERT_FILE', { envs: { SSL_CERT_FILE: '/mine' } }), '/mine')
  await sandbox.pause()
  await sandbox.connect()
  assert.equal(await output(sandbox, 'echo $HTTPS_PROXY $COMPANY'), 'http://proxy.example:3128 theirs')
}, { envs: { COMPANY: 'theirs' } })))

// ---------------------------------------------------------------- name servers

test("names are resolved by the host's name servers, through the forwarder", leakless(() => withSandbox(async (sandbox) => {
  assert.equal(await output(sandbox, 'cat /etc/resolv.conf | grep nameserver'), 'nameserver 198.18.0.1')
  assert.match(await output(sandbox, 'getent ahostsv4 one.example'), /^203\.0\.113\.7 /)
  assert.match(await says(sandbox, 'getent ahostsv4 nothing.invalid'), /^failed/)
  names.asked.length = 0
  assert.match(await output(sandbox, 'getent ahostsv4 long.example | grep -c STREAM'), /^100$/)
  assert.ok(names.asked.includes('udp long.example') && names.asked.includes('tcp long.example'), names.asked.join())
  assert.equal(await output(sandbox, `node -e 'require("dns").resolve4("two.example", (e, a) => console.log(e ?? a[0]))'`), '203.0.113.7')
})))

test('a sandbox without internet access resolves nothing; a deny of everything, neither', leakless(async () => {
  const ask = `python3 -c 'import socket; socket.setdefaulttimeout(3); print(socket.gethostbyname("off.example"))'`
  const quick = 'sed "s/$/\\noptions timeout:1 attempts:1/" /etc/resolv.conf | sudo tee /etc/resolv.conf.new >/dev/null; sudo cp /etc/resolv.conf.new /etc/resolv.conf'
  names.asked.length = 0
  for (const options of [{ allowInternetAccess: false }, { network: { denyOut: ['0.0.0.0/0'] } }])
    await withSandbox(async (sandbox) => {
      await sandbox.commands.run(quick)
      assert.match(await says(sandbox, ask), /^failed/)
    }, options)
  assert.deepEqual(names.asked.filter((a) => a.includes('off.example')), [])
}))

test('queries of many sandboxes at once are all answered, and changes or zones are refused', leakless(() => withSandbox(async (sandbox) => {
  await sandbox.files.write('/tmp/many.py', `
import socket, struct
def query(name, flags=0x100, kind=1, ident=7):
    q = b"".join(bytes([len(l)]) + l.encode() for l in name.split("."))
    return struct.pack(">HHHHHH", ident, flags, 1, 0, 0, 0) + q + b"\\0" + struct.pack(">HH", kind, 1)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10); to = ("198.18.0.1", 53)
for i in range(100): s.sendto(query("n%d.example" % i, ident=i), to)
got = {s.recvfrom(4096)[0][:2] for i in range(100)}
print(len(got))
s.sendto(query("one.example", flags=0x2800), to); print("update", s.recvfrom(4096)[0][3] & 15)
s.sendto(query("one.example", kind=252), to); print("zone", s.recvfrom(4096)[0][3] & 15)
s.sendto(b"\\0\\1\\1\\0\\0\\1\\0\\0\\0\\0\\0\\0\\77x", to); print("broken", s.recvfrom(4096)[0][3] & 15)
t = socket.create_connection(to, 5); t.settimeout(5); m = query("one.example", kind=252); t.send(struct.pack(">H", len(m)) + m)
try: print("tcp zone", len(t.recv(10)))
except ConnectionResetError: print("tcp zone 0")
`)
  assert.deepEqual((await output(sandbox, 'python3 /tmp/many.py')).split('\n'), ['100', 'update 4', 'zone 5', 'broken 1', 'tcp zone 0'])
})))

test('the forwarder has no rights, and another one follows when it dies', leakless(() => withSandbox(async (sandbox) => {
  const pids = () => fs.readdirSync('/proc').filter((p) => /^\d+$/.test(p) && /^Name:\tsg-dns$/m.test(statusOf(p)) && ancestorIs(p, server.supervisor))
  await until('a forwarder', () => pids().length === 1)
  const [pid] = pids()
  assert.match(statusOf(pid), /^CapEff:\t0+$/m)
  assert.match(statusOf(pid), /^CapBnd:|^NoNewPrivs:\t1$/m)
  assert.match(statusOf(pid), /^Uid:\t1879048200\t1879048200/m)
  process.kill(Number(pid), 'SIGKILL')
  await until('another forwarder answers', async () => /^203/.test(await says(sandbox, 'getent ahostsv4 again.example')))
  assert.notDeepEqual(pids(), [pid])
})))

function statusOf(pid) {
  try {
    return fs.readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}

function ancestorIs(pid, ancestor) {
  for (let at = Number(pid); at > 1; at = Number(/^PPid:\t(\d+)$/m.exec(statusOf(at))?.[1] ?? 0)) if (at === ancestor) return true
  return false
}

