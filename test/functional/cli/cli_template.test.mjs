// Templates on the command line: what `sandglass template` asks of the API, uploads, prints, and exits with.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { after, afterEach, before, beforeEach, test } from 'node:test'

import { Template } from 'e2b'

import { binary, temporaryDir } from '../lib/server.mjs'

const templateID = 'r9q2w4e6t8y0u1i3o5p7'
const buildID = '3f0c6c0e-6f0e-4b44-9a52-0f0f3b1d2c11'
const entry = (message, step, level = 'info') => ({ timestamp: '2026-09-21T10:00:00Z', level, message, step })

let api, dir
/** What was asked, the files that came, and what the API says next. */
let asked, uploads, pages, refuse, isPresent

const said = {
  'POST /v3/templates': () => [202, { templateID, buildID, public: false, names: ['acme/app'], aliases: ['app'], tags: ['default'] }],
  'GET /templates': () => [200, [{ templateID, names: ['acme/app'], aliases: ['app'], buildStatus: 'ready', buildCount: 2, cpuCount: 2, memoryMB: 1024, spawnCount: 5 }]],
  [`GET /templates/app?limit=100`]: () => [200, { templateID, names: ['acme/app'], public: true, createdAt: '2026-09-21T10:00:00Z', spawnCount: 5, builds: [{ buildID, status: 'ready', createdAt: '2026-09-21T10:00:00Z', cpuCount: 2, memoryMB: 1024 }] }],
  [`GET /templates/app?limit=1`]: () => [200, { templateID, builds: [{ buildID, status: 'ready' }] }],
  'GET /templates/app/tags': () => [200, [{ tag: 'default', buildID, createdAt: '' }, { tag: 'v1', buildID, createdAt: '' }]],
  'POST /templates/tags': () => [201, { tags: ['v1'], buildID }],
  'POST /templates/app/rollback': () => [200, { tag: 'default', buildID }],
  'DELETE /templates/app': () => [204],
  [`DELETE /templates/${templateID}/builds/${buildID}`]: () => [204],
  [`POST /v2/templates/${templateID}/builds/${buildID}`]: () => [202],
}

function answer(rq, body) {
  if (refuse?.[0] === `${rq.method} ${rq.url}`) return refuse[1]
  if (said[`${rq.method} ${rq.url}`]) return said[`${rq.method} ${rq.url}`]()
  const files = /^\/templates\/\w+\/files\/([0-9a-f]{64})$/.exec(rq.url)
  if (files) return [201, { present: isPresent, url: `http://127.0.0.1:${api.address().port}/_upload/${files[1]}?sig=x`, headers: { 'x-any': '1' } }]
  const put = /^\/_upload\/([0-9a-f]{64})\?sig=x$/.exec(rq.url)
  if (put) return (uploads[put[1]] = { body, headers: rq.headers }), [200]
  const status = new RegExp(`^/templates/${templateID}/builds/${buildID}/status\\?.*logsOffset=(\\d+)`).exec(rq.url)
  if (status) {
    const page = pages.length > 1 ? pages.shift() : pages[0]
    return [200, { templateID, buildID, logs: [], logEntries: [], status: 'building', ...page }]
  }
  return [500, { code: 500, message: `not expected: ${rq.method} ${rq.url}` }]
}

before(async () => {
  api = http.createServer((rq, rs) => {
    const pieces = []
    rq.on('data', (data) => pieces.push(data))
    rq.on('end', () => {
      const body = Buffer.concat(pieces)
      const [status, value] = answer(rq, body)
      const json = body.length && rq.headers['content-type'] === 'application/json' ? JSON.parse(body) : undefined
      if (!rq.url.startsWith('/_upload/')) asked.push([rq.method, rq.url, json])
      const text = value === undefined ? '' : JSON.stringify(value)
      rs.writeHead(status, { 'content-length': text.length, ...(text && { 'content-type': 'application/json' }) }).end(text)
    })
  })
  await new Promise((resolve) => api.listen(0, '127.0.0.1', resolve))
})
after(() => api.close())

beforeEach(() => {
  asked = []
  uploads = {}
  pages = [{ status: 'ready' }]
  refuse = undefined
  isPresent = false
  dir = temporaryDir('context')
})

