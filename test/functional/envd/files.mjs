// GET and POST /files: contents, ranges, headers, forms, metadata, refusals.
import { execFileSync } from 'node:child_process'
import { Readable } from 'node:stream'
import zlib from 'node:zlib'
import { assert, envd, fs, isRoot, main, path, raw, refuses, request, test } from './lib.mjs'

const at = (...names) => path.join(envd.dir, ...names)
const q = (p, more = '') => `/files?path=${encodeURIComponent(p)}${more}`
const get = (p, headers = {}, more = '') => request('GET', q(p, more), { headers })
const put = (p, body, headers = {}) => request('POST', q(p), { headers: { 'content-type': 'application/octet-stream', ...headers }, body })
const form = (parts, boundary = 'XbX') => Buffer.concat([
  ...parts.flatMap(([disposition, data]) => [Buffer.from(`--${boundary}\r\nContent-Disposition: form-data; ${disposition}\r\n\r\n`), Buffer.from(data), Buffer.from('\r\n')]),
  Buffer.from(`--${boundary}--\r\n`),
])
const post = (target, parts, headers = {}) => request('POST', target, { headers: { 'content-type': 'multipart/form-data; boundary=XbX', ...headers }, body: form(parts) })

test('a download has length, type, name and date', async () => {
  fs.writeFileSync(at('hello.txt'), 'hello')
  fs.utimesSync(at('hello.txt'), 1767323045, 1767323045)
  const rs = await get(at('hello.txt'))
  assert.equal(rs.status, 200)
  assert.equal(rs.text, 'hello')
  assert.equal(rs.headers['content-length'], '5')
  assert.equal(rs.headers['content-type'], 'text/plain; charset=utf-8')
  assert.equal(rs.headers['content-disposition'], 'inline; filename=hello.txt')
  assert.equal(rs.headers['last-modified'], 'Fri, 02 Jan 2026 03:04:05 GMT')
  assert.equal(rs.headers['accept-ranges'], 'bytes')
  assert.equal(rs.headers.vary, 'Accept-Encoding')
})

test('names in Content-Disposition are quoted or encoded where they must be', async () => {
  for (const [name, want] of [
    ['my doc.pdf', 'inline; filename="my doc.pdf"'],
    ['qu"o\\te', 'inline; filename="qu\\"o\\\\te"'],
    ['日本 x.txt', "inline; filename*=utf-8''%E6%97%A5%E6%9C%AC%20x.txt"],
  ]) {
    fs.writeFileSync(at(name), '')
    assert.equal((await get(at(name))).headers['content-disposition'], want)
  }
})

test('types: by extension, else by content', async () => {
  for (const [name, data, want] of [
    ['a.json', '{}', 'application/json'], ['a.HTML', '', 'text/html; charset=utf-8'], ['plain', 'words', 'text/plain; charset=utf-8'],
    ['binary', Buffer.from([1, 2, 3]), 'application/octet-stream'], ['image', '\x89PNG\r\n\x1a\n', 'image/png'], ['page', '  <!DOCTYPE html>', 'text/html; charset=utf-8'],
  ]) {
    fs.writeFileSync(at(name), Buffer.from(data, 'latin1'))
    assert.equal((await get(at(name))).headers['content-type'], want, name)
  }
})

test('an empty file has length 0; procfs files are read to their end', async () => {
  fs.writeFileSync(at('empty'), '')
  const rs = await get(at('empty'))
  assert.deepEqual([rs.status, rs.headers['content-length'], rs.text], [200, '0', ''])
  assert.equal((await get('/proc/sys/kernel/random/boot_id')).text, fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))
  const big = await get('/proc/kallsyms')
  assert.ok(big.bytes.length > 500_000)
})

test('10 MB arrive byte for byte; a client may stop early', async () => {
  execFileSync('sh', ['-c', `head -c 10000000 /dev/urandom > ${at('big')}`])
  assert.ok((await get(at('big'))).bytes.equals(fs.readFileSync(at('big'))))
  await request('GET', q(at('big')), { onResponse: (rs, rq) => rs.once('data', () => rq.destroy()) }).catch(() => {})
})

