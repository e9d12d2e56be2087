// Executions and the lives of sandboxes: paused, copied and resumed in the middle of a run; what memory must not share.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, inCodeSandbox, languages, stdoutOf } from '../../lib/code/suite.mjs'
import { interpreter } from '../../lib/code/wire.mjs'
import { api } from '../../lib/raw.mjs'
import { until } from '../../lib/wait.mjs'

const suite = await codeSuite()
const { Sandbox, server } = suite

/** Counts in steps of its own until /tmp/stop exists; the count is in a file and in a variable. */
const counting = 'import os, time\ncount = 0\nprint("counts", flush=True)\nwhile not os.path.exists("/tmp/stop"):\n    count += 1\n    time.sleep(0.005)\nopen("/tmp/counted", "w").write(str(count))'

/** Begin to count: {outcome: of the error of the client, or null}. */
async function beginCounting(sandbox) {
  let began
  const isRunning = new Promise((done) => (began = done))
  const outcome = sandbox.runCode(counting, { onStdout: began, timeoutMs: 0, requestTimeoutMs: 0 }).then(({ error }) => error ?? null, (e) => e)
  await isRunning
  return { outcome }
}

const finish = async (sandbox) => {
  await sandbox.files.write('/tmp/stop', '')
  await until('the run to end', () => sandbox.files.exists('/tmp/counted').catch(() => false), 60_000, 50)
  return Number(await sandbox.files.read('/tmp/counted'))
}

test('paused and resumed: variables of every language are there', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await sandbox.runCode('x = {"a": 1}')
    await sandbox.runCode('let y = 2', { language: 'js' })
    await sandbox.runCode('z=3', { language: 'bash' })
    await sandbox.runCode('r <- 4', { language: 'r', timeoutMs: 120_000 })
    await sandbox.runCode('int j = 5;', { language: 'java', timeoutMs: 120_000 })
    const contexts = await sandbox.listCodeContexts()
    await sandbox.pause()
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.deepEqual(await again.listCodeContexts(), contexts)
    assert.equal((await again.runCode('x')).text, "{'a': 1}")
    assert.equal((await again.runCode('y', { language: 'js' })).text, '2')
    assert.equal(stdoutOf(await again.runCode('echo $z', { language: 'bash' })).trim(), '3')
    assert.equal(stdoutOf(await again.runCode('cat(r)', { language: 'r' })), '4')
    assert.equal((await again.runCode('j', { language: 'java' })).text, '5')
  }))

test('paused in the middle of a run: the stream is cut, the context answers afterwards', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await sandbox.runCode('before = "kept"')
    const { outcome } = await beginCounting(sandbox)
    await sandbox.pause()
    assert.ok(await outcome, 'the client is told that its run was cut')
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal((await again.runCode('before', { timeoutMs: 120_000 })).text, 'kept') // the cut run was interrupted, or has ended
    assert.ok(Number((await again.runCode('count')).text) > 0)
    assert.equal((await again.runCode('1 + 1', { language: 'js' })).text, '2')
  }))

test('a snapshot in the middle of a run: the run goes on; sandboxes of the snapshot have its state', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await sandbox.runCode('before = "kept"')
    const { outcome } = await beginCounting(sandbox)
    const { snapshotId } = await sandbox.createSnapshot()
    try {
      await inCodeSandbox({ Sandbox: { create: (options) => Sandbox.create(snapshotId, options) } }, async (copy) => {
        assert.equal((await copy.runCode('before', { timeoutMs: 120_000 })).text, 'kept')
        assert.ok(Number((await copy.runCode('count')).text) > 0)
      })
      assert.ok((await finish(sandbox)) > 0)
      assert.equal(await outcome, null, 'in the original the stream goes on, to its end')
      assert.equal((await sandbox.runCode('before')).text, 'kept')
    } finally {
      await Sandbox.deleteSnapshot(snapshotId)
    }
  }))

