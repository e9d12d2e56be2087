// Every row of the agent API about files.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'
import { after, before, test } from 'node:test'

import { call, startWithTwoTeams } from '../lib/agent_api.mjs'
import { temporaryDir } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

let server, otherKey, id
before(async () => {
  ;({ server, otherKey } = await startWithTwoTeams())
  id = (await call(server, 'POST', '/sandboxes', { template_id: 'base' })).json.sandbox_id
})
after(() => server.cleanUp())

const ask = (...args) => call(server, ...args)
const at = (rest = '') => `/sandboxes/${id}/files${rest}`
const raw = { Accept: 'application/octet-stream' }
const run = async (command) => (await ask('POST', `/sandboxes/${id}/commands`, { command })).json.stdout

function isError(answer, status, code, words = /./) {
  assert.equal(answer.status, status, answer.body.slice(0, 500)) // may be an archive
  assert.equal(answer.json.error.code, code, answer.body)
  assert.match(answer.json.error.message, words)
}

test('text, bytes, and text that is no UTF-8', async () => {
  assert.equal((await ask('POST', at(), { path: '/workspace/new/dir/a.txt', content: 'héllo\0\n' })).status, 201)
  assert.deepEqual((await ask('GET', at('?path=/workspace/new/dir/a.txt'))).json, { path: '/workspace/new/dir/a.txt', encoding: 'base64', content: Buffer.from('héllo\0\n').toString('base64') }) // a NUL: no text
  assert.equal((await ask('POST', at(), { path: 'text', content: 'héllo\n' })).status, 201)
  assert.deepEqual((await ask('GET', at('?path=text'))).json, { path: 'text', content: 'héllo\n' })
  const bytes = await ask('GET', at('?path=/workspace/new/dir/a.txt'), undefined, { headers: { Accept: 'text/plain' } })
  assert.deepEqual([bytes.headers['content-type'], bytes.body], ['application/octet-stream', 'héllo\0\n'])
  assert.equal((await ask('POST', at(), { path: 'bin', content: 'AP8=', encoding: 'base64' })).json.path, '/home/user/bin')
  assert.deepEqual((await ask('GET', at('?path=bin'))).json, { path: 'bin', encoding: 'base64', content: 'AP8=' })
  assert.equal((await ask('POST', at(), { path: '/tmp/empty', content: '' })).status, 201)
  assert.deepEqual((await ask('GET', at('?path=/tmp/empty'))).json, { path: '/tmp/empty', content: '' })
  assert.equal((await ask('POST', at(), { path: 'roots', content: 'x', user: 'root' })).json.path, '/root/roots')
  assert.equal(await run('stat -c %U /workspace/new/dir/a.txt; sudo stat -c %U /root/roots'), 'user\nroot\n')
})

test('refuses what is wrong, and names the field', async () => {
  for (const [body, words] of [['{', /line 1/], [{}, /path/], [{ path: '/x' }, /content/], [{ path: '', content: '' }, /path/], [{ path: '/a\0b', content: '' }, /path/], [{ path: '/x', content: {} }, /content/], [{ path: '/x', content: '*', encoding: 'base64' }, /content/], [{ path: '/x', content: '', encoding: 'utf-16' }, /encoding/]])
    isError(await ask('POST', at(), body), 400, 'invalid_request', words)
  isError(await ask('GET', at()), 400, 'invalid_request', /path/)
  isError(await ask('GET', at('?path=%zz')), 400, 'invalid_request', /path/)
  for (const path of ['%ff', 'a%00b', '', `${'x/'.repeat(9000)}`, '%2F%2E%2E%2F%ED%A0%80'])
    for (const [method, where] of [['GET', ''], ['PUT', ''], ['DELETE', ''], ['GET', '/stat'], ['GET', '/list'], ['GET', '/archive'], ['PUT', '/archive']])
      isError(await ask(method, at(`${where}?path=${path}`), method === 'PUT' ? 'x' : undefined), 400, 'invalid_request', /path/i)
  for (const [where, body] of [['/rename', { from: 5, to: '/a' }], ['/rename', { from: '/a', to: '' }], ['/rename', { from: '/a\0', to: '/b' }], ['/mkdir', {}], ['/mkdir', { path: ['/a'] }], ['/mkdir', '[]'], ['/mkdir', '']]) isError(await ask('POST', at(where), body), 400, 'invalid_request')
  for (const depth of ['-1', '65', '1e9', '99999999999999999999', 'x']) isError(await ask('GET', at(`/list?path=/tmp&depth=${depth}`)), 400, 'invalid_request', /depth/)
  assert.equal((await ask('GET', at('/stat?path=/tmp/../../../etc/passwd'))).json.name, 'passwd')
  isError(await ask('GET', at('?path=/tmp')), 400, 'invalid_request', /directory/)
  for (const headers of [{}, raw]) isError(await ask('GET', at('?path=/nothing'), undefined, { headers }), 404, 'not_found', /nothing/)
  isError(await ask('PATCH', at('?path=/x')), 405, 'method_not_allowed')
  isError(await ask('POST', at(), Buffer.alloc(33 << 20, 32)), 413, 'too_large')
})

