// The interpreter of a sandbox by hand, through the edge: for requests that no client sends, and for the bytes of answers.
import http from 'node:http'

import { api } from '../raw.mjs'
import { RawStream } from '../stream.mjs'

const routing = (sandbox) => ({
  'E2b-Sandbox-Id': sandbox.sandboxId,
  'E2b-Sandbox-Port': '49999',
  ...(sandbox.trafficAccessToken ? { 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken } : {}),
})

/** -> {status, headers, body, json} */
export const interpreter = (server, sandbox, method, path, { headers = {}, ...rest } = {}) =>
  api(server, method, path, { key: null, ...rest, headers: { ...routing(sandbox), ...headers } })

/** An execution whose bytes are watched as they come. */
export class RawExecution extends RawStream {
  constructor(server, sandbox, body, headers = {}) {
    const payload = Buffer.from(JSON.stringify(body)).toString('latin1')
    const all = { Host: `127.0.0.1:${server.port}`, ...routing(sandbox), 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(payload, 'latin1'), ...headers }
    super(server.port, `POST /execute HTTP/1.1\r\n${Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${payload}`)
  }
}

/** Run code that prints much; the client stops reading now and then, and reads nothing before `hold` is over.
 *  -> {letters: how many z came, last: the last event} */
export function flood(server, sandbox, code, { pauseEvery = 64 << 20, hold = async () => {}, ...fields } = {}) {
  return new Promise((done, fail) => {
    const rq = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path: '/execute', agent: false, headers: { ...routing(sandbox), 'Content-Type': 'application/json' } }, async (answer) => {
      answer.on('error', fail)
      await hold().catch(fail)
      let letters = 0
      let sincePause = 0
      let rest = ''
      answer.setEncoding('latin1').on('data', (piece) => {
        letters += piece.split('z').length - 1 // no name and no value of the service has a z
        rest = (rest + piece).slice(-200)
        if ((sincePause += piece.length) < pauseEvery) return
        sincePause = 0
        answer.pause()
        setTimeout(() => answer.resume(), 50)
      })
      answer.on('end', () => done({ letters, last: rest.trimEnd().split('\n').pop() }))
    })
    rq.on('error', fail)
    rq.end(JSON.stringify({ code, ...fields }))
  })
}

/** Run to the end: {status, headers, bytes, events}.  Every line must be a JSON object. */
export function execute(server, sandbox, body, headers = {}) {
  return new Promise((done, fail) => {
    const rq = http.request({ host: '127.0.0.1', port: server.port, method: 'POST', path: '/execute', agent: false, headers: { ...routing(sandbox), 'Content-Type': 'application/json', ...headers } }, (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('error', fail)
      answer.on('end', () => {
        const bytes = Buffer.concat(pieces)
        const lines = bytes.toString('latin1').split('\n')
        if (answer.statusCode !== 200) return done({ status: answer.statusCode, headers: answer.headers, bytes, text: bytes.toString() })
        if (lines.pop() !== '') return fail(new Error(`the last line has no end: ${bytes.subarray(-200)}`))
        done({ status: answer.statusCode, headers: answer.headers, rawHeaders: answer.rawHeaders, bytes, events: lines.map((line) => JSON.parse(line)) })
      })
    })
    rq.on('error', fail)
    rq.end(JSON.stringify(body))
  })
}