test('forked in the middle of a run: the original goes on, each copy has the state', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await sandbox.runCode('before = "kept"')
    const { outcome } = await beginCounting(sandbox)
    const { status, json, body } = await api(server, 'POST', `/sandboxes/${sandbox.sandboxId}/fork`, { body: { count: 2, timeout: 300 } })
    assert.equal(status, 201, body)
    const copies = json.map((one) => one.sandbox ?? one)
    assert.equal(copies.length, 2)
    for (const { sandboxID } of copies) {
      const copy = await Sandbox.connect(sandboxID)
      try {
        assert.equal((await copy.runCode('before', { timeoutMs: 120_000 })).text, 'kept')
        await copy.runCode('before = "changed"')
      } finally {
        await copy.kill()
      }
    }
    assert.ok((await finish(sandbox)) > 0)
    assert.equal(await outcome, null, 'in the original the stream goes on, to its end')
    assert.equal((await sandbox.runCode('before')).text, 'kept')
  }))

test('two sandboxes of the template have different random numbers', async () =>
  inCodeSandbox(suite, (one) =>
    inCodeSandbox(suite, async (two) => {
      const programs = [
        ['python', 'import random; print(random.random())'],
        ['python', 'import numpy; print(numpy.random.rand())'],
        ['python', 'import uuid, os; print(uuid.uuid4(), os.urandom(8))'],
        ['javascript', 'console.log(Math.random())'],
        ['javascript', 'console.log(crypto.randomUUID())'],
        ['javascript', 'console.log(require("crypto").generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }))'],
        ['javascript', 'console.log(require("crypto").generatePrimeSync(128, { bigint: true }))'],
        ['javascript', 'console.log(Buffer.from(await crypto.subtle.exportKey("raw", await crypto.subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["encrypt"]))))'],
        ['python', 'import ssl; print(ssl.RAND_bytes(8))'],
        ['python', 'import tempfile; print(tempfile.mktemp())'],
        ['python', 'import uuid; print(uuid.uuid1())'],
        ['bash', 'echo $RANDOM $RANDOM $SRANDOM'],
        ['r', 'cat(runif(1))'],
        ['java', 'System.out.println(Math.random());'],
      ]
      for (const [language, code] of programs) {
        const [a, b] = await Promise.all([one, two].map((sandbox) => sandbox.runCode(code, { language, timeoutMs: 120_000 })))
        assert.ok(stdoutOf(a).trim(), `${language}: ${code}: ${a.error?.value}`)
        assert.notEqual(stdoutOf(a), stdoutOf(b), `${language}: ${code}`)
      }
    })))

test('copies of a sandbox have different random numbers, too', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    await sandbox.runCode('import random, numpy; random.random(); numpy.random.rand()')
    await sandbox.runCode('require("crypto").generateKeyPairSync("ed25519"); Math.random()', { language: 'js' })
    await sandbox.runCode('import ssl; ssl.RAND_bytes(8)')
    await sandbox.runCode('invisible(runif(1))', { language: 'r', timeoutMs: 120_000 })
    await sandbox.runCode('echo $RANDOM >/dev/null', { language: 'bash' })
    const { snapshotId } = await sandbox.createSnapshot()
    try {
      await inCodeSandbox({ Sandbox: { create: (options) => Sandbox.create(snapshotId, options) } }, async (copy) => {
        for (const [language, code] of [['r', 'cat(runif(4))'], ['bash', 'echo $RANDOM $RANDOM $RANDOM $RANDOM'], ['python', 'print(random.random())'], ['python', 'print(numpy.random.rand())'], ['python', 'print(ssl.RAND_bytes(8))'], ['javascript', 'console.log(Math.random())'],
          ['javascript', 'console.log(require("crypto").generateKeyPairSync("ed25519").publicKey.export({ type: "spki", format: "pem" }))']]) {
          const [a, b] = await Promise.all([sandbox, copy].map((one) => one.runCode(code, { language })))
          assert.equal(a.error ?? b.error, undefined)
          assert.notEqual(stdoutOf(a), stdoutOf(b), code)
        }
      })
    } finally {
      await Sandbox.deleteSnapshot(snapshotId)
    }
  }))

