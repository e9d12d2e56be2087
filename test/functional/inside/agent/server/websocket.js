// The server's side of a WebSocket without a package: text both ways, one frame for each message.
const { createHash } = require('node:crypto')

function frame(text) {
  const body = Buffer.from(text)
  const head = body.length < 126 ? Buffer.from([0x81, body.length]) : Buffer.from([0x81, 126, body.length >> 8, body.length & 255])
  return Buffer.concat([head, body])
}

/** The first whole frame in `bytes`: {opcode, text, rest}; null: more bytes are needed. */
function parse(bytes) {
  if (bytes.length < 6) return null
  const short = bytes[1] & 127
  const at = short < 126 ? 2 : 4
  const length = short < 126 ? short : bytes.readUInt16BE(2)
  if (bytes.length < at + 4 + length) return null
  const mask = bytes.subarray(at, at + 4)
  const text = Buffer.from(bytes.subarray(at + 4, at + 4 + length).map((byte, i) => byte ^ mask[i % 4])).toString()
  return { opcode: bytes[0] & 15, text, rest: bytes.subarray(at + 4 + length) }
}

/** Calls onText(text, send) for each message of each client. */
module.exports.serve = (server, onText) =>
  server.on('upgrade', (request, socket) => {
    const accept = createHash('sha1').update(request.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`)
    socket.on('error', () => {})
    let bytes = Buffer.alloc(0)
    socket.on('data', (piece) => {
      bytes = Buffer.concat([bytes, piece])
      for (let message; (message = parse(bytes)); bytes = message.rest)
        if (message.opcode === 8) socket.end()
        else if (message.opcode === 1) onText(message.text, (text) => socket.writable && socket.write(frame(text)))
    })
  })
