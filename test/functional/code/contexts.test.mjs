// Contexts: made, listed, restarted, removed; each with state of its own.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, inCodeSandbox, stdoutOf } from '../lib/code/suite.mjs'

const suite = await codeSuite()
const { can } = suite
const requestTimeoutMs = 10_000 // a client whose request failed keeps its process until this time is over

test('a context has its own state and directory', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const plain = await sandbox.createCodeContext()
    assert.deepEqual([plain.language, plain.cwd], ['python', '/home/user'])
    const root = await sandbox.createCodeContext({ language: 'python', cwd: '/root' })
    assert.deepEqual([root.language, root.cwd], ['python', '/root'])
    assert.notEqual(plain.id, root.id)
    await sandbox.runCode('x = 1')
    const { error } = await sandbox.runCode('x', { context: plain })
    assert.deepEqual([error.name, error.value], ['NameError', "name 'x' is not defined"])
    assert.equal((await sandbox.runCode('import os; os.getcwd()', { context: root })).text, '/root')
    assert.equal((await sandbox.runCode('import os; os.getcwd()', { context: plain })).text, '/home/user')
    assert.equal((await sandbox.runCode('x')).text, '1')
  }))

const kinds = can.listContexts
  ? { 'as created': {}, 'private traffic': { secure: true, network: { allowPublicTraffic: false } } }
  : {}

for (const [kind, options] of Object.entries(kinds))
  test(`${kind}: listed, restarted, removed`, async () =>
    inCodeSandbox(suite, async (sandbox) => {
      const first = await sandbox.listCodeContexts()
      assert.deepEqual(first.map((c) => [c.language, c.cwd]), [['python', '/home/user'], ['javascript', '/home/user']])

      const plain = await sandbox.createCodeContext()
      assert.deepEqual((await sandbox.listCodeContexts()).at(-1), plain)
      const root = await sandbox.createCodeContext({ language: 'python', cwd: '/root' })
      assert.deepEqual((await sandbox.listCodeContexts()).at(-1), root)
      assert.deepEqual(root, { id: root.id, language: 'python', cwd: '/root' })

      await sandbox.runCode('x = 1', { context: plain })
      await sandbox.restartCodeContext(plain)
      const { error, executionCount } = await sandbox.runCode('x', { context: plain })
      assert.deepEqual([error.name, error.value, executionCount], ['NameError', "name 'x' is not defined", 1])
      await sandbox.restartCodeContext(plain.id)
      assert.deepEqual((await sandbox.listCodeContexts()).map((c) => c.id), [...first, plain, root].map((c) => c.id))

      await sandbox.removeCodeContext(plain)
      assert.deepEqual((await sandbox.listCodeContexts()).map((c) => c.id), [...first, root].map((c) => c.id))
      await sandbox.removeCodeContext(root.id)
      assert.deepEqual(await sandbox.listCodeContexts(), first)
    }, options))

if (can.listContexts)
  test('what is not there is not found', async () =>
    inCodeSandbox(suite, async (sandbox) => {
      const gone = await sandbox.createCodeContext()
      await sandbox.removeCodeContext(gone)
      const notFound = (e) => e instanceof suite.NotFoundError && e.message.includes(`Context ${gone.id} not found`)
      await assert.rejects(sandbox.runCode('1', { context: gone, requestTimeoutMs }), notFound)
      await assert.rejects(sandbox.removeCodeContext(gone), notFound)
      await assert.rejects(sandbox.restartCodeContext(gone), notFound)
    }))

if (can.listContexts)
  test('defaults: one for each language, made at the first use; a removed one comes back', async () =>
    inCodeSandbox(suite, async (sandbox) => {
      await Promise.all([1, 2, 3].map((n) => sandbox.runCode(`echo ${n}`, { language: 'bash' })))
      const contexts = await sandbox.listCodeContexts()
      assert.deepEqual(contexts.map((c) => c.language), ['python', 'javascript', 'bash'])
      await sandbox.runCode('kept=yes', { language: 'bash' })
      assert.equal(stdoutOf(await sandbox.runCode('echo $kept', { context: contexts[2] })).trim(), 'yes')
      await sandbox.runCode('x = 1')
      await sandbox.removeCodeContext(contexts[0])
      assert.equal((await sandbox.runCode('1 + 1')).text, '2')
      assert.equal((await sandbox.runCode('x')).error.name, 'NameError')
      assert.equal((await sandbox.listCodeContexts()).filter((c) => c.language === 'python').length, 1)
    }))

test('context and language together: the client refuses', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const context = await sandbox.createCodeContext()
    await assert.rejects(sandbox.runCode('1', { context, language: 'python' }), suite.InvalidArgumentError)
  }))

test('an unknown language is an error of the server, and makes no context', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await assert.rejects(sandbox.createCodeContext({ language: 'cobol' }), suite.SandboxError)
    await assert.rejects(sandbox.runCode('DISPLAY "x"', { language: 'cobol', requestTimeoutMs }), suite.SandboxError)
    if (can.listContexts) assert.deepEqual((await sandbox.listCodeContexts()).map((c) => c.language), ['python', 'javascript'])
  }))
