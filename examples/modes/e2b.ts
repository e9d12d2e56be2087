// Mode e2b: the agent runs in a sandbox, in /home/user/workspace.
import { readFileSync } from 'node:fs'
import { Sandbox } from 'e2b'

import { Messages, passedEnvironment, type OnMessage, type Runner } from './runner.js'

const program = readFileSync(new URL('agent.mjs', import.meta.url), 'utf8')
const workspace = '/home/user/workspace'
// Below /home/user, where the template has installed the SDK: node finds the SDK from there.
const programPath = '/home/user/.agent/agent.mjs'

/** The model may have another address in sandboxes than here, for example a proxy that keeps the key. */
const sandboxEnvironment = (): Record<string, string> => (process.env.AGENT_BASE_URL ? { ANTHROPIC_BASE_URL: process.env.AGENT_BASE_URL } : {})

export class SandboxRunner implements Runner {
  readonly mode = 'e2b'

  private constructor(private box: Sandbox, private timeoutMs: number) {}

  /** The template must have node and the SDK below /home/user, as that of websocket/build.ts. */
  static async start(template = process.env.AGENT_TEMPLATE ?? 'agent-websocket', timeoutMs = 600_000): Promise<SandboxRunner> {
    const box = await Sandbox.create(template, { timeoutMs: timeoutMs + 60_000 })
    try {
      await box.files.makeDir(workspace)
      await box.files.write(programPath, program)
    } catch (e) {
      await box.kill()
      throw e
    }
    return new SandboxRunner(box, timeoutMs)
  }

  async ask(prompt: string, onMessage?: OnMessage): Promise<string> {
    const messages = new Messages(onMessage)
    // The prompt is a variable: so no shell interprets it.
    await this.box.commands
      .run(`node ${programPath} "$AGENT_PROMPT" sandbox`, {
        cwd: workspace,
        envs: { ...passedEnvironment(), ...sandboxEnvironment(), AGENT_PROMPT: prompt },
        timeoutMs: this.timeoutMs,
        onStdout: (piece) => messages.add(piece),
        onStderr: (piece) => void process.stderr.write(piece),
      })
      .catch((e) => {
        if (!messages.last) throw e // else the result says why
      })
    return messages.end()
  }

  sandbox(): Sandbox {
    return this.box
  }

  async close(): Promise<void> {
    await this.box.kill()
  }
}
