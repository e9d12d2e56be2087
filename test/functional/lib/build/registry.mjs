// A registry that lies, is slow, cuts connections, asks for credentials or sends elsewhere, as a test wants it.
import { createServer } from 'node:http'
import { once } from 'node:events'

/** images: {'a/b:tag': image or index}.  Options change what is answered; everything that was asked is in `asked`. */
export class Registry {
  constructor(images, options = {}) {
    this.options = options
    this.asked = [] // {method, url, authorization, range}
    this.byName = new Map()
    this.blobs = new Map()
    for (const [name, image] of Object.entries(images)) this.add(name, image)
    this.server = createServer((rq, rs) => this.#serve(rq, rs))
  }

  static async start(images = {}, options = {}) {
    const registry = new Registry(images, options)
    registry.server.listen(0, '127.0.0.1')
    await once(registry.server, 'listening')
    registry.port = registry.server.address().port
    registry.host = `127.0.0.1:${registry.port}`
    registry.url = `http://${registry.host}`
    return registry
  }

  add(name, image) {
    const [path, tag] = name.split(':')
    const put = (one) => {
      this.byName.set(`${path}/manifests/${one.digest}`, one)
      for (const [digest, bytes] of one.blobs ?? []) this.blobs.set(digest, bytes)
      for (const inner of one.images ?? []) put(inner)
    }
    put(image)
    this.byName.set(`${path}/manifests/${tag}`, image)
  }

  count(pattern) { return this.asked.filter((one) => pattern.test(one.url)).length }

  stop() {
    this.server.closeAllConnections()
    this.server.close()
  }

  #serve(rq, rs) {
    const one = { method: rq.method, url: rq.url, authorization: rq.headers.authorization, range: rq.headers.range, headers: rq.headers }
    this.asked.push(one)
    if (this.options.before?.(rq, rs, one, this)) return
    const blob = /\/blobs\/(sha256:[0-9a-f]{64})$/.exec(rq.url)
    const manifest = /^\/v2\/(.+\/manifests\/.+)$/.exec(rq.url)
    if (blob && this.blobs.has(blob[1])) this.sendBlob(rq, rs, this.blobs.get(blob[1]))
    else if (manifest && this.byName.has(manifest[1])) {
      const found = this.byName.get(manifest[1])
      rs.writeHead(200, { 'Content-Type': found.type }).end(found.bytes)
    } else {
      rs.writeHead(404, { 'Content-Type': 'application/json' }).end(JSON.stringify({ errors: [{ code: 'MANIFEST_UNKNOWN', message: '<not shown>' }] }))
    }
  }

  /** Ranges are understood, unless the options say otherwise. */
  sendBlob(rq, rs, bytes) {
    const range = /^bytes=(\d+)-$/.exec(rq.headers.range ?? '')
    if (!range || this.options.ignoresRanges) {
      rs.writeHead(200, { 'Content-Length': bytes.length }).end(bytes)
      return
    }
    const from = Number(range[1])
    rs.writeHead(206, { 'Content-Length': bytes.length - from, 'Content-Range': `bytes ${from}-${bytes.length - 1}/${bytes.length}` })
    rs.end(bytes.subarray(from))
  }
}
