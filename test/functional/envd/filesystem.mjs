// filesystem.Filesystem: Stat, ListDir, MakeDir, Move, Remove, and watching.
import { execFileSync } from 'node:child_process'
import { assert, basic, envd, fails, files, fs, isRoot, later, main, path, request, run, start, Stream, succeeds, test, until } from './lib.mjs'

const at = (...names) => path.join(envd.dir, ...names)
const stat = async (p, headers) => (await succeeds(files('Stat', { path: p }, headers))).entry
const names = (list) => list.entries.map((e) => e.path.slice(envd.dir.length + 1))

test('Stat of a file tells everything about it', async () => {
  fs.writeFileSync(at('a.txt'), 'four')
  fs.chmodSync(at('a.txt'), 0o644)
  fs.utimesSync(at('a.txt'), 1767323045.5, 1767323045.5)
  const me = isRoot ? 'root' : String(process.getuid())
  const entry = await stat(at('a.txt'))
  assert.deepEqual({ ...entry, owner: undefined, group: undefined }, {
    name: 'a.txt', type: 'FILE_TYPE_FILE', path: at('a.txt'), size: '4', mode: 420, permissions: '-rw-r--r--',
    modifiedTime: '2026-01-02T03:04:05.500Z', owner: undefined, group: undefined,
  })
  if (isRoot) assert.deepEqual([entry.owner, entry.group], [me, me])
})

test('Stat of a directory, of an empty file, of special files', async () => {
  fs.mkdirSync(at('dir'))
  fs.writeFileSync(at('empty'), '', { mode: 0 })
  const dir = await stat(at('dir'))
  assert.equal(dir.type, 'FILE_TYPE_DIRECTORY')
  assert.equal(dir.permissions, 'drwxr-xr-x')
  assert.ok(Number(dir.size) > 0)
  const empty = await stat(at('empty'))
  assert.equal('size' in empty, false)
  assert.equal('mode' in empty, false)
  assert.equal(empty.permissions, '----------')
  execFileSync('mkfifo', [at('pipe')])
  const pipe = await stat(at('pipe'))
  assert.equal('type' in pipe, false)
  assert.match(pipe.permissions, /^prw/)
  assert.equal((await stat('/dev/null')).permissions, 'Dcrw-rw-rw-')
  assert.equal((await stat('/tmp')).permissions, 'dtrwxrwxrwx')
})

test('Stat of links: type and mode of the target, its resolved path', async () => {
  fs.writeFileSync(at('target'), 'x', { mode: 0o600 })
  fs.symlinkSync('target', at('link'))
  fs.symlinkSync('link', at('link2'))
  fs.symlinkSync('nowhere', at('broken'))
  fs.symlinkSync('loop', at('loop'))
  const link = await stat(at('link2'))
  assert.equal(link.type, 'FILE_TYPE_FILE')
  assert.equal(link.mode, 0o600)
  assert.equal(link.permissions, 'Lrwxrwxrwx')
  assert.equal(link.symlinkTarget, fs.realpathSync(at('target')))
  assert.equal(link.size, '4')
  for (const name of ['broken', 'loop']) {
    const broken = await stat(at(name))
    assert.equal('type' in broken, false)
    assert.equal('mode' in broken, false)
    assert.equal(broken.symlinkTarget, at(name))
  }
  assert.equal('symlinkTarget' in (await stat(at('target'))), false)
})

test('Stat: unknown ids are numbers, bad names are made readable', async () => {
  const odd = Buffer.concat([Buffer.from(at('odd-')), Buffer.from([0xff])])
  fs.writeFileSync(odd, 'x')
  if (isRoot) fs.chownSync(odd, 54321, 54322)
  const list = await succeeds(files('ListDir', { path: envd.dir }))
  const entry = list.entries.find((e) => e.name.startsWith('odd-'))
  assert.equal(entry.name, 'odd-\ufffd')
  if (isRoot) assert.deepEqual([entry.owner, entry.group], ['54321', '54322'])
})

test('Stat: missing, below a file, too long, a NUL', async () => {
  await fails(files('Stat', { path: '/no/such' }), 404, 'not_found', 'file not found: lstat /no/such: no such file or directory')
  await fails(files('Stat', { path: '/etc/passwd/x' }), 500, 'internal', 'error getting file info: lstat /etc/passwd/x: not a directory')
  await fails(files('Stat', '{"path":"/tmp/\\u0000x"}'), 400, 'invalid_argument')
})

