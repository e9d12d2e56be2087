// files.watchDir, and the polling calls that other clients use instead.
import assert from 'node:assert/strict'
import test from 'node:test'

import { request } from '../lib/preview.mjs'
import { suite } from '../lib/suite.mjs'

const context = await suite()
const { FileNotFoundError, FileType, FilesystemEventType, SandboxError, withSandbox } = context
const { CREATE, WRITE, REMOVE, RENAME, CHMOD } = FilesystemEventType

/** Watch, and wait for events: until(type, name) resolves with that event. */
async function watch(sandbox, dir, options) {
  const events = []
  let wake = () => {}
  const exit = {}
  exit.promise = new Promise((done) => (exit.done = done))
  const handle = await sandbox.files.watchDir(dir, (event) => { events.push(event); wake() }, { onExit: (error) => exit.done(error ?? null), ...options })
  const find = (type, name) => events.find((e) => e.type === type && e.name === name)
  const until = async (type, name) => {
    while (!find(type, name)) await new Promise((done) => (wake = done))
    return find(type, name)
  }
  return { handle, events, until, exited: exit.promise, kinds: () => events.map((e) => `${e.type} ${e.name}`) }
}

/** The polling calls: no client in this language makes them. */
const poll = async (sandbox, name, message) => {
  const headers = { 'Content-Type': 'application/json', 'X-Access-Token': sandbox.envdAccessToken }
  const answer = await request(context, sandbox, 49983, { method: 'POST', path: `/filesystem.Filesystem/${name}`, headers, body: JSON.stringify(message) })
  return { status: answer.status, ...JSON.parse(answer.body) }
}

test('a write to an existing file, a removal, a rename, new permissions', withSandbox(async (sandbox) => {
  await sandbox.files.write('place/old.txt', 'old')
  const seen = await watch(sandbox, 'place')
  await sandbox.files.write('place/old.txt', 'new')
  assert.equal((await seen.until(WRITE, 'old.txt')).entry, undefined)
  await sandbox.commands.run('chmod 600 place/old.txt; mv place/old.txt place/moved.txt; rm place/moved.txt')
  await seen.until(REMOVE, 'moved.txt')
  const kinds = seen.kinds()
  const order = [`${CHMOD} old.txt`, `${RENAME} old.txt`, `${CREATE} moved.txt`, `${REMOVE} moved.txt`]
  assert.deepEqual(kinds.filter((k) => order.includes(k)).slice(-4), order)
  await seen.handle.stop()
  await seen.exited
}))

test('a tree: what is there, and folders made later', withSandbox(async (sandbox) => {
  await sandbox.files.write('tree/nested/file', 'old')
  const flat = await watch(sandbox, 'tree')
  const seen = await watch(sandbox, 'tree/', { recursive: true })
  await sandbox.files.write('tree/nested/file', 'new')
  await seen.until(WRITE, 'nested/file')
  await sandbox.files.makeDir('tree/nested/later')
  await seen.until(CREATE, 'nested/later')
  await sandbox.files.write('tree/nested/later/deep.txt', 'x')
  await seen.until(WRITE, 'nested/later/deep.txt')
  await sandbox.files.write('tree/last.txt', 'x')
  await flat.until(WRITE, 'last.txt')
  assert.ok(flat.events.every((e) => !e.name.includes('/')), flat.kinds().join())
  await Promise.all([flat.handle.stop(), seen.handle.stop()])
}))

test('all there is: directories nobody may look into are left out', withSandbox(async (sandbox) => {
  const seen = await watch(sandbox, '/', { recursive: true })
  await sandbox.files.write('anywhere/deep.txt', 'x')
  await seen.until(CREATE, 'home/user/anywhere/deep.txt')
  await seen.handle.stop()
  await seen.exited
}))

test('events with what they are about', withSandbox(async (sandbox) => {
  await sandbox.files.makeDir('place')
  const seen = await watch(sandbox, 'place', { includeEntry: true, allowNetworkMounts: true })
  await sandbox.files.write('place/new.txt', 'twelve bytes')
  const { entry } = await seen.until(WRITE, 'new.txt')
  assert.deepEqual([entry.name, entry.path, entry.type], ['new.txt', '/home/user/place/new.txt', FileType.FILE])
  await sandbox.files.makeDir('place/dir')
  assert.equal((await seen.until(CREATE, 'dir')).entry.type, FileType.DIR)
  await sandbox.files.remove('place/new.txt')
  assert.equal((await seen.until(REMOVE, 'new.txt')).entry, undefined)
  await seen.handle.stop()
}))

test('nothing to watch, or no directory', withSandbox(async (sandbox) => {
  await sandbox.files.write('file.txt', 'x')
  await assert.rejects(sandbox.files.watchDir('none', () => {}), FileNotFoundError)
  await assert.rejects(sandbox.files.watchDir('file.txt', () => {}), (e) => e instanceof SandboxError && /not a directory/.test(e.message))
}))

test('the end of a watch is told: its time is over, its sandbox is gone', withSandbox(async (sandbox) => {
  const short = await watch(sandbox, '/tmp', { timeoutMs: 4000 })
  assert.equal((await short.exited).name, 'TimeoutError')
  const long = await watch(sandbox, '/tmp', { timeoutMs: 0 })
  await sandbox.kill()
  assert.match(String(await long.exited), /killed or reached its end of life/)
}))

test('polled: one upload is exactly three events, fetched once', withSandbox(async (sandbox) => {
  for (const [path, recursive, file, name] of [['place', false, 'place/one.txt', 'one.txt'], ['tree/', true, 'tree/sub/two.txt', 'sub/two.txt']]) {
    await sandbox.files.makeDir(recursive ? 'tree/sub' : 'place')
    const { watcherId } = await poll(sandbox, 'CreateWatcher', { path, recursive })
    assert.match(watcherId, /^w[a-z0-9]{20}$/)
    const fetch = async () => ((await poll(sandbox, 'GetWatcherEvents', { watcherId })).events ?? []).map((e) => `${e.type} ${e.name}`)
    await sandbox.files.write(file, 'content')
    assert.deepEqual(await fetch(), ['CREATE', 'CHMOD', 'WRITE'].map((k) => `EVENT_TYPE_${k} ${name}`))
    assert.deepEqual(await fetch(), [])
    await sandbox.files.write(file, 'other content')
    assert.ok((await fetch()).includes(`EVENT_TYPE_WRITE ${name}`))
    assert.equal((await poll(sandbox, 'RemoveWatcher', { watcherId })).status, 200)
    const gone = await poll(sandbox, 'GetWatcherEvents', { watcherId })
    assert.deepEqual([gone.status, gone.code, gone.message], [404, 'not_found', `watcher with id ${watcherId} not found`])
  }
}))
