// The thread that owns the sockets. The main thread runs the user's code and may be busy for hours: this thread answers heartbeats,
// interrupts and shutdowns meanwhile, queues requests, and sends what the main thread publishes.
'use strict'
const fs = require('fs')
const inspector = require('inspector')
const { parentPort, receiveMessageOnPort, workerData } = require('worker_threads')
const { Composer, MessageError, Signer, decode } = require('./messages.js')
const { ChildOutput } = require('./child_output.js')
const { Listener } = require('./sockets.js')
const { CONSUMED, FLUSHED, INTERRUPTS_DONE, IN_SCRIPT, OUTSIDE, INSIDE, SIGNALLED } = require('./shared.js')

const MESSAGE_BYTES_MAX = 128 * 1024 * 1024
const QUEUED_BYTES_MAX = 64 * 1024 * 1024 // requests that the main thread has not taken yet
const QUEUED_REQUESTS_MAX = 1000
const INTERRUPT_LOOK_MS = 200
const INTERRUPT_MS_MAX = 8000 // then the process is ended
const TICKS_BUSY = 15
const PARENT_POLL_MS = 3000

const shared = new Int32Array(workerData.shared)
const file = workerData.connection
const signer = new Signer(file.key, file.signature_scheme)
const composer = new Composer(signer)
const requests = new Map() // by number: requests that the main thread works on or will work on
let lastRequest = 0
let queuedBytes = 0
let streamParent // the header of the request to which output belongs
let unacknowledged = 0 // bytes of output that peers have not read
let interruptsSent = 0
let debuggee // inspector session with the main thread

function log(text) {
  try {
    fs.writeSync(workerData.logFd, `javascript kernel: ${text}\n`)
  } catch {
    // Nobody reads the log.
  }
}

const ignored = (connection, frames) => void frames
const shell = new Listener({ name: 'shell', type: 'ROUTER', messageBytesMax: MESSAGE_BYTES_MAX, log, onMessage: receive(onShell) })
const control = new Listener({ name: 'control', type: 'ROUTER', messageBytesMax: 1024 * 1024, log, onMessage: receive(onControl) })
const stdin = new Listener({ name: 'stdin', type: 'ROUTER', messageBytesMax: 1024 * 1024, log, onMessage: ignored })
const iopub = new Listener({ name: 'iopub', type: 'PUB', messageBytesMax: 4096, log, onDrain: acknowledge })
const heartbeat = new Listener({
  name: 'heartbeat', type: 'REP', messageBytesMax: 65536, log, onMessage: (connection, frames) => connection.send(frames),
})
const childOutput = new ChildOutput(workerData.pipes, {
  onText: (name, text) => publish('stream', streamParent, { name, text }), isSlow: () => iopub.isSlow, catchUp,
})

function receive(handle) {
  return (connection, frames) => {
    let message
    try {
      message = decode(frames, signer)
    } catch (error) {
      if (!(error instanceof MessageError)) throw error
      return log(`message dropped: ${error.message}`)
    }
    handle(connection, message, frames.reduce((sum, frame) => sum + frame.length, 0))
  }
}

function publish(type, parent, content) {
  const topic = type === 'stream' ? `stream.${content.name}` : type
  return iopub.publish(topic, composer.compose([Buffer.from(topic)], type, parent, content))
}

function reply(request, type, content) {
  request.connection.send(composer.compose(request.identities, type, request.header, content))
}

// Output that peers have read is output that the main thread may add again.
function acknowledge() {
  if (iopub.isSlow) return
  if (unacknowledged > 0) {
    Atomics.add(shared, CONSUMED, unacknowledged)
    unacknowledged = 0
    Atomics.notify(shared, CONSUMED)
  }
  childOutput.resume()
}

function onShell(connection, message, bytes) {
  const number = ++lastRequest
  requests.set(number, { connection, identities: message.identities, header: message.header, bytes })
  queuedBytes += bytes
  if (isQueueFull()) connection.pause('queue')
  parentPort.postMessage(['request', number, message.header.msg_type, message.content])
}

function isQueueFull() {
  return queuedBytes > QUEUED_BYTES_MAX || requests.size > QUEUED_REQUESTS_MAX
}

function finish(number) {
  queuedBytes -= requests.get(number).bytes
  requests.delete(number)
  if (!isQueueFull()) for (const connection of shell.connections) connection.resume('queue')
}

function onControl(connection, message) {
  const request = { connection, identities: message.identities, header: message.header }
  publish('status', request.header, { execution_state: 'busy' })
  const type = message.header.msg_type
  if (type === 'interrupt_request') {
    interrupt()
    reply(request, 'interrupt_reply', { status: 'ok' })
  } else if (type === 'shutdown_request') {
    return shutdown(request, message.content)
  } else if (type === 'kernel_info_request') reply(request, 'kernel_info_reply', workerData.kernelInfo)
  else log(`control: message of type ${JSON.stringify(type)} dropped`)
  publish('status', request.header, { execution_state: 'idle' })
}

