// What goes wrong: code over its time, kernels and services that die, sandboxes that end.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, inCodeSandbox, languages, stdoutOf } from '../lib/code/suite.mjs'
import { until } from '../lib/wait.mjs'

const suite = await codeSuite()
const { can, TimeoutError } = suite

const endless = {
  python: 'import time\nprint("began", flush=True)\ntime.sleep(300)',
  javascript: 'console.log("began"); while (true);',
  typescript: 'console.log("began"); while (true);',
  r: 'cat("began\\n"); flush.console(); Sys.sleep(300)',
  java: 'System.out.println("began"); Thread.sleep(300_000);',
  bash: 'echo began; sleep 300',
}

test('a client that does not wait any more: the run is interrupted, the context goes on', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await sandbox.runCode('x = "kept"')
    for (const [language, code] of Object.entries(endless)) {
      await sandbox.runCode(languages[language].hello, { language, timeoutMs: 120_000 })
      await assert.rejects(sandbox.runCode(code, { language, timeoutMs: 3_000 }), (e) => e instanceof TimeoutError, language)
      assert.match(stdoutOf(await sandbox.runCode(languages[language].hello, { language, timeoutMs: 60_000 })), /hello/, language)
    }
    assert.equal((await sandbox.runCode('x')).text, 'kept')
    assert.equal((await sandbox.runCode('1 + 1')).text, '2')
  }))

test('a client that leaves the queue: its code never runs, the running code does', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    let began
    const isRunning = new Promise((done) => (began = done))
    const first = sandbox.runCode('import os, time\nprint("runs", flush=True)\nwhile not os.path.exists("/tmp/on"): time.sleep(0.01)\n"ended"', { onStdout: began, timeoutMs: 120_000 })
    await isRunning
    await assert.rejects(sandbox.runCode('open("/tmp/never", "w").close()', { timeoutMs: 1_000 }), TimeoutError)
    await sandbox.files.write('/tmp/on', '')
    assert.equal((await first).text, 'ended')
    assert.equal((await sandbox.runCode('import os; os.path.exists("/tmp/never")')).text, 'False')
  }))

test('code that fails takes nothing with it: what waits behind it runs', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const fail = { python: '1 / 0', javascript: 'throw new Error("x")', r: 'stop("x")', java: 'int i = 1 / 0;', bash: 'false' }
    for (const [language, code] of Object.entries(fail)) {
      const [failed, ...behind] = await Promise.all([code, ...Array(3).fill(languages[language].hello)].map((text) => sandbox.runCode(text, { language, timeoutMs: 120_000 })))
      assert.ok(failed.error, language)
      for (const run of behind) assert.deepEqual([run.error, stdoutOf(run).trim()], [undefined, 'hello'], language)
    }
  }))

test('a kernel that dies: the run says so, the context begins anew', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const die = { python: 'import os; os._exit(1)', javascript: 'process.kill(process.pid, "SIGKILL")', typescript: 'const pid: number = process.pid; process.kill(pid, "SIGKILL")', bash: 'kill -9 $PPID; kill -9 $$', r: 'system(paste("kill -9", Sys.getpid()))', java: 'Runtime.getRuntime().halt(1);' }
    await sandbox.runCode('x = 1')
    for (const [language, code] of Object.entries(die)) {
      await sandbox.runCode(languages[language].hello, { language, timeoutMs: 120_000 })
      const { error } = await sandbox.runCode(code, { language, timeoutMs: 120_000 })
      assert.equal(error?.name, 'ContextRestarting', language)
      assert.equal(error.value, 'Context was restarted')
      assert.match(stdoutOf(await sandbox.runCode(languages[language].hello, { language, timeoutMs: 120_000 })), /hello/, language)
    }
    assert.equal((await sandbox.runCode('x')).error.name, 'NameError')
    if (can.listContexts) assert.equal((await sandbox.listCodeContexts()).length, 6)
  }))

const isHealthy = (sandbox) =>
  until('the service to answer', async () => {
    const { stdout } = await sandbox.commands.run('curl -s -o /dev/null -w %{http_code} http://0.0.0.0:49999/health || true')
    return stdout === '200'
  }, 60_000, 100)

// A shell may have the name in its own line, and end too.
for (const how of ["pkill -9 -f 'sandglass-interpreter'", "pkill -f 'sandglass-interpreter'", "pkill -INT -f 'sandglass-interpreter'", "pkill -9 -f 'ipykernel|launch.py'", "pkill -9 -f 'python'",
  "pkill -9 -f 'sandglass-interpreter|code-guardian'", 'kill -9 -1'])
  test(`${how}: all answers again`, async () =>
    inCodeSandbox(suite, async (sandbox) => {
      await sandbox.commands.run(how, { user: 'root' }).catch(() => {})
      await isHealthy(sandbox)
      await until('code to run', async () => (await sandbox.runCode('1 + 1').catch(() => ({}))).text === '2', 60_000, 100)
      assert.equal((await sandbox.runCode('1 + 1', { language: 'js' })).text, '2')
    }))

test('a sandbox killed during a run: an error that says so', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    let began
    const isRunning = new Promise((done) => (began = done))
    const run = sandbox.runCode('import time\nprint("runs", flush=True)\ntime.sleep(300)', { onStdout: began, timeoutMs: 120_000 })
    const outcome = run.then(() => null, (e) => e)
    await isRunning
    await sandbox.kill()
    const error = await outcome
    if (can.listContexts) {
      assert.ok(error instanceof TimeoutError, error?.stack)
      assert.match(error.message, /sandbox was killed while the request was in progress/)
    } else assert.ok(error)
  }))

if (can.listContexts)
  test('restarted and removed while it runs: the run ends with an error', async () =>
    inCodeSandbox(suite, async (sandbox) => {
      for (const how of ['restartCodeContext', 'removeCodeContext']) {
        const context = await sandbox.createCodeContext()
        const errors = []
        let began
        const isRunning = new Promise((done) => (began = done))
        const run = sandbox.runCode('import time\nprint("runs", flush=True)\ntime.sleep(300)', { context, onStdout: began, onError: (e) => errors.push(e.name), timeoutMs: 120_000 })
        await isRunning
        await sandbox[how](context)
        assert.equal((await run).error.name, 'UnexpectedEndOfExecution')
        assert.deepEqual(errors, ['WebSocketError', 'UnexpectedEndOfExecution'])
      }
    }))

test('code that uses up the memory of the sandbox: its kernel is killed, the others go on', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await sandbox.runCode('let kept = "kept"', { language: 'js' })
    const { error } = await sandbox.runCode('hoard = []\nwhile True: hoard.append(b"x" * (16 << 20))', { timeoutMs: 120_000 })
    assert.equal(error?.name, 'ContextRestarting')
    assert.equal((await sandbox.runCode('"hoard" in globals()', { timeoutMs: 120_000 })).text, 'False')
    assert.equal((await sandbox.runCode('kept', { language: 'js' })).text, 'kept')
  }))

test('memory that is not there is an exception of the language', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    assert.equal((await sandbox.runCode('bytearray(10**15)')).error.name, 'MemoryError')
    assert.equal((await sandbox.runCode('1 + 1')).text, '2')
  }))
