// What the client's own tests demand of a server that builds templates, with the npm client.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

import { buildEnded, buildLog, contextDir, deleteTemplates, failedBuild, inSandbox, templateName } from '../lib/build/builds.mjs'
import { api } from '../lib/raw.mjs'
import { Server } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'

let server, client, context
before(async () => {
  server = await Server.start({ settings: { image_source: 'recipe' } }) // nothing is asked for outside of this machine
  Object.assign(process.env, clientEnvironment(server, 'http'))
  client = await import('e2b')
  context = contextDir({
    'folder/test.txt': 'This is a test file.',
    'folder/tool.sh': { text: '#!/bin/sh\necho tool\n', mode: 0o755 },
    'folder/symlink.txt': { link: 'test.txt' },
    'folder/absolute': { link: '/home/developer/project/file.txt' },
    'folder/dangling': { link: 'nowhere.txt' },
    'folder/deep/er/leaf': 'leaf',
    '.dockerignore': 'folder/ignored\n',
    'folder/ignored': 'never',
  })
})
after(async () => {
  if (context) fs.rmSync(context, { recursive: true, force: true })
  await server.cleanUp()
})

const template = (options) => client.Template({ fileContextPath: context, ...options })
const run = (sandbox, command, options) => sandbox.commands.run(command, options).then((r) => r.stdout.trim())

test('exists: base does, a random name does not', async () => {
  assert.equal(await client.Template.exists('base'), true)
  assert.equal(await client.Template.exists(templateName()), false)
})

test('a copied folder, a command, a working directory, a start command that ends', async () => {
  const name = templateName()
  const log = buildLog()
  const built = await client.Template.build(
    template().fromBaseImage().copy('folder/*', 'folder', { forceUpload: true }).runCmd('cat folder/test.txt').setWorkdir('/app').setStartCmd('echo "Hello, world!"', client.waitForTimeout(1_000)),
    name, log)
  assert.deepEqual([built.name, built.tags], [name, ['default']], JSON.stringify(built))
  assert.match(built.buildId, /^[0-9a-f-]{36}$/)
  assert.match(log.text(), /This is a test file\./)
  assert.match(log.text(), /Hello, world!/)
  await inSandbox(client, name, async (sandbox) => {
    assert.equal(await run(sandbox, 'pwd; whoami'), '/app\nuser')
    assert.equal(await run(sandbox, 'cat ~/folder/test.txt; ~/folder/tool.sh; cat ~/folder/deep/er/leaf; ls ~/folder'), 'This is a test file.tool\nleafabsolute\ndangling\ndeep\nsymlink.txt\ntest.txt\ntool.sh')
  })
  await deleteTemplates(api, server, name)
  assert.equal(await client.Template.exists(name), false)
})

test('fromTemplate without a step, caches skipped; an alias, a tag and an id name the same build', async () => {
  const name = templateName()
  const built = await client.Template.build(template().skipCache().fromTemplate('base'), `${name}:v1`)
  await inSandbox(client, `${name}:v1`, async (sandbox) => assert.equal(await run(sandbox, 'whoami; pwd'), 'user\n/home/user'))
  await inSandbox(client, `${built.templateId}:v1`, async (sandbox) => assert.equal((await sandbox.getInfo()).templateId, built.templateId))
  await assert.rejects(client.Sandbox.create(name), /tag 'default' does not exist|not found/) // only v1 was built
  await deleteTemplates(api, server, name)
})

test('links are copied as links, or as what they lead to', async () => {
  const name = templateName()
  await client.Template.build(template().fromUbuntuImage('24.04').copy('folder/*', 'folder').runCmd('cat folder/symlink.txt')
    .copy('folder/symlink.txt', 'resolved.txt', { resolveSymlinks: true }), name)
  await inSandbox(client, name, async (sandbox) => {
    assert.equal(await run(sandbox, 'readlink folder/symlink.txt folder/absolute folder/dangling'), 'test.txt\n/home/developer/project/file.txt\nnowhere.txt')
    assert.equal(await run(sandbox, 'stat -c %F resolved.txt; cat resolved.txt'), 'regular file\nThis is a test file.')
  })
  await deleteTemplates(api, server, name)
})

