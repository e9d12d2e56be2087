// Requests no client would send, to every call: the answer is an error that names the mistake, and the daemon goes on.
//
// The daemon may be root on this machine: what changes files is only ever asked for below envd.dir.
import { execFileSync } from 'node:child_process'
import net from 'node:net'
import { assert, envd, envelope, fails, files, fs, isRoot, main, path, proc, raw, refuses, request, run, start, Stream, succeeds, test } from './lib.mjs'

const at = (...names) => path.join(envd.dir, ...names)
const json = { 'content-type': 'application/json' }
const streamed = { 'content-type': 'application/connect+json' }
const octets = { 'content-type': 'application/octet-stream' }
const q = (p) => `/files?path=${encodeURIComponent(p)}`
const get = (p, headers) => request('GET', q(p), { headers })
const put = (p, body = 'x') => request('POST', q(p), { headers: octets, body })
const post = (target, headers, body) => request('POST', `/${target}`, { headers, body })
const end = async (target, body, headers) => (await new Stream(target, undefined, headers, body).whole()).end

const unary = ['process.Process/List', 'process.Process/Update', 'process.Process/SendInput', 'process.Process/SendSignal', 'process.Process/CloseStdin',
  ...['Stat', 'MakeDir', 'Move', 'ListDir', 'Remove', 'CreateWatcher', 'GetWatcherEvents', 'RemoveWatcher'].map((name) => `filesystem.Filesystem/${name}`)]
const streams = ['process.Process/Start', 'process.Process/Connect', 'process.Process/StreamInput', 'filesystem.Filesystem/WatchDir']

test('content types: every call takes its own and refuses the others', async () => {
  for (const target of unary)
    for (const type of ['text/plain', 'application/connect+json', 'application/proto', 'application/grpc', 'multipart/form-data; boundary=x', ''])
      assert.deepEqual(((rs) => [rs.status, rs.headers['accept-post'], rs.text])(await post(target, { 'content-type': type }, '{}')), [415, 'application/json', ''], `${target} ${type}`)
  for (const target of streams)
    for (const type of ['application/json', 'application/connect+proto', 'application/grpc-web+json', ''])
      assert.deepEqual(((rs) => [rs.status, rs.headers['accept-post']])(await post(target, { 'content-type': type }, envelope({}))), [415, 'application/connect+json'], `${target} ${type}`)
})

test('messages that are none: refused by every call', async () => {
  for (const bad of ['', '{', '[]', '"text"', '7', 'null', '{"a":1}}', '{"path":"\\ud800"}', '{"path":"\\u0000"}', '{"a":1,"a":2}', '\xff\xfe', '{"path":"\xff"}', '['.repeat(5000)]) {
    const body = Buffer.from(bad, 'latin1')
    for (const target of unary) await fails(post(target, json, body), 400, 'invalid_argument', /^(unmarshal message|zero-length)/)
    for (const target of streams) {
      const { error } = await end(target, envelope(body))
      assert.deepEqual([error.code, /^(unmarshal message|zero-length)/.test(error.message)], ['invalid_argument', true], `${target} ${bad}`)
    }
  }
})

test('envelopes: truncated, oversized, compressed, with unknown flags, too many', async () => {
  for (const target of streams) {
    const code = async (body, headers) => (await end(target, body, headers)).error?.code
    const many = target.endsWith('StreamInput') // the one that takes several messages
    for (const n of [1, 4, 5, 6]) assert.equal(await code(envelope('{"a":1}').subarray(0, n)), 'invalid_argument', `${target}: ${n} bytes`)
    assert.equal(await code(Buffer.from([0, 0xff, 0xff, 0xff, 0xff, 1])), 'resource_exhausted', target)
    assert.equal(await code(Buffer.from([0, 0x02, 0, 0, 1, 1])), 'resource_exhausted', `${target}: one byte over`)
    assert.equal(await code(envelope({}, 1)), 'internal', target)
    for (const flags of [2, 4, 0x80, 0xff]) assert.equal(await code(envelope({}, flags)), 'invalid_argument', `${target}: ${flags}`)
    if (!many) assert.equal(await code(Buffer.alloc(0)), 'unimplemented', target)
    if (!many) assert.equal(await code(Buffer.concat([envelope({}), envelope({})])), 'unimplemented', target)
    for (const encoding of ['gzip', 'br', 'x']) assert.equal(await code(envelope({}), { 'connect-content-encoding': encoding }), 'unimplemented', target)
  }
  for (const target of unary) await fails(post(target, { ...json, 'content-encoding': 'gzip' }, '{}'), 501, 'unimplemented', /compression "gzip"/)
})

