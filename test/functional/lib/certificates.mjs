// Certificates of an authority of our own, made by openssl, for servers with a domain of their own.
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

const openssl = (...args) => execFileSync('openssl', args.map(String), { stdio: ['ignore', 'pipe', 'pipe'] })
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']

export class Authority {
  constructor(dir) {
    this.dir = dir
    this.cert = path.join(dir, 'authority.pem')
    openssl('req', '-x509', ...newKey, '-keyout', path.join(dir, 'authority.key'), '-out', this.cert, '-days', 30, '-subj', '/CN=Test authority', '-addext', 'keyUsage=critical,keyCertSign,cRLSign')
  }

  /** A pair for these names: {cert, key}, in files of that name. */
  issue(name, names, { days = 20 } = {}) {
    const file = (end) => path.join(this.dir, `${name}.${end}`)
    fs.writeFileSync(file('ext'), `subjectAltName=${names.map((n) => `DNS:${n}`).join(',')}\nbasicConstraints=CA:FALSE\nauthorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\n`)
    openssl('req', '-new', ...newKey, '-keyout', file('key'), '-out', file('csr'), '-subj', `/CN=${name}`)
    openssl('x509', '-req', '-in', file('csr'), '-CA', this.cert, '-CAkey', path.join(this.dir, 'authority.key'), '-CAcreateserial', '-days', days, '-extfile', file('ext'), '-out', file('crt'))
    fs.chmodSync(file('key'), 0o600)
    return { cert: file('crt'), key: file('key') }
  }
}