test('paths that are too long are refused by every call, in words', async () => {
  const deep = '/tmp' + '/ab'.repeat(1500), name = '/tmp/' + 'n'.repeat(256)
  const calls = [['Stat', 'path'], ['ListDir', 'path'], ['MakeDir', 'path'], ['Remove', 'path'], ['CreateWatcher', 'path'], ['Move', 'source'], ['Move', 'destination']]
  for (const [call, field] of calls) {
    const message = { source: '/tmp', destination: '/tmp' }
    await fails(files(call, { ...message, [field]: deep }), 400, 'invalid_argument', 'path too long: 4504 bytes, at most 4095')
    await fails(files(call, { ...message, [field]: name }), 400, 'invalid_argument', 'path too long: a name in it has 256 bytes, at most 255')
  }
  const s = await new Stream('filesystem.Filesystem/WatchDir', { path: name }).whole()
  assert.equal(s.end.error.code, 'invalid_argument')
  assert.equal((await run({ cmd: '/bin/true', cwd: '/tmp' })).exitCode, 0)
  const cwd = await start({ cmd: '/bin/true', cwd: deep }).whole()
  assert.deepEqual([cwd.end.error.code, cwd.messages.length], ['invalid_argument', 0])
})

test('paths: empty, ~, relative to home; ~user is refused', async () => {
  assert.equal((await stat('')).path, '/root')
  assert.equal((await stat('~')).path, '/root')
  assert.equal((await stat('~/../etc/passwd')).path, '/etc/passwd')
  assert.equal((await stat('../tmp')).path, '/tmp')
  assert.equal((await stat('/tmp/../tmp/.')).path, '/tmp/../tmp/.')
  await fails(files('Stat', { path: '~bob/x' }), 400, 'invalid_argument', "failed to expand path '' for user 'root': cannot expand user-specific home dir")
  if (isRoot) assert.equal((await stat('', basic('daemon'))).path, '/usr/sbin')
})

test('an unknown user is refused, on every path', async () => {
  await fails(files('Stat', { path: '/' }, basic('ghost')), 401, 'unauthenticated', "invalid username: 'ghost'")
  const rs = await request('GET', '/health', { headers: basic('ghost') })
  assert.equal(rs.status, 401)
  assert.equal((await request('GET', '/health', { headers: { authorization: 'Bearer x' } })).status, 204)
})

test('metadata: only user.e2b.*, following links', async () => {
  fs.writeFileSync(at('noted'), '')
  fs.symlinkSync('noted', at('noted-link'))
  const set = (name, value) => execFileSync('python3', ['-c', 'import os,sys;os.setxattr(sys.argv[1],sys.argv[2],sys.argv[3].encode("latin1"))', at('noted'), name, value])
  set('user.e2b.author', 'me')
  set('user.other', 'x')
  set('user.e2b.broken', '\xff')
  assert.deepEqual((await stat(at('noted'))).metadata, { author: 'me' })
  assert.deepEqual((await stat(at('noted-link'))).metadata, { author: 'me' })
  assert.equal('metadata' in (await stat(at('a.txt'))), false)
})

test('an old client gets name, type and path only', async () => {
  const rs = await files('Stat', { path: at('a.txt') }, { 'user-agent': 'connect-python' })
  assert.deepEqual(rs.json.entry, { name: 'a.txt', type: 'FILE_TYPE_FILE', path: at('a.txt') })
  assert.equal(rs.headers['x-e2b-legacy-sdk'], 'true')
  assert.equal((await files('Stat', { path: at('a.txt') }, { 'user-agent': 'connect-python/2' })).headers['x-e2b-legacy-sdk'], undefined)
})

test('an old client is told so on a stream, too, and gets events without entries', async () => {
  const s = new Stream('filesystem.Filesystem/WatchDir', { path: envd.dir, includeEntry: true }, { 'user-agent': 'connect-python' })
  await s.until(() => s.messages.length > 0)
  assert.equal(s.rs.headers['x-e2b-legacy-sdk'], 'true')
  fs.writeFileSync(at('seen-by-old'), 'x')
  await s.until(() => s.messages.some((m) => m.filesystem))
  assert.deepEqual(s.messages[1], { filesystem: { name: 'seen-by-old', type: 'EVENT_TYPE_CREATE' } })
  s.cut()
  const lost = await new Stream('filesystem.Filesystem/WatchDir', { path: '/no/such' }, { 'user-agent': 'connect-python' }).whole()
  assert.deepEqual([lost.rs.headers['x-e2b-legacy-sdk'], lost.end.error.code], ['true', 'not_found'])
})

