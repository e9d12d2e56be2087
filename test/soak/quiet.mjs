// What is compared at moments when nobody asks anything and nobody is killed: the server's lists with the ledgers.
import { isMarkOf } from './client.mjs'

const ownerOf = (clients, mark) => clients.find(({ number }) => isMarkOf(number, mark))

/** perform(null, operation) asks the server. */
export async function lookAtLists(perform, clients, report) {
  report.quiet++
  const sandboxes = await perform(null, { name: 'listSandboxes' })
  const snapshots = await perform(null, { name: 'listSnapshots' })
  if (sandboxes.kind !== 'ok' || snapshots.kind !== 'ok') {
    report.find('list', `at a quiet moment: ${JSON.stringify([sandboxes, snapshots]).slice(0, 1000)}`)
    return
  }
  for (const { id, tag } of sandboxes.list)
    if (!ownerOf(clients, tag)) report.find('contradiction', `the list has a sandbox that nobody made: ${id}`)
  for (const client of clients) {
    const strays = client.ledger.compareSandboxes(sandboxes.list.filter(({ tag }) => ownerOf(clients, tag) === client))
    for (const stray of strays) await adoptStray(client, stray, report)
    const unknown = client.ledger.compareSnapshots(snapshots.list.filter(({ id }) => ownerOf(clients, /\/(.*):/.exec(id)?.[1]) === client))
    for (const { id } of unknown) report.find('contradiction', `the list has a snapshot that nobody made: ${id}`)
  }
}

async function adoptStray(client, stray, report) {
  const loss = client.ledger.explainStray(stray)
  if (loss) await client.adopt(stray, loss)
  else report.find('contradiction', `client ${client.number}: the list has a sandbox that nobody made: ${stray.id} ${stray.tag}`)
}
