// A server for the inside of a sandbox, `node echo.cjs PORT ADDRESS`: tells what it was asked, as JSON, shows page.html at
// /page, and echoes WebSocket messages.  In plain node: templates have no packages.
export const echoServer = `
const http = require('node:http')
const crypto = require('node:crypto')
const fs = require('node:fs')
const server = http.createServer((rq, rs) => {
  if (rq.url === '/page') return rs.setHeader('Content-Type', 'text/html').end(fs.readFileSync('page.html'))
  const pieces = []
  rq.on('data', (p) => pieces.push(p))
  rq.on('end', () => rs.end(JSON.stringify({ method: rq.method, url: rq.url, headers: rq.headers, bytes: Buffer.concat(pieces).length })))
})
server.on('upgrade', (rq, socket) => {
  const accept = crypto.createHash('sha1').update(rq.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n')
  let held = Buffer.alloc(0)
  socket.on('data', (data) => {
    held = Buffer.concat([held, data])
    for (;;) { // masked frames in, the same frames out unmasked
      if (held.length < 2) return
      let n = held[1] & 127, at = 2
      if (n === 126) { if (held.length < 4) return; n = held.readUInt16BE(2); at = 4 }
      if (held.length < at + 4 + n) return
      const mask = held.subarray(at, at + 4), body = Buffer.from(held.subarray(at + 4, at + 4 + n))
      for (let i = 0; i < n; i++) body[i] ^= mask[i & 3]
      const head = n < 126 ? Buffer.from([held[0], n]) : Buffer.from([held[0], 126, n >> 8, n & 255])
      socket.write(Buffer.concat([head, body]))
      held = held.subarray(at + 4 + n)
    }
  })
  socket.on('error', () => {})
})
server.listen(Number(process.argv[2]), process.argv[3])
`