test('ListDir: sorted by bytes, files and directories mixed, to the depth asked for', async () => {
  for (const d of ['t/subdir1/subdir1_1', 't/subdir1/subdir1_2', 't/subdir2/subdir2_1', 't/subdir2/subdir2_2']) fs.mkdirSync(at(d), { recursive: true })
  fs.writeFileSync(at('t/file1.txt'), '')
  fs.writeFileSync(at('t/subdir1/subdir1_1/deep'), '')
  fs.symlinkSync('subdir1', at('t/z-link'))
  const one = ['t/file1.txt', 't/subdir1', 't/subdir2', 't/z-link']
  assert.deepEqual(names(await succeeds(files('ListDir', { path: at('t') }))), one)
  assert.deepEqual(names(await succeeds(files('ListDir', { path: at('t'), depth: 0 }))), one)
  assert.deepEqual(names(await succeeds(files('ListDir', { path: at('t'), depth: '2' }))), [
    't/file1.txt', 't/subdir1', 't/subdir1/subdir1_1', 't/subdir1/subdir1_2', 't/subdir2', 't/subdir2/subdir2_1', 't/subdir2/subdir2_2', 't/z-link',
  ])
  assert.equal((await succeeds(files('ListDir', { path: at('t'), depth: 4294967295 }))).entries.length, 9)
  const link = (await succeeds(files('ListDir', { path: at('t') }))).entries[3]
  assert.equal(link.type, 'FILE_TYPE_DIRECTORY')
  fs.mkdirSync(at('nothing'))
  assert.deepEqual(await succeeds(files('ListDir', { path: at('nothing') })), {})
})

test('ListDir of a link keeps the requested prefix', async () => {
  fs.symlinkSync('t', at('t-link'))
  assert.deepEqual(names(await succeeds(files('ListDir', { path: at('t-link') }))), ['t-link/file1.txt', 't-link/subdir1', 't-link/subdir2', 't-link/z-link'])
})

test('ListDir: missing, a file, a loop, a wrong depth', async () => {
  await fails(files('ListDir', { path: '/no/such' }), 404, 'not_found', /^path not found: .*no such file or directory/)
  await fails(files('ListDir', { path: at('a.txt') }), 400, 'invalid_argument', `path is not a directory: ${at('a.txt')}`)
  await fails(files('ListDir', { path: at('loop') }), 400, 'failed_precondition', `cyclic symlink or chain >255 links at "${at('loop')}"`)
  await fails(files('ListDir', { path: '/', depth: -1 }), 400, 'invalid_argument', /depth/)
  await fails(files('ListDir', { path: '/', depth: 'x' }), 400, 'invalid_argument', /depth/)
})

test('ListDir and Remove of 20000 files; commands go on meanwhile', async () => {
  fs.mkdirSync(at('many'))
  for (let i = 0; i < 20000; i++) fs.writeFileSync(at('many', String(i)), '')
  const list = succeeds(files('ListDir', { path: at('many') }))
  assert.equal((await run('echo x')).stdout, 'x\n')
  assert.equal((await list).entries.length, 20000)
  assert.deepEqual(await succeeds(files('Remove', { path: at('many') })), {})
  assert.equal(fs.existsSync(at('many')), false)
})

test('MakeDir: parents too, 0755, owned by the user; twice is already_exists', async () => {
  const made = (await succeeds(files('MakeDir', { path: at('x/y/z') }, isRoot ? basic('daemon') : {}))).entry
  assert.equal(made.type, 'FILE_TYPE_DIRECTORY')
  assert.equal(made.permissions, 'drwxr-xr-x')
  if (isRoot) assert.deepEqual([fs.statSync(at('x')).uid, fs.statSync(at('x/y')).gid, made.owner], [1, 1, 'daemon'])
  await fails(files('MakeDir', { path: at('x/y') }), 409, 'already_exists', `directory already exists: ${at('x/y')}`)
  await fails(files('MakeDir', { path: at('a.txt') }), 400, 'invalid_argument', `path already exists but it is not a directory: ${at('a.txt')}`)
  await fails(files('MakeDir', { path: at('a.txt/b') }), 500, 'internal')
})

