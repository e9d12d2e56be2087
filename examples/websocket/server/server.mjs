// Runs in the sandbox: a WebSocket server on port 3000.  It takes prompts as {prompt}, and answers with the messages of the
// Agent SDK, and {type: "done"} after the last one.
import { query } from '@anthropic-ai/claude-agent-sdk'
import { WebSocketServer } from 'ws'

const server = new WebSocketServer({ port: 3000 })

server.on('connection', (socket) => {
  let session // of the agent, so that later prompts of this connection know the earlier ones

  socket.on('message', async (data) => {
    const send = (message) => socket.readyState === socket.OPEN && socket.send(JSON.stringify(message))
    try {
      const { prompt, env = {} } = JSON.parse(data)
      // The key comes with the prompt: so it is in no template, and in no snapshot of an idle server.
      const options = { cwd: '/home/user', env: { ...process.env, ...env }, resume: session, settingSources: [], permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true }
      for await (const message of query({ prompt, options })) {
        session = message.session_id ?? session
        send(message)
      }
      send({ type: 'done' })
    } catch (e) {
      send({ type: 'error', message: e.message })
    }
  })
})
