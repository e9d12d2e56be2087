// pause, resume, snapshot, fork, rollback on the command line: what they ask of the API, print, and exit with.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import http from 'node:http'
import { after, before, test } from 'node:test'

import { binary, sandglass } from '../lib/server.mjs'

const id = (c) => `i${c.repeat(20)}`
const asked = []
let answers = []
let api

/** An API that says what it is told to: [status, body, milliseconds]. */
before(async () => {
  api = http.createServer((rq, rs) => {
    let body = ''
    rq.on('data', (data) => (body += data))
    rq.on('end', () => {
      asked.push([rq.method, rq.url, body && JSON.parse(body)])
      const [status, answer, ms = 0] = answers.shift() ?? [500, { message: 'not expected' }]
      setTimeout(() => rs.writeHead(status, { 'content-type': 'application/json' }).end(answer === undefined ? '' : JSON.stringify(answer)), ms)
    })
  })
  await new Promise((resolve) => api.listen(0, '127.0.0.1', resolve))
})
after(() => api.close())

/** The command's result, and what it asked for. */
async function cli(args, told = [], { program = [binary, ...args] } = {}) {
  asked.length = 0
  answers = told
  const child = spawn(program[0], program.slice(1), {
    env: { ...process.env, E2B_API_URL: `http://127.0.0.1:${api.address().port}`, E2B_API_KEY: 'key' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const out = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr']) child[name].on('data', (data) => (out[name] += data))
  const status = await new Promise((resolve) => child.once('close', resolve))
  return { status, ...out, asked: [...asked] }
}

test('pause asks for each of them, in turn, and says nothing', async () => {
  const r = await cli(['pause', id('a'), id('b')], [[204], [204]])
  assert.deepEqual(r, { status: 0, stdout: '', stderr: '', asked: [['POST', `/sandboxes/${id('a')}/pause`, {}], ['POST', `/sandboxes/${id('b')}/pause`, {}]] })
})

test('pause --files-only keeps no memory', async () => {
  const r = await cli(['pause', '--files-only', id('a')], [[204]])
  assert.deepEqual([r.status, r.asked], [0, [['POST', `/sandboxes/${id('a')}/pause`, { memory: false }]]])
})

test('what cannot be paused is said in the server\'s words; the others are', async () => {
  const message = 'pid 7 (ring) uses io_uring; pause with memory:false keeps the files'
  const r = await cli(['pause', id('a'), 'x', id('b')], [[409, { code: 409, message }], [204]])
  assert.deepEqual([r.status, r.stdout], [1, ''])
  assert.equal(r.stderr, `sandglass pause: ${message}\nsandglass pause: 'x' is not a sandbox id\n`)
  assert.equal(r.asked.length, 2)
})

test('resume, with a time and from files', async () => {
  const sandbox = { sandboxID: id('a'), templateID: 't', envdVersion: '1' }
  const plain = await cli(['resume', id('a')], [[201, sandbox]])
  assert.deepEqual(plain, { status: 0, stdout: '', stderr: '', asked: [['POST', `/v2/sandboxes/${id('a')}/connect`, {}]] })
  const more = await cli(['resume', '--timeout', '60', '--files-only', id('a')], [[201, sandbox]])
  assert.deepEqual([more.status, more.asked], [0, [['POST', `/v2/sandboxes/${id('a')}/connect`, { memory: false, timeout: 60 }]]])
  const gone = await cli(['resume', id('a')], [[404, { code: 404, message: 'gone' }]])
  assert.deepEqual([gone.status, gone.stderr], [1, 'sandglass resume: gone\n'])
})

test('snapshot prints the id, or all of it', async () => {
  const made = { snapshotID: 'team/web:v1', names: ['team/web'] }
  const r = await cli(['snapshot', '--name', 'web:v1', id('a')], [[201, made]])
  assert.deepEqual(r, { status: 0, stdout: 'team/web:v1\n', stderr: '', asked: [['POST', `/sandboxes/${id('a')}/snapshots`, { name: 'web:v1' }]] })
  const json = await cli(['snapshot', '--json', id('a')], [[201, made]])
  assert.deepEqual([JSON.parse(json.stdout), json.asked[0][2]], [made, {}])
})

test('snapshots are listed page by page, of all or of one sandbox, and deleted', async () => {
  const all = [{ snapshotID: 'abc:default', names: [] }, { snapshotID: 'team/web:v1', names: ['team/web', 'x'] }]
  const r = await cli(['snapshots'], [[200, all]])
  assert.deepEqual(r.asked, [['GET', '/snapshots?limit=100', '']])
  assert.equal(r.stdout.replaceAll(/ +/g, ' '), 'SNAPSHOT NAMES\nabc:default -\nteam/web:v1 team/web, x\n')
  const one = await cli(['snapshots', '--json', id('a')], [[200, all]])
  assert.deepEqual([one.asked, JSON.parse(one.stdout)], [[['GET', `/snapshots?limit=100&sandboxID=${id('a')}`, '']], all])
  const gone = await cli(['snapshots', '--delete', 'team/web:v1', 'no'], [[204], [404, { message: 'no such snapshot' }]])
  assert.deepEqual([gone.status, gone.stderr], [1, 'sandglass snapshots: no such snapshot\n'])
  assert.deepEqual(gone.asked.map(([method, url]) => `${method} ${url}`), ['DELETE /templates/team%2Fweb%3Av1', 'DELETE /templates/no'])
})

test('fork prints the ids of the copies; one that did not come about makes it fail', async () => {
  const r = await cli(['fork', '--count', '2', '--timeout', '9', id('a')], [[201, [{ sandbox: { sandboxID: id('b') } }, { sandbox: { sandboxID: id('c') } }]]])
  assert.deepEqual(r, { status: 0, stdout: `${id('b')}\n${id('c')}\n`, stderr: '', asked: [['POST', `/sandboxes/${id('a')}/fork`, { count: 2, timeout: 9 }]] })
  const half = await cli(['fork', id('a')], [[201, [{ sandbox: { sandboxID: id('b') } }, { error: { code: 429, message: 'enough' } }]]])
  assert.deepEqual([half.status, half.stdout, half.stderr], [1, `${id('b')}\n`, 'sandglass fork: copy 2: enough\n'])
})

test('rollback names the snapshot', async () => {
  const r = await cli(['rollback', id('a'), 'team/web:v1'], [[200, {}]])
  assert.deepEqual(r, { status: 0, stdout: '', stderr: '', asked: [['POST', `/sandboxes/${id('a')}/rollback`, { snapshotID: 'team/web:v1' }]] })
})

test('ps shows those at rest, and exec says so', async () => {
  const boxes = ['running', 'paused'].map((state, i) => ({ sandboxID: id('ab'[i]), templateID: 't', alias: 'base', state, startedAt: new Date().toISOString(), endAt: new Date(Date.now() + 90_000).toISOString(), cpuCount: 2, memoryMB: 512 }))
  const ps = await cli(['ps'], [[200, boxes]])
  assert.deepEqual(ps.asked, [['GET', '/v2/sandboxes?state=running,paused&limit=100', '']])
  assert.match(ps.stdout, new RegExp(`^${id('a')} +base +running +\\d+s +1m `, 'm'))
  assert.match(ps.stdout, new RegExp(`^${id('b')} +base +paused +\\d+s +- `, 'm'))
  const exec = await cli(['exec', id('b'), 'true'], [[200, boxes[1]]])
  assert.deepEqual([exec.status, exec.stderr], [1, `sandglass exec: ${id('b')} is paused: \`sandglass resume ${id('b')}\` lets it run again\n`])
})

test('wrong use: exit code 2 and the usage', () => {
  for (const args of [['pause'], ['pause', '--count', '1', id('a')], ['resume'], ['snapshot'], ['snapshot', id('a'), id('b')], ['fork'], ['fork', '--count', '101', id('a')],
    ['rollback', id('a')], ['snapshots', id('a'), id('b')], ['snapshots', '--delete']]) {
    const r = sandglass(args)
    assert.equal(r.status, 2, args.join(' '))
    assert.match(r.stderr, new RegExp(`usage: sandglass ${args[0]}`), args.join(' '))
  }
})

test('on a terminal a long wait is shown, and the line is gone at its end', async () => {
  const told = [[204, undefined, 900]]
  const r = await cli([], told, { program: ['script', '-qec', `${binary} pause ${id('a')}`, '/dev/null'] })
  assert.equal(r.status, 0)
  assert.match(r.stdout, new RegExp(`pausing ${id('a')} \\.\\.\\. \\d+\\.\\d s`))
  assert.ok(r.stdout.trimEnd().endsWith('\r\x1b[K'), JSON.stringify(r.stdout.slice(-40)))
})
