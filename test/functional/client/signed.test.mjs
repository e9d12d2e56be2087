// downloadUrl and uploadUrl: what a browser without the token may do, and for how long.
import assert from 'node:assert/strict'
import test from 'node:test'

import { request } from '../lib/preview.mjs'
import { suite } from '../lib/suite.mjs'

const context = await suite()
const { Sandbox, name, withSandbox } = context
const refused = (message) => [401, JSON.stringify({ code: 401, message })]
const both = ({ status, body }) => [status, body]

/** As it stands, though over plain HTTP the client writes one address for all sandboxes: the signature tells whose it is. */
const open = (method) => (sandbox, url, { headers, ...options } = {}) => {
  const { host, pathname, search, searchParams } = new URL(url)
  return request(context, sandbox, 49983, { method, path: pathname + search, headers: { ...(searchParams.has('signature') ? { Host: host } : {}), ...headers }, ...options })
}
const get = open('GET')
const post = open('POST')

/** A form as a browser sends it: one field `file`, no file name. */
function form(content) {
  const boundary = 'test-boundary-5f1d'
  const body = `--${boundary}\r\nContent-Disposition: form-data; name="file"\r\n\r\n${content}\r\n--${boundary}--\r\n`
  return { body, headers: { 'Content-Type': `multipart/form-data; boundary=${boundary}` } }
}

test('a signed download, with and without an end', withSandbox(async (sandbox) => {
  await sandbox.files.write('a b+c ü.txt', 'content')
  await sandbox.files.write('/root/hello.txt', 'of root', { user: 'root' })
  for (const options of [undefined, { useSignatureExpiration: 120_000 }]) {
    const url = await sandbox.downloadUrl('a b+c ü.txt', options)
    assert.equal(new URL(url).searchParams.has('signature_expiration'), options !== undefined)
    assert.deepEqual(both(await get(sandbox, url)), [200, 'content'])
  }
  assert.deepEqual(both(await get(sandbox, await sandbox.downloadUrl('hello.txt', { user: 'root', useSignatureExpiration: 120_000 }))), [200, 'of root'])
}))

test('a signed upload, as the user and as root', withSandbox(async (sandbox) => {
  for (const [user, home] of [[undefined, '/home/user'], ['root', '/root']]) {
    const answer = await post(sandbox, await sandbox.uploadUrl('hello.txt', { user, useSignatureExpiration: 120_000 }), form('uploaded'))
    assert.equal(answer.status, 200, answer.body)
    assert.deepEqual(JSON.parse(answer.body), [{ name: 'hello.txt', path: `${home}/hello.txt`, type: 'file' }])
    assert.equal(await sandbox.files.read(`${home}/hello.txt`), 'uploaded')
  }
  assert.equal((await post(sandbox, await sandbox.uploadUrl('other.txt'), form('x'))).status, 200)
}))

test('an expired signature: 401 and why', withSandbox(async (sandbox) => {
  await sandbox.files.write('hello.txt', 'x')
  const past = { useSignatureExpiration: -120_000 }
  assert.deepEqual(both(await get(sandbox, await sandbox.downloadUrl('hello.txt', past))), refused('signature is already expired'))
  assert.deepEqual(both(await post(sandbox, await sandbox.uploadUrl('hello.txt', past), form('y'))), refused('signature is already expired'))
  assert.equal(await sandbox.files.read('hello.txt'), 'x')
}))

test('a tampered signature: 401, and nothing is read or written', withSandbox(async (sandbox) => {
  await sandbox.files.write('hello.txt', 'x')
  const url = await sandbox.downloadUrl('hello.txt', { useSignatureExpiration: 120_000 })
  const changed = (field, value) => {
    const u = new URL(url)
    value === null ? u.searchParams.delete(field) : u.searchParams.set(field, value)
    return u.href
  }
  const tampered = { path: '/etc/passwd', signature_expiration: '1999999999', username: 'root', signature: 'v1_' + 'A'.repeat(43) }
  for (const [field, value] of Object.entries(tampered)) assert.deepEqual(both(await get(sandbox, changed(field, value))), refused('invalid signature'), field)
  assert.deepEqual(both(await get(sandbox, changed('signature', null))), refused('missing signature query parameter'))
  assert.deepEqual(both(await post(sandbox, url, form('y'))), refused('invalid signature'), 'a download URL is none for an upload')
  assert.equal(await sandbox.files.read('hello.txt'), 'x')
}))

test('a right signature of a file that is not there: 404 and its path', withSandbox(async (sandbox) => {
  const answer = await get(sandbox, await sandbox.downloadUrl('demo/test.txt', { useSignatureExpiration: 120_000 }))
  assert.deepEqual(both(answer), [404, JSON.stringify({ code: 404, message: "path '/home/user/demo/test.txt' does not exist" })])
}))

test('among many sandboxes a signed URL finds its own, and none when that is gone', withSandbox(async (sandbox) => {
  const others = await Promise.all([Sandbox.create(), Sandbox.create(), Sandbox.create()])
  const all = [...others, sandbox]
  await Promise.all(all.map((box) => box.files.write('who.txt', box.sandboxId)))
  const urls = await Promise.all(all.map((box) => box.downloadUrl('who.txt')))
  for (const [i, box] of all.entries()) assert.deepEqual(both(await get(box, urls[i])), [200, box.sandboxId])
  await Promise.all(others.map((box) => box.kill()))
  const late = await get(others[0], urls[0])
  assert.deepEqual([late.status, JSON.parse(late.body).message], context.transport === 'http' ? [401, 'invalid signature'] : [502, 'The sandbox was not found'])
  assert.deepEqual(both(await get(sandbox, urls[3])), [200, sandbox.sandboxId])
}))

test('a sandbox made open: the older client gets one, the newer one always a token', withSandbox(async (sandbox) => {
  await sandbox.files.write('open.txt', 'open to all')
  const url = await sandbox.downloadUrl('open.txt')
  assert.equal(new URL(url).searchParams.has('signature'), name === 'e2b')
  assert.deepEqual(both(await get(sandbox, url)), [200, 'open to all'])
  const bare = await get(sandbox, 'http://any/files?path=open.txt')
  assert.equal(bare.status, name === 'e2b' ? 401 : 200)
}, { secure: false }))

test('commands, watches and a second connection work with the token', withSandbox(async (sandbox) => {
  const again = await Sandbox.connect(sandbox.sandboxId)
  assert.ok(again.envdAccessToken)
  assert.equal(again.envdAccessToken, sandbox.envdAccessToken)
  assert.equal((await again.commands.run('echo secured')).stdout, 'secured\n')
  const seen = new Promise((done) => again.files.watchDir('/tmp', done).then(() => sandbox.files.write('/tmp/x', 'x')))
  assert.equal((await seen).name, 'x')
  assert.deepEqual(both(await get(again, await again.downloadUrl('/tmp/x'))), [200, 'x'])
}))