test('one range, a suffix, several ranges, nonsense', async () => {
  fs.writeFileSync(at('digits'), '0123456789')
  const range = (value, more = {}) => get(at('digits'), { range: value, ...more })
  let rs = await range('bytes=2-4')
  assert.deepEqual([rs.status, rs.text, rs.headers['content-range']], [206, '234', 'bytes 2-4/10'])
  rs = await range('bytes=-3')
  assert.deepEqual([rs.status, rs.text, rs.headers['content-range']], [206, '789', 'bytes 7-9/10'])
  rs = await range('bytes=8-')
  assert.deepEqual([rs.status, rs.text], [206, '89'])
  rs = await range('bytes=0-0,5-6')
  assert.equal(rs.status, 206)
  const boundary = /^multipart\/byteranges; boundary=(.+)$/.exec(rs.headers['content-type'])[1]
  assert.equal(rs.text, `\r\n--${boundary}\r\nContent-Range: bytes 0-0/10\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n0` +
    `\r\n--${boundary}\r\nContent-Range: bytes 5-6/10\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n56\r\n--${boundary}--\r\n`)
  for (const bad of ['bytes=10-', 'bytes=5-2', 'bytes=x', 'lines=1-2', 'bytes=99-100', 'bytes=' + Array(40).fill('0-0').join()]) {
    rs = await range(bad)
    assert.deepEqual([rs.status, rs.headers['content-range']], [416, 'bytes */10'], bad)
  }
  rs = await range('bytes=0-9,0-9')
  assert.deepEqual([rs.status, rs.text], [200, '0123456789'])
})

test('conditions: If-Modified-Since, If-Unmodified-Since, If-Range', async () => {
  const date = (await get(at('digits'))).headers['last-modified'], old = 'Fri, 02 Jan 2015 03:04:05 GMT'
  assert.equal((await get(at('digits'), { 'if-modified-since': date })).status, 304)
  assert.equal((await get(at('digits'), { 'if-modified-since': old })).status, 200)
  assert.equal((await get(at('digits'), { 'if-unmodified-since': old })).status, 412)
  assert.equal((await get(at('digits'), { range: 'bytes=1-1', 'if-range': date })).status, 206)
  assert.equal((await get(at('digits'), { range: 'bytes=1-1', 'if-range': old })).status, 200)
  assert.equal((await get(at('digits'), { 'if-modified-since': 'rubbish' })).status, 200)
})

test('downloads are packed for those who want that, and sent as they are to all others', async () => {
  const text = 'many words '.repeat(100_000)
  fs.writeFileSync(at('words'), text)
  for (const accept of ['gzip', 'gzip, identity;q=0', 'GZIP;q=0.5, identity;q=0.1', '*, identity;q=0', 'br, gzip, *;q=0', 'gzip, identity', 'x-gzip']) {
    const rs = await get(at('words'), { 'accept-encoding': accept })
    assert.deepEqual([rs.status, rs.headers['content-encoding'], rs.headers['content-length'], rs.headers['accept-ranges'], rs.headers.vary],
      [200, 'gzip', undefined, undefined, 'Accept-Encoding'], accept)
    assert.ok(rs.bytes.length < text.length / 20)
    assert.equal(String(zlib.gunzipSync(rs.bytes)), text)
  }
  for (const accept of ['', 'identity', 'gzip, deflate', 'br, gzip, deflate', '*', 'gzip;q=0', 'identity, *;q=0', 'identity, gzip', 'gzip;q=0.5, identity', ',;q=,']) {
    const rs = await get(at('words'), { 'accept-encoding': accept })
    assert.deepEqual([rs.status, rs.headers['content-encoding'], rs.headers['content-length']], [200, undefined, String(text.length)], accept)
    assert.equal(rs.text, text)
  }
  for (const accept of ['identity;q=0', '*;q=0', 'br, identity;q=0', 'gzip;q=0, *;q=0.000', 'gzip;q=0.000, identity; q=0'])
    await refuses(get(at('words'), { 'accept-encoding': accept }), 406, 'error parsing Accept-Encoding: no acceptable encoding found, supported: [gzip]')
})

