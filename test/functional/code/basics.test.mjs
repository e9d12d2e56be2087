// The first things that everybody does with a code interpreter, in sandboxes of every kind of access.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, inCodeSandbox, sharedSandbox, stderrOf, stdoutOf } from '../lib/code/suite.mjs'

const suite = await codeSuite()
const { Sandbox, can } = suite

const kinds = {
  'as created': {},
  ...(can.sendTokens ? { secure: { secure: true }, 'private traffic': { secure: true, network: { allowPublicTraffic: false } } } : {}),
}

for (const [kind, options] of Object.entries(kinds))
  test(`${kind}: the first run, state, a second client, callbacks`, async () =>
    inCodeSandbox(suite, async (sandbox) => {
      assert.equal((await sandbox.runCode('x =1; x')).text, '1') // create has returned: no wait
      assert.equal((await sandbox.runCode('x += 1; x')).text, '2')
      const again = await Sandbox.connect(sandbox.sandboxId)
      assert.equal((await again.runCode('x')).text, '2')

      const seen = { stdout: [], stderr: [], results: [], errors: [] }
      const callbacks = { onStdout: (m) => seen.stdout.push(m), onStderr: (m) => seen.stderr.push(m), onResult: (r) => seen.results.push(r), onError: (e) => seen.errors.push(e) }
      await sandbox.runCode('print("hello"); import sys; print("This is an error message", file=sys.stderr); 7', callbacks)
      assert.deepEqual(seen.stdout.map((m) => [m.line, m.error]), [['hello\n', false]])
      assert.deepEqual(seen.stderr.map((m) => [m.line, m.error]), [['This is an error message\n', true]])
      assert.deepEqual(seen.results.map((r) => [r.text, r.isMainResult]), [['7', true]])
      assert.deepEqual(seen.errors, [])
      const failed = await sandbox.runCode('xyz', callbacks)
      assert.deepEqual(seen.errors.map((e) => e.name), ['NameError'])
      assert.deepEqual([failed.error.name, failed.error.value], ['NameError', "name 'xyz' is not defined"])
      assert.match(failed.error.traceback, /NameError/)
    }, options))

const sandbox = await sharedSandbox(suite)

test('output: one message for each print, in order, and in the logs', async () => {
  const execution = await sandbox.runCode('print(1)')
  assert.deepEqual(execution.logs, { stdout: ['1\n'], stderr: [] })
  const both = await sandbox.runCode('import sys\nprint("out")\nprint("err", file=sys.stderr)')
  assert.deepEqual([stdoutOf(both), stderrOf(both)], ['out\n', 'err\n'])
  assert.equal(both.text, undefined)
  assert.deepEqual(both.results, [])
})

test('a command of the shell in Python: the working directory', async () => {
  assert.equal(stdoutOf(await sandbox.runCode('!pwd')).trim(), '/home/user')
})

test('runs are counted for each context', async () =>
  inCodeSandbox(suite, async (own) => {
    const counts = []
    for (const code of ['1', 'print("second")', 'raise ValueError("third")', '']) counts.push((await own.runCode(code)).executionCount)
    assert.deepEqual(counts.slice(0, 3), [1, 2, 3])
    const context = await own.createCodeContext()
    assert.equal((await own.runCode('1', { context })).executionCount, 1)
  }))

test('code that is indented as a whole', async () => {
  assert.equal(stdoutOf(await sandbox.runCode('\n    a = 20\n    if a:\n        print(a + 22)\n')), '42\n')
})

test('a plot and a trailing expression: two results, as they come', async () => {
  const results = []
  const code = 'import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()\nx = "after the plot"\nx'
  const execution = await sandbox.runCode(code, { onResult: (r) => results.push(r) })
  assert.equal(results.length, 2)
  assert.deepEqual(execution.results, results)
  assert.ok(results[0].png && !results[0].isMainResult)
  assert.deepEqual([results[1].text, results[1].isMainResult], ['after the plot', true])
  assert.equal(execution.text, 'after the plot')
})

test('output is streamed while the code runs', async () => {
  let told
  const first = new Promise((done) => (told = done))
  const running = sandbox.runCode('import os, time\nprint("waiting", flush=True)\nwhile not os.path.exists("/tmp/go-on"): time.sleep(0.01)\nprint("went on")', { onStdout: told, timeoutMs: 120_000 })
  assert.equal((await first).line, 'waiting\n')
  await sandbox.files.write('/tmp/go-on', '')
  assert.equal(stdoutOf(await running), 'waiting\nwent on\n')
})

test('runs of one context wait for each other, in order; contexts run side by side', async () => {
  const context = await sandbox.createCodeContext()
  await sandbox.runCode('order = []', { context })
  const many = await Promise.all([1, 2, 3, 4, 5].map((n) => sandbox.runCode(`order.append(${n}); len(order)`, { context })))
  assert.deepEqual(many.map((e) => e.text).sort(), ['1', '2', '3', '4', '5'])
  // Each waits for the other: only possible when both run at the same time.
  const meet = (mine, other) => `import os, time\nopen("/tmp/${mine}", "w").close()\nwhile not os.path.exists("/tmp/${other}"): time.sleep(0.01)\n"met"`
  const [one, two] = await Promise.all([sandbox.runCode(meet('meet-a', 'meet-b')), sandbox.runCode(meet('meet-b', 'meet-a'), { context })])
  assert.deepEqual([one.text, two.text], ['met', 'met'])
})

test('a sandbox of a few seconds: create, run, kill', async () => {
  const short = await Sandbox.create({ timeoutMs: 5_000 })
  assert.equal((await short.runCode('"short"')).text, 'short')
  await short.kill()
})

test('text of every kind arrives as it was written', async () => {
  const text = 'ü 漢字 \u{1f600} \u0085 \u2028 \u2029 \f \u001c "quotes" \\ \t end'
  const execution = await sandbox.runCode(`print(${JSON.stringify(text)})`)
  assert.equal(stdoutOf(execution), text + '\n')
  await sandbox.runCode('del x') // and code that is not ASCII
  assert.equal((await sandbox.runCode('größe = "ß"; größe')).text, 'ß')
})

test('much output: nothing is lost', async () => {
  const execution = await sandbox.runCode('for i in range(20000): print(i)')
  assert.equal(stdoutOf(execution), Array.from({ length: 20000 }, (_, i) => `${i}\n`).join(''))
})

test('there is no input: input() raises', async () => {
  const { error } = await sandbox.runCode('input("name? ")')
  assert.equal(error.name, 'StdinNotImplementedError')
})
