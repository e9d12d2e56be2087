// Reaching a port of a sandbox as a browser or script would: by host name over TLS, or by Host header over plain HTTP.
import http from 'node:http'
import https from 'node:https'

import WebSocket from 'ws'

/** -> {status, headers, body} */
export function request({ server, transport }, sandbox, port, { path = '/', headers = {}, method = 'GET', body } = {}) {
  const host = sandbox.getHost ? sandbox.getHost(port) : `${port}-${sandbox}.${server.domain}`
  return new Promise((done, fail) => {
    const options = { method, path, headers: { ...headers }, agent: false }
    if (transport === 'http') Object.assign(options, { host: '127.0.0.1', port: server.port, headers: { Host: host, ...headers } })
    else Object.assign(options, { host: host.replace(/:\d+$/, ''), port: Number(host.split(':')[1] ?? 443) })
    const rq = (transport === 'http' ? http : https).request(options, (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('error', fail)
      answer.on('end', () => done({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(pieces).toString() }))
    })
    rq.on('error', fail)
    rq.end(body)
  })
}

export function webSocket({ server, transport }, sandbox, port, path = '/', headers = {}) {
  const host = sandbox.getHost(port)
  if (transport === 'http') return new WebSocket(`ws://127.0.0.1:${server.port}${path}`, { headers: { Host: host, ...headers } })
  return new WebSocket(`wss://${host}${path}`, { headers })
}
