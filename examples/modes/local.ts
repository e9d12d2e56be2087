// Mode local: the agent runs on this machine, in ./workspace.
import { spawn } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

import { Messages, passedEnvironment, type OnMessage, type Runner } from './runner.js'

const program = fileURLToPath(new URL('agent.mjs', import.meta.url))

export class LocalRunner implements Runner {
  readonly mode = 'local'

  constructor(private workspace = 'workspace', private timeoutMs = 600_000) {
    mkdirSync(workspace, { recursive: true })
  }

  async ask(prompt: string, onMessage?: OnMessage): Promise<string> {
    const messages = new Messages(onMessage)
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...passedEnvironment() }
    // A process group of its own, which is ended with the agent: what the agent has started does not stay behind.
    const child = spawn(process.execPath, [program, prompt], { cwd: this.workspace, env, detached: true, stdio: ['ignore', 'pipe', 'inherit'] })
    const end = () => {
      try {
        process.kill(-child.pid!, 'SIGKILL')
      } catch (e) {
        if ((e as NodeJS.ErrnoException).code !== 'ESRCH') throw e // it has ended
      }
    }
    // At once: what stays behind may hold the agent's output open.
    const exited = new Promise<void>((done) => child.once('exit', () => done(end())))
    const timer = setTimeout(end, this.timeoutMs)
    process.once('exit', end)
    try {
      for await (const piece of child.stdout.setEncoding('utf8')) messages.add(piece)
      await exited
    } finally {
      clearTimeout(timer)
      process.off('exit', end)
      end()
    }
    return messages.end()
  }

  sandbox(): undefined {}
  async close(): Promise<void> {}
}
