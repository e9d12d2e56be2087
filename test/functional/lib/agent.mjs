// Speaking to the application of inside/agent in a sandbox: prompts in, streamed answers out, the same process all the time.
import assert from 'node:assert/strict'

import { webSocket } from './preview.mjs'
import { within } from './wait.mjs'

/** One prompt over a new WebSocket: {text, pieces, pid, prompts, by}. */
export async function ask(context, sandbox, prompt) {
  const socket = webSocket(context, sandbox, 3000, '/')
  const pieces = []
  const answer = new Promise((done, fail) => {
    socket.on('open', () => socket.send(prompt))
    socket.on('error', fail)
    socket.on('close', () => fail(new Error(`closed after ${JSON.stringify(pieces)}`)))
    socket.on('message', (data) => {
      const message = JSON.parse(data)
      if (message.error) fail(new Error(message.error))
      else if (message.done) done({ ...message, pieces, text: pieces.join('') })
      else pieces.push(message.text)
    })
  })
  try {
    return await within(`an answer to '${prompt}'`, answer, 60_000)
  } finally {
    socket.removeAllListeners('close').on('error', () => {}).terminate()
  }
}

/** What issue and manual promise of such a template: it answers when create returns, and after a pause the same process does. */
export async function checkAgent(context, client, name, by) {
  const sandbox = await client.Sandbox.create(name, { timeoutMs: 300_000 })
  try {
    const first = await ask(context, sandbox, 'say: hello from the sandbox')
    assert.deepEqual([first.text, first.prompts, first.by], ['HELLO FROM THE SANDBOX', 1, by])
    assert.ok(first.pieces.length > 1, 'the answer is streamed')
    await sandbox.pause()
    const again = await client.Sandbox.connect(sandbox.sandboxId)
    const second = await ask(context, again, 'say: and again')
    assert.deepEqual([second.text, second.pid, second.prompts], ['AND AGAIN', first.pid, 2])
    return first
  } finally {
    await client.Sandbox.kill(sandbox.sandboxId)
  }
}
