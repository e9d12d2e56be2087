// Output of child processes with inherited stdio, and of writes to fd 1 and 2: what arrives in the pipes that `launch` made.
'use strict'
const fs = require('fs')
const net = require('net')
const { StringDecoder } = require('string_decoder')

const PIPE_BYTES = 64 * 1024

class ChildOutput {
  // pipes: [{fd, name}]. onText(name, text). While isSlow() says so, nothing is read, and the writers wait. catchUp() carries out what the
  // main thread has ordered by now: the orders that were given before something was written come before it.
  constructor(pipes, { onText, isSlow, catchUp }) {
    this.onText = onText
    this.isSlow = isSlow
    this.buffer = Buffer.allocUnsafe(PIPE_BYTES)
    this.pipes = pipes.map(({ fd, name }) => ({ fd, name, decoder: new StringDecoder('utf8'), socket: this.open(fd), waiting: [] }))
    for (const pipe of this.pipes) {
      pipe.socket.on('data', (chunk) => {
        pipe.waiting.push(chunk)
        catchUp()
        this.send(pipe)
      })
    }
  }

  open(fd) {
    const socket = new net.Socket({ fd, readable: true, writable: false })
    socket.on('error', () => {})
    return socket
  }

  send(pipe) {
    for (const chunk of pipe.waiting.splice(0)) {
      const text = pipe.decoder.write(chunk)
      if (text) this.onText(pipe.name, text)
    }
    if (this.isSlow()) for (const { socket } of this.pipes) socket.pause()
  }

  resume() {
    for (const { socket } of this.pipes) if (socket.isPaused()) socket.resume()
  }

  // Takes everything that is in the pipes at this moment.
  drain() {
    for (const pipe of this.pipes) {
      const held = pipe.socket.read() // by a paused socket
      if (held) pipe.waiting.push(held)
      for (let i = 0; i < 4; i++) {
        const n = this.readNow(pipe.fd)
        if (n === 0) break
        pipe.waiting.push(Buffer.from(this.buffer.subarray(0, n)))
      }
      this.send(pipe)
    }
  }

  readNow(fd) {
    try {
      return fs.readSync(fd, this.buffer)
    } catch {
      return 0 // EAGAIN: empty
    }
  }
}

module.exports = { ChildOutput }
