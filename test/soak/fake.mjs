// A server in a few lines, for tests of the model: honest but for one lie that it is told to tell, and it loses answers
// now and then, as a real one does that is killed.  Written without the model's code, so that both can be wrong only apart.

/** What a fake can be told to do wrong.  Each is something that was promised and is broken. */
export const lies = [
  'forgets a write', 'writes half', 'keeps a removed file', 'runs a command twice', 'counts twice',
  'loses memory at a pause', 'keeps memory that was given up', 'loses a paused sandbox', 'loses a running sandbox',
  'brings back what was killed', 'does not pause', 'resumes by itself', 'ends what was to be paused', 'hides from the list',
  'lists what nobody made', 'rolls back memory only', 'rolls back files only', 'forgets a snapshot', 'keeps a deleted snapshot',
  'deletes a snapshot in use', 'takes a snapshot of the future', 'makes copies that are one', 'gives an id twice', 'answers 500', 'answers 503 with nobody dead', 'never answers',
]

export class Fake {
  time = 0
  sandboxes = new Map() // id -> {state, files, counter, memory, ends, traits, tag, template}
  snapshots = new Map() // id -> {files, counter, source}
  #numbers = 0

  /** lie: one of `lies`, told with some probability; lossy: answers are lost, and some requests are served late. */
  constructor({ random, lie = null, lossy = true }) {
    Object.assign(this, { random, lie, lossy })
    this.late = new Set()
  }

