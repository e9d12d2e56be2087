// All that one client knows: its sandboxes and snapshots, and the requests of which it does not know what became.  Pure but
// for the clock that it is given.
import { closure, explain, forgetPending, newborn, statesOf } from './model.mjs'

/** After that long a request without an answer has taken effect, or never will. */
const pendingMs = 30_000

export class Ledger {
  sandboxes = new Map() // id -> {id, token, traits, tag, template, worlds}
  dead = new Set() // ids that are gone for good
  given = new Set() // ids that a contradiction was found about: nothing is expected of them any more
  snapshots = new Map() // id -> {id, name, source, copies, exists: true | false | null: not known}
  losses = [] // requests for something new that had no answer: {operation, tag | name, traits, source, copies, left, at}

  constructor({ now, find }) {
    this.now = now
    this.find = find // (kind, text): something is wrong
  }

  /* ---- sandboxes ---- */

  add({ id, token }, { traits, tag, template, copies = [{ files: {}, counter: null }] }) {
    if (this.sandboxes.has(id) || this.dead.has(id)) this.find('contradiction', `the id ${id} was given twice`)
    const sandbox = { id, token, traits, tag, template, worlds: copies.map((copy) => newborn(copy)) }
    this.sandboxes.set(id, sandbox)
    return sandbox
  }

  /** The answer to a create of `operation`: {tag, template, traits}. */
  created(operation, answer) {
    const { tag, template, traits } = operation
    const copies = template ? this.snapshots.get(template).copies : undefined
    if (answer.kind === 'ok') return this.add(answer.made[0], { traits, tag, template, copies })
    if (answer.kind === 'lost') this.losses.push({ operation, tag, traits, template, copies, left: 1, at: this.now() })
    else if (answer.kind === 'gone' && template && this.snapshots.get(template).exists !== true) this.snapshots.get(template).exists = false
    else if (answer.kind !== 'refused') this.find('contradiction', `create ${JSON.stringify(operation)} answered ${JSON.stringify(answer)}`)
    return null
  }

  /** Operations on one sandbox that ran at the same time, with their answers. */
  done(sandbox, group) {
    for (const { operation, answer } of group) if (answer.kind === 'lost') operation.at = this.now()
    const { worlds, copies, passed } = explain(sandbox.worlds, group, sandbox.traits)
    if (worlds.length === 0) {
      this.giveUp(sandbox, group)
      return
    }
    sandbox.worlds = worlds
    for (const loss of this.losses) if (loss.source === sandbox.id) this.#widen(loss, passed)
    group.forEach(({ operation, answer }, i) => this.#madeBy(sandbox, operation, answer, copies[i]))
    this.#buryIfGone(sandbox)
  }

  #madeBy(sandbox, operation, answer, copies) {
    const { traits, tag, template, id: source } = sandbox
    if (operation.name === 'fork' && answer.kind === 'ok')
      for (const made of answer.made) this.add(made, { traits, tag, template, copies })
    if (operation.name === 'fork' && (answer.kind === 'lost' || answer.failed))
      this.losses.push({ operation, tag, traits, template, source, copies: [...copies], left: answer.failed ?? operation.count, at: this.now() })
    if (operation.name === 'snapshot' && answer.kind === 'ok')
      this.snapshots.set(answer.snapshot, { id: answer.snapshot, name: operation.snapshot, source, copies, exists: true })
    if (operation.name === 'snapshot' && answer.kind === 'lost')
      this.losses.push({ operation, name: operation.snapshot, source, copies: [...copies], left: 1, at: this.now() })
  }

