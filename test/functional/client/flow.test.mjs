// The smallest real flow: create, run with streamed output, write and read a file, kill.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { Sandbox, leakless, withSandbox } = await suite()

test('create, run, write, read, kill', leakless(async () => {
  const sandbox = await Sandbox.create()
  assert.match(sandbox.sandboxId, /^i[a-z0-9]{20}$/)

  const result = await sandbox.commands.run('echo "Hello, World!"')
  assert.equal(result.exitCode, 0)
  assert.equal(result.stdout, 'Hello, World!\n')
  assert.equal(result.stderr, '')

  const written = await sandbox.files.write('notes/today.txt', 'one line\n')
  assert.equal(written.path, '/home/user/notes/today.txt')
  assert.equal(await sandbox.files.read('notes/today.txt'), 'one line\n')

  assert.equal(await sandbox.isRunning(), true)
  assert.equal(await sandbox.kill(), true)
  assert.equal(await sandbox.isRunning(), false)
  assert.equal(await sandbox.kill(), false)
}))

test('output arrives while the command still runs', withSandbox(async (sandbox) => {
  const seen = []
  let release
  const first = new Promise((done) => (release = done))
  const running = sandbox.commands.run('echo first; while [ ! -e /tmp/go ]; do sleep 0.01; done; echo second; echo third >&2', {
    onStdout: (text) => { seen.push(text); release() },
    onStderr: (text) => seen.push(text),
  })
  await first // the command waits for a file that we only write now: nothing was held back until its end
  assert.deepEqual(seen, ['first\n'])
  await sandbox.files.write('/tmp/go', '')
  const result = await running
  assert.equal(result.stdout, 'first\nsecond\n')
  assert.equal(result.stderr, 'third\n')
}))

test('sandboxes are separate from each other', leakless(async () => {
  const [a, b] = await Promise.all([Sandbox.create(), Sandbox.create()])
  assert.notEqual(a.sandboxId, b.sandboxId)
  await a.files.write('/tmp/mine', 'a')
  assert.equal(await b.files.exists('/tmp/mine'), false)
  const names = await Promise.all([a, b].map((s) => s.commands.run('hostname')))
  assert.notEqual(names[0].stdout, names[1].stdout)
  await Promise.all([a.kill(), b.kill()])
}))

test('the base template has what agents expect', withSandbox(async (sandbox) => {
  const check = async (command, expected) => assert.match((await sandbox.commands.run(command)).stdout, expected, command)
  await check('whoami; pwd; id -u', /^user\n\/home\/user\n1000\n$/)
  await check('sudo whoami', /^root\n$/)
  await check('python3 -c "print(6 * 7)"; python --version', /^42\nPython 3/)
  await check('node --version', /^v(2\d|[3-9]\d)\./)
  await check('git --version && curl --version | head -1 && jq --version && rg --version | head -1', /git version/)
  await check('stat -c %a /code /usr/local', /^777\n777\n$/)
  await check('echo "$E2B_SANDBOX $E2B_SANDBOX_ID"; cat /run/e2b/.E2B_SANDBOX', new RegExp(`^true ${sandbox.sandboxId}\ntrue`))
}))
