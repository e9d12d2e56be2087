// `sandglass code` against a sandbox with a stand-in for the code interpreter, which says exactly what a test wants to be said.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, beforeEach, test } from 'node:test'
import zlib from 'node:zlib'

import { Sandbox } from 'e2b'

import { closeTerminals, connection, inside, noted, start, startInterpreter, takeNotes, terminal } from './stand_in.mjs'
import { binary, sandglass, Server, temporaryDir } from '../../lib/server.mjs'
import { until } from '../../lib/wait.mjs'

let server, sandbox, id, dir
before(async () => {
  server = await Server.start()
  sandbox = await startInterpreter(server)
  id = sandbox.sandboxId
  dir = temporaryDir('code')
})
after(() => {
  closeTerminals()
  fs.rmSync(dir, { recursive: true, force: true })
  return server.cleanUp()
})
beforeEach(() => takeNotes(server, id))

const args = (...more) => ['code', '--data', server.data, ...more]
/** Run this code, which the command line reads from its input. */
const code = (text, ...options) => sandglass(args(id, '-', ...options), { input: text, cwd: dir, maxBuffer: 1 << 29 })
const result = ({ status, stdout, stderr }) => [status, stdout, stderr]
const write = (name, text) => (fs.writeFileSync(path.join(dir, name), text), path.join(dir, name))

/** A PNG of one colour. */
function png(width, height, [r, g, b]) {
  const chunk = (type, data) => {
    const body = Buffer.concat([Buffer.from(type), data])
    const sum = Buffer.alloc(4)
    sum.writeUInt32BE(zlib.crc32 ? zlib.crc32(body) : crc32(body))
    const n = Buffer.alloc(4)
    n.writeUInt32BE(data.length)
    return Buffer.concat([n, body, sum])
  }
  const head = Buffer.alloc(13)
  head.writeUInt32BE(width, 0)
  head.writeUInt32BE(height, 4)
  head.set([8, 2, 0, 0, 0], 8)
  const row = Buffer.concat([Buffer.from([0]), ...Array.from({ length: width }, () => Buffer.from([r, g, b]))])
  const rows = Buffer.concat(Array.from({ length: height }, () => row))
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), chunk('IHDR', head), chunk('IDAT', zlib.deflateSync(rows)), chunk('IEND', Buffer.alloc(0))])
}
function crc32(bytes) {
  let c = ~0
  for (const b of bytes) {
    c ^= b
    for (let i = 0; i < 8; i++) c = (c >>> 1) ^ (c & 1 ? 0xedb88320 : 0)
  }
  return ~c >>> 0
}
const red = png(12, 7, [255, 0, 0])

// ---- output ----

test('streams pass through, results are printed, variables stay', () => {
  assert.deepEqual(result(code('x = 5\nsend("stdout", text="a")\nsend("stdout", text="b\\n")\nsend("stderr", text="warning ü\\n")')), [0, 'ab\n', 'warning ü\n'])
  assert.deepEqual(result(code('send("result", text=str(x + 1), extra={}, is_main_result=True)')), [0, '6\n', ''])
})

test('output comes as it is written', async () => {
  const p = start(args(id, '-'), { input: 'import os\nsend("stdout", text="first ")\nwhile not os.path.exists("/tmp/go"): sleep(0.02); send("keepalive")\nsend("stdout", text="second")' })
  await until('the first piece', () => p.stdout === 'first ')
  await inside(server, id, 'touch /tmp/go')
  assert.deepEqual(await p.ended, { code: 0, signal: null })
  assert.equal(p.stdout, 'first second')
})

test('bytes of the output are not touched: NUL, escape sequences, half pairs', () => {
  const r = code(String.raw`send("stdout", text="a\0\x1b[31mb\r\n"); raw('{"type":"stdout","text":"\\ud83d\\ude00 \\ud800!"}\n')`)
  assert.deepEqual(result(r), [0, 'a\0\x1b[31mb\r\n😀 \ufffd!', ''])
})

test('a result without text is printed as what it has', () => {
  assert.equal(code('send("result", markdown="# title", extra={})').stdout, '# title\n')
  assert.equal(code('send("result", latex="$x$", html="<i>", extra={})').stdout, '$x$\n')
  assert.equal(code('send("result", json={"b": 10**30, "a": [1.0, None]}, extra={})').stdout, `{\n  "a": [\n    1.0,\n    null\n  ],\n  "b": ${10n ** 30n}\n}\n`)
  assert.deepEqual(result(code('send("result", html="<b>x</b>", svg="<svg/>", extra={})')), [0, '', '(text/html, image/svg+xml): --save DIR keeps it\n'])
  assert.deepEqual(result(code('send("result", extra={"x/y": "z"})')), [0, '', ''])
})

