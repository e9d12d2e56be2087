// Which suites run side by side, and on how many lanes.
import os from 'node:os'

/** Suites that disturb others or are disturbed by them, by name, and why.  They run one at a time, after all others. */
export const alone = {
  clientloss: 'a process that writes without a pause to ten listeners, and five hundred commands at once',
  faults: 'fork bombs, and a sandbox without memory',
  leaks: 'a hundred sandboxes at once, and how much memory the server has afterwards',
  power: 'a machine without power gives up its instance number while it is down',
  soak: 'kills every process at random times and holds answers to a deadline',
  stall: 'how long answers take while a disk stands still',
}

/** They begin first, so that none of them is the last one to run. */
export const longest = ['deb', 'snippets', 'pausefaults', 'pausehostile', 'survival', 'trust', 'preview', 'desktop', 'workplace', 'states', 'lost']

/** Suites that keep the processors busy and count on answers meanwhile: never two of them at a time. */
export const busy = ['copying']

let lastBusy = Promise.resolve()

/** Run `body` at once; for a busy suite, when the busy one before has ended. */
export function inTurn(suite, body) {
  if (!busy.includes(suite)) return body()
  const ended = lastBusy.then(body)
  lastBusy = ended.catch(() => {})
  return ended
}

/** Half of the time of a suite is waiting, so there are more lanes than processors. */
export const laneCount = Number(process.env.SANDGLASS_TEST_LANES) || os.availableParallelism() + 1

/** The suites of the code interpreter begin when their template is built, and then have lanes of their own. */
export const codeLanes = Math.min(2, laneCount)

/** Start the jobs in order, each on the first lane that is free; ends when all have ended. */
export async function runOnLanes(jobs, count = laneCount) {
  const waiting = [...jobs]
  const lane = async () => {
    for (let job = waiting.shift(); job; job = waiting.shift()) await job()
  }
  await Promise.all(Array.from({ length: Math.min(count, waiting.length) }, lane))
}
