// Failures arrive as the exception classes users catch.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { AuthenticationError, FileNotFoundError, NotFoundError, Sandbox, SandboxError, SandboxNotFoundError, TimeoutError, leakless, withSandbox } = await suite()
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

test('unknown template: the message names it', leakless(async () => {
  await assert.rejects(Sandbox.create('no-such-template'), (e) => e instanceof SandboxError && e.message === "404: template 'no-such-template' not found")
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
