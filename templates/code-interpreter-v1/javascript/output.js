// What the user's code prints and displays, on its way to the thread that owns the sockets. Who prints faster than peers read waits.
'use strict'
const { Writable } = require('stream')
const { StringDecoder } = require('string_decoder')
const { CONSUMED, FLUSHED } = require('./shared.js')

const AHEAD_MAX = 1024 * 1024 // characters that peers have not read yet
const PIECE_MAX = 256 * 1024 // characters in one message
const FLUSH_MS_MAX = 2000
const { load, store, wait } = Atomics
const { stringify } = JSON
const { setImmediate } = globalThis // user code may replace it

class Output {
  constructor(port, shared) {
    this.port = port
    this.shared = shared
    this.sent = 0
    this.deferred = [] // displays that are sent before the next output, unless the cell ends with one of them
  }

  post(order) {
    this.port.postMessage(order)
  }

  // Sends output and waits while too much of it is under way. SIGINT ends the wait together with the script.
  postOutput(order, length) {
    this.port.postMessage(order)
    this.sent = (this.sent + length) | 0
    for (;;) {
      const consumed = load(this.shared, CONSUMED)
      if (((this.sent - consumed) | 0) <= AHEAD_MAX) return
      wait(this.shared, CONSUMED, consumed)
    }
  }

  print(name, text) {
    this.sendDeferred()
    for (let at = 0; at < text.length;) {
      let end = Math.min(at + PIECE_MAX, text.length)
      if (end < text.length && (text.charCodeAt(end - 1) & 0xfc00) === 0xd800) end-- // between the halves of a character
      this.postOutput(['stream', name, at === 0 && end === text.length ? text : text.slice(at, end)], end - at)
      at = end
    }
  }

  // A message that belongs to what runs, in order with what is printed.
  publish(type, content) {
    this.sendDeferred()
    const json = stringify(content)
    this.postOutput(['publish', 0, type, json], json.length)
  }

  // What ends an execution does not wait for anybody: states, errors.
  publishState(number, state) {
    this.publishNow(number, 'status', { execution_state: state })
  }

  publishNow(number, type, content) {
    const json = stringify(content)
    this.sent = (this.sent + json.length) | 0
    this.post(['publish', number, type, json])
  }

  defer(display) {
    this.deferred.push(display)
    setImmediate(() => this.sendDeferred())
  }

  // Displays that wait, except one that is sent otherwise.
  sendDeferred(except) {
    if (this.deferred.length === 0) return
    const displays = this.deferred
    this.deferred = []
    for (const display of displays) if (display !== except) this.publish('display_data', { data: display.bundle, metadata: {}, transient: {} })
  }

  // Before the process ends: until everything has left, or nobody takes it.
  flush() {
    this.sendDeferred()
    store(this.shared, FLUSHED, 0)
    this.post(['flush'])
    wait(this.shared, FLUSHED, 0, FLUSH_MS_MAX)
  }
}

// process.stdout and process.stderr: each write is one message.
class CellStream extends Writable {
  constructor(output, name, fd) {
    super({ decodeStrings: false })
    this.output = output
    this.streamName = name
    this.decoder = new StringDecoder('utf8')
    this.fd = fd
    this._type = 'pipe'
    this._isStdio = true // node does not end it when something is piped into it
  }

  write(chunk, encoding, callback) {
    if (typeof encoding === 'function') [encoding, callback] = [undefined, encoding]
    let text
    if (typeof chunk === 'string') text = encoding && !/^utf-?8$/i.test(encoding) ? this.decoder.write(Buffer.from(chunk, encoding)) : chunk
    else if (chunk instanceof Uint8Array) text = this.decoder.write(chunk)
    else throw Object.assign(new TypeError('The "chunk" argument must be of type string or an instance of Buffer or Uint8Array'), { code: 'ERR_INVALID_ARG_TYPE' })
    if (text) this.output.print(this.streamName, text)
    if (callback) process.nextTick(callback)
    return true
  }

  end(chunk, encoding, callback) {
    if (typeof chunk === 'function') [chunk, callback] = [undefined, chunk]
    if (chunk !== undefined && chunk !== null) this.write(chunk, encoding)
    if (typeof callback === 'function') process.nextTick(callback)
    return this
  }

  destroy() {
    return this
  }
}

// Children that the code waits for have written before what the code prints next.
function keepOrderWithChildren(output) {
  const childProcess = require('child_process')
  for (const name of ['spawnSync', 'execSync', 'execFileSync']) {
    const original = childProcess[name]
    childProcess[name] = function (...args) {
      output.sendDeferred()
      try {
        return original.apply(this, args)
      } finally {
        output.post(['drain'])
      }
    }
    Object.defineProperty(childProcess[name], 'name', { value: name })
  }
}

// What console writes to: process.stdout or process.stderr, without the callback of each write. The callback would do nothing, and
// callbacks of a loop that prints would wait in memory until the loop ends.
function consoleStream(stream) {
  return Object.create(stream, {
    write: { value: (text) => stream.write(text) },
    once: { value() { return this } },
    removeListener: { value() { return this } },
    listenerCount: { value: () => 1 },
  })
}

function takeOver(output) {
  for (const [name, fd] of [['stdout', 1], ['stderr', 2]]) {
    const stream = new CellStream(output, name, fd)
    const forConsole = consoleStream(stream)
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => forConsole })
    void console[`_${name}`] // console takes its stream at first use
    Object.defineProperty(process, name, { configurable: true, enumerable: true, get: () => stream })
  }
  keepOrderWithChildren(output)
}

module.exports = { Output, takeOver }
