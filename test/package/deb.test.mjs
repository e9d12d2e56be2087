// The Debian package: its contents, lintian, and its life on Debian 12 and 13, without systemd.  With systemd and with sandboxes
// that must survive: test/kernels.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { before, test } from 'node:test'

import { FileSystem, difference, must, run, top } from './filesystem.mjs'

const suffix = '+test2'
let deb, next

before(() => {
  deb = must([path.join(top, 'tools/make-deb')]).trim()
  next = must([path.join(top, 'tools/make-deb'), '--suffix', suffix]).trim()
}, { timeout: 600_000 })

/** Templates with many files: all their sources, and the links to programs, which the build makes. */
const links = ['agents-backend-sandbox/sandglass-mcp', 'code-interpreter-v1/sandglass-interpreter', 'mcp-gateway/mcp-gateway'].map((name) => `templates/${name}`)
const sources = must([path.join(top, 'tools/list-sources')]).split('\0').map((name) => name.replace(/^\.\//, ''))
const largeTemplates = [...new Set([...sources.filter((name) => /^templates\/(agent-sandbox|agents-backend-sandbox|code-interpreter-v1|desktop|mcp-gateway)\//.test(name)), ...links])]

const field = (file, name) => must(['dpkg-deb', '-f', file, name]).trim()

test('the package has the programs, the unit, the users, the settings, manual pages and completions', () => {
  const files = must(['dpkg-deb', '--fsys-tarfile', deb], { encoding: 'buffer' })
  const listed = must(['tar', '-t'], { input: files }).split('\n').filter((name) => name && !name.endsWith('/'))
  assert.deepEqual(listed.map((name) => name.replace(/^\./, '')).sort(), [
    '/etc/sandglass/sandglass.json',
    '/lib/systemd/system/sandglass.service',
    '/usr/bin/sandglass',
    '/usr/lib/sysusers.d/sandglass.conf',
    '/usr/libexec/sandglass/mcp-gateway',
    '/usr/libexec/sandglass/sandglass-criu-shim.so',
    '/usr/libexec/sandglass/sandglass-envd',
    '/usr/libexec/sandglass/sandglass-mcp',
    '/usr/libexec/sandglass/sandglass-interpreter',
    '/usr/libexec/sandglass/sandglass-puller',
    '/usr/share/bash-completion/completions/sandglass',
    '/usr/share/doc/sandglass/changelog.gz',
    '/usr/share/doc/sandglass/copyright',
    '/usr/share/fish/vendor_completions.d/sandglass.fish',
    '/usr/share/lintian/overrides/sandglass',
    '/usr/share/man/man1/sandglass.1.gz',
    '/usr/share/man/man5/sandglass.json.5.gz',
    '/usr/share/man/man8/sandglass-serve.8.gz',
    ...['nextjs-developer/compile_page.sh', 'nextjs-developer/e2b.Dockerfile', 'nextjs-developer/e2b.toml', 'nextjs-developer/utils.ts'].map((name) => `/usr/share/sandglass/templates/${name}`),
    ...['node', 'python'].flatMap((name) => ['e2b.Dockerfile', 'e2b.toml'].map((file) => `/usr/share/sandglass/templates/${name}/${file}`)),
    ...['code-interpreter', 'code-interpreter-beta', 'nodejs', 'python3'].map((name) => `/usr/share/sandglass/templates/${name}/e2b.toml`),
    '/usr/share/sandglass/agent/agent.mjs',
    ...largeTemplates.map((name) => `/usr/share/sandglass/${name}`),
    '/usr/share/zsh/site-functions/_sandglass',
  ].sort())
})

const beside = (name) => deb.replace(/\/sandglass_/, `/${name}_`)

test('the library has packages of its own', () => {
  const contents = (file) => must(['tar', '-t'], { input: must(['dpkg-deb', '--fsys-tarfile', file], { encoding: 'buffer' }) }).split('\n').map((name) => name.replace(/^\./, '').replace(/\/lib\/[^/]+-linux-gnu\//, '/lib/ARCH/')).filter((name) => name && !name.endsWith('/') && !name.startsWith('/usr/share/doc/')).sort()
  const [, version] = /^ {2}version: '([^']+)'/m.exec(fs.readFileSync(path.join(top, 'meson.build'), 'utf8'))
  assert.deepEqual(contents(beside('libsandglass0')), ['/usr/lib/ARCH/libsandglass.so.0', `/usr/lib/ARCH/libsandglass.so.${version}`])
  assert.deepEqual(contents(beside('libsandglass-dev')), ['/usr/include/sandglass-modes.h', '/usr/include/sandglass.h', '/usr/lib/ARCH/libsandglass.a', '/usr/lib/ARCH/libsandglass.so', '/usr/lib/ARCH/pkgconfig/sandglass.pc', '/usr/share/man/man3/libsandglass.3.gz'])
})

test('the version is that of the program', () => {
  const [, version] = /^ {2}version: '([^']+)'/m.exec(fs.readFileSync(path.join(top, 'meson.build'), 'utf8'))
  assert.equal(field(deb, 'Version'), version)
  assert.equal(field(next, 'Version'), version + suffix)
})

test('lintian finds nothing', { timeout: 300_000 }, () => {
  const done = run(['lintian', '--allow-root', '--fail-on', 'error,warning', deb, beside('libsandglass0'), beside('libsandglass-dev')])
  assert.equal(done.code, 0, done.text)
})

for (const suite of ['bookworm', 'trixie'])
  test(`${suite}: installed, upgraded, removed and purged`, { timeout: 600_000 }, async (t) => {
    const depends = field(deb, 'Depends').split(', ').map((one) => one.split(' ')[0])
    const system = new FileSystem(suite, [...depends, 'mount'])
    t.after(() => system.remove())
    const must = (script) => {
      const done = system.sh(script)
      assert.equal(done.code, 0, done.text)
      return done.stdout
    }
    const bare = system.files()

    must(`apt-get install -y ${system.share(deb)}`)
    assert.equal(must('sandglass version').trim(), `sandglass ${field(deb, 'Version')}`)
    assert.match(must('sandglass help serve'), /usage: sandglass serve/)
    const [control, edge] = ['sandglass', 'sandglass-edge'].map((user) => must(`getent passwd ${user}`).split(':'))
    assert.equal(control[2], control[3], 'the number of the user is that of its group')
    assert.equal(edge[2], edge[3])
    assert.match(control[6], /nologin|false/)
    assert.match(must('readlink /etc/systemd/system/multi-user.target.wants/sandglass.service'), /^(\/usr)?\/lib\/systemd\/system\/sandglass\.service$/m)
    assert.equal(must('dpkg-query -W -f \'${Conffiles}\' sandglass').trim().split(' ')[0], '/etc/sandglass/sandglass.json')

    must(`echo '{"pool_size": 3}' >/etc/sandglass/sandglass.json; mkdir /var/lib/sandglass; echo kept >/var/lib/sandglass/file`)
    must(`apt-get install -y ${system.share(next)}`)
    assert.equal(must('sandglass version').trim(), `sandglass ${field(next, 'Version')}`)
    assert.equal(must('cat /etc/sandglass/sandglass.json').trim(), '{"pool_size": 3}', 'settings survive an upgrade')
    assert.equal(must('cat /var/lib/sandglass/file').trim(), 'kept', 'data survives an upgrade')

    must('apt-get remove -y sandglass')
    assert.notEqual(system.sh('command -v sandglass').code, 0)
    assert.equal(must('cat /etc/sandglass/sandglass.json').trim(), '{"pool_size": 3}', 'settings survive a removal')
    assert.equal(must('cat /var/lib/sandglass/file').trim(), 'kept', 'data survives a removal')

    // With a hierarchy of control groups as the engine mounts it where the machine has none: nothing in it can be removed.
    must('mkdir -p /run/sandglass/cgroup2; mount -t cgroup2 cgroup2 /run/sandglass/cgroup2; apt-get purge -y sandglass; [ ! -e /run/sandglass ]')
    const { added, removed } = difference(bare, system.files())
    const backups = added.filter((name) => !/^\.\/etc\/(passwd|group|g?shadow|sub[ug]id)-$/.test(name) && !name.startsWith('./etc/.pwd.lock'))
    assert.deepEqual(backups, [], 'a purge leaves nothing')
    assert.deepEqual(removed, [])
  })
