// What a sandbox can be, given all the answers so far.  Pure: no clock, no I/O.
//
// A *world* is everything a client can find out about one sandbox: its state, its files, the counter that a process of
// its own has in memory.  The model keeps all worlds that agree with every answer until now; most of the time that is one.
// A request without an answer leaves both: the world in which nothing happened, and the one in which it did.  Or does yet:
// such a request is *pending* and may take effect at any later moment, once.  An answer that no world explains is a
// finding: something that was acknowledged is lost, or was made up.
//
//   world    {state: 'running' | 'paused' | 'gone', memory: kept while paused, files: {name: content},
//             counter: null | {nonce, count}, ends: null | what its deadline does now, pending: [operation, ...]}
//   step     {kind, value?, world, copy?}: an answer that this operation may have in this world, and the world after it;
//            copy: {files, counter, pending?}, what a fork or a snapshot took; pending: what was going on inside just then
//   traits   {autoResume, onEnd: 'kill' | 'pause' | 'pause files'}: of the sandbox, never change
import { part } from './content.mjs'

const worldsMax = 2000

export const newborn = ({ files, counter, pending = [] } = { files: {}, counter: null }) => ({ state: 'running', memory: false, files, counter, ends: null, pending })
export const copyOf = (world) => ({ files: world.files, counter: world.counter })

const without = (object, name) => Object.fromEntries(Object.entries(object).filter(([key]) => key !== name))
const running = (world, counter = world.counter) => ({ ...world, state: 'running', memory: false, counter, ends: null })
const paused = (world, memory) => ({ ...world, state: 'paused', memory, counter: memory ? world.counter : null, ends: null })
const gone = (world) => ({ ...world, state: 'gone', memory: false, files: {}, counter: null, ends: null, pending: [] })

/** At its deadline, once that was set to now. */
function expired(world) {
  if (world.ends === 'kill') return gone(world)
  return paused(world, world.ends === 'pause')
}

/* ---- what each operation does; only in the states that are not 'gone' ---- */

const inside = {
  write: (world, { file, content }) => [{ kind: 'ok', world: { ...world, files: { ...world.files, [file]: content } } }],
  read: (world, { file }) => [file in world.files ? { kind: 'ok', value: world.files[file], world } : { kind: 'missing', world }],
  remove: (world, { file }) => [{ kind: 'ok', world: { ...world, files: without(world.files, file) } }],
  list: (world) => [{ kind: 'ok', value: Object.keys(world.files).sort().join(' '), world }],
  append: (world, { file, word }) => {
    const text = `${world.files[file] ?? ''}${word} `
    return [{ kind: 'ok', value: word, world: { ...world, files: { ...world.files, [file]: text } } }]
  },
  start: (world, { nonce }) =>
    [world.counter ? { kind: 'ok', value: 'taken', world } : { kind: 'ok', value: 'started', world: { ...world, counter: { nonce, count: 0 } } }],
  count: (world) => {
    if (!world.counter) return [{ kind: 'closed', world }]
    const counter = { ...world.counter, count: world.counter.count + 1 }
    return [{ kind: 'ok', value: `${counter.nonce} ${counter.count} whole`, world: { ...world, counter } }]
  },
}

const outside = {
  get: (world) => [{ kind: 'ok', value: world.state, world }],
  metrics: (world) => [{ kind: 'ok', value: world.state === 'running' ? 'sample' : 'none', world }],
  pause: (world, { memory }) => [world.state === 'paused' ? { kind: 'already', world } : { kind: 'ok', world: paused(world, memory) }],
  connect: (world, { memory }) => [{ kind: 'ok', world: running(world, world.state === 'paused' && !memory ? null : world.counter) }],
  resume: (world) => [world.state === 'running' ? { kind: 'already', world } : { kind: 'ok', world: running(world) }],
  timeout: (world, { now }, { onEnd }) => [world.state === 'paused' ? { kind: 'gone', world } : { kind: 'ok', world: { ...world, ends: now ? onEnd : null } }],
  kill: (world) => [{ kind: 'ok', world: gone(world) }],
  fork: (world) => [{ kind: 'ok', world, copy: copyOf(world) }],
  snapshot: (world) => [world.state === 'paused' ? { kind: 'gone', world } : { kind: 'ok', world, copy: copyOf(world) }],
  rollback: (world, { copies }) =>
    copies.map(({ files, counter, pending = [] }) => ({ kind: 'ok', world: { ...world, files, counter, memory: world.state === 'paused', pending: [...world.pending, ...pending] } })),
}

