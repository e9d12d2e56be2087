// Clients that go away, and many at once: processes stay, everything kept for the clients goes.
import assert from 'node:assert/strict'
import test from 'node:test'

process.env.E2B_ENVD_RPC_CONNECTIONS = '600' // the pool of the client: one connection for each stream on HTTP/1.1

const { sandboxPids } = await import('../lib/census.mjs')
const { openFiles, processInfo } = await import('../lib/proc.mjs')
const { RawStream } = await import('../lib/stream.mjs')
const { suite } = await import('../lib/suite.mjs')
const { until } = await import('../lib/wait.mjs')
const { server, withSandbox } = await suite()

/** The daemon of a sandbox, seen from outside: what it holds, by kind. */
function daemon(sandbox) {
  const pid = sandboxPids(server, sandbox.sandboxId).find((p) => /envd/.test(processInfo(p)?.name ?? ''))
  assert.ok(pid, 'the daemon is one of the processes of the sandbox')
  return () => {
    const targets = openFiles(pid).map(([, target]) => target.replace(/\[\d+\]|\d+$/, ''))
    return { all: targets.length, sockets: targets.filter((t) => t.startsWith('socket:')).length, inotify: targets.filter((t) => t.includes('inotify')).length }
  }
}

function envelope(message) {
  const payload = Buffer.from(JSON.stringify(message))
  const head = Buffer.alloc(5)
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

function stream(sandbox, method, message) {
  const body = envelope(message)
  const head = [`POST /${method} HTTP/1.1`, `Host: ${sandbox.getHost(49983)}`, `X-Access-Token: ${sandbox.envdAccessToken}`, 'Content-Type: application/connect+json', `Content-Length: ${body.length}`, '', '']
  return new RawStream(server.port, head.join('\r\n') + body.toString('latin1'))
}

test('fifty commands lose their clients: they run on, nothing else is kept', withSandbox(async (sandbox) => {
  await sandbox.commands.list()
  const count = daemon(sandbox)
  const empty = count()
  const streams = Array.from({ length: 50 }, () => stream(sandbox, 'process.Process/Start', { process: { cmd: 'sleep', args: ['600'] }, stdin: false }))
  await Promise.all(streams.map((s) => s.until(/"pid":\d+/)))
  const busy = count()
  assert.ok(busy.sockets >= 50 + 1, JSON.stringify([empty, busy]))
  await Promise.all(streams.map((s) => s.close()))
  await until(() => `connections of the daemon closed: ${JSON.stringify([empty, count()])}`, () => count().sockets <= empty.sockets + 1)
  const running = await sandbox.commands.list()
  assert.equal(running.length, 50)
  await Promise.all(running.map((p) => sandbox.commands.kill(p.pid)))
  await until(() => `daemon as before: ${JSON.stringify([empty, count()])}`, () => {
    const now = count()
    return now.all - now.sockets <= empty.all - empty.sockets // connections are kept by the edge, as many as it liked to use
  })
  assert.deepEqual(await sandbox.commands.list(), [])
}))

test('fifty watches lose their clients: none is kept', withSandbox(async (sandbox) => {
  await sandbox.commands.run('mkdir -p tree/{1..20}/{1..5}')
  const count = daemon(sandbox)
  const empty = count()
  const streams = Array.from({ length: 50 }, () => stream(sandbox, 'filesystem.Filesystem/WatchDir', { path: 'tree', recursive: true }))
  await Promise.all(streams.map((s) => s.until(/"start"/)))
  assert.ok(count().inotify > empty.inotify || count().all > empty.all)
  await Promise.all(streams.map((s) => s.close()))
  await until(() => `watches closed: ${JSON.stringify([empty, count()])}`, () => count().inotify === empty.inotify && count().sockets <= empty.sockets + 1)
  assert.equal((await sandbox.commands.run('echo alive')).stdout, 'alive\n')
}))

/** The polling calls: no client in this language makes them. */
async function poll(sandbox, name, message) {
  const body = JSON.stringify(message)
  const head = [`POST /filesystem.Filesystem/${name} HTTP/1.1`, `Host: ${sandbox.getHost(49983)}`, `X-Access-Token: ${sandbox.envdAccessToken}`, 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`, 'Connection: close', '', '']
  const answer = new RawStream(server.port, head.join('\r\n') + body)
  await answer.closed
  return { status: Number(answer.text.slice(9, 12)), ...JSON.parse(answer.body) }
}

test('watchers that are asked belong to the sandbox: they survive their clients, have a limit, and go when removed', withSandbox(async (sandbox) => {
  await sandbox.commands.run('mkdir -p tree/{1..10}')
  const count = daemon(sandbox)
  const empty = count()
  const ids = []
  let last
  for (; ids.length < 2000; ids.push(last.watcherId)) { // each client leaves after its one call
    last = await poll(sandbox, 'CreateWatcher', { path: 'tree', recursive: true })
    if (last.status !== 200) break
  }
  assert.ok(ids.length >= 50 && ids.length <= 1024, `${ids.length} watchers`)
  assert.match(last.message, /^more than 1024 watchers$|^error adding path .* to watcher: too many open files/)
  assert.ok(count().inotify >= empty.inotify + ids.length, JSON.stringify([empty, count()]))
  await sandbox.files.write('tree/5/new', 'x') // everything else works at the limit
  assert.equal((await sandbox.commands.run('cat tree/5/new')).stdout, 'x')
  assert.deepEqual((await poll(sandbox, 'GetWatcherEvents', { watcherId: ids.at(-1) })).events.map((e) => e.name), ['5/new', '5/new', '5/new'])
  for (const watcherId of ids) assert.equal((await poll(sandbox, 'RemoveWatcher', { watcherId })).status, 200)
  assert.equal(count().inotify, empty.inotify)
  const again = await poll(sandbox, 'CreateWatcher', { path: 'tree' })
  assert.equal(again.status, 200)
  await sandbox.files.remove('tree') // a watcher of something that is gone can be removed like any other
  assert.equal((await poll(sandbox, 'RemoveWatcher', { watcherId: again.watcherId })).status, 200)
  assert.equal(count().inotify, empty.inotify)
}))

test('listeners that join and leave a chatty process do not stop it', withSandbox(async (sandbox) => {
  const { pid } = await sandbox.commands.run('i=0; while [ ! -e /tmp/end ]; do echo $((i += 1)); done; echo $i > /tmp/last', { background: true, timeoutMs: 0 })
  for (let round = 0; round < 5; round++) {
    const listeners = Array.from({ length: 10 }, () => stream(sandbox, 'process.Process/Connect', { process: { pid } }))
    await Promise.all(listeners.map((s) => s.until(/"stdout"/)))
    await Promise.all(listeners.map((s) => s.close()))
  }
  await sandbox.files.write('/tmp/end', '')
  await sandbox.commands.run('until [ -s /tmp/last ]; do sleep 0.02; done')
}))

test('five hundred commands at once, each with its own output', withSandbox(async (sandbox) => {
  const many = 500
  await sandbox.commands.run('mkfifo /tmp/gate')
  const keeper = await sandbox.commands.run('exec sleep 600 <> /tmp/gate', { background: true, timeoutMs: 0 })
  const handles = await Promise.all(Array.from({ length: many }, (_, i) => sandbox.commands.run(`read -r _ < /tmp/gate; echo "number ${i}"`, { background: true, timeoutMs: 0, requestTimeoutMs: 120_000 })))
  assert.equal((await sandbox.commands.list()).length, many + 1)
  await sandbox.commands.run(`printf '\\n%.0s' $(seq ${many}) > /tmp/gate`) // one byte lets one of them go
  const results = await Promise.all(handles.map((h) => h.wait()))
  results.forEach((r, i) => assert.equal(r.stdout, `number ${i}\n`))
  await keeper.kill()
}))
