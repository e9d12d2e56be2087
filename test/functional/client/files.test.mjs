// files.*: write, read, list, exists, remove, rename, makeDir, getInfo.
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { FileNotFoundError, FileType, withSandbox } = await suite()
const digest = (bytes) => createHash('sha256').update(bytes).digest('hex')

test('write and read back in every form', withSandbox(async ({ files }) => {
  const bytes = randomBytes(230_000)
  const forms = { text: 'plain ünïcode\n', empty: '', buffer: new Uint8Array(bytes).buffer, blob: new Blob([bytes]), stream: new Blob([bytes]).stream() }
  for (const [name, form] of Object.entries(forms)) {
    const info = await files.write(`forms/${name}`, form)
    assert.deepEqual([info.name, info.type, info.path], [name, 'file', `/home/user/forms/${name}`])
  }
  assert.equal(await files.read('forms/text'), forms.text)
  assert.equal(await files.read('forms/empty'), '')
  for (const name of ['buffer', 'blob', 'stream'])
    assert.equal(digest(await files.read(`forms/${name}`, { format: 'bytes' })), digest(bytes), name)
  const pieces = []
  for await (const piece of await files.read('forms/blob', { format: 'stream' })) pieces.push(piece)
  assert.equal(digest(Buffer.concat(pieces)), digest(bytes))
}))

test('several files in one call keep their order', withSandbox(async ({ files }) => {
  const many = Array.from({ length: 10 }, (_, i) => ({ path: `many/${i}.txt`, data: `file ${i}` }))
  assert.deepEqual((await files.write(many)).map((f) => f.path), many.map((f) => `/home/user/${f.path}`))
  for (const f of many) assert.equal(await files.read(f.path), f.data)
  assert.deepEqual(await files.write([]), [])
  assert.deepEqual((await files.write([{ path: '/tmp/one.txt', data: '1' }])).map((f) => f.path), ['/tmp/one.txt'])
}))

test('overwriting shortens; missing directories are made; owner is the user', withSandbox(async ({ files, commands }) => {
  await files.write('/0/deep/er/x.txt', 'a longer text')
  await files.write('/0/deep/er/x.txt', 'short')
  assert.equal(await files.read('/0/deep/er/x.txt'), 'short')
  assert.equal((await commands.run('stat -c "%U %G %a" /0/deep /0/deep/er/x.txt')).stdout, 'user user 755\nuser user 644\n')
}))

test('names with blanks, quotes, percent signs and other scripts', withSandbox(async ({ files }) => {
  for (const name of ['with blank.txt', "it's \"quoted\".txt", '100%25.txt', 'plus+and&amp=.txt', '漢字 ü.txt', '#hash?query.txt']) {
    await files.write(`names/${name}`, name)
    assert.equal(await files.read(`names/${name}`), name)
    assert.equal(await files.exists(`names/${name}`), true)
  }
  assert.equal((await files.list('names')).length, 6)
}))

test('getInfo of file, directory, link', withSandbox(async ({ files, commands }) => {
  await files.write('info.txt', 'thirteen chars')
  const file = await files.getInfo('info.txt')
  assert.deepEqual([file.name, file.type, file.path, file.size, file.mode, file.permissions, file.owner, file.group],
    ['info.txt', FileType.FILE, '/home/user/info.txt', 14, 0o644, '-rw-r--r--', 'user', 'user'])
  assert.ok(Math.abs(file.modifiedTime - Date.now()) < 60_000)
  await files.makeDir('place')
  const dir = await files.getInfo('place')
  assert.deepEqual([dir.type, dir.mode, dir.permissions], [FileType.DIR, 0o755, 'drwxr-xr-x'])
  await commands.run('ln -s info.txt link.txt')
  const link = await files.getInfo('link.txt')
  assert.deepEqual([link.name, link.type, link.symlinkTarget], ['link.txt', FileType.FILE, '/home/user/info.txt'])
  await assert.rejects(files.getInfo('missing'), FileNotFoundError)
}))

test('list by depth, sorted', withSandbox(async ({ files, commands }) => {
  await commands.run('mkdir -p tree/subdir1/subdir1_1 tree/subdir1/subdir1_2 tree/subdir2/subdir2_1 tree/subdir2/subdir2_2; touch tree/file1.txt')
  const names = async (depth) => (await files.list('tree', { depth })).map((e) => e.name)
  assert.deepEqual(await names(1), ['file1.txt', 'subdir1', 'subdir2'])
  assert.deepEqual(await names(2), ['file1.txt', 'subdir1', 'subdir1_1', 'subdir1_2', 'subdir2', 'subdir2_1', 'subdir2_2'])
  assert.deepEqual(await names(3), await names(2))
  await files.makeDir('tree/subdir1/subdir1_1/deepest')
  assert.deepEqual((await names(3)).slice(1, 4), ['subdir1', 'subdir1_1', 'deepest'])
  assert.ok((await files.list('tree', { depth: 3 })).every((e) => e.symlinkTarget === undefined))
  await assert.rejects(files.list('missing'), FileNotFoundError)
}))

test('makeDir, exists, rename, remove', withSandbox(async ({ files }) => {
  assert.equal(await files.makeDir('a/b/c'), true)
  assert.equal(await files.makeDir('a/b/c'), false)
  assert.equal(await files.exists('a/b/c'), true)
  await files.write('a/one.txt', '1')
  const moved = await files.rename('a/one.txt', 'a/two.txt')
  assert.equal(moved.path, '/home/user/a/two.txt')
  assert.equal(await files.exists('a/one.txt'), false)
  assert.equal(await files.read('a/two.txt'), '1')
  await assert.rejects(files.rename('a/none', 'a/some'), FileNotFoundError)
  await files.remove('a')
  assert.equal(await files.exists('a'), false)
  await files.remove('a') // silent when there is nothing
}))

test('files of the kernel are read to their end, whatever length they claim', withSandbox(async ({ files }) => {
  assert.match(await files.read('/proc/sys/kernel/random/boot_id'), /^[0-9a-f-]{36}\n$/)
}))

test('reading what is not there, or no file', withSandbox(async ({ files }) => {
  await assert.rejects(files.read('missing.txt'), FileNotFoundError)
  await assert.rejects(files.read('missing.txt', { format: 'stream' }), FileNotFoundError)
  await assert.rejects(files.read('/etc'), { name: 'InvalidArgumentError' })
}))

test('another user: home of root, files owned by root', withSandbox(async ({ files, commands }) => {
  const info = await files.write('as-root.txt', 'r', { user: 'root' })
  assert.equal(info.path, '/root/as-root.txt')
  assert.equal((await commands.run('sudo stat -c %U /root/as-root.txt')).stdout, 'root\n')
  assert.equal(await files.read('as-root.txt', { user: 'root' }), 'r')
}))

test('fifty megabytes both ways, byte for byte', withSandbox(async ({ files, commands }) => {
  const bytes = randomBytes(50 << 20)
  await files.write('/tmp/big', new Blob([bytes]))
  assert.match((await commands.run('sha256sum /tmp/big')).stdout, new RegExp(digest(bytes)))
  assert.equal(digest(await files.read('/tmp/big', { format: 'bytes' })), digest(bytes))
}))
