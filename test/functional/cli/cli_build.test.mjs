// `sandglass template build` against a real server: a Dockerfile with stages, files and a server that is up when create returns.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import path from 'node:path'
import { after, before, test } from 'node:test'

import { sandglass, binary, Server, temporaryDir } from '../lib/server.mjs'

let server, dir
before(async () => {
  server = await Server.start()
  dir = temporaryDir('build')
})
after(() => {
  fs.rmSync(dir, { recursive: true, force: true })
  return server.cleanUp()
})

const write = (files) => {
  for (const [name, content] of Object.entries(files)) {
    fs.mkdirSync(path.dirname(path.join(dir, name)), { recursive: true })
    fs.writeFileSync(path.join(dir, name), content)
  }
}
const cli = (words, args = []) => sandglass([...words, '--data', server.data, ...args], { input: '', cwd: dir })
function good(words, args) {
  const r = cli(words, args)
  assert.equal(r.status, 0, `${words} ${args}: ${r.stderr}`)
  return r
}
const build = (args) => good(['template', 'build'], args)

/** What commands say in a new sandbox of a template. */
function inside(template, script) {
  const id = good(['create'], [template]).stdout.trim()
  try {
    return good(['exec'], [id, '--', 'bash', '-c', script]).stdout
  } finally {
    good(['kill'], [id])
  }
}

const dockerfile = `ARG BASE=e2bdev/base
FROM \${BASE} AS build
ARG GREETING=hello
WORKDIR /work
COPY src/ .
RUN echo "$GREETING from $(whoami) in $PWD" >out.txt && cat *.txt
FROM $BASE
ENV APP=/srv/app PRICE='$5'
WORKDIR $APP
COPY --from=build /work/out.txt ./
COPY --chown=user:user --chmod=0755 <<EOF /usr/local/bin/hi
#!/bin/sh
echo hi \\$APP
EOF
ADD files.tgz /opt/
COPY *.md docs/* /srv/text/
RUN <<EOF
set -e
echo "$PRICE" >price
EOF
EXPOSE 8000
CMD ["python3", "-m", "http.server", "8000"]
HEALTHCHECK CMD curl -sf http://localhost:8000/
`

test('a Dockerfile with stages, files, here-documents, an archive and a server', () => {
  write({ 'app/Dockerfile': dockerfile, 'app/src/a.txt': 'one\n', 'app/one.md': '1', 'app/two.md': '2', 'app/docs/deep/x.md': 'x', 'packed/d/z': 'z' })
  assert.equal(spawnSync('tar', ['-C', path.join(dir, 'packed'), '-czf', path.join(dir, 'app/files.tgz'), 'd']).status, 0)
  const r = build(['app', '--name', 'demo', '--build-arg', 'GREETING=welcome'])
  assert.match(r.stderr, /\[build 5\/5\] \[stdout\]: welcome from root in \/work\n/)
  const text = inside('demo', 'curl -s localhost:8000/price; cat out.txt; hi; pwd; whoami; cat /opt/d/z; ls /srv/text | tr "\\n" " "; stat -c " %U %a" /usr/local/bin/hi; echo "$GREETING"')
  assert.equal(text, '$5\nwelcome from root in /work\nhi /srv/app\n/srv/app\nuser\nzone.md two.md x.md  user 755\n\n')
})

test('a second build takes all steps from the cache; one changed file only what follows', () => {
  const again = build(['app', '--name', 'demo', '--build-arg', 'GREETING=welcome'])
  const steps = again.stderr.split('\n').filter((line) => /\[build(er)? \d+\/\d+\] [A-Z]/.test(line))
  assert.ok(steps.length >= 10 && steps.every((line) => line.startsWith('CACHED ')), steps.join('\n'))
  assert.doesNotMatch(again.stderr, /uploading/)
  write({ 'app/one.md': 'changed' })
  const changed = build(['app', '--name', 'demo', '--build-arg', 'GREETING=welcome'])
  assert.match(changed.stderr, /\nCACHED \[builder \d+\/\d+\] COPY \. \/opt\//)
  assert.match(changed.stderr, /\n\[builder \d+\/\d+\] COPY \*\.md \/srv\/text\//)
})

test('tags, rollback and the list', () => {
  const builds = () => JSON.parse(good(['template', 'show'], ['demo', '--json']).stdout)
  const before = builds()
  good(['template', 'tag'], ['demo', 'v1'])
  assert.equal(inside('demo:v1', 'cat /srv/text/one.md'), 'changed')
  const back = good(['template', 'rollback'], ['demo']).stdout.trim()
  assert.equal(back, before.builds[1].buildID)
  assert.equal(inside('demo', 'cat /srv/text/one.md'), '1')
  assert.match(good(['template', 'list'], []).stdout, /\n\S*demo .* ready /)
  assert.match(good(['template', 'logs'], ['demo']).stdout, / info +Build finished/)
})

test('another template as base goes on as that one is', () => {
  write({ 'more/Dockerfile': 'FROM template:demo:v1\nRUN whoami >/home/user/who; pwd >>/home/user/who\n' })
  build(['more'])
  assert.equal(inside('more', 'cat /home/user/who; curl -s localhost:8000/price'), 'user\n/srv/app\n$5\n')
})

test('a step that fails is told with the line of the Dockerfile, and the template stays', () => {
  write({ 'more/Dockerfile': 'FROM template:demo:v1\n\nRUN true\nRUN echo before; ls /nope\n' })
  const r = cli(['template', 'build'], ['more'])
  assert.equal(r.status, 1)
  assert.match(r.stderr, /\nsandglass template: more\/Dockerfile:4: failed to run command 'echo before; ls \/nope': exit status 2\n$/)
  assert.equal(inside('more', 'head -n 1 /home/user/who'), 'user\n')
})

test('an interrupt cancels the build, and nothing runs on', async () => {
  write({ 'slow/Dockerfile': 'FROM template:demo:v1\nRUN echo up; sleep 1000\n' })
  const child = spawn(binary, ['template', 'build', 'slow', '--data', server.data], { cwd: dir, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (data) => {
    if (!said.includes('[stdout]: up') && (said + data).includes('[stdout]: up')) child.kill('SIGINT')
    said += data
  })
  assert.equal((await once(child, 'close'))[0], 130, said)
  assert.match(said, /\nsandglass template: the build was cancelled\n$/)
  assert.equal(JSON.parse(good(['template', 'show'], ['slow', '--json']).stdout).builds[0].status, 'error')
  assert.deepEqual(JSON.parse(good(['ps'], ['--json']).stdout), [])
})

test('a template is deleted', () => {
  good(['template', 'delete'], ['more'])
  assert.equal(cli(['create'], ['more']).status, 1)
})
