// The data plane: commands with much output, large files, and what they leave in memory.
import { createHash } from 'node:crypto'
import fs from 'node:fs'

import { createRaw, envd, killRaw } from '../../test/functional/lib/raw.mjs'
import { temporaryDir } from '../../test/functional/lib/server.mjs'
import { row } from '../table.mjs'

const rssKib = (pid) => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1])
const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
const headers = (sandbox) => [`E2b-Sandbox-Id: ${sandbox.sandboxID}`, 'E2b-Sandbox-Port: 49983', `X-Access-Token: ${sandbox.envdAccessToken}`].flatMap((h) => ['-H', h])
const envdPid = (server, sandbox) => JSON.parse(fs.readFileSync(server.file(`sandboxes/${sandbox.sandboxID}/running.json`), 'utf8')).pid

/** Memory of the processes that carry the bytes: how much more there is after (or, sampled, during) the work. */
async function memoryGrowth(server, sandbox, work) {
  const pids = [envdPid(server, sandbox), ...server.roles().edge]
  const before = pids.map(rssKib)
  let most = 0
  const sample = () => (most = Math.max(most, pids.reduce((sum, pid, i) => sum + rssKib(pid) - before[i], 0)))
  const timer = setInterval(sample, 20)
  try {
    const value = await work()
    sample()
    return { value, kib: Math.max(0, most) }
  } finally {
    clearInterval(timer)
  }
}

/** 200 MB written by a command: to a raw client, and to the npm client. */
export async function measureOutput({ server, measure, quick, npmClient, result, rows }) {
  const mbytes = quick ? 50 : 200
  const sandbox = await createRaw(server)
  const run = (mb) => measure('bulk', ['-p', String(server.port), ...headers(sandbox), '-m', String(mb), 'output'])
  await run(10)
  const times = []
  const raw = await memoryGrowth(server, sandbox, async () => times.push((await run(mbytes)).took)) // the newest MiB is kept
  for (let i = 0; i < 2; i++) times.push((await run(mbytes)).took)
  await killRaw(server, sandbox.sandboxID)
  const rate = (mbytes * 1e6) / median(times)
  const { Sandbox } = await npmClient()
  const own = await Sandbox.create()
  const want = createHash('sha256')
  const got = createHash('sha256')
  let count = 0
  const line = 'x'.repeat(99) + '\n'
  for (let i = 0; i < mbytes * 1e4; i++) want.update(line)
  const t = performance.now()
  await own.commands.run(`yes ${'x'.repeat(99)} | head -c ${mbytes * 1e6}`, { timeoutMs: 600_000, onStdout: (text) => { count += text.length; got.update(text) } })
  const took = (performance.now() - t) * 1000
  await own.kill()
  if (count !== mbytes * 1e6 || got.digest('hex') !== want.digest('hex')) throw new Error(`the npm client got ${count} of ${mbytes * 1e6} bytes`)
  result.figures.output = { mbytes, raw: times, memoryKib: raw.kib, npm: took }
  rows.push(
    row(`output of a command, ${mbytes} MB, raw HTTP`, rate, 'mbs', { atLeast: 150 }),
    row('memory of edge and envd, more while it streams', raw.kib, 'kib', { atMost: 4096 }),
    row(`output of a command, ${mbytes} MB, npm client`, (mbytes * 1e6) / took, 'mbs', { note: 'every byte checked' }),
  )
}

/** 1 GiB in and out, and the same with nginx (PUT into a file, GET of it), in turn; the best of each counts. */
export async function measureBig({ server, measure, quick, withNginxFiles, result, rows }) {
  const mbytes = quick ? 256 : 1024
  const rounds = quick ? 3 : 5
  const sandbox = await createRaw(server)
  const places = { ours: { port: server.port, args: [...headers(sandbox), '-H', 'Content-Type: application/octet-stream'], method: 'POST', target: '/files?path=/tmp/big' } }
  const times = { ours: { up: [], down: [] }, nginx: { up: [], down: [] } }
  const bulk = async (name, key, ...mode) => {
    const { port, args, target } = places[name]
    times[name][key].push((await measure('bulk', ['-p', String(port), ...args, '-m', String(mbytes), ...mode, target])).took)
  }
  const all = async () => {
    for (let i = 0; i < rounds; i++) for (const name of Object.keys(places)) await bulk(name, 'up', 'upload', places[name].method)
    for (let i = 0; i < rounds; i++) for (const name of Object.keys(places)) await bulk(name, 'down', 'download')
  }
  const dir = temporaryDir('nginx-files')
  fs.chmodSync(dir, 0o777)
  const { kib } = await memoryGrowth(server, sandbox, () =>
    withNginxFiles ? withNginxFiles(dir, (port) => ((places.nginx = { port, args: [], method: 'PUT', target: '/big' }), all())) : all())
  fs.rmSync(dir, { recursive: true, force: true })
  await killRaw(server, sandbox.sandboxID)
  const rate = (name, key) => (times[name][key].length ? (mbytes * 1048576) / Math.min(...times[name][key]) : undefined)
  const against = (key) => (places.nginx ? { floor: rate('nginx', key), floorName: 'nginx', ratioAtLeast: 0.7 } : { note: 'nginx not installed' })
  result.figures.big = { mbytes, times, memoryKib: kib }
  rows.push(
    row(`upload of ${mbytes} MiB`, rate('ours', 'up'), 'mbs', against('up')),
    row(`download of ${mbytes} MiB`, rate('ours', 'down'), 'mbs', against('down')),
    row('memory of edge and envd, more meanwhile', kib, 'kib', { atMost: 4096 }),
  )
}
