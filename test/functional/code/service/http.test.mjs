// The service by hand: every path, status and body of its API, and the bytes of its streams.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { call as agentApi } from '../../lib/agent_api.mjs'
import { codeSuite, inCodeSandbox, sharedSandbox } from '../../lib/code/suite.mjs'
import { execute, flood, interpreter, RawExecution } from '../../lib/code/wire.mjs'
import { until } from '../../lib/wait.mjs'

const suite = await codeSuite()
const { server } = suite
const sandbox = await sharedSandbox(suite)
const call = (method, path, options) => interpreter(server, sandbox, method, path, options)
const run = (body, headers) => execute(server, sandbox, body, headers)
const types = (events) => events.map((e) => e.type)

test('health; unknown paths and methods', async () => {
  const health = await call('GET', '/health')
  assert.deepEqual([health.status, health.json, health.headers['content-type']], [200, 'OK', 'application/json'])
  const unknown = await call('GET', '/nowhere')
  assert.deepEqual([unknown.status, unknown.json], [404, { detail: 'Not Found' }])
  for (const [method, path] of [['GET', '/execute'], ['PUT', '/contexts'], ['POST', '/health'], ['GET', '/contexts/x/restart']]) {
    const wrong = await call(method, path)
    assert.deepEqual([wrong.status, wrong.json], [405, { detail: 'Method Not Allowed' }], `${method} ${path}`)
  }
})

test('a stream: its head, its lines, its end', async () => {
  const { status, headers, events } = await run({ code: 'print("hello")\n42' })
  assert.equal(status, 200)
  assert.equal(headers['content-type'], undefined)
  assert.equal(headers['transfer-encoding'], 'chunked')
  assert.deepEqual(types(events), ['number_of_executions', 'stdout', 'result', 'end_of_execution'])
  assert.deepEqual(Object.keys(events[1]).sort(), ['text', 'timestamp', 'type'])
  assert.match(events[1].timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(\+00:00|Z)$/)
  assert.ok(Math.abs(Date.parse(events[1].timestamp) - Date.now()) < 3600_000)
  assert.deepEqual(events[2], { type: 'result', text: '42', extra: {}, is_main_result: true })
  assert.deepEqual(events[3], { type: 'end_of_execution' })
  assert.ok(Number.isInteger(events[0].execution_count))
})

test('only ASCII is sent, whatever is printed', async () => {
  const text = 'ü漢\u{1f600}\u0085\u2028\u2029\u00a0\u007f'
  const { bytes, events } = await run({ code: `print(${JSON.stringify(text)})\n${JSON.stringify(text)}` })
  assert.ok(bytes.every((byte) => byte < 0x80))
  assert.equal(events[1].text, text + '\n')
  const lone = await run({ code: 'print("\\ud800 half a pair")' })
  assert.ok(lone.bytes.every((byte) => byte < 0x80))
  assert.equal(lone.events.at(-1).type, 'end_of_execution')
})

