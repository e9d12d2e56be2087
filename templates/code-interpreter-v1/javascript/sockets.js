// Server sides of ZeroMQ sockets on TCP: ROUTER, PUB and REP, as far as a Jupyter kernel needs them.
'use strict'
const net = require('net')
const zmtp = require('./zmtp.js')

const HANDSHAKE_MS_MAX = 30_000
const CONNECTIONS_MAX = 256 // for each socket
const SUBSCRIPTIONS_MAX = 1000 // for each subscriber
const QUEUE_BYTES = 256 * 1024 // a peer with more bytes in its queue is slow
const HELD_BYTES_MAX = 160 * 1024 * 1024
const PEERS = { ROUTER: ['DEALER', 'REQ', 'ROUTER'], PUB: ['SUB', 'XSUB'], REP: ['REQ', 'DEALER'] }

let heldBytes = 0 // of all peers: messages that are not complete

// One peer. `onMessage(connection, frames)` gets its messages after the handshake.
class Connection {
  constructor(owner, socket) {
    this.owner = owner
    this.socket = socket
    this.reader = new zmtp.Reader(owner.limits)
    this.subscriptions = new Map() // prefix as latin1: how often
    this.isReady = false
    this.isClosed = false
    this.pauses = new Set() // reasons not to read
    this.held = 0 // its part of heldBytes
    this.deadline = setTimeout(() => this.close('no handshake'), HANDSHAKE_MS_MAX)
    socket.setNoDelay(true)
    socket.on('data', (chunk) => this.read(chunk))
    socket.on('drain', () => this.drained())
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => this.gone())
    socket.write(zmtp.greeting())
  }

  read(chunk) {
    if (this.isClosed) return
    try {
      this.reader.push(chunk, (event) => this.handle(event))
    } catch (error) {
      if (!(error instanceof zmtp.ProtocolError)) throw error
      this.refuse(error.message)
    }
    this.count()
    // A peer that does not read its answers is not read from either.
    if (this.isSlow) this.pause('slow')
  }

  // What peers have sent without ending a message is bounded for all of them together: anybody may connect.
  count() {
    const held = this.isClosed ? 0 : this.reader.heldBytes
    heldBytes += held - this.held
    this.held = held
    if (heldBytes > HELD_BYTES_MAX) this.refuse('too many bytes of messages that do not end')
  }

  drained() {
    this.resume('slow')
    this.owner.onDrain()
  }

  handle(event) {
    if (this.isClosed) return
    if (event.kind === 'greeting') this.socket.write(zmtp.encodeReady({ 'Socket-Type': this.owner.type, Identity: '' }))
    else if (event.kind === 'command') this.handleCommand(event)
    else this.handleMessage(event.frames)
  }

  handleCommand({ name, body }) {
    if (name === 'ERROR') return this.close('the peer refused')
    if (!this.isReady) {
      if (name !== 'READY') throw new zmtp.ProtocolError(`${name} before READY`)
      return this.handshake(zmtp.decodeProperties(body))
    }
    if (name === 'PING') {
      // The time to live (2 bytes), then up to 16 bytes that a PONG sends back.
      if (body.length < 2 || body.length > 18) throw new zmtp.ProtocolError('a wrong PING')
      this.write(zmtp.encodeCommand('PONG', body.subarray(2)))
    } else if (name === 'SUBSCRIBE') this.subscribe(body)
    else if (name === 'CANCEL') this.unsubscribe(body)
    else if (name !== 'PONG') throw new zmtp.ProtocolError(`unknown command ${JSON.stringify(name)}`)
  }

  handshake(properties) {
    const type = properties.get('socket-type')?.toString('latin1')
    if (!PEERS[this.owner.type].includes(type))
      throw new zmtp.ProtocolError(`${this.owner.type} does not talk to ${type ?? 'a socket without a type'}`)
    clearTimeout(this.deadline)
    this.isReady = true
    this.reader.ready()
  }

  handleMessage(frames) {
    if (this.owner.type !== 'PUB') return this.owner.onMessage(this, frames)
    // A subscriber's messages: 1 and a prefix, or 0 and a prefix. Other messages of XSUB have no meaning here.
    const [first] = frames
    if (frames.length !== 1 || first.length < 1) return
    if (first[0] === 1) this.subscribe(first.subarray(1))
    else if (first[0] === 0) this.unsubscribe(first.subarray(1))
  }

  subscribe(prefix) {
    const key = prefix.toString('latin1')
    if (!this.subscriptions.has(key) && this.subscriptions.size >= SUBSCRIPTIONS_MAX)
      throw new zmtp.ProtocolError('too many subscriptions')
    this.subscriptions.set(key, (this.subscriptions.get(key) ?? 0) + 1)
  }

  unsubscribe(prefix) {
    const key = prefix.toString('latin1')
    const count = this.subscriptions.get(key) ?? 0
    if (count > 1) this.subscriptions.set(key, count - 1)
    else this.subscriptions.delete(key)
  }

  wants(topic) {
    for (const prefix of this.subscriptions.keys()) if (topic.startsWith(prefix)) return true
    return false
  }

  // Whether the peer has read so little that its queue is full.
  get isSlow() {
    return this.socket.writableNeedDrain && !this.isClosed
  }

  send(frames) {
    if (this.isReady) this.write(zmtp.encodeMessage(frames))
  }

  // Everything that is written in one turn of the loop leaves in one system call.
  write(bytes) {
    if (this.isClosed) return
    if (this.socket.writableCorked === 0) {
      this.socket.cork()
      process.nextTick(() => this.socket.uncork())
    }
    this.socket.write(bytes)
  }

  pause(reason) {
    this.pauses.add(reason)
    this.socket.pause()
  }

  resume(reason) {
    if (this.pauses.delete(reason) && this.pauses.size === 0) this.socket.resume()
  }

  refuse(reason) {
    if (this.isClosed) return
    if (this.reader.isGreeted && !this.isReady) this.socket.write(zmtp.encodeError(reason))
    this.close(reason)
  }

  close(reason) {
    if (this.isClosed) return
    this.owner.log(`${this.owner.name}: connection closed: ${reason}`)
    this.socket.destroySoon()
    this.gone()
  }

  gone() {
    clearTimeout(this.deadline)
    this.isClosed = true
    this.reader.drop()
    this.count()
    if (this.owner.connections.delete(this)) this.owner.onDrain()
  }
}

