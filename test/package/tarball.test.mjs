// The tarball: its installer writes, upgrades and undoes itself, and touches nobody else's files.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'

import { FileSystem, difference, must, run, top } from './filesystem.mjs'

const work = fs.mkdtempSync(path.join(os.tmpdir(), 'sandglass-tarball-'))
let first, next // unpacked

/** The same with another program and one page less, as a newer version has it. */
function asNewer(dir) {
  const newer = `${dir}-newer`
  fs.cpSync(dir, newer, { recursive: true })
  fs.writeFileSync(path.join(newer, 'files/bin/sandglass'), '#!/bin/sh\necho sandglass 9.9.9\n')
  fs.rmSync(path.join(newer, 'files/share/man/man8'), { recursive: true })
  return newer
}

before(() => {
  const said = must(['make', '--no-print-directory', '-C', top, 'tarball'])
  const tarball = said.trim().split('\n').at(-1)
  must(['tar', '-xf', tarball, '-C', work])
  first = path.join(work, path.basename(tarball, '.tar.xz'))
  next = asNewer(first)
}, { timeout: 600_000 })
after(() => fs.rmSync(work, { recursive: true, force: true }))

/** An empty root directory, and the installer of a tarball for it. */
function emptyRoot(t) {
  const root = fs.mkdtempSync(path.join(work, 'root-'))
  t.after(() => fs.rmSync(root, { recursive: true, force: true }))
  const install = (from, ...options) => run([path.join(from, 'install.sh'), '--root', root, ...options])
  const at = (...names) => path.join(root, ...names)
  const tree = () => fs.readdirSync(root, { recursive: true }).sort()
  return { root, install, at, tree }
}

test('the programs need only the C library and what is beside them', () => {
  const program = path.join(first, 'files/bin/sandglass')
  const needed = must(['ldd', program]).split('\n').map((line) => /^\t(\S+) => (\S+)/.exec(line)).filter(Boolean)
  const elsewhere = needed.filter(([, name, file]) => !file.startsWith(work) && !/^lib(c|m)\.so\.6$/.test(name) && !path.resolve(file).startsWith(work))
  assert.deepEqual(elsewhere.map(([, name]) => name), [])
  const newest = must(['objdump', '-T', program]).match(/GLIBC_2\.(\d+)/g).map((one) => Number(one.split('.')[1]))
  assert.ok(Math.max(...newest) <= 36, 'install.sh and docs/install.md say 2.36')
})

test('installed and uninstalled: nothing is left', (t) => {
  const { install, at, tree } = emptyRoot(t)
  const done = install(first)
  assert.equal(done.code, 0, done.text)
  for (const name of ['bin/sandglass', 'libexec/sandglass/sandglass-envd', 'lib/systemd/system/sandglass.service', 'share/man/man1/sandglass.1'])
    assert.ok(fs.existsSync(at('usr/local', name)), name)
  assert.match(must([at('usr/local/bin/sandglass'), 'version']), /^sandglass \d/)
  assert.match(fs.readFileSync(at('usr/local/lib/systemd/system/sandglass.service'), 'utf8'), /^ExecStart=\/usr\/local\/bin\/sandglass serve/m)
  const undone = install(first, '--uninstall')
  assert.equal(undone.code, 0, undone.text)
  assert.deepEqual(tree(), [])
})

test('what was there before stays', (t) => {
  const { install, at, tree } = emptyRoot(t)
  fs.mkdirSync(at('usr/local/bin'), { recursive: true })
  fs.writeFileSync(at('usr/local/bin/other'), 'x')
  const before = tree()
  assert.equal(install(first).code, 0)
  assert.equal(install(first, '--uninstall').code, 0)
  assert.deepEqual(tree(), before)
})

test('another prefix', (t) => {
  const { install, at, tree } = emptyRoot(t)
  assert.equal(install(first, '--prefix', '/opt/sandglass').code, 0)
  assert.match(fs.readFileSync(at('opt/sandglass/lib/systemd/system/sandglass.service'), 'utf8'), /^ExecStart=\/opt\/sandglass\/bin\/sandglass serve/m)
  assert.equal(install(first, '--prefix', '/opt/sandglass', '--uninstall').code, 0)
  assert.deepEqual(tree(), [])
})

test("a stranger's file in the way: nothing is written", (t) => {
  const { install, at, tree } = emptyRoot(t)
  fs.mkdirSync(at('usr/local/share/man/man1'), { recursive: true })
  fs.writeFileSync(at('usr/local/share/man/man1/sandglass.1'), 'not ours')
  const before = tree()
  const done = install(first)
  assert.equal(done.code, 1)
  assert.match(done.text, /\/usr\/local\/share\/man\/man1\/sandglass\.1 is there, and no installation of ours wrote it/)
  assert.deepEqual(tree(), before)
})

