// files.*: ways of sending and receiving, metadata, streams.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { FileNotFoundError, FileType, InvalidArgumentError, withSandbox } = await suite()
const digest = (bytes) => createHash('sha256').update(bytes).digest('hex')
const ways = { form: { useOctetStream: false }, octets: { useOctetStream: true }, packed: { gzip: true } }

test('form, octet stream and gzip bring the same bytes', withSandbox(async ({ files, commands }) => {
  const bytes = randomBytes(150_000)
  for (const [name, way] of Object.entries(ways))
    for (const data of ['text ü\n', new Uint8Array(bytes).buffer, new Blob([bytes]), new Blob([bytes]).stream(), '']) {
      const info = await files.write(`${name}/x`, data, way)
      assert.deepEqual([info.name, info.type, info.path], ['x', 'file', `/home/user/${name}/x`])
      const want = typeof data === 'string' ? Buffer.from(data) : bytes
      assert.equal(digest(await files.read(`${name}/x`, { format: 'bytes' })), digest(want), name)
      assert.equal(digest(await files.read(`${name}/x`, { format: 'bytes', gzip: true })), digest(want), name)
      assert.match((await commands.run(`sha256sum ${name}/x`)).stdout, new RegExp(digest(want)))
    }
  const several = await files.write([{ path: 'm/1', data: 'one' }, { path: 'm/2', data: new Blob(['two']) }], ways.packed)
  assert.deepEqual(several.map((f) => f.path), ['/home/user/m/1', '/home/user/m/2'])
  assert.equal(await files.read('m/2'), 'two')
}))

test('metadata is told by write, getInfo, list and rename, and replaced as a whole', withSandbox(async ({ files, commands }) => {
  const metadata = { author: 'someone', purpose: 'a test = & %41' }
  for (const way of Object.values(ways)) {
    assert.deepEqual((await files.write('m.txt', 'x', { ...way, metadata })).metadata, metadata)
    assert.deepEqual((await files.getInfo('m.txt')).metadata, metadata)
    assert.deepEqual((await files.list('.')).find((e) => e.name === 'm.txt').metadata, metadata)
    assert.deepEqual((await files.rename('m.txt', 'n.txt')).metadata, metadata)
    assert.deepEqual((await files.write('n.txt', 'x', { ...way, metadata: { other: '1' } })).metadata, { other: '1' })
    await files.write('n.txt', 'x', way)
    assert.deepEqual((await files.getInfo('n.txt')).metadata ?? {}, {})
  }
  const batch = await files.write([{ path: 'b/1', data: '1' }, { path: 'b/2', data: '2' }], { metadata })
  assert.deepEqual(batch.map((f) => f.metadata), [metadata, metadata])
  await commands.run(`python3 -c "import os; os.setxattr('n.txt', 'user.e2b.author', b'me'); os.setxattr('n.txt', 'user.unrelated', b'x')"`)
  assert.deepEqual((await files.getInfo('n.txt')).metadata, { author: 'me' })
  for (const bad of [{ 'white space': 'x' }, { key: 'line\nbreak' }, { key: 'ü' }, { '': 'x' }])
    await assert.rejects(files.write('never.txt', 'x', { metadata: bad }), Error)
  assert.equal(await files.exists('never.txt'), false)
}))

test('streams: empty, whole, given up half-way', withSandbox(async ({ files }) => {
  const bytes = randomBytes(8 << 20)
  await files.write('big', new Blob([bytes]))
  await files.write('empty', '')
  for (const format of ['text', 'bytes', 'blob', 'stream']) {
    const got = await files.read('empty', { format })
    if (format === 'stream') for await (const piece of got) assert.fail(`${piece.length} bytes`)
    else assert.equal(got.length ?? got.size, 0, format)
  }
  const reader = (await files.read('big', { format: 'stream' })).getReader()
  const first = await reader.read()
  assert.deepEqual(Buffer.from(first.value), bytes.subarray(0, first.value.length))
  await reader.cancel()
  for (let i = 0; i < 20; i++) { // more than the client has connections: each must be given back
    const half = await files.read('big', { format: 'stream' })
    await half.cancel()
  }
  assert.equal(digest(await files.read('big', { format: 'bytes' })), digest(bytes))
  await assert.rejects(files.read('none', { format: 'stream' }), FileNotFoundError)
}))

test('getInfo and list of links, directories, pipes', withSandbox(async ({ files, commands }) => {
  await commands.run('mkdir -p d/e; touch d/f; ln -s d dl; ln -s nowhere broken; ln -s /home/user/d/f d/fl; mkfifo pipe')
  const dir = await files.getInfo('d')
  assert.deepEqual([dir.type, dir.permissions, dir.owner, dir.group, dir.symlinkTarget], [FileType.DIR, 'drwxr-xr-x', 'user', 'user', undefined])
  assert.ok(dir.size > 0)
  const link = await files.getInfo('dl')
  assert.deepEqual([link.type, link.symlinkTarget, link.permissions], [FileType.DIR, '/home/user/d', 'Lrwxrwxrwx'])
  assert.equal((await files.getInfo('broken')).symlinkTarget, '/home/user/broken')
  const names = (await files.list('dl', { depth: 3 })).map((e) => [e.name, e.type, e.path, e.symlinkTarget])
  assert.deepEqual(names, [
    ['e', 'dir', '/home/user/dl/e', undefined],
    ['f', 'file', '/home/user/dl/f', undefined],
    ['fl', 'file', '/home/user/dl/fl', '/home/user/d/f'],
  ])
  assert.ok(!(await files.list('.')).some((e) => e.name === 'pipe'), 'neither file nor directory')
  await assert.rejects(files.list('.', { depth: -1 }), InvalidArgumentError)
  await assert.rejects(files.list('d/f'), InvalidArgumentError)
}))

test('what cannot be written', withSandbox(async ({ files }) => {
  await files.write('file', 'x')
  await assert.rejects(files.write('file/below', 'y'), /path is a file/)
  await assert.rejects(files.write('/tmp', 'y'), InvalidArgumentError)
  await assert.rejects(files.makeDir('file'), InvalidArgumentError)
  assert.equal(await files.read('file'), 'x')
}))
