// One program, three modes.
//
//     npm ci
//     source ../data/env                     # the settings of your Sandglass server
//     export ANTHROPIC_API_KEY=...
//     npm run websocket:build                # once, the template of the modes e2b and hybrid
//     npm run agent -- "What is in this directory?"
//     SANDBOX_MODE=e2b npm run agent -- "Write a haiku into poem.txt"
//     SANDBOX_MODE=hybrid npm run agent -- "Compare the two answers" researcher="List three databases" critic="List their weak points"
//
// Further words NAME="PROMPT" are tasks of workers: in mode hybrid each in a sandbox of its own, at the same time.
import { SandboxRunner } from './e2b.js'
import { HybridRunner } from './hybrid.js'
import { LocalRunner } from './local.js'
import { chosenMode, type Message, type Runner } from './runner.js'

async function open(mode = chosenMode()): Promise<Runner> {
  if (mode === 'e2b') return SandboxRunner.start()
  return mode === 'hybrid' ? new HybridRunner() : new LocalRunner()
}

/** What the agent does, as it does it; the answer comes at the end. */
function show(who: string) {
  return (message: Message) => {
    const parts = message.type === 'assistant' ? (message.message as { content: { type: string; name?: string; input?: unknown }[] }).content : []
    for (const part of parts) if (part.type === 'tool_use') console.error(`${who}: ${part.name} ${JSON.stringify(part.input)}`)
  }
}

const [prompt, ...tasks] = process.argv.slice(2)
if (!prompt) {
  console.error('usage: npm run agent -- "PROMPT" [WORKER="PROMPT"]...')
  process.exit(2)
}

const runner = await open()
try {
  const answers = await Promise.all(
    tasks.map(async (task) => {
      const [worker, text] = [task.slice(0, task.indexOf('=')), task.slice(task.indexOf('=') + 1)]
      const answer = await runner.ask(text, show(worker), worker)
      console.log(`${worker}: ${answer}`)
      return `${worker} says: ${answer}`
    }),
  )
  console.log(await runner.ask([prompt, ...answers].join('\n\n'), show(runner.mode)))
} finally {
  await runner.close()
}
