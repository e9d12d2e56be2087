// Results: every kind of value and display, in the fields that the client has for it.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, sharedSandbox, stdoutOf } from '../lib/code/suite.mjs'

const suite = await codeSuite()
const sandbox = await sharedSandbox(suite)
const isPng = (base64) => Buffer.from(base64, 'base64').subarray(1, 4).toString() === 'PNG'
const one = async (code, options) => {
  const { results, error } = await sandbox.runCode(code, options)
  assert.equal(error, undefined, error?.traceback)
  assert.equal(results.length, 1, JSON.stringify(results).slice(0, 500))
  return results[0]
}
const isEmpty = (extra) => extra === undefined || Object.keys(extra).length === 0

test('values: numbers, texts with their outer quotes cut, nothing', async () => {
  assert.equal((await one('41 + 1')).text, '42')
  assert.equal((await one("'text'")).text, 'text')
  assert.equal((await one('"it\'s"')).text, "it's")
  assert.equal((await one('"a\\nb"')).text, 'a\\nb')
  assert.equal((await one('"\'"')).text, "'")
  assert.deepEqual((await sandbox.runCode('None')).results, [])
  assert.deepEqual((await sandbox.runCode('x = 1')).results, [])
  assert.deepEqual((await sandbox.runCode('1;')).results, [])
  assert.equal((await one('list(range(3000))')).text.match(/\d+/g).length, 3000, 'nothing is cut')
})

test('lists and dicts: also as JSON', async () => {
  assert.deepEqual((await one('[1, "two", None, {"three": 3.5}]')).json, [1, 'two', null, { three: 3.5 }])
  const dict = await one('{"a": [1], 2: "b"}')
  assert.deepEqual(dict.json, { a: [1], 2: 'b' })
  assert.equal(dict.text, "{'a': [1], 2: 'b'}")
  assert.deepEqual((await one('import numpy as np; {"n": np.int64(5), "a": np.array([1.5, 2.5])}')).json, { n: 5, a: [1.5, 2.5] })
  assert.equal((await one('{"no json": object()}')).json, undefined)
})

test('numbers that JSON does not have', async () => {
  const result = await one('[float("nan"), float("inf"), 1.0]')
  assert.equal(result.text, '[nan, inf, 1.0]')
  assert.ok(result.json === undefined || result.json[2] === 1)
})

test('a DataFrame: text, HTML, and its columns', async () => {
  const result = await one('import pandas as pd\npd.DataFrame({"a": [1, 2, 3], "when": pd.to_datetime(["2024-01-01", "2024-01-02", "2024-01-03"]), "gap": [1.5, None, 2.5]})')
  assert.deepEqual(result.data.a, [1, 2, 3])
  assert.deepEqual(result.data.when.map((t) => t.slice(0, 10)), ['2024-01-01', '2024-01-02', '2024-01-03'])
  assert.deepEqual(result.data.gap, [1.5, null, 2.5])
  assert.match(result.html, /<table/)
  assert.ok(result.isMainResult && result.text)
})

test('a plot: picture, text, nothing else; also without show()', async () => {
  for (const end of ['plt.show()', '']) {
    const result = await one(`import matplotlib.pyplot as plt\nfig, ax = plt.subplots()\nax.plot([1, 2, 3]);\n${end}`)
    assert.ok(isPng(result.png))
    assert.equal(result.text, '<Figure size 640x480 with 1 Axes>')
    assert.ok(isEmpty(result.extra), JSON.stringify(result.extra))
    assert.deepEqual(result.formats(), ['png'])
    assert.equal(result.chart.type, 'line')
    assert.equal(result.isMainResult, false)
  }
})

test('a plot with Chinese, Japanese and Korean text: no glyph is missing', async () => {
  const execution = await sandbox.runCode('import matplotlib.pyplot as plt\nplt.figure()\nplt.plot([1, 2]); plt.title("漢字 ひらがな 한국어")\nplt.show()')
  assert.ok(isPng(execution.results[0].png))
  assert.deepEqual(execution.logs.stderr, [])
})

