// Each operation of the model as requests to a real server, and what its answers mean.
//
// perform(server, sandbox, operation) -> {kind, value?, ...}.  Kinds the model knows: ok, gone, already, busy, missing, closed,
// used; lost (no answer, or one that leaves open what happened) and refused (nobody was there).  'unexpected' is none of
// them, and a finding by itself.
import { bytesOf, nameOf } from './content.mjs'
import { envelope, messagesOf, send } from './wire.mjs'

export const longS = 21_600
const dir = '/home/user/soak'
const logFile = 'log'
const counterPort = 7000

/** A process that counts requests in its memory, and looks at each whether a block of its memory is still what it was.
 *  It says "started" when it listens, and "taken" when another one does. */
const counterProgram = `
use Socket; use POSIX ();
my ($port, $nonce) = @ARGV;
socket(my $s, AF_INET, SOCK_STREAM, 0) or die; setsockopt($s, SOL_SOCKET, SO_REUSEADDR, 1);
unless (bind($s, sockaddr_in($port, INADDR_LOOPBACK)) && listen($s, 64)) { print "taken"; exit 0 }
srand(unpack("%32C*", $nonce)); my $block = join "", map { pack "N", int rand 4294967296 } 1 .. 65536;
my ($sum, $copy, $n) = (unpack("%32N*", $block), scalar reverse($block), 0);
if (fork) { print "started"; exit 0 }
POSIX::setsid(); $SIG{PIPE} = "IGNORE"; POSIX::close($_) for 0 .. 2;
while (1) {
  accept(my $c, $s) or next;
  my $head = "";
  until ($head =~ /\\r\\n\\r\\n/) {
    my $r = ""; vec($r, fileno $c, 1) = 1;
    last unless select($r, undef, undef, 10) > 0 && sysread($c, $head, 4096, length $head);
  }
  if ($head =~ /\\r\\n\\r\\n/) {
    $n++;
    my $whole = unpack("%32N*", $block) == $sum && reverse($copy) eq $block ? "whole" : "damaged";
    my $body = "$nonce $n $whole";
    syswrite $c, "HTTP/1.1 200 OK\\r\\nContent-Length: " . length($body) . "\\r\\nConnection: close\\r\\n\\r\\n$body";
  }
  close $c;
}
`

const asJson = { 'Content-Type': 'application/json' }
const asUser = { Authorization: `Basic ${Buffer.from('user:').toString('base64')}` }

/* ---- the ways in ---- */

const api = (server, method, path, body) =>
  send(server, { method, path, body, headers: { 'X-API-Key': server.key, ...(body === undefined ? {} : asJson) } })

const toPort = (server, sandbox, port, request) => {
  const headers = { 'E2b-Sandbox-Id': sandbox.id, 'E2b-Sandbox-Port': String(port), ...(sandbox.token && port === 49983 ? { 'X-Access-Token': sandbox.token } : {}), ...request.headers }
  return send(server, { ...request, headers })
}
const toDaemon = (server, sandbox, request) => toPort(server, sandbox, 49983, { ...request, headers: { ...asUser, ...request.headers } })
const fileUrl = (file) => `/files?path=${encodeURIComponent(`${dir}/${file}`)}&username=user`

/** Run to its end: the output, or an answer that says why there is none. */
async function run(server, sandbox, cmd, args) {
  const body = envelope({ process: { cmd, args }, stdin: false })
  const answer = await toDaemon(server, sandbox, { method: 'POST', path: '/process.Process/Start', body, headers: { 'Content-Type': 'application/connect+json' } })
  if (answer.status !== 200) return { answer }
  const stream = messagesOf(answer.bytes)
  if (!stream) return { answer: { lost: 'the stream was cut' } }
  const exit = stream.messages.at(-1)?.event?.end
  const output = (kind) => Buffer.concat(stream.messages.map((m) => Buffer.from(m.event?.data?.[kind] ?? '', 'base64'))).toString()
  if (!exit?.exited || exit.exitCode) return { answer: { status: 'command failed', bytes: Buffer.from(JSON.stringify([exit, stream.end, output('stderr')])) } }
  return { output: output('stdout') }
}

/* ---- what answers mean ---- */

const messageOf = (answer) => answer.json?.message ?? answer.bytes?.toString().slice(0, 300) ?? ''

