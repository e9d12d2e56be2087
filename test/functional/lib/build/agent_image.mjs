// An image with the application of inside/agent, in Debian's own registry: a file system with node as one layer, the application as
// another.  The file system is made once, in build/test-cache.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { makeImage } from './image.mjs'
import { temporaryDir } from '../server.mjs'
import { until } from '../wait.mjs'

const cache = process.env.SANDGLASS_TEST_CACHE ?? fileURLToPath(new URL('../../../../build/test-cache', import.meta.url))
const suite = 'trixie'

function run(command, args, options = {}) {
  const r = spawnSync(command, args, { maxBuffer: 1 << 30, ...options })
  if (r.status !== 0) throw new Error(`${command} ${args.join(' ')}: ${r.error?.message ?? r.stderr}`)
  return r.stdout
}

/** A file that is made by `make(path)` at the first time. */
function kept(name, make) {
  const file = path.join(cache, name)
  if (!fs.existsSync(file)) {
    fs.mkdirSync(cache, { recursive: true })
    make(`${file}.new.tar`)
    fs.renameSync(`${file}.new.tar`, file)
  }
  return fs.readFileSync(file)
}

const makeSystem = (file) => {
  const lists = run('apt-get', ['indextargets', '--format', '$(REPO_URI)', 'Created-By: Packages', 'Component: main'], { encoding: 'utf8' })
  run('mmdebstrap', ['--quiet', '--variant=essential', '--include=nodejs,libnss-myhostname', '--dpkgopt=path-exclude=/usr/share/doc/*', suite, file, `deb ${lists.split('\n')[0]} ${suite} main`])
}

const makeApplication = (app) => (file) => {
  const dir = temporaryDir('image')
  fs.mkdirSync(path.join(dir, 'srv/agent'), { recursive: true })
  fs.cpSync(path.join(app, 'server'), path.join(dir, 'srv/agent/server'), { recursive: true })
  run('npm', ['install', '--prefix', path.join(dir, 'srv/agent'), '--no-audit', '--no-fund', '--loglevel=error', '@anthropic-ai/claude-agent-sdk', 'hono'])
  run('tar', ['-C', dir, '--owner=0', '--group=0', '-cf', file, 'srv'])
  fs.rmSync(dir, { recursive: true })
}

async function put(url, image, name) {
  for (const [digest, bytes] of image.blobs) {
    const begun = await fetch(`${url}/v2/${name}/blobs/uploads/`, { method: 'POST' })
    const to = new URL(begun.headers.get('location'), url)
    to.searchParams.set('digest', digest)
    const sent = await fetch(to, { method: 'PUT', body: bytes })
    if (sent.status !== 201) throw new Error(`upload of ${digest}: ${sent.status} ${await sent.text()}`)
  }
  const done = await fetch(`${url}/v2/${name}/manifests/1`, { method: 'PUT', body: image.bytes, headers: { 'Content-Type': image.type } })
  if (done.status !== 201) throw new Error(`manifest: ${done.status} ${await done.text()}`)
}

async function freePort() {
  const probe = net.createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address()
  await new Promise((done) => probe.close(done))
  return port
}

/** Run the body with the name of the image in a registry on loopback: "127.0.0.1:5000/test/agent:1". */
export async function withAgentImage(app, body) {
  const dir = temporaryDir('registry')
  const port = await freePort()
  fs.writeFileSync(path.join(dir, 'config.yml'), `version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: ${dir}/store\nhttp:\n  addr: 127.0.0.1:${port}\n`)
  const child = spawn('docker-registry', ['serve', path.join(dir, 'config.yml')], { stdio: 'ignore' })
  const ended = once(child, 'exit')
  try {
    const url = `http://127.0.0.1:${port}`
    await until('the registry', () => fetch(`${url}/v2/`).then((r) => r.ok, () => false))
    const layers = [kept(`agent-system-${suite}.tar`, makeSystem), kept('agent-with-sdk.tar', makeApplication(app))]
    await put(url, makeImage({ layers, config: { Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', 'FROM_IMAGE=yes'], WorkingDir: '/srv/agent', Cmd: ['node', 'server/index.js'] } }), 'test/agent')
    return await body(`127.0.0.1:${port}/test/agent:1`)
  } finally {
    child.kill()
    await ended
    fs.rmSync(dir, { recursive: true, force: true })
  }
}