// Ends what the main thread runs. A script ends by SIGINT (vm's breakOnSigint). A main thread that waits for a promise takes note of the
// message. A main thread that does neither is in a callback or in the continuation of an await: V8 ends that.
function interrupt() {
  const mine = ++interruptsSent
  const isDone = () => Atomics.load(shared, INTERRUPTS_DONE) - mine >= 0
  const end = Date.now() + INTERRUPT_MS_MAX
  let before = mainThread()
  parentPort.postMessage(['interrupt', mine])
  signalScript()
  const look = setInterval(() => {
    if (isDone()) return clearInterval(look)
    if (Date.now() > end) {
      log('the code cannot be interrupted: the kernel ends')
      return process.kill(process.pid, 'SIGKILL')
    }
    // A main thread that only got no processor until now will see the message.
    const now = mainThread()
    if (isDone()) return clearInterval(look) // it waits for the next cell, which must not be hit
    if (now.isAsleep || now.ticks - before.ticks >= TICKS_BUSY) {
      force()
      before = now
    }
    return undefined
  }, INTERRUPT_LOOK_MS)
}

// Ends a script, if one runs. A script that is about to end waits for the signal.
function signalScript() {
  if (Atomics.compareExchange(shared, IN_SCRIPT, INSIDE, SIGNALLED) === INSIDE) process.kill(process.pid, 'SIGINT')
}

// The children come last: a script that waited for one goes on when it ends, and may be over before IN_SCRIPT is read.
function force() {
  if (Atomics.load(shared, IN_SCRIPT) === OUTSIDE) debuggee.post('Runtime.terminateExecution')
  else signalScript()
  interruptChildren()
}

// Whether the main thread waits for something (the disk, state D, does not count), and how long it ran, in clock ticks of 10 ms.
function mainThread() {
  const stat = fs.readFileSync(`/proc/${process.pid}/task/${process.pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return { isAsleep: fields[0] === 'S', ticks: Number(fields[11]) + Number(fields[12]) }
}

// The main thread may wait for a child (execSync), as a shell does: Ctrl-C is for all processes below this one.
function interruptChildren() {
  for (const pid of descendants(process.pid)) {
    try {
      process.kill(pid, 'SIGINT')
    } catch {
      // The process has ended.
    }
  }
}

function descendants(root) {
  const children = new Map() // by parent
  for (const name of fs.readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    let stat
    try {
      stat = fs.readFileSync(`/proc/${name}/stat`, 'latin1')
    } catch {
      continue // The process has ended.
    }
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
    children.set(parent, [...(children.get(parent) ?? []), Number(name)])
  }
  const found = [...(children.get(root) ?? [])]
  for (let i = 0; i < found.length; i++) found.push(...(children.get(found[i]) ?? []))
  return found
}

function shutdown(request, content) {
  const answer = { status: 'ok', restart: content.restart === true }
  reply(request, 'shutdown_reply', answer)
  publish('shutdown_reply', request.header, answer)
  publish('status', request.header, { execution_state: 'idle' })
  whenFlushed(1000, () => parentPort.postMessage(['exit']))
  setTimeout(() => process.kill(process.pid, 'SIGKILL'), 3000)
}

function whenFlushed(deadlineMs, then) {
  const end = Date.now() + deadlineMs
  const look = () => {
    if (Date.now() >= end || [shell, control, iopub].every((listener) => listener.isFlushed)) then()
    else setTimeout(look, 5)
  }
  setImmediate(look)
}

// What the main thread sends, by its first member.
const orders = {
  stream([, name, text]) {
    publish('stream', streamParent, { name, text })
    unacknowledged += text.length
    acknowledge()
  },
  // Results, displays, errors, and states (of a request with a number; number 0: of the request to which output belongs).
  // `content` is JSON.
  publish([, number, type, content]) {
    publish(type, number === 0 ? streamParent : requests.get(number).header, content)
    unacknowledged += content.length
    acknowledge()
  },
  // From here on, output belongs to this request.
  parent([, number]) {
    streamParent = requests.get(number).header
  },
  reply([, number, type, content]) {
    reply(requests.get(number), type, content)
  },
  finish([, number]) {
    finish(number)
  },
  // What children have written until now comes before what the main thread publishes next.
  drain() {
    childOutput.drain()
  },
  // The main thread ends, and waits until everything has left.
  flush() {
    childOutput.drain()
    whenFlushed(1000, () => {
      Atomics.store(shared, FLUSHED, 1)
      Atomics.notify(shared, FLUSHED)
    })
  },
  async listen() {
    const address = file.ip
    await Promise.all([
      shell.listen(address, file.shell_port), control.listen(address, file.control_port), stdin.listen(address, file.stdin_port),
      iopub.listen(address, file.iopub_port), heartbeat.listen(address, file.hb_port),
    ])
    publish('status', undefined, { execution_state: 'starting' })
    parentPort.postMessage(['listening'])
  },
}

function obey(order) {
  Promise.resolve(orders[order[0]](order)).catch((error) => parentPort.postMessage(['failed', error.message]))
}

function catchUp() {
  for (let next = receiveMessageOnPort(parentPort); next; next = receiveMessageOnPort(parentPort)) obey(next.message)
}

// Some parents ask their kernels to end with them, as Jupyter does.
function pollParent() {
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL')
  }, PARENT_POLL_MS)
}

debuggee = new inspector.Session()
debuggee.connectToMainThread()
if (process.env.JPY_PARENT_PID) pollParent()
parentPort.on('message', obey)