test('a part of a file, or one under a condition, is never packed', async () => {
  const date = (await get(at('words'))).headers['last-modified']
  const rs = await get(at('words'), { 'accept-encoding': 'gzip', range: 'bytes=0-3' })
  assert.deepEqual([rs.status, rs.text, rs.headers['content-encoding']], [206, 'many', undefined])
  assert.equal((await get(at('words'), { 'accept-encoding': 'gzip', 'if-modified-since': date })).status, 304)
  for (const headers of [{ range: 'bytes=0-3' }, { 'if-modified-since': date }, { 'if-range': date }, { 'if-none-match': '"x"' }])
    await refuses(get(at('words'), { 'accept-encoding': 'gzip, identity;q=0', ...headers }), 406, 'identity encoding not acceptable for Range or conditional request')
})

test('packing: empty, unsized and large files; others are served meanwhile; leaving half-way leaks nothing', async () => {
  const packed = { 'accept-encoding': 'gzip' }
  assert.equal(zlib.gunzipSync((await get(at('empty'), packed)).bytes).length, 0)
  assert.equal(String(zlib.gunzipSync((await get('/proc/sys/kernel/random/boot_id', packed)).bytes)), fs.readFileSync('/proc/sys/kernel/random/boot_id', 'utf8'))
  assert.ok(zlib.gunzipSync((await get(at('big'), packed)).bytes).equals(fs.readFileSync(at('big'))))
  fs.writeFileSync(at('zeros'), '')
  fs.truncateSync(at('zeros'), 300 << 20)
  let done = false
  const all = get(at('zeros'), packed).then((rs) => { done = true; return rs.bytes })
  await get(at('digits'))
  assert.equal(done, false, 'a small download is not kept waiting by a large one')
  let n = 0
  for await (const piece of Readable.from([await all]).pipe(zlib.createGunzip())) n += piece.length
  assert.equal(n, 300 << 20)
  await request('GET', q(at('zeros')), { headers: packed, onResponse: (rs, rq) => rs.once('data', () => rq.destroy()) }).catch(() => {})
})

test('downloads that are refused', async () => {
  await refuses(get('/no/such'), 404, "path '/no/such' does not exist")
  await refuses(get('nothing-here'), 404, "path '/root/nothing-here' does not exist")
  await refuses(get('/etc/passwd/x'), 404, "path '/etc/passwd/x' does not exist")
  await refuses(get(envd.dir), 400, `path '${envd.dir}' is a directory`)
  await refuses(get(''), 400, "path '/root' is a directory")
  await refuses(get('~bob'), 400, /^error expanding and resolving path '~bob': /)
  await refuses(get(at('digits'), {}, '&username=ghost'), 401, "error looking up user 'ghost': user: unknown user ghost")
  execFileSync('mkfifo', [at('pipe')])
  await refuses(get(at('pipe')), 400, /not a regular file/)
  await refuses(get('/' + 'a/'.repeat(2500)), 400, /: path too long: 5001 bytes, at most 4095$/)
  await refuses(get('/tmp/' + 'a'.repeat(256)), 400, /: path too long: a name in it has 256 bytes, at most 255$/)
  await refuses(get('/tmp/' + 'a'.repeat(255)), 404)
  await refuses(get('a/'.repeat(2046)), 400, /path too long: 4097 bytes/, 'with the home before it')
  await refuses(request('GET', '/files?path=%00'), 400)
  await refuses(request('GET', '/files?path=%zz'), 400)
  assert.equal((await request('GET', '/files?path=/etc/hostname&signature_expiration=x')).status, 400)
  for (const method of ['PUT', 'DELETE', 'HEAD']) assert.equal((await request(method, '/files')).status, 405)
})

test('blanks in a path: %20 and +', async () => {
  fs.writeFileSync(at('a b+c'), 'x')
  assert.equal((await request('GET', `/files?path=${at('a+b%2Bc')}`)).text, 'x')
  assert.equal((await request('GET', `/files?path=${at('a%20b%2Bc')}`)).text, 'x')
})

