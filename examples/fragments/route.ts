// A route of a web application, as chat interfaces for generated programs have it: a model has written a fragment
// {template, code, files, port}, and the route runs the fragment in a sandbox.
//
// With the template of the code interpreter the answer has the results of the code.  With any other template the sandbox runs a
// web server, and the answer has its URL.  The handler takes a web Request and returns a web Response, so it fits into Next.js
// (export async function POST(request)), Hono, or node's own server (server.ts).
import { Sandbox as CodeInterpreter } from '@e2b/code-interpreter'
import { Sandbox } from 'e2b'

type Fragment = {
  template: string
  code: string | { file_path: string; file_content: string }[]
  file_path?: string // of `code`, when that is a text
  files?: { path: string; content: string }[]
  additional_dependencies?: string[]
  install_dependencies_command?: string
  start_command?: string // where the template does not start the server itself
  port?: number | null
}

const lifetimeMs = 10 * 60 * 1000
const codeTemplate = 'code-interpreter-v1'

function check(fragment: Fragment): string | null {
  if (typeof fragment?.template !== 'string' || !fragment.template) return 'template: must be a text'
  if (typeof fragment.code !== 'string' && !Array.isArray(fragment.code)) return 'code: must be a text or a list of files'
  if (fragment.port != null && !(Number.isInteger(fragment.port) && fragment.port > 0 && fragment.port < 65536)) return 'port: must be a number from 1 to 65535'
  return null
}

function filesOf({ code, file_path, files = [] }: Fragment) {
  const given = files.map(({ path, content }) => ({ path, data: content }))
  if (typeof code === 'string') return file_path ? [...given, { path: file_path, data: code }] : given
  return [...given, ...code.map((file) => ({ path: file.file_path, data: file.file_content }))]
}

/** The code has ended: what it printed, its results, its error.  The sandbox is ended, too. */
async function interpret(fragment: Fragment) {
  const sandbox = await CodeInterpreter.create(fragment.template, { timeoutMs: lifetimeMs })
  try {
    await prepare(sandbox, { ...fragment, file_path: undefined })
    const { logs, error, results } = await sandbox.runCode(typeof fragment.code === 'string' ? fragment.code : fragment.code.map((file) => file.file_content).join('\n'))
    return { sbxId: sandbox.sandboxId, template: fragment.template, stdout: logs.stdout, stderr: logs.stderr, runtimeError: error, cellResults: results }
  } finally {
    await sandbox.kill()
  }
}

async function prepare(sandbox: Sandbox, fragment: Fragment) {
  if (fragment.additional_dependencies?.length && fragment.install_dependencies_command) await sandbox.commands.run(fragment.install_dependencies_command, { timeoutMs: 300_000 })
  for (const { path, data } of filesOf(fragment)) await sandbox.files.write(path, data)
}

/** Until something answers on the port, or a minute has passed. */
async function waitForServer(sandbox: Sandbox, port: number) {
  await sandbox.commands.run(`timeout 60 bash -c 'until curl -s -o /dev/null http://127.0.0.1:${port}/; do sleep 0.1; done'`, { timeoutMs: 70_000 })
}

/** A web server that goes on: the browser shows its URL. */
async function serve(fragment: Fragment) {
  const sandbox = await Sandbox.create(fragment.template, { timeoutMs: lifetimeMs })
  try {
    const port = fragment.port ?? 80
    await prepare(sandbox, fragment)
    if (fragment.start_command) await sandbox.commands.run(fragment.start_command, { background: true, timeoutMs: 0 })
    await waitForServer(sandbox, port)
    return { sbxId: sandbox.sandboxId, template: fragment.template, url: `https://${sandbox.getHost(port)}` }
  } catch (e) {
    await sandbox.kill()
    throw e
  }
}

export async function POST(request: Request): Promise<Response> {
  const body = await request.json().catch(() => null) // any JSON may come, also null
  const fragment: Fragment = body?.fragment
  const wrong = check(fragment)
  if (wrong) return Response.json({ error: wrong }, { status: 400 })
  try {
    return Response.json(await (fragment.template === codeTemplate ? interpret(fragment) : serve(fragment)))
  } catch (e) {
    return Response.json({ error: (e as Error).message }, { status: 502 })
  }
}