afterEach(() => fs.rmSync(dir, { recursive: true, force: true }))

const write = (files) => {
  for (const [name, content] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true })
    fs.writeFileSync(path.join(dir, name), content)
  }
}
const url = () => `http://127.0.0.1:${api.address().port}`
const start = (args, program = [binary, 'template', ...args]) =>
  spawn(program[0], program.slice(1), { cwd: dir, env: { ...process.env, E2B_API_URL: url(), E2B_API_KEY: 'key', TERM: 'xterm' }, stdio: ['ignore', 'pipe', 'pipe'] })

async function cli(args, program) {
  const child = start(args, program)
  const out = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) child[name].on('data', (data) => (out[name] += data))
  const [status] = await once(child, 'close')
  return { status, ...out }
}

/** Names in an uploaded archive. */
const names = (upload) => spawnSync('tar', ['-t'], { input: upload.body, encoding: 'utf8' }).stdout.trim().split('\n')
const request = () => asked.find(([method, target]) => method === 'POST' && target.startsWith('/v2/templates/'))[2]

test('build sends the request, the files and the steps, and prints the template', async () => {
  write({ Dockerfile: 'FROM debian:12\nARG V=1\nWORKDIR /app\nCOPY src .\nRUN make $V\nCMD ["node", "a.js"]\nHEALTHCHECK CMD true\n', 'src/a.js': 'x' })
  pages = [{ logEntries: [entry('[builder 1/1] RUN make', '1'), entry('secret', '1', 'debug')] }, { status: 'ready' }]
  const r = await cli(['build', '--name', 'app', '--tag', 'v1', '--tag', 'v2', '--build-arg', 'V=2', '--cpu-count', '4', '--memory-mb', '2048'])
  assert.deepEqual([r.status, r.stdout], [0, `${templateID}\n`])
  assert.match(r.stderr, /^uploading src\n\[builder 1\/1\] RUN make\napp is built, in \d+\.\d s\n$/)
  assert.deepEqual(asked[0], ['POST', '/v3/templates', { name: 'app', tags: ['v1', 'v2'], cpuCount: 4, memoryMB: 2048 }])
  const { steps, ...rest } = request()
  assert.deepEqual(rest, { fromImage: 'debian:12', startCmd: 'node a.js', readyCmd: 'true' })
  const [hash] = Object.keys(uploads)
  assert.deepEqual(steps, [
    { type: 'USER', args: ['root'], force: false },
    { type: 'WORKDIR', args: ['/'], force: false },
    { type: 'WORKDIR', args: ['/app'], force: false },
    { type: 'COPY', args: ['src', '.', '', ''], filesHash: hash, force: false },
    { type: 'RUN', args: ['make $V'], shell: ['/usr/bin/env', 'V=2', '/bin/sh', '-c'], force: false },
    { type: 'USER', args: ['user'], force: false },
  ])
  assert.deepEqual(names(uploads[hash]), ['src/', 'src/a.js'])
  assert.equal(uploads[hash].headers['content-length'], String(uploads[hash].body.length))
  assert.equal(uploads[hash].headers['x-any'], '1')
  assert.equal(uploads[hash].headers['x-api-key'], undefined)
})

test('files that the server has are not sent again', async () => {
  write({ Dockerfile: 'FROM a\nCOPY x y\nCOPY x y\n', x: 'x' })
  isPresent = true
  assert.equal((await cli(['build', '--name', 'app'])).status, 0)
  assert.deepEqual(uploads, {})
  assert.equal(asked.filter(([, target]) => target.includes('/files/')).length, 1)
})

test('the hash of files is that of the clients', async () => {
  write({ Dockerfile: 'FROM a\nCOPY src /app\nCOPY one.txt /x/\nCOPY . /all\n', 'src/b/c.txt': 'c', 'src/a.txt': 'aa', 'one.txt': '1' })
  fs.symlinkSync('a.txt', path.join(dir, 'src', 'link'))
  fs.chmodSync(path.join(dir, 'src', 'a.txt'), 0o755)
  assert.equal((await cli(['build', '--name', 'app'])).status, 0)
  const ours = request().steps.filter((step) => step.type === 'COPY').map((step) => step.filesHash)
  asked = []
  const template = Template({ fileContextPath: dir }).fromImage('a').copy('src', '/app').copy('one.txt', '/x/').copy('.', '/all')
  await Template.build(template, 'app', { apiUrl: url(), apiKey: `e2b_${'0'.repeat(40)}` })
  const theirs = request().steps.filter((step) => step.type === 'COPY').map((step) => step.filesHash)
  assert.deepEqual(ours, theirs)
})

