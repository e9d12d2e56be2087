// The hammer: clients with random operations against a real server, whose processes are killed meanwhile; a model that
// knows what must be true; and at the end, nothing may be left.
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

import { differences, everythingOf, settled, take } from '../functional/lib/census.mjs'
import { Server } from '../functional/lib/server.mjs'
import { until } from '../functional/lib/wait.mjs'
import { Client, Gate } from './client.mjs'
import { healthy, Killer, victims } from './killer.mjs'
import { buildStarted, deleteStarted, perform } from './operations.mjs'
import { lookAtLists } from './quiet.mjs'
import { Random } from './random.mjs'
import { Report } from './report.mjs'
import { wrongLines } from './serverlog.mjs'

const later = (ms) => new Promise((done) => setTimeout(done, ms))
const settings = { warm_mb: 64 } // so that some paused sandboxes are kept in memory, and some come back from disk

export const seedOf = (text) => (text === undefined || text === '' ? String(Date.now() % 1_000_000) : String(text))

/** -> the report.  kinds: what is killed. */
export async function soak({ seconds, seed, clients: count = 6, kinds = Object.keys(victims) } = {}) {
  const report = new Report({ file: path.join(os.tmpdir(), `sandglass-soak-${seed}-${process.pid}.log`) })
  const serverLog = path.join(os.tmpdir(), `sandglass-soak-${seed}-${process.pid}.server.log`)
  process.env.SANDGLASS_TEST_LOG = serverLog
  fs.writeFileSync(serverLog, '')
  const held = { server: await Server.start({ settings }) }
  held.server.keepsData = false
  held.restart = () => startAgain(held)
  try {
    const before = await settled(held.server, 30_000)
    await buildStarted(held.server)
    const gate = new Gate(count + 1)
    const ask = (sandbox, operation) => perform(held.server, sandbox, operation)
    const clients = Array.from({ length: count }, (_, i) => new Client(i, { random: new Random(seed, `client ${i}`), perform: ask, report, gate }))
    await hammer({ seconds, seed, held, ask, clients, report, gate, kinds })
    await finish({ held, ask, clients, report, before })
  } finally {
    delete process.env.SANDGLASS_TEST_LOG
    await held.server.cleanUp()
  }
  for (const what of everythingOf(held.server.data)) report.find('left', `after down: ${what}`)
  for (const line of wrongLines(fs.readFileSync(serverLog, 'utf8'), report.kills)) report.find('log', line)
  if (report.isClean()) fs.rmSync(serverLog, { force: true })
  else report.serverLog = serverLog
  report.close()
  return report
}

/** The same data directory and port after the supervisor was killed.  Somebody may have got the port meanwhile, for a
 *  connection of his own: then another one. */
async function startAgain(held) {
  const { port, keepsData } = held.server
  try {
    held.server = await held.server.again({ settings, listen: `127.0.0.1:${port}` })
  } catch (e) {
    if (!/port already in use/.test(e.message)) throw e
    held.server = await held.server.again({ settings })
  }
  held.server.keepsData = keepsData
}

async function hammer({ seconds, seed, held, ask, clients, report, gate, kinds }) {
  let isOver = false
  const killer = new Killer({ held, random: new Random(seed, 'killer'), report, gate, kinds })
  const broken = (e) => {
    report.find('broken', e.stack)
    isOver = true
  }
  const party = (who) => who.run(() => isOver).catch(broken).finally(() => gate.leave())
  const running = [...clients, killer].map(party)
  const end = performance.now() + seconds * 1000
  const looks = Math.max(2, Math.round(seconds / 20))
  for (let i = 1; i <= looks && !isOver; i++) {
    await later(Math.max(0, end - performance.now()) / (looks - i + 1))
    await gate.close()
    if (i === looks) isOver = true
    try {
      await healthy(held.server)
      await lookAtLists(ask, clients, report)
    } catch (e) {
      broken(e)
    }
    gate.open()
  }
  await Promise.all(running)
}

/** The store knows everything that was begun, acknowledged or not: nothing is a stranger to it. */
function lookIntoLost(server, report) {
  const names = fs.existsSync(server.file('lost')) ? fs.readdirSync(server.file('lost')).filter((name) => !name.endsWith('.json')) : []
  for (const name of names) report.find('left', `lost/${name}`)
}

/** Everything is looked at once more, ended, and must leave nothing. */
async function finish({ held, ask, clients, report, before }) {
  await Promise.all(clients.map((client) => client.finish().catch((e) => report.find('broken', e.stack))))
  await lookAtLists(ask, clients, report)
  const left = await ask(null, { name: 'listSandboxes' })
  for (const { id, state } of left.list ?? []) report.find('left', `sandbox ${id} is still listed: ${state}`)
  lookIntoLost(held.server, report)
  await deleteStarted(held.server)
  const idle = 12 + 3 * clients.length // connections that are kept for the next request
  const kept = { edge: idle, control: idle, engine: 4 }
  let found = []
  try {
    await until('', () => (found = differences(before, take(held.server), kept)).length === 0, 90_000) // the builder ends after a minute
  } catch {
    report.find('left', found.join('; '))
  }
}
