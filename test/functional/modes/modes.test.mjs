// Agents on this machine, in sandboxes, and both: the library, `sandglass agent`, and the examples.
//
// One server for all, whose data directory stays in build/test-cache: the template with the Agent SDK is made once.  The
// template also has the stand-in for the model, on port 8089 of each sandbox, since sandboxes cannot reach this machine.
import { after, before } from 'node:test'

import { keptServer } from '../lib/kept_server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'
import { commandTests } from './command.mjs'
import { exampleTests } from './examples.mjs'
import { libraryTests } from './library.mjs'
import { buildTemplates, installedExamples } from './places.mjs'

const hooks = { begin: [], end: [] } // of the parts, around their tests
let server, client, examples, variables
before(async () => {
  server = await keptServer('modes')
  variables = clientEnvironment(server, 'http')
  Object.assign(process.env, variables)
  client = await import('e2b')
  examples = await installedExamples()
  await buildTemplates(client, examples, { ...process.env, ...variables })
  for (const begin of hooks.begin) await begin()
})
after(async () => {
  for (const end of hooks.end) end()
  await server?.cleanUp()
})

libraryTests(() => variables)
commandTests(() => ({ client, examples, variables }), hooks)
exampleTests(() => ({ client, examples, exports: server.env }), hooks)
