// The agent API as a program speaks it, and the parts of its answers that tests look at.
import http from 'node:http'
import { spawnSync } from 'node:child_process'

import { sandglass, Server } from './server.mjs'

const base = '/api/v1/agent'

/** One request: {status, headers, body (text), bytes, json}.  body: an object becomes JSON. */
export function call(server, method, path, body, { token = server.key, headers = {}, signal } = {}) {
  return new Promise((done, fail) => {
    const payload = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body)
    const all = { ...(token ? { Authorization: `Bearer ${token}` } : {}), ...(payload === undefined ? {} : { 'Content-Length': Buffer.byteLength(payload) }), ...headers }
    const rq = http.request({ host: '127.0.0.1', port: server.port, method, path: base + path, headers: all, agent: false, signal }, (answer) => {
      const pieces = []
      answer.on('data', (piece) => pieces.push(piece))
      answer.on('error', fail)
      answer.on('end', () => {
        const bytes = Buffer.concat(pieces)
        const text = bytes.toString()
        let json
        try {
          json = JSON.parse(text)
        } catch {
          // not JSON
        }
        done({ status: answer.statusCode, headers: answer.headers, body: text, bytes, json })
      })
    })
    rq.on('error', fail)
    rq.end(payload)
  })
}

/** The events of a stream, as they come: {event, id, data}. */
export async function* events(server, path, { token = server.key, headers = {}, signal } = {}) {
  const answer = await fetch(`${server.apiUrl}${base}${path}`, { headers: { Authorization: `Bearer ${token}`, ...headers }, signal })
  if (answer.status !== 200) throw new Error(`${answer.status}: ${await answer.text()}`)
  let text = ''
  for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
    text += piece
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const fields = Object.fromEntries(text.slice(0, end).split('\n').filter((line) => !line.startsWith(':')).map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]))
      text = text.slice(end + 2)
      if (fields.data) yield { event: fields.event, id: fields.id, data: JSON.parse(fields.data) }
    }
  }
}

export async function collect(stream) {
  const all = []
  for await (const one of stream) all.push(one)
  return all
}

/** A server with a second team: {server, otherKey}. */
export async function startWithTwoTeams(options) {
  const first = await Server.start(options)
  await first.stop()
  const add = "INSERT INTO team (id, slug, name, created_ns) VALUES ('11111111-2222-4333-8444-555555555555', 'other', 'Other', 1)"
  const r = spawnSync('python3', ['-c', `import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.execute(sys.argv[2]); c.commit()`, first.file('store/sandglass.db'), add], { encoding: 'utf8' })
  if (r.status !== 0) throw new Error(r.stderr)
  const server = await first.again(options)
  server.keepsData = false
  const made = sandglass(['key', 'create', '--team', 'other', '--data', server.data, 'others'])
  const otherKey = /e2b_[0-9a-f]{40}/.exec(made.stdout)?.[0]
  if (!otherKey) {
    await server.cleanUp()
    throw new Error(made.stderr)
  }
  return { server, otherKey }
}
