// The same file system under other tools: a container that says hello, by podman, crun and buildah.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { temporaryDir } from '../../test/functional/lib/server.mjs'
import { row } from '../table.mjs'

const median = (list) => [...list].sort((a, b) => a - b)[Math.floor(list.length / 2)]
const lastLine = (text) => text.trim().split('\n').at(-1)
const has = (program) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0

// crun refuses a machine with cgroup v1 and v2 side by side: it is shown v1 only, in a mount namespace of its own
export const hideUnified = 'if [ -d /sys/fs/cgroup/unified ]; then umount /sys/fs/cgroup/unified; fi; '
// podman would raise them, which not every root may
export const ulimits = '--ulimit nofile=4096:4096 --ulimit nproc=4096:4096'
const inMountNamespace = (command) => ['unshare', '-m', 'sh', '-c', `${hideUnified}exec ${command}`]

/** Run it n times over: {p50} or {error}, the last line of what the tool says. */
async function time(execute, argv, n) {
  const list = []
  for (let i = -1; i < n; i++) { // the first one does not count
    const t = performance.now()
    const r = await execute(argv)
    if (r.status !== 0) return { error: lastLine(r.stderr || `exit ${r.status}`) }
    if (r.stdout !== 'hello\n') return { error: `says ${JSON.stringify(r.stdout)}` }
    if (i >= 0) list.push((performance.now() - t) * 1000)
  }
  return { p50: median(list) }
}

const podman = ({ execute, layer, n }) => time(execute, inMountNamespace(`podman run --rm --network=none ${ulimits} --rootfs ${layer}:O /bin/echo hello`), n)

async function crun({ execute, layer, n }) {
  const dir = temporaryDir('bundle')
  const spec = spawnSync('crun', ['spec', '--bundle', dir], { cwd: dir, encoding: 'utf8' })
  try {
    if (spec.status !== 0) return { error: lastLine(spec.stderr) }
    const config = JSON.parse(fs.readFileSync(path.join(dir, 'config.json'), 'utf8'))
    config.root = { path: layer, readonly: true }
    Object.assign(config.process, { terminal: false, args: ['/bin/echo', 'hello'] })
    fs.writeFileSync(path.join(dir, 'config.json'), JSON.stringify(config))
    return await time(execute, inMountNamespace(`crun run --bundle ${dir} sandglass-bench-$$`), n)
  } finally {
    fs.rmSync(dir, { recursive: true, force: true })
  }
}

/** buildah takes images only: an empty one, with the /usr of the layer mounted. */
async function buildah({ execute, layer, n }) {
  const dir = temporaryDir('buildah')
  const tool = `buildah --root ${dir}/root --runroot ${dir}/run`
  const runtime = has('runc') ? '--runtime runc' : ''
  const volumes = ['/usr:/usr', '/usr/lib:/lib', '/usr/lib64:/lib64'].map((v) => `-v ${layer}${v}:ro`).join(' ')
  try {
    const made = await execute(['sh', '-c', `${tool} from scratch`])
    if (made.status !== 0) return { error: lastLine(made.stderr) }
    return await time(execute, inMountNamespace(`${tool} run ${runtime} --isolation oci --network none ${volumes} ${lastLine(made.stdout)} /usr/bin/echo hello`), n)
  } finally {
    await execute(['sh', '-c', `${tool} rm --all; ${tool} rmi --all`])
    fs.rmSync(dir, { recursive: true, force: true })
  }
}

/** `own`: what a sandbox takes for the same, from create to its output; undefined where that was not measured. */
export async function measureOthers({ execute, layer, own, quick, result, rows }) {
  const peers = [
    { tool: 'podman', name: 'podman run, same file system', measure: podman, n: quick ? 3 : 10, ratioAtLeast: 30 },
    { tool: 'crun', name: 'crun run, same file system', measure: crun, n: quick ? 5 : 20, ratioAtLeast: 1 },
    { tool: 'buildah', name: 'buildah run, same /usr', measure: buildah, n: quick ? 3 : 10, ratioAtLeast: 1 },
  ]
  for (const { tool, name, measure, n, ratioAtLeast } of peers) {
    const took = has(tool) ? await measure({ execute, layer, n }) : { error: `${tool} is not installed` }
    result.figures[tool] = took
    rows.push(row(name, took.p50, 'us', { floor: own, floorName: 'ours, create → output', ratioAtLeast, note: took.error }))
  }
}
