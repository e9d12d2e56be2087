// What runs of two builds, taken in turns, say: medians, the best of each, and whether the new one is worse or that was chance.
import { units } from '../table.mjs'

const moreIsBetter = new Set(['rate', 'mbs'])
const matters = 1.02 // of the medians: a difference that is always there and this small is shown, and not called worse or better
const chance = 0.01 // that a row without a difference is called worse or better: a whole run has some sixty

export function median(list) {
  const sorted = [...list].sort((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** In how many of n rounds one must be ahead so that a fair coin does as much with less than the chance; Infinity: n are too few. */
export function roundsNeeded(n) {
  let ways = 1 // to choose k of n, beginning with k = n
  let more = 0
  for (let k = n; k > n / 2; k--) {
    more += ways
    if (more / 2 ** n > chance) return k === n ? Infinity : k + 1
    ways = (ways * k) / (n - k + 1)
  }
  return Math.floor(n / 2) + 1
}

/** What the new value costs beside the old one: above 1 is worse, whatever the unit. */
function cost(unit, old, now) {
  if (old === now) return 1
  return moreIsBetter.has(unit) ? old / now : now / old
}

/** rounds: [{old: rows, now: rows}, ...] -> one object per figure that both builds have, in the order of the first round. */
export function judge(rounds) {
  const values = (side, name) => rounds.map((r) => r[side].find((row) => row.name === name)?.value)
  const shared = rounds[0].old.filter((row) => rounds[0].now.some((other) => other.name === row.name))
  return shared.map(({ name, unit }) => {
    const [olds, nows] = [values('old', name), values('now', name)]
    const both = rounds.map((_, i) => i).filter((i) => olds[i] !== undefined && nows[i] !== undefined)
    if (both.length === 0) return { name, unit, rounds: 0, word: 'not measured' }
    const best = (list) => (moreIsBetter.has(unit) ? Math.max(...list) : Math.min(...list))
    const side = (list) => both.map((i) => list[i])
    const costs = both.map((i) => cost(unit, olds[i], nows[i]))
    const [old, now] = [median(side(olds)), median(side(nows))]
    const worse = costs.filter((c) => c > 1).length
    const better = costs.filter((c) => c < 1).length
    const needed = roundsNeeded(both.length)
    const word = worse >= needed && cost(unit, old, now) > matters ? 'worse' : better >= needed && cost(unit, now, old) > matters ? 'better' : ''
    return { name, unit, old, now, bestOld: best(side(olds)), bestNow: best(side(nows)), worse, rounds: both.length, word }
  })
}

const ratio = (old, now) => (old ? (now / old).toFixed(2) : '')

/** Lines of text: medians, then the best of each. */
export function table(judged) {
  const cells = judged.map((j) => {
    if (!j.rounds) return [j.name, '-', '-', '', '', '', '', '', j.word]
    const show = units[j.unit]
    return [j.name, show(j.old), show(j.now), ratio(j.old, j.now), show(j.bestOld), show(j.bestNow), ratio(j.bestOld, j.bestNow), `${j.worse} of ${j.rounds}`, j.word]
  })
  const all = [['what', 'old', 'new', 'new/old', 'best old', 'best new', 'new/old', 'new is worse in', ''], ...cells]
  const widths = all[0].map((_, i) => Math.max(...all.map((line) => line[i].length)))
  return all.map((line) => line.map((text, i) => (i === 0 || i === 8 ? text.padEnd(widths[i]) : text.padStart(widths[i]))).join('  ').trimEnd())
}