test('a user that the sandbox does not have is a wrong field, not a wrong token', async () => {
  const user = 'user=nobody-here'
  const rows = [['GET', `?path=x&${user}`], ['GET', `?path=x&${user}`, undefined, raw], ['PUT', `?path=x&${user}`, 'x'], ['DELETE', `?path=x&${user}`], ['GET', `/list?path=/tmp&${user}`], ['GET', `/stat?path=/tmp&${user}`], ['GET', `/archive?path=/tmp&${user}`], ['PUT', `/archive?path=/tmp&${user}`, Buffer.alloc(1024)], ['POST', `/rename?${user}`, { from: '/tmp/a', to: '/tmp/b' }], ['POST', `/mkdir?${user}`, { path: '/tmp/a' }], ['POST', '', { path: 'x', content: '', user: 'nobody-here' }], ['POST', '/mkdir', { path: '/tmp/a', user: 'nobody-here' }]]
  for (const [method, path, body, headers] of rows) isError(await ask(method, at(path), body, { headers }), 400, 'invalid_request', /nobody-here/)
  for (const name of ['', 'a%3Ab', 'a%00b']) isError(await ask('GET', at(`/stat?path=/tmp&user=${name}`)), 400, 'invalid_request', /user/)
  for (const name of ['', 'a:b', 'a\0b', 5]) isError(await ask('POST', at(), { path: 'x', content: '', user: name }), 400, 'invalid_request', /user/)
})

test('the user that is named owns what is made, and relative paths begin in his home', async () => {
  assert.equal((await ask('POST', at('/mkdir?user=root'), { path: 'made/here' })).json.path, '/root/made/here')
  assert.equal((await ask('POST', at('/mkdir'), { path: 'other', user: 'root' })).json.path, '/root/other')
  assert.equal((await ask('POST', at('?user=root'), { path: 'made/file', content: 'x' })).json.path, '/root/made/file')
  assert.equal((await ask('POST', at('/rename?user=root'), { from: 'made/file', to: 'moved/file' })).json.path, '/root/moved/file')
  assert.equal(await run('sudo stat -c %U /root/made/here /root/moved /root/moved/file'), 'root\nroot\nroot\n')
  assert.equal((await ask('GET', at('/archive?path=/root/moved&user=root'))).status, 200)
})

/** The answer to the head of a request whose body, of as many bytes as it likes, does not come; and its end. */
function withoutItsBody(path, token) {
  const socket = net.connect(server.port, '127.0.0.1')
  const answer = new Promise((done, fail) => {
    let text = ''
    socket.on('error', fail)
    socket.on('data', (piece) => {
      text += piece
      if (text.includes('\r\n\r\n')) done(Number(text.split(' ')[1]))
    })
  })
  answer.catch(() => {})
  socket.write(`POST /api/v1/agent${path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\nTransfer-Encoding: chunked\r\n\r\n`)
  return { answer, socket }
}

test('no memory is kept for a body whose token is not valid, and not all of it for one token', async () => {
  const path = `/sandboxes/${id}/files`
  const strangers = Array.from({ length: 12 }, () => withoutItsBody(path, 'e2b_' + 'f'.repeat(40)))
  for (const { answer } of strangers) assert.equal(await answer, 401)
  const large = { path: '/tmp/large', content: 'x'.repeat(1 << 20) }
  assert.equal((await ask('POST', at(), large)).status, 201)
  const greedy = Array.from({ length: 5 }, () => withoutItsBody(path, server.key)) // four times 32 MiB are half of it
  assert.equal(await Promise.race(greedy.map((g) => g.answer)), 503)
  const other = await ask('POST', at(), large, { token: otherKey })
  isError(other, 404, 'not_found') // read, and looked at
  for (const { socket } of [...strangers, ...greedy]) socket.destroy()
  await until('its share is free again', async () => (await ask('POST', at(), large)).status === 201)
})

