// Builds that something happens to: killed roles, a full disk, deletion, commands that fail, never end or say too much, files that
// never come.  Each ends with a reason or goes on, and nothing of it is left but layers in the cache.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'

import { buildEnded, buildLog, contextDir, deleteTemplates, failedBuild, inSandbox, templateName } from '../lib/build/builds.mjs'
import { differences, settled, take } from '../lib/census.mjs'
import { Disk } from '../lib/disk.mjs'
import { api } from '../lib/raw.mjs'
import { Server, temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { until } from '../lib/wait.mjs'

const settings = { image_source: 'recipe', build_ready_timeout_s: 4 }
let server, client, context
before(async () => {
  context = contextDir({ 'file.txt': 'content' })
  client = await import('e2b')
  server = await Server.start({ settings })
  Object.assign(process.env, clientEnvironment(server, 'http'))
})
after(async () => {
  if (context) fs.rmSync(context, { recursive: true, force: true })
  await server.cleanUp()
})

const template = () => client.Template({ fileContextPath: context }).fromTemplate('base')
const uploads = (of) => fs.readdirSync(of.file('uploads'), { recursive: true }).filter((name) => /\.up-/.test(name))

/** Layers that rows of the store name, read from a copy of its files. */
function layersInStore(of) {
  const dir = temporaryDir('store')
  for (const name of fs.readdirSync(of.file('store'))) if (name.startsWith('sandglass.db')) fs.copyFileSync(of.file(`store/${name}`), path.join(dir, name))
  const script = `import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
for table, column in (("layer_cache", "layer"), ("build", "layers"), ("image", "layers"), ("snapshot", "layers"), ("sandbox", "layers"), ("disposable", "name")):
  try:
    for (value,) in db.execute(f"select {column} from {table}"): print(value)
  except sqlite3.OperationalError as e: print(e, file=sys.stderr)
`
  const { stdout, stderr, status } = spawnSync('python3', ['-c', script, path.join(dir, 'sandglass.db')], { encoding: 'utf8' })
  fs.rmSync(dir, { recursive: true, force: true })
  assert.equal(status, 0, stderr)
  return stdout
}

/** What the case left behind is nothing but layers that rows name. */
async function cleanAfter(of, start) {
  let found = []
  const isClean = () => {
    found = differences(start, take(of)).filter((line) => !line.startsWith('sealed') && !line.startsWith('fds of builder') && !line.startsWith('helpers'))
    const known = layersInStore(of)
    found.push(...fs.readdirSync(of.file('sealed')).filter((name) => !known.includes(name)).map((name) => `sealed/${name}`), ...uploads(of))
    return found.length === 0
  }
  await until(() => `nothing left behind, but: ${found.join('; ')}\n${of.log.slice(-3000)}`, isClean, 60_000, 100)
}

const clean = (body) => async (t) => {
  const start = await settled(server)
  await body(t)
  await cleanAfter(server, start)
}

/** A build in the background that is in the middle of its step when this returns: {build, name}. */
async function inTheMiddle(what = 'sleep 5; echo made > made') {
  const name = templateName('fault')
  const build = await client.Template.buildInBackground(template().runCmd('echo first > first').runCmd(`echo begun; ${what} # ${name}`), name)
  await until('the step to run', async () => (await client.Template.getBuildStatus(build)).logEntries.some((e) => /begun$/.test(e.message) && /stdout/.test(e.message)), 60_000, 50)
  return { build, name }
}

for (const role of ['edge', 'control', 'engine', 'builder'])
  test(`kill -9 of ${role} in the middle of a step: the build goes on to its end, or says why not`, clean(async () => {
    const { build, name } = await inTheMiddle('sleep 2; date +%N > made')
    const old = server.roles()[role] ?? []
    assert.ok(old.length > 0, `no ${role} runs`)
    for (const pid of old) process.kill(pid, 'SIGKILL')
    const status = await until('the build to end', () => buildEnded(client, build).catch(() => null), 60_000, 100)
    if (status.status === 'ready') await inSandbox(client, name, async (sandbox) => assert.match((await sandbox.commands.run('cat first made')).stdout, /^first\n\d+\n$/))
    else assert.ok(status.reason?.message, JSON.stringify(status))
    // The cache is good, whatever happened: the same steps give the same files.
    await client.Template.build(template().runCmd('echo first > first').runCmd('echo more > more'), name)
    await inSandbox(client, name, async (sandbox) => assert.equal((await sandbox.commands.run('cat first more')).stdout, 'first\nmore\n'))
    await deleteTemplates(api, server, name)
  }))

test('kill -9 of everything in the middle of a step: the next server takes the build up again', async () => {
  const own = await Server.start()
  Object.assign(process.env, clientEnvironment(own, 'http'))
  let next = own
  try {
    const { build, name } = await inTheMiddle('sleep 2; echo made > made')
    await own.stop('SIGKILL')
    next = await own.again()
    Object.assign(process.env, clientEnvironment(next, 'http'))
    const url = { apiUrl: next.apiUrl, sandboxUrl: next.apiUrl, apiKey: next.key }
    const status = await until('the build to end', async () => {
      const s = await client.Template.getBuildStatus(build, url).catch(() => null)
      return s && ['ready', 'error'].includes(s.status) && s
    }, 60_000, 100)
    assert.equal(status.status, 'ready', JSON.stringify(status.reason))
    await inSandbox(client, name, async (sandbox) => assert.equal((await sandbox.commands.run('cat first made')).stdout, 'first\nmade\n'), url)
    assert.equal((await api(next, 'DELETE', `/templates/${name}`)).status, 204)
  } finally {
    await next.cleanUp()
    Object.assign(process.env, clientEnvironment(server, 'http'))
  }
})

test('a full disk: the build says so, and with room again the same build works', async () => {
  const disk = new Disk(200)
  const own = await Server.start({ data: disk.dir })
  const url = { apiUrl: own.apiUrl, sandboxUrl: own.apiUrl, apiKey: own.key }
  try {
    const name = templateName('full')
    const filling = template().runCmd('dd if=/dev/urandom of=big bs=1M count=400 status=none')
    await assert.rejects(client.Template.build(filling, name, url), /No space left|disk is full|exit status 1/)
    const below = (dir) => fs.readdirSync(own.file(dir))
    await until(() => `there is room again: ${below('sandboxes')} ${below('trash')}`, () => below('sandboxes').length === 0 && below('trash').length === 0)
    await client.Template.build(template().runCmd('dd if=/dev/urandom of=small bs=1M count=10 status=none'), name, url)
    await inSandbox(client, name, async (sandbox) => assert.equal((await sandbox.commands.run('stat -c %s small')).stdout, '10485760\n'), url)
    assert.equal((await api(own, 'DELETE', `/templates/${name}`)).status, 204)
  } finally {
    await own.cleanUp()
    disk.remove()
  }
})

test('two builds of the same thing at once are both ready, with the same files', clean(async () => {
  const names = [templateName('twin'), templateName('twin')]
  await Promise.all(names.map((name) => client.Template.build(template().runCmd('sleep 0.5; date +%N > stamp').copy('file.txt', 'file.txt'), name)))
  for (const name of names) await inSandbox(client, name, async (sandbox) => assert.match((await sandbox.commands.run('cat stamp file.txt')).stdout, /^\d+\ncontent$/))
  await deleteTemplates(api, server, ...names)
}))

test('a template that is deleted while it builds: the build ends, and its sandbox with it', clean(async () => {
  const { build, name } = await inTheMiddle('sleep 1000')
  assert.equal((await api(server, 'DELETE', `/templates/${name}`)).status, 204)
  await assert.rejects(client.Template.getBuildStatus(build))
  assert.equal(await client.Template.exists(name), false)
}))

test('a newer build of the same name and tag ends the one that runs', clean(async () => {
  const { build, name } = await inTheMiddle('sleep 1000')
  await client.Template.build(template().runCmd('echo newer > newer'), name)
  const status = await buildEnded(client, build)
  assert.equal(status.status, 'error')
  assert.match(status.reason.message, /cancel|superseded/i)
  await inSandbox(client, name, async (sandbox) => assert.equal((await sandbox.commands.run('cat newer')).stdout, 'newer\n'))
  await deleteTemplates(api, server, name)
}))

test('a ready command that never succeeds: the time is up, with the log', clean(async () => {
  const error = await failedBuild(client, template().setStartCmd('echo I started; sleep 1000', 'echo not yet; false'))
  assert.match(error.message, /ready command failed: ready command timed out after/)
  assert.match(error.log, /I started/)
}))

test('a start command that fails before it is ready; one that ends well', clean(async () => {
  const error = await failedBuild(client, template().setStartCmd('echo bad luck; exit 7', 'sleep 1; false'))
  assert.match(error.message, /start command failed: .*exit status 7/)
  assert.match(error.log, /bad luck/)
  const name = templateName()
  await client.Template.build(template().setStartCmd('echo done > /tmp/done', client.waitForFile('/tmp/done')), name)
  await inSandbox(client, name, async (sandbox) => assert.equal((await sandbox.commands.run('cat /tmp/done')).stdout, 'done\n'))
  await deleteTemplates(api, server, name)
}))

const loudBytes = Number(process.env.SANDGLASS_TEST_LOUD_MB ?? 32) * 1e6 // 1000: a gigabyte, which takes a minute or two
test('a step that prints too much: the log has its begin and its end, and the build goes on', clean(async () => {
  const name = templateName('loud')
  const log = buildLog()
  await client.Template.build(template().runCmd(`echo the begin; head -c ${loudBytes} /dev/zero | tr "\\0" "x" | fold -w 1000; echo; echo the end`), name, log)
  const bytes = log.entries.reduce((sum, e) => sum + e.message.length, 0)
  assert.ok(bytes < 8 << 20, `${bytes} bytes of log`)
  assert.match(log.text(), /the begin/)
  assert.match(log.text(), /left out/)
  assert.match(log.text(), /the end/)
  await deleteTemplates(api, server, name)
}))

test('COPY of files that were never uploaded', clean(async () => {
  const name = templateName('upload')
  const asked = await api(server, 'POST', '/v3/templates', { body: { name } })
  assert.equal(asked.status, 202, asked.body)
  const { templateID, buildID } = asked.json
  const hash = 'ab'.repeat(32)
  const link = await api(server, 'GET', `/templates/${templateID}/files/${hash}`)
  assert.deepEqual([link.status, link.json.present], [201, false])
  const steps = [{ type: 'COPY', args: ['file.txt', 'file.txt', '', ''], filesHash: hash, force: false }]
  const started = await api(server, 'POST', `/v2/templates/${templateID}/builds/${buildID}`, { body: { fromTemplate: 'base', steps } })
  if (started.status === 202) {
    const status = await buildEnded(client, { templateId: templateID, buildId: buildID })
    assert.equal(status.status, 'error')
    assert.match(status.reason.message, /upload|files/)
    assert.equal(status.reason.step, '1')
  } else assert.equal(started.status, 400, started.body)
  await deleteTemplates(api, server, name)
}))

test('archives that are none, or lead out of the tree', clean(async () => {
  const tar = (files) => {
    const dir = contextDir({})
    const r = spawnSync('python3', ['-c', `import io, json, sys, tarfile
t = tarfile.open(fileobj=sys.stdout.buffer, mode="w|")
for n, x in json.loads(sys.argv[1]):
  i = tarfile.TarInfo(n); d = x.get("text", "").encode(); i.size = len(d)
  if "link" in x: i.type = tarfile.SYMTYPE; i.linkname = x["link"]; i.size = 0
  if "hard" in x: i.type = tarfile.LNKTYPE; i.linkname = x["hard"]; i.size = 0
  if x.get("device"): i.type = tarfile.CHRTYPE; i.devmajor, i.devminor = 1, 3
  t.addfile(i, io.BytesIO(d))
t.close()`, JSON.stringify(files)])
    fs.rmSync(dir, { recursive: true })
    return r.stdout
  }
  const cases = [
    ['no archive', Buffer.from('this is no archive'.repeat(100)), /archive/],
    ['names that leave the tree', tar([['../../escape', { text: 'x' }]]), /escape|\.\.|outside/],
    ['a link and a file through it', tar([['file.txt', { link: '/etc' }], ['file.txt/escape', { text: 'x' }]]), /escape|link|outside|exit status/],
    ['a hard link to a file of the system', tar([['file.txt', { hard: '/etc/shadow' }]]), /link|outside|escape/],
  ]
  for (const [what, bytes, message] of cases) {
    const name = templateName('archive')
    const { templateID, buildID } = (await api(server, 'POST', '/v3/templates', { body: { name } })).json
    const hash = spawnSync('sha256sum', { input: what + name, encoding: 'utf8' }).stdout.slice(0, 64)
    const { url } = (await api(server, 'GET', `/templates/${templateID}/files/${hash}`)).json
    const put = await fetch(url, { method: 'PUT', body: bytes })
    const steps = [{ type: 'COPY', args: ['file.txt', 'file.txt', '', ''], filesHash: hash, force: false }]
    if (put.ok) {
      assert.equal((await api(server, 'POST', `/v2/templates/${templateID}/builds/${buildID}`, { body: { fromTemplate: 'base', steps } })).status, 202)
      const status = await buildEnded(client, { templateId: templateID, buildId: buildID })
      assert.equal(status.status, 'error', what)
      assert.match(status.reason.message, message, what)
    } else assert.equal(put.status, 400, what)
    await deleteTemplates(api, server, name)
  }
}))
