// docs/code-packages.md is true: every package can be imported, none of the missing ones is there, and the lists are the template's.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { test } from 'node:test'

import { codeSuite, inCodeSandbox } from '../../lib/code/suite.mjs'

const suite = await codeSuite()
const read = (name) => fs.readFileSync(new URL(`../../../../${name}`, import.meta.url), 'utf8')
const page = read('docs/code-packages.md')
const [there, missing] = page.split(/^## /m)
const rows = (text) => [...text.matchAll(/^\| `([^`]+)`[^|]*\|([^|]*)\|(?:[^|]*`([^`]+)` \|)?$/gm)].map(([, module, second, debian]) => ({ module, second: second.trim(), debian }))
const packagesIn = (text) => [...new Set(text.match(/\b(?:python3|fonts)-[a-z0-9-]+/g))].toSorted()

test('the list of the page is the list of the template', () => {
  const [, forApt] = /^## The list for apt\n\n((?: {4}.*\n)+)/m.exec(page)
  const inTemplate = packagesIn(/apt-get install[^]*?&&/.exec(read('templates/code-interpreter-v1/e2b.Dockerfile'))[0])
  assert.deepEqual(packagesIn(forApt), inTemplate)
  const told = rows(there).map((row) => row.debian)
  assert.ok(told.length > 25)
  // What IPython needs for pictures, and fonts: nothing to import.
  assert.deepEqual([...told, 'fonts-noto-cjk', 'python3-matplotlib-inline'].toSorted(), inTemplate)
})

test('every package of the page can be imported and has its version; the missing ones are missing', { timeout: 300_000 }, async () =>
  inCodeSandbox(suite, async (sandbox) => {
    const wanted = Object.fromEntries(rows(there).map(({ module, second }) => [module, second]))
    const not = rows(missing).map(({ module }) => module)
    assert.ok(not.includes('bokeh') && not.includes('spacy'), String(not))
    const run = await sandbox.runCode(`import importlib, importlib.util
def state(name):
    try:
        module = importlib.import_module(name)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    return str(getattr(module, "__version__", None) or getattr(module, "version", ""))
{"found": {name: state(name) for name in ${JSON.stringify(Object.keys(wanted))}},
 "present": [name for name in ${JSON.stringify(not)} if importlib.util.find_spec(name)]}`, { timeoutMs: 240_000 })
    assert.equal(run.error, undefined, run.error?.value)
    const { found, present } = run.results.find((result) => result.json).json
    for (const [name, version] of Object.entries(wanted)) assert.ok(found[name].startsWith(version), `${name}: ${found[name]}, not ${version}`)
    assert.deepEqual(present, [])
  }))