test('an error goes to stderr, and the exit code is 1; bash: its exit code', () => {
  const r = code('send("stdout", text="before\\n")\nundefined_name')
  assert.deepEqual([r.status, r.stdout], [1, 'before\n'])
  assert.match(r.stderr, /^Traceback [^]*\nNameError: name 'undefined_name' is not defined\n$/)
  assert.deepEqual(result(code('send("error", name="ERROR", value="bad thing", traceback="")')), [1, '', 'ERROR: bad thing\n'])
  assert.deepEqual(result(code('send("error", name="", value="3", traceback="")')), [3, '', ''])
  assert.deepEqual(result(code('send("error", name="", value="Cell has trailing backslash", traceback="")')), [1, '', 'Cell has trailing backslash\n'])
  assert.deepEqual(result(code('send("error", name="", value="3", traceback="")', '--json')).slice(0, 1), [3])
})

test('--json prints the lines as they come', () => {
  const r = code('send("stdout", text="x")\nraw(\'{"type": "new_kind",  "a":1}\\n\')', '--json')
  assert.equal(r.status, 0)
  assert.deepEqual(r.stdout.split('\n').slice(1), ['{"type": "stdout", "text": "x"}', '{"type": "new_kind",  "a":1}', '{"type":"end_of_execution"}', ''])
})

// ---- input ----

test('the language comes from the option, else from the ending of the name', async () => {
  for (const [name, language] of [['a.py', 'python'], ['a.js', 'javascript'], ['a.mjs', 'javascript'], ['a.cjs', 'javascript'], ['a.mts', 'typescript'], ['a.jsh', 'java'], ['a.ts', 'typescript'], ['a.R', 'r'], ['a.r', 'r'], ['a.java', 'java'], ['a.sh', 'bash'], ['a.bash', 'bash']]) {
    assert.deepEqual(result(sandglass(args(id, write(name, 'send("stdout", text="ok")')))), [0, 'ok', ''], name)
    assert.deepEqual(await takeNotes(server, id), [`execute {"language": "${language}"} token=true`.replace('true', 'True')], name)
  }
  assert.equal(sandglass(args(id, write('b.py', 'note("r")'), '--language', 'r')).status, 0)
  assert.equal((await takeNotes(server, id))[0], 'execute {"language": "r"} token=True')
  for (const [alias, language] of [['py', 'python'], ['python3', 'python'], ['sh', 'bash'], ['js', 'javascript'], ['TS', 'typescript']]) {
    assert.equal(sandglass(args(id, write('b.py', 'note("alias")'), '--language', alias)).status, 0)
    assert.equal((await takeNotes(server, id))[0], `execute {"language": "${language}"} token=True`, alias)
  }
  assert.equal(sandglass(args(id, write('noending', 'note("default")'))).status, 0)
  assert.equal((await takeNotes(server, id))[0], 'execute {} token=True')
})

test('variables are for one run; a context is used by its id', async () => {
  assert.equal(code('send("stdout", text=env["A"] + env["B"])', '-e', 'A=1', '-e', 'B=x y"\n').stdout, '1x y"\n')
  assert.equal(code('here = 1', '--context', 'default-javascript').status, 0)
  assert.equal(code('send("stdout", text=str(here))', '--context', 'default-javascript').stdout, '1')
  assert.deepEqual((await takeNotes(server, id)).pop(), 'execute {"context_id": "default-javascript"} token=True')
})

test('code of 10 MB arrives', () => {
  const r = code(`text = """${'x'.repeat(10_000_000)}"""\nsend("stdout", text=str(len(text)))`)
  assert.deepEqual(result(r), [0, '10000000', ''])
})