test('makeSymlink, makeDir, rename, remove, copyItems, setEnvs, setUser: each does what its name says', async () => {
  const name = templateName()
  const built = template().fromTemplate('base')
    .makeSymlink('.bashrc', '.bashrc.local').runCmd('test "$(readlink .bashrc.local)" = ".bashrc"')
    .makeSymlink('.profile', '.bashrc.local', { force: true }).runCmd('test "$(readlink .bashrc.local)" = ".profile"')
    .makeDir('made/below', { mode: 0o750 }).rename('made', 'renamed').remove('renamed/below', { recursive: true })
    .copyItems([{ src: 'folder/test.txt', dest: '/opt/one/' }, { src: 'folder/tool.sh', dest: '/opt/tool', user: 'root', mode: 0o700 }])
    .setEnvs({ NAME: 'value with blanks' }).setEnvs({ MORE: '${NAME}!', PLAIN: '$(id)' })
    .setUser('builder').setWorkdir('/home/builder').setWorkdir('rel/dir').runCmd(['id -un > who', 'pwd > where'])
  await client.Template.build(built, name)
  await inSandbox(client, name, async (sandbox) => {
    assert.equal(await run(sandbox, 'whoami; pwd; cat who where; echo "$NAME|$MORE|$PLAIN"'), 'builder\n/home/builder/rel/dir\nbuilder\n/home/builder/rel/dir\nvalue with blanks|value with blanks!|$(id)')
    assert.equal(await run(sandbox, 'stat -c "%a %U:%G" /opt/one/test.txt /opt/tool; stat -c %F /home/user/renamed', { user: 'root' }), '644 user:user\n700 root:root\ndirectory')
    await assert.rejects(sandbox.commands.run('ls /home/user/renamed/below', { user: 'root' }))
  })
  await deleteTemplates(api, server, name)
})

test('commands as root and as a user that does not exist', async () => {
  const name = templateName()
  await client.Template.build(template().fromBaseImage().runCmd('test "$(whoami)" = user').runCmd('test "$(whoami)" = root', { user: 'root' }), name)
  const error = await failedBuild(client, template().fromBaseImage().runCmd('whoami', { user: 'root123' }))
  assert.ok(error instanceof client.BuildError, error.name)
  assert.match(error.message, /failed to run command 'whoami': command failed: unauthenticated: invalid username: 'root123'/)
  await deleteTemplates(api, server, name)
})

test('an error names the step that failed, its exit status and its output', async () => {
  const error = await failedBuild(client, template().fromBaseImage().runCmd('true').copy('folder/test.txt', 'a').runCmd('echo before; echo to stderr >&2; exit 3'))
  assert.ok(error instanceof client.BuildError, error.name)
  assert.match(error.message, /failed to run command 'echo before; echo to stderr >&2; exit 3': exit status 3/)
  assert.match(error.log, /before[\s\S]*to stderr/)
  assert.match(error.stack, /contract\.test\.mjs/) // the client found the line of the failing call by the number of the step
})

test('in the background: building at once, then ready; logs are read to their end, by index', async () => {
  const name = templateName('e2b-test')
  const build = await client.Template.buildInBackground(template().fromBaseImage().skipCache().runCmd('seq 1 250; sleep 1'), `${name}:v1-${process.pid}`, { cpuCount: 1, memoryMB: 1024 })
  assert.equal((await client.Template.getBuildStatus(build, { logsOffset: 0 })).status, 'building')
  assert.equal((await buildEnded(client, build)).status, 'ready')
  const numbers = []
  let offset = 0
  for (;;) {
    const page = await client.Template.getBuildStatus(build, { logsOffset: offset })
    if (page.logEntries.length === 0) break
    assert.ok(page.logEntries.length <= 100)
    numbers.push(...page.logEntries.map((e) => /\[stdout\]: (\d+)$/.exec(e.message)?.[1]).filter(Boolean).map(Number))
    offset += page.logEntries.length
  }
  assert.deepEqual(numbers, Array.from({ length: 250 }, (_, i) => i + 1))
  await inSandbox(client, `${name}:v1-${process.pid}`, async (sandbox) => {
    const info = await sandbox.getInfo()
    assert.deepEqual([info.cpuCount, info.memoryMB], [1, 1024])
  })
  await deleteTemplates(api, server, name)
})

