// `sandglass notebook run` against sandboxes with a stand-in for the code interpreter.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, beforeEach, test } from 'node:test'

import { closeTerminals, noted, start, startInterpreter, takeNotes, terminal } from './stand_in.mjs'
import { sandglass, Server, temporaryDir } from '../../lib/server.mjs'
import { until } from '../../lib/wait.mjs'

let server, id, dir, template
before(async () => {
  server = await Server.start()
  const sandbox = await startInterpreter(server)
  id = sandbox.sandboxId
  dir = temporaryDir('notebook')
  const snapshot = sandglass(['snapshot', '--data', server.data, id])
  assert.equal(snapshot.status, 0, snapshot.stderr)
  template = snapshot.stdout.trim() // new sandboxes begin with the stand-in running
})
after(() => {
  closeTerminals()
  fs.rmSync(dir, { recursive: true, force: true })
  return server.cleanUp()
})
beforeEach(() => takeNotes(server, id))

const args = (...more) => ['notebook', 'run', '--data', server.data, ...more]
const run = (...more) => sandglass(args(...more), { input: '', cwd: dir, maxBuffer: 1 << 29 })
const result = ({ status, stdout, stderr }) => [status, stdout, stderr]
const file = (name) => path.join(dir, name)
const read = (name) => fs.readFileSync(file(name), 'utf8')
const sandboxes = () => JSON.parse(sandglass(['ps', '--json', '--data', server.data]).stdout).map((s) => s.sandboxID)
const cell = (source, more = {}) => ({ cell_type: 'code', execution_count: null, metadata: {}, outputs: [], source, ...more })
/** As Jupyter writes: indent of one space, a line end. */
const written = (book) => JSON.stringify(book, null, 1) + '\n'
function notebook(name, cells, more = {}) {
  const text = written({ cells, metadata: { kernelspec: { display_name: 'Python 3', language: 'python', name: 'python3' } }, nbformat: 4, nbformat_minor: 5, ...more })
  fs.writeFileSync(file(name), text)
  return text
}
const outputs = (name) => JSON.parse(read(name)).cells.map((c) => c.outputs)

test('outputs go into the cells, as Jupyter writes them', async () => {
  notebook('a.ipynb', [
    { cell_type: 'markdown', id: 'm', metadata: { x: 1 }, source: ['# title\n', 'text'] },
    cell(['x = 1\n', 'send("stdout", text="a\\nb")\n', 'send("stdout", text="c\\n")\n', 'send("stderr", text="é\\n")\n', 'send("stdout", text="d")']),
    cell('send("result", text="2\\n3", html="<b>", png="AAAA", json={"b": 1.0, "a": []}, chart={"type": "line"}, extra={"application/vnd.x+json": {"k": 1}, "x/y": "z"}, is_main_result=True)'),
    cell('send("result", text=str(x), extra={})', { metadata: { tags: ['a'] } }),
  ])
  assert.deepEqual(result(run('a.ipynb', '--sandbox', id)), [0, '', ''])
  const book = JSON.parse(read('a.ipynb'))
  assert.equal(read('a.ipynb').replace('"b": 1.0', '"b": 1'), written(book))
  assert.deepEqual(book.cells.map((c) => c.execution_count), [undefined, 1, 2, 3])
  assert.deepEqual(book.cells[1].outputs, [
    { name: 'stdout', output_type: 'stream', text: ['a\n', 'bc\n'] },
    { name: 'stderr', output_type: 'stream', text: ['é\n'] },
    { name: 'stdout', output_type: 'stream', text: ['d'] },
  ])
  assert.deepEqual(book.cells[2].outputs, [{
    data: {
      'application/json': { a: [], b: 1 }, 'application/vnd.x+json': { k: 1 }, 'e2b/chart': '{"type": "line"}', 'image/png': 'AAAA', 'text/html': ['<b>'], 'text/plain': ['2\n', '3'], 'x/y': 'z',
    },
    execution_count: 2, metadata: {}, output_type: 'execute_result',
  }])
  assert.ok(read('a.ipynb').includes('"b": 1.0'))
  assert.deepEqual(book.cells[3].outputs, [{ data: { 'text/plain': ['1'] }, metadata: {}, output_type: 'display_data' }])
  const notes = await takeNotes(server, id)
  assert.match(notes[0], /^context (c\d+) python \/home\/user$/)
  assert.equal(notes.pop(), `deleted ${notes[0].split(' ')[1]}`)
})