test('bodies that are too large: refused by length before they are read, and when they turn out to be', async () => {
  for (const target of [...unary, ...streams.filter((t) => !t.endsWith('StreamInput'))]) {
    const type = unary.includes(target) ? json : streamed
    const head = (length) => `POST /${target} HTTP/1.1\r\nHost: x\r\nContent-Type: ${type['content-type']}\r\n${length}\r\n\r\n`
    assert.match(await raw(head('Content-Length: 99999999999'), (text) => text.includes('\r\n\r\n')), /^HTTP\/1\.1 413 /, target)
  }
  const chunk = Buffer.alloc(1 << 20, ' ')
  async function* endless() { for (let i = 0; i < 34; i++) yield chunk }
  const { Readable } = await import('node:stream')
  const rs = await request('POST', '/filesystem.Filesystem/Stat', { headers: { ...json, 'transfer-encoding': 'chunked' }, body: Readable.from(endless()) }).catch((e) => e)
  assert.ok(rs.status === 413 || ['ECONNRESET', 'EPIPE'].includes(rs.code), String(rs.status ?? rs))
})

test('fields of the wrong type: named by every call', async () => {
  const wrong = { text: [5, true, {}, []], number: ['x', -1, 1.5, 4294967296, 1e300, {}, [], true], bool: ['true', 1, {}, []], object: [5, 'x', [], true] }
  const cases = [
    ...['Update', 'SendInput', 'SendSignal', 'CloseStdin', 'Connect'].flatMap((name) => [
      [`process.Process/${name}`, 'process', wrong.object, (v) => ({ process: v })],
      [`process.Process/${name}`, 'pid', wrong.number, (v) => ({ process: { pid: v } })],
      [`process.Process/${name}`, 'tag', wrong.text, (v) => ({ process: { tag: v } })]]),
    ['process.Process/Start', 'process', wrong.object, (v) => ({ process: v })],
    ...['cmd', 'cwd'].map((field) => ['process.Process/Start', field, wrong.text, (v) => ({ process: { cmd: 'true', [field]: v } })]),
    ['process.Process/Start', 'args', [5, 'x', {}, [5], [null], [['x']]], (v) => ({ process: { cmd: 'true', args: v } })],
    ['process.Process/Start', 'envs', [5, 'x', [], { A: 5 }, { A: null }, { A: {} }], (v) => ({ process: { cmd: 'true', envs: v } })],
    ['process.Process/Start', 'tag', wrong.text, (v) => ({ process: { cmd: 'true' }, tag: v })],
    ['process.Process/Start', 'stdin', wrong.bool, (v) => ({ process: { cmd: 'true' }, stdin: v })],
    ['process.Process/Start', 'pty', wrong.object, (v) => ({ process: { cmd: 'true' }, pty: v })],
    ['process.Process/Start', 'size', wrong.object, (v) => ({ process: { cmd: 'true' }, pty: { size: v } })],
    ...['cols', 'rows'].map((field) => ['process.Process/Start', field, wrong.number, (v) => ({ process: { cmd: 'true' }, pty: { size: { [field]: v } } })]),
    ...['Stat', 'MakeDir', 'ListDir', 'Remove', 'CreateWatcher', 'WatchDir'].map((name) => [`filesystem.Filesystem/${name}`, 'path', wrong.text, (v) => ({ path: v })]),
    ['filesystem.Filesystem/ListDir', 'depth', wrong.number, (v) => ({ path: envd.dir, depth: v })],
    ...['source', 'destination'].map((field) => ['filesystem.Filesystem/Move', field, wrong.text, (v) => ({ source: at('none'), destination: at('none'), [field]: v })]),
    ...['CreateWatcher', 'WatchDir'].flatMap((name) => ['recursive', 'includeEntry', 'allowNetworkMounts'].map((field) => [`filesystem.Filesystem/${name}`, field, wrong.bool, (v) => ({ path: envd.dir, [field]: v })])),
    ...['GetWatcherEvents', 'RemoveWatcher'].map((name) => [`filesystem.Filesystem/${name}`, 'watcherId', wrong.text, (v) => ({ watcherId: v })]),
  ]
  for (const [target, field, values, message] of cases)
    for (const value of values) {
      const text = JSON.stringify(message(value))
      const error = unary.includes(target) ? (await post(target, json, text)).json : (await end(target, envelope(text))).error
      assert.equal(error?.code, 'invalid_argument', `${target} ${text}: ${JSON.stringify(error)}`)
      assert.match(error.message, new RegExp(`field ${field}: `), `${target} ${text}`)
    }
  const s = start({ cmd: 'cat' })
  const pid = await s.pid()
  for (const [name, field, values, message] of [
    ['SendInput', 'input', wrong.object, (v) => ({ input: v })], ['SendInput', 'stdin', [5, {}, '!', 'a', 'YQ==='], (v) => ({ input: { stdin: v } })],
    ['SendInput', 'pty', [5, '%%'], (v) => ({ input: { pty: v } })], ['SendInput', 'input', [{ stdin: 'YQ==', pty: 'YQ==' }], (v) => ({ input: v })],
    ['SendSignal', 'signal', ['SIGNAL_X', 'SIGKILL', '9', {}, [], 1.5], (v) => ({ signal: v })], ['Update', 'pty', wrong.object, (v) => ({ pty: v })],
    ['Update', 'cols', wrong.number, (v) => ({ pty: { size: { cols: v } } })],
  ])
    for (const value of values) await fails(proc(name, { process: { pid }, ...message(value) }), 400, 'invalid_argument', new RegExp(`field ${field}: `))
  assert.deepEqual((await succeeds(proc('List', {}))).processes.map((p) => p.pid), [pid], 'nothing was started, and it still runs')
  await succeeds(proc('CloseStdin', { process: { pid } }))
  await s.whole()
  assert.equal(String(s.output()), '', 'nothing was written to it')
})

