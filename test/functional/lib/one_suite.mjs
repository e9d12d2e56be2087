// Runs one file of tests in a process of its own and tells `run` what happens: a JSON object on each line.
//
//   node one_suite.mjs FILE
//
//   {"result": "passed" | "failed", "name", "skip", "error"}    a case
//   {"said": "..."}                                             what the file printed
//   {"cpu_s": 1.5}                                              at the end: of the file, its servers and their children
import fs from 'node:fs'
import path from 'node:path'
import { run } from 'node:test'
import { inspect } from 'node:util'

const file = process.argv[2]
const minutes = 60_000
const ticksPerSecond = 100 // what /proc counts in, on every machine

const tell = (message) => fs.writeSync(1, JSON.stringify(message) + '\n')
const isFile = (data) => data.name === file || data.name === path.relative(process.cwd(), file)

function tellCase(data, result) {
  if (data.nesting !== 0 || (result === 'passed' && isFile(data))) return
  const skip = data.skip === undefined || data.skip === false ? undefined : String(data.skip)
  underWay.delete(data.name)
  const error = data.details?.error
  const ran = isFile(data) && underWay.size ? `while this ran: ${[...underWay].join(', ')}\n` : ''
  const text = error && ran + inspect(error.cause ?? error) // with the causes of causes
  tell({ result, name: data.name, skip, error: result === 'failed' ? text : undefined })
}

/** Of this process and of all descendants that were waited for, in seconds. */
function cpuSeconds() {
  const stat = fs.readFileSync('/proc/self/stat', 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ').map(Number)
  return (fields[11] + fields[12] + fields[13] + fields[14]) / ticksPerSecond
}

/** The cases that have begun and not ended: when a file runs out of time, one of them never ended. */
const underWay = new Set()

const interrupted = new AbortController() // ends the file's process with SIGTERM, upon which it ends its servers
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => interrupted.abort())
const stream = run({ files: [file], concurrency: 1, timeout: 20 * minutes, signal: interrupted.signal })
stream.on('test:dequeue', (data) => data.nesting === 0 && !isFile(data) && underWay.add(data.name))
stream.on('test:pass', (data) => tellCase(data, 'passed'))
stream.on('test:fail', (data) => tellCase(data, 'failed'))
stream.on('test:stderr', (data) => tell({ said: data.message }))
stream.on('test:stdout', (data) => tell({ said: data.message }))
stream.on('end', () => tell({ cpu_s: cpuSeconds() }))
stream.resume()
