// One interface for the three places where an agent can run.
import type { Sandbox } from 'e2b'

export type Mode = 'local' | 'e2b' | 'hybrid'

/** A message of the Agent SDK. */
export type Message = { type: string; subtype?: string; result?: string; is_error?: boolean; session_id?: string; [field: string]: unknown }
export type OnMessage = (message: Message) => void

export interface Runner {
  readonly mode: Mode
  /** Give a prompt to the agent; messages come one by one, and the answer at the end.  worker: who works on it (hybrid). */
  ask(prompt: string, onMessage?: OnMessage, worker?: string): Promise<string>
  /** The sandbox of a worker, as far as there is one. */
  sandbox(worker?: string): Sandbox | undefined
  close(): Promise<void>
}

/** SANDBOX_MODE in any case of letters; not set or not known: local. */
export function chosenMode(name = process.env.SANDBOX_MODE): Mode {
  const wanted = name?.toLowerCase()
  return wanted === 'e2b' || wanted === 'hybrid' ? wanted : 'local'
}

/** Variables of this process that the agent needs, by name.  All others stay here. */
export function passedEnvironment(names = ['ANTHROPIC_API_KEY', 'ANTHROPIC_BASE_URL', 'ANTHROPIC_MODEL']): Record<string, string> {
  return Object.fromEntries(names.flatMap((name) => (process.env[name] ? [[name, process.env[name]!]] : [])))
}

/** Only an object is a message: numbers and null are JSON, too. */
function messageOf(line: string): Message | undefined {
  try {
    const value = JSON.parse(line)
    return value && typeof value === 'object' && !Array.isArray(value) ? value : undefined
  } catch {
    return undefined
  }
}

/** Lines of JSON out of pieces of output: a message per line; other lines are text, and go to standard error. */
export class Messages {
  #rest = ''
  last?: Message

  constructor(private onMessage: OnMessage = () => {}) {}

  add(piece: string): void {
    const lines = (this.#rest + piece).split('\n')
    this.#rest = lines.pop()!
    for (const line of lines) this.#line(line)
  }

  /** The answer of the agent, when its output has ended. */
  end(): string {
    if (this.#rest) this.#line(this.#rest)
    this.#rest = ''
    const { result = '', subtype, is_error } = this.last ?? {}
    // The SDK may call a missing key a success.
    if (subtype !== 'success' || is_error || result.startsWith('Not logged in')) throw new Error(`the agent failed: ${result || subtype || 'no result'}`)
    return result
  }

  #line(line: string): void {
    const message = messageOf(line)
    if (!message) {
      process.stderr.write(`${line}\n`)
      return
    }
    if (message.type === 'result') this.last = message
    this.onMessage(message)
  }
}
