// `sandglass trust`, and names of sandboxes as ordinary programs see them.  The system's stores are copies of our own: the
// shell runs in a mount namespace with overlays over them.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, rmSync, statSync } from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { binary, sandglass, Server, temporaryDir } from '../lib/server.mjs'

const setUp = `set -eu
mount -t tmpfs tmpfs "$HOME"
for dir in /etc/ssl /usr/local/share; do
  at=$HOME/over$dir
  mkdir -p $at/u $at/w
  mount -t overlay -o lowerdir=$dir,upperdir=$at/u,workdir=$at/w overlay $dir
done
mount -t tmpfs tmpfs /etc/ca-certificates/update.d # hooks of other packages, Java's takes seconds
`
const hint = /certutil -d sql:\$HOME\/\.pki\/nssdb -A/

let server, home
before(async () => {
  server = await Server.start()
  home = temporaryDir('home')
})
after(async () => {
  rmSync(home, { recursive: true })
  await server.cleanUp()
})

/** A script with stores of its own: its output, and it must succeed. */
function shell(script) {
  const env = { PATH: process.env.PATH, HOME: home, SANDGLASS: binary, DATA: server.data, API: `https://api.${server.domain}` }
  const r = spawnSync('unshare', ['--mount', 'bash', '-c', setUp + script], { env, encoding: 'utf8', timeout: 120_000 })
  assert.equal(r.status, 0, r.stdout + r.stderr)
  return r.stdout
}

test('after trust curl needs nothing, after --undo it refuses again', () => {
  const out = shell(`
    ! curl -s $API/health || exit 9
    $SANDGLASS trust --data $DATA
    curl -sS -o /dev/null -w 'curl says %{http_code}\n' $API/health
    $SANDGLASS doctor --json --data $DATA | grep -A1 '"trust"'
    $SANDGLASS trust --undo --data $DATA
    ! curl -s $API/health || exit 9
    ls /usr/local/share/ca-certificates`)
  assert.match(out, /copied \S+\/ca\/ca.pem to \/usr\/local\/share\/ca-certificates\/sandglass-[0-9a-f]{8}\.crt\nran update-ca-certificates/)
  assert.match(out, /^To undo all of this: sandglass trust --undo --data \S+$/m)
  assert.match(out, hint)
  assert.match(out, /^curl says 204$/m)
  assert.match(out, /"state": "ok"/)
  assert.match(out, /removed \/usr\/local\/share\/ca-certificates\/sandglass-[0-9a-f]{8}\.crt\nran update-ca-certificates/)
  assert.doesNotMatch(out.split('no longer trusted').at(-1), /sandglass-/)
})

test("a user's Chromium store gets it, and loses it", () => {
  const out = shell(`
    mkdir -p $HOME/.pki/nssdb
    $SANDGLASS trust --data $DATA
    $SANDGLASS trust --data $DATA # twice is fine
    certutil -d sql:$HOME/.pki/nssdb -L
    echo then
    $SANDGLASS trust --undo --data $DATA
    certutil -d sql:$HOME/.pki/nssdb -L`)
  const [added, removed] = out.split('\nthen\n')
  assert.match(added, /^sandglass-[0-9a-f]{8} +C,, *$/m)
  assert.doesNotMatch(added, hint)
  assert.match(removed, /removed sandglass-[0-9a-f]{8} from/)
  assert.doesNotMatch(removed, / C,, /)
})

test('what cannot be done is said in words', () => {
  const nobody = sandglass(['trust', '--data', server.data], { uid: 65534, gid: 65534 })
  assert.deepEqual([nobody.status, nobody.stdout], [1, ''])
  assert.match(nobody.stderr, /needs root.*sudo sandglass trust/)
  const empty = path.join(home, 'empty')
  mkdirSync(empty)
  const none = sandglass(['trust', '--data', empty])
  assert.deepEqual([none.status, none.stdout], [1, ''])
  assert.match(none.stderr, /no local authority in '\S+empty'/)
  assert.match(shell('mount --bind /dev/null /usr/sbin/update-ca-certificates; $SANDGLASS trust --data $DATA 2>&1 || echo failed'), /apt-get install ca-certificates\nfailed/)
  assert.equal(sandglass(['trust', 'x']).status, 2)
})

