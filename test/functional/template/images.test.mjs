// `sandglass image`: images of registries and archives, kept on the server for builds.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import test, { after } from 'node:test'

import { dockerArchive, makeImage, ociArchive } from '../lib/build/image.mjs'
import { Registry } from '../lib/build/registry.mjs'
import { Server, binary, temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

const image = makeImage({
  layers: [
    [{ name: 'etc/', type: 'directory' }, { name: 'etc/hello', content: 'hello' }, { name: 'etc/gone', content: 'gone' }],
    [{ name: 'etc/', type: 'directory' }, { name: 'etc/.wh.gone', content: '' }, { name: 'big', content: Buffer.alloc(3 << 20, 'x') }],
  ],
  config: { Env: ['A=1'] },
})
const registry = await Registry.start({ 'a/b:1': image })
const dir = temporaryDir('images')
let server = await Server.start()
after(async () => {
  await server.cleanUp()
  registry.stop()
  fs.rmSync(dir, { recursive: true })
})

/** The command line, while our own registry answers: {status, stdout, stderr}. */
function run(args, { input, env = {} } = {}) {
  const child = spawn(binary, [...args.slice(0, 2), '--data', server.data, ...args.slice(2)], { env: { ...process.env, ...env } })
  const said = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) child[name].on('data', (text) => { said[name] += text })
  child.stdin.on('error', () => {}) // it may have had enough
  child.stdin.end(input)
  return new Promise((resolve) => child.on('close', (status) => resolve({ status, ...said })))
}
const list = async () => JSON.parse((await run(['image', 'list', '--json'])).stdout)
const blobs = () => fs.readdirSync(path.join(server.data, 'blobs/sha256'))
const saved = (bytes, name) => {
  fs.writeFileSync(path.join(dir, name), bytes)
  return path.join(dir, name)
}

test('an image is pulled, listed and removed; its downloads are not kept', async () => {
  const name = `${registry.host}/a/b:1`
  const pulled = await run(['image', 'pull', name])
  assert.equal(pulled.status, 0, pulled.stderr)
  assert.equal(pulled.stdout, `${name} ${image.digest}\n`)
  assert.match(pulled.stderr, /^unpacking layer 1 of 2 of /m)
  const [row] = await list()
  assert.deepEqual([row.name, row.digest, row.source, row.layers], [name, image.digest, 'registry', 3])
  assert.ok(Date.parse(row.createdAt) > Date.now() - 600_000)
  assert.match((await run(['image', 'list'])).stdout, new RegExp(`^NAME .*\n${name} `))
  await until('the downloads are removed', () => blobs().length === 0)
  const again = await run(['image', 'pull', '--json', name])
  assert.equal(JSON.parse(again.stdout)[0].digest, image.digest)
  assert.doesNotMatch(again.stderr, /unpacking/, 'its layers are known')
  assert.equal((await run(['image', 'rm', name])).status, 0)
  assert.deepEqual(await list(), [])
  assert.match((await run(['image', 'rm', name])).stderr, /there is no image/)
})

test('archives are loaded from files and from a pipe', async () => {
  const plain = makeImage({ layers: [[{ name: 'x', content: 'x' }]], compression: 'none' })
  const oci = makeImage({ layers: [[{ name: 'y', content: 'y' }]], kind: 'oci' })
  const loaded = await run(['image', 'load', saved(dockerArchive(plain, ['tiny:1']), 'docker.tar')])
  assert.equal(loaded.status, 0, loaded.stderr)
  assert.match(loaded.stdout, /^docker\.io\/library\/tiny:1 sha256:/)
  const piped = await run(['image', 'load', '-'], { input: ociArchive(oci, 'example.com/tiny:2') })
  assert.equal(piped.stdout, `example.com/tiny:2 ${oci.digest}\n`, piped.stderr)
  assert.deepEqual((await list()).map((one) => [one.name, one.source]).sort(), [['docker.io/library/tiny:1', 'archive'], ['example.com/tiny:2', 'archive']])
})

test('images survive a restart', async () => {
  const before = await list()
  assert.equal(before.length, 2)
  const { data } = server
  await server.stop()
  server = await Server.start({ data })
  server.keepsData = false // cleaned up at the end
  assert.deepEqual(await list(), before)
})

