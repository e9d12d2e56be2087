// One client: draws operations, has them performed, and tells its ledger what was answered.
import { Chooser } from './choose.mjs'
import { Ledger } from './ledger.mjs'
import { boundMs } from './wire.mjs'

const later = (ms) => new Promise((done) => setTimeout(done, ms))

/** Tags of sandboxes and names of snapshots begin with a letter for their kind and the number of their client. */
export const isMarkOf = (number, mark) => new RegExp(`^(t|s|end)${number}(-|$)`).test(mark ?? '')

/** Connections into a sandbox do not outlive these.  (A copy of one with many files begins it again.) */
const lateNewsMs = 2000 // an edge that hears late of a pause that is over cuts who has come since
const cuts = new Set(['pause', 'kill', 'rollback', 'fork', 'snapshot', 'timeout'])

/** How often everything in a sandbox is looked at after what puts it back together: what is lost then may be killed or rolled
 *  back again before anybody else looks. */
const lookAfter = { rollback: 1, connect: 0.25, resume: 0.25 }

export class Client {
  /** perform(sandbox, operation) -> answer.  report: counts and findings.  gate: where clients wait for quiet moments. */
  constructor(number, { random, perform, report, gate, now = () => performance.now(), staggerMs = 30, pollMs = 50 }) {
    this.number = number
    this.random = random
    this.perform = perform
    this.report = report
    this.gate = gate
    this.now = now
    this.staggerMs = staggerMs
    this.pollMs = pollMs
    this.ledger = new Ledger({ now, find: (kind, text) => report.find(kind, `client ${number}: ${text}`) })
    this.chooser = new Chooser(number, random, this.ledger)
  }

  async run(isOver) {
    while (!isOver()) {
      await this.gate.pass()
      this.ledger.forget()
      await this.#turn(this.chooser.next())
    }
  }

  async #turn(next) {
    if (next.create) this.ledger.created(next.create, await this.#do(null, next.create))
    else if (next.deleteSnapshot) this.ledger.deleted(next.deleteSnapshot, await this.#do(null, { name: 'deleteSnapshot', snapshot: next.deleteSnapshot.id }))
    else if (next.dead) await this.#lookAtDead(next.dead)
    else if (next.list) await this.#lookAtList()
    else await this.group(next.sandbox, next.operations)
  }

  /** others: what else is asked of the same sandbox at the same time. */
  async #do(sandbox, operation, others = []) {
    const began = this.now()
    const answer = this.#doubted(operation, await this.perform(sandbox, operation), began)
    const isFresh = began - (sandbox?.changedAt ?? -Infinity) < lateNewsMs
    const mayBeCut = isFresh || others.some(({ name }) => cuts.has(name)) || sandbox?.worlds?.some((world) => world.ends || world.pending.some(({ name }) => cuts.has(name)))
    if (sandbox && cuts.has(operation.name)) sandbox.changedAt = this.now()
    this.report.answered({ client: this.number, sandbox: sandbox?.id, operation, answer, began, ended: this.now(), mayBeCut })
    return answer
  }

