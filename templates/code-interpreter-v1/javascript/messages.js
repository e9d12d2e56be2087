// Jupyter messages (protocol 5.3): signed frames to objects and back, without any socket.
'use strict'
const crypto = require('crypto')

const DELIMITER = Buffer.from('<IDS|MSG>')
const EMPTY = Buffer.from('{}')
const PROTOCOL = '5.3'

class MessageError extends Error {}

// Signs with the key of the connection file. Without a key, signatures are empty and not looked at.
class Signer {
  constructor(key, scheme = 'hmac-sha256') {
    const digest = /^hmac-(.+)$/.exec(scheme)
    if (!digest || !crypto.getHashes().includes(digest[1]))
      throw new MessageError(`signature scheme ${JSON.stringify(scheme)} is not supported`)
    this.digest = digest[1]
    this.key = key
  }

  sign(frames) {
    if (!this.key) return ''
    const hmac = crypto.createHmac(this.digest, this.key)
    for (const frame of frames) hmac.update(frame)
    return hmac.digest('hex')
  }

  isValid(signature, frames) {
    if (!this.key) return true
    const expected = Buffer.from(this.sign(frames))
    return signature.length === expected.length && crypto.timingSafeEqual(signature, expected)
  }
}

function parseObject(frame, what) {
  let value
  try {
    value = JSON.parse(frame.toString())
  } catch {
    throw new MessageError(`${what} is no JSON`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new MessageError(`${what} is no object`)
  return value
}

// The frames of a message as {identities, header, content}. Throws MessageError.
function decode(frames, signer) {
  const at = frames.findIndex((frame) => frame.equals(DELIMITER))
  if (at < 0) throw new MessageError('no delimiter')
  const [signature, ...parts] = frames.slice(at + 1)
  if (parts.length < 4) throw new MessageError('frames are missing')
  if (!signer.isValid(signature, parts.slice(0, 4))) throw new MessageError('the signature is wrong')
  const header = parseObject(parts[0], 'the header')
  if (typeof header.msg_type !== 'string') throw new MessageError('the header has no msg_type')
  return { identities: frames.slice(0, at), header, content: parseObject(parts[3], 'the content') }
}

// Makes the messages of one kernel, whose session is the same as long as the process lives.
class Composer {
  constructor(signer) {
    this.signer = signer
    this.session = crypto.randomUUID()
    this.count = 0
    this.lastParent = undefined
    this.lastFrame = EMPTY
  }

  // The header of a request is in each message that the request causes.
  parentFrame(parent) {
    if (!parent) return EMPTY
    if (this.lastParent !== parent) [this.lastParent, this.lastFrame] = [parent, Buffer.from(JSON.stringify(parent))]
    return this.lastFrame
  }

  // Frames of a message with the given prefix (identities of a peer, or the topic). `parent` is the header of the request, or undefined.
  // `content` is an object, or its JSON.
  compose(prefix, type, parent, content) {
    this.count++
    const header = `{"msg_id":"${this.session}_${this.count}","session":"${this.session}","username":"kernel",` +
      `"date":"${new Date().toISOString()}","msg_type":"${type}","version":"${PROTOCOL}"}`
    const parts = [
      Buffer.from(header), this.parentFrame(parent), EMPTY, Buffer.from(typeof content === 'string' ? content : JSON.stringify(content)),
    ]
    return [...prefix, DELIMITER, Buffer.from(this.signer.sign(parts)), ...parts]
  }
}

module.exports = { Composer, MessageError, Signer, decode, PROTOCOL }
