// Completions and manual pages in the programs that read them.  What they say is held to the program by test/lint/pages_are_true.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { test } from 'node:test'

import { must, run, top } from './filesystem.mjs'

const pages = (...args) => must([path.join(top, 'tools/make-pages'), ...args])

function written(t, name, text) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'sandglass-pages-'))
  t.after(() => fs.rmSync(dir, { recursive: true, force: true }))
  fs.writeFileSync(path.join(dir, name), text)
  return path.join(dir, name)
}

test('fish offers commands, words and options', (t) => {
  const file = written(t, 'sandglass.fish', pages('fish'))
  const offers = (line) => must(['fish', '--no-config', '-c', `source ${file}; complete -C '${line}'`]).split('\n').map((one) => one.split('\t')[0]).filter(Boolean)
  assert.deepEqual(offers('sandglass rol'), ['rollback'])
  assert.deepEqual(offers('sandglass lost re').sort(), ['remove', 'restore'])
  assert.deepEqual(offers('sandglass run --templ'), ['--template'])
})

test('zsh takes the completion', (t) => {
  const file = written(t, '_sandglass', pages('zsh'))
  const done = run(['zsh', '-fc', `fpath=(${path.dirname(file)} $fpath); autoload -Uz compinit; compinit -u -d ${file}.dump; print $_comps[sandglass]; autoload +X _sandglass`])
  assert.equal(done.code, 0, done.text)
  assert.equal(done.stdout.trim(), '_sandglass')
})

for (const name of fs.readdirSync(path.join(top, 'packaging/man')))
  test(`${name}: roff has nothing to warn about`, () => {
    const done = run(['groff', '-man', '-Tutf8', '-ww', '-rLL=100n', '-z'], { input: pages(path.join(top, 'packaging/man', name), '--version', '1') })
    assert.equal(done.text, '')
  })