test('Move: to new directories, over a file, never across', async () => {
  fs.writeFileSync(at('m1'), 'one')
  fs.writeFileSync(at('m2'), 'two')
  const moved = (await succeeds(files('Move', { source: at('m1'), destination: at('new/deep/m') }))).entry
  assert.equal(moved.path, at('new/deep/m'))
  assert.equal(moved.size, '3')
  await succeeds(files('Move', { source: at('m2'), destination: at('new/deep/m') }))
  assert.equal(fs.readFileSync(at('new/deep/m'), 'utf8'), 'two')
  await fails(files('Move', { source: at('m1'), destination: at('q') }), 404, 'not_found', `source file not found: rename ${at('m1')} ${at('q')}: no such file or directory`)
  fs.mkdirSync(at('full/sub'), { recursive: true })
  fs.mkdirSync(at('other'))
  await fails(files('Move', { source: at('other'), destination: at('full') }), 500, 'internal', /^error renaming: .*directory not empty/)
})

test('Remove: a file, a tree, a link but not its target, nothing', async () => {
  fs.mkdirSync(at('r/a/b/c'), { recursive: true })
  for (const f of ['r/1', 'r/a/2', 'r/a/b/3', 'r/a/b/c/4']) fs.writeFileSync(at(f), '')
  fs.mkdirSync(at('kept'))
  fs.writeFileSync(at('kept/file'), '')
  fs.symlinkSync(at('kept'), at('r/link'))
  await succeeds(files('Remove', { path: at('r') + '/' }))
  assert.equal(fs.existsSync(at('r')), false)
  assert.equal(fs.existsSync(at('kept/file')), true)
  await succeeds(files('Remove', { path: at('kept/file') }))
  assert.equal(fs.existsSync(at('kept/file')), false)
  assert.deepEqual(await succeeds(files('Remove', { path: at('r') })), {})
  assert.deepEqual(await succeeds(files('Remove', { path: at('kept/file/below') })), {})
})

test('Remove: a tree far deeper than a path can be long', async () => {
  const script = 'import os,sys\nos.mkdir(sys.argv[1]); os.chdir(sys.argv[1])\nfor i in range(3000):\n  open("file", "w").close(); os.mkdir("directory"); os.chdir("directory")'
  execFileSync('python3', ['-c', script, at('deep')])
  await succeeds(files('Remove', { path: at('deep') }))
  assert.equal(fs.existsSync(at('deep')), false)
})

test('Remove: what cannot be removed is told', async () => {
  await fails(files('Remove', { path: '/proc/self' }), 500, 'internal', /^error removing file or directory: /)
})

/* Watching */

const watch = async (message, headers) => {
  const s = new Stream('filesystem.Filesystem/WatchDir', message, headers)
  await s.until(() => s.messages.length > 0)
  assert.deepEqual(s.messages[0], { start: {} })
  s.events = () => s.messages.slice(1).filter((m) => m.filesystem).map((m) => `${m.filesystem.type.slice(11)} ${m.filesystem.name}`)
  return s
}
const upload = (file, body) => request('POST', `/files?path=${encodeURIComponent(file)}`, { headers: { 'content-type': 'application/octet-stream' }, body })

test('watching: a new upload is CREATE, CHMOD, WRITE; then REMOVE and RENAME', async () => {
  fs.mkdirSync(at('w'))
  const s = await watch({ path: at('w') })
  await upload(at('w/f'), 'x')
  await s.until(() => s.events().length >= 3)
  fs.renameSync(at('w/f'), at('w/g'))
  await s.until(() => s.events().length >= 5)
  fs.rmSync(at('w/g'))
  await s.until(() => s.events().length >= 6)
  assert.deepEqual(s.events(), [...(isRoot ? ['CREATE f', 'CHMOD f', 'WRITE f'] : ['CREATE f', 'WRITE f']), 'RENAME f', 'CREATE g', 'REMOVE g'])
  s.cut()
})

test('watching: the directory itself is "."; below it nothing unless recursive', async () => {
  fs.mkdirSync(at('w2/sub'), { recursive: true })
  const s = await watch({ path: at('w2') + '/' })
  fs.writeFileSync(at('w2/sub/no'), 'x')
  fs.chmodSync(at('w2'), 0o700)
  await s.until(() => s.events().includes('CHMOD .'))
  assert.ok(!s.events().some((e) => e.includes('no')))
  s.cut()
})