/** Traffic resumes it. */
const isResumable = (world, traits) => world.state === 'paused' && world.memory && traits.autoResume

export const isInside = (operation) => operation.name in inside

/** Every answer the operation may have in this world. */
export function steps(world, operation, traits) {
  if (world.state === 'gone') return [operation.name === 'metrics' ? { kind: 'ok', value: 'none', world } : { kind: 'gone', world }]
  if (!isInside(operation)) return outside[operation.name](world, operation, traits)
  if (world.state === 'running') return inside[operation.name](world, operation)
  if (isResumable(world, traits)) return inside[operation.name](running(world), operation)
  return [{ kind: 'gone', world }]
}

/* ---- many worlds ---- */

const unique = (worlds) => [...new Map(worlds.map((world) => [JSON.stringify(world), world])).values()]

/** These worlds, and those they may have become meanwhile: deadlines have passed, pending operations have taken effect. */
export function closure(worlds, traits) {
  const found = new Map()
  const queue = [...worlds]
  for (let world; (world = queue.pop()); ) {
    const key = JSON.stringify(world)
    if (found.has(key)) continue
    if (found.size >= worldsMax) throw new Error('too many worlds')
    found.set(key, world)
    if (world.ends && world.state === 'running') queue.push(expired(world))
    for (const [i, operation] of world.pending.entries()) {
      const later = { ...world, pending: world.pending.filter((_, j) => j !== i) }
      for (const step of steps(later, operation, traits)) queue.push(step.world, ...halfDone(step.world, operation))
      if (givesUpMemory(world, operation)) queue.push(paused(later, false)) // given up, and then not started
      if (isInside(operation) && isResumable(world, traits)) queue.push(running(later)) // resumed, and then cut
    }
  }
  return [...found.values()]
}

/** A write that was cut leaves the part of the file that had come, and a copy that is taken in the middle of a write (isCopy)
 *  has that part.  `world` is a world or a copy. */
const halfDone = (world, { name, file, content }, isCopy = false) =>
  name === 'write' && (isCopy || world.files[file] === content) ? [{ ...world, files: { ...world.files, [file]: part } }] : []

const givesUpMemory = (world, { name, memory }) => name === 'connect' && !memory && world.state === 'paused' && world.memory

const matches = (step, answer) => step.kind === answer.kind && (step.value === undefined || answer.value === undefined || step.value === answer.value)

/** Names of what else is, or may be, going on with the sandbox at the same time. */
const underWay = (world, others) => new Set([...others, ...world.pending].map(({ name }) => name).concat(world.ends ? [world.ends === 'kill' ? 'kill' : 'pause'] : []))

const isWriteOf = (wanted) => ({ name, file }) => name === 'write' && file === wanted

/** Steps that agree with the answer.  During a transition the server may say so, show the state it comes from or goes to,
 *  and let a second pause or kill join the first. */
function explained(world, operation, answer, traits, others) {
  const found = steps(world, operation, traits).filter((step) => matches(step, answer))
  const meanwhile = underWay(world, others)
  if (operation.name === 'kill' && answer.kind === 'ok' && meanwhile.has('kill')) found.push({ world: gone(world) })
  if (meanwhile.size === 0 || world.state === 'gone') return found
  if (answer.kind === 'busy') found.push({ world })
  if (operation.name === 'get' && answer.kind === 'ok') found.push({ world })
  if (operation.name === 'metrics' && answer.value === 'none') found.push({ world })
  if (operation.name === 'read' && answer.value === part && [...others, ...world.pending].some(isWriteOf(operation.file))) found.push({ world })
  if (operation.name === 'resume' && answer.kind === 'ok' && world.state === 'running') found.push({ world: running(world) })
  if (!meanwhile.has('pause')) return found
  if (isInside(operation) && answer.kind === 'gone') found.push({ world }, ...(isResumable(world, traits) ? [{ world: running(world) }] : []))
  if (operation.name === 'pause' && answer.kind === 'ok') found.push(...joined(world, traits))
  return found
}

