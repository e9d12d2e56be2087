// Mode hybrid: the orchestrator runs on this machine, and named workers in sandboxes.  A worker is made at its first use, used
// again afterwards, and all are ended at the end.
import type { Sandbox } from 'e2b'

import { SandboxRunner } from './e2b.js'
import { LocalRunner } from './local.js'
import type { OnMessage, Runner } from './runner.js'

export class HybridRunner implements Runner {
  readonly mode = 'hybrid'
  #here = new LocalRunner()
  #workers = new Map<string, Promise<SandboxRunner>>()
  #ready = new Map<string, SandboxRunner>()

  async ask(prompt: string, onMessage?: OnMessage, worker?: string): Promise<string> {
    return (worker ? await this.#worker(worker) : this.#here).ask(prompt, onMessage)
  }

  /** Two that need the same new worker at a time get the same one. */
  #worker(name: string): Promise<SandboxRunner> {
    const found = this.#workers.get(name)
    if (found) return found
    const made = SandboxRunner.start()
    this.#workers.set(name, made)
    made.then((worker) => this.#ready.set(name, worker)).catch(() => this.#workers.delete(name)) // the next one tries again
    return made
  }

  sandbox(worker = ''): Sandbox | undefined {
    return this.#ready.get(worker)?.sandbox()
  }

  async close(): Promise<void> {
    const made = await Promise.allSettled(this.#workers.values())
    await Promise.all(made.map((worker) => (worker.status === 'fulfilled' ? worker.value.close() : undefined)))
  }
}
