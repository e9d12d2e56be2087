// Templates whose sandboxes are restored ahead, and what the server says of them.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { cellProcesses, instanceName } from './census.mjs'
import { processes } from './proc.mjs'
import { api } from './raw.mjs'
import { openWhenRead, until } from './wait.mjs'

/** Other suites keep the machine busy: only what a case does itself may take standbys away. */
export const calm = { warm_stall_ms: 2000 }

/** A small server that was started in the build, and knows its own random number. */
const program = `
import http.server, json, os, random, socket, time
number = random.getrandbits(64)
began = time.monotonic()
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({'number': number, 'pid': os.getpid(), 'host': socket.gethostname(), 'age': time.monotonic() - began}).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a):
        pass
http.server.ThreadingHTTPServer(('0.0.0.0', 8000), Answer).serve_forever()
`

/** Build a template whose start command is that program. */
export async function buildWeb(client, name, { memoryMB = 512, cpuCount = 1, more = (t) => t } = {}) {
  const text = Buffer.from(program).toString('base64')
  const template = more(client.Template().fromTemplate('base').runCmd(`echo ${text} | base64 -d > /home/user/web.py`).setEnvs({ OF_TEMPLATE: 'yes' }))
  return client.Template.build(template.setStartCmd('exec python3 /home/user/web.py', client.waitForPort(8000)), name, { memoryMB, cpuCount })
}

/** What the program says: {number, pid, host, age}. */
export async function askWeb(sandbox) {
  const { stdout } = await sandbox.commands.run('curl -s http://127.0.0.1:8000/')
  return JSON.parse(stdout)
}

export const ahead = async (server) => (await api(server, 'GET', '/sandglass/ahead')).json?.standbys

/** As many as this are ready, and none is being made. */
export async function ready(server, count) {
  let now
  return until(() => `${count} standbys, not ${JSON.stringify(now)}\n${server.log.slice(-3000)}`, async () => {
    now = await ahead(server).catch(() => null)
    return now?.ready === count && directories(server).length === count && now
  }, 60_000, 20)
}

export const directories = (server) => fs.readdirSync(server.file('sandboxes')).filter((name) => name.startsWith('s'))

/** Processes of standbys. */
export function processesOf(server, names = directories(server)) {
  const slots = names.map((name) => JSON.parse(fs.readFileSync(server.file(`sandboxes/${name}/running.json`), 'utf8')).namespace.slot)
  const instance = instanceName(server.data)
  return cellProcesses(instance).filter((p) => {
    const groups = fs.readFileSync(`/proc/${p.pid}/cgroup`, 'utf8')
    return slots.some((slot) => groups.includes(`/${instance}/${slot}\n`))
  })
}

/** Holds the next job process at this point.  -> {held: resolves to its pid when it is there, release()}. */
export function stall(server, point) {
  const fifo = server.file(`stall/${point}`)
  fs.mkdirSync(path.dirname(fifo), { recursive: true })
  assert.equal(spawnSync('mkfifo', [fifo]).status, 0)
  const at = (pid) => {
    try {
      return fs.readdirSync(`/proc/${pid}/fd`).some((fd) => fs.readlinkSync(`/proc/${pid}/fd/${fd}`).startsWith(fifo))
    } catch {
      return false
    }
  }
  let file
  return {
    held: async () => {
      file = await openWhenRead(fifo)
      fs.rmSync(fifo)
      // Its open() returns after ours.
      const [found, ...others] = await until('a job process that waits', () => {
        const all = processes().filter((p) => p.pid !== process.pid && at(p.pid))
        return all.length > 0 && all
      })
      assert.deepEqual(others, [], 'one job process waits')
      return found.pid
    },
    release: () => file.close(),
    remove: () => fs.rmSync(fifo, { force: true }),
  }
}