test('watching a tree: existing, new and renamed directories', async () => {
  fs.mkdirSync(at('w3/nested/deep'), { recursive: true })
  const s = await watch({ path: at('w3'), recursive: true })
  fs.writeFileSync(at('w3/nested/deep/f'), 'x')
  await s.until(() => s.events().includes('WRITE nested/deep/f'))
  fs.mkdirSync(at('w3/new/er'), { recursive: true })
  fs.writeFileSync(at('w3/new/er/g'), 'x')
  await s.until(() => s.events().includes('CREATE new') && s.events().includes('CREATE new/er') && s.events().includes('CREATE new/er/g'))
  fs.renameSync(at('w3/nested'), at('w3/moved'))
  await s.until(() => s.events().includes('CREATE moved'))
  fs.writeFileSync(at('w3/moved/deep/h'), 'x')
  await s.until(() => s.events().includes('CREATE moved/deep/h'))
  fs.rmSync(at('w3/new'), { recursive: true })
  await s.until(() => s.events().includes('REMOVE new'))
  assert.equal(s.events().filter((e) => e === 'REMOVE new').length, 1)
  assert.equal(s.events().filter((e) => e === 'REMOVE new/er').length, 1)
  s.cut()
})

test('watching a tree: a directory moved away is watched no more', async () => {
  fs.mkdirSync(at('w4/out/in'), { recursive: true })
  const s = await watch({ path: at('w4'), recursive: true })
  fs.renameSync(at('w4/out'), at('w4-out'))
  fs.writeFileSync(at('w4/mark1'), '')
  await s.until(() => s.events().includes('CREATE mark1'))
  fs.writeFileSync(at('w4-out/in/unseen'), '')
  fs.writeFileSync(at('w4/mark2'), '')
  await s.until(() => s.events().includes('CREATE mark2'))
  assert.ok(!s.events().some((e) => e.includes('unseen')), s.events().join())
  s.cut()
})

test('watching with entries', async () => {
  fs.mkdirSync(at('w5'))
  const s = await watch({ path: at('w5'), includeEntry: true, allow_network_mounts: true })
  fs.writeFileSync(at('w5/f'), 'abc')
  fs.rmSync(at('w5/f'))
  fs.writeFileSync(at('w5/g'), 'abc')
  await s.until(() => s.events().includes('WRITE g'))
  const last = s.messages.at(-1).filesystem
  assert.deepEqual([last.entry.name, last.entry.path, last.entry.type], ['g', at('w5/g'), 'FILE_TYPE_FILE'])
  assert.ok(s.messages.filter((m) => m.filesystem?.type === 'EVENT_TYPE_REMOVE').every((m) => !m.filesystem.entry))
  s.cut()
})

test('watching: what cannot be watched', async () => {
  const error = async (message) => (await new Stream('filesystem.Filesystem/WatchDir', message).whole()).end.error
  assert.deepEqual(await error({ path: '/no/such' }), { code: 'not_found', message: 'path /no/such not found: stat /no/such: no such file or directory' })
  assert.deepEqual(await error({ path: at('a.txt') }), { code: 'invalid_argument', message: `path ${at('a.txt')} not a directory: not a directory` })
  assert.equal((await error({ path: '/tmp', recursive: 'x' })).code, 'invalid_argument')
})

test('watching: keepalives and deadline', async () => {
  const s = await watch({ path: at('w') }, { 'keepalive-ping-interval': '1', 'connect-timeout-ms': '1500' })
  await s.whole()
  assert.deepEqual(s.messages.slice(1), [{ keepalive: {} }])
  assert.equal(s.end.error.code, 'deadline_exceeded')
})

test('a polled watcher: exactly three events of one upload, fetched once', async () => {
  fs.mkdirSync(at('p'))
  const { watcherId } = await succeeds(files('CreateWatcher', { path: at('p') }))
  assert.match(watcherId, /^w[a-z0-9]{20}$/)
  assert.deepEqual(await succeeds(files('GetWatcherEvents', { watcherId })), {})
  await upload(at('p/new.txt'), 'hello')
  const { events } = await succeeds(files('GetWatcherEvents', { watcher_id: watcherId }))
  assert.deepEqual(events, (isRoot ? ['CREATE', 'CHMOD', 'WRITE'] : ['CREATE', 'WRITE']).map((t) => ({ name: 'new.txt', type: `EVENT_TYPE_${t}` })))
  assert.deepEqual(await succeeds(files('GetWatcherEvents', { watcherId })), {})
  await upload(at('p/new.txt'), 'again')
  assert.ok((await succeeds(files('GetWatcherEvents', { watcherId }))).events.some((e) => e.type === 'EVENT_TYPE_WRITE'))
  assert.deepEqual(await succeeds(files('RemoveWatcher', { watcherId })), {})
  await fails(files('GetWatcherEvents', { watcherId }), 404, 'not_found', `watcher with id ${watcherId} not found`)
  await fails(files('RemoveWatcher', { watcherId: 'w1' }), 404, 'not_found', 'watcher with id w1 not found')
})