test('pictures of PIL: shown, as a value, saved', async () => {
  const make = 'from PIL import Image\nimage = Image.new("RGB", (16, 16), "red")\n'
  assert.ok(isPng((await one(`${make}image.show()`)).png))
  const value = await one(`${make}image`)
  assert.ok(isPng(value.png) && value.text && value.isMainResult)
  assert.ok(isPng((await one(`${make}image.save("picture.png")`)).png))
  assert.equal(Buffer.from(await sandbox.files.read('picture.png', { format: 'bytes' })).subarray(1, 4).toString(), 'PNG')
})

test('every format that a display can have', async () => {
  const formats = {
    'text/plain': ['text', 'plain'], 'text/html': ['html', '<b>b</b>'], 'text/markdown': ['markdown', '*m*'], 'image/svg+xml': ['svg', '<svg/>'],
    'image/png': ['png', 'iVBORw0KGgo='], 'image/jpeg': ['jpeg', '/9j/4AAQ'], 'application/pdf': ['pdf', 'JVBERi0='], 'text/latex': ['latex', '$x$'],
    'application/json': ['json', { a: [1, null] }], 'application/javascript': ['javascript', 'alert(1)'],
  }
  for (const [mime, [field, value]] of Object.entries(formats)) {
    const code = `from IPython.display import display\nimport json\ndisplay(json.loads(${JSON.stringify(JSON.stringify({ [mime]: value }))}), raw=True)`
    const result = await one(code)
    assert.deepEqual(result[field], value, mime)
    assert.deepEqual(result.formats(), field === 'text' ? [] : [field], mime) // the client does not count text
    assert.equal(result.isMainResult, false)
  }
  const latex = await one('from IPython.display import display\ndisplay({"text/latex": "\\\\frac{1}{2}"}, raw=True)')
  assert.deepEqual(latex.formats(), ['latex'])
})

test('objects that show themselves: several formats, data, charts', async () => {
  const code = `class Mine:
    def _repr_html_(self): return "<p>mine</p>"
    def _repr_markdown_(self): return "# mine"
    def __repr__(self): return "Mine()"
Mine()`
  const result = await one(code)
  assert.deepEqual([result.text, result.html, result.markdown], ['Mine()', '<p>mine</p>', '# mine'])
  const data = await one('class D:\n    def _repr_e2b_data_(self): return {"a": [1, 2]}\nD()')
  assert.deepEqual(data.data, { a: [1, 2] })
  const chart = await one('class C:\n    def _repr_e2b_chart_(self): return {"type": "bar", "title": "own", "elements": []}\nC()')
  assert.equal(chart.chart.title, 'own')
})

test('several displays and a value: in order, and the value is the main one', async () => {
  const { results, text } = await sandbox.runCode('from IPython.display import display, HTML\nprint("before")\ndisplay(HTML("<i>1</i>"))\ndisplay(HTML("<i>2</i>"))\n"value"')
  assert.deepEqual(results.map((r) => r.html ?? r.text), ['<i>1</i>', '<i>2</i>', 'value'])
  assert.deepEqual(results.map((r) => r.isMainResult), [false, false, true])
  assert.equal(text, 'value')
})

test('a display that is updated or cleared counts once', async () => {
  const code = 'from IPython.display import display, clear_output\nh = display("first", display_id=True)\nh.update("second")\nclear_output()\nprint("done")'
  const execution = await sandbox.runCode(code)
  assert.deepEqual(execution.results.map((r) => r.text), ['first'])
  assert.equal(stdoutOf(execution), 'done\n')
})

test('nothing is imported before the code asks for it', async () => {
  const context = await sandbox.createCodeContext()
  assert.equal((await sandbox.runCode('import sys; [m for m in ("pandas", "matplotlib", "numpy", "PIL") if m in sys.modules]', { context })).text, '[]')
})

test('a large picture is one result', async () => {
  const result = await one('import numpy as np\nfrom PIL import Image\nImage.fromarray(np.random.default_rng(1).integers(0, 255, (600, 800, 3), dtype="uint8"))')
  assert.ok(result.png.length > 1_000_000)
  assert.ok(isPng(result.png))
})