test('fields that are missing, and values that are unknown', async () => {
  for (const name of ['Update', 'SendInput', 'SendSignal', 'CloseStdin'])
    for (const message of [{}, { process: {} }, { process: null }]) await fails(proc(name, message), 501, 'unimplemented')
  for (const message of [{}, { process: {} }]) assert.equal((await end('process.Process/Connect', envelope(message))).error.code, 'unimplemented')
  assert.equal((await start({}).whole()).last.exitCode, 127, 'a command without a name is not found')
  for (const name of ['GetWatcherEvents', 'RemoveWatcher']) await fails(files(name, {}), 404, 'not_found', 'watcher with id  not found')
  const s = start({ cmd: 'sleep', args: ['100'] })
  const process = { pid: await s.pid() }
  await fails(proc('SendSignal', { process }), 501, 'unimplemented', 'invalid signal: SIGNAL_UNSPECIFIED')
  for (const signal of [1, 2, 99]) await fails(proc('SendSignal', { process, signal }), 501, 'unimplemented', `invalid signal: ${signal}`)
  for (const message of [{}, { input: {} }, { input: null }]) await fails(proc('SendInput', { process, ...message }), 501, 'unimplemented', 'invalid input type <nil>')
  await fails(proc('SendSignal', { process: { ...process, tag: 'x' }, signal: 9 }), 400, 'invalid_argument', /only one of pid and tag/)
  await succeeds(proc('Update', { process }))
  await succeeds(proc('SendSignal', { process, signal: 9 }))
  assert.equal((await s.whole()).last.status, 'signal: killed')
})

test('a NUL in a path, a command or a variable: refused', async () => {
  for (const [name, fields] of [['Stat', ['path']], ['MakeDir', ['path']], ['Remove', ['path']], ['ListDir', ['path']], ['Move', ['source', 'destination']], ['CreateWatcher', ['path']]])
    for (const field of fields) await fails(files(name, { source: at('none'), destination: at('none'), [field]: at('a\0b') }), 400, 'invalid_argument')
  for (const config of [{ cmd: 'a\0b' }, { cmd: 'true', args: ['a\0b'] }, { cmd: 'true', cwd: '/\0' }, { cmd: 'true', envs: { A: '\0' } }, { cmd: 'true', envs: { 'A\0': '' } }])
    assert.equal((await start(config).whole()).end.error.code, 'invalid_argument')
  for (const where of ['path=%2Ftmp%2F%00x', 'path=/tmp/x&username=ro%00ot', 'path=x&signature=%00'])
    for (const method of ['GET', 'POST']) await refuses(request(method, `/files?${where}`, { headers: octets, body: method === 'POST' ? 'x' : undefined }), 400, /a NUL byte/)
  const form = `--b\r\nContent-Disposition: form-data; name="file"; filename="${at('a')}\0b"\r\n\r\nx\r\n--b--\r\n`
  await refuses(request('POST', '/files', { headers: { 'content-type': 'multipart/form-data; boundary=b' }, body: form }), 500, /^error parsing multipart form: control character/)
  assert.deepEqual(fs.readdirSync(envd.dir).filter((name) => name.startsWith('a')), [])
})

