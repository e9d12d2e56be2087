// libsandglass: many commands in one process take no more memory and no more descriptors than a few.
import { row } from '../table.mjs'

/** measure(program, args): a program of ours; its last line is the result. */
export async function measureLibrary({ server, quick, result, rows, measure }) {
  const count = quick ? 2000 : 10_000
  const figures = await measure('library_calls', [server.file('env'), String(count)])
  result.figures.library = figures
  const after = `${count.toLocaleString('en')} commands by libsandglass in one process`
  rows.push(
    row(`${after}: each`, figures.usEach, 'us'),
    row(`${after}: memory grown`, figures.grownKiB, 'kib', { atMost: 64 }),
    row(`${after}: descriptors grown`, figures.grownFds, 'count', { atMost: 0 }),
  )
}
