// Ends processes of one server with SIGKILL, at random moments: found below its supervisor, or by what they hold open
// in its data directory, never by name alone.
import { descendants, isAlive, openFiles, processInfo, processes } from '../functional/lib/proc.mjs'
import { until } from '../functional/lib/wait.mjs'
import { send } from './wire.mjs'

const later = (ms) => new Promise((done) => setTimeout(done, ms))
const helpers = ['sg-disk', 'sg-cell-maker', 'sg-slot-clean', 'sg-passage', 'sg-trash', 'sg-layer-merge', 'sg-resume-mark', 'sg-job-queue', 'sg-job-spare']
/** What can be killed, and how often. */
export const victims = { edge: 5, control: 6, engine: 6, supervisor: 1, helper: 6, worker: 10 }
const workerWaitMs = 3000

export class Killer {
  /** held: {server, restart()}; restart puts a new server in place of one whose supervisor was killed.
   *  kinds: of `victims`. */
  constructor({ held, random, report, gate, kinds = Object.keys(victims), pauseMs = [200, 2500] }) {
    Object.assign(this, { held, random, report, gate, pauseMs })
    this.weights = Object.fromEntries(kinds.map((kind) => [kind, victims[kind]]))
  }

  async run(isOver) {
    while (!isOver()) {
      await later(this.random.between(...this.pauseMs))
      await this.gate.pass()
      if (!isOver()) await this.once(this.random.weighted(this.weights))
    }
  }

  async once(what) {
    if (what === 'supervisor') return this.#supervisor()
    const target = what === 'worker' ? await this.#worker() : what === 'helper' ? this.#helper() : this.#role(what)
    if (!target) return
    try {
      process.kill(target.pid, 'SIGKILL')
    } catch (e) {
      if (e.code === 'ESRCH') return // it has just ended by itself
      throw e
    }
    const window = this.report.killed(target.name, target.pid)
    await until(`end of ${target.name} ${target.pid}`, () => !isAlive(target.pid))
    await healthy(this.held.server)
    window.to = this.report.now()
  }

  async #supervisor() {
    const { server } = this.held
    const window = this.report.killed('supervisor', server.supervisor)
    if (this.random.chance(0.5)) await server.stop('SIGKILL') // its roles have ended, too
    else process.kill(server.supervisor, 'SIGKILL')
    await until('end of the supervisor', () => !isAlive(server.supervisor))
    await this.held.restart()
    await healthy(this.held.server)
    window.to = this.report.now()
  }

  #role(name) {
    const pids = this.held.server.roles()[name]
    return pids.length ? { name, pid: this.random.pick(pids) } : null
  }

  /** One of the engine's children. */
  #helper() {
    const [engine] = this.held.server.roles().engine
    const found = engine ? descendants(engine).filter((p) => helpers.includes(p.name)) : []
    return found.length ? this.random.pick(found) : null
  }

  /** One that is in the middle of a pause, a copy or a resume; some of them have outlived their engine. */
  async #worker() {
    const { data } = this.held.server
    const isOurs = (p) => openFiles(p.pid).some(([, target]) => target.startsWith(`${data}/`))
    for (const end = performance.now() + workerWaitMs; performance.now() < end; await later(5)) {
      const found = processes().filter((p) => p.name === 'sg-job' && isOurs(p))
      if (found.length === 0) continue
      const target = this.random.pick(found)
      await later(this.random.between(0, 60)) // anywhere in its work
      if (processInfo(target.pid)?.name === 'sg-job') return target
    }
    return null
  }
}

/** Everything is up again. */
export async function healthy(server) {
  await until(() => `server healthy again\n${server.log.slice(-3000)}`, async () => (await send(server, { method: 'GET', path: '/health' })).status === 204, 60_000)
}
