// Every row of the agent API about commands, and what becomes of them when parts of the way break.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import net from 'node:net'
import { after, before, test } from 'node:test'

import { call, collect, events, startWithTwoTeams } from '../lib/agent_api.mjs'
import { openFiles } from '../lib/proc.mjs'
import { until } from '../lib/wait.mjs'

let server, otherKey, id
before(async () => {
  ;({ server, otherKey } = await startWithTwoTeams())
  id = (await call(server, 'POST', '/sandboxes', { template_id: 'base' })).json.sandbox_id
})
after(() => server.cleanUp())

const ask = (...args) => call(server, ...args)
const at = (rest = '') => `/sandboxes/${id}/commands${rest}`
const run = (command, more = {}, options) => ask('POST', at(), { command, ...more }, options)
const start = async (command, more = {}) => (await run(command, { background: true, ...more })).json
const read = async (commandId) => (await ask('GET', at(`/${commandId}`))).json
const ended = (commandId) => until('its end', async () => { const now = await read(commandId); return now.status === 'exited' && now })
const role = () => server.roles().agent?.[0]
const memory = (pid) => Number(/^VmHWM:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1])

function isError(answer, status, code, words = /./) {
  assert.equal(answer.status, status, answer.body)
  assert.equal(answer.json.error.code, code, answer.body)
  assert.match(answer.json.error.message, words)
}

test('output, exit codes, signals, user, directory and environment', async () => {
  const ok = await run('echo out; echo err >&2; exit 3')
  assert.equal(ok.status, 200)
  const { stdout, stderr, exit_code } = ok.json
  assert.deepEqual({ stdout, stderr, exit_code }, { stdout: 'out\n', stderr: 'err\n', exit_code: 3 })
  assert.deepEqual((await run('kill -9 $$')).json.signal, 'killed')
  const { json } = await run('echo "$(id -un) $PWD $LEVEL"', { user: 'root', cwd: '/tmp', env: { LEVEL: '2' } })
  assert.equal(json.stdout, 'root /tmp 2\n')
  assert.equal((await run("printf 'a\\377b\\000c'")).json.stdout, 'a\ufffdb\0c')
  assert.equal((await run('cat', {})).json.exit_code, 0) // no input: the end of it at once
})

test('refuses what is wrong, and names the field', async () => {
  const cases = [['{"command":', /line 1/], [{}, /command/], [{ command: '' }, /command/], [{ command: ['ls'] }, /command/], [{ command: 'x', background: 'yes' }, /background/], [{ command: 'x', cwd: 'here' }, /cwd/], [{ command: 'x', cwd: '/nowhere' }, /nowhere/], [{ command: 'x', user: 'nobody-here' }, /nobody-here/], [{ command: 'x', timeout_s: -1 }, /timeout_s/], [{ command: 'x', env: { 'A=': '' } }, /env/], [{ command: 'x', stdin: true }, /stdin/], [{ command: 'x'.repeat(200_000) }, /command/]]
  for (const [body, words] of cases) isError(await ask('POST', at(), body), 400, 'invalid_request', words)
  isError(await ask('POST', at(), 'x'.repeat(3 << 20)), 413, 'too_large')
  isError(await ask('PUT', at(), {}), 405, 'method_not_allowed')
})

test('a time limit ends the command, and what it said until then is told', async () => {
  const { status, json } = await run('echo begun; exec sleep 100', { timeout_s: 5 })
  assert.deepEqual([status, json.exit_code, json.timed_out, json.stdout], [200, 124, true, 'begun\n'])
})

test('in the background: output so far, by pieces, to the end; then the list', async () => {
  const begun = await start('echo first; read line; echo "got $line"; exit 5', { stdin: true })
  assert.match(begun.command_id, /^cmd_/)
  const first = await until('first', async () => { const now = await read(begun.command_id); return now.stdout && now })
  assert.deepEqual([first.status, first.stdout, first.next], ['running', 'first\n', 6])
  const list = (await ask('GET', at())).json.commands
  assert.deepEqual(list.filter((c) => c.command_id === begun.command_id).map((c) => [c.status, c.pid, c.command]), [['running', begun.pid, 'echo first; read line; echo "got $line"; exit 5']])
  assert.equal((await ask('POST', at(`/${begun.command_id}/stdin`), { data: 'aMOpbGxvCg==', encoding: 'base64' })).status, 204)
  const last = await ended(begun.command_id)
  assert.deepEqual([last.stdout, last.exit_code], ['first\ngot héllo\n', 5])
  assert.equal((await ask('GET', at(`/${begun.command_id}?from=6`))).json.stdout, 'got héllo\n')
  isError(await ask('POST', at(`/${begun.command_id}/stdin`), { data: 'late' }), 404, 'not_found')
  isError(await ask('DELETE', at(`/${begun.command_id}`)), 404, 'not_found')
  assert.equal((await ask('GET', at())).json.commands.find((c) => c.command_id === begun.command_id).exit_code, 5)
})

