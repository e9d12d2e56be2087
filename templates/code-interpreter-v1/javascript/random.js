// Randomness after a copy of the process was made. Sandboxes continue from the memory of one checkpoint: a generator in memory would
// give all of them the same numbers.
//
// Math.random is a generator of ours (xoshiro128++), seeded from the kernel's random source. Its state is renewed by
// globalThis[Symbol.for('sandglass.reseed')](), and so are OpenSSL's generators, from which keys come. The functions of `crypto` that
// give random bytes mix bytes of the kernel's random source into each result, so these need no renewal.
'use strict'
const crypto = require('crypto')
const fs = require('fs')
const { syncBuiltinESMExports } = require('module')

const RESEED = Symbol.for('sandglass.reseed')
const state = new Uint32Array(4)
const { openSync, readSync, closeSync } = fs

// Not kept open: a checkpoint holds fewer things.
function fill(bytes) {
  const fd = openSync('/dev/urandom', 'r')
  try {
    for (let at = 0; at < bytes.length;) at += readSync(fd, bytes, at, bytes.length - at, null)
  } finally {
    closeSync(fd)
  }
}

function mix(bytes) {
  const fresh = Buffer.allocUnsafeSlow(Math.min(bytes.length, 65536))
  for (let at = 0; at < bytes.length; at += fresh.length) {
    const part = fresh.subarray(0, Math.min(fresh.length, bytes.length - at))
    fill(part)
    for (let i = 0; i < part.length; i++) bytes[at + i] ^= part[i]
  }
}

// OpenSSL's generators. Outside of the template the addon may not be built: then nobody copies the process either.
function loadEntropy() {
  try {
    return require('./entropy.node')
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error
    return () => {}
  }
}

const renewOpenssl = loadEntropy()

function reseed() {
  renewOpenssl()
  const bytes = new Uint8Array(state.buffer)
  do fill(bytes)
  while (state.every((word) => word === 0))
}

function next() {
  const sum = (state[0] + state[3]) | 0
  const result = (((sum << 7) | (sum >>> 25)) + state[0]) >>> 0
  const shifted = state[1] << 9
  state[2] ^= state[0]
  state[3] ^= state[1]
  state[1] ^= state[2]
  state[0] ^= state[3]
  state[2] ^= shifted
  state[3] = (state[3] << 11) | (state[3] >>> 21)
  return result
}

function bytesOf(view) {
  return ArrayBuffer.isView(view) ? new Uint8Array(view.buffer, view.byteOffset, view.byteLength) : new Uint8Array(view)
}

// A number below `range`, from 48 random bits that are drawn again if they would prefer some numbers.
function below(range) {
  const bytes = Buffer.allocUnsafe(6)
  const limit = 2 ** 48 - (2 ** 48 % range)
  for (;;) {
    fill(bytes)
    const value = bytes.readUIntBE(0, 6)
    if (value < limit) return value % range
  }
}

function uuid() {
  const bytes = Buffer.allocUnsafe(16)
  fill(bytes)
  bytes[6] = (bytes[6] & 0x0f) | 0x40
  bytes[8] = (bytes[8] & 0x3f) | 0x80
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

// Each replacement first calls node's function, which checks the arguments.
function replace(object, name, make) {
  const original = object[name]
  const value = make(original)
  Object.defineProperty(value, 'name', { value: name })
  Object.defineProperty(object, name, { ...Object.getOwnPropertyDescriptor(object, name), value })
}

function installRandom() {
  const randomBytes = (original) => function (size, callback) {
    if (callback === undefined) {
      const bytes = original(size)
      mix(bytes)
      return bytes
    }
    return original(size, typeof callback !== 'function' ? callback : (error, bytes) => {
      if (!error) mix(bytes)
      callback(error, bytes)
    })
  }
  // What `offset` and `size` choose; both count elements of a typed array.
  const chosen = (target, offset = 0, size = undefined) => {
    const width = target.BYTES_PER_ELEMENT ?? 1
    const bytes = bytesOf(target)
    return bytes.subarray(offset * width, size === undefined ? undefined : (offset + size) * width)
  }
  replace(crypto, 'randomBytes', randomBytes)
  Object.defineProperty(crypto, 'pseudoRandomBytes', { value: crypto.randomBytes, configurable: true, enumerable: false, writable: true })
  replace(crypto, 'randomFillSync', (original) => function (target, offset, size) {
    original(target, offset, size)
    mix(chosen(target, offset, size))
    return target
  })
  replace(crypto, 'randomFill', (original) => function (target, ...rest) {
    const callback = rest.pop()
    if (typeof callback !== 'function') return original(target, ...rest, callback)
    return original(target, ...rest, (error, filled) => {
      if (!error) mix(chosen(target, ...rest))
      callback(error, filled)
    })
  })
  replace(crypto, 'randomInt', (original) => function (min, max, callback) {
    const isShort = max === undefined || typeof max === 'function'
    const [low, high, done] = isShort ? [0, min, max] : [min, max, callback]
    const fresh = (value) => low + ((value - low + below(high - low)) % (high - low))
    if (done === undefined) return fresh(original(low, high))
    return original(low, high, typeof done !== 'function' ? done : (error, value) => done(error, error ? value : fresh(value)))
  })
  replace(crypto, 'randomUUID', (original) => function (options) {
    original(options)
    return uuid()
  })
  const web = Object.getPrototypeOf(crypto.webcrypto)
  replace(web, 'getRandomValues', (original) => function (target) {
    original.call(this, target)
    mix(bytesOf(target))
    return target
  })
  replace(web, 'randomUUID', (original) => function () {
    original.call(this)
    return uuid()
  })
  syncBuiltinESMExports()
  Math.random = function random() {
    return ((next() >>> 5) * 67108864 + (next() >>> 6)) / 9007199254740992
  }
  Object.defineProperty(globalThis, RESEED, { value: reseed, configurable: true, enumerable: false, writable: true })
  reseed()
}

module.exports = { installRandom, RESEED }