// A listening socket. options: name (for the log), type ('ROUTER', 'PUB', 'REP'), messageBytesMax, log, and the callbacks
// onMessage(connection, frames) and onDrain(): a slow peer is slow no more, or is gone.
class Listener {
  constructor(options) {
    this.name = options.name
    this.type = options.type
    this.limits = { messageBytesMax: options.messageBytesMax, messageFramesMax: 64 }
    this.log = options.log
    this.onMessage = options.onMessage ?? (() => {})
    this.onDrain = options.onDrain ?? (() => {})
    this.connections = new Set()
    this.server = net.createServer({ highWaterMark: QUEUE_BYTES }, (socket) => this.accept(socket))
    this.server.maxConnections = CONNECTIONS_MAX
    this.server.on('error', (error) => this.log(`${this.name}: ${error.message}`))
  }

  listen(address, port) {
    return new Promise((resolve, reject) => {
      this.server.once('error', reject)
      this.server.listen({ host: address, port, backlog: 128 }, () => {
        this.server.off('error', reject)
        resolve()
      })
    })
  }

  accept(socket) {
    this.connections.add(new Connection(this, socket))
  }

  // PUB: to every subscriber of the topic, which is the first frame. Returns how many bytes were sent.
  publish(topic, frames) {
    let bytes
    for (const connection of this.connections) {
      if (!connection.isReady || !connection.wants(topic)) continue
      bytes ??= zmtp.encodeMessage(frames)
      connection.write(bytes)
    }
    return bytes ? bytes.length : 0
  }

  get isSlow() {
    for (const connection of this.connections) if (connection.isSlow) return true
    return false
  }

  // Whether every byte has left for the peers' kernels.
  get isFlushed() {
    for (const connection of this.connections) if (connection.socket.writableLength > 0) return false
    return true
  }
}

module.exports = { Listener, CONNECTIONS_MAX, SUBSCRIPTIONS_MAX }
