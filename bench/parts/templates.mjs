// Building templates, and sandboxes of what was built: rebuilds, one changed step, large layers, many layers, started servers.
import { spawn, spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { keptServer } from '../../test/functional/lib/kept_server.mjs'
import { api, createRaw, envd, killRaw } from '../../test/functional/lib/raw.mjs'
import { firstUse } from '../../test/functional/lib/build/ready_made.mjs'
import { binary, temporaryDir } from '../../test/functional/lib/server.mjs'
import { until } from '../../test/functional/lib/wait.mjs'
import { hideUnified } from './others.mjs'
import { row } from '../table.mjs'

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
const RUN = (command) => ({ type: 'RUN', args: [command, 'root'], force: false })
const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0

async function must(answer, status) {
  const got = await answer
  if (got.status !== status) throw new Error(`${got.status} ${got.body}`)
  return got.json
}

/** From the first request of a build until it is ready, in microseconds. */
async function build(server, name, request) {
  const t = performance.now()
  const { templateID, buildID } = await must(api(server, 'POST', '/v3/templates', { body: { name } }), 202)
  await must(api(server, 'POST', `/v2/templates/${templateID}/builds/${buildID}`, { body: { fromTemplate: 'base', ...request } }), 202)
  for (;;) {
    const { status, reason } = await must(api(server, 'GET', `/templates/${templateID}/builds/${buildID}/status?logsOffset=0&limit=1`), 200)
    if (status === 'error') throw new Error(`build of ${name}: ${reason.message}`)
    if (status === 'ready') return (performance.now() - t) * 1000
    await new Promise((done) => setTimeout(done, 2))
  }
}

async function repeated(n, body) {
  const list = []
  for (let i = -1; i < n; i++) {
    const value = await body(i)
    if (i >= 0) list.push(value) // the first one does not count
  }
  return median(list)
}

/** How long the command takes by itself, in a sandbox that runs already. */
async function commandTime(server, prepare, command, n) {
  const sandbox = await createRaw(server)
  const run = (script) => {
    const message = Buffer.from(JSON.stringify({ process: { cmd: '/bin/bash', args: ['-l', '-c', script] }, stdin: false }))
    const head = Buffer.alloc(5)
    head.writeUInt32BE(message.length, 1)
    return must(envd(server, sandbox, 'POST', '/process.Process/Start', { body: Buffer.concat([head, message]), headers: { 'Content-Type': 'application/connect+json', Authorization: `Basic ${Buffer.from('root:').toString('base64')}` } }), 200)
  }
  try {
    await run(prepare)
    return await repeated(n, async (i) => {
      const t = performance.now()
      await run(command(i))
      return (performance.now() - t) * 1000
    })
  } finally {
    await killRaw(server, sandbox.sandboxID)
  }
}

/** Create, then until the body is done. */
async function createTime(server, templateID, n, body = async () => {}, before = async () => {}, create = createRaw) {
  return repeated(n, async () => {
    await before()
    const t = performance.now()
    const sandbox = await create(server, { templateID })
    await body(sandbox)
    const took = (performance.now() - t) * 1000
    await killRaw(server, sandbox.sandboxID)
    return took
  })
}

const steps = ['echo one > /one', 'mkdir -p /srv/app && echo two > /srv/app/two', 'head -c 50000000 /dev/urandom > /srv/big', 'echo four > /four']

async function measureRebuilds(server, quick) {
  const n = quick ? 3 : 10
  const first = await build(server, 'bench-steps', { steps: steps.map(RUN) })
  const cached = await repeated(n, () => build(server, 'bench-steps', { steps: steps.map(RUN) }))
  const changed = await repeated(n, (i) => build(server, 'bench-steps', { steps: [...steps, `: ${i}-${Date.now()}`].map(RUN) }))
  const copy = (i) => `cp /srv/big /srv/copy${i}-${Date.now()}`
  const large = await repeated(n, (i) => build(server, 'bench-steps', { steps: [...steps, copy(i)].map(RUN) }))
  const command = await commandTime(server, 'true', (i) => `: ${i}`, n)
  const copying = await commandTime(server, steps[2].replace('>', '> /tmp/x; mkdir -p /srv; cat /tmp/x >'), copy, n)
  return { first, cached, changedStep: changed - cached - command, largeLayer: large - changed - copying + command, changed, large, command, copying }
}

async function measureLayers(server, quick) {
  const n = quick ? 20 : 100
  await build(server, 'bench-layers', { steps: Array.from({ length: 30 }, (_, i) => RUN(`mkdir -p /srv/${i} && echo ${i} > /srv/${i}/file`)) })
  return { base: await createTime(server, 'base', n), layers30: await createTime(server, 'bench-layers', n) }
}

/** A create as the agent API has it, which writes credentials and the tokens of services; what it answers, as createRaw() does. */
async function createByAgent(server, { templateID }) {
  const { sandbox_id, mcp_token, code_url } = await must(api(server, 'POST', '/api/v1/agent/sandboxes', { body: { template_id: templateID }, key: null, headers: { Authorization: `Bearer ${server.key}` } }), 201)
  return { sandboxID: sandbox_id, mcpToken: mcp_token, codeUrl: code_url }
}

/** From a create until `ask` has its answers, in microseconds: by restore, and where sandboxes are restored ahead. */
async function measureAhead(server, templateID, n, ask, create = createRaw) {
  const first = await createRaw(server, { templateID }) // from here on some are restored ahead
  const image = await api(server, 'POST', `/sandboxes/${first.sandboxID}/snapshots`, { body: {} }) // of which none is
  const restored = await createTime(server, image.json.snapshotID, n, ask, undefined, create)
  await killRaw(server, first.sandboxID)
  await api(server, 'DELETE', `/templates/${encodeURIComponent(image.json.snapshotID)}`)
  const isAhead = async () => (await api(server, 'GET', '/sandglass/ahead')).json.standbys.ready >= 2
  const handedOver = await createTime(server, templateID, n, ask, () => until('standbys', isAhead, 30_000), create)
  return { handedOver, restored }
}

/** A port of the sandbox answers with this status. */
async function mustAnswer(server, sandbox, port, path, wanted, headers = {}) {
  const { status } = await api(server, 'GET', path, { key: null, headers: { 'E2b-Sandbox-Id': sandbox.sandboxID, 'E2b-Sandbox-Port': String(port), ...headers } })
  if (status !== wanted) throw new Error(`port ${port} answers ${status}`)
}

async function measureStarted(server, quick) {
  const program = 'require("http").createServer((q, a) => a.end("up")).listen(3000)'
  await build(server, 'bench-started', { startCmd: `node -e '${program}'`, readyCmd: { waitForPort: 3000 } })
  return measureAhead(server, 'bench-started', quick ? 10 : 40, (sandbox) => mustAnswer(server, sandbox, 3000, '/', 200))
}

/** As an agent's backend uses it: with a credential, and both services let in who has their tokens (the tools then miss a session: 400). */
async function measureAgentCreate(server, n) {
  const credential = (method, body) => api(server, method, '/sandglass/credentials/openai', { body })
  const token = ({ codeUrl }) => new URL(codeUrl).search
  const both = (sandbox) =>
    Promise.all([mustAnswer(server, sandbox, 9000, `/${token(sandbox)}`, 303), mustAnswer(server, sandbox, 6060, '/mcp', 400, { Authorization: `Bearer ${sandbox.mcpToken}` })])
  await must(credential('PUT', { value: 'sk-bench' }), 204)
  try {
    return await measureAhead(server, 'agents-backend-sandbox', n, both, createByAgent)
  } finally {
    await must(credential('DELETE'), 204)
  }
}

/** The ready-made template agents-backend-sandbox, on a server whose layers are kept: VS Code refuses, since there is no token yet. */
export async function measureWorkplace({ quick, result, rows }) {
  const server = await keptServer('workplace')
  try {
    await firstUse(server, 'agents-backend-sandbox')
    const both = (sandbox) => Promise.all([mustAnswer(server, sandbox, 9000, '/', 401), mustAnswer(server, sandbox, 6060, '/health', 200)])
    const { handedOver, restored } = await measureAhead(server, 'agents-backend-sandbox', quick ? 10 : 40, both)
    const byAgent = await measureAgentCreate(server, quick ? 10 : 40)
    result.figures.workplace = { handedOver, restored, byAgent }
    rows.push(
      row('create with VS Code and tools → both answer', restored, 'us', { atMost: 300_000 }),
      row('create with VS Code and tools, restored ahead → both answer', handedOver, 'us', { atMost: 30_000, floor: restored, floorName: 'by restore' }),
      row('agent API: create with tokens and a credential → both answer', byAgent.restored, 'us', { atMost: 300_000, floor: restored, floorName: 'without them' }),
      row('agent API: the same, restored ahead', byAgent.handedOver, 'us', { atMost: 30_000, floor: handedOver, floorName: 'without them' }),
    )
  } finally {
    await server.cleanUp()
  }
}

/** An archive as `docker save` writes it, with one layer; `mark` makes the layer another one. */
function writeArchive(dir, mark) {
  const shell = (script) => spawnSync('sh', ['-ec', script], { cwd: dir, encoding: 'utf8' })
  fs.writeFileSync(path.join(dir, 'mark'), mark)
  const sum = shell('cp layer.tar marked.tar; tar -rf marked.tar mark; sha256sum marked.tar').stdout.split(' ')[0]
  fs.writeFileSync(path.join(dir, 'config.json'), JSON.stringify({ architecture: process.arch === 'arm64' ? 'arm64' : 'amd64', os: 'linux', config: {}, rootfs: { type: 'layers', diff_ids: [`sha256:${sum}`] } }))
  fs.writeFileSync(path.join(dir, 'manifest.json'), JSON.stringify([{ Config: 'config.json', RepoTags: ['bench-unpack:1'], Layers: ['marked.tar'] }]))
  shell('tar -cf image.tar manifest.json config.json marked.tar')
}

/** From the start of unpacking until the image can be used, in microseconds. */
function loadTime(server, file) {
  const child = spawn(binary, ['image', 'load', '--data', server.data, file])
  let started, said = ''
  child.stderr.on('data', (text) => {
    said += text
    if (!started && said.includes('unpacking layer 1 of 1')) started = performance.now()
  })
  return new Promise((done, fail) => child.on('close', (status) => (status === 0 && started ? done((performance.now() - started) * 1000) : fail(new Error(`image load: ${said}`)))))
}

/** A layer with libraries and programs of the base: unpacked by the server, and by tar; both until the files are on disk. */
async function measureUnpack(server, layer, quick) {
  const dir = temporaryDir('unpack')
  const n = quick ? 3 : 5
  try {
    spawnSync('tar', ['-cf', path.join(dir, 'layer.tar'), '-C', layer, 'usr/lib', 'usr/bin'])
    const ours = await repeated(n, async (i) => {
      writeArchive(dir, `${i} ${Date.now()}`)
      return loadTime(server, path.join(dir, 'image.tar'))
    })
    const tar = await repeated(n, async () => {
      const t = performance.now()
      spawnSync('sh', ['-c', 'mkdir out && tar -xf layer.tar --numeric-owner -C out && sync -f out'], { cwd: dir })
      const took = (performance.now() - t) * 1000
      fs.rmSync(path.join(dir, 'out'), { recursive: true })
      return took
    })
    return { ours, tar, bytes: fs.statSync(path.join(dir, 'layer.tar')).size }
  } finally {
    fs.rmSync(dir, { recursive: true, force: true })
  }
}

/** The same steps by buildah, on an empty image with the /usr of the base mounted: {first, cached, changed} or {error}. */
async function buildah({ execute, layer, quick }) {
  if (!has('buildah')) return { error: 'buildah is not installed' }
  const dir = temporaryDir('buildah')
  const tool = `buildah --root ${dir}/root --runroot ${dir}/run`
  const runtime = has('runc') ? '--runtime runc' : ''
  const volumes = ['/usr:/usr', '/usr/lib:/lib', '/usr/lib64:/lib64', '/usr/bin:/bin'].map((v) => `-v ${layer}${v}:ro`).join(' ')
  const once = async (more = []) => {
    fs.writeFileSync(path.join(dir, 'Dockerfile'), `FROM scratch\n${[...steps, ...more].map((s) => `RUN ${s}\n`).join('')}`)
    const t = performance.now()
    const r = await execute(['unshare', '-m', 'sh', '-c', `${hideUnified}exec ${tool} build -q --layers ${runtime} --isolation oci --network none ${volumes} -t bench ${dir}`])
    if (r.status !== 0) throw new Error(r.stderr.trim().split('\n').at(-1))
    return (performance.now() - t) * 1000
  }
  try {
    const first = await once()
    const n = quick ? 2 : 5
    return { first, cached: await repeated(n, () => once()), changed: await repeated(n, (i) => once([`: ${i}-${Date.now()}`])) }
  } catch (e) {
    return { error: e.message }
  } finally {
    await execute(['sh', '-c', `${tool} rm --all; ${tool} rmi --all --force`])
    fs.rmSync(dir, { recursive: true, force: true })
  }
}

export async function measureTemplates({ server, execute, layer, quick, result, rows }) {
  const rebuilds = await measureRebuilds(server, quick)
  const layers = await measureLayers(server, quick)
  const started = await measureStarted(server, quick)
  const unpacked = await measureUnpack(server, layer, quick)
  const peer = await buildah({ execute, layer, quick })
  result.figures.templates = { rebuilds, layers, started, unpacked, buildah: peer }
  const beside = (value) => (value ? { floor: value, floorName: 'buildah, same steps' } : { note: peer.error })
  rows.push(
    row('template: four steps, one of them 50 MB', rebuilds.first, 'us', beside(peer.first)),
    row('template: rebuild, everything cached', rebuilds.cached, 'us', { atMost: 300_000, ...beside(peer.cached) }),
    row('template: rebuild, one more step', rebuilds.changed, 'us', beside(peer.changed)),
    row('template: what a step adds to its command', rebuilds.changedStep, 'us', { atMost: 50_000 }),
    row('template: what a layer of 50 MB adds', rebuilds.largeLayer, 'us', { atMost: 200_000 }),
    row('create from a template with 30 layers', layers.layers30, 'us', { floor: layers.base, floorName: 'from base', ratioAtMost: 1.5 }),
    row('create from a started server → its answer', started.restored, 'us', { atMost: 60_000 }),
    row('create from a started server, restored ahead → its answer', started.handedOver, 'us', { atMost: 20_000, floor: started.restored, floorName: 'by restore', ratioAtMost: 0.6 }),
    row(`image: a layer of ${Math.round(unpacked.bytes / 1e6)} MB unpacked, on disk`, unpacked.ours, 'us', { floor: unpacked.tar, floorName: 'tar -x and a flush', ratioAtMost: 1.25 }),
  )
}