/** What every request can be answered. */
function general(answer) {
  if (answer.refused) return { kind: 'refused' }
  if (answer.lost) return { kind: 'lost', why: answer.lost }
  if (answer.hanging) return { kind: 'lost', why: 'hanging', hanging: true }
  const message = messageOf(answer)
  const { status } = answer
  if (status === 404 && /doesn't exist|not found/.test(message)) return { kind: 'gone' }
  if (status === 502 && /The sandbox was not found/.test(message)) return { kind: 'gone' }
  if (status === 502 && /port is not open/.test(message)) return { kind: 'closed' }
  if (status === 409 && /already (paused|running)/.test(message)) return { kind: 'already' }
  if (status === 409 && /^Error pausing/.test(message)) return { kind: 'unexpected', status, message } // nothing we start is in the way of a dump
  if (status === 409) return { kind: 'busy', message }
  if (status >= 500) return { kind: 'lost', why: `${status}`, status, message }
  return { kind: 'unexpected', status, message }
}

const expect = (status, value) => (answer) =>
  answer.status === status || (Array.isArray(status) && status.includes(answer.status)) ? { kind: 'ok', ...value?.(answer) } : general(answer)

const made = (json) => ({ id: json.sandboxID, token: json.envdAccessToken })

/** Copies of which some could not be made. */
function forked(answer) {
  const all = answer.json ?? []
  const good = all.filter((entry) => entry.sandbox)
  const bad = all.filter((entry) => !entry.sandbox).map((entry) => entry.error)
  return { made: good.map((entry) => made(entry.sandbox)), ...(bad.length ? { failed: bad.length, errors: bad } : {}) }
}

const stateOf = (answer) => ({ value: answer.json.state })
const post = (server, sandbox, what, body = {}) => api(server, 'POST', `/sandboxes/${sandbox.id}/${what}`, body)

/** A template with a start command: its sandboxes begin with a checkpoint, and some are restored ahead. */
export const startedTemplate = 'soak-started'
const templateOf = (tag) => (tag.charCodeAt(tag.length - 1) % 2 ? startedTemplate : 'base')

/** Build it, once; nothing is killed meanwhile. */
export async function buildStarted(server) {
  const asked = await api(server, 'POST', '/v3/templates', { name: startedTemplate, cpuCount: 1, memoryMB: 512 })
  const { templateID, buildID } = asked.json
  await api(server, 'POST', `/v2/templates/${templateID}/builds/${buildID}`, { fromTemplate: 'base', steps: [], startCmd: 'sleep infinity', readyCmd: 'true' })
  for (let status = 'building'; status !== 'ready'; ) {
    const answer = await api(server, 'GET', `/templates/${templateID}/builds/${buildID}/status?logsOffset=0`)
    status = answer.json?.status
    if (status === 'error') throw new Error(`the template cannot be built: ${answer.body}`)
    await new Promise((done) => setTimeout(done, 100))
  }
}

export const deleteStarted = (server) => api(server, 'DELETE', `/templates/${startedTemplate}`)

export function createBody({ tag, template, traits }) {
  const body = { templateID: template ?? templateOf(tag), timeout: longS, metadata: { soak: tag } }
  if (traits.onEnd !== 'kill') Object.assign(body, { autoPause: true, autoPauseMemory: traits.onEnd === 'pause' })
  if (traits.autoResume) body.autoResume = { enabled: true }
  return body
}

async function listAll(server, path, entryOf) {
  const found = []
  for (let token = ''; ; ) {
    const answer = await api(server, 'GET', `${path}?limit=100${token && `&nextToken=${encodeURIComponent(token)}`}`)
    if (answer.status !== 200) return general(answer)
    found.push(...answer.json.map(entryOf))
    token = answer.headers['x-next-token']
    if (!token) return { kind: 'ok', list: found }
  }
}

const table = {
  create: async (server, _, operation) =>
    expect(201, (answer) => ({ made: [made(answer.json)] }))(await api(server, 'POST', '/v2/sandboxes', createBody(operation))),
  get: async (server, sandbox) => expect(200, stateOf)(await api(server, 'GET', `/sandboxes/${sandbox.id}`)),
  metrics: async (server, sandbox) =>
    expect(200, (answer) => ({ value: answer.json.length ? 'sample' : 'none' }))(await api(server, 'GET', `/sandboxes/${sandbox.id}/metrics`)),
  pause: async (server, sandbox, { memory }) => expect(204)(await post(server, sandbox, 'pause', { memory })),
  connect: async (server, sandbox, { memory }) =>
    expect([200, 201], (answer) => ({ token: answer.json.envdAccessToken }))(await api(server, 'POST', `/v2/sandboxes/${sandbox.id}/connect`, { timeout: longS, memory })),
  resume: async (server, sandbox) => expect([200, 201])(await post(server, sandbox, 'resume', { timeout: longS })),
  timeout: async (server, sandbox, { now }) => expect(204)(await post(server, sandbox, 'timeout', { timeout: now ? 0 : longS })),
  kill: async (server, sandbox) => expect(204)(await api(server, 'DELETE', `/sandboxes/${sandbox.id}`)),
  fork: async (server, sandbox, { count }) => expect(201, forked)(await post(server, sandbox, 'fork', { count, timeout: longS })),
  snapshot: async (server, sandbox, { snapshot }) =>
    expect(201, (answer) => ({ snapshot: answer.json.snapshotID }))(await post(server, sandbox, 'snapshots', { name: snapshot })),
  rollback: async (server, sandbox, { snapshot }) => expect(200)(await post(server, sandbox, 'rollback', { snapshotID: snapshot })),

  write: async (server, sandbox, { file, content }) =>
    expect(200)(await toDaemon(server, sandbox, { method: 'POST', path: fileUrl(file), body: bytesOf(content), headers: { 'Content-Type': 'application/octet-stream' } })),
  read: async (server, sandbox, { file }) => {
    const answer = await toDaemon(server, sandbox, { method: 'GET', path: fileUrl(file) })
    if (answer.status === 404 && !/sandbox/.test(messageOf(answer))) return { kind: 'missing' }
    return expect(200, ({ bytes }) => ({ value: file === logFile ? bytes.toString() : nameOf(bytes) }))(answer)
  },
  remove: async (server, sandbox, { file }) =>
    expect(200)(await toDaemon(server, sandbox, { method: 'POST', path: '/filesystem.Filesystem/Remove', body: { path: `${dir}/${file}` }, headers: asJson })),
  list: async (server, sandbox) => {
    const answer = await toDaemon(server, sandbox, { method: 'POST', path: '/filesystem.Filesystem/ListDir', body: { path: dir, depth: 1 }, headers: asJson })
    if (answer.status === 404 && /no such|not found/i.test(messageOf(answer)) && !/sandbox/.test(messageOf(answer))) return { kind: 'ok', value: '' }
    return expect(200, ({ json }) => ({ value: (json.entries ?? []).map((entry) => entry.name).sort().join(' ') }))(answer)
  },
  append: async (server, sandbox, { file, word }) => {
    const { output, answer } = await run(server, sandbox, '/bin/sh', ['-c', 'mkdir -p "$1" && printf "%s " "$3" >>"$1/$2" && printf "%s" "$3"', 'sh', dir, file, word])
    return answer ? general(answer) : { kind: 'ok', value: output }
  },
  start: async (server, sandbox, { nonce }) => {
    const { output, answer } = await run(server, sandbox, '/usr/bin/perl', ['-e', counterProgram, String(counterPort), nonce])
    return answer ? general(answer) : { kind: 'ok', value: output }
  },
  count: async (server, sandbox) =>
    expect(200, ({ bytes }) => ({ value: bytes.toString() }))(await toPort(server, sandbox, counterPort, { method: 'POST', path: '/' })),

  deleteSnapshot: async (server, _, { snapshot }) => {
    const answer = await api(server, 'DELETE', `/templates/${encodeURIComponent(snapshot)}`)
    return answer.status === 400 && /sandboxes using it/.test(messageOf(answer)) ? { kind: 'used' } : expect(204)(answer)
  },
  listSandboxes: (server) => listAll(server, '/v2/sandboxes', (entry) => ({ id: entry.sandboxID, state: entry.state, tag: entry.metadata?.soak })),
  listSnapshots: (server) => listAll(server, '/snapshots', (entry) => ({ id: entry.snapshotID })),
}

export const perform = (server, sandbox, operation) => table[operation.name](server, sandbox, operation)
