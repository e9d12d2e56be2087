// Two builds measured in turns, so that both see the same machine: another tree's, and this one's.
//
//   tools/bench --against DIR [--rounds N] [--whole] PART ...      DIR: a tree of an older commit, built.  Quick runs, unless --whole
//
// Each build is measured by the bench of its own tree.  Prints both, round by round counted, and writes bench/against.json.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

import { judge, table } from './turns.mjs'

const here = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..')

function fail(message) {
  console.error(`against: ${message}`)
  process.exit(2)
}

function options() {
  let parsed
  try {
    parsed = parseArgs({ allowPositionals: true, options: { rounds: { type: 'string', default: '10' }, whole: { type: 'boolean', default: false } } })
  } catch (e) {
    fail(e.message)
  }
  const { positionals: [dir, ...parts], values } = parsed
  if (!dir || parts.length === 0) fail('usage: against DIR [--rounds N] [--whole] PART ...')
  const rounds = Number(values.rounds)
  if (!Number.isInteger(rounds) || rounds < 1) fail(`--rounds: '${values.rounds}' is not a number from 1 on`)
  return { trees: { old: path.resolve(dir), now: path.resolve(here, '..') }, parts, rounds, whole: values.whole }
}

/** The rows of one run of a tree's own bench. */
function run(tree, parts, whole) {
  const r = spawnSync(path.join(tree, 'bench', 'run'), [...(whole ? [] : ['--quick']), ...parts], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], maxBuffer: 1 << 26 })
  if (r.status !== 0) fail(`bench of ${tree}: ${r.error?.message ?? r.stderr}`)
  return JSON.parse(fs.readFileSync(path.join(tree, 'bench', 'result.json'), 'utf8')).rows.map(({ name, unit, value }) => ({ name, unit, value }))
}

const { trees, parts, rounds, whole } = options()
for (const tree of Object.values(trees)) if (!fs.existsSync(path.join(tree, 'build', 'bench', 'client'))) fail(`no build in ${tree}/build: run 'make' there`)
const seen = []
for (let i = 0; i < rounds; i++) {
  const round = {}
  for (const side of i % 2 ? ['now', 'old'] : ['old', 'now']) {
    process.stderr.write(`round ${i + 1} of ${rounds}: ${side === 'old' ? 'old' : 'new'}\n`)
    round[side] = run(trees[side], parts, whole)
  }
  seen.push(round)
}
const judged = judge(seen)
fs.writeFileSync(path.join(here, 'against.json'), JSON.stringify({ when: new Date().toISOString(), parts, whole, judged, rounds: seen }, null, 2) + '\n')
for (const line of table(judged)) console.log(line)
