// One raw HTTP/1.1 connection whose answer is watched as it comes: for long streams and for how they end.
import net from 'node:net'

export class RawStream {
  text = ''
  how = null // 'end': the server closed in order; 'error': it reset the connection
  #wake = []

  constructor(port, bytes) {
    this.socket = net.connect(port, '127.0.0.1').setEncoding('latin1')
    this.closed = new Promise((done) => this.socket.once('close', done))
    this.socket.on('connect', () => this.socket.write(bytes, 'latin1'))
    this.socket.on('data', (piece) => { this.text += piece; this.#notify() })
    this.socket.on('end', () => (this.how ??= 'end'))
    this.socket.on('error', () => (this.how = 'error'))
    this.socket.on('close', () => this.#notify())
  }

  #notify() {
    for (const wake of this.#wake.splice(0)) wake()
  }

  /** The first match in what came so far; throws when the connection closes without one. */
  async until(pattern) {
    for (;;) {
      const found = pattern.exec(this.text)
      if (found) return found
      if (this.socket.closed) throw new Error(`closed (${this.how}) without ${pattern}: ${this.text.slice(-500)}`)
      await new Promise((done) => this.#wake.push(done))
    }
  }

  get body() {
    return this.text.slice(this.text.indexOf('\r\n\r\n') + 4)
  }

  write(bytes) {
    this.socket.write(bytes, 'latin1')
  }

  close() {
    this.socket.destroy()
    return this.closed
  }
}