test('a hundred megabytes as bytes, both ways; not as JSON', async () => {
  const bytes = randomBytes(100 << 20)
  assert.equal((await ask('PUT', at('?path=/tmp/big'), bytes)).status, 201)
  const back = await ask('GET', at('?path=/tmp/big'), undefined, { headers: raw })
  assert.ok(back.bytes.equals(bytes))
  isError(await ask('GET', at('?path=/tmp/big')), 413, 'too_large', /octet-stream/)
  assert.equal((await ask('DELETE', at('?path=/tmp/big'))).status, 204)
  const hwm = Number(/^VmHWM:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${server.roles().agent[0]}/status`, 'utf8'))[1])
  assert.ok(hwm < 120 << 10, `${hwm} KiB`)
})

test('zeros come whole, and what would be too large in JSON is refused before the answer begins', async () => {
  await run('head -c 12000000 /dev/zero >/tmp/zeros; head -c 12000000 /dev/zero | tr "\\0" "\\1" >/tmp/ones')
  const { status, json } = await ask('GET', at('?path=/tmp/zeros'))
  assert.deepEqual([status, json.encoding], [200, 'base64'])
  assert.ok(Buffer.from(json.content, 'base64').equals(Buffer.alloc(12_000_000)))
  isError(await ask('GET', at('?path=/tmp/ones')), 413, 'too_large', /octet-stream/)
  assert.equal((await ask('GET', at('?path=/tmp/ones'), undefined, { headers: raw })).bytes.length, 12_000_000)
})

test('stat, list, rename, directories, delete', async () => {
  await run('mkdir -p /tmp/d/sub && echo 1 >/tmp/d/one && echo 22 >/tmp/d/sub/two && ln -s one /tmp/d/link && chmod 600 /tmp/d/one')
  const { json: one } = await ask('GET', at('/stat?path=/tmp/d/one'))
  assert.deepEqual([one.name, one.path, one.type, one.size, one.mode, one.owner], ['one', '/tmp/d/one', 'file', 2, 0o600, 'user'])
  assert.ok(Date.parse(one.modified_at) > 0)
  const names = async (query) => (await ask('GET', at(`/list?path=/tmp/d${query}`))).json.entries.map((e) => `${e.path} ${e.type}`)
  assert.deepEqual(await names(''), ['/tmp/d/link file', '/tmp/d/one file', '/tmp/d/sub directory'])
  assert.deepEqual((await names('&depth=2')).at(-1), '/tmp/d/sub/two file')
  isError(await ask('GET', at('/list?path=/tmp/d&depth=0')), 400, 'invalid_request', /depth/)
  isError(await ask('GET', at('/list?path=/tmp/d/one')), 400, 'invalid_request')
  assert.equal((await ask('POST', at('/rename'), { from: '/tmp/d/one', to: '/tmp/d/x/1' })).json.path, '/tmp/d/x/1')
  isError(await ask('POST', at('/rename'), { from: '/tmp/d/one', to: '/tmp/y' }), 404, 'not_found')
  isError(await ask('POST', at('/rename'), { from: '/tmp/d' }), 400, 'invalid_request', /to/)
  assert.equal((await ask('POST', at('/mkdir'), { path: '/tmp/d/new/er' })).status, 201)
  isError(await ask('POST', at('/mkdir'), { path: '/tmp/d/new/er' }), 409, 'conflict')
  assert.equal((await ask('DELETE', at('?path=/tmp/d'))).status, 204)
  isError(await ask('DELETE', at('?path=/tmp/d')), 404, 'not_found')
  isError(await ask('GET', at('/stat?path=/tmp/d')), 404, 'not_found')
})

test('what the file system of the sandbox refuses is a conflict, not a fault of the server', async () => {
  await run('mkdir -p /tmp/r/dir/full && echo 1 >/tmp/r/file && ln -s loop /tmp/r/loop && mkfifo /tmp/r/fifo')
  for (const [method, path, body] of [['POST', '/rename', { from: '/tmp/r/dir', to: '/tmp/r/file' }], ['POST', '/rename', { from: '/tmp/r/file', to: '/tmp/r/dir' }], ['POST', '/rename', { from: '/', to: '/tmp/r/x' }], ['POST', '/mkdir', { path: '/tmp/r/file/x' }], ['POST', '', { path: '/tmp/r/file/x', content: '' }], ['PUT', '?path=/tmp/r/loop', 'x'], ['PUT', '?path=/tmp/r/fifo', 'x'], ['GET', '?path=/tmp/r/loop'], ['GET', '/stat?path=/tmp/r/file/x'], ['DELETE', '?path=/proc/1'], ['GET', '/archive?path=/proc/kmsg']])
    isError(await ask(method, at(path), body), 409, 'conflict', /./)
  isError(await ask('GET', at('?path=/tmp/r/fifo')), 400, 'invalid_request') // and no wait for a writer
  assert.equal(await run('ls /tmp/r /tmp/r/dir'), '/tmp/r:\ndir\nfifo\nfile\nloop\n\n/tmp/r/dir:\nfull\n')
})

test('a directory as an archive, there and back; damaged archives and names that lead out are refused', async () => {
  await run('mkdir -p /tmp/tree/sub && head -c 5000000 /dev/urandom >/tmp/tree/sub/data && echo text >/tmp/tree/text && ln -s text /tmp/tree/link')
  const archive = await ask('GET', at('/archive?path=/tmp/tree'))
  assert.equal(archive.headers['content-type'], 'application/x-tar')
  const dir = temporaryDir('archive')
  fs.writeFileSync(path.join(dir, 'a.tar'), archive.bytes)
  assert.equal(spawnSync('tar', ['-C', dir, '-xf', path.join(dir, 'a.tar')]).status, 0)
  assert.equal(fs.readFileSync(path.join(dir, 'tree/text'), 'utf8'), 'text\n')
  for (const [how, name] of [['', 'plain'], ['-z', 'gzip'], ['--zstd', 'zstd']]) {
    const made = spawnSync('tar', ['-C', dir, '-c', ...(how ? [how] : []), 'tree'], { maxBuffer: 1 << 28 })
    if (made.status !== 0) continue // this machine has no zstd
    const put = await ask('PUT', at(`/archive?path=/tmp/back/${name}`), made.stdout)
    assert.equal(put.status, 201, put.body)
    assert.equal(await run(`diff -r /tmp/tree /tmp/back/${name}/tree && stat -c %U /tmp/back/${name}/tree/text`), 'user\n')
  }
  isError(await ask('PUT', at('/archive?path=/tmp/back'), 'this is no archive'.repeat(100)), 400, 'invalid_request')
  isError(await ask('PUT', at('/archive?path=/tmp/back'), archive.bytes.subarray(0, 700_000)), 400, 'invalid_request')
  fs.writeFileSync(path.join(dir, 'outside'), 'x')
  const outside = spawnSync('tar', ['-C', path.join(dir, 'tree'), '-cP', '../outside'])
  const answer = await ask('PUT', at('/archive?path=/tmp/back/deep'), outside.stdout)
  assert.equal(answer.status, 400, answer.body)
  isError(await ask('GET', at('/archive?path=relative')), 400, 'invalid_request', /absolute/)
  isError(await ask('GET', at('/archive?path=/nothing')), 404, 'not_found')
  for (const pattern of ['/tmp/tre*', '/tmp/tree/*', '/tmp/tree/tex?', '/tmp/[t]ree/text']) isError(await ask('GET', at(`/archive?path=${encodeURIComponent(pattern)}`)), 404, 'not_found')
  await run("echo odd >'/tmp/tree/te[x]t*'")
  const odd = await ask('GET', at(`/archive?path=${encodeURIComponent('/tmp/tree/te[x]t*')}`))
  assert.deepEqual(spawnSync('tar', ['-t'], { input: odd.bytes, encoding: 'utf8' }).stdout.split('\n').length, 2)
  fs.rmSync(dir, { recursive: true })
})

test('the archive calls of the daemon stay closed to everybody else', async () => {
  const answer = await fetch(`${server.apiUrl}/sandglass/archive?path=/etc`, { headers: { 'E2b-Sandbox-Id': id, 'E2b-Sandbox-Port': '49983' } })
  assert.equal(answer.status, 404)
})

test('a client that leaves in the middle of an upload or a download', async () => {
  const bytes = Buffer.alloc(50 << 20, 97)
  for (let i = 0; i < 5; i++) {
    const leave = new AbortController()
    setTimeout(() => leave.abort(), 5)
    await ask('PUT', at('?path=/tmp/half'), bytes, { signal: leave.signal }).catch(() => {})
    const again = new AbortController()
    const download = await fetch(`${server.apiUrl}/api/v1/agent${at('?path=/usr/bin/python3')}`, { headers: { Authorization: `Bearer ${server.key}`, ...raw }, signal: again.signal })
    again.abort()
    await download.body.cancel().catch(() => {})
  }
  assert.equal(await run('echo still here'), 'still here\n')
})
