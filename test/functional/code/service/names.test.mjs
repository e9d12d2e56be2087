// Other names of the template: one build, one image, one row.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, templateOfCode } from '../../lib/code/suite.mjs'
import { api } from '../../lib/raw.mjs'
import { sandglass } from '../../lib/server.mjs'

const { server, Sandbox } = await codeSuite()
const others = ['code-interpreter', 'code-interpreter-beta', 'python3']
const alias = async (name) => (await api(server, 'GET', `/templates/aliases/${name}`)).json

test('every name is the same template', async () => {
  const { templateID } = await alias(templateOfCode)
  assert.ok(templateID)
  for (const name of others) assert.equal((await alias(name)).templateID, templateID, name)
  const { json } = await api(server, 'GET', '/templates')
  const rows = json.filter((t) => t.templateID === templateID)
  assert.equal(rows.length, 1)
  assert.deepEqual(rows[0].aliases.toSorted(), [...others, templateOfCode].toSorted())
  assert.equal(json.filter((t) => t.aliases.some((a) => others.includes(a))).length, 1, 'no rows of their own')
  assert.deepEqual([rows[0].cpuCount, rows[0].memoryMB], [2, 2048])
})

for (const name of others)
  test(`${name}: a sandbox runs code`, async () => {
    const sandbox = await Sandbox.create(name)
    try {
      assert.equal((await sandbox.runCode('1 + 1')).text, '2')
      const info = await sandbox.getInfo()
      assert.equal(info.templateId, (await alias(templateOfCode)).templateID)
    } finally {
      await sandbox.kill()
    }
  })

test('a template of a team comes before another name', async () => {
  const { status, json } = await api(server, 'POST', '/v3/templates', { body: { name: 'python3', cpuCount: 1, memoryMB: 512 } })
  assert.ok(status < 300, JSON.stringify(json))
  try {
    assert.equal((await alias('python3')).templateID, json.templateID)
  } finally {
    await api(server, 'DELETE', `/templates/${json.templateID}`)
  }
  assert.equal((await alias('python3')).templateID, (await alias(templateOfCode)).templateID)
})

test('the command line knows the names, too', () => {
  const checked = sandglass(['template', 'show', '--data', server.data, 'python3'])
  assert.equal(checked.status, 0, checked.stderr)
  assert.match(checked.stdout, /code-interpreter-v1/)
})
