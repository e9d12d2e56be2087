// Runs inside a sandbox: a node process with an HTTP and WebSocket server, timers, a child, and a WebSocket of its own.
//   node state.cjs PORT
// GET answers with JSON; a WebSocket gets every text back with a number that counts on.
const { spawn } = require('node:child_process')
const crypto = require('node:crypto')
const http = require('node:http')
const net = require('node:net')

const port = Number(process.argv[2])
const memory = crypto.randomBytes(8 << 20)
const child = spawn('cat', { stdio: ['pipe', 'pipe', 'inherit'] })
let requests = 0
let messages = 0
let ticks = 0
setInterval(() => ticks++, 10)

const frame = (text, mask) => {
  const body = Buffer.from(text)
  if (!mask) return Buffer.concat([Buffer.from([0x81, body.length]), body])
  return Buffer.concat([Buffer.from([0x81, 0x80 | body.length, 0, 0, 0, 0]), body]) // a mask of zeros
}

/** Texts of up to 125 bytes, as they come. */
function onTexts(socket, take) {
  let have = Buffer.alloc(0)
  socket.on('data', (piece) => {
    have = Buffer.concat([have, piece])
    for (;;) {
      const masked = have.length > 1 && have[1] & 0x80 ? 4 : 0
      const length = have.length > 1 ? have[1] & 0x7f : Infinity
      if (have.length < 2 + masked + length) return
      const body = Buffer.from(have.subarray(2 + masked, 2 + masked + length))
      if (masked) for (let i = 0; i < length; i++) body[i] ^= have[2 + (i & 3)]
      if ((have[0] & 15) === 1) take(body.toString())
      have = have.subarray(2 + masked + length)
    }
  })
}

const once = (emitter, event) => new Promise((done) => emitter.once(event, done))
const late = (promise) => Promise.race([promise, new Promise((done) => setTimeout(done, 10_000, 'late'))])

async function state() {
  const before = ticks
  const echoed = once(child.stdout, 'data')
  child.stdin.write('hello\n')
  const answered = new Promise((done) => (onAnswer = done))
  own.write(frame('inside', true))
  const works = { child: String(await late(echoed)) === 'hello\n', 'WebSocket to itself': /^inside \d+$/.test(await late(answered)) }
  await new Promise((done) => setTimeout(done, 50))
  works.interval = ticks > before
  return { pid: process.pid, requests: ++requests, messages, memory: crypto.createHash('sha256').update(memory).digest('hex'), works }
}

const server = http.createServer(async (rq, rs) => {
  const body = JSON.stringify(await state())
  rs.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) })
  rs.end(body)
})
server.on('upgrade', (rq, socket) => {
  const accept = crypto.createHash('sha1').update(`${rq.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64')
  socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
  socket.on('error', () => {})
  onTexts(socket, (text) => socket.write(frame(`${text} ${++messages}`)))
})

let own
let onAnswer = () => {}
server.listen(port, async () => {
  own = net.connect(port, '127.0.0.1')
  own.write(`GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: ${crypto.randomBytes(16).toString('base64')}\r\nSec-WebSocket-Version: 13\r\n\r\n`)
  await once(own, 'data') // the whole head comes in one piece
  onTexts(own, (text) => onAnswer(text))
  console.log('ready', process.pid)
})
