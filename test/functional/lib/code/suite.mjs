// What a suite of code/ runs with: one generation of the code interpreter's npm client, and a server whose template is built.
//
// `run` starts the server, builds the template once and says which client; run alone, a file does both itself and uses the
// newest client over plain HTTP.
import { after } from 'node:test'

import { deleteTemplates } from '../build/builds.mjs'
import { keptServer } from '../kept_server.mjs'
import { api } from '../raw.mjs'
import { Server } from '../server.mjs'
import { clientEnvironment } from '../suite.mjs'
import { until } from '../wait.mjs'

export const templateOfCode = 'code-interpreter-v1'
const otherNames = ['code-interpreter', 'code-interpreter-beta', 'python3']
const buildDeadlineMs = 20 * 60_000

/** The clients, and how each reaches the server: the oldest knows no URLs, only a domain. */
export const codeClients = [
  { name: '@e2b/code-interpreter', transport: 'http', label: 'code@new' },
  { name: 'code-interpreter-2.7', transport: 'tls', label: 'code@2.7' },
  { name: 'code-interpreter-1.5', transport: 'tls', label: 'code@1.5' },
]

/** A server with the template: of today's files, on layers of earlier runs. */
export async function codeServer() {
  const server = await keptServer('code')
  try {
    await deleteTemplates(api, server, templateOfCode, ...otherNames)
    await until(`template ${templateOfCode}`, async () => {
      const { status, json, body } = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: templateOfCode } })
      if (status === 201) await api(server, 'DELETE', `/sandboxes/${json.sandboxID}`)
      else if (status !== 503 || !/is being built for its first use/.test(body)) throw new Error(`create of ${templateOfCode}: ${status} ${body}\n${server.log.slice(-2000)}`)
      return status === 201
    }, buildDeadlineMs, 500)
  } catch (e) {
    await server.cleanUp()
    throw e
  }
  return server
}

/** {name, transport, server, Sandbox, ...everything that the client exports, can: what this generation has} */
export async function codeSuite() {
  const name = process.env.SANDGLASS_TEST_CLIENT ?? '@e2b/code-interpreter'
  const transport = process.env.SANDGLASS_TEST_TRANSPORT ?? 'http'
  let server
  if (process.env.SANDGLASS_TEST_DATA) server = Server.attach(process.env.SANDGLASS_TEST_DATA)
  else {
    if (transport !== 'http') throw new Error('the CA must be known when node starts: use test/functional/run')
    server = await codeServer()
    after(() => server.cleanUp())
    Object.assign(process.env, clientEnvironment(server, transport))
  }
  const client = await import(name)
  const can = {
    listContexts: 'listCodeContexts' in client.Sandbox.prototype,
    sendTokens: 'listCodeContexts' in client.Sandbox.prototype, // since the same generation
  }
  return { name, transport, server, can, ...client }
}

/** One sandbox for all cases of a file, ended with the file. */
export async function sharedSandbox(suite, options = {}) {
  const sandbox = await suite.Sandbox.create({ timeoutMs: 600_000, ...options })
  after(() => sandbox.kill())
  return sandbox
}

/** Run the body with a sandbox of its own. */
export async function inCodeSandbox({ Sandbox }, body, options = {}) {
  const sandbox = await Sandbox.create({ timeoutMs: 600_000, ...options })
  try {
    return await body(sandbox)
  } finally {
    await sandbox.kill()
  }
}

/** Languages with the same program in each: prints "hello", and its working directory. */
export const languages = {
  python: { hello: 'print("hello")', where: 'import os; print(os.getcwd())' },
  javascript: { hello: 'console.log("hello")', where: 'console.log(process.cwd())' },
  typescript: { hello: 'const greeting: string = "hello"; console.log(greeting)', where: 'console.log(process.cwd())' },
  r: { hello: 'cat("hello\\n")', where: 'cat(getwd(), "\\n", sep = "")' },
  java: { hello: 'System.out.println("hello");', where: 'System.out.println(System.getProperty("user.dir"));' },
  bash: { hello: 'echo hello', where: 'pwd' },
}

export const stdoutOf = (execution) => execution.logs.stdout.join('')
export const stderrOf = (execution) => execution.logs.stderr.join('')
