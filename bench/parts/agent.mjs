// The agent API beside the E2B surface: the same command, in turns, on the same sandbox, by the same HTTP client.
import http from 'node:http'

import { row } from '../table.mjs'

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]

/** A request on a kept connection, to its last byte. */
function request(keeper, server, method, path, headers, body) {
  return new Promise((done, fail) => {
    const rq = http.request({ agent: keeper, host: '127.0.0.1', port: server.port, method, path, headers: { ...headers, 'Content-Length': body.length } }, (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('error', fail)
      answer.on('end', () => done({ status: answer.statusCode, body: Buffer.concat(pieces) }))
    })
    rq.on('error', fail)
    rq.end(body)
  })
}

function startMessage(command) {
  const message = Buffer.from(JSON.stringify({ process: { cmd: '/bin/bash', args: ['-l', '-c', command] }, stdin: false }))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(message.length, 1)
  return Buffer.concat([head, message])
}

export async function measureAgent({ quick, result, rows, server }) {
  const keeper = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const bearer = { Authorization: `Bearer ${server.key}` }
  const created = await request(keeper, server, 'POST', '/v2/sandboxes', { 'X-API-Key': server.key }, Buffer.from('{"templateID":"base"}'))
  const { sandboxID: id, envdAccessToken } = JSON.parse(created.body)
  const e2bHeaders = { 'Content-Type': 'application/connect+json', 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': envdAccessToken }
  const ways = {
    e2b: () => request(keeper, server, 'POST', '/process.Process/Start', e2bHeaders, startMessage('true')),
    rest: () => request(keeper, server, 'POST', `/api/v1/agent/sandboxes/${id}/commands`, bearer, Buffer.from('{"command":"true"}')),
    create: async () => {
      const made = await request(keeper, server, 'POST', '/api/v1/agent/sandboxes', bearer, Buffer.from('{"template_id":"base"}'))
      ways.made = JSON.parse(made.body).sandbox_id
      return made
    },
    createE2b: async () => {
      const made = await request(keeper, server, 'POST', '/v2/sandboxes', { 'X-API-Key': server.key }, Buffer.from('{"templateID":"base"}'))
      ways.made = JSON.parse(made.body).sandboxID
      return made
    },
  }
  const times = { e2b: [], rest: [], create: [], createE2b: [] }
  const one = async (name, isCounted) => {
    const began = performance.now()
    const answer = await ways[name]()
    if (answer.status >= 300) throw new Error(`${name}: ${answer.status} ${answer.body}`)
    if (isCounted) times[name].push((performance.now() - began) * 1000)
  }
  for (let i = -20; i < (quick ? 200 : 1000); i++) for (const name of i % 2 ? ['e2b', 'rest'] : ['rest', 'e2b']) await one(name, i >= 0)
  for (let i = -5; i < (quick ? 20 : 100); i++)
    for (const name of ['createE2b', 'create']) {
      await one(name, i >= 0)
      await request(keeper, server, 'DELETE', `/sandboxes/${ways.made}`, { 'X-API-Key': server.key }, Buffer.alloc(0))
    }
  await request(keeper, server, 'DELETE', `/sandboxes/${id}`, { 'X-API-Key': server.key }, Buffer.alloc(0))
  keeper.destroy()
  const p50 = Object.fromEntries(Object.entries(times).map(([name, list]) => [name, median(list)]))
  result.figures.agent = p50
  rows.push(
    row('POST …/commands {"command":"true"}, agent API', p50.rest, 'us', { floor: p50.e2b, floorName: 'the same by E2B', ratioAtMost: 1.2 }),
    row('POST /sandboxes, agent API', p50.create, 'us', { floor: p50.createE2b, floorName: 'the same by E2B' }),
  )
}
