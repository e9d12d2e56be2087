// The server's log after a run: which lines say that something went wrong that nobody did.

/** Said when helpers of the engine die: these were killed.  (A vault whose next worker dies ends, too.  A cell is a child of
 *  the nursery and has its name until it becomes envd.) */
const deaths = {
  'cell_maker.died': ['sg-cell-maker'],
  'cell.failed': ['sg-cell-maker'],
  'slot_cleaner.died': ['sg-slot-clean'],
  'job_queue.died': ['sg-job-queue', 'sg-job-spare'],
}

const killed = (event, line) => (event === 'helper.died' ? [`sg-${/ name=([\w-]+)/.exec(line)?.[1]}`] : deaths[event] ?? [])

/** Errors, and whatever calls itself a bug.  kills: {name: how often}. */
export function wrongLines(log, kills) {
  return log.split('\n').filter((line) => {
    if (/\bbug\b|AddressSanitizer|runtime error|[Aa]ssertion/.test(line)) return true
    const [, event] = /^\S+ error \S+ (\S+)/.exec(line) ?? []
    return event !== undefined && !killed(event, line).some((name) => kills[name])
  })
}