test('what goes wrong is said, with exit code 1, and leaves nothing', async () => {
  for (const [args, words, input] of [
    [['image', 'pull', `${registry.host}/a/b:2`], /not found: .*MANIFEST_UNKNOWN/],
    [['image', 'pull', 'Not-A-Name'], /image name/],
    [['image', 'load', saved('no archive', 'text')], /damaged, or is no tar archive/],
    [['image', 'load', saved(dockerArchive(image, null).subarray(0, 2000), 'cut.tar')], /damaged/],
    [['image', 'load', '-'], /damaged|no tar archive|neither/, Buffer.alloc(8 << 20, 'x')],
    [['image', 'load', path.join(dir, 'none')], /No such file/],
    [['image', 'rm', 'tiny:9'], /there is no image/],
    [['image', 'pull', '--user', 'bob', `${registry.host}/a/b:1`], /SANDGLASS_REGISTRY_PASSWORD/],
  ]) {
    const got = await run(args, { input })
    assert.equal(got.status, 1, `${args}: ${got.stderr}`)
    assert.match(got.stderr, words)
  }
  assert.equal((await run(['image', 'what'])).status, 2)
  assert.equal((await run(['image', 'pull'])).status, 2)
  await until('nothing is left', () => blobs().length === 0)
})

test('a layer that is not what the configuration says is refused', async () => {
  const other = makeImage({ layers: [[{ name: 'x', content: 'other' }]] })
  const config = JSON.parse(other.configText)
  config.rootfs.diff_ids = ['sha256:' + '0'.repeat(64)]
  const text = JSON.stringify(config)
  const name = 'c.json'
  const bytes = dockerArchive({ ...other, configText: Buffer.from(text) }, ['lying:1'])
  const got = await run(['image', 'load', saved(bytes, `${name}.tar`)])
  assert.equal(got.status, 1)
  assert.match(got.stderr, /does not match its digest/)
})

test('credentials are used, and only the operator may', async (t) => {
  const basic = 'Basic ' + Buffer.from('bob:secret').toString('base64')
  const guarded = await Registry.start({ 'a/b:1': image }, {
    before(rq, rs, one) {
      if (one.authorization === basic) return false
      rs.writeHead(401, { 'WWW-Authenticate': 'Basic realm="x"' }).end()
      return true
    },
  })
  t.after(() => guarded.stop())
  const name = `${guarded.host}/a/b:1`
  assert.match((await run(['image', 'pull', name])).stderr, /asks for credentials/)
  const got = await run(['image', 'pull', '--user', 'bob', name], { env: { SANDGLASS_REGISTRY_PASSWORD: 'secret' } })
  assert.equal(got.status, 0, got.stderr)
  assert.doesNotMatch(server.log, /secret/)
  const answer = await fetch(`${server.env.E2B_API_URL}/sandglass/images`, { headers: { 'X-API-Key': 'e2b_' + '0'.repeat(40) } })
  assert.equal(answer.status, 401)
})

test('a client that leaves ends its pull, and the next one goes on', async (t) => {
  let holds = true
  const bytes = image.blobs.get(image.layers[1].digest)
  const slow = await Registry.start({ 'a/slow:1': image }, {
    before(rq, rs) {
      if (!holds || !rq.url.endsWith(image.layers[1].digest)) return false
      rs.writeHead(200, { 'Content-Length': bytes.length })
      rs.write(bytes.subarray(0, 1000))
      return true
    },
  })
  t.after(() => slow.stop())
  const name = `${slow.host}/a/slow:1`
  const child = spawn(binary, ['image', 'pull', '--data', server.data, name], { stdio: 'ignore' })
  const part = path.join(server.data, 'blobs', `.tmp-${image.layers[1].digest.slice(7)}`)
  await until('the first bytes are here', () => fs.existsSync(part) && fs.statSync(part).size === 1000)
  child.kill('SIGKILL')
  await until('the connection to the registry is closed', () => new Promise((done) => slow.server.getConnections((e, n) => done(n === 0))))
  holds = false
  assert.equal((await run(['image', 'pull', name])).status, 0)
  assert.equal(slow.asked.at(-1).range, 'bytes=1000-')
})
