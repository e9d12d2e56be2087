// Programs in the pages of docs/, run as they stand.
//
// ```js run and ```sh run are programs; a ```text output block right behind one is exactly what it prints.
// Programs in JavaScript run twice, side by side: with all of the server's exports, as after `source data/env`, and with the domain only,
// when everything goes through TLS and names.  The shell's use the command line and run with all exports.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { binary, sandglass, temporaryDir } from '../lib/server.mjs'

export const docs = fileURLToPath(new URL('../../../docs/', import.meta.url))
const modules = fileURLToPath(new URL('../node_modules', import.meta.url))
const deadlineMs = 60_000
const languages = { js: { file: 'snippet.mjs', program: 'node', options: [] }, sh: { file: 'snippet.sh', program: 'bash', options: ['-euo', 'pipefail'] } }

/** Fenced blocks: {line, info, text, before: what stands between it and the block before}. */
function blocksOf(text) {
  const blocks = []
  let open = null
  let between = ''
  for (const [i, line] of text.split('\n').entries()) {
    if (open && line === '```') {
      blocks.push(open)
      open = null
      between = ''
    } else if (open) open.text += line + '\n'
    else if (line.startsWith('```')) open = { line: i + 1, info: line.slice(3).trim(), text: '', before: between.trim() }
    else between += line
  }
  assert.equal(open, null, 'a block is not closed')
  return blocks
}

function snippetsOf(page) {
  const blocks = blocksOf(fs.readFileSync(path.join(docs, page), 'utf8'))
  return blocks.flatMap((block, i) => {
    const [language, ...marks] = block.info.split(' ')
    if (!marks.includes('run')) return []
    const next = blocks[i + 1]
    const output = next?.info === 'text output' && next.before === '' ? next.text : null
    return [{ ...block, page, language: languages[language] ?? assert.fail(`${page}:${block.line}: cannot run '${language}'`), output }]
  })
}

const settings = {
  'all exports': (server) => server.env,
  'domain only': (server) => ({ E2B_DOMAIN: server.domain, E2B_API_KEY: server.key, NODE_EXTRA_CA_CERTS: server.env.NODE_EXTRA_CA_CERTS }),
}

async function run(snippet, exports) {
  const dir = temporaryDir('docs')
  try {
    fs.symlinkSync(modules, path.join(dir, 'node_modules'))
    fs.writeFileSync(path.join(dir, snippet.language.file), snippet.text)
    const env = { ...exports, PATH: `${path.dirname(binary)}:${process.env.PATH}`, HOME: dir }
    const child = spawn(snippet.language.program, [...snippet.language.options, snippet.language.file], { cwd: dir, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: deadlineMs })
    let out = ''
    let err = ''
    child.stdout.setEncoding('utf8').on('data', (text) => (out += text))
    child.stderr.setEncoding('utf8').on('data', (text) => (err += text))
    const [code, signal] = await once(child, 'close')
    assert.equal(code, 0, `${signal ?? `exit code ${code}`}\n${out}${err}`)
    if (snippet.output !== null) assert.equal(out, snippet.output, err)
  } finally {
    fs.rmSync(dir, { recursive: true })
  }
}

/** A case for each program of the page, against the server that getServer() gives. */
export function testPage(page, getServer) {
  for (const snippet of snippetsOf(page))
    test(`${page}:${snippet.line} runs`, async () => {
      const server = getServer()
      const names = snippet.language === languages.js ? Object.keys(settings) : ['all exports']
      const results = await Promise.allSettled(names.map((name) => run(snippet, settings[name](server))))
      for (const [i, { reason }] of results.entries()) if (reason) throw new Error(`with ${names[i]}: ${reason.message}`, { cause: reason })
      const { stdout } = sandglass(['ps', '--json', '--data', server.data])
      assert.deepEqual(JSON.parse(stdout), [], 'a sandbox was left behind')
    })
}