  lied = 0
  #lies(which, probability = 0.3) {
    if (this.lie !== which || !this.random.chance(probability)) return false
    this.lied++
    return true
  }

  async perform(sandbox, operation) {
    this.time += 20
    await null
    this.#expire()
    if (this.lossy && !operation.name.startsWith('list') && operation.name !== 'list' && this.random.chance(0.03)) return this.#lose(sandbox, operation)
    if (this.#lies('answers 500', 0.02)) return { kind: 'lost', why: '500', status: 500, message: 'no' }
    if (this.#lies('answers 503 with nobody dead', 0.02)) return { kind: 'lost', why: '503', status: 503, message: 'no' }
    if (this.#lies('never answers', 0.02)) return { kind: 'lost', why: 'hanging', hanging: true }
    return this.#serve(sandbox, operation)
  }

  #lose(sandbox, operation) {
    const how = this.random.between(0, 2)
    if (how === 0) this.#serve(sandbox, operation)
    if (how === 1) {
      const served = new Promise((done) => setTimeout(done, 1)).then(() => this.#serve(sandbox, operation)).finally(() => this.late.delete(served))
      this.late.add(served)
    }
    return { kind: 'lost', why: 'cut' }
  }

  #expire() {
    for (const box of this.sandboxes.values()) if (box.ends && this.random.chance(0.5)) this.#end(box)
  }

  #end(box) {
    const how = this.#lies('ends what was to be paused') ? 'kill' : box.ends
    box.ends = null
    if (how === 'kill') this.sandboxes.delete(box.id)
    else this.#pause(box, how === 'pause')
  }

  #pause(box, memory) {
    Object.assign(box, { state: 'paused', memory, ends: null })
    if (this.#lies('loses memory at a pause')) box.counter = null
    if (!memory && !this.#lies('keeps memory that was given up')) box.counter = null
    if (this.#lies('loses a paused sandbox', 0.1)) this.sandboxes.delete(box.id)
  }

  #add(files, counter, { traits, tag, template }) {
    const again = this.#lies('gives an id twice', 0.05) ? [...this.sandboxes.keys()][0] : undefined
    const id = again ?? `i${++this.#numbers}`
    this.sandboxes.set(id, { id, state: 'running', memory: false, files, counter, ends: null, traits, tag, template })
    return { id, token: `token of ${id}` }
  }

  #serve(sandbox, operation) {
    if (this.#lies('lists what nobody made', 0.01)) this.#add({}, null, { traits: { onEnd: 'kill' }, tag: 't0-none' })
    if (!sandbox) return this[`_${operation.name}`](operation)
    const box = this.sandboxes.get(sandbox.id)
    if (!box) return operation.name === 'metrics' ? { kind: 'ok', value: 'none' } : { kind: 'gone' }
    if (this.#lies('loses a running sandbox', 0.005) && box.state === 'running') this.sandboxes.delete(box.id)
    if (this.#lies('resumes by itself', 0.05) && box.state === 'paused') box.state = 'running'
    return this[`on_${operation.name}`](box, operation)
  }

  /* ---- the API ---- */

  _create(operation) {
    const from = operation.template ? this.snapshots.get(operation.template) : { files: {}, counter: null }
    if (!from) return { kind: 'gone' }
    return { kind: 'ok', made: [this.#add({ ...from.files }, from.counter && { ...from.counter }, operation)] }
  }

  _deleteSnapshot({ snapshot }) {
    if (!this.snapshots.has(snapshot)) return { kind: 'gone' }
    const isUsed = [...this.sandboxes.values()].some((box) => box.template === snapshot)
    if (isUsed && !this.#lies('deletes a snapshot in use')) return { kind: 'used' }
    if (!this.#lies('keeps a deleted snapshot')) this.snapshots.delete(snapshot)
    return { kind: 'ok' }
  }

  _listSandboxes() {
    const all = [...this.sandboxes.values()].map(({ id, state, tag }) => ({ id, state, tag }))
    return { kind: 'ok', list: all.filter(() => !this.#lies('hides from the list')) }
  }

  _listSnapshots() {
    return { kind: 'ok', list: [...this.snapshots.keys()].map((id) => ({ id })) }
  }

  on_get(box) {
    return { kind: 'ok', value: box.state }
  }
  on_metrics(box) {
    return { kind: 'ok', value: box.state === 'running' ? 'sample' : 'none' }
  }
  on_pause(box, { memory }) {
    if (box.state === 'paused') return { kind: 'already' }
    if (!this.#lies('does not pause')) this.#pause(box, memory)
    return { kind: 'ok' }
  }
  on_connect(box, { memory }) {
    if (box.state === 'paused' && !memory && !this.#lies('keeps memory that was given up')) box.counter = null
    Object.assign(box, { state: 'running', ends: null })
    return { kind: 'ok', token: `token of ${box.id}` }
  }
  on_resume(box) {
    if (box.state === 'running') return { kind: 'already' }
    return this.on_connect(box, { memory: true })
  }
  on_timeout(box, { now }) {
    if (box.state === 'paused') return { kind: 'gone' }
    box.ends = now ? box.traits.onEnd : null
    return { kind: 'ok' }
  }
  on_kill(box) {
    if (!this.#lies('brings back what was killed')) this.sandboxes.delete(box.id)
    return { kind: 'ok' }
  }
  on_fork(box, { count }) {
    const isOne = this.#lies('makes copies that are one')
    const copy = () => (isOne ? [box.files, box.counter] : [{ ...box.files }, box.counter && { ...box.counter }])
    return { kind: 'ok', made: Array.from({ length: count }, () => this.#add(...copy(), box)) }
  }
  on_snapshot(box, { snapshot }) {
    if (box.state === 'paused') return { kind: 'gone' }
    const id = `default/${snapshot}:default`
    const copy = this.#lies('takes a snapshot of the future') ? { files: box.files, counter: box.counter } : { files: { ...box.files }, counter: box.counter && { ...box.counter } }
    if (!this.#lies('forgets a snapshot')) this.snapshots.set(id, { ...copy, source: box.id })
    return { kind: 'ok', snapshot: id }
  }
  on_rollback(box, { snapshot }) {
    const from = this.snapshots.get(snapshot)
    if (!from) return { kind: 'gone' }
    if (!this.#lies('rolls back memory only', 0.7)) box.files = { ...from.files }
    if (!this.#lies('rolls back files only', 0.7)) box.counter = from.counter && { ...from.counter }
    box.memory = box.state === 'paused'
    return { kind: 'ok' }
  }

  /* ---- the inside ---- */

  #reach(box, serve) {
    if (box.state === 'paused') {
      if (!box.traits.autoResume || !box.memory) return { kind: 'gone' }
      Object.assign(box, { state: 'running', ends: null })
    }
    return { kind: 'ok', ...serve() }
  }
  on_write(box, { file, content }) {
    return this.#reach(box, () => {
      if (this.#lies('writes half')) box.files[file] = 'part'
      else if (!this.#lies('forgets a write')) box.files[file] = content
    })
  }
  on_read(box, { file }) {
    return this.#reach(box, () => (file in box.files ? { value: box.files[file] } : { kind: 'missing' }))
  }
  on_remove(box, { file }) {
    return this.#reach(box, () => void (this.#lies('keeps a removed file') || delete box.files[file]))
  }
  on_list(box) {
    return this.#reach(box, () => ({ value: Object.keys(box.files).sort().join(' ') }))
  }
  on_append(box, { file, word }) {
    return this.#reach(box, () => {
      for (let i = this.#lies('runs a command twice') ? 2 : 1; i > 0; i--) box.files[file] = `${box.files[file] ?? ''}${word} `
      return { value: word }
    })
  }
  on_start(box, { nonce }) {
    return this.#reach(box, () => {
      if (box.counter) return { value: 'taken' }
      box.counter = { nonce, count: 0 }
      return { value: 'started' }
    })
  }
  on_count(box) {
    return this.#reach(box, () => {
      if (!box.counter) return { kind: 'closed' }
      box.counter.count += this.#lies('counts twice') ? 2 : 1
      return { value: `${box.counter.nonce} ${box.counter.count} whole` }
    })
  }
}
