// Counts, findings, and the log of everything that was asked and answered.
import fs from 'node:fs'

const add = (table, key, n = 1) => (table[key] = (table[key] ?? 0) + n)
const sorted = (table) => Object.entries(table).sort(([, a], [, b]) => b - a).map(([key, n]) => `${key} ${n}`).join(', ') || 'none'
const short = (operation) => JSON.stringify({ ...operation, copies: undefined, name: undefined })

export class Report {
  operations = {}
  answers = {}
  kills = {}
  faults = {} // answers of 500 and above, and cut connections, by kind
  findings = [] // {kind, text}
  slowest = { ms: 0 }
  quiet = 0
  windows = [] // {from, to, what}: when a role was down; to: Infinity while it is

  constructor({ file = null, now = () => performance.now() } = {}) {
    this.now = now
    this.began = now()
    this.file = file
    this.fd = file ? fs.openSync(file, 'w') : -1
  }

  log(text) {
    if (this.fd >= 0) fs.writeSync(this.fd, `${new Date().toISOString()} ${((this.now() - this.began) / 1000).toFixed(3)} ${text}\n`)
  }

  find(kind, text) {
    this.findings.push({ kind, text })
    this.log(`FINDING ${kind}: ${text}`)
  }

  /** One operation and its answer. */
  answered({ client, sandbox, operation, answer, began, ended, mayBeCut = false }) {
    const ms = Math.round(ended - began)
    add(this.operations, operation.name)
    add(this.answers, answer.kind)
    if (ms > this.slowest.ms) this.slowest = { ms, operation: operation.name }
    this.log(`client ${client} ${sandbox ?? '-'} ${operation.name} ${short(operation)} -> ${JSON.stringify(answer).slice(0, 400)} ${ms} ms`)
    if (answer.kind === 'lost') add(this.faults, `${operation.name}: ${answer.why}${answer.message ? ` "${generalised(answer.message)}"` : ''}`)
    for (const error of answer.errors ?? []) add(this.faults, `${operation.name}: copy ${error.code} "${generalised(error.message)}"`)
    if (answer.kind === 'unexpected') this.find('unexpected', `${operation.name} ${short(operation)}: ${answer.status} ${answer.message}`)
    if (answer.hanging) this.find('hanging', `${operation.name} ${short(operation)} of ${sandbox} had no answer within ${ms} ms`)
    const errors = [{ code: answer.status, message: answer.message }, ...(answer.errors ?? [])].filter(({ code }) => code >= 500)
    for (const error of errors)
      if (!this.#isFair(error, began, ended)) this.find('status', `${operation.name} ${short(operation)} of ${sandbox}: ${error.code} ${error.message}`)
    if (answer.kind === 'lost' && !answer.status && !answer.hanging && !mayBeCut && !this.wasDown(began, ended)) this.find('cut', `${operation.name} ${short(operation)} of ${sandbox}: ${answer.why}, and nobody was killed`)
  }

  /** "Try again" is a fair answer while somebody is dead, and only then; "internal error" never is. */
  #isFair({ code }, began, ended) {
    return (code === 503 || code === 504) && this.wasDown(began, ended)
  }

  /** Was one of them dead in that time?  who: none means anybody. */
  wasDown(began, ended, ...who) {
    return this.windows.some(({ from, to, what }) => from <= ended && to >= began && (who.length === 0 || who.includes(what)))
  }

  killed(what, pid) {
    add(this.kills, what)
    const window = { from: this.now(), to: Infinity, what }
    this.windows.push(window)
    this.log(`KILL ${what} ${pid}`)
    return window
  }

  isClean() {
    return this.findings.length === 0
  }

  sum(table) {
    return Object.values(table).reduce((a, b) => a + b, 0)
  }

  /** For people: lines of text. */
  summary() {
    const lost = this.findings.filter(({ kind }) => kind === 'contradiction').length
    const lines = [
      `${this.sum(this.operations)} operations in ${Math.round((this.now() - this.began) / 1000)} s: ${sorted(this.operations)}`,
      `answers: ${sorted(this.answers)}`,
      `kill -9: ${this.sum(this.kills)}: ${sorted(this.kills)}`,
      `without a clear answer: ${sorted(this.faults)}`,
      `slowest: ${this.slowest.operation} ${this.slowest.ms} ms; looked at ${this.quiet} times with nothing going on`,
    ]
    for (const { kind, text } of this.findings.slice(0, 20)) lines.push(`FINDING ${kind}: ${text}`)
    lines.push(`losses: ${lost === 0 ? 'zero' : lost}; other findings: ${this.findings.length - lost || 'none'}`)
    return lines
  }

  /** A clean run leaves no file. */
  close() {
    if (this.fd < 0) return
    fs.closeSync(this.fd)
    this.fd = -1
    if (this.isClean()) fs.rmSync(this.file, { force: true })
  }
}

const generalised = (message) => message.replace(/\bi[a-z0-9]{20}\b/g, 'ID').replace(/\d+/g, 'N').slice(0, 120)