test('what cannot be run is refused before anything is sent', async () => {
  const notebook = write('n.ipynb', '{}')
  assert.deepEqual(result(sandglass(args(id, notebook))), [1, '', `sandglass code: '${notebook}' is a notebook: use \`sandglass notebook run ${notebook}\`\n`])
  assert.deepEqual(result(sandglass(args(id, '/nonexistent.py'))), [1, '', "sandglass code: open '/nonexistent.py': No such file or directory\n"])
  assert.deepEqual(result(sandglass(args(id, dir))), [1, '', `sandglass code: '${dir}' is a directory\n`])
  assert.deepEqual(result(code(Buffer.from([0x22, 0xff, 0x22]))), [1, '', 'sandglass code: the code is not valid UTF-8\n'])
  assert.deepEqual(result(code(Buffer.alloc((32 << 20) + 1, '#'))), [1, '', 'sandglass code: the input has more than 32 MiB\n'])
  for (const wrong of [['--context', 'a', '--language', 'b'], ['--show', 'ascii'], ['--timeout', '0'], ['-e', 'x'], ['--nope'], ['a', 'b']])
    assert.equal(code('', ...wrong).status, 2, wrong.join(' '))
  assert.equal(sandglass(args()).status, 2)
  assert.deepEqual(await takeNotes(server, id), [])
})

// ---- what can go wrong ----

test('refusals are told in the words of the interpreter', () => {
  assert.deepEqual(result(code('1', '--language', 'klingon')), [1, '', "sandglass code: Failed to create context: no kernel for 'klingon'\n"])
  assert.deepEqual(result(code('1', '--context', 'nope')), [1, '', 'sandglass code: Context nope not found\n'])
})

test('without an interpreter, or with something else at its port', async () => {
  const other = await Sandbox.create('base', connection(server))
  const run = () => result(sandglass(args(other.sandboxId, '-'), { input: '1' }))
  assert.deepEqual(run(), [1, '', `sandglass code: nothing answers on port 49999 of sandbox ${other.sandboxId}: its template has no code interpreter; create the sandbox from code-interpreter-v1\n`])
  await other.commands.run('cd /tmp && python3 -m http.server 49999', { background: true, timeoutMs: 0 })
  await until('it answers', () => !run()[2].includes('nothing answers'))
  // What it says, on one line. It does not read the request, so its connection may break before its text is here.
  assert.match(run()[2], /^sandglass code: (<!DOCTYPE HTML>[^\n]*|the server answered 501 Not Implemented)\n$/)
  assert.deepEqual(run().slice(0, 2), [1, ''])
  await other.pause()
  assert.deepEqual(run(), [1, '', `sandglass code: ${other.sandboxId} is paused: \`sandglass resume ${other.sandboxId}\` lets it run again\n`])
  await other.kill()
  assert.match(run()[2], new RegExp(`^sandglass code: .*${other.sandboxId}.*\n$`))
  assert.equal(sandglass(args('x!', '-'), { input: '1' }).stderr, "sandglass code: 'x!' is not a sandbox id\n")
})

test('a broken answer is an error that names the line', () => {
  const broken = {
    'raw("nonsense\\n")': 'line 2 of the code interpreter\'s answer: it is no JSON object',
    'raw("[1]\\n")': 'line 2 of the code interpreter\'s answer: it is no JSON object',
    'raw("\\n")': 'line 2 of the code interpreter\'s answer: it is no JSON object',
    'raw(b\'{"type":"stdout","text":"\\xff"}\\n\')': 'line 2 of the code interpreter\'s answer: it is no JSON object',
    'raw("{}\\n")': 'line 2 of the code interpreter\'s answer: it has no type',
    'send("stdout", text=1)': "line 2 of the code interpreter's answer: 'text' of 'stdout' has a wrong type",
    'send("stdout")': "line 2 of the code interpreter's answer: 'text' of 'stdout' has a wrong type",
    'send("result", png=[1])': "line 2 of the code interpreter's answer: 'png' of 'result' has a wrong type",
    'send("result", extra=[1])': "line 2 of the code interpreter's answer: 'extra' of 'result' has a wrong type",
    'send("error", name={})': "line 2 of the code interpreter's answer: 'name' of 'error' has a wrong type",
    'send("result", json=float("nan"))': 'line 2 of the code interpreter\'s answer: it is no JSON object',
    'bare(); raw(\'{"type":"number_of_executions","execution_count":"1"}\\n\')': "line 1 of the code interpreter's answer: 'execution_count' of 'number_of_executions' has a wrong type",
    'raw("[" * 1000000 + "\\n")': 'line 2 of the code interpreter\'s answer: it is no JSON object',
    'bare(); send("stdout", text="")': "the code interpreter's answer ended before the run did",
    'bare(); raw(\'{"type":"stdout"\')': "line 1 of the code interpreter's answer: it is no JSON object",
  }
  for (const [program, words] of Object.entries(broken)) assert.deepEqual(result(code(program)), [1, '', `sandglass code: ${words}\n`], program)
})