test('a copy has the variables of its own, also in a context that ran code before', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const ask = (one) => one.runCode('import os; [os.environ["E2B_SANDBOX_ID"], os.environ.get("STAGE"), kept]')
    await sandbox.runCode('kept = 1')
    const { snapshotId } = await sandbox.createSnapshot()
    try {
      await inCodeSandbox({ Sandbox: { create: (options) => Sandbox.create(snapshotId, options) } }, async (copy) => {
        assert.equal((await ask(copy)).text, `['${copy.sandboxId}', 'copy', 1]`)
      }, { envs: { STAGE: 'copy' } })
      assert.equal((await ask(sandbox)).text, `['${sandbox.sandboxId}', 'first', 1]`)
    } finally {
      await Sandbox.deleteSnapshot(snapshotId)
    }
  }, { envs: { STAGE: 'first' } }))

test('nothing in a sandbox names another one', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const { stdout } = await sandbox.commands.run('cat /etc/hosts /etc/hostname; hostname; cat /run/e2b/.E2B_SANDBOX_ID; echo; cat /proc/[0-9]*/environ 2>/dev/null | tr "\\0" "\\n"; env', { user: 'root' })
    assert.deepEqual([...new Set(stdout.match(/\bi[a-z0-9]{20}\b/g))], [sandbox.sandboxId])
    const { text } = await sandbox.runCode('import os; os.environ["E2B_SANDBOX_ID"]')
    assert.equal(text, sandbox.sandboxId)
  }))

test('the clock of a kernel is that of the machine', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    for (const [language, code] of [['python', 'import time; print(time.time())'], ['javascript', 'console.log(Date.now() / 1000)']]) {
      const said = Number(stdoutOf(await sandbox.runCode(code, { language })))
      assert.ok(Math.abs(said - Date.now() / 1000) < 60, `${language}: ${said}`)
    }
  }))

test('the service and its kernels are root in /home/user, and nothing else waits', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    for (const [language, code] of [['python', 'import os; print(os.getuid(), os.environ["HOME"])'], ['javascript', 'console.log(process.getuid(), process.env.HOME)']])
      assert.equal(stdoutOf(await sandbox.runCode(code, { language })).trim(), '0 /root', language)
    assert.equal((await sandbox.commands.run('whoami; pwd')).stdout, 'user\n/home/user\n')
    const { stdout } = await sandbox.commands.run('find /home/user -mindepth 1 -maxdepth 1 -not -name ".*"')
    assert.equal(stdout, '')
  }))

test('a sandbox ends with all its contexts', async () => {
  const sandbox = await Sandbox.create({ timeoutMs: 600_000 })
  await Promise.all(Object.entries(languages).map(([language, { hello }]) => sandbox.runCode(hello, { language, timeoutMs: 120_000 })))
  await sandbox.kill()
  assert.equal((await interpreter(server, sandbox, 'GET', '/health')).status, 502)
})

test('a copy has the variables that its commands have: those of the snapshot, and its own', async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const code = 'import os; print(os.environ.get("OTHER"), os.environ.get("STAGE"))'
    assert.equal(stdoutOf(await sandbox.runCode(code)).trim(), 'original first')
    const { snapshotId } = await sandbox.createSnapshot()
    try {
      for (const [envs, wanted] of [[{ STAGE: 'copy' }, 'original copy'], [{}, 'original first']])
        await inCodeSandbox({ Sandbox: { create: (options) => Sandbox.create(snapshotId, options) } }, async (copy) => {
          assert.equal((await copy.commands.run('echo $OTHER $STAGE')).stdout.trim(), wanted)
          assert.equal(stdoutOf(await copy.runCode(code)).trim(), wanted)
        }, { envs })
    } finally {
      await Sandbox.deleteSnapshot(snapshotId)
    }
  }, { envs: { OTHER: 'original', STAGE: 'first' } }))
