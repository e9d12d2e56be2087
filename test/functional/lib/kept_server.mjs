// A server whose data directory outlives the run, in build/test-cache: layers that took long to make are found again.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { Server } from './server.mjs'

const cache = process.env.SANDGLASS_TEST_CACHE ?? fileURLToPath(new URL('../../../build/test-cache', import.meta.url))

/** Two of the server's roles are unprivileged and must reach the directory. */
const isReachable = (dir) => spawnSync('test', ['-x', dir], { uid: 65534, gid: 65534 }).status === 0

/** Start it.  A directory that this program cannot use, for example of an older version, is made anew. */
export async function keptServer(name, options = {}) {
  const data = path.join(cache, `${name}-data`)
  fs.mkdirSync(data, { recursive: true })
  if (!isReachable(cache)) return Server.start(options)
  try {
    return await Server.start({ data, ...options })
  } catch (e) {
    if (!/layout|store|schema/.test(e.log ?? '')) throw e
    fs.rmSync(data, { recursive: true, force: true })
    fs.mkdirSync(data)
    return Server.start({ data, ...options })
  }
}
