// The floor under pause and resume: plain CRIU on the same processes, and podman's checkpoints where they work.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { criuDir, temporaryDir } from '../../test/functional/lib/server.mjs'
import { hideUnified, ulimits } from './others.mjs'

export const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
export const since = (t) => (performance.now() - t) * 1000

/** A python server on port 8000 with so much memory that it has touched. */
export const pythonServer = (mbytes) => `
import http.server, os
keep = bytearray(${mbytes} << 20)
for at in range(0, len(keep), 1 << 20): keep[at:at + (1 << 20)] = os.urandom(1 << 20)
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"%d" % len(keep))
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", 8000), Answer).serve_forever()
`

/** As the engine finds it: the private one, then the host's. */
function criuCommand() {
  const tool = path.join(criuDir(), 'tool')
  if (fs.existsSync(path.join(tool, 'criu'))) return `CRIU_LIBS_DIR=${tool} ${tool}/ld.so --library-path ${tool}/lib ${tool}/criu`
  const found = spawnSync('sh', ['-c', 'command -v criu'], { encoding: 'utf8' }).stdout.trim()
  if (!found) throw new Error('there is no CRIU')
  return found
}

function shell(script) {
  const r = spawnSync('sh', ['-euc', script], { encoding: 'utf8' })
  if (r.status !== 0) throw new Error(r.stderr.trim().split('\n').at(-1) || `exit ${r.status}`)
  return r.stdout.trim()
}

const isListening = (pid, port) => fs.readFileSync(`/proc/${pid}/net/tcp`, 'utf8').includes(`:${port.toString(16).toUpperCase().padStart(4, '0')} 00000000:0000 0A`)

/** Its own mount namespace per call; /run a tmpfs kept between calls, where CRIU notes what it found out about the kernel. */
function timed(dir, before, command) {
  const t = performance.now()
  shell(`exec unshare -m sh -euc 'mount --bind ${dir}/run /run; ${before} exec env ${command}'`)
  return since(t)
}

/** Dump and restore n times over, each of the tree the one before restored: {dump, synced, restore} in us. */
export function measureCriu({ programs, layer, mbytes, n }) {
  const dir = temporaryDir('criu')
  const criu = criuCommand()
  const options = '--manage-cgroups=ignore --empty-ns net --tcp-established'
  const times = { dump: [], synced: [], restore: [] }
  let pid
  for (const name of ['run', 'tree', 'work']) fs.mkdirSync(path.join(dir, name))
  fs.chmodSync(dir, 0o711)
  shell(`mount -t tmpfs criu-bench ${dir}/run`)
  try {
    const daemon = path.join(programs, '..', 'sandglass-envd')
    pid = Number(spawnSync(path.join(programs, 'tree'), [layer, `${dir}/tree`, daemon, pythonServer(mbytes)], { encoding: 'utf8' }).stdout)
    if (!pid) throw new Error('the tree does not start')
    const deadline = Date.now() + 30_000
    while (!isListening(pid, 8000)) if (Date.now() > deadline) throw new Error('the tree does not listen'); else shell('sleep 0.05')
    for (let i = -1; i < n; i++) {
      const images = `${dir}/images-${i}`
      fs.mkdirSync(images)
      const dump = timed(dir, '', `${criu} dump -t ${pid} -D ${images} -W ${dir}/work -o dump.log ${options} --network-lock skip`)
      pid = undefined
      const t = performance.now()
      shell(`sync ${images}/*`)
      const sync = since(t)
      const overlay = `mount -t overlay overlay -o lowerdir=${layer},upperdir=${dir}/tree/u,workdir=${dir}/tree/w ${dir}/tree/root;`
      fs.rmSync(`${dir}/work/pid`, { force: true })
      const restore = timed(dir, overlay, `${criu} restore -D ${images} -W ${dir}/work -o restore.log -d --pidfile ${dir}/work/pid --root ${dir}/tree/root ${options}`)
      pid = Number(fs.readFileSync(`${dir}/work/pid`, 'utf8'))
      if (!isListening(pid, 8000)) throw new Error('the restored tree does not listen')
      fs.rmSync(images, { recursive: true })
      if (i < 0) continue
      times.dump.push(dump)
      times.synced.push(dump + sync)
      times.restore.push(restore)
    }
  } finally {
    if (pid) process.kill(pid, 'SIGKILL')
    shell(`umount ${dir}/run`)
    fs.rmSync(dir, { recursive: true, force: true })
  }
  return Object.fromEntries(Object.entries(times).map(([k, list]) => [k, median(list)]))
}

/** podman container checkpoint and restore of the python server: {dump, restore} or {error}.  It gets our CRIU by its PATH. */
export function measurePodman({ layer, mbytes, n }) {
  const name = `sandglass-bench-${process.pid}`
  const dir = temporaryDir('podman')
  const runtime = spawnSync('sh', ['-c', 'command -v runc']).status === 0 ? '--runtime runc' : ''
  const podman = (args) => shell(`exec unshare -m sh -euc '${hideUnified} PATH=${dir}:$PATH exec podman ${runtime} ${args}'`)
  const times = { dump: [], restore: [] }
  fs.chmodSync(dir, 0o755)
  fs.writeFileSync(path.join(dir, 'server.py'), pythonServer(mbytes))
  try {
    fs.writeFileSync(path.join(dir, 'criu'), `#!/bin/sh\nexec env ${criuCommand()} "$@"\n`, { mode: 0o755 })
    podman(`run -d --name ${name} --network=none ${ulimits} -v ${dir}/server.py:/server.py:ro --rootfs ${layer}:O python3 /server.py`)
    for (let i = 0; i < n; i++) {
      let t = performance.now()
      podman(`container checkpoint ${name}`)
      times.dump.push(since(t))
      t = performance.now()
      podman(`container restore ${name}`)
      times.restore.push(since(t))
    }
    return { dump: median(times.dump), restore: median(times.restore) }
  } catch (e) {
    return { error: e.message }
  } finally {
    spawnSync('sh', ['-c', `unshare -m sh -c '${hideUnified} podman rm -f ${name}' >/dev/null 2>&1`])
    fs.rmSync(dir, { recursive: true, force: true })
  }
}