test('a raw upload makes directories, keeps mode and inode of what is there', async () => {
  const rs = await put(at('deep/er/file'), 'one')
  assert.deepEqual(rs.json, [{ path: at('deep/er/file'), name: 'file', type: 'file' }])
  assert.equal(fs.statSync(at('deep/er/file')).mode & 0o7777, 0o644)
  fs.chmodSync(at('deep/er/file'), 0o751)
  const { ino } = fs.statSync(at('deep/er/file'))
  await put(at('deep/er/file'), 'xy')
  assert.deepEqual([fs.readFileSync(at('deep/er/file'), 'utf8'), fs.statSync(at('deep/er/file')).mode & 0o7777, fs.statSync(at('deep/er/file')).ino], ['xy', 0o751, ino])
  assert.equal((await put(at('none'), '')).status, 200)
  assert.equal(fs.statSync(at('none')).size, 0)
})

test('an upload belongs to the user it is made for; links are followed', async () => {
  await request('POST', `/files?path=${at('own/ed')}&username=daemon`, { headers: { 'content-type': 'application/octet-stream' }, body: 'x' })
  assert.deepEqual([fs.statSync(at('own')).uid, fs.statSync(at('own/ed')).uid, fs.statSync(at('own/ed')).gid], [1, 1, 1])
  fs.writeFileSync(at('rooted'), '')
  fs.symlinkSync('rooted', at('to-rooted'))
  await request('POST', `/files?path=${at('to-rooted')}&username=daemon`, { headers: { 'content-type': 'application/octet-stream' }, body: 'y' })
  assert.deepEqual([fs.readFileSync(at('rooted'), 'utf8'), fs.statSync(at('rooted')).uid, fs.lstatSync(at('to-rooted')).isSymbolicLink()], ['y', 1, true])
}, { skip: !isRoot && 'needs root' })

test('forms: names from the parts or the query, order kept, other parts ignored', async () => {
  const rs = await post('/files', [
    [`name="file"; filename="${at('f/1.txt')}"`, 'one'], ['name="note"', 'ignored'], [`name="file"; filename="${at('f/zwei ü.txt')}"`, 'two'],
  ])
  assert.deepEqual(rs.json, [{ path: at('f/1.txt'), name: '1.txt', type: 'file' }, { path: at('f/zwei ü.txt'), name: 'zwei ü.txt', type: 'file' }])
  assert.equal(fs.readFileSync(at('f/zwei ü.txt'), 'utf8'), 'two')
  const plain = await post(q(at('field')), [['name="file"', 'value']])
  assert.deepEqual(plain.json, [{ path: at('field'), name: 'field', type: 'file' }])
  assert.equal(fs.readFileSync(at('field'), 'utf8'), 'value')
  assert.deepEqual((await post('/files', [['name="other"', 'x']])).json, [])
})

test('forms: binary content with boundary lookalikes, chunked, 5 MB', async () => {
  const tricky = Buffer.from('\r\n--XbY\r\n--Xb\r\n\r\n--\r\n--XbX')
  const data = Buffer.concat([tricky.subarray(0, -7), Buffer.alloc(5_000_000, '\r\n--Xb'), Buffer.from('\r\n')])
  const rs = await request('POST', q(at('big-form')), {
    headers: { 'content-type': 'multipart/form-data; boundary=XbX', 'transfer-encoding': 'chunked' }, body: form([['name="file"; filename="x"', data]]),
  })
  assert.equal(rs.status, 200, rs.text)
  assert.ok(fs.readFileSync(at('big-form')).equals(data))
})

test('forms that are refused', async () => {
  await refuses(post(q(at('twice')), [['name="file"', '1'], ['name="file"', '2']]), 400, `you cannot upload multiple files to the same path '${at('twice')}' in one upload request, only the first specified file was uploaded`)
  assert.equal(fs.readFileSync(at('twice'), 'utf8'), '1')
  await refuses(post('/files', [['name="file"', 'x']]), 400)
  await refuses(request('POST', q(at('cut')), { headers: { 'content-type': 'multipart/form-data; boundary=XbX' }, body: '--XbX\r\nContent-Disposition: form-data; name="file"\r\n\r\nhalf' }), 500, /^error reading form: /)
  await refuses(request('POST', q(at('bad')), { headers: { 'content-type': 'multipart/form-data; boundary=XbX' }, body: 'no form at all' }), 500, /^error (parsing multipart|reading) form: /)
  await refuses(request('POST', q(at('bad')), { headers: { 'content-type': 'multipart/form-data' }, body: 'x' }), 500, /^error parsing multipart form: /)
})