test('a connection that is cut in the middle is an error', () => {
  const r = code('send("stdout", text="so far")\ncut()')
  assert.deepEqual([r.status, r.stdout], [1, 'so far'])
  assert.match(r.stderr, /^sandglass code: .* cut the connection in the middle of its answer\n$/)
})

test('long lines are taken, up to a limit', () => {
  const r = code('send("stdout", text="x" * 20_000_000)')
  assert.deepEqual([r.status, r.stdout.length, r.stderr], [0, 20_000_000, ''])
  const endless = code('piece = "x" * (1 << 20)\nraw(\'{"type":"stdout","text":"\')\nwhile True: raw(piece)')
  assert.deepEqual(result(endless), [1, '', "sandglass code: line 2 of the code interpreter's answer has more than 268435456 bytes\n"])
})

test('bytes that trickle are put together', () => {
  const r = code('for c in \'{"type":"stdout","text":"h\\\\u00e9"}\\n\': raw(c)')
  assert.deepEqual(result(r), [0, 'hé', ''])
})

test('an answer that goes on behind its end is left', async () => {
  const r = code('send("stdout", text="done")\nraw(\'{"type":"end_of_execution"}\\n\')\nhang()')
  assert.deepEqual(result(r), [0, 'done', ''])
  await noted(server, id, 'left')
})

test('a run that takes too long is interrupted', async () => {
  assert.deepEqual(result(code('hang()', '--timeout', '1')), [1, '', 'sandglass code: the run took longer than 1 s, and was interrupted\n'])
  await noted(server, id, 'left')
})

for (const [signal, expected] of [['SIGINT', 130], ['SIGTERM', 143]])
  test(`${signal} closes the request`, async () => {
    const p = start(args(id, '-'), { input: 'send("stdout", text="on")\nhang()' })
    await until('it runs', () => p.stdout === 'on')
    p.child.kill(signal)
    assert.equal((await p.ended).code, expected)
    assert.equal(p.stderr, '')
    await noted(server, id, 'left')
  })

test('a signal ends a run whose output nobody takes', async () => {
  const p = start(args(id, '-'), { input: 'while True: send("stdout", text="x" * 100_000)', stdio: ['pipe', 'pipe', 'pipe'] })
  p.child.stdout.pause()
  await until('a first byte', () => p.child.stdout.readableLength > 0 || p.stdout.length > 0)
  p.child.stdout.pause()
  p.child.kill('SIGINT')
  p.child.stdout.once('close', () => {})
  await until('the process ended', () => p.child.exitCode !== null)
  assert.equal(p.child.exitCode, 130)
  p.child.stdout.resume()
  await p.ended
})

test('when nobody reads the output any more, the run is interrupted', async () => {
  const p = start(args(id, '-'), { input: 'send("stdout", text="on\\n")\ntry:\n  while True: send("stdout", text="more\\n" * 1000)\nfinally: note("over")' })
  await until('it runs', () => p.stdout.startsWith('on\n'))
  p.child.stdout.destroy()
  assert.equal((await p.ended).code, 141)
  await noted(server, id, 'over')
})

test('a sandbox that is killed or paused during the run says so', async () => {
  for (const [how, words] of [['pause', 'was paused: `sandglass resume ID` lets it run again'], ['kill', 'was killed, which ended the run']]) {
    const other = await startInterpreter(server)
    const p = start(args(other.sandboxId, '-'), { input: 'send("stdout", text="on")\nhang()' })
    await until('it runs', () => p.stdout === 'on')
    await other[how]()
    assert.equal((await p.ended).code, 1)
    assert.equal(p.stderr, `sandglass code: sandbox ${other.sandboxId} ${words.replace('ID', other.sandboxId)}\n`)
    if (how === 'pause') await other.kill()
  }
})

test('a sandbox with private traffic, and TLS', async () => {
  const other = await startInterpreter(server, { secure: true, network: { allowPublicTraffic: false } })
  assert.deepEqual(result(sandglass(args(other.sandboxId, '-'), { input: 'send("stdout", text="private")' })), [0, 'private', ''])
  await other.kill()
  const env = { PATH: process.env.PATH, E2B_API_KEY: server.key, E2B_API_URL: `https://api.${server.domain}`, E2B_SANDBOX_URL: `https://sandbox.${server.domain}`, SSL_CERT_FILE: server.env.SSL_CERT_FILE }
  assert.deepEqual(result(sandglass(['code', id, '-'], { input: 'send("stdout", text="tls")', env })), [0, 'tls', ''])
})

