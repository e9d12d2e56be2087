// Raw HTTP to a server that may be killed at any moment: every request ends, with an answer or with the reason why not.
import http from 'node:http'

/** No request may take longer, whatever is killed meanwhile. */
export const boundMs = 90_000

/** -> {status, bytes, json} | {lost: why} | {refused: true} | {hanging: true} */
export function send(server, { method, path, headers = {}, body }) {
  const payload = body === undefined || Buffer.isBuffer(body) ? body : JSON.stringify(body)
  const length = payload === undefined ? {} : { 'Content-Length': Buffer.byteLength(payload) }
  return new Promise((done) => {
    const rq = http.request({ host: '127.0.0.1', port: server.port, method, path, headers: { ...headers, ...length }, agent: false })
    const late = setTimeout(() => finish({ hanging: true }), boundMs)
    const finish = (result) => {
      clearTimeout(late)
      rq.destroy()
      done(result)
    }
    rq.on('error', (e) => finish(e.code === 'ECONNREFUSED' ? { refused: true } : { lost: e.code ?? e.message }))
    rq.on('response', (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('error', (e) => finish({ lost: `in the answer: ${e.code ?? e.message}` }))
      answer.on('end', () => finish({ status: answer.statusCode, headers: answer.headers, bytes: Buffer.concat(pieces) }))
    })
    rq.end(payload)
  }).then((result) => (result.bytes ? Object.assign(result, { json: parse(result.bytes) }) : result))
}

function parse(bytes) {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined // not JSON
  }
}

export function envelope(message) {
  const payload = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

/** The messages of a stream, and its last word; null: it was cut. */
export function messagesOf(bytes) {
  const messages = []
  for (let at = 0; at + 5 <= bytes.length; ) {
    const end = at + 5 + bytes.readUInt32BE(at + 1)
    if (end > bytes.length) return null
    const message = parse(bytes.subarray(at + 5, end))
    if (bytes[at] & 2) return { messages, end: message }
    messages.push(message)
    at = end
  }
  return null
}
