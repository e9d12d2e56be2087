// The library's modes e2b and hybrid, by the C program beside this file.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { temporaryDir } from '../lib/server.mjs'

const top = fileURLToPath(new URL('../../..', import.meta.url))
const program = fileURLToPath(new URL('../../../build/test/functional/modes/modes_program', import.meta.url))

/** -> {code, text} */
export async function run(file, args, options) {
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], ...options })
  let text = ''
  for (const out of [child.stdout, child.stderr]) out.setEncoding('utf8').on('data', (piece) => (text += piece))
  const code = await new Promise((done, fail) => child.on('error', fail).on('close', (status, signal) => done(status ?? signal)))
  return { code, text }
}

/** The program of docs/modes.md and what it prints there. */
function programOfThePage() {
  const page = fs.readFileSync(path.join(top, 'docs/modes.md'), 'utf8')
  const [, source] = /```c\n([^]*?)```/.exec(page)
  const [, output] = /```text\n([^]*?)```/.exec(page)
  return { source, output }
}

/** variables(): what a program needs to find the server. */
export function libraryTests(variables) {
  test('modes e2b and hybrid of the library, all cases of the C program', async () => {
    const dir = temporaryDir('modes')
    const environment = { PATH: process.env.PATH, ...variables(), ANTHROPIC_API_KEY: 'the-key', TEST_SECRET: 'secret' }
    const { code, text } = await run(program, [], { cwd: dir, env: environment })
    fs.rmSync(path.join(dir), { recursive: true })
    assert.equal(code, 0, text)
    assert.match(text, /^1\.\.\d+$/m)
  })

  test('the program of docs/modes.md, in all modes', async () => {
    const dir = temporaryDir('modes')
    const { source, output } = programOfThePage()
    fs.writeFileSync(path.join(dir, 'first.c'), source)
    const library = ['-I', path.join(top, 'include'), '-L', path.join(top, 'build'), `-Wl,-rpath,${path.join(top, 'build')}`, '-lsandglass']
    const compiled = await run('cc', ['-Wall', '-Wextra', '-Werror', 'first.c', ...library], { cwd: dir })
    assert.equal(compiled.code, 0, compiled.text)
    for (const SANDBOX_MODE of [undefined, 'E2B', 'hybrid']) {
      const env = { PATH: process.env.PATH, ...variables(), ...(SANDBOX_MODE ? { SANDBOX_MODE } : {}) }
      assert.deepEqual(await run(path.join(dir, 'a.out'), [], { cwd: dir, env }), { code: 0, text: output }, SANDBOX_MODE)
    }
    fs.rmSync(dir, { recursive: true })
  })
}
