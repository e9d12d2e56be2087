// What the files hold: a short name for the model, all the bytes for the server.
//
// A name is `<version>.<size>`; its bytes are the name in a line of its own, then a stream of bytes that only this name
// has, to that size.  So whoever reads a file knows from its bytes alone whether they are whole, and of which version.
import crypto from 'node:crypto'

const damaged = (what) => `damaged: ${what}`

export function bytesOf(name) {
  const size = Number(name.slice(name.lastIndexOf('.') + 1))
  const head = Buffer.from(`${name}\n`)
  if (size <= head.length) return head
  const cipher = crypto.createCipheriv('aes-128-ctr', crypto.createHash('md5').update(name).digest(), Buffer.alloc(16))
  return Buffer.concat([head, cipher.update(Buffer.alloc(size - head.length))])
}

/** What a write leaves that was broken off. */
export const part = 'part'

/** The name that was written, or `part`, or one that no model knows. */
export function nameOf(bytes) {
  const end = bytes.subarray(0, 100).indexOf('\n')
  const name = bytes.subarray(0, Math.max(end, 0)).toString()
  if (end < 0 && /^([\w-]+(\.\d*)?)?$/.test(bytes.toString('latin1', 0, 100))) return part
  if (!/^[\w-]+\.\d+$/.test(name)) return damaged(`${bytes.length} bytes without a name: ${JSON.stringify(bytes.subarray(0, 60).toString('latin1'))}`)
  const wanted = bytesOf(name)
  if (bytes.length > wanted.length) return damaged(`${bytes.length} bytes of ${name}`)
  if (bytes.equals(wanted.subarray(0, bytes.length))) return bytes.length < wanted.length ? part : name
  let at = 0
  while (bytes[at] === wanted[at]) at++
  return damaged(`byte ${at} of ${name}`)
}