// ---- files ----

test('--save writes pictures and documents, and overwrites nothing', () => {
  const to = path.join(dir, 'saved')
  const base64 = red.toString('base64')
  const folded = base64.replace(/.{20}/g, '$&\\n') // as some kernels send it
  const program = `send("result", text="<Figure>", png="${folded}", extra={})\nsend("result", jpeg="${base64}", svg="<svg/>", pdf="${base64}", html="<p>é</p>", extra={})`
  const r = code(program, '--save', 'saved')
  assert.deepEqual(result(r), [0, '<Figure>\n', ['1.png', '2.jpeg', '3.pdf', '4.svg', '5.html'].map((n) => `saved saved/result-${n}\n`).join('') + '(text/html, image/svg+xml, image/jpeg, application/pdf)\n'])
  assert.ok(fs.readFileSync(path.join(to, 'result-1.png')).equals(red))
  assert.equal(fs.readFileSync(path.join(to, 'result-5.html'), 'utf8'), '<p>é</p>')
  fs.symlinkSync('/tmp/elsewhere', path.join(to, 'result-2.png'))
  code(`send("result", png="${base64}", extra={})`, '--save', 'saved')
  assert.deepEqual(fs.readdirSync(to).filter((name) => name.endsWith('.png')), ['result-1.png', 'result-2.png', 'result-3.png'])
  assert.ok(!fs.existsSync('/tmp/elsewhere'))
})

test('--save fails before the run where it cannot write, and on a broken picture', async () => {
  write('file', '')
  assert.match(code('note("ran")', '--save', 'file').stderr, /^sandglass code: open the directory 'file': Not a directory\n$/)
  assert.match(code('note("ran")', '--save', 'no/such/dir').stderr, /^sandglass code: make the directory 'no\/such\/dir'/)
  assert.deepEqual(await takeNotes(server, id), [])
  assert.deepEqual(result(code('send("result", png="*", extra={})', '--save', 'broken')), [1, '', "sandglass code: a result's png is not valid base64\n"])
})

// ---- at a terminal ----

const prompt = (n, language = 'python') => new RegExp(`${language} \\[${n}\\]: $`)

test('a session has a context of its own, which is gone afterwards', async () => {
  const t = terminal(args(id))
  await t.shows(prompt(1))
  t.type('x = 4\r')
  await t.shows(prompt(2))
  t.type('for i in range(2):\r')
  await t.shows(/range\(2\):\r\n +\.\.\.: $/)
  t.type('    send("stdout", text=f"<{i * x}>")\r')
  await t.shows(/\)\r\n +\.\.\.: $/)
  t.type('\r')
  await t.shows(/<0><4>\r\npython \[3\]: $/)
  t.type('send("result", text=str((1,\r')
  await t.shows(/\(\(1,\r\n +\.\.\.: $/)
  t.type('2)), extra={}, is_main_result=True)\r')
  await t.shows(/\(1, 2\)\r\npython \[4\]: $/)
  t.type('oops\r')
  await t.shows(/NameError: name 'oops' is not defined\r\npython \[5\]: $/)
  t.type('\x04')
  assert.equal(await t.ended, 0)
  const notes = await takeNotes(server, id)
  const context = /^context (c\d+) python/.exec(notes[0])[1]
  assert.equal(notes.pop(), `deleted ${context}`)
  assert.ok(notes.slice(1).every((line) => line === `execute {"context_id": "${context}"} token=True`), notes.join('\n'))
})

test('Ctrl-C ends a run and comes back to the prompt; twice leaves', async () => {
  const t = terminal(args(id, '--language', 'js'))
  await t.shows(prompt(1, 'javascript'))
  t.type('send("stdout", text="on"); hang()\r')
  await t.shows(/\r\non$/)
  t.type('\x03')
  await t.shows(/\(again to leave, or Ctrl-D\)\r\njavascript \[2\]: $/)
  await noted(server, id, 'left')
  t.type('send("stdout", text="still here\\n")\r')
  await t.shows(/\r\nstill here\r\njavascript \[3\]: $/)
  t.type('half a line')
  await t.shows(/half a line$/)
  t.type('\x03')
  await t.shows(/leave, or Ctrl-D\)\r\njavascript \[3\]: $/)
  t.type('\x03')
  assert.equal(await t.ended, 0)
  assert.match((await takeNotes(server, id)).pop(), /^deleted c\d+$/)
})

