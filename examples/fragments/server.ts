// The route behind node's own server, to try it.
//
//     npm run fragments                      # prints its address
//     curl -d '{"fragment":{"template":"code-interpreter-v1","code":"print(6*7)"}}' http://127.0.0.1:3100/api/sandbox
import http from 'node:http'
import type { AddressInfo } from 'node:net'

import { POST } from './route.js'

const bodyMax = 1 << 20

async function answerTo(incoming: http.IncomingMessage, outgoing: http.ServerResponse): Promise<unknown> {
  let body = ''
  for await (const piece of incoming.setEncoding('utf8')) if ((body += piece).length > bodyMax) return outgoing.writeHead(413).end()
  if (incoming.method !== 'POST' || incoming.url !== '/api/sandbox') return outgoing.writeHead(404).end()
  const answer = await POST(new Request('http://localhost/api/sandbox', { method: 'POST', body }))
  outgoing.writeHead(answer.status, { 'Content-Type': 'application/json' }).end(await answer.text())
}

// A client that goes away in the middle of its request ends this request, not the server.
const server = http.createServer((incoming, outgoing) => answerTo(incoming, outgoing).catch(() => outgoing.destroy()))

server.listen(Number(process.env.PORT ?? 3100), '127.0.0.1', () => console.log(`http://127.0.0.1:${(server.address() as AddressInfo).port}/api/sandbox`))
