// HTTP by hand, for requests no client library would send.
import http from 'node:http'
import net from 'node:net'

/** Send these bytes, read until the server closes or goes quiet after a complete answer: {status, headers, body, text}. */
export function exchange(port, bytes, { quietMs = 3000, end = false } = {}) {
  return new Promise((done, fail) => {
    const socket = net.connect(port, '127.0.0.1')
    let text = ''
    const finish = () => {
      socket.destroy()
      done(parse(text))
    }
    socket.setEncoding('latin1')
    socket.setTimeout(quietMs, finish)
    socket.on('data', (piece) => {
      text += piece
      if (isComplete(text)) finish()
    })
    socket.on('close', () => done(parse(text)))
    socket.on('error', (e) => (text ? done(parse(text)) : fail(e)))
    socket.on('connect', () => {
      for (const piece of [].concat(bytes)) socket.write(piece, 'latin1')
      if (end) socket.end()
    })
  })
}

function isComplete(text) {
  const { status, headers, body } = parse(text)
  return status >= 200 && headers['content-length'] !== undefined && Buffer.byteLength(body, 'latin1') >= Number(headers['content-length'])
}

export function parse(text) {
  const [head, ...rest] = text.split('\r\n\r\n')
  const [first, ...lines] = head.split('\r\n')
  const headers = Object.fromEntries(lines.map((l) => [l.slice(0, l.indexOf(':')).toLowerCase(), l.slice(l.indexOf(':') + 1).trim()]))
  return { status: Number(first.split(' ')[1]) || 0, headers, body: rest.join('\r\n\r\n'), text }
}

const answerDeadlineMs = 150_000 // the server answers every request within two minutes

/** One well-formed request to the API: {status, headers, body, json}. */
export function api(server, method, path, { body, headers = {}, key = server.key, signal = AbortSignal.timeout(answerDeadlineMs) } = {}) {
  return new Promise((done, fail) => {
    const payload = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    const all = { ...(key ? { 'X-API-Key': key } : {}), ...(payload !== undefined ? { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(payload) } : {}), ...headers }
    const rq = http.request({ host: '127.0.0.1', port: server.port, method, path, headers: all, agent: false, signal }, (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('error', fail)
      answer.on('end', () => {
        const text = Buffer.concat(pieces).toString()
        let json
        try {
          json = JSON.parse(text)
        } catch {
          // not JSON
        }
        done({ status: answer.statusCode, headers: answer.headers, body: text, json })
      })
    })
    rq.on('error', fail)
    rq.end(payload)
  })
}

export async function createRaw(server, body = { templateID: 'base' }) {
  const answer = await api(server, 'POST', '/v2/sandboxes', { body })
  if (answer.status !== 201) throw new Error(`create: ${answer.status} ${answer.body}`)
  return answer.json
}

export const killRaw = (server, id) => api(server, 'DELETE', `/sandboxes/${id}`)

/** A call to the daemon of a sandbox through the edge. */
export const envd = (server, sandbox, method, path, { headers = {}, ...rest } = {}) =>
  api(server, method, path, { key: null, ...rest, headers: { 'E2b-Sandbox-Id': sandbox.sandboxID, 'E2b-Sandbox-Port': '49983', 'X-Access-Token': sandbox.envdAccessToken, ...headers } })
