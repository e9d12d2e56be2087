// `sandglass code` and `sandglass notebook` with the real interpreter and its kernels.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'

import { codeSuite, sharedSandbox } from '../../lib/code/suite.mjs'
import { sandglass, temporaryDir } from '../../lib/server.mjs'
import { until } from '../../lib/wait.mjs'
import { closeTerminals, start, terminal } from '../command/stand_in.mjs'

const suite = await codeSuite()
const { server } = suite
const sandbox = await sharedSandbox(suite)
const id = sandbox.sandboxId
const dir = temporaryDir('command')
after(() => {
  closeTerminals()
  fs.rmSync(dir, { recursive: true, force: true })
})

const args = (...more) => ['code', '--data', server.data, id, ...more]
const code = (text, ...options) => sandglass(args('-', ...options), { input: text, cwd: dir })
const result = ({ status, stdout, stderr }) => [status, stdout, stderr]
const write = (name, text) => (fs.writeFileSync(path.join(dir, name), text), path.join(dir, name))

const programs = {
  'hello.py': ['print("hello")\nx = 6\nx * 7', 'hello\n42\n'],
  'hello.js': ['console.log("hello")\n6 * 7', 'hello\n42\n'],
  'hello.ts': ['const x: number = 6\nconsole.log("hello")\nx * 7', 'hello\n42\n'],
  'hello.r': ['cat("hello\\n")\n6 * 7', 'hello\n[1] 42\n'],
  'hello.java': ['System.out.println("hello");\n6 * 7', 'hello\n42\n'],
  'hello.sh': ['echo hello\necho $((6 * 7))', 'hello\n42\n'],
}
for (const [name, [text, output]] of Object.entries(programs))
  test(`${name} runs`, () => assert.deepEqual(result(sandglass(args(write(name, text)))), [0, output, '']))

test('errors and exit codes', () => {
  const python = code('1 / 0')
  assert.equal(python.status, 1)
  assert.match(python.stderr, /^-+\nZeroDivisionError +Traceback \(most recent call last\)\n[^]*\nZeroDivisionError: division by zero\n$/)
  assert.deepEqual(result(code('echo before; (exit 3)', '--language', 'bash')), [3, 'before\n', ''])
  assert.equal(code('throw new Error("no")', '--language', 'js').status, 1)
  assert.match(code('1', '--language', 'klingon').stderr, /^sandglass code: Failed to create context: /)
  assert.equal(code('1', '--context', 'nope').stderr, 'sandglass code: Context nope not found\n')
})

test('variables of the sandbox are there, those of a run are gone afterwards', () => {
  const program = 'import os\nprint(os.environ.get("ONE"), os.environ.get("E2B_SANDBOX_ID"))'
  assert.equal(code(program, '-e', 'ONE=a "b"').stdout, `a "b" ${id}\n`)
  assert.equal(code(program).stdout, `None ${id}\n`)
})

test('a plot and a table are saved', () => {
  const r = code('import matplotlib.pyplot as plt, pandas as pd\nplt.plot([1, 2])\nplt.show()\npd.DataFrame({"a": [1]})', '--save', 'plots')
  assert.deepEqual(result(r), [0, '<Figure size 640x480 with 1 Axes>\n   a\n0  1\n', 'saved plots/result-1.png\nsaved plots/result-2.html\n'])
  assert.equal(fs.readFileSync(path.join(dir, 'plots/result-1.png')).subarray(1, 4).toString(), 'PNG')
})

