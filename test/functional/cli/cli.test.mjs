// The command line against a real server: what it prints, what it passes on, what it exits with.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import fs from 'node:fs'
import { after, before, test } from 'node:test'

import { Sandbox } from 'e2b'

import { binary, criuDir, imagesDir, sandglass, Server } from '../lib/server.mjs'
import { until } from '../lib/wait.mjs'

let server
before(async () => (server = await Server.start()))
after(() => server.cleanUp())

const access = () => ({ apiKey: server.key, apiUrl: server.apiUrl, sandboxUrl: server.env.E2B_SANDBOX_URL, domain: server.domain })
const cli = (command, args = [], options = {}) => sandglass([command, '--data', server.data, ...args], { input: '', ...options })
const list = () => JSON.parse(cli('ps', ['--json']).stdout)

/** `sandglass run` in the background, once its sandbox is there: {child, ended, id}. */
async function running(...command) {
  const child = spawn(binary, ['run', '--data', server.data, '--', ...command], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = once(child, 'close')
  await once(child.stdout, 'data')
  return { child, ended, id: list()[0].sandboxID }
}

/** All that a child says on stderr from now on. */
function sayings(child) {
  let said = ''
  child.stderr.setEncoding('utf8').on('data', (text) => (said += text))
  return () => said
}

/** `sandglass exec` in the background, once its command runs: {ended, said}. */
async function executing(id) {
  const child = spawn(binary, ['exec', '--data', server.data, id, '--', 'sh', '-c', 'echo up; exec sleep 100'], { stdio: ['ignore', 'pipe', 'pipe'] })
  const said = sayings(child)
  const ended = once(child, 'close')
  await once(child.stdout, 'data')
  return { ended, said }
}

test('run prints what the command prints and ends its sandbox', () => {
  const r = cli('run', ['--', 'python3', '-c', 'print(1+1)'])
  assert.deepEqual([r.status, r.stdout, r.stderr], [0, '2\n', ''])
  assert.deepEqual(list(), [])
})

test('over TLS, too: the server proves who it is, or is not spoken to', () => {
  const env = { ...process.env, E2B_API_URL: `https://${server.domain}`, E2B_API_KEY: server.key, SSL_CERT_FILE: server.env.NODE_EXTRA_CA_CERTS }
  delete env.E2B_SANDBOX_URL
  const r = sandglass(['run', '--', 'echo', 'private'], { env, input: '' })
  assert.deepEqual([r.status, r.stdout, r.stderr], [0, 'private\n', ''])
  const stranger = sandglass(['ps'], { env: { ...env, SSL_CERT_FILE: '/dev/null' }, input: '' })
  assert.equal(stranger.status, 1)
  assert.match(stranger.stderr, /the certificate of localhost:\d+ is not trusted: /)
})

test('both outputs and the exit code pass through', () => {
  const r = cli('run', ['bash', '-c', 'echo out; echo err >&2; exit 7'])
  assert.deepEqual([r.status, r.stdout, r.stderr], [7, 'out\n', 'err\n'])
  assert.equal(cli('run', ['--', 'bash', '-c', 'kill -9 $$']).status, 137)
  assert.equal(cli('run', ['--', 'no-such-command']).status, 127)
})

test('input passes through, byte by byte, to its end', () => {
  const bytes = randomBytes(500_000)
  const r = cli('run', ['--', 'sha256sum'], { input: bytes })
  assert.equal(r.stdout, `${createHash('sha256').update(bytes).digest('hex')}  -\n`)
  const back = cli('run', ['--', 'cat'], { input: bytes, encoding: 'buffer', maxBuffer: 1 << 22 })
  assert.equal(back.status, 0)
  assert.ok(bytes.equals(back.stdout))
})

test('variables, directory and user', () => {
  const r = cli('run', ['-e', 'GREETING=hello', '-w', '/tmp', '-u', 'root', '--', 'bash', '-c', 'echo $GREETING $PWD; id -un'])
  assert.equal(r.stdout, 'hello /tmp\nroot\n')
})

/** The output of `env`, without what names the sandbox, and without the variable in which bash tells the programs it starts their own path. */
const variables = (text) => text.trim().split('\n').filter((line) => !/^(E2B_SANDBOX_ID|_)=/.test(line)).sort()

for (const user of ['user', 'root'])
  test(`the commands of ${user} have the environment that the npm client's have, from run and from exec`, async () => {
    const sandbox = await Sandbox.create({ ...access(), envs: { STAGE: 'test' } })
    try {
      const theirs = variables((await sandbox.commands.run('env', { user, envs: { LEVEL: '2' } })).stdout)
      assert.ok(['LANG=C.UTF-8', 'STAGE=test', 'LEVEL=2', `USER=${user}`].every((line) => theirs.includes(line)), theirs.join('\n'))
      assert.deepEqual(variables(cli('exec', ['-u', user, '-e', 'LEVEL=2', sandbox.sandboxId, '--', 'env']).stdout), theirs)
      assert.deepEqual(variables(cli('run', ['-u', user, '-e', 'LEVEL=2', '-e', 'STAGE=test', '--', 'env']).stdout), theirs)
    } finally {
      await sandbox.kill()
    }
  })

test('the words of a command are passed on as they are', () => {
  const words = ['a b', '', "it's", '"$HOME"', '$(id)', '*', '\\', '-n', 'line\nbreak', 'grüße']
  assert.equal(cli('run', ['--', 'printf', '<%s>', ...words]).stdout, words.map((word) => `<${word}>`).join(''))
  assert.match(cli('run', ['--', 'no such']).stderr, /no such: not found/)
  assert.equal(cli('run', ['--', '-x']).status, 127)
  assert.equal(cli('run', ['--', '/etc/passwd']).status, 126)
})

test('an unknown template, an unknown sandbox, no server: said in words, exit code 1', () => {
  const template = cli('run', ['-t', 'nope', '--', 'true'])
  assert.equal(template.status, 1)
  assert.match(template.stderr, /^sandglass run: template 'nope' not found\. There are: (.*, )?base\b/)
  const unknown = cli('exec', [`i${'0'.repeat(20)}`, 'true'])
  assert.equal(unknown.status, 1)
  assert.match(unknown.stderr, /doesn't exist/)
  assert.equal(cli('kill', ['../x']).status, 1)
  const nobody = sandglass(['ps', '--data', '/nonexistent'])
  assert.equal(nobody.status, 1)
  assert.match(nobody.stderr, /no server at/)
})

test('a server that cannot be used: why, and what to do', () => {
  const environment = (exports) => sandglass(['ps'], { env: { PATH: process.env.PATH, ...exports } })
  const wrong = environment({ E2B_API_URL: server.apiUrl, E2B_API_KEY: `e2b_${'0'.repeat(40)}` })
  assert.deepEqual([wrong.status, wrong.stderr], [1, `sandglass ps: the server at ${new URL(server.apiUrl).host} does not know this API key: source its env file again, or name its data directory with --data\n`])
  assert.match(environment({ E2B_API_URL: server.apiUrl, E2B_API_KEY: '' }).stderr, /E2B_API_URL is set, but E2B_API_KEY is not/)
  assert.match(environment({ E2B_API_URL: 'http://127.0.0.1:99999', E2B_API_KEY: 'k' }).stderr, /is not http:\/\/host:port/)
  assert.equal(environment({ E2B_API_URL: '', E2B_API_KEY: '' }).stderr, environment({}).stderr)
  const nobody = sandglass(['ps', '--data', server.data], { uid: 65534, gid: 65534 })
  assert.match(nobody.stderr, /only root can use this server|neither root nor in the server's group/)
})

test('wrong use: exit code 2 and the usage', () => {
  for (const args of [['run'], ['run', '--frob'], ['exec', 'i0'], ['kill'], ['ps', 'x'], ['frob'], [], ['run', '--timeout', 'x', 'true']]) {
    const r = sandglass(args)
    assert.equal(r.status, 2, args.join(' '))
    assert.match(r.stderr, /usage:/, args.join(' '))
  }
  for (const [word, ...args] of [['--frob', 'down'], ['x', 'down'], ['--data', 'down'], ['--frob', 'criu'], ['x', 'criu'], ['x', 'template'], ['-x', 'template', 'base'], ['', 'version'], ['', 'help', 'run']]) {
    const r = sandglass([...args, word])
    assert.equal(r.status, 2, `${args} ${word}`)
    assert.match(r.stderr, new RegExp(`^${word && `sandglass ${args[0]}: ${word}: .*\n`}usage: sandglass ${args[0]} `), `${args} ${word}`)
  }
  assert.equal(sandglass(['help']).status, 0)
  for (const command of ['run', 'ps', 'serve', 'down', 'criu', 'template', 'version', 'doctor'])
    for (const help of ['-h', '--help']) assert.match(sandglass([command, help]).stdout, new RegExp(`^usage: sandglass ${command} `))
  assert.match(sandglass(['version', '--json']).stdout, /^{"version":"[0-9.]+"}\n$/)
})

test('exec and kill work on a sandbox that ps shows', async () => {
  const { child, ended, id } = await running('bash', '-c', 'echo up; exec sleep 100')
  assert.match(cli('ps').stdout, new RegExp(`^${id} +base `, 'm'))
  const r = cli('exec', [id, '--', 'bash', '-c', 'cat; exit 3'], { input: 'through' })
  assert.deepEqual([r.status, r.stdout], [3, 'through'])
  const said = sayings(child)
  assert.equal(cli('kill', [id]).status, 0)
  const [code] = await ended
  assert.deepEqual([code, said()], [1, `sandglass run: sandbox ${id} was killed, which ended the command\n`])
  assert.equal(cli('kill', [id]).status, 1)
})

for (const signal of ['SIGINT', 'SIGTERM'])
  test(`${signal} ends run and its sandbox`, async () => {
    const { child, ended } = await running('bash', '-c', 'echo up; exec sleep 100')
    child.kill(signal)
    const [code] = await ended
    assert.equal(code, signal === 'SIGINT' ? 130 : 143)
    assert.deepEqual(list(), [])
  })

test('exec passes signals on to the command', async () => {
  const { child, ended, id } = await running('bash', '-c', 'echo up; exec sleep 100')
  const inner = spawn(binary, ['exec', '--data', server.data, id, 'bash', '-c', 'trap "exit 9" TERM; echo ready; while :; do sleep 0.1; done'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(inner.stdout, 'data')
  inner.kill('SIGINT')
  assert.equal((await once(inner, 'close'))[0], 9)
  assert.equal(list().length, 1)
  child.kill('SIGINT')
  await ended
})

test('a reader that leaves ends run and its sandbox', async () => {
  const { child, ended } = await running('yes')
  child.stdout.destroy()
  assert.equal((await ended)[0], 141)
  await until(() => 'no sandbox left', () => list().length === 0)
})

/** Exit code 0; what it printed, trimmed. */
function good(command, args, options) {
  const r = cli(command, args, options)
  assert.equal(r.status, 0, `${command} ${args.join(' ')}: ${r.stderr}`)
  return r.stdout.trim()
}
const inside = (id, script) => good('exec', [id, 'sh', '-c', script])

test('run says when its sandbox was paused, and leaves it; resume, exec, kill work on it', async () => {
  const { child, ended, id } = await running('bash', '-c', 'echo up; exec sleep 100')
  const said = sayings(child)
  good('pause', [id])
  assert.equal((await ended)[0], 1)
  assert.equal(said(), `sandglass run: sandbox ${id} was paused: \`sandglass resume ${id}\` lets it run again\n`)
  assert.deepEqual(list().map((box) => [box.sandboxID, box.state]), [[id, 'paused']])
  assert.match(cli('ps').stdout, new RegExp(`^${id} +base +paused `, 'm'))
  const again = cli('pause', [id])
  assert.equal(again.status, 1)
  assert.match(again.stderr, /already paused/)
  for (const r of [cli('exec', [id, 'true']), cli('snapshot', [id])])
    assert.match(r.stderr, new RegExp(`: ${id} is paused: \`sandglass resume ${id}\` lets it run again\n$`))
  good('resume', ['--timeout', '60', id])
  assert.equal(inside(id, 'pgrep -x sleep | wc -l'), '1')
  good('pause', ['--files-only', id])
  good('resume', [id])
  assert.equal(inside(id, 'pgrep -x sleep | wc -l'), '0')
  good('kill', [id])
})

test('run and exec say that the time of their sandbox was up', async () => {
  const r = cli('run', ['--timeout', '1', '--', 'sleep', '100'])
  assert.equal(r.status, 1)
  assert.match(r.stderr, /^sandglass run: the time of sandbox i\w+ was up, which ended the command\n$/)
  const { sandboxId: id } = await Sandbox.create({ ...access(), timeoutMs: 2_000 })
  const { ended, said } = await executing(id)
  assert.deepEqual([(await ended)[0], said()], [1, `sandglass exec: the time of sandbox ${id} was up, which ended the command\n`])
})

test('exec says why its command was lost: the sandbox was taken back, paused, killed, or died', async () => {
  const { sandboxId: id } = await Sandbox.create(access())
  const snapshot = good('snapshot', [id])
  const lost = async (how, why) => {
    const { ended, said } = await executing(id)
    how()
    assert.deepEqual([(await ended)[0], said()], [1, `sandglass exec: ${why}\n`])
  }
  await lost(() => good('rollback', [id, snapshot]), 'the command is gone: its sandbox was taken back to a snapshot, or was started again')
  await lost(() => good('pause', [id]), `sandbox ${id} was paused: \`sandglass resume ${id}\` lets it run again`)
  good('resume', [id])
  await lost(() => good('kill', [id]), `sandbox ${id} was killed, which ended the command`)
  good('snapshots', ['--delete', snapshot])
  const { child, ended, id: dying } = await running('bash', '-c', 'echo up; exec sleep 100')
  const said = sayings(child)
  process.kill(JSON.parse(fs.readFileSync(server.file(`sandboxes/${dying}/running.json`), 'utf8')).pid, 'SIGKILL')
  assert.deepEqual([(await ended)[0], said()], [1, `sandglass run: sandbox ${dying} was killed, which ended the command\n`])
})

test('run goes on through snapshots and copies of its sandbox: every line once', async () => {
  const child = spawn(binary, ['run', '--data', server.data, '--', 'bash', '-c', 'for i in $(seq 60); do echo $i; sleep 0.05; done; exit 5'], { stdio: ['ignore', 'pipe', 'inherit'] })
  const ended = once(child, 'close')
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text) => (said += text))
  await once(child.stdout, 'data')
  const { sandboxID: id } = list()[0]
  const snapshot = good('snapshot', [id])
  const copy = good('fork', [id])
  const [code] = await ended
  assert.deepEqual([code, said], [5, Array.from({ length: 60 }, (_, i) => `${i + 1}\n`).join('')])
  good('kill', [copy])
  good('snapshots', ['--delete', snapshot])
})

test('snapshot, snapshots, fork and rollback', async () => {
  const { child, ended, id: own } = await running('bash', '-c', 'echo first >/tmp/note; echo up; exec sleep 1000')
  assert.equal(inside(own, 'cat /tmp/note; pgrep -x sleep | wc -l'), 'first\n1')
  const unnamed = good('snapshot', [own])
  inside(own, 'echo second >/tmp/note')
  const named = good('snapshot', ['--name', 'cli-test:v2', own])
  assert.match(named, /cli-test:v2$/)
  assert.deepEqual(good('snapshots', [own]).split('\n').slice(1).map((line) => line.split(' ')[0]), [named, unnamed])
  inside(own, 'echo third >/tmp/note')
  good('rollback', [own, unnamed])
  assert.equal(inside(own, 'cat /tmp/note'), 'first')
  good('rollback', [own, named])
  assert.equal(inside(own, 'cat /tmp/note; pgrep -x sleep | wc -l'), 'second\n1')
  const copies = good('fork', ['--count', '3', own]).split('\n')
  assert.equal(new Set(copies).size, 3)
  for (const copy of copies) assert.equal(inside(copy, 'cat /tmp/note; hostname'), `second\n${copy}`)
  assert.equal(good('run', ['-t', named, '--', 'cat', '/tmp/note']), 'second')
  const wrong = cli('rollback', [own, 'nosuchsnapshot:default'])
  assert.equal(wrong.status, 1)
  child.kill('SIGINT')
  assert.equal((await ended)[0], 130)
  good('kill', copies)
  good('snapshots', ['--delete', named, unnamed])
  assert.equal(good('snapshots', ['--json']), '[]')
  assert.deepEqual(list(), [])
})

test('doctor finds everything needed here, and says so as JSON, too', () => {
  const r = sandglass(['doctor', '--json', '--data', server.data])
  assert.equal(r.status, 0, r.stdout)
  const { ok, checks } = JSON.parse(r.stdout)
  assert.equal(ok, true)
  for (const name of ['root', 'namespaces', 'mounts', 'cgroups', 'packet filter', 'other firewalls', 'seccomp', 'data directory', 'image directory', 'disk'])
    assert.equal(checks.find((check) => check.name === name)?.state, 'ok', name)
  const plain = sandglass(['doctor'], { uid: 65534, gid: 65534 })
  assert.equal(plain.status, 1)
  assert.match(plain.stdout, /fix: /)
})

test('doctor looks for the template and CRIU where serve was told to', () => {
  const hidden = 'mount --bind /dev/null /usr/bin/mmdebstrap && exec "$0" "$@"' // else the template could be made
  const doctor = (...args) => {
    const r = spawnSync('unshare', ['--mount', 'sh', '-c', hidden, binary, 'doctor', '--json', '--data', server.data, ...args], { encoding: 'utf8' })
    const { checks } = JSON.parse(r.stdout)
    return { status: r.status, ...Object.fromEntries(checks.map((check) => [check.name, check])) }
  }
  const told = doctor('--images', imagesDir(), '--criu', criuDir())
  assert.deepEqual([told.status, told.template.state, told.template.detail], [0, 'ok', `base is in ${imagesDir()}`])
  assert.ok(told['image directory'].detail.includes(imagesDir()))
  assert.equal(told.CRIU.detail, `${fs.realpathSync(criuDir())}/tool dumped and restored two processes`)
  const untold = doctor()
  assert.deepEqual([untold.status, untold.template.state], [1, 'missing'])
  assert.match(untold.template.fix, /--images DIR/)
  assert.ok(!untold.CRIU.detail.includes(criuDir()))
})

test('doctor takes a data directory that is not there yet, also by a relative name', () => {
  for (const data of ['not-yet', 'not/yet', './not/yet', `${server.data}/not/yet`]) {
    const { checks } = JSON.parse(sandglass(['doctor', '--json', '--data', data], { cwd: server.data }).stdout)
    for (const name of ['data directory', 'disk']) assert.equal(checks.find((check) => check.name === name).state, 'ok', `${data}: ${name}`)
  }
})
