// Building templates with the npm client: directories to copy from, names, logs, and what a built template is.
import fs from 'node:fs'
import path from 'node:path'

import { temporaryDir } from '../server.mjs'
import { until } from '../wait.mjs'

let count = 0
/** A name that no other case uses. */
export const templateName = (what = 't') => `${what}-${process.pid}-${Date.now().toString(36)}-${count++}`

/** A directory with these files: {path: text | {link} | {mode, text} | null for a directory}. */
export function contextDir(files) {
  const dir = temporaryDir('context')
  for (const [name, what] of Object.entries(files)) {
    const file = path.join(dir, name)
    fs.mkdirSync(what === null ? file : path.dirname(file), { recursive: true })
    if (what === null) continue
    if (typeof what === 'object' && what.link) fs.symlinkSync(what.link, file)
    else fs.writeFileSync(file, what.text ?? what)
    if (typeof what === 'object' && what.mode) fs.chmodSync(file, what.mode)
  }
  return dir
}

/** Log entries of a build as they come: {entries, onBuildLogs, text()}. */
export function buildLog() {
  const entries = []
  return { entries, onBuildLogs: (entry) => entries.push(entry), text: () => entries.map((e) => e.message).join('\n') }
}

/** The build that this client requests fails: the error, with `log` the messages. */
export async function failedBuild(client, template, options = {}) {
  const log = buildLog()
  try {
    await client.Template.build(template, { alias: templateName(), ...log, ...options })
  } catch (e) {
    return Object.assign(e, { log: log.text() })
  }
  throw new Error(`the build did not fail:\n${log.text()}`)
}

/** Run the body with a sandbox of this template and end the sandbox. */
export async function inSandbox(client, name, body, options = {}) {
  const sandbox = await client.Sandbox.create(name, { timeoutMs: 120_000, ...options })
  try {
    return await body(sandbox)
  } finally {
    await sandbox.kill()
  }
}

/** Remove templates by name or id, as the dashboard does. */
export async function deleteTemplates(api, server, ...names) {
  for (const name of names) {
    const { status, body } = await api(server, 'DELETE', `/templates/${encodeURIComponent(name)}`)
    if (status !== 204 && status !== 404) throw new Error(`delete ${name}: ${status} ${body}`)
  }
}

export const buildEnded = (client, build, deadlineMs = 60_000) =>
  until('the build to end', async () => {
    const status = await client.Template.getBuildStatus(build)
    return ['ready', 'error'].includes(status.status) && status
  }, deadlineMs, 50)