test('input: bad input, to commands that take none, and its end', async () => {
  const { command_id: cat } = await start('cat', { stdin: true })
  for (const [body, words] of [[{}, /data/], [{ data: 5 }, /data/], [{ data: '***', encoding: 'base64' }, /data/], [{ data: 'x', encoding: 'hex' }, /encoding/]])
    isError(await ask('POST', at(`/${cat}/stdin`), body), 400, 'invalid_request', words)
  assert.equal((await ask('POST', at(`/${cat}/stdin`), { data: 'bye', close: true })).status, 204)
  assert.equal((await ended(cat)).stdout, 'bye')
  const { command_id: deaf } = await start('sleep 100')
  isError(await ask('POST', at(`/${deaf}/stdin`), { data: 'x' }), 409, 'conflict', /stdin/)
  assert.equal((await ask('DELETE', at(`/${deaf}`))).status, 204)
})

test('kill reaches the children, too', async () => {
  const { command_id: parent } = await start('sleep 4321 & sleep 4321; true')
  await until('both run', async () => (await run('pgrep -fc "^sleep 4321"')).json.stdout === '2\n')
  isError(await ask('DELETE', at(`/${parent}?signal=HUP`)), 400, 'invalid_request', /signal/)
  assert.equal((await ask('DELETE', at(`/${parent}`))).status, 204)
  assert.equal((await ended(parent)).signal, 'killed')
  await until('both have ended', async () => (await run('pgrep -fc "^sleep 4321"')).json.stdout === '0\n')
  const { command_id: polite } = await start('trap "echo asked; exit 7" TERM; echo ready; while :; do sleep 0.05; done')
  await until('ready', async () => (await read(polite)).stdout === 'ready\n')
  assert.equal((await ask('DELETE', at(`/${polite}?signal=TERM`))).status, 204)
  assert.deepEqual([(await ended(polite)).exit_code, (await read(polite)).stdout], [7, 'ready\nasked\n'])
})

test('ids that name nothing, and commands that others started', async () => {
  for (const name of ['cmd_nothing', '999999', '0', 'a%2Fb', 'x'.repeat(100), '%20'])
    for (const method of ['GET', 'DELETE']) isError(await ask(method, at(`/${name}`)), 404, 'not_found')
  const { command_id, pid } = await start('echo mine; sleep 100')
  await until('its output', async () => (await read(command_id)).stdout === 'mine\n')
  assert.equal((await read(`${pid}`)).stdout, 'mine\n')
  await ask('DELETE', at(`/${pid}`))
  await ended(command_id)
})

test('a stream of output: as it comes, to the exit, and on after the last event', async () => {
  const { command_id } = await start('for i in 1 2 3; do echo $i; read x; done; printf "\\303"; sleep 0.05; printf "\\251\\n"; echo no >&2; exit 4', { stdin: true })
  const heard = []
  for await (const event of events(server, at(`/${command_id}?stream=1`))) {
    heard.push(event)
    if (event.event === 'output' && /^\d\n$/.test(event.data.text)) await ask('POST', at(`/${command_id}/stdin`), { data: '\n' })
  }
  assert.equal(heard[0].event, 'start')
  assert.equal(heard.filter((e) => e.data.stream === 'stdout').map((e) => e.data.text).join(''), '1\n2\n3\né\n')
  assert.equal(heard.filter((e) => e.data.stream === 'stderr').map((e) => e.data.text).join(''), 'no\n')
  assert.deepEqual([heard.at(-1).event, heard.at(-1).data], ['exit', { exit_code: 4 }])
  const second = heard.find((e) => e.data.text === '2\n')
  const rest = await collect(events(server, at(`/${command_id}?stream=1`), { headers: { 'Last-Event-ID': second.id } }))
  assert.equal(rest.filter((e) => e.data.stream === 'stdout').map((e) => e.data.text).join(''), '3\né\n')
  for (const query of ['from=x', 'from=-1']) isError(await ask('GET', at(`/${command_id}?${query}`)), 400, 'invalid_request', /from/)
})