test('a plot: all keys and nothing else, nulls of a chart are kept', async () => {
  const { events } = await run({ code: 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()' })
  const result = events.find((e) => e.type === 'result')
  assert.deepEqual(Object.keys(result).sort(), ['chart', 'extra', 'is_main_result', 'png', 'text', 'type'])
  assert.deepEqual([result.extra, result.is_main_result, result.chart.title, result.chart.x_label], [{}, false, null, null])
  const { bytes } = await run({ code: 'plt.plot([1, 2], [3, 4]); plt.show()' })
  assert.match(bytes.toString(), /"points": ?\[\[1\.0, ?3\.0\], ?\[2\.0, ?4\.0\]\]/, 'numbers of charts are floats')
  const other = await run({ code: 'display({"application/x-mine": {"a": 1}, "text/plain": "t"}, raw=True)' })
  assert.deepEqual(other.events.find((e) => e.type === 'result').extra, { 'application/x-mine': { a: 1 } })
})

test('an error: three texts', async () => {
  const { events } = await run({ code: '1/0' })
  const error = events.find((e) => e.type === 'error')
  assert.deepEqual(Object.keys(error).sort(), ['name', 'traceback', 'type', 'value'])
  assert.deepEqual([error.name, error.value], ['ZeroDivisionError', 'division by zero'])
  const failed = await run({ code: 'false', language: 'bash' })
  assert.deepEqual(failed.events.find((e) => e.type === 'error'), { type: 'error', name: '', value: '1', traceback: '' })
})

test('no NaN and no Infinity in a stream', async () => {
  const { bytes, events } = await run({ code: 'import pandas as pd\n[float("nan"), float("inf")]' })
  assert.doesNotMatch(bytes.toString().replaceAll(/"(\\.|[^"\\])*"/g, '""'), /NaN|Infinity/)
  assert.equal(events.at(-1).type, 'end_of_execution')
  const frame = await run({ code: 'pd.DataFrame({"a": [1.0, float("nan"), float("-inf")]})' })
  assert.doesNotMatch(frame.bytes.toString().replaceAll(/"(\\.|[^"\\])*"/g, '""'), /NaN|Infinity/)
})

test('fields: null and empty are absent, unknown ones are ignored, and so are queries', async () => {
  const { events } = await run({ code: '1+1', context_id: null, language: 'js', env_vars: null })
  assert.equal(events.find((e) => e.type === 'result').text, '2')
  for (const body of [{ code: '1+1', context_id: '', language: '' }, { code: '1+1', env_vars: {}, later: [1] }, { code: '1+1', context_id: null, language: null }])
    assert.equal((await run(body)).events.find((e) => e.type === 'result').text, '2', JSON.stringify(body))
  assert.deepEqual(types((await run({ code: '' })).events).filter((t) => t !== 'number_of_executions'), ['end_of_execution'])
  assert.equal((await call('GET', '/health?source=suite')).status, 200)
  assert.equal((await call('GET', '/contexts?source=suite')).status, 200)
})

test('wrong bodies: 422 that names the field', async () => {
  const details = async (path, body) => {
    const answer = await call('POST', path, { body, headers: { 'Content-Type': 'application/json' } })
    assert.equal(answer.status, 422, `${path} ${body}: ${answer.status} ${answer.body}`)
    return answer.json.detail
  }
  assert.deepEqual(await details('/execute', '{}'), [{ type: 'missing', loc: ['body', 'code'], msg: 'Field required', input: {} }])
  for (const [body, field] of [['{"code": 1}', 'code'], ['{"code": null}', 'code'], ['{"code": "1", "context_id": 5}', 'context_id'], ['{"code": "1", "language": []}', 'language'], ['{"code": "1", "env_vars": "x"}', 'env_vars'], ['{"code": "1", "env_vars": {"A": 1}}', 'env_vars']])
    assert.ok((await details('/execute', body))[0].loc.includes(field), body)
  for (const body of ['', 'no json', '[1]', '"text"', '{"code": "1"', '{"code": "\\ud800"}']) assert.ok(Array.isArray(await details('/execute', body)), body)
  assert.ok((await details('/contexts', '{"language": 5}'))[0].loc.includes('language'))
  assert.ok((await details('/contexts', '{"cwd": {}}'))[0].loc.includes('cwd'))
  assert.equal((await call('GET', '/health')).status, 200)
})

test('context and language together: 400; contexts that are not there: 404', async () => {
  const [{ id }] = (await call('GET', '/contexts')).json
  const both = await call('POST', '/execute', { body: { code: '1', context_id: id, language: 'python' } })
  assert.deepEqual([both.status, both.body], [400, 'Only one of context_id or language can be provided'])
  for (const [method, path, body] of [['POST', '/execute', { code: '1', context_id: 'nobody' }], ['DELETE', '/contexts/nobody'], ['POST', '/contexts/nobody/restart']]) {
    const answer = await call(method, path, { body })
    assert.deepEqual([answer.status, answer.body], [404, 'Context nobody not found'], path)
    assert.match(answer.headers['content-type'], /^text\/plain/)
  }
})

test('contexts: made, listed, restarted, removed, with empty bodies; errors as text', async () => {
  const made = await call('POST', '/contexts', { body: {} })
  assert.deepEqual([made.status, made.json.language, made.json.cwd], [200, 'python', '/home/user'])
  assert.deepEqual(Object.keys(made.json).sort(), ['cwd', 'id', 'language'])
  const listed = await call('GET', '/contexts', { headers: { 'Content-Type': 'application/json' } })
  assert.deepEqual(listed.json.at(-1), made.json)
  const restarted = await call('POST', `/contexts/${made.json.id}/restart`, { headers: { 'Content-Length': '0', 'Content-Type': 'application/json' } })
  assert.deepEqual([restarted.status, restarted.json], [200, null])
  const removed = await call('DELETE', `/contexts/${made.json.id}`, { headers: { 'Content-Type': 'application/json' } })
  assert.deepEqual([removed.status, removed.json], [200, null])
  const unknown = await call('POST', '/contexts', { body: { language: 'cobol' } })
  assert.equal(unknown.status, 500)
  assert.match(unknown.body, /^Failed to create context: ./)
  const nowhere = await call('POST', '/contexts', { body: { language: 'javascript', cwd: '/no/such/place' } })
  assert.deepEqual([nowhere.status, nowhere.body], [500, 'Failed to set working directory'])
  assert.deepEqual((await call('GET', '/contexts')).json.map((c) => c.language).filter((l) => l === 'javascript').length, 1)
  assert.equal((await call('POST', '/execute', { body: { code: '1', language: 'cobol' } })).status, 500)
})

test('any web page may ask', async () => {
  const asked = await call('OPTIONS', '/execute', { headers: { Origin: 'https://example.com', 'Access-Control-Request-Method': 'POST', 'Access-Control-Request-Headers': 'content-type,x-access-token' } })
  assert.equal(asked.status, 200)
  assert.ok(['*', 'https://example.com'].includes(asked.headers['access-control-allow-origin']))
  assert.match(asked.headers['access-control-allow-methods'], /POST|\*/)
  assert.match(asked.headers['access-control-allow-headers'], /x-access-token|\*/i)
  const health = await call('GET', '/health', { headers: { Origin: 'https://example.com' } })
  assert.ok(['*', 'https://example.com'].includes(health.headers['access-control-allow-origin']))
})

test('the head comes at once, while the context is busy; keepalives while nothing is printed', async () => {
  const busy = new RawExecution(server, sandbox, { code: 'import os, time\nprint("busy", flush=True)\nwhile not os.path.exists("/tmp/free"): time.sleep(0.01)' })
  await busy.until(/busy/)
  const queued = new RawExecution(server, sandbox, { code: '"after"' })
  await queued.until(/^HTTP\/1\.1 200/)
  assert.doesNotMatch(queued.text, /number_of_executions/)
  await busy.until(/"keepalive"[\s\S]*"keepalive"/)
  await sandbox.files.write('/tmp/free', '')
  await busy.until(/end_of_execution/)
  await queued.until(/end_of_execution/)
  assert.match(queued.text, /after/)
  await Promise.all([busy.close(), queued.close()])
})

test('connections are kept: many requests on one', async () => {
  const http = await import('node:http')
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 })
  const ports = new Set()
  for (let i = 0; i < 5; i++)
    await new Promise((done, fail) => {
      const rq = http.request({ host: '127.0.0.1', port: server.port, path: '/health', agent, headers: { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '49999' } }, (answer) => {
        ports.add(answer.socket.localPort)
        answer.resume().on('end', done)
      })
      rq.on('error', fail).end()
    })
  agent.destroy()
  assert.equal(ports.size, 1)
})

