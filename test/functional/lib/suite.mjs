// What a client suite runs with: one generation of the npm client, one transport, one server.
//
// `run` starts the server and says which combination; run alone, a file starts its own and uses the newest client over
// plain HTTP.
import { after } from 'node:test'

import { leakless } from './census.mjs'
import { Server } from './server.mjs'

/** Variables a client process is started with, per transport; nothing else of E2B_* is set. */
export function clientEnvironment(server, transport) {
  const { E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL, E2B_DOMAIN, NODE_EXTRA_CA_CERTS } = server.env
  if (transport === 'http') return { E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL }
  const names = E2B_DOMAIN.replace(/:\d+$/, '')
  return { E2B_API_KEY, E2B_DOMAIN, NODE_EXTRA_CA_CERTS, SANDGLASS_TEST_NAMES: names }
}

export async function suite() {
  const name = process.env.SANDGLASS_TEST_CLIENT ?? 'e2b'
  const transport = process.env.SANDGLASS_TEST_TRANSPORT ?? 'http'
  let server
  if (process.env.SANDGLASS_TEST_DATA) server = Server.attach(process.env.SANDGLASS_TEST_DATA)
  else {
    if (transport !== 'http') throw new Error('the CA must be known when node starts: use test/functional/run')
    server = await Server.start()
    after(() => server.cleanUp())
    Object.assign(process.env, clientEnvironment(server, transport))
  }
  const client = await import(name)
  return { name, transport, server, client, ...client, leakless: (body) => leakless(server, body), withSandbox: withSandbox(server, client.Sandbox) }
}

/** A case with a sandbox of its own, killed at the end whatever happens, leaving nothing. */
const withSandbox = (server, Sandbox) => (body, options) =>
  leakless(server, async (t) => {
    const sandbox = await Sandbox.create(options)
    const failures = []
    await body(sandbox, t).catch((e) => failures.push(e))
    await sandbox.kill().catch((e) => failures.push(e)) // where both fail, the first says more
    if (failures.length) throw failures[0]
  })
