// The puller by itself against registries: Debian's docker-registry, and one that lies.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createVerify, generateKeyPairSync, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import test from 'node:test'
import { gzipSync } from 'node:zlib'

import { dockerArchive, makeImage, makeIndex, ociArchive, sha256, tar } from '../lib/build/image.mjs'
import { Puller } from '../lib/build/puller.mjs'
import { Registry } from '../lib/build/registry.mjs'
import { temporaryDir } from '../lib/server.mjs'

const big = randomBytes(3 << 20)
const config = { Env: ['PATH=/bin', 'A=1', 'broken'], User: 'app', WorkingDir: '/srv', Entrypoint: ['/bin/sh'], Cmd: ['-c', 'true'], Healthcheck: { Test: ['CMD-SHELL', 'true'], Interval: 2_000_000_000 } }
const runtime = { env: ['PATH=/bin', 'A=1'], user: 'app', workdir: '/srv', entrypoint: ['/bin/sh'], cmd: ['-c', 'true'], healthcheck: { test: ['CMD-SHELL', 'true'], interval_ms: 2000, timeout_ms: 0, start_period_ms: 0, retries: 0 } }
const image = makeImage({ layers: [[{ name: 'etc/', type: 'directory' }, { name: 'etc/hello', content: 'hello' }], [{ name: 'big', content: big }], [{ name: 'c', content: 'c' }]], config })

/** A registry and a puller of its own for one case; nothing is left of either. */
const withRegistry = (options, body, conf) => async () => {
  const registry = await Registry.start({ 'a/b:1': image }, options)
  const puller = new Puller(typeof conf === 'function' ? conf(registry) : conf ?? {})
  try {
    await body(registry, puller, `${registry.host}/a/b:1`)
  } finally {
    registry.stop()
    assert.equal(await puller.end(), 0, 'it ends by itself, in order')
  }
}
const layerUrl = (digest) => (rq) => rq.url.endsWith(`/blobs/${digest}`)
const isBig = layerUrl(image.layers[1].digest)
const fails = (got, kind, words) => {
  assert.equal(got.error?.kind, kind, JSON.stringify(got))
  assert.match(got.error.message, words)
}

test('an image is pulled, verified, opened and forgotten', withRegistry({}, async (registry, puller, name) => {
  const got = await puller.pull(name)
  assert.equal(got.ok, true, JSON.stringify(got))
  assert.equal(got.name, name)
  assert.equal(got.digest, image.digest)
  assert.deepEqual(got.config, runtime)
  assert.deepEqual(got.layers, image.layers)
  for (const layer of image.layers) {
    const opened = await puller.ask('open', { digest: layer.digest })
    assert.deepEqual([opened['@sha256'], opened['@bytes']], [layer.digest.slice(7), layer.bytes])
  }
  const before = registry.count(/blobs/)
  assert.equal((await puller.pull(name)).ok, true)
  assert.equal(registry.count(/blobs/), before + 1, 'only the configuration is fetched again')
  assert.equal((await puller.ask('forget', { digests: image.layers.map((l) => l.digest) })).ok, true)
  assert.deepEqual([puller.blobs(), puller.parts()], [[], []])
  fails(await puller.ask('open', { digest: image.layers[0].digest }), 'not_found', /no blob/)
}))

test('resolve gives the digest and the whole name, without a layer', withRegistry({}, async (registry, puller, name) => {
  const got = await puller.ask('resolve', { image: `${name} AS build` })
  assert.deepEqual([got.digest, got.name], [image.digest, name])
  assert.equal(registry.count(/blobs/), 0)
  const exact = await puller.ask('resolve', { image: `${registry.host}/a/b@${image.digest}` })
  assert.equal(exact.digest, image.digest)
}))

