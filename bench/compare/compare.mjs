// Two results side by side: what a change costs.
import fs from 'node:fs'

import { units } from '../table.mjs'

const moreIsBetter = new Set(['rate', 'mbs'])
const noise = 1.1 // runs of the same program on a quiet machine differ by less

/** One line per figure that either has, or that the new one has if only parts were run: [name, old, new, new/old, word]. */
export function compareRows(old, now) {
  const before = new Map(old.rows.map((r) => [r.name, r]))
  const after = new Map(now.rows.map((r) => [r.name, r]))
  const show = (r) => (r?.value === undefined ? '-' : units[r.unit](r.value))
  const names = now.parts?.length ? after.keys() : new Set([...before.keys(), ...after.keys()])
  return [...names].map((name) => {
    const [a, b] = [before.get(name), after.get(name)]
    const ratio = a?.value && b?.value !== undefined ? b.value / a.value : undefined
    const cost = ratio && moreIsBetter.has(a.unit) ? 1 / ratio : ratio
    const word = cost === undefined ? '' : cost > noise ? 'worse' : cost < 1 / noise ? 'better' : ''
    return [name, show(a), show(b), ratio === undefined ? '' : ratio.toFixed(2), word]
  })
}

export function compareFiles(oldFile, newFile) {
  const [old, now] = [oldFile, newFile].map((file) => JSON.parse(fs.readFileSync(file, 'utf8')))
  const head = ['what', `old ${old.when.slice(0, 10)}`, `new ${now.when.slice(0, 10)}`, 'new/old', '']
  const lines = [head, ...compareRows(old, now)]
  const widths = head.map((_, i) => Math.max(...lines.map((line) => line[i].length)))
  for (const line of lines) console.log(line.map((text, i) => (i === 0 ? text.padEnd(widths[i]) : text.padStart(widths[i]))).join('  ').trimEnd())
  for (const key of Object.keys(old.machine)) if (old.machine[key] !== now.machine[key]) console.log(`another machine: ${key} was ${old.machine[key]}, is ${now.machine[key]}`)
  if (!old.quick !== !now.quick) console.log('one of them is a quick run')
}