test('a package in the way: nothing is written', (t) => {
  const { install, at, tree } = emptyRoot(t)
  fs.mkdirSync(at('usr/bin'), { recursive: true })
  fs.writeFileSync(at('usr/bin/sandglass'), 'of a package')
  const before = tree()
  assert.match(install(first).text, /a package has Sandglass installed/)
  assert.deepEqual(tree(), before)
})

test('an upgrade replaces what was installed, keeps settings, and can be undone', (t) => {
  const { install, at, tree } = emptyRoot(t)
  assert.equal(install(first).code, 0)
  fs.writeFileSync(at('etc/sandglass/sandglass.json'), '{"pool_size": 3}')
  const done = install(next)
  assert.equal(done.code, 0, done.text)
  assert.equal(must([at('usr/local/bin/sandglass'), 'version']), 'sandglass 9.9.9\n')
  assert.ok(!fs.existsSync(at('usr/local/share/man/man8/sandglass-serve.8')), 'what the newer version has not is removed')
  assert.equal(fs.readFileSync(at('etc/sandglass/sandglass.json'), 'utf8'), '{"pool_size": 3}')
  const undone = install(next, '--uninstall')
  assert.match(undone.text, /sandglass\.json was changed, and stays/)
  assert.deepEqual(tree(), ['etc', 'etc/sandglass', 'etc/sandglass/sandglass.json'])
  assert.equal(install(first).code, 0, 'settings that stayed are no strangers')
  assert.equal(install(first, '--uninstall', '--purge').code, 0)
  assert.deepEqual(tree().filter((name) => !['etc', 'etc/sandglass'].includes(name)), [])
})

test('a file that was changed is not overwritten, and not removed', (t) => {
  const { install, at, tree } = emptyRoot(t)
  assert.equal(install(first).code, 0)
  const unit = 'usr/local/lib/systemd/system/sandglass.service'
  fs.appendFileSync(at(unit), '# changed\n')
  const before = tree()
  const refused = install(next)
  assert.equal(refused.code, 1)
  assert.match(refused.text, /sandglass\.service was changed since it was installed: nothing was changed/)
  assert.deepEqual(tree(), before)
  assert.match(install(first, '--uninstall').text, /sandglass\.service was changed, and stays/)
  assert.deepEqual(tree().filter((name) => fs.statSync(at(name)).isFile()), [unit])
})

test('an installation that was interrupted can be removed', (t) => {
  const { install, at, tree } = emptyRoot(t)
  assert.equal(install(first).code, 0)
  fs.rmSync(at('usr/local/bin/sandglass'))
  fs.writeFileSync(at('usr/local/libexec/sandglass/sandglass-envd.new'), 'half')
  assert.equal(install(first, '--uninstall').code, 0)
  assert.deepEqual(tree(), [])
})

test('wrong use is refused', (t) => {
  const { install } = emptyRoot(t)
  assert.equal(install(first, '--frobnicate').code, 2)
  assert.match(install(first, '--prefix', 'here').text, /must be an absolute path/)
  assert.match(install(first, '--uninstall').text, /no installation of ours/)
})

test('on a whole system: users are made, and everything is undone', { timeout: 300_000 }, (t) => {
  const system = new FileSystem('bookworm', ['mount', 'passwd'])
  t.after(() => system.remove())
  must(['cp', '-r', first, path.join(system.dir, 'share/tarball')])
  const users = () => system.sh('cut -d: -f1 /etc/passwd /etc/group').stdout
  const [bare, bareUsers] = [system.files(), users()]
  const done = system.sh('/mnt/tarball/install.sh && sandglass version')
  assert.equal(done.code, 0, done.text)
  assert.match(done.text, /no systemd runs here: start the server with '\/usr\/local\/bin\/sandglass serve/)
  assert.match(users(), /^sandglass-edge$/m)
  // With a hierarchy of control groups as the engine mounts it where the machine has none: nothing in it can be removed.
  const mounted = 'mkdir -p /run/sandglass/cgroup2 && mount -t cgroup2 cgroup2 /run/sandglass/cgroup2'
  const undone = system.sh(`mkdir /var/lib/sandglass && ${mounted} && /mnt/tarball/install.sh --uninstall --purge && [ ! -e /run/sandglass ]`)
  assert.equal(undone.code, 0, undone.text)
  const { added, removed } = difference(bare, system.files())
  assert.deepEqual(added.filter((name) => !/^\.\/etc\/(passwd|group|g?shadow|sub[ug]id)-$|\.pwd\.lock$/.test(name)), [])
  assert.deepEqual(removed, [])
  assert.equal(users(), bareUsers)
})
