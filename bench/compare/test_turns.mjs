import assert from 'node:assert/strict'
import test from 'node:test'

import { judge, median, roundsNeeded, table } from './turns.mjs'

const rounds = (unit, olds, nows) => olds.map((value, i) => ({ old: [{ name: 'x', unit, value }], now: [{ name: 'x', unit, value: nows[i] }] }))
const word = (...of) => judge(rounds(...of))[0].word
const ten = (f) => Array.from({ length: 10 }, (_, i) => f(i))

test('the median is the middle, or the mean of both', () => {
  assert.equal(median([3, 1, 2]), 2)
  assert.equal(median([4, 1, 2, 3]), 2.5)
  assert.equal(median([100]), 100)
})

test('the rounds that a fair coin does not win', () => {
  assert.equal(roundsNeeded(6), Infinity) // all six: 1 of 64
  assert.equal(roundsNeeded(7), 7) // 1 of 128; six and more: 8 of 128
  assert.equal(roundsNeeded(10), 10) // nine and more: 11 of 1024
  assert.equal(roundsNeeded(12), 11) // 13 of 4096; ten and more: 79
  assert.equal(roundsNeeded(20), 16)
})

test('worse is what is worse in nearly all rounds', () => {
  assert.equal(word('us', ten(() => 100), ten(() => 110)), 'worse')
  assert.equal(word('us', ten(() => 110), ten(() => 100)), 'better')
  assert.equal(word('us', ten(() => 100), ten((i) => (i < 3 ? 90 : 130))), '')
})

test('of rates and megabytes per second, less is worse', () => {
  assert.equal(word('rate', ten(() => 100), ten(() => 90)), 'worse')
  assert.equal(word('mbs', ten(() => 100), ten(() => 120)), 'better')
})

test('a small difference is not called one, nor is equality', () => {
  assert.equal(word('us', ten(() => 1000), ten(() => 1010)), '')
  assert.equal(word('kib', ten(() => 0), ten(() => 0)), '')
})

test('from nothing to something is worse', () => {
  assert.equal(word('count', ten(() => 0), ten(() => 3)), 'worse')
})

test('too few rounds say nothing', () => {
  assert.equal(word('us', [100, 100, 100], [200, 200, 200]), '')
})

test('medians, the best of each, and the count of worse rounds', () => {
  const [slow] = judge(rounds('us', [100, 120, 90], [110, 80, 130]))
  assert.deepEqual([slow.old, slow.now, slow.bestOld, slow.bestNow, slow.worse, slow.rounds], [100, 110, 90, 80, 2, 3])
  const [fast] = judge(rounds('rate', [100, 120, 90], [110, 80, 130]))
  assert.deepEqual([fast.bestOld, fast.bestNow, fast.worse], [120, 130, 1])
})

test('a round that lacks a figure does not count, and a figure of one build alone is left out', () => {
  const some = rounds('us', [100, undefined, 100], [110, 110, undefined])
  assert.equal(judge(some)[0].rounds, 1)
  assert.equal(judge(rounds('us', [undefined], [1]))[0].word, 'not measured')
  some[0].now.push({ name: 'only new', unit: 'us', value: 1 })
  assert.deepEqual(judge(some).map((j) => j.name), ['x'])
})

test('the table has a line for each figure', () => {
  const lines = table(judge(rounds('us', ten(() => 1000), ten(() => 2000))))
  assert.equal(lines.length, 2)
  assert.match(lines[1], /^x +1\.00 ms +2\.00 ms +2\.00 +1\.00 ms +2\.00 ms +2\.00 +10 of 10 +worse$/)
})
