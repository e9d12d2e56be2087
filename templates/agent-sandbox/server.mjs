// An agent behind a WebSocket on port 3000: takes prompts, sends the messages of the agent's SDK as they come.
//
// The template is saved while this program runs.  So nothing of a sandbox is known here from the start: its variables are read for
// each prompt.  docs/agent-sandbox.md has the messages.
import { createHash, timingSafeEqual } from 'node:crypto'
import fs from 'node:fs'
import http from 'node:http'

import { query } from '@anthropic-ai/claude-agent-sdk'
import { WebSocketServer } from 'ws'

const port = 3000
const messageBytesMax = 8 << 20
const waitingMax = 16 // prompts of one connection
const connectionsMax = 64
const variablesFile = '/run/sandglass/environ'
const tokenFile = '/etc/sandglass/tokens/agent'
const workspace = '/home/user/workspace'

/** Ours, and those that the sandbox was created with: "NAME=value", with a NUL behind each. */
function variables() {
  const entries = fs.existsSync(variablesFile) ? fs.readFileSync(variablesFile, 'utf8').split('\0').filter(Boolean) : []
  return { ...process.env, ...Object.fromEntries(entries.map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)])) }
}

const digest = (text) => createHash('sha256').update(text).digest()

/** null: there is no such file. */
function readToken() {
  try {
    return fs.readFileSync(tokenFile, 'utf8').trim()
  } catch (e) {
    if (e.code === 'ENOENT') return null
    throw e
  }
}

/** Where there is a token, only who sends it gets in: as bearer token, or as ?tkn= from a browser.  An empty one lets nobody in. */
function hasToken(request) {
  const wanted = readToken() ?? variables().AGENT_TOKEN
  if (wanted === undefined) return true
  const [, bearer] = /^bearer +(.*)$/i.exec(request.headers.authorization ?? '') ?? []
  const given = bearer ?? new URLSearchParams(request.url.split('?')[1]).get('tkn') ?? ''
  return wanted !== '' && timingSafeEqual(digest(given), digest(wanted))
}

function mayEnter(request) {
  try {
    return hasToken(request)
  } catch (e) {
    console.error(e.message) // a file that cannot be read: nobody gets in
    return false
  }
}

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)
const isTextMap = (value) => isObject(value) && Object.values(value).every((one) => typeof one === 'string')

/** {prompt, options, env} or {interrupt: true}; text that is no JSON object is a prompt.  Throws with words. */
function decode(text) {
  if (!text.trimStart().startsWith('{')) return { prompt: text, options: {}, env: {} }
  const { prompt, options = {}, env = {}, interrupt } = JSON.parse(text)
  if (interrupt === true) return { interrupt }
  if (typeof prompt !== 'string') throw new Error('prompt: a text expected')
  if (!isObject(options)) throw new Error('options: an object expected')
  if (!isTextMap(env)) throw new Error('env: an object of texts expected')
  return { prompt, options, env }
}

class Conversation {
  #socket
  #session = null // of the last answer: the next prompt goes on there
  #running = null // aborts the answer under way
  #waiting = []

  constructor(socket) {
    this.#socket = socket
    socket.on('message', (data, isBinary) => this.#onMessage(isBinary ? null : data.toString()))
    socket.on('close', () => this.#stop())
    socket.on('error', () => socket.terminate())
  }

  /** Resolves when the message has left: whoever reads slowly is sent no more. */
  #send(message) {
    return new Promise((done) => this.#socket.send(JSON.stringify(message), done))
  }

  #refuse = (why) => this.#send({ type: 'error', error: why })

  #stop() {
    this.#waiting = []
    this.#running?.abort()
  }

  #onMessage(text) {
    let request
    try {
      if (text === null) throw new Error('a text message expected')
      request = decode(text)
    } catch (e) {
      return this.#refuse(e.message)
    }
    if (request.interrupt) return this.#stop()
    if (this.#waiting.length >= waitingMax) return this.#refuse(`${waitingMax} prompts wait already`)
    this.#waiting.push(request)
    if (!this.#running) this.#work()
  }

  async #work() {
    while (this.#waiting.length) {
      this.#running = new AbortController()
      try {
        await this.#answer(this.#waiting.shift(), this.#running)
      } catch (e) {
        await this.#refuse(this.#running.signal.aborted ? 'interrupted' : e.message)
      }
    }
    this.#running = null
  }

  async #answer({ prompt, options, env }, abortController) {
    const defaults = { cwd: workspace, permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true, ...(this.#session && { resume: this.#session }) }
    for await (const message of query({ prompt, options: { ...defaults, ...options, env: { ...variables(), ...env }, abortController } })) {
      if (message.session_id) this.#session = message.session_id
      await this.#send(message)
    }
  }
}

const server = http.createServer((request, response) => {
  const isHealth = request.method === 'GET' && request.url === '/health'
  response.writeHead(isHealth ? 200 : 404, { 'Content-Type': 'text/plain', Connection: 'close' })
  response.end(isHealth ? 'ready\n' : 'The agent is behind a WebSocket.\n')
})
const sockets = new WebSocketServer({ noServer: true, maxPayload: messageBytesMax })

server.on('upgrade', (request, socket, head) => {
  socket.on('error', () => socket.destroy())
  const status = !mayEnter(request) ? '401 Unauthorized' : sockets.clients.size >= connectionsMax ? '503 Service Unavailable' : null
  if (status) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
  else sockets.handleUpgrade(request, socket, head, (ws) => new Conversation(ws))
})
server.listen(port)
