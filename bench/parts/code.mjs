// The code interpreter beside plain jupyter_client, which drives the same kernel inside the same kind of sandbox; and how soon a new
// sandbox of its template answers.
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { createRequire } from 'node:module'

import { sandboxPids } from '../../test/functional/lib/census.mjs'
import { codeServer, templateOfCode } from '../../test/functional/lib/code/suite.mjs'
import { keptServer } from '../../test/functional/lib/kept_server.mjs'
import { processInfo } from '../../test/functional/lib/proc.mjs'
import { api, createRaw, killRaw } from '../../test/functional/lib/raw.mjs'
import { clientEnvironment } from '../../test/functional/lib/suite.mjs'
import { until } from '../../test/functional/lib/wait.mjs'
import { row } from '../table.mjs'
import { measureIdle } from './idle.mjs'

const here = path.dirname(fileURLToPath(import.meta.url))
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
const microseconds = async (body) => {
  const t = performance.now()
  await body()
  return (performance.now() - t) * 1000
}

/** One execution through the edge and the service, on a kept connection: {text, size of what was printed}. */
function execute(server, agent, sandboxID, code) {
  const body = JSON.stringify({ code })
  const headers = { 'E2b-Sandbox-Id': sandboxID, 'E2b-Sandbox-Port': '49999', 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) }
  return new Promise((done, fail) => {
    const rq = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path: '/execute', agent, headers }, (answer) => {
      let rest = ''
      let size = 0
      let text, last
      answer.setEncoding('latin1').on('data', (piece) => {
        const lines = (rest + piece).split('\n')
        rest = lines.pop()
        for (const line of lines) {
          const event = JSON.parse(line)
          if (event.type === 'stdout') size += event.text.length
          else if (event.type === 'result') text = event.text
          last = event.type
        }
      })
      answer.on('error', fail)
      answer.on('end', () => (answer.statusCode === 200 && last === 'end_of_execution' ? done({ text, size }) : fail(new Error(`/execute: ${answer.statusCode} ${rest || last}`))))
    })
    rq.on('error', fail)
    rq.end(body)
  })
}

async function must(answer, wanted) {
  const { text } = await answer
  if (text !== wanted) throw new Error(`the answer is ${text}, not ${wanted}`)
}

/** The npm client of the code interpreter, for this server. */
function codeClient(server) {
  Object.assign(process.env, clientEnvironment(server, 'http'))
  const require = createRequire(new URL('../../test/functional/package.json', import.meta.url))
  return import(pathToFileURL(require.resolve('@e2b/code-interpreter')))
}

/** jupyter_client in a sandbox of its own: ask(what, count) has it measure. */
async function startPeer(server, sandbox) {
  const port = 8500
  await sandbox.files.write('/tmp/peer.py', fs.readFileSync(path.join(here, 'peer.py'), 'utf8'))
  await sandbox.commands.run(`exec python3 /tmp/peer.py ${port}`, { user: 'root', cwd: '/home/user', background: true, timeoutMs: 0 })
  const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': String(port) }
  const ask = async (what, count) => {
    const { status, body, json } = await api(server, 'GET', `/${what}/${count}`, { key: null, headers })
    if (status !== 200) throw new Error(`jupyter_client: ${status} ${body}`)
    return json
  }
  await until('jupyter_client and its kernel', () => ask('calls', 1).then(() => true, () => false), 120_000)
  return ask
}

/** Both sides and the npm client in short turns, so that a busy moment of the machine meets all. */
async function measureCalls(server, Sandbox, quick) {
  const turns = quick ? 10 : 40
  const calls = 10
  const mbytes = quick ? 5 : 20
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const ours = await Sandbox.create({ timeoutMs: 3_600_000 })
  const beside = await Sandbox.create({ timeoutMs: 3_600_000 })
  const figures = { mbytes, raw: [], npm: [], peer: [], output: [], peerOutput: [] }
  try {
    const ask = await startPeer(server, beside)
    for (let turn = -1; turn < turns; turn++) {
      const times = { peer: await ask('calls', calls), raw: [], npm: [] }
      for (let i = 0; i < calls; i++) times.raw.push(await microseconds(() => must(execute(server, agent, ours.sandboxId, '1+1'), '2')))
      for (let i = 0; i < calls; i++) times.npm.push(await microseconds(() => must(ours.runCode('1+1'), '2')))
      if (turn >= 0) for (const [side, list] of Object.entries(times)) figures[side].push(...list) // the first one does not count
    }
    for (let turn = 0; turn < (quick ? 3 : 5); turn++) {
      figures.peerOutput.push(await ask('output', mbytes))
      let size
      figures.output.push(await microseconds(async () => ({ size } = await execute(server, agent, ours.sandboxId, `for i in range(${mbytes * 10_000}): print('${'x'.repeat(99)}')`))))
      if (size !== mbytes * 1e6) throw new Error(`${size} bytes of ${mbytes} MB came`)
    }
    figures.serviceKib = serviceMemory(server, ours.sandboxId)
  } finally {
    agent.destroy()
    await ours.kill()
    await beside.kill()
  }
  return figures
}