test('uploads that are refused', async () => {
  await refuses(put('', 'x'), 400, 'path query parameter is required for raw body upload')
  await refuses(request('POST', q(at('x')), { headers: { 'content-type': 'text/plain' }, body: 'x' }), 400, 'unsupported content type: text/plain, expected multipart/form-data or application/octet-stream')
  await refuses(request('POST', q(at('x')), { body: '' }), 400, 'unsupported content type: , expected multipart/form-data or application/octet-stream')
  await refuses(put(at('x'), 'x', { 'content-encoding': 'br' }), 400, /^error decompressing request body: unsupported Content-Encoding: br/)
  await refuses(put(envd.dir, 'x'), 400, `path is a directory: ${envd.dir}`)
  fs.writeFileSync(at('afile'), '')
  await refuses(put(at('afile/below'), 'x'), 500, `error ensuring directories: path is a file: ${at('afile')}`)
  await refuses(put(at('pipe'), 'x'), 500, /^error opening file: /)
  await refuses(request('POST', `/files?path=${at('x')}&username=ghost`, { headers: { 'content-type': 'application/octet-stream' } }), 401)
  await refuses(put('/' + 'b'.repeat(5000), 'x'), 400, 'path too long: 5001 bytes, at most 4095')
  assert.equal(fs.existsSync(at('x')), false)
})

/** Run in the daemon's view of the machine: mounts are its own. */
const inside = (...command) => execFileSync('nsenter', ['--target', String(envd.pid), '--mount', ...command])

test('a full disk is 507, and the answer arrives though the body was large', async () => {
  execFileSync('mkdir', ['-p', at('small')])
  inside('mount', '-t', 'tmpfs', '-o', 'size=1m,nr_inodes=5', 'tmpfs', at('small'))
  try {
    await refuses(put(at('small/f'), Buffer.alloc(3_000_000)), 507, 'attempted to write 3000000 bytes: not enough disk space available')
    await refuses(request('POST', q(at('small/f')), { headers: { 'content-type': 'application/octet-stream', 'transfer-encoding': 'chunked' }, body: Buffer.alloc(3_000_000) }), 507, 'not enough disk space available')
    inside('touch', ...['0', '1', '2'].map((name) => at('small', name)))
    await refuses(put(at('small/one-more'), 'x'), 507, /^not enough inodes available: /)
    await refuses(put(at('small/dir/one-more'), 'x'), 507, /^not enough inodes available: /)
  } finally {
    inside('umount', at('small'))
  }
}, { skip: !isRoot && 'needs root' })

test('metadata: set, told, replaced, cleared', async () => {
  const rs = await put(at('meta'), 'x', { 'X-Metadata-Author': 'me', 'x-metadata-purpose': 'a test' })
  assert.deepEqual(rs.json[0].metadata, { author: 'me', purpose: 'a test' })
  assert.deepEqual((await put(at('meta'), 'x', { 'x-metadata-author': 'you' })).json[0].metadata, { author: 'you' })
  assert.deepEqual((await put(at('meta'), 'x')).json, [{ path: at('meta'), name: 'meta', type: 'file' }])
  const many = await post('/files', [[`name="file"; filename="${at('m1')}"`, '1'], [`name="file"; filename="${at('m2')}"`, '2']], { 'x-metadata-k': 'v' })
  assert.deepEqual(many.json.map((i) => i.metadata), [{ k: 'v' }, { k: 'v' }])
})

test('metadata that is refused leaves no file', async () => {
  await refuses(put(at('nometa'), 'x', { 'x-metadata-': 'v' }), 400, /^invalid metadata: /)
  await refuses(put(at('nometa'), 'x', { ['x-metadata-' + 'k'.repeat(247)]: 'v' }), 400, /^invalid metadata: /)
  await refuses(put(at('nometa'), 'x', { 'x-metadata-k': 'v'.repeat(4090) }), 400, /^invalid metadata: /)
  await refuses(put(at('nometa'), 'x', { 'x-metadata-k': 'caf\u00e9' }), 400, /^invalid metadata: /)
  assert.equal(fs.existsSync(at('nometa')), false)
})