test('names that are no UTF-8: files have them byte for byte, messages cannot', async () => {
  const escaped = `/files?path=${encodeURIComponent(envd.dir)}/odd-%ff%c3%28`
  const rs = await request('POST', escaped, { headers: octets, body: 'odd' })
  assert.deepEqual([rs.status, rs.json[0].name], [200, 'odd-\ufffd\ufffd('])
  assert.equal(fs.readFileSync(Buffer.concat([Buffer.from(at('odd-')), Buffer.from([0xff, 0xc3, 0x28])]), 'utf8'), 'odd')
  const back = await request('GET', escaped)
  assert.deepEqual([back.text, back.headers['content-disposition']], ['odd', "inline; filename*=utf-8''odd-%FF%C3%28"])
  await fails(post('filesystem.Filesystem/Stat', json, Buffer.concat([Buffer.from('{"path":"/'), Buffer.from([0xff]), Buffer.from('"}')])), 400, 'invalid_argument')
  await refuses(request('GET', `/files?path=${encodeURIComponent(envd.dir)}/%c3%28`), 404, `path '${envd.dir}/\ufffd(' does not exist`)
  execFileSync('sh', ['-c', `rm ${at('odd-')}*`])
})

test('links that lead in a circle, or through hundreds of others', async () => {
  fs.symlinkSync('circle', at('circle'))
  fs.mkdirSync(at('chain'))
  fs.writeFileSync(at('chain/0'), 'end')
  for (let i = 1; i <= 60; i++) fs.symlinkSync(`${i - 1}`, at(`chain/${i}`))
  const many = /too many levels of symbolic links/
  for (const p of [at('circle'), at('circle/below'), at('chain/60')]) {
    await refuses(get(p), 500, many)
    await refuses(put(p), 500, many)
    await fails(files('CreateWatcher', { path: p }), 500, 'internal', many)
    assert.match((await end('filesystem.Filesystem/WatchDir', envelope({ path: p }))).error.message, many)
    await fails(files('ListDir', { path: p }), 400, 'failed_precondition', `cyclic symlink or chain >255 links at "${p}"`)
    assert.match((await start({ cmd: 'true', cwd: p }).whole()).end.error.message, many)
  }
  const entry = (await succeeds(files('Stat', { path: at('circle') }))).entry
  assert.deepEqual([entry.type, entry.symlinkTarget, entry.mode], [undefined, at('circle'), undefined])
  for (const name of ['Stat', 'MakeDir', 'Remove']) await fails(files(name, { path: at('circle/below') }), 500, 'internal', many)
  fs.symlinkSync('.', at('chain/self'))
  const listed = (await succeeds(files('ListDir', { path: at('chain'), depth: 1000 }))).entries
  assert.equal(listed.length, 62, 'a link to its own directory is listed, not entered')
  await succeeds(files('Remove', { path: at('chain') }))
  await succeeds(files('Remove', { path: at('circle') }))
})

test('FIFOs, sockets and devices: refused or written at once, never waited for', async () => {
  execFileSync('mkfifo', [at('fifo')])
  fs.symlinkSync('fifo', at('to-fifo'))
  const server = net.createServer().listen(at('socket'))
  await new Promise((done) => server.once('listening', done))
  for (const p of [at('fifo'), at('to-fifo'), at('socket'), '/dev/zero', '/dev/tty', '/dev/random', '/proc/self/fd/0']) {
    await refuses(get(p), 400, `path '${p}' is not a regular file`)
    await refuses(get(p, { 'accept-encoding': 'gzip' }), 400)
    await fails(files('ListDir', { path: p }), 400, 'invalid_argument', `path is not a directory: ${p}`)
    await fails(files('CreateWatcher', { path: p }), 400, 'invalid_argument')
  }
  for (const p of [at('fifo'), at('to-fifo'), at('socket')]) {
    assert.equal((await succeeds(files('Stat', { path: p }))).entry.type, undefined)
    await refuses(put(p), 500, /^error opening file: open .*: no such device or address$/)
    await fails(files('MakeDir', { path: p }), 400, 'invalid_argument', `path already exists but it is not a directory: ${p}`)
    await refuses(request('POST', '/files/compose', { headers: json, body: JSON.stringify({ source_paths: [p], destination: at('joined') }) }), 400, `source path is not a regular file: ${p}`)
  }
  const reader = fs.openSync(at('fifo'), fs.constants.O_RDWR | fs.constants.O_NONBLOCK) // also with somebody there to read
  await refuses(put(at('fifo'), Buffer.alloc(1 << 20)), 500)
  fs.closeSync(reader)
  await refuses(put('/dev/full', 'much'), 507, 'attempted to write 4 bytes: not enough disk space available')
  await new Promise((done) => server.close(done))
  await succeeds(files('Remove', { path: at('fifo') }))
  assert.equal(fs.existsSync(at('joined')), false)
})