test('node reaches a port of a sandbox with the exported variables and nothing else', () => {
  const program = `
    import { Sandbox } from 'e2b'
    const sandbox = await Sandbox.create()
    await sandbox.commands.run('python3 -m http.server 3000 --bind 127.0.0.1', { background: true, timeoutMs: 0 })
    let answer
    do answer = await fetch('https://' + sandbox.getHost(3000)); while (answer.status === 502)
    console.log(answer.status)
    await sandbox.kill()`
  const env = { PATH: process.env.PATH, ...server.env }
  const cwd = fileURLToPath(new URL('.', import.meta.url)) // the client is found from here
  const r = spawnSync('node', ['--input-type=module', '-e', program], { env, cwd, encoding: 'utf8', timeout: 30_000 })
  assert.deepEqual([r.stdout, r.stderr, r.status], ['200\n', '', 0])
})

/** Asks the API's health over TLS as httpx, the Python client's library, does; prints the status, and which authorities of the system are missing. */
const python = `
import os, socket, ssl, sys
port = int(sys.argv[1])
trusted = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
with socket.create_connection(("127.0.0.1", port)) as plain, trusted.wrap_socket(plain, server_hostname="api.localhost") as tls:
    tls.sendall(b"GET /health HTTP/1.1\\r\\nHost: api.localhost:%d\\r\\nConnection: close\\r\\n\\r\\n" % port)
    print(tls.recv(100).split(b" ")[1].decode())
system = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
system.load_verify_locations("/etc/ssl/certs/ca-certificates.crt")
public = set(system.get_ca_certs(binary_form=True))
assert len(public) > 50
print(len(public - set(trusted.get_ca_certs(binary_form=True))))
`

test('SSL_CERT_FILE is all that Python and curl need, and the public authorities are still in it', () => {
  const { SSL_CERT_FILE } = server.env
  const run = (program, args, env) => spawnSync(program, args, { env: { PATH: process.env.PATH, HOME: home, ...env }, encoding: 'utf8', timeout: 30_000 })
  const fetched = ['-sS', '-o', '/dev/null', '-w', '%{http_code}', `https://api.${server.domain}/health`]
  const port = server.domain.split(':')[1]
  assert.equal(SSL_CERT_FILE, server.file('ca/bundle.pem'))
  assert.equal(statSync(SSL_CERT_FILE).mode & 0o777, 0o644)
  const good = run('python3', ['-c', python, port], { SSL_CERT_FILE })
  assert.deepEqual([good.stdout, good.stderr], ['204\n0\n', ''])
  assert.equal(run('curl', fetched, { SSL_CERT_FILE }).stdout, '204')
  assert.match(run('python3', ['-c', python, port]).stderr, /CERTIFICATE_VERIFY_FAILED/)
  assert.equal(run('curl', fetched).status, 60)
})

test('a system without authorities: SSL_CERT_FILE would hide those that programs bring along, so there is none', async () => {
  const bare = await Server.start({ wrap: ['unshare', '--mount', 'sh', '-c', 'mount -t tmpfs tmpfs /etc/ssl && exec "$0" "$@"'] })
  let next
  try {
    assert.match(bare.log, /ca\.bundle error="[^"]*install ca-certificates"/)
    assert.deepEqual([bare.env.SSL_CERT_FILE, bare.env.NODE_EXTRA_CA_CERTS], [undefined, bare.file('ca/ca.pem')])
    await bare.stop()
    next = await bare.again()
    assert.equal(next.env.SSL_CERT_FILE, bare.file('ca/bundle.pem'))
  } finally {
    await (next ?? bare).cleanUp()
  }
})

test('doctor: names below .localhost lead here for every program', () => {
  const { checks } = JSON.parse(sandglass(['doctor', '--json', '--data', server.data]).stdout)
  for (const name of ['names', 'domain']) assert.equal(checks.find((check) => check.name === name)?.state, 'ok', name)
})

test('doctor names the package where the system does not resolve them', () => {
  const out = shell(`
    sed 's/^hosts:.*/hosts: files dns/' /etc/nsswitch.conf >$HOME/nsswitch.conf
    mount --bind $HOME/nsswitch.conf /etc/nsswitch.conf
    echo 'nameserver 127.0.0.1' >$HOME/resolv.conf # nobody answers there: an error at once
    mount --bind $HOME/resolv.conf /etc/resolv.conf
    $SANDGLASS doctor --data $DATA | grep -A1 '^note  *names'`)
  assert.match(out, /libnss-myhostname/)
})
