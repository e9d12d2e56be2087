// The pages of docs/ are true: every block marked `run` is run as it stands, against a real server, and must succeed.
// Pages that need a ready-made template are run with it: code/service/docs.test.mjs, template/workplace.test.mjs, template/desktop.test.mjs.
import fs from 'node:fs'
import { after, before } from 'node:test'

import { Server } from '../lib/server.mjs'
import { docs, testPage } from './snippets.mjs'

let server
before(async () => (server = await Server.start()))
after(() => server.cleanUp())

const elsewhere = ['code.md', 'desktop.md', 'vscode.md']
for (const page of fs.readdirSync(docs).filter((name) => name.endsWith('.md') && !elsewhere.includes(name)).sort()) testPage(page, () => server)