test('progress is told while layers come', withRegistry({
  before(rq, rs) {
    if (!isBig(rq)) return false
    const bytes = image.blobs.get(image.layers[1].digest)
    rs.writeHead(200, { 'Content-Length': bytes.length })
    rs.write(bytes.subarray(0, 1000000))
    setTimeout(() => rs.end(bytes.subarray(1000000)), 300)
    return true
  },
}, async (registry, puller, name) => {
  const got = await puller.pull(name)
  const total = image.layers.reduce((sum, l) => sum + l.bytes, 0)
  assert.ok(got.events.some((e) => e.event === 'progress' && e.done >= 1000000 && e.done < total && e.total === total), JSON.stringify(got.events))
}))

test('manifest lists: the machine\'s architecture is chosen, and its plainest variant', async (t) => {
  const other = makeImage({ layers: [[{ name: 'x', content: 'other' }]], arch: 's390x' })
  const newer = makeImage({ layers: [[{ name: 'x', content: 'v3' }]], kind: 'oci' })
  const registry = await Registry.start({
    'a/list:1': makeIndex([other, image]),
    'a/index:1': makeIndex([newer, image], { kind: 'index', variants: ['v3', null] }),
    'a/other:1': makeIndex([other]),
    'a/wrong:1': other,
  })
  t.after(() => registry.stop())
  const puller = new Puller()
  assert.equal((await puller.pull(`${registry.host}/a/list:1`)).digest, image.digest)
  assert.equal((await puller.pull(`${registry.host}/a/index:1`)).digest, image.digest)
  fails(await puller.pull(`${registry.host}/a/other:1`), 'not_found', /not made for linux\//)
  fails(await puller.pull(`${registry.host}/a/wrong:1`), 'invalid', /made for linux\/s390x, and this machine is linux\//)
  await puller.end()
})

test('zstd layers and plain layers of OCI images', async (t) => {
  const made = ['zstd', 'none'].map((compression) => makeImage({ kind: 'oci', compression, layers: [[{ name: 'z', content: compression.repeat(1000) }]] }))
  const registry = await Registry.start({ 'a/zstd:1': made[0], 'a/none:1': made[1] })
  t.after(() => registry.stop())
  const puller = new Puller()
  assert.deepEqual((await puller.pull(`${registry.host}/a/zstd:1`)).layers, made[0].layers)
  assert.deepEqual((await puller.pull(`${registry.host}/a/none:1`)).layers, made[1].layers)
  await puller.end()
})

test('names that no registry has', withRegistry({}, async (registry, puller) => {
  fails(await puller.pull(`${registry.host}/a/b:2`), 'not_found', /^image '127\.0\.0\.1:\d+\/a\/b:2' not found: .*404 MANIFEST_UNKNOWN/)
  assert.doesNotMatch((await puller.pull(`${registry.host}/a/b:2`)).error.message, /not shown/)
  fails(await puller.pull('Not A Name'), 'invalid', /image name/)
  fails(await puller.pull(''), 'invalid', /image name/)
  fails(await puller.ask('nonsense'), 'invalid', /op: unknown/)
  fails(await puller.ask('open', { digest: '../../etc/passwd' }), 'invalid', /digest/)
  fails(await puller.ask('load'), 'invalid', /no file/)
}))

test('a registry that is down', async () => {
  const registry = await Registry.start({})
  registry.stop()
  const puller = new Puller()
  fails(await puller.pull(`${registry.host}/a/b`), 'unavailable', /not reachable/)
  await puller.end()
})

test('a registry that never answers', withRegistry({ before: () => true }, async (registry, puller, name) => {
  fails(await puller.pull(name), 'timeout', /does not answer in time/)
}))

test('a registry that is busy is asked again', withRegistry({
  before(rq, rs, one, registry) {
    if (!isBig(rq) || registry.count(new RegExp(image.layers[1].digest)) > 2) return false
    rs.writeHead(registry.asked.length % 2 ? 503 : 429, { 'Retry-After': '0' }).end()
    return true
  },
}, async (registry, puller, name) => {
  assert.equal((await puller.pull(name)).ok, true)
  assert.equal(registry.count(new RegExp(image.layers[1].digest)), 3)
}))

test('a cut download goes on where it was cut', withRegistry({
  before(rq, rs, one, registry) {
    const times = registry.count(new RegExp(image.layers[1].digest))
    if (!isBig(rq) || times > 3) return false
    const bytes = image.blobs.get(image.layers[1].digest)
    const from = Number(/\d+/.exec(rq.headers.range ?? '0')[0])
    rs.writeHead(rq.headers.range ? 206 : 200, { 'Content-Length': bytes.length - from, ...(rq.headers.range ? { 'Content-Range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` } : {}) })
    rs.write(bytes.subarray(from, from + 700000), () => setTimeout(() => rs.destroy(), 50))
    return true
  },
}, async (registry, puller, name) => {
  assert.equal((await puller.pull(name)).ok, true)
  const ranges = registry.asked.filter((one) => isBig(one)).map((one) => Number(/\d+/.exec(one.range ?? '0')[0]))
  assert.equal(ranges.length, 4)
  for (let i = 1; i < 4; i++) assert.ok(ranges[i] > ranges[i - 1], `${ranges}`)
}))

test('a registry without ranges: the download begins again', withRegistry({
  ignoresRanges: true,
  before(rq, rs, one, registry) {
    const bytes = image.blobs.get(image.layers[1].digest)
    if (!isBig(rq) || registry.count(new RegExp(image.layers[1].digest)) > 1) return false
    rs.writeHead(200, { 'Content-Length': bytes.length })
    rs.write(bytes.subarray(0, 700000), () => setTimeout(() => rs.destroy(), 50))
    return true
  },
}, async (registry, puller, name) => {
  assert.equal((await puller.pull(name)).ok, true)
}))

test('a puller that ended in the middle leaves a part, and the next one goes on with it', async (t) => {
  const bytes = image.blobs.get(image.layers[1].digest)
  let cut = true
  const registry = await Registry.start({ 'a/b:1': image }, {
    before(rq, rs) {
      if (!isBig(rq) || !cut) return false
      rs.writeHead(200, { 'Content-Length': bytes.length })
      rs.write(bytes.subarray(0, 1500000))
      return true
    },
  })
  t.after(() => registry.stop())
  const dir = temporaryDir('puller')
  t.after(() => fs.rmSync(dir, { recursive: true }))
  const first = new Puller({}, dir)
  void first.pull(`${registry.host}/a/b:1`)
  const part = path.join(dir, 'blobs', `.tmp-${image.layers[1].digest.slice(7)}`)
  while (!fs.existsSync(part) || fs.statSync(part).size < 1500000) await new Promise((r) => setTimeout(r, 10))
  await first.end() // the channel is closed: the job is cancelled
  assert.ok(fs.existsSync(part))
  cut = false
  const second = new Puller({}, dir)
  assert.equal((await second.pull(`${registry.host}/a/b:1`)).ok, true)
  assert.equal(registry.asked.filter((one) => isBig(one)).at(-1).range, 'bytes=1500000-')
  assert.deepEqual(second.parts(), [])
  await second.end()
})

// ---- lies ----

const lie = (what, answer, words) => test(`a lie: ${what}`, withRegistry({
  before(rq, rs) {
    if (!isBig(rq)) return false
    answer(rs, image.blobs.get(image.layers[1].digest), rq)
    return true
  },
}, async (registry, puller, name) => {
  fails(await puller.pull(name), 'invalid', words)
  assert.equal(puller.blobs().includes(image.layers[1].digest.slice(7)), false)
  assert.deepEqual(puller.parts(), [], 'nothing of it is kept')
}))
lie('other bytes of the same size', (rs, bytes) => rs.end(Buffer.from(bytes).fill(7, 100, 200)), /does not match its digest/)
lie('more bytes than announced', (rs, bytes) => rs.writeHead(200, { 'Transfer-Encoding': 'chunked' }).end(Buffer.concat([bytes, Buffer.alloc(1)])), /more bytes than the manifest says/)
lie('another size in the head', (rs, bytes) => rs.writeHead(200, { 'Content-Length': bytes.length + 5 }).end(Buffer.concat([bytes, Buffer.alloc(5)])), /has \d+ bytes, the manifest says/)
lie('an early end without a cut', (rs, bytes) => rs.writeHead(200, { 'Transfer-Encoding': 'chunked' }).end(bytes.subarray(0, 1000)), /ends after 1000 of/)
lie('a page instead of a layer', (rs) => rs.writeHead(418).end('<html>'), /answers 418/)

test('lies about manifests and configurations', async (t) => {
  const broken = (change) => {
    const manifest = structuredClone(image.manifest)
    change(manifest)
    const bytes = Buffer.from(JSON.stringify(manifest))
    return { bytes, digest: sha256(bytes), type: image.type, blobs: image.blobs }
  }
  const cases = {
    schema1: [broken((m) => { m.schemaVersion = 1 }), /schemaVersion 2/],
    digest: [broken((m) => { m.layers[0].digest = 'sha256:../../x' }), /digest/],
    size: [broken((m) => { m.layers[0].size = -1 }), /size is not a number/],
    huge: [broken((m) => { m.layers[0].size = 2 ** 52 }), /more than allowed/],
    many: [broken((m) => { m.layers = Array(300).fill(m.layers[0]) }), /up to 256 layers/],
    fewer: [broken((m) => { m.layers.pop() }), /names 3 layers, the manifest 2/],
    foreign: [broken((m) => { m.layers[0].mediaType = 'application/vnd.docker.image.rootfs.foreign.diff.tar.gzip' }), /no archive of files/],
    chart: [broken((m) => { m.config.mediaType = 'application/vnd.cncf.helm.config.v1+json' }), /not of a container image/],
    configsize: [broken((m) => { m.config.size -= 1 }), /the configuration has/],
    text: [{ bytes: Buffer.from('<html>'), digest: sha256('<html>'), type: 'text/html' }, /not JSON/],
    deep: [{ bytes: Buffer.from('['.repeat(100000)), digest: 'x', type: 'x' }, /nested more than/],
    long: [{ bytes: Buffer.alloc(5 << 20, 32), digest: 'x', type: 'x' }, /longer than/],
  }
  const registry = await Registry.start(Object.fromEntries(Object.entries(cases).map(([name, [made]]) => [`a/${name}:1`, made])))
  t.after(() => registry.stop())
  const puller = new Puller()
  for (const [name, [, words]] of Object.entries(cases)) fails(await puller.pull(`${registry.host}/a/${name}:1`), 'invalid', words)
  registry.byName.set(`a/b/manifests/${image.digest}`, cases.fewer[0])
  fails(await puller.pull(`${registry.host}/a/b@${image.digest}`), 'invalid', /does not match its digest/)
  assert.deepEqual(puller.blobs(), [])
  await puller.end()
})

// ---- credentials and redirects ----

const auth = { type: 'registry', username: 'bob', password: 'secret' }
const basic = 'Basic ' + Buffer.from('bob:secret').toString('base64')
const wantsBasic = {
  before(rq, rs, one) {
    if (one.authorization === basic) return false
    rs.writeHead(401, { 'WWW-Authenticate': 'Basic realm="x"' }).end()
    return true
  },
}

test('basic credentials: taken, refused, missing', withRegistry(wantsBasic, async (registry, puller, name) => {
  assert.equal((await puller.pull(name, auth)).ok, true)
  assert.equal(registry.asked[0].authorization, undefined, 'not before the registry asks')
  fails(await puller.pull(name, { ...auth, password: 'wrong' }), 'denied', /refuses the credentials/)
  fails(await puller.pull(name), 'denied', /asks for credentials/)
  fails(await puller.pull(name, { type: 'registry', username: 'bob' }), 'invalid', /password is missing/)
  assert.doesNotMatch(puller.log, /secret|wrong/)
}))

test('the token flow: a token for this image, another when it has run out', async (t) => {
  let valid = 'Bearer t1'
  let given = 0
  const tokens = await Registry.start({}, {
    before(rq, rs, one) {
      if (one.authorization !== basic) rs.writeHead(401).end()
      else rs.end(JSON.stringify({ token: `t${++given}` }))
      return true
    },
  })
  const registry = await Registry.start({ 'a/b:1': image }, {
    before(rq, rs, one) {
      if (isBig(rq) && given === 1) valid = 'Bearer t2'
      if (one.authorization === valid) return false
      rs.writeHead(401, { 'WWW-Authenticate': `Bearer realm="${tokens.url}/token",service="reg",scope="repository:all:push"` }).end()
      return true
    },
  })
  t.after(() => { registry.stop(); tokens.stop() })
  const puller = new Puller()
  assert.equal((await puller.pull(`${registry.host}/a/b:1`, auth)).ok, true)
  assert.equal(tokens.asked[0].url, '/token?service=reg&scope=repository%3Aa%2Fb%3Apull', 'the scope is ours')
  assert.equal(given, 2)
  assert.ok(registry.asked.every((one) => !one.authorization?.startsWith('Basic')), 'the password goes to the token service only')
  fails(await puller.pull(`${registry.host}/a/b:1`), 'denied', /refuses the credentials/)
  await puller.end()
})

test('a token service elsewhere gets no password', async (t) => {
  const thief = await Registry.start({}, { before(rq, rs) { rs.writeHead(401).end(); return true } })
  const registry = await Registry.start({ 'a/b:1': image }, {
    before(rq, rs) { rs.writeHead(401, { 'WWW-Authenticate': `Bearer realm="http://localhost:${thief.port}/token"` }).end(); return true },
  })
  t.after(() => { registry.stop(); thief.stop() })
  const puller = new Puller()
  fails(await puller.pull(`${registry.host}/a/b:1`, auth), 'denied', /token service is 'localhost', and credentials for '127\.0\.0\.1' are not sent there/)
  assert.ok(thief.asked.length > 0 && thief.asked.every((one) => one.authorization === undefined))
  await puller.end()
})

test('redirects are followed, and credentials stay behind', async (t) => {
  const store = await Registry.start({ 'a/b:1': image })
  const registry = await Registry.start({ 'a/b:1': image }, {
    before(rq, rs, one) {
      if (wantsBasic.before(rq, rs, one)) return true
      if (!/\/blobs\//.test(rq.url)) return false
      rs.writeHead(307, { Location: `${store.url}${rq.url}` }).end()
      return true
    },
  })
  t.after(() => { registry.stop(); store.stop() })
  const puller = new Puller()
  assert.equal((await puller.pull(`${registry.host}/a/b:1`, auth)).ok, true)
  assert.equal(store.count(/blobs/), 4)
  assert.ok(store.asked.every((one) => one.authorization === undefined))
  await puller.end()
})

test('redirects that are not followed', async () => {
  for (const [location, words] of [
    ['http://example.com/x', /plain HTTP and not in insecure_registries/],
    ['ftp://127.0.0.1/x', /neither with https/],
    ['file:///etc/passwd', /neither with https/],
    ['http://u:p@127.0.0.1/x', /URL/],
  ]) {
    await withRegistry({ before(rq, rs) { if (!isBig(rq)) return false; rs.writeHead(302, { Location: location }).end(); return true } }, async (registry, puller, name) => {
      const got = await puller.pull(name)
      assert.match(got.error.kind, /denied|invalid/)
      assert.match(got.error.message, words)
    })()
  }
  await withRegistry({ before(rq, rs) { rs.writeHead(302, { Location: rq.url }).end(); return true } }, async (registry, puller, name) => {
    fails(await puller.pull(name), 'invalid', /from one place to the next/)
    assert.equal(registry.asked.length, 6)
  })()
})

test('mirrors are asked instead, and get no credentials', withRegistry({}, async (registry, puller) => {
  registry.add('library/tiny:latest', image)
  const got = await puller.pull('tiny', auth)
  assert.equal(got.name, 'docker.io/library/tiny:latest')
  assert.equal(got.ok, true, JSON.stringify(got))
  assert.ok(registry.asked.every((one) => one.authorization === undefined))
}, (registry) => ({ registries: { 'docker.io': registry.url } })))

test('other machines are not spoken to without encryption, unless the operator says so', async () => {
  const registry = await Registry.start({ 'a/b:1': image }, { before(rq, rs, one) { return wantsBasic.before(rq, rs, one) } })
  const puller = new Puller({ registry_proxy: registry.url, insecure_registries: ['plain.example:5000'] })
  registry.server.on('connect', (rq, socket) => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n'))
  fails(await puller.pull('other.example/a/b:1'), 'unavailable', /other\.example/)
  fails(await puller.pull('plain.example:5000/a/b:1', auth), 'denied', /credentials are not sent over plain HTTP/)
  assert.equal(registry.asked[0].url, 'http://plain.example:5000/v2/a/b/manifests/1', 'through the proxy')
  await puller.end()
  registry.stop()
})

test('ECR: a key of AWS is exchanged, by a signed request', async (t) => {
  const aws = await Registry.start({}, {
    before(rq, rs) { rs.end(JSON.stringify({ authorizationData: [{ authorizationToken: Buffer.from('bob:secret').toString('base64') }] })); return true },
  })
  const registry = await Registry.start({ 'a/b:1': image }, wantsBasic)
  t.after(() => { registry.stop(); aws.stop() })
  const puller = new Puller({ registry_aws_url: aws.url + '/', registry_proxy: registry.url })
  registry.server.on('connect', (rq, socket) => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n'))
  const key = { type: 'aws', awsAccessKeyId: 'AKID', awsSecretAccessKey: 'topsecret', awsRegion: 'eu-west-1' }
  assert.equal((await puller.pull(`${registry.host}/a/b:1`, key)).ok, true)
  const { headers } = aws.asked[0]
  assert.match(headers.authorization, /^AWS4-HMAC-SHA256 Credential=AKID\/\d{8}\/eu-west-1\/ecr\/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=[0-9a-f]{64}$/)
  assert.equal(headers['x-amz-target'], 'AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken')
  fails(await puller.pull('registry.example/a/b:1', key), 'unavailable', /./)
  assert.equal(aws.asked.length, 1, 'only when the registry asks, and for nobody else')
  await puller.end()
})

test('GCP: the key of a service account is exchanged, by a signed assertion', async (t) => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048, privateKeyEncoding: { type: 'pkcs8', format: 'pem' }, publicKeyEncoding: { type: 'spki', format: 'pem' } })
  let claims
  const google = await Registry.start({}, {
    before(rq, rs) {
      let body = ''
      rq.on('data', (piece) => { body += piece }).on('end', () => {
        const form = new URLSearchParams(body)
        const [head, payload, signature] = form.get('assertion').split('.')
        claims = JSON.parse(Buffer.from(payload, 'base64url'))
        const good = createVerify('RSA-SHA256').update(`${head}.${payload}`).verify(publicKey, Buffer.from(signature, 'base64url'))
        if (!good || form.get('grant_type') !== 'urn:ietf:params:oauth:grant-type:jwt-bearer') rs.writeHead(400).end()
        else rs.end(JSON.stringify({ access_token: 'google-token' }))
      })
      return true
    },
  })
  const registry = await Registry.start({ 'a/b:1': image }, {
    before(rq, rs, one) {
      if (one.authorization === 'Basic ' + Buffer.from('oauth2accesstoken:google-token').toString('base64')) return false
      rs.writeHead(401, { 'WWW-Authenticate': 'Basic realm="x"' }).end()
      return true
    },
  })
  t.after(() => { registry.stop(); google.stop() })
  const puller = new Puller({ registry_gcp_url: `${google.url}/token` })
  const account = (key) => ({ type: 'gcp', serviceAccountJson: JSON.stringify({ client_email: 'a@b.example', private_key: key, private_key_id: 'k' }) })
  assert.equal((await puller.pull(`${registry.host}/a/b:1`, account(privateKey))).ok, true)
  assert.equal(claims.iss, 'a@b.example')
  assert.equal(claims.aud, `${google.url}/token`)
  fails(await puller.pull(`${registry.host}/a/b:1`, account('none')), 'invalid', /private_key is not an RSA key/)
  fails(await puller.pull(`${registry.host}/a/b:1`, { type: 'gcp', serviceAccountJson: '{' }), 'invalid', /serviceAccountJson/)
  await puller.end()
})

// ---- archives ----

const withFile = async (bytes, body) => {
  const dir = temporaryDir('archive')
  const file = path.join(dir, 'image.tar')
  fs.writeFileSync(file, bytes)
  try { await body(file) } finally { fs.rmSync(dir, { recursive: true }) }
}

test('archives of docker and OCI layouts, plain and compressed', async () => {
  const plain = makeImage({ layers: [[{ name: 'a', content: 'a' }], [{ name: 'b', content: big }]], compression: 'none', config })
  const oci = makeImage({ layers: [[{ name: 'a', content: 'a' }], [{ name: 'b', content: 'b' }]], kind: 'oci' })
  for (const [bytes, made, name, digest] of [
    [dockerArchive(plain, ['tiny:1']), plain, 'docker.io/library/tiny:1', sha256(plain.configText)],
    [gzipSync(dockerArchive(plain, null)), plain, null, sha256(plain.configText)],
    [ociArchive(oci, 'example.com/tiny:2'), oci, 'example.com/tiny:2', oci.digest],
    [ociArchive(oci, 'latest'), oci, null, oci.digest],
  ]) {
    const puller = new Puller()
    await withFile(bytes, async (file) => {
      const got = await puller.ask('load', { '@file': file })
      assert.equal(got.ok, true, JSON.stringify(got))
      assert.equal(got.images.length, 1)
      assert.deepEqual([got.images[0].name, got.images[0].digest, got.images[0].layers], [name, digest, made.layers])
      assert.deepEqual(puller.blobs(), made.layers.map((l) => l.digest.slice(7)).sort(), 'only the layers stay')
      assert.deepEqual(puller.parts(), [])
    })
    await puller.end()
  }
})

test('archives that are none, damaged, or point elsewhere', async () => {
  const oci = makeImage({ layers: [[{ name: 'a', content: 'a' }]], kind: 'oci' })
  const changed = { ...oci, blobs: new Map([...oci.blobs].map(([digest, bytes]) => [digest, digest === oci.layers[0].digest ? Buffer.from('other') : bytes])) }
  const manifest = (m) => tar([{ name: 'c.json', content: oci.configText }, { name: 'manifest.json', content: JSON.stringify(m) }])
  for (const [bytes, words] of [
    [Buffer.from('no archive at all'), /damaged, or is no tar archive/],
    [tar([{ name: 'a', content: 'a' }]), /neither manifest\.json nor index\.json/],
    [ociArchive(oci).subarray(0, 3000), /damaged/],
    [gzipSync(ociArchive(oci)).subarray(0, 200), /damaged/],
    [ociArchive(changed), /has not the layer/],
    [manifest([{ Config: 'c.json', Layers: ['../../etc/passwd'] }]), /has not the layer/],
    [manifest([{ Config: '/etc/passwd', Layers: [] }]), /has no configuration/],
    [manifest({}), /not a JSON array/],
    [manifest([]), /names no image/],
    [tar([{ name: 'manifest.json', type: 'symlink', target: 'manifest.json' }]), /neither|has no/],
    [tar([{ name: 'manifest.json', type: 'symlink', target: '/etc/passwd' }]), /neither|has no/],
  ]) {
    const puller = new Puller()
    await withFile(bytes, async (file) => fails(await puller.ask('load', { '@file': file }), 'invalid', words))
    assert.deepEqual([puller.blobs(), puller.parts()], [[], []])
    await puller.end()
  }
})

test('layers that are links of another, as older programs save them', async () => {
  const plain = makeImage({ layers: [[{ name: 'a', content: 'a' }], [{ name: 'a', content: 'a' }]], compression: 'none' })
  const name = 'c.json'
  const bytes = tar([
    { name: 'one/layer.tar', content: plain.blobs.get(plain.layers[0].digest) },
    { name: 'two/layer.tar', type: 'symlink', target: '../one/layer.tar' },
    { name, content: plain.configText },
    { name: 'manifest.json', content: JSON.stringify([{ Config: name, RepoTags: null, Layers: ['one/layer.tar', 'two/layer.tar'] }]) },
  ])
  const puller = new Puller()
  await withFile(bytes, async (file) => assert.deepEqual((await puller.ask('load', { '@file': file })).images[0].layers, plain.layers))
  await puller.end()
})

// ---- a real one ----

test('Debian\'s docker-registry', { timeout: 60_000 }, async (t) => {
  const dir = temporaryDir('registry')
  fs.writeFileSync(path.join(dir, 'config.yml'), `version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: ${dir}/store}}\nhttp: {addr: 127.0.0.1:0, secret: x}\n`)
  const child = spawn('docker-registry', ['serve', path.join(dir, 'config.yml')], { stdio: ['ignore', 'pipe', 'pipe'] })
  t.after(() => { child.kill(); fs.rmSync(dir, { recursive: true, force: true }) })
  const port = await new Promise((resolve, reject) => {
    let text = ''
    const look = () => {
      const tables = ['tcp', 'tcp6'].flatMap((name) => fs.readFileSync(`/proc/${child.pid}/net/${name}`, 'utf8').split('\n').slice(1))
      const inodes = new Set(fs.readdirSync(`/proc/${child.pid}/fd`).map((fd) => { try { return /socket:\[(\d+)\]/.exec(fs.readlinkSync(`/proc/${child.pid}/fd/${fd}`))?.[1] } catch { return undefined } }))
      const mine = tables.map((line) => line.trim().split(/\s+/)).find((f) => f[3] === '0A' && inodes.has(f[9]))
      if (mine) resolve(parseInt(mine[1].split(':')[1], 16))
      else setTimeout(look, 50)
    }
    child.stderr.on('data', (piece) => { text += piece })
    child.on('error', reject)
    child.on('exit', (code) => reject(new Error(`docker-registry ended with ${code}: ${text}`)))
    setTimeout(look, 100)
  })
  const base = `http://127.0.0.1:${port}/v2/team/tiny`
  for (const [digest, bytes] of image.blobs) {
    const begun = await fetch(`${base}/blobs/uploads/`, { method: 'POST' })
    const to = new URL(begun.headers.get('location'), base)
    to.searchParams.set('digest', digest)
    assert.equal((await fetch(to, { method: 'PUT', body: bytes, headers: { 'Content-Type': 'application/octet-stream' } })).status, 201)
  }
  assert.equal((await fetch(`${base}/manifests/1.0`, { method: 'PUT', body: image.bytes, headers: { 'Content-Type': image.type } })).status, 201)
  const puller = new Puller()
  const got = await puller.pull(`127.0.0.1:${port}/team/tiny:1.0`)
  assert.deepEqual([got.digest, got.layers], [image.digest, image.layers])
  fails(await puller.pull(`127.0.0.1:${port}/team/tiny:2.0`), 'not_found', /MANIFEST_UNKNOWN/)
  await puller.end()
})

test('several pulls at once: each layer is fetched once, and one too many is refused', withRegistry({
  before(rq, rs, one, registry) {
    if (!isBig(rq)) return false
    setTimeout(() => registry.sendBlob(rq, rs, image.blobs.get(image.layers[1].digest)), 400)
    return true
  },
}, async (registry, puller, name) => {
  const all = await Promise.all(Array.from({ length: 9 }, () => puller.pull(name)))
  assert.equal(all.filter((got) => got.ok).length, 8)
  fails(all.find((got) => !got.ok), 'limit', /too many images/)
  assert.equal(registry.count(new RegExp(image.layers[1].digest)), 1)
}))
