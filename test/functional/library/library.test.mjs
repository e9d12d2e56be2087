// libsandglass against a real server: every call of it, over plain HTTP and over TLS.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { Server, temporaryDir } from '../lib/server.mjs'

const top = fileURLToPath(new URL('../../..', import.meta.url))
const build = process.env.SANDGLASS_BUILD ?? path.join(top, 'build')
const program = path.join(build, 'test', 'functional', 'library', 'library')

let server, work
before(async () => {
  server = await Server.start()
  work = temporaryDir('library')
})
after(async () => {
  await server.cleanUp()
  fs.rmSync(work, { recursive: true, force: true })
})

/** Each line of a TAP program as a test of ours. */
async function tap(t, args) {
  const r = spawnSync(program, args, { encoding: 'utf8', timeout: 300_000 })
  const lines = r.stdout.split('\n')
  for (const [i, line] of lines.entries()) {
    const m = /^(not )?ok \d+ - (\S+)/.exec(line)
    if (m) await t.test(m[2].replaceAll('_', ' '), () => assert.ok(!m[1], lines.slice(Math.max(0, i - 3), i).join('\n')))
  }
  assert.match(r.stdout, /^1\.\.\d+$/m, `${r.stdout}\n${r.stderr}`)
  const wrong = lines.filter((line, i) => /^(not ok|#)/.test(line) || /^not ok/.test(lines[i + 1] ?? ''))
  assert.deepEqual([r.status, r.stderr], [0, ''], wrong.join('\n'))
}

test('over plain HTTP', (t) => tap(t, [server.file('env')]))

test('over TLS, with a host name for each sandbox', (t) => {
  const file = path.join(work, 'env')
  const exports = fs.readFileSync(server.file('env'), 'utf8').split('\n')
  const kept = exports.filter((line) => !/E2B_(API|SANDBOX)_URL=/.test(line))
  fs.writeFileSync(file, [...kept, `export E2B_API_URL='https://${server.domain}'`, ''].join('\n'))
  return tap(t, [file])
})

// ---- the program of docs/library.md, with what is installed ----

const installed = (...names) => path.join(work, 'root', ...names)
let hello

/** pkg-config as if the directory were the root. */
function flags(...words) {
  const places = spawnSync('find', [installed(), '-name', 'sandglass.pc', '-printf', '%h'], { encoding: 'utf8' })
  const env = { ...process.env, PKG_CONFIG_PATH: places.stdout, PKG_CONFIG_SYSROOT_DIR: installed() }
  const r = spawnSync('pkg-config', [...words, 'sandglass'], { encoding: 'utf8', env })
  assert.equal(r.status, 0, r.stderr)
  return r.stdout.trim().split(/\s+/)
}

function compile(...words) {
  const r = spawnSync('cc', ['-Wall', '-Wextra', '-Werror', '-std=c99', '-Wpedantic', hello, '-o', installed('hello'), ...words], { encoding: 'utf8' })
  assert.equal(r.status, 0, r.stderr)
}

function say(env) {
  const r = spawnSync(installed('hello'), [], { encoding: 'utf8', env: { ...process.env, ...server.env, ...env }, timeout: 60_000 })
  assert.match(r.stdout, /^hello from \S+\n$/, r.stderr)
  assert.deepEqual([r.status, r.stderr], [0, ''])
}

test('it is installed with its header, for pkg-config, and has a page', () => {
  const r = spawnSync('meson', ['install', '-C', build, '--no-rebuild', '--quiet', '--destdir', installed()], { encoding: 'utf8' })
  assert.equal(r.status, 0, r.stderr)
  const program = /^```c\n(.*?)^```$/ms.exec(fs.readFileSync(path.join(top, 'docs/library.md'), 'utf8'))[1]
  hello = installed('hello.c')
  fs.writeFileSync(hello, program)
  assert.ok(program.split('\n').length <= 36)
  const page = spawnSync('find', [installed(), '-name', 'libsandglass.3'], { encoding: 'utf8' }).stdout
  assert.match(page, /man3\/libsandglass\.3\n$/)
})

test('the program of the documentation, with the shared library', () => {
  const words = flags('--cflags', '--libs')
  compile(...words)
  say({ LD_LIBRARY_PATH: words.find((word) => word.startsWith('-L')).slice(2) })
})

test('and with the archive, which brings no name of its own but those of the header', () => {
  const words = flags('--static', '--cflags', '--libs')
  const place = words.find((word) => word.startsWith('-L')).slice(2)
  compile(...words.map((word) => (word === '-lsandglass' ? path.join(place, 'libsandglass.a') : word)))
  say({})
  const names = spawnSync('nm', ['-g', '--defined-only', path.join(place, 'libsandglass.a')], { encoding: 'utf8' }).stdout
  const defined = names.split('\n').map((line) => / [A-Z] (\S+)$/.exec(line)?.[1]).filter(Boolean)
  assert.ok(defined.length > 50)
  assert.deepEqual(defined.filter((name) => !name.startsWith('sg_')), [])
})

test('every call of the header is there', () => {
  const header = fs.readFileSync(path.join(top, 'include/sandglass.h'), 'utf8')
  const declared = [...header.matchAll(/^SG_API [^;]*?\b(sg_\w+)\(/gms)].map((m) => m[1])
  const exported = spawnSync('nm', ['-D', '--defined-only', path.join(build, 'libsandglass.so')], { encoding: 'utf8' }).stdout
  for (const name of declared) assert.match(exported, new RegExp(` T ${name}@@`))
  assert.ok(declared.length > 70)
})