test('output of more than a MiB that nobody has read: its newest part, and how much was dropped', async () => {
  const size = 3_000_000
  const { command_id } = await start(`head -c ${size} /dev/zero | tr "\\0" x; printf end; read line; printf more`, { stdin: true })
  const whole = await until('all of it', async () => { const now = await read(command_id); return now.next === size + 3 && now })
  assert.equal(whole.status, 'running')
  assert.ok(whole.stdout.endsWith('xend') && whole.stdout.length <= 1 << 20 && whole.stdout.length > 900_000, `${whole.stdout.length}`)
  assert.equal(whole.dropped + whole.stdout.length, size + 3)
  const part = (await ask('GET', at(`/${command_id}?from=${whole.dropped - 100}`))).json
  assert.deepEqual([part.dropped, part.stdout.length], [100, whole.stdout.length])
  const rest = (await ask('GET', at(`/${command_id}?from=${size}`))).json
  assert.deepEqual([rest.dropped, rest.stdout], [undefined, 'end'])
  await ask('POST', at(`/${command_id}/stdin`), { data: '\n' })
  const heard = await collect(events(server, at(`/${command_id}?stream=1`)))
  assert.deepEqual(heard.slice(0, 2).map((e) => e.event), ['start', 'dropped'])
  const text = heard.filter((e) => e.event === 'output').map((e) => e.data.text).join('')
  assert.ok(text.endsWith('xendmore'))
  assert.equal(heard[1].data.bytes + text.length, size + 7)
})

test('a gigabyte of output: its beginning and end, in bounded memory; other requests are served meanwhile', async () => {
  const pid = role()
  const big = run('echo begin; head -c 1000000000 /dev/zero | tr "\\0" x; echo; echo end')
  for (let i = 0; i < 5; i++) assert.equal((await run(`echo ${i}`)).json.stdout, `${i}\n`)
  const { json } = await big
  assert.ok(json.stdout.startsWith('begin\nxxx') && json.stdout.endsWith('x\nend\n'))
  assert.ok(json.truncated && json.stdout.length < 9 << 20)
  assert.match(json.stdout, /\n\[\.\.\. \d+ bytes left out \.\.\.\]\n/)
  assert.equal(role(), pid)
  assert.ok(memory(pid) < 80 << 10, `${memory(pid)} KiB`)
})

test('a reader of a stream that stops reading holds the command up, not the role', async () => {
  const { command_id } = await start('sleep 0.1; yes | head -c 50000000; echo done')
  const leave = new AbortController()
  const stalled = await fetch(`${server.apiUrl}/api/v1/agent${at(`/${command_id}?stream=1`)}`, { headers: { Authorization: `Bearer ${server.key}` }, signal: leave.signal })
  assert.equal(stalled.status, 200) // and nothing is read
  for (let i = 0; i < 20; i++) assert.equal((await run('true')).json.exit_code, 0)
  assert.ok(memory(role()) < 80 << 10)
  leave.abort()
  await stalled.body.cancel().catch(() => {})
  assert.ok((await ended(command_id)).stdout.endsWith('done\n'))
})

test('output that is six times as large in JSON is shortened to what an answer may be', async () => {
  const { status, json } = await run('echo begin; head -c 20000000 /dev/zero; echo end; (echo begin; head -c 20000000 /dev/zero | tr "\\0" "\\33"; echo end) >&2')
  assert.deepEqual([status, json.exit_code, json.truncated], [200, 0, true])
  for (const text of [json.stdout, json.stderr]) {
    assert.ok(text.startsWith('begin\n') && text.endsWith('end\n'))
    assert.match(text, /\n\[\.\.\. \d+ bytes left out \.\.\.\]\n/)
    assert.ok(JSON.stringify(text).length > 20 << 20 && JSON.stringify(text).length < (24 << 20) + 100)
  }
})