test('everything else in the file stays, to the byte', () => {
  const text = `{
 "nbformat_minor": 5, "nbformat": 4,
 "metadata": {"big": 123456789012345678901234567890, "n": 1.50e+3, "unknown": [ ],   "s": "\\u00e9\\/"},
 "cells": [
  {"outputs": [ {"old": true} ], "cell_type": "code", "source": "send('stdout', text='new')", "id": "\\u0061b", "metadata": {"zoom": 1.0}, "execution_count": 7},
  {"cell_type": "raw", "source": "x", "metadata": {}},
  {"cell_type": "code", "source": "  \\n", "outputs": [1], "execution_count": 3, "metadata": {}},
  {"cell_type": "code", "source": [], "outputs": [2], "execution_count": 4, "metadata": {}},
  {"cell_type": "code", "source": "note(1)", "outputs": [3], "execution_count": 5, "metadata": {"tags": ["skip-execution"]}},
  {"cell_type": "code", "source": "note(2)", "metadata": {}}
 ]
}`
  fs.writeFileSync(file('odd.ipynb'), text, { mode: 0o640 })
  fs.symlinkSync('odd.ipynb', file('link.ipynb'))
  assert.deepEqual(result(run('link.ipynb', '--sandbox', id)), [0, '', ''])
  const output = `[
    {
     "name": "stdout",
     "output_type": "stream",
     "text": [
      "new"
     ]
    }
   ]`
  const expected = text.replace('[ {"old": true} ]', output).replace('"execution_count": 7', '"execution_count": 1')
    .replace('"note(2)", "metadata": {}}', '"note(2)", "metadata": {},\n   "execution_count": 2,\n   "outputs": []}') + '\n'
  assert.equal(read('odd.ipynb'), expected)
  assert.equal(fs.statSync(file('odd.ipynb')).mode & 0o777, 0o640)
  assert.ok(fs.lstatSync(file('link.ipynb')).isSymbolicLink())
  assert.deepEqual(fs.readdirSync(dir).filter((name) => name.startsWith('.sandglass')), [])
})

test('a notebook on one line stays on one line', () => {
  fs.writeFileSync(file('compact.ipynb'), '{"cells":[{"cell_type":"code","source":"send(\'stdout\',text=\'x\')","metadata":{},"outputs":[],"execution_count":null}],"metadata":{},"nbformat":4,"nbformat_minor":2}\n')
  assert.equal(run('compact.ipynb', '--sandbox', id).status, 0)
  assert.equal(read('compact.ipynb'), '{"cells":[{"cell_type":"code","source":"send(\'stdout\',text=\'x\')","metadata":{},"outputs":[{"name":"stdout","output_type":"stream","text":["x"]}],"execution_count":1}],"metadata":{},"nbformat":4,"nbformat_minor":2}\n')
})

test('a new sandbox is killed at the end, or kept', () => {
  notebook('new.ipynb', [cell('send("stdout", text=env.get("A", "-"))')])
  const before = sandboxes()
  assert.deepEqual(result(run('new.ipynb', '--template', template)), [0, '', ''])
  assert.deepEqual(sandboxes(), before)
  const kept = run('new.ipynb', '--template', template, '--keep')
  assert.equal(kept.status, 0)
  const left = sandboxes().filter((one) => !before.includes(one))
  assert.equal(kept.stderr, `sandbox ${left[0]} goes on\n`)
  assert.equal(left.length, 1)
  sandglass(['kill', '--data', server.data, left[0]])
})

test('--out leaves the notebook as it is', () => {
  const text = notebook('in.ipynb', [cell('send("stdout", text="x")')])
  assert.equal(run('in.ipynb', '--out', 'out.ipynb', '--sandbox', id).status, 0)
  assert.equal(read('in.ipynb'), text)
  assert.equal(outputs('out.ipynb')[0][0].text[0], 'x')
})

