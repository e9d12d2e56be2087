// What agents need in the tests: the examples with their packages, the stand-in for the model, and a template with both.
import assert from 'node:assert/strict'
import fs from 'node:fs'
import { createRequire } from 'node:module'
import { once } from 'node:events'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { temporaryDir } from '../lib/server.mjs'
import { run } from './library.mjs'

const top = fileURLToPath(new URL('../../..', import.meta.url))
const cache = path.join(process.env.SANDGLASS_TEST_CACHE ?? path.join(top, 'build/test-cache'), 'examples')
const source = path.join(top, 'examples')
const insideSource = fileURLToPath(new URL('../inside', import.meta.url))
const modelSource = fileURLToPath(new URL('../inside/agent/server', import.meta.url))

export const templateName = 'agent-with-model'
export const modelPort = 8089 // in each sandbox of this template

/** The directory of the examples, with their packages, which are large: they stay in the cache as long as the lock does not change. */
export async function installedExamples() {
  const lock = fs.readFileSync(path.join(source, 'package-lock.json'), 'utf8')
  const marker = path.join(cache, 'node_modules', '.lock-of-the-tests')
  fs.mkdirSync(cache, { recursive: true })
  for (const name of fs.readdirSync(source)) if (!['node_modules', 'workspace'].includes(name)) fs.cpSync(path.join(source, name), path.join(cache, name), { recursive: true })
  if (fs.existsSync(marker) && fs.readFileSync(marker, 'utf8') === lock) return cache
  const { code, text } = await run('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: cache })
  assert.equal(code, 0, text)
  fs.writeFileSync(marker, lock)
  return cache
}

/** The stand-in on this machine: {url, close()}. */
export async function startModel() {
  const dir = temporaryDir('model')
  fs.copyFileSync(path.join(modelSource, 'model.js'), path.join(dir, 'model.cjs'))
  const server = createRequire(import.meta.url)(path.join(dir, 'model.cjs')).start(0)
  await once(server, 'listening')
  const close = () => {
    server.closeAllConnections()
    server.close()
    fs.rmSync(dir, { recursive: true })
  }
  return { url: `http://127.0.0.1:${server.address().port}`, close }
}

/** The template of the example websocket/, above it the stand-in for the model, and a stand-in for the code interpreter. */
export async function buildTemplates(client, examples, environment) {
  const { code, text } = await run('npx', ['tsx', 'websocket/build.ts'], { cwd: examples, env: { ...environment, AGENT_TEMPLATE: 'agent-websocket' } })
  assert.equal(code, 0, text)
  const { Template, waitForPort } = client
  const start = `node -e 'require("/home/user/model/model.js").start(${modelPort})' & cd /home/user/server && exec node server.mjs`
  const template = Template({ fileContextPath: modelSource }).fromTemplate('agent-websocket').copy('model.js', '/home/user/model/model.js').setStartCmd(start, waitForPort(3000))
  await Template.build(template, templateName, { cpuCount: 2, memoryMB: 2048 })
  const interpreter = Template({ fileContextPath: insideSource }).fromBaseImage().copy('interpreter.py', '/home/user/interpreter.py').setStartCmd('python3 /home/user/interpreter.py', waitForPort(49999))
  await Template.build(interpreter, 'code-interpreter-v1')
}