/** The pause under way was another one, which this one waited for. */
function joined(world, traits) {
  if (world.state === 'paused') return [{ world }]
  const found = closure([world], traits).filter((later) => later.state === 'paused')
  return found.map((later) => ({ world: later }))
}

/** Whoever only looks changes nothing, unless that resumes the sandbox. */
const onlyLooks = ({ name }) => ['get', 'metrics', 'read', 'list'].includes(name)
const mayMatterLater = (operation, traits) => !onlyLooks(operation) || (isInside(operation) && traits.autoResume)

/** Of those that only look one is as good as many; worlds grow with each that is pending. */
function withLost(pending, lost) {
  const found = [...pending]
  for (const operation of lost) if (!onlyLooks(operation) || !found.some(onlyLooks)) found.push(operation)
  return found
}

/** A copy has the processes, too: one that was about to change something does so when the copy runs. */
const isChange = ({ name }) => ['write', 'remove', 'append', 'start'].includes(name)
const caught = (copy, going) => going.filter(isChange).reduce((all, { at, ...operation }) => [...all, ...all.map((one) => ({ ...one, pending: [...(one.pending ?? []), operation] }))], [copy])

const isDefinite = ({ answer }) => answer.kind !== 'lost' && answer.kind !== 'refused'

/** Operations that were under way at the same time, with their answers {kind, value}: in some order each answer must be
 *  right.  'lost': no answer, it may have happened, or happen yet.  'refused': it certainly did not.
 *  -> {worlds: those that explain all of it, none when nothing does; copies: for each operation what it may have taken;
 *  passed: everything that it may have held meanwhile, for requests that have no answer yet}. */
export function explain(worlds, group, traits) {
  const lost = group.filter(({ operation, answer }) => answer.kind === 'lost' && mayMatterLater(operation, traits)).map(({ operation }) => operation)
  const definite = group.filter(isDefinite)
  const begin = worlds.map((world) => (world.state === 'gone' ? world : { ...world, pending: withLost(world.pending, lost) }))
  const copies = new Map(group.map(({ operation }) => [operation, new Map()]))
  const seen = new Map()
  const others = (operation) => group.map((one) => one.operation).filter((other) => other !== operation)

  const torn = (copy) => group.reduce((all, { operation }) => [...all, ...all.flatMap((one) => halfDone(one, operation, true))], [copy])
  const passed = new Map()
  const goingOn = (world, left) => [...left.map((i) => definite[i].operation), ...world.pending]
  const later = (world, left) => {
    const all = closure([world], traits)
    for (const one of all)
      if (one.state !== 'gone') for (const copy of torn(copyOf(one)).flatMap((each) => caught(each, goingOn(one, left)))) passed.set(JSON.stringify(copy), copy)
    return all
  }

  const walk = (world, left) => {
    const key = `${left.join()} ${JSON.stringify(world)}`
    if (seen.has(key)) return seen.get(key)
    const now = later(world, left)
    const ends = left.length === 0 ? [world] : []
    for (const one of left.length ? now : [])
      for (const i of left)
        for (const step of explained(one, definite[i].operation, definite[i].answer, traits, others(definite[i].operation))) {
          const rest = left.filter((j) => j !== i)
          const found = walk(step.world, rest)
          const taken = found.length && step.copy ? torn(step.copy).flatMap((copy) => caught(copy, goingOn(one, rest))) : []
          for (const copy of taken) copies.get(definite[i].operation).set(JSON.stringify(copy), copy)
          ends.push(...found)
        }
    seen.set(key, unique(ends))
    return seen.get(key)
  }

  const after = unique(begin.flatMap((world) => walk(world, definite.map((_, i) => i))))
  const taken = ({ operation, answer }) => [...(answer.kind === 'lost' ? passed : copies.get(operation)).values()]
  return { worlds: after, copies: group.map(taken), passed: [...passed.values()] }
}

/** Operations that have happened by now, or never will. */
export const forgetPending = (worlds, traits, isOver) => unique(closure(worlds, traits).map((world) => ({ ...world, pending: world.pending.filter((operation) => !isOver(operation)) })))

/** The states it may be in now. */
export const statesOf = (worlds, traits) => [...new Set(closure(worlds, traits).map((world) => world.state))].sort()
