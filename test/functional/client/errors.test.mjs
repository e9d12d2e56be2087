// Failures arrive as the exception classes users catch.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { AuthenticationError, FileNotFoundError, InvalidArgumentError, NotFoundError, Sandbox, SandboxError, SandboxNotFoundError, TimeoutError, leakless, withSandbox } = await suite()
const unknown = 'i' + 'x0'.repeat(10)
const wrongKey = 'e2b_' + '0'.repeat(40)

test('wrong key: AuthenticationError', leakless(async () => {
  await assert.rejects(Sandbox.create({ apiKey: wrongKey }), AuthenticationError)
  await assert.rejects(Sandbox.getInfo(unknown, { apiKey: wrongKey }), AuthenticationError)
  await assert.rejects(Sandbox.kill(unknown, { apiKey: wrongKey }), AuthenticationError)
  await assert.rejects(Sandbox.list({ apiKey: wrongKey }).nextItems(), AuthenticationError)
}))

test('unknown sandbox: SandboxNotFoundError, kill is false', leakless(async () => {
  await assert.rejects(Sandbox.connect(unknown), SandboxNotFoundError)
  await assert.rejects(Sandbox.getInfo(unknown), SandboxNotFoundError)
  await assert.rejects(Sandbox.setTimeout(unknown, 1000), SandboxNotFoundError)
  assert.equal(await Sandbox.kill(unknown), false)
}))

test('unknown template: the message names it, and those that there are', leakless(async () => {
  await assert.rejects(Sandbox.create('no-such-template'), (e) => e instanceof SandboxError && /^404: template 'no-such-template' not found\. There are: (.*, )?base\b/.test(e.message))
}))

test('calls into a killed sandbox: TimeoutError, or not found for a stream', leakless(async () => {
  const sandbox = await Sandbox.create()
  await sandbox.kill()
  await assert.rejects(sandbox.files.read('/etc/passwd'), TimeoutError)
  await assert.rejects(sandbox.files.exists('/etc/passwd'), TimeoutError)
  await assert.rejects(sandbox.commands.run('true'), (e) => e instanceof SandboxNotFoundError || e instanceof TimeoutError)
}))

test('files and processes that are not there', withSandbox(async (sandbox) => {
  await assert.rejects(sandbox.files.read('none'), FileNotFoundError)
  await assert.rejects(sandbox.files.list('none'), NotFoundError)
  await assert.rejects(sandbox.commands.connect(999999), NotFoundError)
}))

test('a user that does not exist: AuthenticationError', withSandbox(async (sandbox) => {
  await assert.rejects(sandbox.commands.run('true', { user: 'nobody-here' }), AuthenticationError)
  await assert.rejects(sandbox.files.read('/etc/passwd', { user: 'nobody-here' }), AuthenticationError)
}))

test('a timeout beyond the limit is refused and nothing is created', leakless(async () => {
  await assert.rejects(Sandbox.create({ timeoutMs: 1000 * 3600 * 1000 }), (e) => e instanceof SandboxError && /^400: Timeout cannot be greater than/.test(e.message))
}))

test('paths that cannot be: InvalidArgumentError, from every call', withSandbox(async ({ files, commands }) => {
  for (const path of ['/tmp/' + 'n'.repeat(256), '/tmp' + '/deep'.repeat(1000), '~nobody/x'])
    for (const call of [() => files.read(path), () => files.write(path, 'x'), () => files.list(path), () => files.getInfo(path), () => files.exists(path), () => files.makeDir(path), () => files.remove(path), () => files.rename(path, '/tmp/x'), () => files.watchDir(path, () => {}), () => commands.run('true', { cwd: path })])
      await assert.rejects(call(), (e) => e instanceof InvalidArgumentError && /too long|expand/.test(e.message), `${call} ${path.slice(0, 20)}`)
}))

test('pipes, devices and circles of links: an error, at once', withSandbox(async ({ files, commands }) => {
  await commands.run('mkfifo pipe; ln -s circle circle')
  for (const path of ['pipe', '/dev/zero', '/dev/tty']) {
    await assert.rejects(files.read(path), InvalidArgumentError, path)
    await assert.rejects(files.read(path, { format: 'stream' }), InvalidArgumentError, path)
  }
  await assert.rejects(files.write('pipe', 'x'), (e) => e instanceof SandboxError && /no such device or address/.test(e.message))
  await assert.rejects(files.read('circle'), (e) => e instanceof SandboxError && /too many levels of symbolic links/.test(e.message))
  await assert.rejects(files.list('circle'), SandboxError)
  assert.equal((await files.getInfo('circle')).symlinkTarget, '/home/user/circle')
  await files.remove('circle')
  await files.remove('pipe')
  assert.deepEqual((await files.list('.')).filter((e) => !e.name.startsWith('.')), [])
}))