  /** What may be asked twice, the edge asks again when control dies: the second time it is gone because of the first. */
  #doubted(operation, answer, began) {
    const isTwice = answer.kind === 'gone' && ['kill', 'deleteSnapshot'].includes(operation.name) && this.report.wasDown(began, this.now(), 'control', 'supervisor')
    return isTwice ? { kind: 'lost', why: 'asked twice, gone the second time' } : answer
  }

  async #lookAtDead(id) {
    const answer = await this.#do({ id }, { name: 'get' })
    if (!['gone', 'lost', 'refused'].includes(answer.kind)) this.report.find('contradiction', `client ${this.number}: ${id} was gone, and answers ${JSON.stringify(answer)}`)
  }

  /** The others' sandboxes come and go meanwhile; ours do not. */
  async #lookAtList() {
    const answer = await this.#do(null, { name: 'listSandboxes' })
    if (answer.kind === 'ok') this.ledger.compareSandboxes(answer.list.filter(({ tag }) => isMarkOf(this.number, tag)))
  }

  /** All of them at the same time; each begins a little later than the one before. */
  async group(sandbox, operations) {
    const answers = await Promise.all(operations.map(async (operation, i) => {
      if (i > 0) await later(this.random.between(0, this.staggerMs))
      return this.#do(sandbox, operation, operations.filter((other) => other !== operation))
    }))
    const group = operations.map((operation, i) => ({ operation, answer: answers[i] }))
    const unexpected = group.some(({ answer }) => answer.kind === 'unexpected')
    if (unexpected) this.ledger.giveUp(sandbox, group)
    else this.ledger.done(sandbox, group)
    if (answers.some(({ kind }) => kind === 'refused')) await later(this.pollMs)
    if (group.length === 1 && operations[0].name === 'timeout' && operations[0].now && answers[0].kind === 'ok') await this.#awaitEnd(sandbox)
    const isDoubtful = answers.some(({ kind }) => kind === 'lost')
    if (isDoubtful || group.some(({ operation, answer }) => answer.kind === 'ok' && this.random.chance(lookAfter[operation.name] ?? 0))) await this.look(sandbox)
  }

  /** Its time is over: it must not run for ever. */
  async #awaitEnd(sandbox) {
    const end = this.now() + boundMs
    while (this.ledger.sandboxes.has(sandbox.id)) {
      const operation = { name: 'get' }
      const answer = await this.#do(sandbox, operation)
      this.ledger.done(sandbox, [{ operation, answer }])
      if (answer.kind === 'ok' && answer.value === 'paused') return
      if (sandbox.worlds.some((world) => world.pending.length)) return // a request of before may have set another end
      if (this.now() > end) this.report.find('hanging', `client ${this.number}: ${sandbox.id} runs ${boundMs} ms after its time`)
      if (this.now() > end) return
      await later(this.pollMs)
    }
  }

  /** Read what is there, so that the model need not keep every possibility. */
  async look(sandbox) {
    const names = new Set(sandbox.worlds.flatMap((world) => Object.keys(world.files)))
    const all = [{ name: 'get' }, { name: 'list' }, ...[...names].sort().map((file) => ({ name: 'read', file }))]
    if (sandbox.worlds.some((world) => world.counter)) all.push({ name: 'count' })
    for (const operation of all) {
      if (!this.ledger.sandboxes.has(sandbox.id)) return
      const answer = await this.#do(sandbox, operation)
      if (answer.kind === 'unexpected') this.ledger.giveUp(sandbox, [{ operation, answer }])
      else this.ledger.done(sandbox, [{ operation, answer }])
      if (answer.kind === 'gone') return
    }
  }

  /** A sandbox that a request without an answer has made. */
  async adopt(entry, loss) {
    const sandbox = this.ledger.add({ id: entry.id, token: undefined }, loss)
    for (const world of sandbox.worlds) Object.assign(world, { state: entry.state, memory: false })
    const operation = { name: 'connect', memory: true }
    const answer = await this.#do(sandbox, operation)
    sandbox.token = answer.token
    this.ledger.done(sandbox, [{ operation, answer }])
  }

  /** The end: everything that was kept is looked at, then ended. */
  async finish() {
    for (const sandbox of [...this.ledger.sandboxes.values()]) {
      await this.#settle(sandbox, { name: 'connect', memory: true })
      await this.look(sandbox)
    }
    for (const snapshot of this.ledger.snapshots.values()) if (snapshot.exists) await this.#tryOut(snapshot)
    for (const sandbox of [...this.ledger.sandboxes.values()]) await this.#settle(sandbox, { name: 'kill' })
    for (const id of this.ledger.given) await this.#do({ id }, { name: 'kill' })
    for (const snapshot of this.ledger.snapshots.values())
      if (snapshot.exists !== false) this.ledger.deleted(snapshot, await this.#do(null, { name: 'deleteSnapshot', snapshot: snapshot.id }))
  }

  /** Until it has an answer: nothing is killed any more. */
  async #settle(sandbox, operation) {
    for (let i = 0; i < 3 && this.ledger.sandboxes.has(sandbox.id); i++) {
      const again = { ...operation }
      const answer = await this.#do(sandbox, again)
      if (answer.kind === 'unexpected') this.ledger.giveUp(sandbox, [{ operation: again, answer }])
      else this.ledger.done(sandbox, [{ operation: again, answer }])
      if (answer.kind !== 'lost' && answer.kind !== 'busy') return
      await later(10 * this.pollMs)
    }
  }

  async #tryOut(snapshot) {
    const operation = { name: 'create', tag: `end${this.number}`, traits: { onEnd: 'kill', autoResume: false }, template: snapshot.id }
    const sandbox = this.ledger.created(operation, await this.#do(null, operation))
    if (sandbox) await this.look(sandbox)
  }
}

/** Where clients stop when somebody wants to look at a server that nobody asks anything. */
export class Gate {
  #waiting = []
  #wanted = null
  #inside

  constructor(clients) {
    this.#inside = clients
  }

  async pass() {
    if (!this.#wanted) return
    await new Promise((done) => {
      this.#waiting.push(done)
      if (this.#waiting.length === this.#inside) this.#wanted.all()
    })
  }

  /** A client that has ended does not wait any more. */
  leave() {
    this.#inside--
    if (this.#wanted && this.#waiting.length === this.#inside) this.#wanted.all()
  }

  async close() {
    await new Promise((all) => {
      this.#wanted = { all }
      if (this.#waiting.length === this.#inside) all()
    })
  }

  open() {
    this.#wanted = null
    for (const go of this.#waiting.splice(0)) go()
  }
}
