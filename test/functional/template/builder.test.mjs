// A builder of images as people write it on top of the client: a base by name, packages of apt and pip, a directory, sizes.
//
// The data directory stays in build/test-cache: what packages make is fetched once.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'

import { buildLog, deleteTemplates, inSandbox } from '../lib/build/builds.mjs'
import { keptServer } from '../lib/kept_server.mjs'
import { api } from '../lib/raw.mjs'
import { temporaryDir } from '../lib/server.mjs'
import { clientEnvironment } from '../lib/suite.mjs'

let server, client, wheels
before(async () => {
  wheels = makeWheels()
  server = await keptServer('builder')
  Object.assign(process.env, clientEnvironment(server, 'http'))
  client = await import('e2b')
})
after(async () => {
  fs.rmSync(wheels, { recursive: true, force: true })
  await server.cleanUp()
})

/** A directory with a wheel in it, so that pip needs no index. */
function makeWheels() {
  const dir = temporaryDir('wheels')
  const info = 'greeter-1.0.dist-info'
  const files = {
    'greeter.py': 'def greet():\n    return "hello from a wheel"\n',
    [`${info}/METADATA`]: 'Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n',
    [`${info}/WHEEL`]: 'Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    [`${info}/RECORD`]: '',
  }
  const script = 'import json, sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], "w")\nfor n, t in json.load(sys.stdin).items():\n  z.writestr(zipfile.ZipInfo(n, (2026, 1, 1, 0, 0, 0)), t)\nz.close()\n'
  fs.mkdirSync(path.join(dir, 'wheels'))
  const made = spawnSync('python3', ['-c', script, path.join(dir, 'wheels', 'greeter-1.0-py3-none-any.whl')], { input: JSON.stringify(files), encoding: 'utf8' })
  assert.equal(made.status, 0, made.stderr)
  fs.utimesSync(path.join(dir, 'wheels', 'greeter-1.0-py3-none-any.whl'), 0, 0)
  return dir
}

/** What such builders do: {base, aptPackages, pipPackages, env, dockerfile} to a template. */
async function buildImage(name, { base, dockerfile, apt = [], pip = [], env = {} }) {
  const start = client.Template({ fileContextPath: wheels })
  let t = dockerfile ? start.fromDockerfile(dockerfile) : { python: () => start.fromPythonImage('3.11'), node: () => start.fromNodeImage('24'), debian: () => start.fromDebianImage('stable-slim'), ubuntu: () => start.fromUbuntuImage('22.04') }[base]()
  if (apt.length) t = t.aptInstall(apt, { noInstallRecommends: true })
  t = t.runCmd('mkdir -p /workspace && chown user:user /workspace', { user: 'root' }).setWorkdir('/workspace').setUser('user')
  if (pip.length) t = t.copy('wheels', '/opt/wheels', { user: 'root' }).runCmd(`pip install --no-index --find-links /opt/wheels ${pip.join(' ')}`, { user: 'root' })
  const log = buildLog()
  await client.Template.build(t.setEnvs(env), name, { cpuCount: 4, memoryMB: 2048, ...log })
  return log.text()
}

const bases = {
  python: { apt: ['jq'], pip: ['greeter'], check: 'python --version; python -c "import greeter; print(greeter.greet())"; jq --version', want: /^Python 3\.11\.\d+\nhello from a wheel\njq-/, stands: /Python 3\.11 of Debian bookworm/ },
  node: { apt: ['jq'], check: 'node --version; jq --version', want: /^v24\.\d+\.\d+\njq-/, stands: /node 24 of npm's package/ },
  debian: { apt: ['bc'], pip: ['greeter'], check: 'echo 6*7 | bc; python3 -c "import greeter; print(greeter.greet())"', want: /^42\nhello from a wheel$/, stands: /Debian trixie/ },
  ubuntu: { apt: ['bc'], check: 'echo 6*7 | bc; . /etc/os-release; echo $VERSION_CODENAME', want: /^42\nbookworm$/, stands: /Debian bookworm, the closest to it, stands in for ubuntu:22\.04/ },
  custom: { dockerfile: 'FROM python:3.13-slim\nENV STAGE=test\nRUN echo made > /made\nUSER user\n', pip: ['greeter'], check: 'cat /made; echo $STAGE; python -c "import greeter; print(greeter.greet())"', want: /^made\ntest\nhello from a wheel$/, stands: /Python 3\.13 of Debian trixie/ },
}

for (const [base, what] of Object.entries(bases))
  test(`${base}: packages of apt and pip, /workspace, 4 CPUs, 2048 MB`, async () => {
    const name = `builder-${base}`
    const log = await buildImage(name, { base, env: { PROJECT: base }, ...what })
    assert.match(log, what.stands)
    await inSandbox(client, name, async (sandbox) => {
      const { stdout } = await sandbox.commands.run(what.check)
      assert.match(stdout.trim(), what.want)
      assert.equal((await sandbox.commands.run('pwd; whoami; echo $PROJECT; touch mine && rm mine')).stdout, `/workspace\nuser\n${base}\n`)
      const info = await sandbox.getInfo()
      assert.deepEqual([info.cpuCount, info.memoryMB], [4, 2048])
    })
    await deleteTemplates(api, server, name)
  })