test('gzip: whole bodies are unpacked, raw and in a form; broken ones are refused', async () => {
  const data = Buffer.alloc(3_000_000, 'abcdefghij')
  const gz = { 'content-encoding': 'gzip' }
  assert.equal((await put(at('gz1'), zlib.gzipSync(data), gz)).status, 200)
  assert.ok(fs.readFileSync(at('gz1')).equals(data))
  assert.equal((await put(at('gz1'), Buffer.concat([zlib.gzipSync('two '), zlib.gzipSync('members')]), gz)).status, 200)
  assert.equal(fs.readFileSync(at('gz1'), 'utf8'), 'two members')
  assert.equal((await put(at('gz1'), zlib.gzipSync(''), gz)).status, 200)
  assert.equal(fs.statSync(at('gz1')).size, 0)
  const rs = await request('POST', q(at('gz2')), { headers: { 'content-type': 'multipart/form-data; boundary=XbX', ...gz }, body: zlib.gzipSync(form([['name="file"; filename="x"', data]])) })
  assert.equal(rs.status, 200, rs.text)
  assert.ok(fs.readFileSync(at('gz2')).equals(data))
  await refuses(put(at('gz3'), 'no gzip', gz), 400, 'error decompressing request body: invalid gzip data')
  await refuses(put(at('gz3'), zlib.gzipSync(data).subarray(0, 1000), gz), 400, 'error decompressing request body: unexpected EOF')
  await refuses(put(at('gz3'), '', gz), 400, 'error decompressing request body: unexpected EOF')
  await refuses(put(at('gz3'), 'x', { 'content-encoding': 'br' }), 400, 'error decompressing request body: unsupported Content-Encoding: br, supported: [gzip]')
})

const compose = (body) => request('POST', '/files/compose', { headers: { 'content-type': 'application/json' }, body: typeof body === 'string' ? body : JSON.stringify(body) })

test('compose: sources in order become one file and are gone', async () => {
  fs.writeFileSync(at('p1'), 'one ')
  fs.writeFileSync(at('p2'), Buffer.alloc(20_000_000, 'x'))
  fs.writeFileSync(at('p3'), '')
  const rs = await compose({ source_paths: [at('p1'), at('p2'), at('p3')], destination: at('new-dir/joined') })
  assert.equal(rs.status, 200, rs.text)
  assert.deepEqual(rs.json, { name: 'joined', path: at('new-dir/joined'), type: 'file' })
  assert.equal(fs.statSync(at('new-dir/joined')).size, 20_000_004)
  assert.deepEqual([at('p1'), at('p2'), at('p3')].map(fs.existsSync), [false, false, false])
  assert.deepEqual(fs.readdirSync(at('new-dir')), ['joined'])
})

test('compose: what is refused leaves everything as it was', async () => {
  fs.writeFileSync(at('p1'), 'one')
  await refuses(compose('{'), 400, /^invalid request body: /)
  await refuses(compose({ source_paths: 'x', destination: 'y' }), 400, /^invalid request body: /)
  await refuses(compose({ source_paths: [], destination: at('d') }), 400, 'source_paths must not be empty')
  await refuses(compose({ source_paths: [at('p1')] }), 400, 'destination is required')
  await refuses(compose({ source_paths: [at('p1')], destination: at('p1') }), 400, `source path "${at('p1')}" cannot be the same as destination`)
  await refuses(compose({ source_paths: [at('p1'), at('nope')], destination: at('d') }), 404, `source file not found: ${at('nope')}`)
  await refuses(compose({ source_paths: [envd.dir], destination: at('d') }), 400, `source path is not a regular file: ${envd.dir}`)
  await refuses(compose({ source_paths: [at('p1')], destination: at('d'), username: 'ghost' }), 401)
  assert.equal(fs.readFileSync(at('p1'), 'utf8'), 'one')
  assert.equal(fs.existsSync(at('d')), false)
})

test('Expect: 100-continue is answered before the body', async () => {
  const head = `POST ${q(at('expected'))} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nContent-Length: 2\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n`
  const got = await raw(head + 'ok')
  assert.match(got, /HTTP\/1\.1 200 OK/)
  assert.match(await raw(head, (text) => text.includes('100 Continue')), /^HTTP\/1\.1 100 Continue/)
})

test('a client that leaves in the middle of an upload leaves no fd behind', async () => {
  await raw(`POST ${q(at('partial'))} HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nzz`)
})

await main()
