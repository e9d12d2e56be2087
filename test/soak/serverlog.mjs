// The server's log after a run: which lines say that something went wrong that nobody did.

/** Said when helpers of the engine die: these were killed.  (A vault whose next worker dies ends, too.) */
const deaths = {
  'nursery.died': ['sg-nursery'],
  'janitor.died': ['sg-janitor'],
  'sweeper.died': ['sg-sweeper'],
  'marker.died': ['sg-marker'],
  'flattener.died': ['sg-flattener'],
  'vault.died': ['sg-vault', 'sg-spare'],
}

/** Errors, and whatever calls itself a bug.  kills: {name: how often}. */
export function wrongLines(log, kills) {
  return log.split('\n').filter((line) => {
    if (/\bbug\b|AddressSanitizer|runtime error|[Aa]ssertion/.test(line)) return true
    const [, event] = /^\S+ error \S+ (\S+)/.exec(line) ?? []
    return event !== undefined && !deaths[event]?.some((name) => kills[name])
  })
}
