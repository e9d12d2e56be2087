// Runs inside a sandbox: a server that tells what it was asked, and streams on request.   node lab.cjs PORT
const http = require('node:http')

let posts = 0
const paths = {
  '/seen': (rq, rs) => rs.end(JSON.stringify({ line: `${rq.method} ${rq.url} HTTP/${rq.httpVersion}`, raw: rq.rawHeaders })),
  '/events': (rq, rs) => {
    rs.writeHead(200, { 'Content-Type': 'text/event-stream' })
    let n = 0
    const timer = setInterval(() => rs.write(`data: ${++n}\n\n`), 20)
    rs.write('data: 0\n\n')
    rs.on('close', () => clearInterval(timer))
  },
  '/endless': (rq, rs) => { // announced length, never reached
    rs.writeHead(200, { 'Content-Length': 1 << 30 })
    rs.write('some of it')
  },
  '/echo': (rq, rs) => { // answers while the request is still being sent
    rs.writeHead(200)
    rs.flushHeaders()
    rq.pipe(rs)
  },
  '/slow': (rq, rs) => setTimeout(() => rs.end('late'), 2500),
  '/redirect': (rq, rs) => {
    rs.writeHead(302, { Location: 'http://elsewhere.example/x', 'Set-Cookie': ['a=1; Secure', 'b=2'], 'X-Odd': 'kept', 'Content-Encoding': 'gzip', Connection: 'close, X-Hop', 'X-Hop': 'gone', 'Keep-Alive': 'timeout=77' })
    rs.end('not really gzip')
  },
  '/broken': (rq) => { posts++; rq.socket.destroy() },
  '/posts': (rq, rs) => rs.end(String(posts)),
}
const server = http.createServer((rq, rs) => (paths[new URL(rq.url, 'http://x').pathname] ?? paths['/seen'])(rq, rs))
server.on('upgrade', (rq, socket) => { // a tunnel whose first words are what was asked
  socket.on('error', () => {})
  socket.on('end', () => socket.end())
  socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: thing\r\n\r\n' + JSON.stringify({ raw: rq.rawHeaders }))
})
server.keepAliveTimeout = 60_000
server.listen(Number(process.argv[2]))
