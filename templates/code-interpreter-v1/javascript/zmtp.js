// The bytes of ZMTP 3.0 and 3.1 with the mechanism NULL, without any socket: a reader that turns bytes into frames, and functions
// that make bytes. The protocol is ZeroMQ RFC 37.
'use strict'

const GREETING_BYTES = 64
const COMMAND_BYTES_MAX = 4096; // a command: READY, ERROR, SUBSCRIBE, CANCEL, PING, PONG
const FLAG_MORE = 1
const FLAG_LONG = 2
const FLAG_COMMAND = 4

class ProtocolError extends Error {}

function greeting() {
  const bytes = Buffer.alloc(GREETING_BYTES)
  bytes[0] = 0xff
  bytes[8] = 1
  bytes[9] = 0x7f
  bytes[10] = 3
  bytes[11] = 1
  bytes.write('NULL', 12, 'latin1')
  return bytes
}

function checkGreeting(bytes) {
  if (bytes[0] !== 0xff || (bytes[9] & 1) === 0)
    throw new ProtocolError('the peer does not speak ZMTP 3')
  if (bytes[10] < 3)
    throw new ProtocolError(`version ${bytes[10]} of ZMTP is not supported`)
  const mechanism = bytes.toString('latin1', 12, 32).replace(/\0+$/, '')
  if (mechanism !== 'NULL')
    throw new ProtocolError(`security mechanism ${JSON.stringify(mechanism)} is not supported`)
}

function frameHead(length, flags) {
  if (length < 256)
    return Buffer.from([flags, length])
  const head = Buffer.allocUnsafe(9)
  head[0] = flags | FLAG_LONG
  head.writeBigUInt64BE(BigInt(length), 1)
  return head
}

// One message of several frames as one buffer.
function encodeMessage(frames) {
  const parts = []
  frames.forEach((frame, i) => {
    parts.push(frameHead(frame.length, i + 1 < frames.length ? FLAG_MORE : 0), frame)
  })
  return Buffer.concat(parts)
}

function encodeCommand(name, body) {
  const data = Buffer.concat([Buffer.from([name.length]), Buffer.from(name, 'latin1'), body])
  return Buffer.concat([frameHead(data.length, FLAG_COMMAND), data])
}

function encodeReady(properties) {
  const parts = []
  for (const [name, value] of Object.entries(properties)) {
    const length = Buffer.alloc(4)
    length.writeUInt32BE(value.length)
    parts.push(Buffer.from([name.length]), Buffer.from(name, 'latin1'), length, Buffer.from(value, 'latin1'))
  }
  return encodeCommand('READY', Buffer.concat(parts))
}

function encodeError(reason) {
  const text = Buffer.from(reason.slice(0, 255), 'latin1')
  return encodeCommand('ERROR', Buffer.concat([Buffer.from([text.length]), text]))
}

function decodeCommand(data) {
  if (data.length < 1 || data[0] === 0 || 1 + data[0] > data.length)
    throw new ProtocolError('a command without a name')
  return { name: data.toString('latin1', 1, 1 + data[0]), body: data.subarray(1 + data[0]) }
}

// The properties of a READY command; names are lower case, as ZMTP compares them without case.
function decodeProperties(body) {
  const properties = new Map()
  let at = 0
  while (at < body.length) {
    const nameEnd = at + 1 + body[at]
    if (body[at] === 0 || nameEnd + 4 > body.length)
      throw new ProtocolError('READY is cut off')
    const valueEnd = nameEnd + 4 + body.readUInt32BE(nameEnd)
    if (valueEnd > body.length)
      throw new ProtocolError('READY is cut off')
    properties.set(body.toString('latin1', at + 1, nameEnd).toLowerCase(), body.subarray(nameEnd + 4, valueEnd))
    at = valueEnd
  }
  return properties
}

// Bytes in, events out: {kind: 'greeting'}, {kind: 'command', name, body}, {kind: 'message', frames}.
// A message may have messageBytesMax bytes and messageFramesMax frames, until ready() only commands may come.
class Reader {
  constructor({ messageBytesMax, messageFramesMax }) {
    this.messageBytesMax = messageBytesMax
    this.messageFramesMax = messageFramesMax
    this.isGreeted = false
    this.isReady = false
    this.chunks = []
    this.buffered = 0; // bytes in chunks
    this.frames = []
    this.frameBytes = 0; // bytes in frames
  }

