// The bytes of ZMTP and of Jupyter messages: well-formed, cut into pieces, and malformed. A TAP program; needs nothing but node.
'use strict'
const assert = require('assert')
const path = require('path')

const kernel = path.resolve(process.env.SANDGLASS_JAVASCRIPT_KERNEL ?? path.join(__dirname, '../../../templates/code-interpreter-v1/javascript'))
const zmtp = require(path.join(kernel, 'zmtp.js'))
const { Composer, MessageError, Signer, decode } = require(path.join(kernel, 'messages.js'))

const LIMITS = { messageBytesMax: 1000, messageFramesMax: 4 }

function readAll(bytes, { step = bytes.length, isReady = true, limits = LIMITS } = {}) {
  const reader = new zmtp.Reader(limits)
  if (isReady) reader.ready()
  const events = []
  for (let at = 0; at < bytes.length; at += step) reader.push(bytes.subarray(at, at + step), (event) => events.push(event))
  return { events, reader }
}

function refused(bytes, options, reason) {
  assert.throws(() => readAll(Buffer.concat([zmtp.greeting(), bytes]), options), (error) => error instanceof zmtp.ProtocolError && reason.test(error.message))
}

const tests = {
  'a greeting has 64 bytes and names NULL'() {
    const bytes = zmtp.greeting()
    assert.strictEqual(bytes.length, 64)
    assert.strictEqual(bytes.toString('latin1', 12, 16), 'NULL')
    assert.deepStrictEqual(readAll(bytes).events, [{ kind: 'greeting' }])
  },

  'messages pass in pieces of any size'() {
    const long = Buffer.alloc(700, 'x')
    const bytes = Buffer.concat([zmtp.greeting(), zmtp.encodeReady({ 'Socket-Type': 'DEALER', Identity: '' }),
      zmtp.encodeMessage([Buffer.from('a'), long, Buffer.alloc(0)]), zmtp.encodeMessage([Buffer.from('b')])])
    for (const step of [1, 2, 7, 63, 64, 65, 300, bytes.length]) {
      const { events, reader } = readAll(bytes, { step })
      assert.deepStrictEqual(events.map(({ kind }) => kind), ['greeting', 'command', 'message', 'message'])
      assert.strictEqual(zmtp.decodeProperties(events[1].body).get('socket-type').toString(), 'DEALER')
      assert.deepStrictEqual(events[2].frames.map(String), ['a', String(long), ''])
      assert.deepStrictEqual(events[3].frames.map(String), ['b'])
      assert.strictEqual(reader.heldBytes, 0)
    }
  },

  'a peer that speaks something else is refused at its first byte'() {
    assert.throws(() => readAll(Buffer.from('G')), zmtp.ProtocolError)
  },

  'wrong greetings are refused'() {
    const change = (at, value) => {
      const bytes = zmtp.greeting()
      bytes[at] = value
      return bytes
    }
    for (const [at, value] of [[0, 0], [9, 0x7e], [10, 2], [10, 0], [12, 0x50]])
      assert.throws(() => readAll(change(at, value)), zmtp.ProtocolError, `byte ${at} is ${value}`)
    assert.deepStrictEqual(readAll(change(11, 0)).events, [{ kind: 'greeting' }])
    assert.deepStrictEqual(readAll(change(10, 4)).events, [{ kind: 'greeting' }])
  },

  'malformed frames are refused'() {
    refused(Buffer.from([8, 0]), {}, /reserved/)
    refused(Buffer.from([0xff, 0]), {}, /reserved/)
    refused(Buffer.from([5, 1, 65]), {}, /several frames/)
    refused(Buffer.from([4, 0]), {}, /without a name/)
    refused(Buffer.from([4, 1, 0]), {}, /without a name/)
    refused(Buffer.from([4, 2, 9, 65]), {}, /without a name/)
    refused(Buffer.from([2, 0, 0, 0, 0, 0, 0, 4, 0]), {}, /too long|more than/)
    refused(Buffer.from([2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), {}, /too long/)
    refused(Buffer.from([6, 0, 0, 0, 0, 0, 0, 0x20, 0]), { limits: { messageBytesMax: 1e6, messageFramesMax: 4 } }, /command .* too long/)
  },

  'a length is refused before its bytes arrive'() {
    const { reader } = readAll(zmtp.greeting())
    assert.throws(() => reader.push(Buffer.from([2, 0, 0, 0, 0x40, 0, 0, 0, 0]), () => {}), zmtp.ProtocolError)
    assert.ok(reader.heldBytes < 100)
  },

  'a message has limits over all of its frames'() {
    const frame = Buffer.concat([Buffer.from([1, 200]), Buffer.alloc(200)])
    refused(Buffer.concat([frame, frame, frame, frame, Buffer.from([0, 1, 65])]), {}, /more than 4 frames/)
    refused(Buffer.concat([frame, frame, frame, frame, frame, frame]), { limits: { messageBytesMax: 1000, messageFramesMax: 99 } }, /more than 1000 bytes/)
  },

  'messages before READY are refused'() {
    refused(Buffer.from([0, 1, 65]), { isReady: false }, /before READY/)
  },

  'properties that are cut off are refused'() {
    for (const bytes of [[0], [1], [1, 65], [1, 65, 0, 0, 0], [1, 65, 0, 0, 0, 1], [1, 65, 0xff, 0xff, 0xff, 0xff, 66], [255, 65]])
      assert.throws(() => zmtp.decodeProperties(Buffer.from(bytes)), zmtp.ProtocolError, String(bytes))
    assert.strictEqual(zmtp.decodeProperties(Buffer.alloc(0)).size, 0)
  },

  'random bytes end in an error or in nothing'() {
    let seed = 12345
    const random = () => (seed = (Math.imul(seed, 1103515245) + 12345) >>> 0) >>> 16
    for (let round = 0; round < 3000; round++) {
      const bytes = Buffer.from(Array.from({ length: random() % 80 }, () => random() & (round % 2 ? 0xff : 0x07)))
      try {
        readAll(Buffer.concat([zmtp.greeting(), bytes]), { step: 1 + (random() % 9) })
      } catch (error) {
        if (!(error instanceof zmtp.ProtocolError)) throw error
      }
    }
  },

  'signed messages pass and others do not'() {
    const signer = new Signer('key')
    const frames = new Composer(signer).compose([Buffer.from('identity')], 'kernel_info_request', { msg_id: 'p' }, { a: [1] })
    const message = decode(frames, signer)
    assert.deepStrictEqual(message.identities.map(String), ['identity'])
    assert.strictEqual(message.header.msg_type, 'kernel_info_request')
    assert.deepStrictEqual(message.content, { a: [1] })
    assert.throws(() => decode(frames, new Signer('other')), MessageError)
    for (let i = 2; i < frames.length; i++) {
      const changed = frames.map((frame, at) => (at === i ? Buffer.concat([frame, Buffer.from(' ')]) : frame))
      assert.throws(() => decode(changed, signer), MessageError, `frame ${i}`)
    }
    decode(frames, new Signer(''))
  },

  'messages that are no messages are refused'() {
    const signer = new Signer('')
    const good = ['<IDS|MSG>', '', '{"msg_type":"x"}', '{}', '{}', '{}']
    decode(good.map((text) => Buffer.from(text)), signer)
    for (const [at, text] of [[0, 'x'], [2, '{}'], [2, '[]'], [2, 'null'], [2, '{'], [2, '{"msg_type":1}'], [5, '1'], [5, '[]'], [5, '']])
      assert.throws(() => decode(good.map((part, i) => Buffer.from(i === at ? text : part)), signer), MessageError, `${at}: ${text}`)
    assert.throws(() => decode(good.slice(0, 5).map((text) => Buffer.from(text)), signer), MessageError)
    assert.throws(() => decode([], signer), MessageError)
    assert.throws(() => new Signer('k', 'hmac-nothing'), MessageError)
    assert.throws(() => new Signer('k', 'plain'), MessageError)
  },
}

require('./tap.js').run(tests)