/** KiB of the service, after all of the above. Its kernels are not counted. */
function serviceMemory(server, sandboxID) {
  const pid = sandboxPids(server, sandboxID).find((p) => processInfo(p)?.args[0]?.endsWith('/sandglass-interpreter'))
  if (!pid) throw new Error('the service is not among the processes of the sandbox')
  return Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1])
}

const STANDBYS = 2 // as configured by default
const ahead = async (server) => (await api(server, 'GET', '/sandglass/ahead')).json.standbys

/** Create, and create until the first answer of its python, in microseconds; before(): what each waits for first. */
async function measureFirst(server, n, before) {
  const times = { create: [], answer: [] }
  for (let i = -2; i < n; i++) {
    await before()
    const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
    let sandbox
    const create = await microseconds(async () => (sandbox = await createRaw(server, { templateID: templateOfCode })))
    const first = await microseconds(() => must(execute(server, agent, sandbox.sandboxID, '1+1'), '2'))
    agent.destroy()
    await killRaw(server, sandbox.sandboxID)
    if (i < 0) continue
    times.create.push(create)
    times.answer.push(create + first)
  }
  return times
}

async function withStandbys(quick) {
  const server = await codeServer()
  try {
    const { Sandbox } = await codeClient(server)
    const calls = await measureCalls(server, Sandbox, quick)
    const taken = (await ahead(server)).hits
    const n = quick ? 10 : 40
    const first = await measureFirst(server, n, () => until('all standbys: none is being made', async () => (await ahead(server)).ready === STANDBYS, 120_000, 20))
    return { calls, first, handedOver: (await ahead(server)).hits - taken, creates: n + 2 }
  } finally {
    await server.cleanUp()
  }
}

async function withoutStandbys(quick) {
  const server = await keptServer('code', { settings: { standbys: 0 } })
  try {
    return await measureFirst(server, quick ? 10 : 40, async () => {})
  } finally {
    await server.cleanUp()
  }
}

export async function measureCode({ quick, result, rows }) {
  const warm = await withStandbys(quick)
  const restored = await withoutStandbys(quick)
  const idle = await measureIdle()
  const { calls } = warm
  result.figures.code = { ...warm, restored, idle }
  const peer = median(calls.peer)
  const rate = (times) => (calls.mbytes * 1e6) / median(times)
  const beside = { floor: peer, floorName: 'jupyter_client, same kernel', atMost: peer + 2000 }
  const created = (times) => `create alone ${(median(times.create) / 1000).toFixed(1)} ms`
  const handedOver = warm.handedOver === warm.creates ? '' : `, ${warm.handedOver} of ${warm.creates} were standbys`
  rows.push(
    row("code: runCode('1+1'), npm client", median(calls.npm), 'us', beside),
    row("code: '1+1' through edge and service, raw HTTP", median(calls.raw), 'us', beside),
    row(`code: ${calls.mbytes} MB printed line by line, raw HTTP`, rate(calls.output), 'mbs', { floor: rate(calls.peerOutput), floorName: 'jupyter_client, same kernel', ratioAtLeast: 0.8 }),
    row('code: create → first answer, from a standby', median(warm.first.answer), 'us', { atMost: 20_000, note: created(warm.first) + handedOver }),
    row('code: create → first answer, by restore', median(restored.answer), 'us', { atMost: 200_000, note: created(restored) }),
    row('code: memory of the service', calls.serviceKib, 'kib', { atMost: 8 * 1024 }),
    row(`code: memory of the service for each of ${idle.contexts} idle contexts`, idle.kib, 'kib', { atMost: 160, note: 'their kernels not counted' }),
    row(`code: processor time of the service with ${idle.contexts} idle contexts, in each second`, idle.nsPerSecond / 1000, 'us', { atMost: 1000 }),
  )
}
