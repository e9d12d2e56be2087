// What tests of credentials share: setting them as a client would, asking for them as the role agent would, and looking for them
// everywhere else.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { binary } from './server.mjs'

export const agentUid = 1879048197 // CONF_AGENT_UID in model/conf.h

/** `sandglass credentials` with these words; the value is on its standard input. */
export function credentials(server, words, { input = '', key = server.key } = {}) {
  const r = spawnSync(binary, ['credentials', ...words], {
    encoding: 'utf8', input, timeout: 60_000, env: { ...process.env, E2B_API_URL: server.apiUrl, E2B_API_KEY: key },
  })
  return { status: r.status, stdout: r.stdout, stderr: r.stderr }
}

const fetchScript = `
import http.client, socket, sys
c = http.client.HTTPConnection("x")
c.sock = socket.socket(socket.AF_UNIX)
c.sock.connect(sys.argv[1])
c.request("GET", "/credentials", headers={"X-API-Key": sys.stdin.read()})
a = c.getresponse()
print(a.status)
print(a.read().decode())`

/** What control tells this user of the machine at run/credentials.sock: {status, json, error}. */
export function fetchCredentials(server, { key = server.key, uid = agentUid } = {}) {
  const who = ['--reuid', uid, '--regid', uid, '--clear-groups', '--', 'python3', '-c', fetchScript, server.file('run/credentials.sock')].map(String)
  const r = spawnSync('setpriv', who, { encoding: 'utf8', input: key, timeout: 60_000, env: { PATH: '/usr/bin:/bin' } }) // the test's own PATH may lead through root's home
  const [status, text] = r.stdout.split('\n')
  return { status: Number(status), json: text ? JSON.parse(text) : undefined, error: r.stderr }
}

/** All variables and files of all credentials, the later ones winning: {env, files: {path: content}}. */
export function together({ json }) {
  const all = { env: {}, files: {} }
  for (const c of json.credentials) {
    Object.assign(all.env, c.env)
    for (const f of c.files) all.files[f.path] = f.content
  }
  return all
}

/** What `look` gives; undefined where what it looks at was removed meanwhile. */
function unlessGone(look) {
  try {
    return look()
  } catch (e) {
    if (e.code !== 'ENOENT') throw e
  }
}

function* filesBelow(dir, without) {
  for (const entry of unlessGone(() => fs.readdirSync(dir, { withFileTypes: true })) ?? []) {
    const name = path.join(dir, entry.name)
    if (without.includes(name)) continue
    if (entry.isDirectory()) yield* filesBelow(name, without)
    else if (entry.isFile()) yield name
  }
}

/** Files below the data directory that have one of the texts, as they are or in base64; `without`: directories not to look into. */
export function filesWith(server, texts, without = []) {
  const forms = texts.flatMap((t) => [Buffer.from(t), Buffer.from(Buffer.from(t).toString('base64').slice(0, -4))])
  const found = []
  for (const name of filesBelow(server.data, without.map((w) => server.file(w)))) {
    const bytes = unlessGone(() => fs.readFileSync(name))
    if (bytes && forms.some((f) => bytes.includes(f))) found.push(path.relative(server.data, name))
  }
  return found
}

const pieceBytes = 1 << 20

/** Is the text in the memory of this process? */
export function memoryHas(pid, text) {
  const memory = fs.openSync(`/proc/${pid}/mem`, 'r')
  try {
    for (const [, from, to] of fs.readFileSync(`/proc/${pid}/maps`, 'utf8').matchAll(/^([0-9a-f]+)-([0-9a-f]+) rw/gm)) {
      const end = parseInt(to, 16)
      for (let at = parseInt(from, 16); at < end; at += pieceBytes) {
        const bytes = Buffer.alloc(Math.min(pieceBytes + text.length, end - at))
        fs.readSync(memory, bytes, 0, bytes.length, at)
        if (bytes.includes(text)) return true
      }
    }
    return false
  } finally {
    fs.closeSync(memory)
  }
}

/** What other processes can see of the processes of the server: their command lines and environments. */
export function seenOfProcesses(pids) {
  return pids.map((pid) => ['cmdline', 'environ'].map((what) => {
    try {
      return fs.readFileSync(`/proc/${pid}/${what}`, 'latin1')
    } catch (e) {
      if (['ENOENT', 'ESRCH'].includes(e.code)) return ''
      throw e
    }
  }).join('\n')).join('\n')
}