test('a plot is drawn as sixels', async () => {
  const t = terminal(args(write('plot.py', 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()'), '--show', 'sixel'))
  assert.equal(await t.ended, 0)
  assert.match(t.shown, /^\x1bP0;1q"1;1;\d+;\d+#[^\x1b]+\x1b\\\r\n$/)
})

test('a run that is interrupted leaves its variables', async () => {
  const p = start(args('-'), { input: 'kept = "here"\nprint("on", flush=True)\nimport time\ntime.sleep(600)' })
  await until('it runs', () => p.stdout === 'on\n')
  p.child.kill('SIGINT')
  assert.equal((await p.ended).code, 130)
  assert.deepEqual(result(code('print(kept)')), [0, 'here\n', ''])
  assert.deepEqual(result(code('import time; time.sleep(600)', '--timeout', '1')), [1, '', 'sandglass code: the run took longer than 1 s, and was interrupted\n'])
  assert.deepEqual(result(code('print(kept)')), [0, 'here\n', ''])
})

test('a session', async () => {
  const contexts = async () => JSON.parse(sandglass(['exec', '--data', server.data, id, 'curl', '-s', 'localhost:49999/contexts']).stdout).length
  const before = await contexts()
  const t = terminal(args())
  await t.shows(/python \[1\]: $/)
  t.type('def f(x):\r    return x * 2\r\r')
  await t.shows(/python \[2\]: $/)
  t.type('f(21)\r')
  await t.shows(/\r\n42\r\npython \[3\]: $/)
  t.type('import time; print("on", flush=True); time.sleep(600)\r')
  await t.shows(/\r\non\r\n/)
  t.type('\x03')
  await t.shows(/Ctrl-D\)\r\npython \[4\]: $/)
  t.type('f("a")\r')
  await t.shows(/\r\naa\r\npython \[5\]: $/)
  t.type('%lang bash\r')
  await t.shows(/bash \[1\]: $/)
  t.type('for i in 1 2; do\recho "<$i>"\rdone\r')
  await t.shows(/<1>\r\n<2>\r\nbash \[2\]: $/)
  t.type('\x04')
  assert.equal(await t.ended, 0)
  assert.equal(await contexts(), before)
})

// ---- notebooks ----

const cell = (source) => ({ cell_type: 'code', execution_count: null, metadata: {}, outputs: [], source: source.split(/(?<=\n)/) })
function notebook(name, language, ...sources) {
  const book = { cells: sources.map(cell), metadata: { language_info: { name: language } }, nbformat: 4, nbformat_minor: 4 }
  return write(name, JSON.stringify(book, null, 1) + '\n')
}
const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8')).cells
const sandboxes = () => JSON.parse(sandglass(['ps', '--json', '--data', server.data]).stdout).map((s) => s.sandboxID)

test('a notebook in a sandbox of its own', () => {
  const file = notebook('a.ipynb', 'python', 'import matplotlib.pyplot as plt\nprint("é")\nplt.plot([1, 2]);', '{"b": 1.0, "a": [10**30]}', 'import os\nos.getcwd() + " " + os.environ["E2B_SANDBOX_ID"]', '1/0', 'never')
  const r = sandglass(['notebook', 'run', '--data', server.data, file, '-w', '/tmp'])
  assert.equal(r.status, 1)
  assert.match(r.stderr, /\nsandglass notebook: cell 4 of 5 failed: ZeroDivisionError: division by zero\n$/)
  const [plot, dict, cwd, error, never] = read(file)
  assert.deepEqual(plot.outputs[0], { name: 'stdout', output_type: 'stream', text: ['é\n'] })
  assert.deepEqual([plot.outputs.at(-1).output_type, typeof plot.outputs.at(-1).data['image/png']], ['display_data', 'string'])
  assert.deepEqual([dict.outputs[0].output_type, dict.outputs[0].execution_count, dict.execution_count], ['execute_result', 2, 2])
  assert.ok(fs.readFileSync(file, 'utf8').includes(`"a": [\n        ${10n ** 30n}\n       ],\n       "b": 1.0`))
  const [, its] = cwd.outputs[0].data['text/plain'].join('').match(/^\/tmp (i[a-z0-9]+)$/)
  assert.equal(error.outputs[0].ename, 'ZeroDivisionError')
  assert.deepEqual(never.outputs, [])
  assert.ok(!sandboxes().includes(its)) // other suites make sandboxes on this server at the same time
})

test('notebooks in other languages', () => {
  for (const [language, source, text] of [['R', 'x <- 1:3\nx', '[1] 1 2 3'], ['javascript', '[1, 2].map((x) => x + 1)', '[ 2, 3 ]'], ['bash', 'echo "a b"', 'a b\n']]) {
    const file = notebook(`${language}.ipynb`, language, source)
    assert.deepEqual(result(sandglass(['notebook', 'run', '--data', server.data, '--sandbox', id, file])), [0, '', ''], language)
    const [output] = read(file)[0].outputs
    assert.equal((output.data?.['text/plain'] ?? output.text).join(''), text, language)
  }
})
