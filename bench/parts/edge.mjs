// The edge beyond HTTP/1.1 requests: HTTP/2 beside nginx, many streams on one connection, idle WebSockets.
import { once } from 'node:events'
import fs from 'node:fs'
import http2 from 'node:http2'
import path from 'node:path'
import tls from 'node:tls'

import { createRaw, killRaw } from '../../test/functional/lib/raw.mjs'
import { row } from '../table.mjs'

/** What an open WebSocket that nobody speaks on costs the edge's process. */
export async function measureTunnels({ measure, quick, result, rows }) {
  const count = quick ? '2000' : '10000'
  const plain = await measure('tunnels', [count])
  const secure = await measure('tunnels', [count, 'tls'])
  result.figures.tunnels = { plain, tls: secure }
  rows.push(
    row(`an idle WebSocket, of ${plain.tunnels}`, plain.kib_each, 'kib', { atMost: 20 }),
    row(`the same over TLS, of ${secure.tunnels}`, secure.kib_each, 'kib', { atMost: 20 }),
  )
}

/** Small requests over plain HTTP, the edge and nginx on one core each. */
export async function measurePerCore({ execute, here, quick, result, rows }) {
  const r = await execute([path.join(here, 'proxy'), '--json', quick ? '1' : '2'])
  if (r.status !== 0) throw new Error(`proxy: ${r.stderr || r.status}`)
  const { edge, nginx } = (result.figures.perCore = JSON.parse(r.stdout.trim().split('\n').at(-1)))
  const cpu = `CPU ${edge.cpu_us} us each, nginx ${nginx.cpu_us} us`
  rows.push(
    row('proxied small requests, one core', edge.per_second, 'rate', { floor: nginx.per_second, floorName: 'nginx, one core', ratioAtLeast: 0.9, note: cpu }),
    row('99th percentile, a quarter of the connections', edge.p99, 'us', { floor: nginx.p99, floorName: 'nginx, one core', ratioAtMost: 1 }),
  )
}

/** Requests and a long answer over HTTP/2, the edge and nginx on one core each. */
export async function measureHttp2({ execute, here, quick, result, rows }) {
  const r = await execute([path.join(here, 'proxy_h2'), '--json', quick ? '1' : '3'])
  if (r.status !== 0) throw new Error(`proxy_h2: ${r.stderr || r.status}`)
  const figures = r.stdout.trim().split('\n').map((line) => JSON.parse(line))
  result.figures.http2 = figures
  for (const f of figures) rows.push(row(`HTTP/2, ${f.name}`, f.edge, f.name.startsWith('MB/s') ? 'mbs' : 'rate', { floor: f.nginx, floorName: 'nginx', note: `p99 ${f.edge_p99} us, nginx ${f.nginx_p99} us` }))
}

function command(session, sandbox, script) {
  const payload = Buffer.from(JSON.stringify({ process: { cmd: '/bin/sh', args: ['-c', script] }, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(payload.length, 1)
  const stream = session.request({ ':method': 'POST', ':path': '/process.Process/Start', 'content-type': 'application/connect+json', 'e2b-sandbox-id': sandbox.sandboxID, 'e2b-sandbox-port': '49983', 'x-access-token': sandbox.envdAccessToken })
  let text = ''
  const x = { started: null, ended: null }
  stream.setEncoding('latin1')
  x.started = new Promise((done, fail) => {
    stream.on('data', (piece) => { text += piece; if (text.includes('"pid":')) done() })
    stream.on('error', fail)
  })
  x.ended = new Promise((done, fail) => stream.once('close', () => (text.includes('exit status 0') ? done() : fail(new Error(`a stream ended: ${text.slice(-200)}`)))))
  stream.end(Buffer.concat([head, payload]))
  return x
}

/** 500 commands that run at the same time, each a stream of one HTTP/2 connection. */
export async function measureStreams({ server, result, rows }) {
  const count = 500
  const [name, port] = server.domain.split(':')
  const ca = fs.readFileSync(server.env.NODE_EXTRA_CA_CERTS)
  const sandbox = await createRaw(server)
  const session = http2.connect(`https://sandbox.${name}:${port}`, { createConnection: () => tls.connect({ host: '127.0.0.1', port: Number(port), servername: `sandbox.${name}`, ca, ALPNProtocols: ['h2'] }) })
  await once(session, 'connect')
  await command(session, sandbox, 'mkfifo /tmp/gate').ended
  const keeper = command(session, sandbox, 'exec 3<>/tmp/gate; read -r _ <&3')
  await keeper.started
  const begun = performance.now()
  const all = Array.from({ length: count }, () => command(session, sandbox, 'read -r _ </tmp/gate'))
  await Promise.all(all.map((x) => x.started))
  const took = (performance.now() - begun) * 1000
  await command(session, sandbox, `printf '\\n%.0s' $(seq ${count + 1}) >/tmp/gate`).ended
  await Promise.all([keeper, ...all].map((x) => x.ended))
  session.destroy()
  await killRaw(server, sandbox.sandboxID)
  result.figures.streams = { count, started_us: took }
  rows.push(row('commands at once, streams of one HTTP/2 connection', count, 'count', { atLeast: 500, note: `the last has started after ${(took / 1000).toFixed(0)} ms; all ended in order` }))
}
