// Which operation comes next: drawn from the seed, by what the client knows.
const filesOf = ['a', 'b', 'c']
const sandboxesMax = 4
const snapshotsMax = 3
const pendingMax = 3

/** Files beyond this size make a snapshot take the other way: paused, sealed, begun again. */
const manyBytes = 17 << 20

const weightsRunning = {
  write: 14, read: 10, remove: 2, list: 4, append: 10, count: 16, start: 4, get: 4, metrics: 2,
  pause: 12, connect: 3, resume: 1, timeout: 3, fork: 4, snapshot: 5, rollback: 6, kill: 3, race: 14,
}
const weightsPaused = { get: 3, connect: 16, resume: 4, pause: 1, fork: 2, rollback: 3, kill: 2, metrics: 1, timeout: 1, read: 6, count: 8, race: 6 }
const weightsRace = { write: 4, read: 2, append: 3, count: 6, get: 1, pause: 6, connect: 6, fork: 1, snapshot: 2, rollback: 1, kill: 1, timeout: 1, metrics: 1 }

export class Chooser {
  #numbers = 0

  constructor(client, random, ledger) {
    this.client = client
    this.random = random
    this.ledger = ledger
  }

  #name(what) {
    return `${what}${this.client}-${++this.#numbers}`
  }

  /** {sandbox, operations} | {create} | {deleteSnapshot} | {dead: id} | {list} */
  next() {
    const { random, ledger } = this
    const all = [...ledger.sandboxes.values()].filter((sandbox) => sandbox.worlds.every((world) => world.pending.length < pendingMax))
    const snapshots = [...ledger.snapshots.values()].filter((snapshot) => snapshot.exists !== false)
    if (all.length === 0 || (ledger.sandboxes.size < sandboxesMax && random.chance(0.08))) return { create: this.#create(snapshots) }
    // Those in use cannot be deleted, so this is never all that a client does.
    if (snapshots.length && random.chance(snapshots.length > snapshotsMax ? 0.15 : 0.02))
      return { deleteSnapshot: random.pick(snapshots) }
    if (ledger.dead.size && random.chance(0.01)) return { dead: random.pick([...ledger.dead]) }
    if (random.chance(0.02)) return { list: true }
    const sandbox = random.pick(all)
    return { sandbox, operations: this.#operations(sandbox) }
  }

  #create(snapshots) {
    const onEnd = this.random.pick(['kill', 'pause', 'pause files'])
    const traits = { onEnd, autoResume: onEnd === 'pause' && this.random.chance(0.7) }
    return { name: 'create', tag: this.#name('t'), traits, template: snapshots.length && this.random.chance(0.5) ? this.random.pick(snapshots).id : undefined }
  }

  #operations(sandbox) {
    const { random, ledger } = this
    const isPaused = ledger.states(sandbox)[0] === 'paused'
    const weights = { ...(isPaused ? weightsPaused : weightsRunning) }
    if (ledger.sandboxes.size >= sandboxesMax) Object.assign(weights, { fork: 0, kill: weights.kill * 2 })
    const kept = [...ledger.snapshots.values()].filter((snapshot) => snapshot.exists !== false).length
    if (kept > snapshotsMax) Object.assign(weights, { snapshot: 0, kill: weights.kill * 2 })
    if (sandbox.worlds.some((world) => world.counter)) weights.start = 0.3
    else weights.count = 0.3 // a port that nobody listens on is waited for
    const name = random.weighted(weights)
    if (name !== 'race') return [this.#operation(name, sandbox)]
    return Array.from({ length: random.between(2, 3) }, () => this.#operation(random.weighted(weightsRace), sandbox))
  }

  #operation(name, sandbox) {
    const { random, ledger } = this
    const operation = { name, id: this.#name('o') }
    if (['write', 'read', 'remove'].includes(name)) operation.file = random.pick(filesOf)
    if (name === 'write') operation.content = `${this.#name('v')}.${this.#size()}`
    if (name === 'read' && random.chance(0.3)) operation.file = 'log'
    if (name === 'append') Object.assign(operation, { file: 'log', word: this.#name('w') })
    if (name === 'remove' && random.chance(0.3)) operation.file = 'log'
    if (name === 'start') operation.nonce = this.#name('n')
    if (name === 'pause' || name === 'connect') operation.memory = random.chance(name === 'pause' ? 0.75 : 0.9)
    if (name === 'timeout') operation.now = random.chance(0.6)
    if (name === 'fork') operation.count = random.between(1, 2)
    if (name === 'snapshot') operation.snapshot = this.#name('s')
    if (name !== 'rollback') return operation
    const own = [...ledger.snapshots.values()].filter((snapshot) => snapshot.source === sandbox.id && snapshot.exists)
    if (own.length === 0) return { name: 'get', id: operation.id }
    const { id: snapshot, copies } = random.pick(own)
    return { ...operation, snapshot, copies }
  }

  #size() {
    if (this.random.chance(0.01)) return manyBytes
    return this.random.chance(0.1) ? this.random.between(10_000, 1_000_000) : this.random.between(20, 2000)
  }
}