  ready() {
    this.isReady = true
  }

  // Bytes that the reader holds for the peer.
  get heldBytes() {
    return this.buffered + this.frameBytes
  }

  // Gives up what it holds.
  drop() {
    this.chunks = []
    this.frames = []
    this.buffered = 0
    this.frameBytes = 0
  }

  // Calls `onEvent` for each event that is complete with this chunk; what it does (ready(), drop()) counts for the bytes that follow.
  // Throws ProtocolError; then the connection is of no use any more.
  push(chunk, onEvent) {
    this.chunks.push(chunk)
    this.buffered += chunk.length
    for (;;) {
      const event = this.next()
      if (event === undefined)
        return
      onEvent(event)
    }
  }

  next() {
    if (!this.isGreeted)
      return this.nextGreeting()
    for (;;) {
      const head = this.peekHead()
      if (head === undefined)
        return undefined
      const total = head.bytes + head.length
      if (this.buffered < total)
        return undefined
      const data = this.take(total).subarray(head.bytes)
      if (head.flags & FLAG_COMMAND)
        return { kind: 'command', ...decodeCommand(data) }
      this.frames.push(data)
      this.frameBytes += data.length
      if (head.flags & FLAG_MORE)
        continue
      const frames = this.frames
      this.frames = []
      this.frameBytes = 0
      return { kind: 'message', frames }
    }
  }

  nextGreeting() {
    // A wrong first byte is refused at once: a peer that speaks something else waits for an answer and never sends 64 bytes.
    if (this.buffered > 0 && this.chunks[0][0] !== 0xff)
      throw new ProtocolError('the peer does not speak ZMTP 3')
    if (this.buffered < GREETING_BYTES)
      return undefined
    checkGreeting(this.take(GREETING_BYTES))
    this.isGreeted = true
    return { kind: 'greeting' }
  }

  // Flags and length of the next frame, checked; undefined if they are not here yet.
  peekHead() {
    if (this.buffered < 2)
      return undefined
    this.join(9)
    const first = this.chunks[0]
    const flags = first[0]
    if (flags > 7)
      throw new ProtocolError('reserved flags are set')
    let length = first[1]
    let bytes = 2
    if (flags & FLAG_LONG) {
      if (this.buffered < 9)
        return undefined
      const long = first.readBigUInt64BE(1)
      if (long > BigInt(this.messageBytesMax))
        throw new ProtocolError(`a frame of ${long} bytes is too long`)
      length = Number(long)
      bytes = 9
    }
    this.checkLength(flags, length)
    return { flags: flags & ~FLAG_LONG, length, bytes }
  }

  checkLength(flags, length) {
    if (flags & FLAG_COMMAND) {
      if (flags & FLAG_MORE)
        throw new ProtocolError('a command of several frames')
      if (length > COMMAND_BYTES_MAX)
        throw new ProtocolError(`a command of ${length} bytes is too long`)
      return
    }
    if (!this.isReady)
      throw new ProtocolError('a message before READY')
    if (this.frameBytes + length > this.messageBytesMax)
      throw new ProtocolError(`a message of more than ${this.messageBytesMax} bytes`)
    if (this.frames.length >= this.messageFramesMax)
      throw new ProtocolError(`a message of more than ${this.messageFramesMax} frames`)
  }

  // Makes the first chunk at least `bytes` long, or as long as there are bytes.
  join(bytes) {
    if (this.chunks[0].length >= Math.min(bytes, this.buffered))
      return
    this.chunks = [Buffer.concat(this.chunks)]
  }

  take(bytes) {
    if (this.chunks[0].length < bytes)
      this.chunks = [Buffer.concat(this.chunks)]
    const first = this.chunks[0]
    const taken = first.subarray(0, bytes)
    if (bytes === first.length)
      this.chunks.shift()
    else
      this.chunks[0] = first.subarray(bytes)
    this.buffered -= bytes
    return taken
  }
}

module.exports = {
  ProtocolError, Reader, greeting, encodeMessage, encodeCommand, encodeReady, encodeError, decodeProperties, GREETING_BYTES,
}