test('files of the kernel: whole if they end, refused if they cannot be read, streamed if they are endless', async () => {
  const status = await get(`/proc/${envd.pid}/status`)
  assert.match(status.text, /^Name:\t/)
  assert.equal((await succeeds(files('Stat', { path: `/proc/${envd.pid}/status` }))).entry.type, 'FILE_TYPE_FILE')
  await refuses(get('/proc/self/mem'), 500, "error reading file '/proc/self/mem': input/output error")
  await refuses(get('/proc/no-such-thing'), 404)
  await refuses(get('/proc/self/task'), 400, "path '/proc/self/task' is a directory")
  await refuses(get(`/proc/${(await run('true')).pid}/status`), 404)
  // hundreds of gigabytes: the client takes a little and leaves
  let n = 0
  await request('GET', q('/proc/self/pagemap'), { onResponse: (rs, rq) => rs.on('data', (piece) => (n += piece.length) > 4_000_000 && rq.destroy()) }).catch(() => {})
  assert.ok(n > 4_000_000)
  assert.equal((await run('echo still there')).stdout, 'still there\n')
})

test('a directory where a file is expected, and the other way round', async () => {
  fs.mkdirSync(at('dir/below'), { recursive: true })
  fs.writeFileSync(at('file'), 'x')
  await refuses(get(at('dir')), 400, `path '${at('dir')}' is a directory`)
  await refuses(get(at('dir/')), 400)
  await refuses(put(at('dir')), 400, `path is a directory: ${at('dir')}`)
  await refuses(get(at('file/below')), 404)
  await refuses(put(at('file/below')), 500, `error ensuring directories: path is a file: ${at('file')}`)
  await fails(files('ListDir', { path: at('file') }), 400, 'invalid_argument')
  await fails(files('MakeDir', { path: at('file') }), 400, 'invalid_argument')
  await fails(files('MakeDir', { path: at('file/below') }), 500, 'internal')
  await fails(files('Stat', { path: at('file/below') }), 500, 'internal', /not a directory/)
  await fails(files('Move', { source: at('file'), destination: at('dir') }), 500, 'internal', /^error renaming: /)
  await fails(files('Move', { source: at('dir'), destination: at('dir/below/again') }), 500, 'internal', /^error renaming: /)
  await fails(files('Move', { source: at('dir'), destination: at('file/below') }), 500, 'internal')
  assert.match((await start({ cmd: 'true', cwd: at('file') }).whole()).end.error.message, /not a directory/)
  assert.deepEqual([fs.readFileSync(at('file'), 'utf8'), fs.readdirSync(at('dir'))], ['x', ['below']])
})

test('a watched directory that is removed: told, and nothing is left of the watch', async () => {
  for (const recursive of [false, true]) {
    fs.mkdirSync(at('watched/sub'), { recursive: true })
    const s = new Stream('filesystem.Filesystem/WatchDir', { path: at('watched'), recursive })
    await s.until(() => s.messages.length > 0)
    const { watcherId } = await succeeds(files('CreateWatcher', { path: at('watched'), recursive }))
    fs.rmSync(at('watched'), { recursive: true })
    const isEnd = (event) => event?.name === '.' && event.type === 'EVENT_TYPE_REMOVE'
    await s.until(() => s.messages.some((m) => isEnd(m.filesystem)), 'the removal')
    const polled = (await succeeds(files('GetWatcherEvents', { watcherId }))).events
    assert.deepEqual(polled.map((e) => `${e.type} ${e.name}`), s.messages.slice(1).map((m) => `${m.filesystem.type} ${m.filesystem.name}`))
    fs.mkdirSync(at('watched')) // another one of that name is not the one that was watched
    fs.writeFileSync(at('watched/new'), 'x')
    assert.deepEqual(await succeeds(files('GetWatcherEvents', { watcherId })), {})
    await succeeds(files('RemoveWatcher', { watcherId }))
    s.cut()
    fs.rmSync(at('watched'), { recursive: true })
    await fails(files('CreateWatcher', { path: at('watched'), recursive }), 404, 'not_found', /^path .* not found: /)
  }
})

test('these tests cannot change the machine they run on', async () => {
  await fails(files('MakeDir', { path: '/envd-was-here' }), 500, 'internal', /read-only file system/)
  await refuses(put('/etc/envd-was-here'), 500, /read-only file system/)
}, { skip: !isRoot && 'needs root' })

test('the same daemon, after all that, in good health', async () => {
  assert.equal((await request('GET', '/health')).status, 204)
  assert.deepEqual(await succeeds(proc('List', {})), {})
})

await main()