test('code of 10 MB', async () => {
  const code = `text = ${JSON.stringify('x'.repeat(10_000_000))}\nlen(text)`
  assert.equal((await run({ code })).events.find((e) => e.type === 'result').text, '10000000')
})

test('a gigabyte from Python, in lines and in one piece, to a client that reads with pauses: nothing is lost', { timeout: 300_000 }, async () => {
  for (const code of ['for i in range(512): print("z" * (1 << 20))', 'print("z" * (1 << 29))'])
    assert.deepEqual(await flood(server, sandbox, code), { letters: 1 << 29, last: '{"type":"end_of_execution"}' })
  assert.equal((await run({ code: '1+1' })).events.find((e) => e.type === 'result').text, '2')
})

test('R, 50 MB and a client that reads only when R stands still: nothing is lost', { timeout: 300_000 }, async () => {
  const count = 3000
  const size = 16384
  const code = `line <- strrep("z", ${size}); for (i in 1:${count}) { cat(line); flush.console(); writeLines(as.character(i), "/tmp/printed") }`
  const printed = async () => Number(await sandbox.files.read('/tmp/printed').catch(() => 0))
  const hold = async () => {
    for (let last = -1, since = Date.now(), now; Date.now() - since < 3000; last = now) { // it waits, or has lost some and ended
      now = await printed()
      if (now !== last || now === 0) since = Date.now()
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  }
  assert.deepEqual(await flood(server, sandbox, code, { language: 'r', hold }), { letters: count * size, last: '{"type":"end_of_execution"}' })
})

test('a run whose client leaves is interrupted, and so is one of a client that leaves mid-line', async () => {
  for (const code of ['import time\ntry:\n    print("runs", flush=True)\n    time.sleep(300)\nexcept KeyboardInterrupt:\n    open("/tmp/interrupted", "w").close()', 'try:\n    while True: print("runs " * 10000, flush=True)\nexcept KeyboardInterrupt:\n    open("/tmp/interrupted", "w").close()']) {
    const stream = new RawExecution(server, sandbox, { code })
    await stream.until(/runs/)
    await stream.close()
    await until('the interrupt', async () => sandbox.files.exists('/tmp/interrupted'), 60_000, 50)
    await sandbox.files.remove('/tmp/interrupted')
    assert.equal((await run({ code: '1+1' })).events.find((e) => e.type === 'result').text, '2')
  }
})

test('private traffic: without its token nobody comes in; the token is enough', async () =>
  inCodeSandbox(suite, async (own) => {
    assert.ok(own.trafficAccessToken)
    const { status } = await interpreter(server, { sandboxId: own.sandboxId }, 'GET', '/health')
    assert.equal(status, 403)
    assert.equal((await interpreter(server, own, 'GET', '/health')).status, 200)
    const { events } = await execute(server, own, { code: '1+1' }) // no X-Access-Token
    assert.equal(events.find((e) => e.type === 'result').text, '2')
  }, { secure: true, network: { allowPublicTraffic: false } }))

test('fifty contexts at once', { timeout: 300_000 }, async () =>
  inCodeSandbox(suite, async (own) => {
    const made = await Promise.all(Array.from({ length: 50 }, () => own.createCodeContext({ language: 'bash', requestTimeoutMs: 200_000 })))
    const values = await Promise.all(made.map((context, i) => own.runCode(`n=${i}; echo $n`, { context, timeoutMs: 200_000 })))
    assert.deepEqual(values.map((e) => e.logs.stdout.join('').trim()), made.map((_, i) => String(i)))
    await Promise.all(made.map((context) => own.removeCodeContext(context)))
    assert.equal((await own.listCodeContexts()).length, 2)
  }))

test('code through the agent API: output, results, errors; variables stay', async () => {
  const code = (text, more = {}) => agentApi(server, 'POST', `/sandboxes/${sandbox.sandboxId}/code`, { code: text, ...more })
  const first = await code('through = 41\nprint("printed")\nthrough + 1')
  assert.equal(first.status, 200, first.body)
  assert.deepEqual([first.json.stdout, first.json.stderr, first.json.error ?? null, first.json.results[0].text], ['printed\n', '', null, '42'])
  assert.equal((await code('through')).json.results[0].text, '41')
  assert.equal((await code('1 / 0')).json.error.name, 'ZeroDivisionError')
  assert.match((await code('console.log(6 * 7)', { language: 'javascript' })).json.stdout, /^42\n/)
  assert.equal((await code(7)).status, 400)
})
