// Every language: output, values, errors, directories, state, and what is special about each.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, languages, sharedSandbox, stderrOf, stdoutOf } from '../lib/code/suite.mjs'

const suite = await codeSuite()
const sandbox = await sharedSandbox(suite)
const run = (language, code, options = {}) => sandbox.runCode(code, { language, timeoutMs: 120_000, ...options })

for (const [language, { hello, where }] of Object.entries(languages))
  test(`${language}: prints, and begins in /home/user`, async () => {
    assert.equal(stdoutOf(await run(language, hello)).replaceAll('\r', ''), 'hello\n')
    assert.equal(stdoutOf(await run(language, where)).trim(), '/home/user')
  })

test('names of languages: any case, blanks around, short forms', async () => {
  assert.equal((await run(' Python ', '1 + 1')).text, '2')
  assert.equal((await run('JS', '1 + 1')).text, '2')
  assert.equal(stdoutOf(await run('ts', 'const n: number = 3; console.log(n)')), '3\n')
  assert.equal(stdoutOf(await run('R', 'cat("r\\n")')), 'r\n')
})

test('python: magics, top-level await, tracebacks without colours', async () => {
  assert.equal(stdoutOf(await run('python', '%%bash\necho from bash')), 'from bash\n')
  assert.equal(stdoutOf(await run('python', '%cd /tmp\n%cd /home/user')).includes('/home/user'), true)
  assert.equal((await run('python', 'import asyncio\nawait asyncio.sleep(0, "awaited")')).text, 'awaited')
  const { error } = await run('python', 'def f():\n    return 1 / 0\nf()')
  assert.deepEqual([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
  assert.match(error.traceback, /line 2/)
  assert.doesNotMatch(error.traceback, /\x1b/)
})

test('javascript: values, imports, await, state, rich output, errors', async () => {
  assert.deepEqual((await run('js', 'console.log("Hello World!")')).logs.stdout, ['Hello World!\n'])
  assert.equal((await run('js', 'process.cwd()')).text, '/home/user')
  assert.deepEqual((await run('js', 'import { readFileSync } from "fs"\nconsole.log(typeof readFileSync)')).logs.stdout, ['function\n'])
  assert.equal((await run('js', "await Promise.resolve('Hello World!')")).text, 'Hello World!')
  assert.equal((await run('js', 'Promise.resolve(6 * 7)')).text, '42')
  assert.equal((await run('js', 'const kept = await Promise.resolve(5); let also = 6; class K {}')).results.length, 0)
  assert.equal((await run('js', 'kept + also + typeof K')).text, '11function')
  assert.equal((await run('js', 'undefined')).results.length, 0)
  assert.equal((await run('js', '({ a: [1, 2], b: "text" })')).text, "{ a: [ 1, 2 ], b: 'text' }")
  const rich = await run('js', '({ _toHtml() { return "<b>bold</b>" }, _toMime() { return { "text/markdown": "*m*" } } })')
  assert.equal(rich.results.some((r) => r.html === '<b>bold</b>' || r.markdown === '*m*'), true)
  assert.equal((await run('js', '$$.html("<i>i</i>")')).results[0].html, '<i>i</i>')
  const { error } = await run('js', 'throw new TypeError("wrong")')
  assert.deepEqual([error.name, error.value], ['TypeError', 'wrong'])
  assert.equal((await run('js', 'return 1')).error.name, 'SyntaxError')
  assert.match(stderrOf(await run('js', 'console.error("to stderr")')), /to stderr/)
})

test('typescript: types, in a context of its own', async () => {
  assert.deepEqual((await run('typescript', 'const message: string = "Hello World!"; console.log(message)')).logs.stdout, ['Hello World!\n'])
  await run('ts', 'interface Point { x: number }\nenum Colour { Red, Green }\nconst p: Point = { x: 3 }')
  assert.equal((await run('ts', 'p.x + Colour.Green')).text, '4')
  assert.equal((await run('js', 'typeof p')).text, 'undefined')
})

test('r: prints, values as displays, plots, messages on stderr, errors', async () => {
  assert.deepEqual((await run('r', 'print("Hello, World!")')).logs.stdout, ['[1] "Hello, World!"\n'])
  const value = await run('r', 'x <- 41; x + 1')
  assert.deepEqual([value.text, value.results[0].isMainResult, value.results[0].text], [undefined, false, '[1] 42'])
  assert.equal((await run('r', 'getwd()')).results[0].text, '[1] "/home/user"')
  assert.equal(stdoutOf(await run('r', 'cat(x)')), '41')
  assert.ok((await run('r', 'plot(1:10)')).results.some((r) => r.png ?? r.svg ?? r.jpeg))
  assert.match(stderrOf(await run('r', 'message("a message"); warning("a warning")')), /a message[\s\S]*a warning/)
  const { error } = await run('r', 'stop("broken")')
  assert.equal(error.name, 'ERROR')
  assert.match(error.value, /broken/)
})

test('java: text and newline are two messages; values, state, exceptions', async () => {
  assert.equal((await run('java', 'System.out.println("Hello, World!");')).logs.stdout[0], 'Hello, World!')
  await run('java', 'import java.util.*; int twice(int n) { return 2 * n; }\nvar list = new ArrayList<Integer>(List.of(1, 2));')
  assert.equal((await run('java', 'list.add(twice(4)); list')).text, '[1, 2, 8]')
  const { error } = await run('java', 'throw new IllegalStateException("wrong state");')
  assert.match(error.name, /IllegalStateException/)
  assert.match(error.value, /wrong state/)
  assert.ok((await run('java', 'int x = "text";')).error)
  assert.equal(stdoutOf(await run('java', 'System.out.println(System.getProperty("user.dir"));')).trim(), '/home/user')
})

test('bash: one message for each line, both outputs in one, state, exit codes as errors', async () => {
  const two = await run('bash', 'echo one\necho two >&2')
  assert.deepEqual(two.logs.stdout.map((s) => s.trim()), ['one', 'two'])
  assert.deepEqual(two.logs.stderr, [])
  assert.equal(two.results.length, 0)
  await run('bash', 'name=kept; f() { echo "f $1"; }; cd /tmp')
  assert.equal(stdoutOf(await run('bash', 'f $name; pwd')).replaceAll('\r', ''), 'f kept\n/tmp\n')
  const { error } = await run('bash', '(exit 3)')
  assert.deepEqual({ ...error }, { name: '', value: '3', traceback: '' })
  assert.equal((await run('bash', 'echo cut \\')).error.value, 'Cell has trailing backslash')
  assert.equal(stdoutOf(await run('bash', 'cd /home/user; echo fine')).trim(), 'fine')
})

test('directories of new contexts; one that is missing', async () => {
  for (const [language, { where }] of Object.entries(languages)) {
    const context = await sandbox.createCodeContext({ language, cwd: '/tmp', requestTimeoutMs: 120_000 })
    assert.deepEqual([context.language, context.cwd], [language, '/tmp'])
    assert.equal(stdoutOf(await sandbox.runCode(where, { context })).trim(), '/tmp', language)
    if (sandbox.removeCodeContext) await sandbox.removeCodeContext(context)
  }
  for (const language of ['javascript', 'r', 'bash']) await assert.rejects(sandbox.createCodeContext({ language, cwd: '/no/such/place', requestTimeoutMs: 120_000 }), suite.SandboxError, language)
  for (const language of ['python', 'java']) {
    const context = await sandbox.createCodeContext({ language, cwd: '/no/such/place', requestTimeoutMs: 120_000 })
    assert.equal(stdoutOf(await sandbox.runCode(languages[language].where, { context })).trim(), '/home/user', language)
  }
})