test('e2b.toml says what to build, and options say it louder', async () => {
  write({
    'e2b.toml': 'template_name = "fragments"\ndockerfile = "docker/my.Dockerfile"\nstart_cmd = "/run.sh"\ncpu_count = 2\nmemory_mb = 512\n',
    'docker/my.Dockerfile': 'FROM a\nCOPY run.sh /\nCMD nothing\n',
    'run.sh': 'x',
    Dockerfile: 'not this one',
  })
  assert.equal((await cli(['build', '.', '--memory-mb', '1024', '--ready-cmd', 'curl x', '--no-cache'])).status, 0)
  assert.deepEqual(asked[0][2], { name: 'fragments', cpuCount: 2, memoryMB: 1024 })
  const { startCmd, readyCmd, force } = request()
  assert.deepEqual([startCmd, readyCmd, force], ['/run.sh', 'curl x', true])
})

test('a template without a name has that of its directory', async () => {
  write({ 'My-App/Dockerfile': 'FROM a\n' })
  assert.equal((await cli(['build', 'My-App', '--json'])).status, 0)
  assert.equal(asked[0][2].name, 'my-app')
})

test('all that is wrong is said with file and line, and nothing is asked', async () => {
  write({ Dockerfile: 'FROM a\nFOO\nCOPY nope x\nADD https://x y\n', 'e2b.toml': 'a = 1\n' })
  const r = await cli(['build', '--name', 'x'])
  assert.deepEqual([r.status, r.stdout, asked], [1, '', []])
  assert.equal(r.stderr, "./e2b.toml:1: unknown key 'a'\n./Dockerfile:2: unknown instruction 'FOO'\n./Dockerfile:4: ADD of a URL is not supported: use RUN with curl, or COPY a file (https://x)\nsandglass template: 3 errors\n".replaceAll('./', ''))
})

test('check builds nothing, finds missing files, and shows what is left out', async () => {
  write({ Dockerfile: 'FROM a\nEXPOSE 80\nCOPY nope x\nCOPY *.c /y/\n' })
  const r = await cli(['check'])
  assert.deepEqual([r.status, asked], [1, []])
  assert.equal(r.stderr, "Dockerfile:2: note: EXPOSE is ignored\nDockerfile:3: 'nope' is not in the context\nDockerfile:4: nothing in the context matches '*.c'\nsandglass template: 2 errors\n")
  write({ Dockerfile: 'FROM a\n' })
  const good = await cli(['check', '--json', dir])
  assert.equal(good.status, 0)
  assert.equal(JSON.parse(good.stdout).fromImage, 'a')
  write({ '.dockerignore': 'ok\n[x\n' })
  const ignore = await cli(['check'])
  assert.deepEqual([ignore.status, ignore.stderr.split('\n')[0]], [1, '.dockerignore:2: not a pattern: a [ is not closed, or nothing follows a \\'])
})

test('no Dockerfile, no directory', async () => {
  const r = await cli(['build', '--name', 'x'])
  assert.deepEqual([r.status, r.stderr], [1, "sandglass template: there is no e2b.Dockerfile and no Dockerfile in '.'\n"])
  const none = await cli(['build', 'nope-at-all'])
  assert.match(none.stderr, /'nope-at-all' is no directory, and no template of that name comes with the program/)
})

test('a build that fails: its log, its reason, exit code 1', async () => {
  write({ Dockerfile: 'FROM a\nRUN false\n' })
  const reason = { message: "failed to run command 'false': exit status 1", step: '3' }
  pages = [{ logEntries: [entry('[builder 1/1] [stdout]: oops', '3')] }, { status: 'error', reason, logEntries: [entry('Build failed', '3', 'error')] }, { status: 'error', reason }]
  const r = await cli(['build', '--name', 'app'])
  assert.deepEqual([r.status, r.stdout], [1, ''])
  assert.equal(r.stderr, "[builder 1/1] [stdout]: oops\nBuild failed\nsandglass template: Dockerfile:2: failed to run command 'false': exit status 1\n")
})