test('a small multipart upload is one write, however it is cut', async () => {
  fs.mkdirSync(at('p2'))
  const { watcherId } = await succeeds(files('CreateWatcher', { path: at('p2') }))
  const parts = ['--B\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n', 'con\r\n', '-tent\r', '\n--', 'B--\r\n']
  const rs = await new Promise((resolve, reject) => {
    import('node:http').then(async ({ default: http }) => {
      const rq = http.request({ port: envd.port, method: 'POST', path: `/files?path=${at('p2/f')}`, headers: { 'content-type': 'multipart/form-data; boundary=B' }, agent: false }, (r) => {
        r.resume()
        r.on('end', () => resolve(r.statusCode))
      })
      rq.on('error', reject)
      rq.setNoDelay(true)
      for (const part of parts) { rq.write(part); await later(20) }
      rq.end()
    })
  })
  assert.equal(rs, 200)
  assert.equal(fs.readFileSync(at('p2/f'), 'utf8'), 'con\r\n-tent')
  assert.equal((await succeeds(files('GetWatcherEvents', { watcherId }))).events.length, isRoot ? 3 : 2)
  await succeeds(files('RemoveWatcher', { watcherId }))
})

/** Two files in a directory, changed in turn that often: as many events. */
function stir(dir, times) {
  fs.mkdirSync(dir, { recursive: true })
  const script = 'import os,sys\nfor n in "ab": open(f"{sys.argv[1]}/{n}", "w").close()\nfor i in range(int(sys.argv[2])): os.chmod(f"{sys.argv[1]}/{\'ab\'[i % 2]}", 0o600)'
  execFileSync('python3', ['-c', script, dir, String(times)])
}

test('a watch whose client does not read: bounded memory, and in the end an error instead of a gap', async () => {
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${envd.pid}/status`, 'utf8'))[1])
  fs.mkdirSync(at('stirred'))
  const before = rss()
  const s = await watch({ path: at('stirred'), includeEntry: true })
  s.rs.pause()
  stir(at('stirred'), 150_000)
  assert.ok(rss() - before < 8_000, `${rss() - before} kB more`)
  s.rs.resume()
  await s.whole()
  assert.deepEqual(s.end.error, { code: 'internal', message: 'watcher error: fsnotify: queue or buffer overflow' })
  assert.ok(s.messages.length < 150_000)
})

test('polled watchers whose events nobody fetches fail, and say so every time; memory is bounded', async () => {
  const rss = () => Number(/VmRSS:\s+(\d+)/.exec(fs.readFileSync(`/proc/${envd.pid}/status`, 'utf8'))[1])
  const ids = []
  for (let i = 0; i < 8; i++) ids.push((await succeeds(files('CreateWatcher', { path: at('stirred'), includeEntry: true }))).watcherId)
  const before = rss()
  stir(at('stirred'), 30_000)
  const all = await Promise.all(ids.map((watcherId) => files('GetWatcherEvents', { watcherId })))
  assert.ok(all.some((rs) => rs.status === 500), 'not all of them fit')
  for (const rs of all) if (rs.status === 500) assert.match(rs.json.message, /^watcher error: (too many events that were not fetched|fsnotify: queue or buffer overflow)$/)
  assert.ok(rss() - before < 48_000, `${rss() - before} kB more`)
  for (const watcherId of ids) await succeeds(files('RemoveWatcher', { watcherId }))
  const { watcherId } = await succeeds(files('CreateWatcher', { path: at('stirred') }))
  stir(at('stirred'), 20)
  assert.equal((await succeeds(files('GetWatcherEvents', { watcherId }))).events.length, 22, 'there is room again')
  stir(at('stirred'), 450_000) // more than fits, even if each is taken from the kernel in time
  for (let i = 0; i < 2; i++)
    await fails(files('GetWatcherEvents', { watcherId }), 500, 'internal', /^watcher error: (too many events that were not fetched|fsnotify: queue or buffer overflow)$/)
  await succeeds(files('RemoveWatcher', { watcherId }))
})

await main()
