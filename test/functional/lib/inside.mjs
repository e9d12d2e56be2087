// Programs of ours that run inside a sandbox, hold state, and say on request whether all of it is still there.
import assert from 'node:assert/strict'
import fs from 'node:fs'

const text = (name) => fs.readFileSync(new URL(`../inside/${name}`, import.meta.url), 'utf8')

async function put(sandbox, ...names) {
  for (const name of names) await sandbox.files.write(name, text(name))
}

/** Start a background command and wait for its line "ready"; -> its handle. */
export async function startReady(sandbox, command, options = {}) {
  let out = ''
  let wake = () => {}
  const take = (piece) => {
    out += piece
    wake()
  }
  const handle = await sandbox.commands.run(command, { background: true, timeoutMs: 0, onStdout: take, onStderr: take, ...options })
  const over = handle.wait().then(() => 'ended', (e) => `ended: ${e.message}`)
  for (let how; !/^ready\b/m.test(out); ) {
    how = await Promise.race([new Promise((done) => (wake = done)), over])
    if (how) assert.fail(`${command}: ${how}\n${out}`)
  }
  return handle
}

const curl = async (sandbox, port, options = '--max-time 40', anyway = false) =>
  (await sandbox.commands.run(`curl -sS ${options} http://127.0.0.1:${port}/ ${anyway ? '|| true' : ''}`, { timeoutMs: 50_000 })).stdout

/** The C program with everything; items: only these.  -> ask(), which asserts that all of it is there. */
export async function holdEverything(sandbox, { port = 9101, items = [] } = {}) {
  const files = fs.readdirSync(new URL('../inside/', import.meta.url)).filter((n) => /^state.*\.[ch]$/.test(n))
  await put(sandbox, ...files)
  await sandbox.commands.run('gcc -O1 -o state state.c state_*.c -lpthread -lm', { timeoutMs: 120_000 })
  const quoted = items.map((i) => `'${i}'`).join(' ')
  await startReady(sandbox, `exec ./state ${port} ${quoted}`, { envs: { STATE_ENV: 'kept', STATE_LOWER: '/home/user/.profile' } })
  return async () => {
    const lines = (await curl(sandbox, port, '--max-time 20 -N', true)).trim().split('\n')
    assert.equal(lines.length, items.length || 28, lines.join('\n'))
    assert.deepEqual(lines.filter((l) => !l.endsWith(': ok')), [])
  }
}

/** A Python or node program; -> ask(), which gives its answer after looking at what every answer must say. */
export async function hold(sandbox, kind, { port, args = '' }) {
  const name = kind === 'python' ? 'state.py' : 'state.cjs'
  await put(sandbox, name)
  const handle = await startReady(sandbox, `exec ${kind === 'python' ? 'python3' : 'node'} ${name} ${port} ${args}`)
  const ask = checker((ask) => curl(ask, port))
  return Object.assign((box = sandbox) => ask(box), { handle, pid: handle.pid })
}

function checker(get) {
  let last = null
  return async (sandbox) => {
    const now = JSON.parse(await get(sandbox))
    for (const [thing, works] of Object.entries(now.works)) assert.ok(works, `${thing} does not work`)
    if (last) {
      assert.equal(now.pid, last.pid)
      assert.ok(now.requests > last.requests, 'the counter began anew')
    }
    last = now
    return now
  }
}

export async function startPostgres(sandbox, archive) {
  await sandbox.files.write('/tmp/postgres.tar.gz', new Blob([fs.readFileSync(archive)]))
  await put(sandbox, 'postgres.sh')
  await startReady(sandbox, 'exec bash postgres.sh /tmp/postgres.tar.gz')
}

/** A terminal whose screen is kept: {handle, send, shows(pattern), text}. */
export async function openTerminal(sandbox, options = {}) {
  const screen = makeScreen()
  const handle = await sandbox.pty.create({ cols: 80, rows: 24, onData: screen.onData, timeoutMs: 0, ...options })
  return Object.assign(screen, { handle, send: (keys) => sandbox.pty.sendInput(handle.pid, new TextEncoder().encode(keys)) })
}

/** The same terminal again, after its connection was cut. */
export async function reopenTerminal(sandbox, pid) {
  const screen = makeScreen()
  const handle = await sandbox.pty.connect(pid, { onData: screen.onData, timeoutMs: 0 })
  return Object.assign(screen, { handle, send: (keys) => sandbox.pty.sendInput(pid, new TextEncoder().encode(keys)) })
}

function makeScreen() {
  const decoder = new TextDecoder()
  const screen = { text: '' }
  let wake = () => {}
  screen.onData = (data) => {
    screen.text += decoder.decode(data, { stream: true })
    wake()
  }
  screen.shows = async (pattern) => {
    const late = setTimeout(() => wake('late'), 20_000)
    for (let how; !pattern.test(screen.text); how = await new Promise((done) => (wake = done)))
      if (how === 'late') assert.fail(`no ${pattern} in ${JSON.stringify(screen.text)}`)
    clearTimeout(late)
  }
  return screen
}