test('%lang changes the language; what is refused does not end the session', async () => {
  const t = terminal(args(id))
  await t.shows(prompt(1))
  t.type('%lang r\r')
  await t.shows(prompt(1, 'r'))
  t.type('%lang klingon\r')
  await t.shows(/sandglass code: Failed to create context: no kernel for 'klingon'\r\nr \[1\]: $/)
  t.type('raw("broken\\n")\r')
  await t.shows(/it is no JSON object\r\nr \[\d\]: $/)
  t.type('send("error", name="", value="7", traceback="")\r')
  await t.shows(/\(exit code 7\)\r\n/)
  t.type('\x04')
  assert.equal(await t.ended, 0)
  const notes = await takeNotes(server, id)
  assert.equal(notes.filter((line) => line.startsWith('context')).length, notes.filter((line) => line.startsWith('deleted')).length)
})

test('a session in a context that exists leaves it there', async () => {
  const t = terminal(args(id, '--context', 'default-javascript'))
  await t.shows(/javascript \[1\]: $/)
  t.type('\x04')
  assert.equal(await t.ended, 0)
  assert.deepEqual(await takeNotes(server, id), [])
  const none = terminal(args(id, '--context', 'nope'))
  assert.equal(await none.ended, 1)
  assert.match(none.shown, /sandglass code: Context nope not found\r\n/)
})

const show = `send("result", text="<Figure>", png="${red.toString('base64')}", extra={})`

test('pictures are shown as the terminal wants them', async () => {
  const file = write('show.py', show)
  const shown = async (env, ...more) => {
    const t = terminal(args(id, file, ...more), { env })
    assert.equal(await t.ended, 0, t.shown)
    return t.shown
  }
  const kitty = `\x1b_Ga=T,f=100,q=2,m=0;${red.toString('base64')}\x1b\\\r\n`
  assert.equal(await shown({ KITTY_WINDOW_ID: '1' }), kitty)
  assert.equal(await shown({ TERM_PROGRAM: 'iTerm.app' }), `\x1b]1337;File=inline=1;preserveAspectRatio=1;size=${red.length}:${red.toString('base64')}\x07\r\n`)
  assert.match(await shown({}, '--show', 'sixel'), /^\x1bP0;1q"1;1;12;7#0;2;0;0;0[^\x1b]*#180!12~\$-#180!12@\$-\x1b\\\r\n$/)
  assert.equal(await shown({ KITTY_WINDOW_ID: '1' }, '--show', 'none'), '<Figure>\r\n')
  assert.equal(await shown({ TERM: 'dumb' }), '<Figure>\r\n')
  assert.equal(result(code(show, '--show', 'kitty'))[1], kitty.replace('\r', '')) // as asked for, also into a file
  assert.equal(result(code(show))[1], '<Figure>\n')
})

test('a terminal is asked what it can, and need not answer', async () => {
  const file = write('show.py', show)
  const question = /\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\\x1b\[c/
  for (const [answer, expected] of [['\x1b[?62;4;22c', /\x1bP0;1q"/], ['\x1b_Gi=31;OK\x1b\\\x1b[?62c', /\x1b_Ga=T,f=100/], ['\x1b[?62;22c', /<Figure>\r\n$/], ['', /<Figure>\r\n$/]]) {
    const t = terminal(args(id, file))
    await t.shows(question)
    if (answer) t.type(answer)
    assert.equal(await t.ended, 0, t.shown)
    assert.match(t.shown, expected, JSON.stringify(answer))
  }
})

test('a picture that is broken, or too large, is printed as its text', async () => {
  const cut = red.subarray(0, 50).toString('base64')
  const huge = Buffer.from(red)
  huge.writeUInt32BE(100_000, 16)
  const file = write('broken.py', `send("result", text="<cut>", png="${cut}", extra={})\nsend("result", text="<huge>", png="${huge.toString('base64')}", extra={})\nsend("result", text="<none>", png="*", extra={})`)
  const t = terminal(args(id, file, '--show', 'sixel'))
  assert.equal(await t.ended, 0)
  assert.equal(t.shown, '<cut>\r\n<huge>\r\n<none>\r\n')
})

test('help, and the list of commands', () => {
  assert.match(sandglass(['help', 'code']).stdout, /^usage: sandglass code /)
  assert.match(sandglass(['help']).stdout, /\n {2}code {7}run code in a sandbox/)
  assert.ok(fs.existsSync(binary))
})