test('what the server refuses is said in its words', async () => {
  write({ Dockerfile: 'FROM a\n' })
  refuse = ['POST /v3/templates', [400, { code: 400, message: 'CPU count must be 1 or an even number' }]]
  const r = await cli(['build', '--name', 'app', '--cpu-count', '3'])
  assert.deepEqual([r.status, r.stderr], [1, 'sandglass template: CPU count must be 1 or an even number\n'])
})

test('an interrupt cancels the build', async () => {
  write({ Dockerfile: 'FROM a\n' })
  pages = [{ logEntries: [entry('[builder 1/1] RUN x', '1')] }, {}]
  const child = start(['build', '--name', 'app'])
  let stderr = ''
  child.stderr.on('data', (data) => (stderr += data))
  await once(child.stderr, 'data')
  child.kill('SIGINT')
  const [status] = await once(child, 'close')
  assert.equal(status, 130)
  assert.match(stderr, /the build was cancelled\n$/)
  assert.deepEqual(asked.at(-1).slice(0, 2), ['DELETE', `/templates/${templateID}/builds/${buildID}`])
})

test('on a terminal a line shows the step, and the log comes after a failure only', async () => {
  write({ Dockerfile: 'FROM a\n' })
  const reason = { message: 'no', step: 'base' }
  pages = [{ logEntries: [entry('[base] FROM a', 'base'), entry('[base] [stdout]: one', 'base')] }, { status: 'error', reason }]
  const r = await cli([], ['script', '-qec', `${binary} template build --name app`, '/dev/null'])
  assert.equal(r.status, 1)
  assert.match(r.stdout, /\r\x1b\[K +\d+\.\d s  \[base\] FROM a/)
  assert.match(r.stdout, / {2}\| one\r\nsandglass template: the build failed at step base: no\r\n$/)
})

test('list, show, tag, rollback, delete, logs', async () => {
  const list = await cli(['list'])
  assert.match(list.stdout, /^NAME .*\nacme\/app +r9q2w4e6t8y0u1i3o5p7 +ready +2 +2 +1024 MB +5\n$/)
  const show = await cli(['show', 'app'])
  assert.match(show.stdout, new RegExp(`${buildID}  ready .* default, v1\n$`))
  assert.equal(JSON.parse((await cli(['show', 'app', '--json'])).stdout).tags.length, 2)
  asked = []
  assert.equal((await cli(['tag', 'app:v1', 'prod', 'stable'])).status, 0)
  assert.deepEqual(asked, [['POST', '/templates/tags', { target: 'app:v1', tags: ['prod', 'stable'] }]])
  asked = []
  const back = await cli(['rollback', 'app'])
  assert.deepEqual([back.stdout, asked], [`${buildID}\n`, [['POST', '/templates/app/rollback', { tag: 'default' }]]])
  asked = []
  await cli(['rollback', '--tag', 'v1', 'app', buildID])
  assert.deepEqual(asked[0][2], { tag: 'v1', buildID })
  const gone = await cli(['delete', 'app', 'other'])
  assert.deepEqual([gone.status, gone.stderr], [1, 'sandglass template: not expected: DELETE /templates/other\n'])
  pages = [{ status: 'ready', logEntries: [entry('one', '1')] }, { status: 'ready' }]
  assert.equal((await cli(['logs', 'app'])).stdout, '2026-09-21T10:00:00Z info  one\n')
})

test('wrong use: exit code 2 and the usage', async () => {
  for (const args of [[], ['frob'], ['build', 'a', 'b'], ['build', '--frob'], ['tag', 'x'], ['show'], ['build', '--cpu-count', 'x'], ['build', '--build-arg', 'x']]) {
    const r = await cli(args)
    assert.equal(r.status, 2, args.join(' '))
    assert.match(r.stderr, /usage: sandglass template build/)
  }
})
