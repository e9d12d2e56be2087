// The program that all modes run: one prompt (the first argument), one line of JSON per message.
import { query } from '@anthropic-ai/claude-agent-sdk'

// In a sandbox the agent may do everything.  On your machine it may edit files of its workspace, and nothing else unasked.
const permissions = process.argv[3] === 'sandbox' ? { permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true } : { permissionMode: 'acceptEdits' }

try {
  for await (const message of query({ prompt: process.argv[2], options: { ...permissions, settingSources: [] } })) console.log(JSON.stringify(message))
} catch (e) {
  console.error(e.message) // the last message says more
  process.exitCode = 1
}