  /** A request without an answer may still be served: what it takes is of then. */
  #widen(loss, passed) {
    if (this.now() - loss.at > pendingMs) return
    const known = new Set(loss.copies.map((copy) => JSON.stringify(copy)))
    loss.copies.push(...passed.filter((copy) => !known.has(JSON.stringify(copy))))
  }

  #buryIfGone(sandbox) {
    if (sandbox.worlds.some((world) => world.state !== 'gone')) return
    this.sandboxes.delete(sandbox.id)
    this.dead.add(sandbox.id)
  }

  giveUp(sandbox, group) {
    const said = group.map(({ operation, answer }) => `${JSON.stringify({ ...operation, copies: undefined })} -> ${JSON.stringify(answer)}`).join('\n    ')
    const known = closure(sandbox.worlds, sandbox.traits).slice(0, 8).map((world) => JSON.stringify(world)).join('\n    ')
    this.find('contradiction', `${sandbox.id} ${JSON.stringify(sandbox.traits)}\n    ${said}\n  but it was one of\n    ${known}`)
    this.sandboxes.delete(sandbox.id)
    this.given.add(sandbox.id)
  }

  /** Time passes: what was pending is over. */
  forget() {
    const isOver = (operation) => this.now() - (operation.at ??= this.now()) > pendingMs // of a copy: since it runs
    for (const sandbox of [...this.sandboxes.values()]) {
      if (!sandbox.worlds.some((world) => world.pending.some(isOver))) continue
      sandbox.worlds = forgetPending(sandbox.worlds, sandbox.traits, isOver)
      this.#buryIfGone(sandbox)
    }
  }

  states(sandbox) {
    return statesOf(sandbox.worlds, sandbox.traits)
  }

  isCertain(sandbox) {
    return sandbox.worlds.length === 1 && sandbox.worlds[0].pending.length === 0 && sandbox.worlds[0].ends === null
  }

  /* ---- snapshots ---- */

  /** Sandboxes that began with it: [certainly there, perhaps there]. */
  #users(id) {
    const all = [...this.sandboxes.values()].filter((sandbox) => sandbox.template === id)
    const lost = this.losses.filter((loss) => loss.template === id && loss.left > 0).length
    const certain = all.filter((sandbox) => !this.states(sandbox).includes('gone')).length
    return [certain, all.length + lost + this.given.size]
  }

  deleted(snapshot, answer) {
    const [certain, perhaps] = this.#users(snapshot.id)
    const wrong = () => this.find('contradiction', `delete of ${snapshot.id} (exists: ${snapshot.exists}, used by ${certain} to ${perhaps}) answered ${JSON.stringify(answer)}`)
    if (answer.kind === 'ok' && (snapshot.exists === false || certain > 0)) wrong()
    else if (answer.kind === 'used' && (snapshot.exists === false || perhaps === 0)) wrong()
    else if (answer.kind === 'gone' && snapshot.exists === true) wrong()
    if (answer.kind === 'lost' && snapshot.exists) snapshot.exists = null
    else if (answer.kind === 'used') snapshot.exists = true
    else if (answer.kind === 'ok' || answer.kind === 'gone') snapshot.exists = false
  }

  /* ---- lists, at moments when nothing is under way ---- */

  /** listed: [{id, state, tag}].  -> ids that a request without an answer has made, with what is known of them. */
  compareSandboxes(listed) {
    const byId = new Map(listed.map((entry) => [entry.id, entry]))
    for (const sandbox of [...this.sandboxes.values()]) {
      const seen = byId.get(sandbox.id)?.state ?? 'gone'
      if (!this.states(sandbox).includes(seen)) this.giveUp(sandbox, [{ operation: { name: 'the list' }, answer: { kind: seen } }])
      else if (this.isAtRest(sandbox)) {
        sandbox.worlds = closure(sandbox.worlds, sandbox.traits).filter((world) => world.state === seen)
        this.#buryIfGone(sandbox)
      }
    }
    for (const id of this.dead) if (byId.has(id)) this.find('contradiction', `${id} was killed, and is listed as ${byId.get(id).state}`)
    return listed.filter(({ id }) => !this.sandboxes.has(id) && !this.dead.has(id) && !this.given.has(id))
  }

  isAtRest(sandbox) {
    return sandbox.worlds.every((world) => world.pending.length === 0 && world.ends === null)
  }

  /** A sandbox nobody was told of: what is known of it, or null.  Copies have the tag of their original, so it may be of any
   *  request with that tag that had no answer. */
  explainStray({ tag }) {
    const all = this.losses.filter((one) => one.tag === tag && one.left > 0)
    if (all.length === 0) return null
    all[0].left--
    return { ...all[0], copies: all.flatMap(({ copies }) => copies ?? [{ files: {}, counter: null }]) }
  }

  /** listed: [{id, names}]. */
  compareSnapshots(listed) {
    const ids = new Set(listed.map(({ id }) => id))
    for (const snapshot of this.snapshots.values()) {
      const isThere = ids.has(snapshot.id)
      if (snapshot.exists !== null && snapshot.exists !== isThere)
        this.find('contradiction', `snapshot ${snapshot.id} ${isThere ? 'was deleted and is' : 'is not'} listed`)
      snapshot.exists = isThere
    }
    return listed.filter(({ id }) => !this.snapshots.has(id)).filter((entry) => !this.#adoptSnapshot(entry))
  }

  #adoptSnapshot({ id }) {
    const loss = this.losses.find((one) => one.name && id.includes(`/${one.name}:`) && one.left > 0)
    if (!loss) return false
    loss.left--
    this.snapshots.set(id, { id, name: loss.name, source: loss.source, copies: loss.copies, exists: true })
    return true
  }
}
