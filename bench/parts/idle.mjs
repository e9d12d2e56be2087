// What contexts cost that nobody uses: processor time and memory of the service, with the scripted kernel of the tests, which is
// the lightest there is. The service runs on the machine itself: the kernels of a hundred contexts need no memory of a sandbox.
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { until } from '../../test/functional/lib/wait.mjs'

const build = fileURLToPath(new URL('../../build', import.meta.url))
const contexts = 100
const idleMs = 10_000

function post(port, target, body) {
  return new Promise((done, fail) => {
    const rq = http.request({ host: '127.0.0.1', port, method: 'POST', path: target, agent: false, headers: { 'Content-Type': 'application/json' } }, (answer) => {
      answer.resume().on('end', () => (answer.statusCode === 200 ? done() : fail(new Error(`${target}: ${answer.statusCode}`))))
    })
    rq.on('error', fail)
    rq.end(JSON.stringify(body))
  })
}

/** The child of the guardian, which is the process that serves. */
const servingOf = (guardian) => Number(fs.readFileSync(`/proc/${guardian}/task/${guardian}/children`, 'utf8').split(' ')[0])

const residentKib = (pid) => Number(/^VmRSS:\s+(\d+)/m.exec(fs.readFileSync(`/proc/${pid}/status`, 'utf8'))[1])

/** Nanoseconds of processor time of all its threads. */
const processorNs = (pid) => fs.readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + Number(fs.readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]), 0)

function startService(dir) {
  const kernel = path.join(dir, 'kernels', 'python3')
  fs.mkdirSync(kernel, { recursive: true })
  fs.writeFileSync(path.join(kernel, 'kernel.json'), JSON.stringify({ argv: [path.join(build, 'test/interpreter/service/fake_kernel'), '{connection_file}'], display_name: 'idle', language: 'python' }))
  const service = spawn(path.join(build, 'sandglass-interpreter'), ['--listen', '127.0.0.1:0', '--kernel-path', path.join(dir, 'kernels'), '--home', dir, '--envd', 'http://127.0.0.1:9'], { stdio: ['ignore', 'pipe', 'ignore'], env: { PATH: process.env.PATH } })
  return new Promise((done, fail) => {
    service.once('exit', (code) => fail(new Error(`the service ended with ${code}`)))
    service.stdout.once('data', (text) => done({ service, port: Number(/port (\d+)/.exec(text)[1]) }))
  })
}

/** {contexts, kib: each context's memory in the service, nsPerSecond: processor time of the service with all of them} */
export async function measureIdle() {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'bench-idle-'))
  const { service, port } = await startService(dir)
  try {
    await post(port, '/execute', { code: 'print 1' })
    const pid = servingOf(service.pid)
    const before = residentKib(pid)
    for (let i = 0; i < contexts; i++) await post(port, '/contexts', {})
    const memory = residentKib(pid) - before
    const began = { ns: processorNs(pid), at: performance.now() }
    const end = began.at + idleMs
    await until('the time is over', () => performance.now() > end, 2 * idleMs, 100)
    const seconds = (performance.now() - began.at) / 1000
    return { contexts, kib: memory / contexts, nsPerSecond: (processorNs(pid) - began.ns) / seconds }
  } finally {
    service.removeAllListeners('exit')
    service.kill('SIGTERM')
    await new Promise((done) => service.once('exit', done))
    fs.rmSync(dir, { recursive: true })
  }
}