test('the language, the directory and the time limit', async () => {
  notebook('r.ipynb', [cell('note("cell")')], { metadata: { language_info: { name: 'r' } } })
  assert.equal(run('r.ipynb', '--sandbox', id, '-w', '/tmp').status, 0)
  assert.match((await takeNotes(server, id))[0], /^context c\d+ r \/tmp$/)
  assert.equal(run('r.ipynb', '--sandbox', id, '--language', 'bash').status, 0)
  assert.match((await takeNotes(server, id))[0], /^context c\d+ bash /)
  notebook('none.ipynb', [cell('1')], { metadata: {} })
  assert.equal(run('none.ipynb', '--sandbox', id).status, 0)
  assert.match((await takeNotes(server, id))[0], /^context c\d+ python /)
  notebook('k.ipynb', [cell('1')], { metadata: { kernelspec: { language: 'klingon' } } })
  const before = read('k.ipynb')
  assert.deepEqual(result(run('k.ipynb', '--sandbox', id)), [1, '', "sandglass notebook: Failed to create context: no kernel for 'klingon'\n"])
  assert.equal(read('k.ipynb'), before)
  assert.equal(run('k.ipynb', '--sandbox', id, '--out', 'k.out').status, 1)
  assert.ok(!fs.existsSync(file('k.out'))) // nothing was run, nothing is written
  notebook('slow.ipynb', [cell('send("stdout", text="begun")\nhang()'), cell('note("never")')])
  assert.deepEqual(result(run('slow.ipynb', '--sandbox', id, '--timeout', '1')), [1, '', 'sandglass notebook: cell 1 of 2: the run took longer than 1 s, and was interrupted\n'])
  assert.deepEqual(outputs('slow.ipynb'), [[{ name: 'stdout', output_type: 'stream', text: ['begun'] }], []])
})

test('a cell that fails stops the run, with its number', async () => {
  notebook('fails.ipynb', [cell('send("stdout", text="1")'), cell('wrong'), cell('note("third")')])
  const r = run('fails.ipynb', '--sandbox', id)
  assert.equal(r.status, 1)
  assert.match(r.stderr, /^Traceback [^]*\nNameError: name 'wrong' is not defined\nsandglass notebook: cell 2 of 3 failed: NameError: name 'wrong' is not defined\n$/)
  const [first, second, third] = outputs('fails.ipynb')
  assert.equal(first[0].text[0], '1')
  assert.deepEqual([second[0].output_type, second[0].ename, second[0].evalue], ['error', 'NameError', "name 'wrong' is not defined"])
  assert.equal(second[0].traceback[0], 'Traceback (most recent call last):')
  assert.deepEqual(third, [])
  assert.ok(!(await takeNotes(server, id)).includes('third'))
  assert.deepEqual(result(run('fails.ipynb', '--sandbox', id, '--allow-errors')), [0, '', ''])
  assert.ok((await takeNotes(server, id)).includes('third'))
  notebook('expected.ipynb', [cell('wrong', { metadata: { tags: ['raises-exception'] } }), cell('note("second")')])
  assert.deepEqual(result(run('expected.ipynb', '--sandbox', id)), [0, '', ''])
  assert.ok((await takeNotes(server, id)).includes('second'))
})

