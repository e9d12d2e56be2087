// A small Debian file system of a suite, in which a test may install packages: what is written goes to a directory of the
// test's own, above a tree that is made once (build/test-cache).
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

export const top = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')

/** Run a program to its end: {code, text}. */
export function run(argv, options = {}) {
  const done = spawnSync(argv[0], argv.slice(1), { encoding: 'utf8', maxBuffer: 64 << 20, ...options })
  return { code: done.status ?? done.signal ?? done.error?.message, text: `${done.stdout}${done.stderr}`, stdout: done.stdout }
}

/** The same, where nothing but success will do. */
export function must(argv, options) {
  const done = run(argv, options)
  if (done.code !== 0) throw new Error(`${argv.join(' ')}: ${done.code}\n${done.text}`)
  return done.stdout
}

/** The tree below the tests' own, with `packages` in it. */
function lowerTree(suite, packages) {
  const name = createHash('sha256').update(packages.join()).digest('hex').slice(0, 12)
  const dir = path.join(top, 'build/test-cache', `${suite}-${name}`)
  if (fs.existsSync(dir)) return dir
  fs.mkdirSync(path.dirname(dir), { recursive: true })
  const making = `${dir}.making`
  fs.rmSync(making, { recursive: true, force: true })
  must(['mmdebstrap', '--mode=root', '--variant=apt', '--aptopt=Acquire::Languages "none"', '--dpkgopt=force-unsafe-io',
    `--include=${packages.join(',')}`, suite, making])
  fs.renameSync(making, dir)
  return dir
}

const quote = (word) => `'${word.replaceAll("'", "'\\''")}'`

export class FileSystem {
  constructor(suite, packages) {
    this.lower = lowerTree(suite, packages)
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandglass-package-'))
    for (const name of ['upper', 'work', 'root', 'share']) fs.mkdirSync(path.join(this.dir, name))
  }

  /** A file for the programs inside, below /mnt. */
  share(file) {
    fs.copyFileSync(file, path.join(this.dir, 'share', path.basename(file)))
    return `/mnt/${path.basename(file)}`
  }

  /** Run a shell script inside.  Its mounts and processes end with it. */
  sh(script) {
    const at = (name) => quote(path.join(this.dir, name))
    const outside = [
      `mount -t overlay overlay -o lowerdir=${quote(this.lower)},upperdir=${at('upper')},workdir=${at('work')} ${at('root')}`,
      `mount --bind ${at('share')} ${at('root/mnt')}`,
      `mount -t proc proc ${at('root/proc')}`,
      `mount --rbind /dev ${at('root/dev')}`,
      `exec chroot ${at('root')} env -i PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive sh -euc ${quote(script)}`,
    ].join(' && ')
    return run(['unshare', '--mount', '--pid', '--fork', '--kill-child', '--propagation', 'private', 'sh', '-c', outside])
  }

  /** Paths that are there, but for what package managers and logs keep about themselves. */
  files() {
    const own = ['./var/lib/dpkg', './var/lib/apt', './var/cache', './var/log', './proc', './dev', './mnt', './tmp', './run']
    const done = this.sh(`cd / && find . ${own.map((p) => `-path ${p} -prune -o`).join(' ')} -print | LC_ALL=C sort`)
    if (done.code !== 0) throw new Error(done.text)
    return done.stdout.trim().split('\n')
  }

  remove() {
    fs.rmSync(this.dir, { recursive: true, force: true })
  }
}

/** What `after` has and `before` has not, and the other way round. */
export function difference(before, after) {
  const had = new Set(before)
  const has = new Set(after)
  return { added: after.filter((name) => !had.has(name)), removed: before.filter((name) => !has.has(name)) }
}
