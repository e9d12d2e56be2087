// Talks to an agent in a sandbox over a WebSocket, and prints what the agent says.
//
//     npm run websocket:build                # once
//     npm run websocket -- "First prompt" "Next prompt of the same conversation"
import { Sandbox } from 'e2b'
import WebSocket from 'ws'

const prompts = process.argv.slice(2)
const names = ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', 'ANTHROPIC_MODEL']
const env = Object.fromEntries(names.filter((name) => process.env[name]).map((name) => [name, process.env[name]]))

/** Each message to `onMessage`, until the agent is done. */
function ask(socket: WebSocket, prompt: string, onMessage: (message: any) => void): Promise<void> {
  return new Promise((done, fail) => {
    socket.on('message', function take(data) {
      const message = JSON.parse(data.toString())
      if (message.type !== 'done' && message.type !== 'error') return onMessage(message)
      socket.off('message', take)
      message.type === 'done' ? done() : fail(new Error(message.message))
    })
    socket.once('close', () => fail(new Error('the connection was closed')))
    socket.send(JSON.stringify({ prompt, env }))
  })
}

const sandbox = await Sandbox.create(process.env.AGENT_TEMPLATE ?? 'agent-websocket')
try {
  const socket = new WebSocket(`wss://${sandbox.getHost(3000)}`)
  await new Promise((open, fail) => socket.once('open', open).once('error', fail))
  for (const prompt of prompts)
    await ask(socket, prompt, (message) => {
      if (message.type === 'result') console.log(message.result)
    })
  socket.close()
} finally {
  await sandbox.kill()
}