test('tags: assigned, listed, removed, refused', async () => {
  const name = templateName('e2b-tags-test')
  const built = await client.Template.build(template().fromTemplate('base'), `${name}:v1`)
  const assigned = await client.Template.assignTags(`${name}:v1`, ['production', 'latest'])
  assert.equal(assigned.buildId, built.buildId)
  assert.ok(['production', 'latest'].every((tag) => assigned.tags.includes(tag)), assigned.tags.join())
  assert.equal((await client.Template.assignTags(`${name}:v1`, 'stable')).buildId, built.buildId)
  assert.deepEqual((await client.Template.getTags(name)).map((t) => t.tag).sort(), ['latest', 'production', 'stable', 'v1'])
  await inSandbox(client, `${name}:production`, async () => {})
  await client.Template.removeTags(name, ['production'])
  assert.equal(await client.Template.exists(`${name}:production`), false)
  assert.equal(await client.Template.exists(`${name}:stable`), true)
  await assert.rejects(client.Template.assignTags(`${name}:v1`, ':invalid-tag'))
  await assert.rejects(client.Template.assignTags(`${name}:`, 'x'))
  await assert.rejects(client.Template.assignTags(`${templateName()}:v1`, 'x'))
  await assert.rejects(client.Template.removeTags(name, 'default'), /default/)
  await deleteTemplates(api, server, name)
})

test('builds of one name with other tags run side by side, and none cancels another', async () => {
  const name = templateName('e2b-parallel')
  const built = await Promise.all([1, 2, 3].map((n) => client.Template.build(template().fromTemplate('base').runCmd(`sleep 0.5; echo ${n} > n`), `${name}:v${n}`)))
  assert.equal(new Set(built.map((b) => b.templateId)).size, 1)
  for (const n of [1, 2, 3]) await inSandbox(client, `${name}:v${n}`, async (sandbox) => assert.equal(await run(sandbox, 'cat n'), String(n)))
  await deleteTemplates(api, server, name)
})

test('a second build of the same steps is cached, a changed last step runs alone, force runs everything', async () => {
  const name = templateName()
  const of = (last, force) => {
    const t = template()
    return (force ? t.skipCache() : t).fromTemplate('base').runCmd('date +%N > first').copy('folder/test.txt', 'copied').runCmd(last)
  }
  const values = []
  for (const [last, force] of [['echo a > last', false], ['echo a > last', false], ['echo b > last', false], ['echo b > last', true]]) {
    const log = buildLog()
    await client.Template.build(of(last, force), name, log)
    values.push(await inSandbox(client, name, async (sandbox) => [...(await run(sandbox, 'cat first last')).split('\n'), (log.text().match(/CACHED/g) ?? []).length]))
  }
  const [one, two, three, four] = values
  assert.deepEqual([two[0], two[1], three[0], three[1]], [one[0], 'a', one[0], 'b'])
  assert.notEqual(four[0], one[0])
  assert.deepEqual([two[2] >= 3, three[2] >= 2, one[2], four[2]], [true, true, 0, 0], JSON.stringify(values))
  await deleteTemplates(api, server, name)
})

