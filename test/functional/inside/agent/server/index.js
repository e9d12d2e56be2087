// An application as people put it into a sandbox: HTTP by hono, and a WebSocket that takes prompts and streams an agent's answers.
// Without the agent's package it asks the model itself.
const http = require('node:http')
const { Hono } = require('hono')

const modelPort = 8089
require('./model.js').start(modelPort)
process.env.ANTHROPIC_BASE_URL = `http://127.0.0.1:${modelPort}`
process.env.ANTHROPIC_API_KEY ??= 'key-of-the-stand-in'

let prompts = 0
const app = new Hono()
app.get('/', (c) => c.json({ pid: process.pid, prompts }))

async function* agentAnswer(sdk, prompt) {
  for await (const message of sdk.query({ prompt, options: { includePartialMessages: true, maxTurns: 1, settingSources: [] } })) {
    if (message.type === 'stream_event' && message.event.delta?.type === 'text_delta') yield message.event.delta.text
    if (message.type === 'result' && message.subtype !== 'success') throw new Error(message.subtype)
  }
}

async function* modelAnswer(prompt) {
  const body = JSON.stringify({ model: 'stand-in', stream: true, max_tokens: 100, messages: [{ role: 'user', content: prompt }] })
  const answer = await fetch(`${process.env.ANTHROPIC_BASE_URL}/v1/messages`, { method: 'POST', body })
  for (const line of (await answer.text()).split('\n')) if (line.includes('text_delta')) yield JSON.parse(line.slice(6)).delta.text
}

const server = http.createServer(async (request, response) => {
  const answer = await app.fetch(new Request(`http://localhost${request.url}`))
  response.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text())
})

async function onPrompt(sdk, prompt, send) {
  prompts++
  try {
    for await (const text of sdk ? agentAnswer(sdk, prompt) : modelAnswer(prompt)) send(JSON.stringify({ text }))
    send(JSON.stringify({ done: true, pid: process.pid, prompts, by: sdk ? 'agent' : 'model' }))
  } catch (e) {
    send(JSON.stringify({ done: true, error: String(e.stack) }))
  }
}

import('@anthropic-ai/claude-agent-sdk').catch(() => null).then((sdk) => {
  require('./websocket.js').serve(server, (prompt, send) => onPrompt(sdk, prompt, send))
  server.listen(3000)
})
