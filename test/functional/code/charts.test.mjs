// Charts: what matplotlib drew, as data.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, sharedSandbox } from '../lib/code/suite.mjs'

const suite = await codeSuite()
const sandbox = await sharedSandbox(suite)

async function chartOf(code) {
  const { results, error } = await sandbox.runCode(`import matplotlib.pyplot as plt\nplt.close("all")\n${code}\nplt.show()`)
  assert.equal(error, undefined, error?.traceback)
  assert.ok(results[0].png)
  return results[0].chart
}
const labels = ({ title, x_label, y_label, x_unit, y_unit }) => [title, x_label, y_label, x_unit, y_unit]

test('bars', async () => {
  const chart = await chartOf(`
authors = ["Author A", "Author B", "Author C", "Author D"]
sales = [100, 200, 300, 400]
plt.figure(figsize=(10, 6))
plt.bar(authors, sales, label="Books Sold", color="blue")
plt.xlabel("Authors")
plt.ylabel("Number of Books Sold")
plt.title("Book Sales by Authors")
plt.tight_layout()`)
  assert.equal(chart.type, 'bar')
  assert.deepEqual(labels(chart), ['Book Sales by Authors', 'Authors', 'Number of Books Sold', null, null])
  assert.deepEqual(chart.elements, [100, 200, 300, 400].map((value, i) => ({ label: `Author ${'ABCD'[i]}`, group: 'Books Sold', value })))
})

test('boxes and whiskers', async () => {
  const chart = await chartOf(`
data = {"Class A": [85, 90, 78, 92, 88], "Class B": [95, 89, 76, 91, 84, 87], "Class C": [75, 82, 88, 79, 86]}
plt.figure(figsize=(10, 6))
plt.boxplot(list(data.values()), tick_labels=list(data), patch_artist=True)
plt.title("Exam Scores Distribution")
plt.xlabel("Class")
plt.ylabel("Score")`)
  assert.equal(chart.type, 'box_and_whisker')
  assert.deepEqual(labels(chart), ['Exam Scores Distribution', 'Class', 'Score', null, null])
  assert.deepEqual(chart.elements, [
    { label: 'Class A', min: 78, first_quartile: 85, median: 88, third_quartile: 90, max: 92, outliers: [] },
    { label: 'Class B', min: 84, first_quartile: 84.75, median: 88, third_quartile: 90.5, max: 95, outliers: [76] },
    { label: 'Class C', min: 75, first_quartile: 79, median: 82, third_quartile: 86, max: 88, outliers: [] },
  ])
})

test('a line with dates', async () => {
  const chart = await chartOf(`
import datetime, numpy as np
dates = [datetime.date(2023, 9, 1) + datetime.timedelta(seconds=86400 * i) for i in range(100)]
plt.plot(dates, np.sin(np.linspace(0, 10, 100)), label="sin")
plt.xlabel("Time (s)")
plt.ylabel("Amplitude (Hz)")
plt.title("Plot of sin")
plt.grid(True)`)
  assert.equal(chart.type, 'line')
  assert.deepEqual(labels(chart), ['Plot of sin', 'Time (s)', 'Amplitude (Hz)', 's', 'Hz'])
  assert.deepEqual([chart.x_scale, chart.y_scale], ['datetime', 'linear'])
  assert.ok(chart.x_ticks.every((t) => typeof t === 'string' && !Number.isNaN(Date.parse(t))))
  assert.ok(chart.y_ticks.every((t) => typeof t === 'number'))
  assert.ok([...chart.x_tick_labels, ...chart.y_tick_labels].every((t) => typeof t === 'string'))
  const [line] = chart.elements
  assert.equal(chart.elements.length, 1)
  assert.deepEqual([line.label, line.points.length], ['sin', 100])
  assert.ok(line.points.every(([x, y]) => typeof x === 'string' && typeof y === 'number'))
  assert.equal(line.points[0][0], '2023-09-01')
})

test('scales: logarithmic, and categories', async () => {
  const log = await chartOf(`
import numpy as np
x = np.linspace(0, 100, 100)
plt.plot(x, np.exp(x), label="y = e^x")
plt.yscale("log")
plt.xlabel("X-axis")
plt.ylabel("Y-axis (log scale)")`)
  assert.deepEqual([log.type, log.title, log.y_unit, log.x_scale, log.y_scale], ['line', null, 'log scale', 'linear', 'log'])
  assert.ok(log.elements[0].points.every((p) => p.every((n) => typeof n === 'number')))
  const names = await chartOf('plt.plot([1, 2, 3], ["low", "middle", "high"])')
  assert.equal(names.y_scale, 'categorical')
  assert.deepEqual(names.y_tick_labels, ['low', 'middle', 'high'])
})

test('a pie', async () => {
  const chart = await chartOf('plt.pie([90, 10], labels=["No", "Yes"], autopct="%1.1f%%", startangle=90)\nplt.title("Will I wake up early tomorrow?")')
  assert.deepEqual([chart.type, chart.title], ['pie', 'Will I wake up early tomorrow?'])
  assert.deepEqual(chart.elements, [{ label: 'No', angle: 324, radius: 1 }, { label: 'Yes', angle: 36, radius: 1 }])
})

test('points', async () => {
  const chart = await chartOf(`
import numpy as np
plt.scatter(np.random.rand(5), np.random.rand(5), c="blue", label="Dataset 1")
plt.scatter(np.random.rand(10), np.random.rand(10), c="red", label="Dataset 2")
plt.xlabel("A")
plt.ylabel("B")`)
  assert.deepEqual([chart.type, ...labels(chart)], ['scatter', null, 'A', 'B', null, null])
  assert.deepEqual(chart.elements.map((e) => [e.label, e.points.length]), [['Dataset 1', 5], ['Dataset 2', 10]])
  assert.ok(chart.elements.every((e) => e.points.every((p) => p.every((n) => typeof n === 'number'))))
})

test('several axes', async () => {
  const chart = await chartOf(`
fig, (left, right) = plt.subplots(1, 2, figsize=(12, 5))
left.bar([1, 2], [3, 4])
left.set_title("Left")
right.scatter([1.5, 2.5], [3.5, 4.5])
right.set_title("Right")
fig.suptitle("Both")`)
  assert.deepEqual([chart.type, chart.title], ['superchart', 'Both'])
  assert.deepEqual(chart.elements.map((c) => [c.type, c.title, c.x_label]), [['bar', 'Left', null], ['scatter', 'Right', null]])
})

test('what has no form of its own is unknown, with its title; a blank figure is nothing', async () => {
  const chart = await chartOf('import numpy as np\nplt.imshow(np.eye(5))\nplt.title("a picture")')
  assert.deepEqual([chart.type, chart.title, chart.elements], ['unknown', 'a picture', []])
  const { results } = await sandbox.runCode('plt.close("all")\nplt.figure()\nplt.show()')
  assert.equal(results[0]?.chart?.type, undefined)
})