test('fromDockerfile: the environment, the user and the start command arrive', async () => {
  const name = templateName()
  const text = `FROM debian:stable-slim AS base
ENV COLOUR=green
ARG LEVEL=7
WORKDIR /srv/app
COPY --chown=root folder/test.txt ./
RUN echo "$COLOUR $LEVEL" > here && \\
    id -un > who
CMD ["sleep", "1000"]`
  const built = template().fromDockerfile(text).setReadyCmd('true')
  await client.Template.build(built, name)
  await inSandbox(client, name, async (sandbox) => {
    assert.equal(await run(sandbox, 'pwd; cat here who; whoami; stat -c %U test.txt; pgrep -c sleep; echo $COLOUR'), '/srv/app\ngreen 7\nroot\nuser\nroot\n1\ngreen')
  })
  await deleteTemplates(api, server, name)
})

test('a template continues another one: user, directory, environment, start command', async () => {
  const parent = templateName('parent')
  const child = templateName('child')
  await client.Template.build(template().fromTemplate('base').setEnvs({ A: '1', B: '1' }).setWorkdir('/srv/x').setStartCmd('echo $A$B > /tmp/started; sleep 1000', client.waitForFile('/tmp/started')), parent)
  await client.Template.build(template().fromTemplate(parent).setEnvs({ B: '2' }).runCmd('pwd > /tmp/where'), child)
  await inSandbox(client, parent, async (sandbox) => assert.equal(await run(sandbox, 'cat /tmp/started; pgrep -c sleep'), '11\n1'))
  await inSandbox(client, child, async (sandbox) => assert.equal(await run(sandbox, 'cat /tmp/started /tmp/where; pwd; pgrep -c sleep'), '12\n/srv/x\n/srv/x\n1'))
  await deleteTemplates(api, server, child, parent)
})

test('every ready command: a port, an address, a process, a file, a time; as functions and as objects', async () => {
  const server3000 = 'node -e \'require("http").createServer((q, a) => a.end("up")).listen(3000)\''
  const { waitForFile, waitForPort, waitForProcess, waitForTimeout, waitForURL } = client
  const cases = [
    [server3000, waitForPort(3000)], [server3000, { waitForPort: 3000 }], [server3000, waitForURL('http://localhost:3000/')], [server3000, { waitForURL: 'http://localhost:3000/', statusCode: 200 }],
    ['sleep 1000', waitForProcess('sleep')], ['sleep 1000', { waitForProcess: 'sleep' }], ['touch /tmp/x; sleep 1000', waitForFile('/tmp/x')], ['touch /tmp/x; sleep 1000', { waitForFile: '/tmp/x' }],
    ['sleep 1000', waitForTimeout(1000)], ['sleep 1000', { waitForTimeout: 1000 }],
  ]
  const names = cases.map(() => templateName('ready'))
  for (const [i, [start, ready]] of cases.entries()) {
    await client.Template.build(template().fromTemplate('base').setStartCmd(start, ready), names[i])
    await inSandbox(client, names[i], async (sandbox) => assert.equal(await run(sandbox, `pgrep -c ${start.startsWith('node') ? 'node' : 'sleep'}`), '1', JSON.stringify(ready)))
  }
  await deleteTemplates(api, server, ...names)
})

test('an image that needs a registry: the error says so, and the base failed', async () => {
  const error = await failedBuild(client, template().fromImage('alpine:3.24').runCmd('true'))
  assert.match(error.message, /image 'alpine:3\.24' needs a registry/)
  const unknown = await failedBuild(client, template().fromTemplate(templateName('unknown')))
  assert.match(unknown.message, /template 'unknown-[^']+' not found/)
})

for (const name of ['e2b-2.2', 'e2b-2.3', 'e2b-2.10'])
  test(`${name}: builds by the domain only, with the default user of its time`, async () => {
    const library = (file) => fileURLToPath(new URL(`../lib/${file}.mjs`, import.meta.url))
    const env = { ...process.env, ...server.env, SANDGLASS_TEST_NAMES: server.domain.replace(/:\d+$/, '') }
    const { stdout } = await promisify(execFile)('node', ['--import', pathToFileURL(library('names')), library('anybuilder'), name, path.join(context)], { env, timeout: 120_000 })
    assert.equal(stdout.trim(), 'built; user; cached; failed at its step')
  })
