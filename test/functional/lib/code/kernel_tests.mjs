// The tests of a kernel (test/interpreter/FOLDER), in a sandbox of the template: with its packages, and with plain Jupyter's client.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

import { codeSuite, inCodeSandbox } from './suite.mjs'

const top = fileURLToPath(new URL('../../../interpreter', import.meta.url))
const failedCase = /^not ok\b.*\n(#.*\n)*/gm // and why

/** A case for each program test_*.py of the folder. */
export async function testKernel(folder) {
  const suite = await codeSuite()
  const programs = fs.readdirSync(path.join(top, folder)).filter((name) => /^test_.*\.py$/.test(name))
  assert.ok(programs.length > 0, folder)
  for (const program of programs)
    test(`${folder}/${program} in a sandbox`, { timeout: 590_000 }, () => inCodeSandbox(suite, (sandbox) => runInside(sandbox, folder, program)))
}

async function runInside(sandbox, folder, program) {
  const archive = spawnSync('tar', ['-C', path.dirname(top), '-cz', '--exclude=__pycache__', path.basename(top)], { maxBuffer: 1 << 26 }).stdout
  await sandbox.files.write('/tmp/tests.tgz', new Blob([archive]))
  await sandbox.commands.run('tar -C /tmp -xzf /tmp/tests.tgz')
  let said = ''
  const listen = (text) => { said += text }
  const command = `ulimit -n $(ulimit -Hn) && python3 ${program}`
  const ended = await sandbox.commands.run(command, { user: 'root', cwd: `/tmp/interpreter/${folder}`, timeoutMs: 580_000, onStdout: listen, onStderr: listen }).catch((e) => e)
  const failures = (said.match(failedCase) ?? []).join('')
  assert.equal(ended.exitCode, 0, `${failures}${ended.message}\n${said}`)
  assert.match(said, /^ok\b/m)
  assert.equal(failures, '', `${failures}${said}`)
}
