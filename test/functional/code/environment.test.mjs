// Variables: of the sandbox, and of one run.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, inCodeSandbox, sharedSandbox, stdoutOf } from '../lib/code/suite.mjs'

const suite = await codeSuite()
const { can } = suite
const sandbox = await sharedSandbox(suite, { envs: { OF_SANDBOX: 'sandbox', QUOTED: `it's "quoted" \\ $HOME \`x\` ü` } })

/** How each language reads a variable; `default` when there is none. */
const read = {
  python: (name) => `import os; print(os.getenv("${name}", "default"))`,
  javascript: (name) => `console.log(process.env.${name} || "default")`,
  typescript: (name) => `console.log(process.env.${name} || "default")`,
  r: (name) => `cat(Sys.getenv("${name}", "default"), "\\n", sep = "")`,
  java: (name) => `System.out.println(System.getProperty("${name}", "default"));`,
  bash: (name) => `echo "\${${name}:-default}"`,
}

for (const [language, variable] of Object.entries(read)) {
  const value = async (name, options = {}) => stdoutOf(await sandbox.runCode(variable(name), { language, timeoutMs: 120_000, ...options })).trim()

  test(`${language}: variables of the sandbox and of a run`, async () => {
    assert.equal(await value('OF_SANDBOX'), 'sandbox')
    assert.equal(await value('QUOTED'), `it's "quoted" \\ $HOME \`x\` ü`)
    assert.equal(await value('OF_RUN', { envs: { OF_RUN: 'run' } }), 'run')
    assert.equal(await value('OF_RUN'), 'default', 'gone with its run')
    assert.equal(await value('OF_SANDBOX', { envs: { OF_SANDBOX: 'replaced' } }), 'replaced')
    assert.equal(await value('OF_SANDBOX'), 'sandbox', 'as before')
  })

  test(`${language}: values with quotes, blanks and line ends`, async () => {
    for (const text of [`a'b"c`, '$(echo no) `echo no` $HOME', 'back\\slash\\n', '  blanks  ', 'ü漢\u{1f600}', "''' \"\"\" '", '${x}', '%s%n', '#{x}', ''])
      assert.equal(await value('TEXT', { envs: { TEXT: text } }), (text || (['python', 'r', 'java'].includes(language) ? '' : 'default')).trim(), JSON.stringify(text))
    const lines = stdoutOf(await sandbox.runCode(variable('TEXT'), { language, envs: { TEXT: 'one\ntwo' } })).replaceAll('\r', '')
    assert.equal(lines.trim(), 'one\ntwo')
  })
}

test('java: a value longer than a constant of a class, and a variable after it', async () => {
  const long = 'ü\u{1f600}x'.repeat(20_000)
  const options = { language: 'java', timeoutMs: 120_000, envs: { LONG: long, AFTER: 'after' } }
  const code = 'System.out.println(System.getProperty("LONG").length() + " " + System.getProperty("LONG").hashCode() + " " + System.getProperty("AFTER"));'
  let hash = 0
  for (let i = 0; i < long.length; i++) hash = (Math.imul(hash, 31) + long.charCodeAt(i)) | 0
  assert.equal(stdoutOf(await sandbox.runCode(code, options)).trim(), `${long.length} ${hash} after`)
})

test('variables of a run leave no trace: names of the language, line numbers, magics', async () => {
  assert.match((await sandbox.runCode('1 / 0', { envs: { A: 'b' } })).error.traceback, /line 1/)
  assert.equal(stdoutOf(await sandbox.runCode('%%bash\necho $A', { envs: { A: 'in bash' } })), 'in bash\n')
  const context = await sandbox.createCodeContext()
  assert.equal((await sandbox.runCode('os', { context, envs: { A: 'b' } })).error?.name, 'NameError')
  assert.equal((await sandbox.runCode('1', { context })).executionCount, 2)
})

test('a variable that the run changes itself is put back', async () => {
  const script = 'import os; os.environ["OF_SANDBOX"] = "changed"; del os.environ["OF_RUN"]'
  await sandbox.runCode(script, { envs: { OF_RUN: 'x', OF_SANDBOX: 'y' } })
  assert.equal(stdoutOf(await sandbox.runCode(read.python('OF_SANDBOX'))).trim(), 'sandbox')
})

if (can.listContexts)
  test('a restarted context has the variables of the sandbox again', async () => {
    const context = await sandbox.createCodeContext()
    await sandbox.runCode('import os; os.environ["OF_SANDBOX"] = "changed"', { context })
    await sandbox.restartCodeContext(context)
    assert.equal(stdoutOf(await sandbox.runCode(read.python('OF_SANDBOX'), { context })).trim(), 'sandbox')
  })

test('each sandbox has its own variables, and knows its own id', async () =>
  inCodeSandbox(suite, async (other) => {
    assert.equal(stdoutOf(await other.runCode(read.python('OF_SANDBOX'))).trim(), 'other')
    assert.equal(stdoutOf(await other.runCode(read.javascript('OF_SANDBOX'), { language: 'js' })).trim(), 'other')
    for (const [one, id] of [[sandbox, sandbox.sandboxId], [other, other.sandboxId]]) {
      const own = stdoutOf(await one.runCode('import os, socket; print(os.environ.get("E2B_SANDBOX_ID"), socket.gethostname())')).trim().split(' ')
      assert.equal(own[0].split('-')[0], id.split('-')[0])
    }
  }, { envs: { OF_SANDBOX: 'other' } }))

if (can.sendTokens)
  test('a secure sandbox gives its variables to a client with its token', async () =>
    inCodeSandbox(suite, async (secure) => {
      assert.equal(stdoutOf(await secure.runCode(read.python('OF_SANDBOX'))).trim(), 'secured')
    }, { secure: true, envs: { OF_SANDBOX: 'secured' } }))
