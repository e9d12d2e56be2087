// Runs inside a sandbox: answers as no server should, in the way the path names.   node hostile.cjs PORT
const net = require('node:net')

/** Write this piece again and again, as fast as it is taken. */
function flood(socket, piece) {
  const more = () => { while (!socket.destroyed && socket.write(piece)); }
  socket.on('drain', more)
  more()
}

const ok = 'HTTP/1.1 200 OK\r\n'
const ways = {
  'endless-headers': (s) => { s.write(ok); flood(s, `X-Header: ${'h'.repeat(1000)}\r\n`) },
  'endless-line': (s) => { s.write(ok + 'X-Header: '); flood(s, 'h'.repeat(4096)) },
  'endless-status': (s) => flood(s, 'H'.repeat(4096)),
  'interim-flood': (s) => flood(s, 'HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n'),
  'early-close': (s) => s.end(),
  'reset': (s) => s.resetAndDestroy(),
  'half-head': (s) => s.end(ok + 'Content-Le'),
  'garbage': (s) => s.end('SSH-2.0-OpenSSH_9.2\r\n\r\n'),
  'old': (s) => s.end('<html>no head at all</html>'),
  'two-lengths': (s) => s.end(ok + 'Content-Length: 2\r\nContent-Length: 3\r\n\r\nabc'),
  'both-lengths': (s) => s.end(ok + 'Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n'),
  'split': (s) => s.end(ok + 'X-A: a\rContent-Length: 0\r\n\r\n'),
  'unasked-upgrade': (s) => s.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad'),
  'short': (s) => s.end(ok + 'Content-Length: 100\r\n\r\nonly this'),
  'short-chunk': (s) => s.end(ok + 'Transfer-Encoding: chunked\r\n\r\n64\r\nonly this'),
  'no-last-chunk': (s) => s.end(ok + 'Transfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\n'),
  'bad-chunk': (s) => s.end(ok + 'Transfer-Encoding: chunked\r\n\r\n9\r\nonly this\r\nzz\r\nmore\r\n'),
  'long': (s) => s.write(ok + 'Content-Length: 4\r\n\r\nthisHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nforged'),
  'hints': (s) => s.end('HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n' + ok + 'Content-Length: 4\r\n\r\nfine'),
  'until-close': (s) => s.end(ok + '\r\nup to the end'),
  'fine': (s) => s.end(ok + 'Content-Length: 4\r\n\r\nfine'),
}
net.createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => {})
  socket.once('data', (data) => ways[/^\w+ \/([\w-]*)/.exec(data.toString('latin1'))?.[1]]?.(socket))
}).listen(Number(process.argv[2]))