/** A command whose answer is not read: resolves once its head is there.  In the end: destroy the socket. */
function unread(command) {
  const body = JSON.stringify({ command })
  const socket = net.connect(server.port, '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`POST /api/v1/agent${at()} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${server.key}\r\nContent-Length: ${body.length}\r\n\r\n${body}`)
  return new Promise((done) => socket.once('readable', () => done(socket)))
}

test('answers that are not read: their outputs hold a quarter of the memory for outputs at most, and others are served', async () => {
  const sockets = []
  for (let i = 0; i < 8; i++) sockets.push(await unread('head -c 8M /dev/zero')) // 24 MiB each, as JSON
  const rss = Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${role()}/status`, 'utf8'))[1])
  assert.ok(rss < 250 << 10, `${rss} KiB`)
  assert.equal((await run('echo still served')).json.stdout, 'still served\n')
  for (const socket of sockets) socket.destroy()
  await until('the memory is free again', async () => (await run('head -c 5000000 /dev/zero | tr "\\0" x')).json.stdout.length === 5_000_000)
})

test('a client that leaves leaves the command alone', async () => {
  const leave = new AbortController()
  const gone = run('echo begun; while [ ! -e /tmp/leave ]; do sleep 0.05; done; echo over >/tmp/over; echo ended', {}, { signal: leave.signal }).catch((e) => e.name)
  const found = await until('it runs', async () => (await ask('GET', at())).json.commands.find((c) => c.status === 'running' && /tmp.over/.test(c.command)))
  leave.abort()
  assert.equal(await gone, 'AbortError')
  await run('touch /tmp/leave')
  assert.equal((await ended(found.command_id)).stdout, 'begun\nended\n')
  assert.equal((await run('cat /tmp/over')).json.stdout, 'over\n')
})

test('kill -9 of the role: commands go on, nothing of their output is lost, and the next request is served', async () => {
  const { command_id } = await start('for i in $(seq 20); do echo $i; sleep 0.05; done')
  const waiting = run('touch /tmp/waits; while [ ! -e /tmp/go ]; do sleep 0.05; done; echo survived >/tmp/survived').then((a) => a.status, (e) => e.code)
  await until('it runs', async () => (await read(command_id)).stdout.length > 3)
  await until('the other one runs', async () => (await run('test -e /tmp/waits')).json.exit_code === 0)
  const old = role()
  process.kill(old, 'SIGKILL')
  assert.ok([503, 'ECONNRESET'].includes(await waiting))
  await until('the next request is served', async () => (await run('touch /tmp/go')).json.exit_code === 0)
  const last = await ended(command_id)
  assert.notEqual(role(), old)
  assert.equal(last.stdout, Array.from({ length: 20 }, (_, i) => `${i + 1}\n`).join(''))
  await until('the other one ended, too', async () => (await run('cat /tmp/survived')).json.stdout === 'survived\n')
})

test('a sandbox that is killed while a command runs: an error, not an answer', async () => {
  const { json: box } = await ask('POST', '/sandboxes', { template_id: 'base' })
  const running = ask('POST', `/sandboxes/${box.sandbox_id}/commands`, { command: 'echo x; sleep 100' })
  await until('it runs', async () => (await ask('GET', `/sandboxes/${box.sandbox_id}/commands`)).json.commands.length === 1)
  assert.equal((await ask('DELETE', `/sandboxes/${box.sandbox_id}`)).status, 204)
  isError(await running, 502, 'sandbox_lost', /killed/)
})

test('a sandbox that is deleted while a stream of a command is read, and two requests that delete it: the stream breaks, one of both is 204', async () => {
  const { json: box } = await ask('POST', '/sandboxes', { template_id: 'base' })
  const path = `/sandboxes/${box.sandbox_id}`
  const { command_id } = (await ask('POST', `${path}/commands`, { command: 'echo x; sleep 100', background: true })).json
  const heard = []
  const reading = (async () => {
    for await (const event of events(server, `${path}/commands/${command_id}?stream=1`)) heard.push(event)
  })().then(() => 'ended', () => 'broken')
  await until('its output', () => heard.some((e) => e.event === 'output'))
  const answers = await Promise.all([ask('DELETE', path), ask('DELETE', path), ask('POST', `${path}/pause`), ask('POST', `${path}/commands`, { command: 'sleep 100' })])
  assert.ok(answers.slice(0, 2).some((a) => a.status === 204))
  for (const a of answers) assert.ok([204, 404, 409, 502].includes(a.status), `${a.status} ${a.body}`)
  assert.equal(await reading, 'broken')
  assert.ok(heard.every((e) => e.event !== 'exit'))
  isError(await ask('GET', path), 404, 'not_found')
})

test('no interpreter in this template: 501', async () => {
  isError(await ask('POST', `/sandboxes/${id}/code`, { code: '1' }), 501, 'no_interpreter', /49999/)
  isError(await ask('POST', `/sandboxes/${id}/code`, {}), 400, 'invalid_request', /code/)
})

test('six hundred requests, and broken ones among them: the role has no more files open than the edges keep connections', async () => {
  await run('true')
  const count = () => [...openFiles(role())].length
  const keptAtMost = 60 // thirty requests at a time, through two edges or more
  const before = count()
  for (let round = 0; round < 20; round++)
    await Promise.all(Array.from({ length: 30 }, (_, i) => {
      if (i % 3 === 0) return run('true')
      if (i % 3 === 1) return ask('GET', at('/nothing'))
      const leave = new AbortController()
      setTimeout(() => leave.abort(), 1)
      return run('sleep 0.05', {}, { signal: leave.signal }).catch(() => {})
    }))
  await until(() => `${before} open files, now ${count()}`, () => count() <= before + keptAtMost)
})

test('another team sees nothing of all this', async () => {
  for (const path of ['', '/1']) isError(await ask('GET', at(path), undefined, { token: otherKey }), 404, 'not_found')
})
