// Who a sandbox thinks it is: machine-id, markers, hosts; at its start, and when it is told that it is another.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { Sandbox, leakless, withSandbox } = await suite()
/** What the engine does after a restore.  The stream of this very command is one of those that are cut. */
async function comeBack(sandbox, more) {
  const accessToken = sandbox.envdAccessToken
  const init = JSON.stringify({ resumed: true, defaultUser: 'user', ...(accessToken && { accessToken }), ...more })
  await assert.rejects(sandbox.commands.run(`curl -sf -X POST --data '${init}' http://127.0.0.1:49983/init; sleep 10`))
}
const out = async (sandbox, command, options) => (await sandbox.commands.run(command, options)).stdout

test('each sandbox is a machine of its own', leakless(async () => {
  const boxes = await Promise.all([Sandbox.create(), Sandbox.create()])
  const ids = await Promise.all(boxes.map((box) => out(box, 'cat /etc/machine-id')))
  for (const id of ids) assert.match(id, /^[0-9a-f]{32}\n$/)
  assert.notEqual(ids[0], ids[1])
  assert.equal(await out(boxes[0], 'stat -c %a /etc/machine-id; cat /etc/machine-id'), `444\n${ids[0]}`)
  await Promise.all(boxes.map((box) => box.kill()))
}))

test('a sandbox that is told another id has its marker; what runs in it goes on', withSandbox(async (sandbox) => {
  const before = await out(sandbox, 'cat /etc/machine-id')
  const hosts = await out(sandbox, 'cat /etc/hosts')
  const counter = await sandbox.commands.run('i=0; while sleep 0.1; do i=$((i + 1)); echo $i >/tmp/count; done', { background: true, timeoutMs: 0 })
  await comeBack(sandbox, { sandboxID: 'iothersandbox', templateID: 'othertemplate' })
  assert.equal(await out(sandbox, 'cat /run/e2b/.E2B_SANDBOX_ID; echo " $E2B_SANDBOX_ID $(cat /run/e2b/.E2B_TEMPLATE_ID)"'), 'iothersandbox iothersandbox othertemplate\n')
  assert.equal(await out(sandbox, 'cat /etc/machine-id'), before, 'that of a copy is there before anything runs')
  assert.equal(await out(sandbox, 'cat /etc/hosts'), hosts, 'the host has kept its name')
  const again = await sandbox.commands.connect(counter.pid)
  await out(sandbox, 'a=$(cat /tmp/count); while [ "$(cat /tmp/count)" = "$a" ]; do sleep 0.05; done')
  await again.kill()
}))