test('what is no notebook is refused, and no sandbox is made', async () => {
  const before = sandboxes()
  const bad = {
    'no JSON': ['{"cells": [}\n', 'not valid JSON (line 1)'],
    'JSON that is cut': ['{\n "cells": [\n', 'not valid JSON (line 3)'],
    'no text': [Buffer.from([0xff, 0xfe]), 'not valid UTF-8 text'],
    'an empty file': ['', 'not valid JSON (line 1)'],
    'NaN': ['{"nbformat": NaN}', 'not valid JSON (line 1)'],
    'a list': ['[]', 'not a notebook: no JSON object'],
    'another object': ['{"a": 1}', "not a notebook: there is no 'nbformat'"],
    'no cells': ['{"nbformat": 4}', "not a notebook: 'cells' is no list"],
    'a cell that is none': ['{"nbformat": 4, "cells": [3]}', "item 1 of 'cells' is no cell"],
    'a cell without source': ['{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "item 1 of 'cells' has no source"],
    'an old notebook': ['{"nbformat": 3, "worksheets": []}', 'nbformat 3 is too old: convert it with `jupyter nbconvert --to notebook`'],
    'a newer notebook': ['{"nbformat": 5, "cells": []}', 'nbformat 5 is not known: only 4 is'],
    'deep nesting': ['{"nbformat": 4, "cells": ' + '['.repeat(100_000), 'not valid JSON (line 1)'],
  }
  for (const [what, [text, words]] of Object.entries(bad)) {
    fs.writeFileSync(file('bad.ipynb'), text)
    assert.deepEqual(result(run('bad.ipynb', '--template', template)), [1, '', `sandglass notebook: bad.ipynb: ${words}\n`], what)
    assert.ok(fs.readFileSync(file('bad.ipynb')).equals(Buffer.from(text)), what)
  }
  assert.deepEqual(result(run('missing.ipynb')), [1, '', "sandglass notebook: open 'missing.ipynb': No such file or directory\n"])
  notebook('good.ipynb', [cell('1')])
  assert.match(run('good.ipynb', '--out', 'no/such/x.ipynb').stderr, /write into the directory 'no\/such': No such file/)
  assert.match(run('good.ipynb', '--out', '.').stderr, /is no regular file/)
  assert.match(run('good.ipynb', '--template', 'no-such-template').stderr, /^sandglass notebook: .*no-such-template.*\n$/)
  assert.match(run('good.ipynb', '--template', 'base').stderr, /^sandglass notebook: nothing answers on port 49999/)
  for (const wrong of [[], ['a', 'b'], ['good.ipynb', '--sandbox', id, '--keep'], ['good.ipynb', '--sandbox', id, '-t', 'x'], ['--nope']]) assert.equal(run(...wrong).status, 2, wrong.join(' '))
  assert.equal(sandglass(['notebook']).status, 2)
  assert.equal(sandglass(['notebook', 'convert']).status, 2)
  assert.deepEqual(sandboxes(), before)
})

test('an interrupted run writes what there is, and ends its sandbox', async () => {
  const before = sandboxes()
  notebook('long.ipynb', [cell('send("stdout", text="1")'), cell('send("stdout", text="2")\nnote("here")\nhang()')])
  const p = start(args(file('long.ipynb'), '--template', template))
  let made
  await until('its sandbox runs', () => (made = sandboxes().find((one) => !before.includes(one))))
  await noted(server, made, 'here')
  p.child.kill('SIGINT')
  assert.deepEqual(await p.ended, { code: 130, signal: null })
  assert.deepEqual(outputs('long.ipynb').map((list) => list[0].text[0]), ['1', '2'])
  assert.deepEqual(sandboxes(), before)
})

test('a sandbox that is paused or killed meanwhile', async () => {
  for (const [how, words] of [['pause', /was paused: `sandglass resume /], ['kill', /was killed, which ended the run/]]) {
    const before = sandboxes()
    notebook('gone.ipynb', [cell('send("stdout", text="1")'), cell('send("stdout", text="2")\nnote("here")\nhang()')])
    const p = start(args(file('gone.ipynb'), '--template', template))
    let made
    await until('its sandbox runs', () => (made = sandboxes().find((one) => !before.includes(one))))
    await noted(server, made, 'here')
    assert.equal(sandglass([how, '--data', server.data, made]).status, 0)
    assert.equal((await p.ended).code, 1)
    assert.match(p.stderr, words)
    assert.deepEqual(outputs('gone.ipynb').map((list) => list[0].text[0]), ['1', '2'])
    assert.equal(sandboxes().includes(made), how === 'pause') // a paused sandbox is not the command's to end
    sandglass(['kill', '--data', server.data, made])
  }
})

test('a broken or cut answer ends the run; what was there before is written', () => {
  notebook('cut.ipynb', [cell('send("stdout", text="1")'), cell('send("stdout", text="2")\ncut()'), cell('note("never")')])
  const r = run('cut.ipynb', '--sandbox', id)
  assert.equal(r.status, 1)
  assert.match(r.stderr, /^sandglass notebook: cell 2 of 3: .* cut the connection/)
  assert.deepEqual(outputs('cut.ipynb').map((list) => list[0]?.text[0]), ['1', '2', undefined])
  notebook('huge.ipynb', [cell('for i in range(300): send("stdout", text="x" * (1 << 20))')])
  assert.deepEqual(result(run('huge.ipynb', '--sandbox', id, '--out', 'huge.out')), [1, '', 'sandglass notebook: cell 1 of 1: the outputs of a cell have more than 256 MiB\n'])
  fs.rmSync(file('huge.out'))
})

test('a person sees which cell runs', async () => {
  notebook('seen.ipynb', [cell('\n  y = 1\nz = 2'), cell('w\x1b = 3')])
  const t = terminal(args(file('seen.ipynb'), '--sandbox', id, '--allow-errors'))
  assert.equal(await t.ended, 0)
  assert.match(t.shown, /\[1\/2\] y = 1\r\x1b\[K\[1\/2\] \d+\.\d s {2}y = 1\r\n/)
  assert.match(t.shown, /\[2\/2\] \d+\.\d s {2}w {2}= 3\r\n$/)
})
