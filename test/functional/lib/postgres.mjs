// A Postgres server for the sandboxes' Debian, as one archive: fetched once from the host's own mirror through a private
// package directory (signatures checked as always), kept below build/.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { imagesDir } from './server.mjs'

const cache = process.env.SANDGLASS_TEST_CACHE ?? fileURLToPath(new URL('../../../build/test-cache', import.meta.url))
const unneeded = /^(libllvm|libz3|libjson-perl|perl|libperl|postgresql-common|ssl-cert|libcommon-sense|libtypes|libsensors|sysstat)/

function run(command, args, options = {}) {
  const r = spawnSync(command, args, { encoding: 'utf8', maxBuffer: 64 << 20, ...options })
  if (r.status !== 0) throw new Error(`${command} ${args.at(-1)}: ${r.error?.message ?? (r.stderr || r.stdout).trim()}`)
  return r.stdout
}

function mirror() {
  for (const file of ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list']) {
    const text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8') : ''
    const found = /^URIs:\s*(\S+)/m.exec(text) ?? /^deb\s+(?:\[[^\]]*\]\s+)?(\S+)/m.exec(text)
    if (found) return found[1]
  }
  throw new Error('this host names no Debian mirror')
}

function fetch(dir, root) {
  const suite = /^VERSION_CODENAME=(\w+)/m.exec(fs.readFileSync(path.join(root, 'etc/os-release'), 'utf8'))[1]
  for (const below of ['lists/partial', 'cache/archives/partial', 'debs', 'root']) fs.mkdirSync(path.join(dir, below), { recursive: true })
  const sources = path.join(dir, 'sources.list')
  fs.writeFileSync(sources, `deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] ${mirror()} ${suite} main\n`)
  const places = { 'Dir::Etc::sourcelist': sources, 'Dir::Etc::sourceparts': '/dev/null', 'Dir::State': dir, 'Dir::Cache': path.join(dir, 'cache') }
  const options = Object.entries({ ...places, 'Dir::State::status': path.join(root, 'var/lib/dpkg/status'), 'APT::Install-Recommends': '0', 'APT::Sandbox::User': 'root' })
  const apt = (...args) => run('apt-get', [...options.flatMap(([k, v]) => ['-o', `${k}=${v}`]), '-q', ...args], { cwd: path.join(dir, 'debs') })
  apt('update')
  const wanted = apt('install', '-y', '--print-uris', 'postgresql').split('\n').map((l) => /^'[^']+' ([^_ ]+)_/.exec(l)?.[1])
  apt('download', ...wanted.filter((name) => name && !unneeded.test(name)))
  for (const deb of fs.readdirSync(path.join(dir, 'debs'))) run('dpkg-deb', ['-x', path.join(dir, 'debs', deb), path.join(dir, 'root')])
  for (const below of ['usr/share/doc', 'usr/share/man', 'usr/share/locale']) fs.rmSync(path.join(dir, 'root', below), { recursive: true, force: true })
}

/** The archive's path.  Throws with the reason when it cannot be had. */
export function postgresArchive() {
  const images = imagesDir()
  const { layers } = JSON.parse(fs.readFileSync(path.join(images, 'templates', 'base.json'), 'utf8'))
  const archive = path.join(cache, `postgres-${layers[0]}.tar.gz`)
  if (fs.existsSync(archive)) return archive
  fs.mkdirSync(cache, { recursive: true })
  const dir = fs.mkdtempSync(path.join(cache, 'fetch-'))
  try {
    fetch(dir, path.join(images, 'layers', layers[0]))
    run('tar', ['-C', path.join(dir, 'root'), '-czf', `${archive}.new`, '.'])
    fs.renameSync(`${archive}.new`, archive)
  } finally {
    fs.rmSync(dir, { recursive: true, force: true })
  }
  return archive
}
