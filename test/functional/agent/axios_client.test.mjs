// The client of four methods, as people write it with axios, and what it gets.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import axios from 'axios'

import { returned, settled } from '../lib/census.mjs'
import { Server } from '../lib/server.mjs'

class SandboxClient {
  constructor(baseURL, token) {
    this.http = axios.create({ baseURL, headers: { Authorization: `Bearer ${token}` } })
  }

  async createSandbox(templateId) {
    const { data } = await this.http.post('/api/v1/agent/sandboxes', { template_id: templateId })
    return data
  }

  async runCommand(sandboxId, command, background = false) {
    const { data } = await this.http.post(`/api/v1/agent/sandboxes/${sandboxId}/commands`, { command, background })
    return data
  }

  async writeFile(sandboxId, path, content) {
    await this.http.post(`/api/v1/agent/sandboxes/${sandboxId}/files`, { path, content })
  }

  async deleteSandbox(sandboxId) {
    await this.http.delete(`/api/v1/agent/sandboxes/${sandboxId}`)
  }
}

let server, client
before(async () => {
  server = await Server.start()
  client = new SandboxClient(server.apiUrl, server.key)
})
after(() => server.cleanUp())

test('create, write, run, delete; afterwards 404, and nothing is left', async () => {
  await client.http.get('/api/v1/agent/sandboxes') // the role runs before things are counted
  const counted = await settled(server)
  const box = await client.createSandbox('base')
  assert.equal(box.status, 'running')
  assert.equal(box.url, `https://${box.sandbox_id}.${server.domain}`)
  assert.deepEqual(box.ports, {})
  await client.writeFile(box.sandbox_id, '/workspace/deep/index.js', 'console.log("héllo")\n')
  const ran = await client.runCommand(box.sandbox_id, 'node /workspace/deep/index.js; cat /nope')
  assert.deepEqual([ran.stdout, ran.exit_code], ['héllo\n', 1])
  assert.match(ran.stderr, /\/nope/)
  const started = await client.runCommand(box.sandbox_id, 'sleep 100', true)
  assert.ok(started.command_id && started.pid > 0)
  const { data } = await client.http.get(`/api/v1/agent/sandboxes/${box.sandbox_id}/files?path=/workspace/deep/index.js`)
  assert.deepEqual(data, { path: '/workspace/deep/index.js', content: 'console.log("héllo")\n' })
  await client.deleteSandbox(box.sandbox_id)
  await assert.rejects(client.deleteSandbox(box.sandbox_id), (e) => e.response.status === 404 && e.response.data.error.code === 'not_found')
  await returned(server, counted)
})

test('without a template, and with the prefix sbx_', async () => {
  const box = await client.createSandbox()
  const id = `sbx_${box.sandbox_id}`
  assert.equal((await client.runCommand(id, 'echo $((6 * 7))')).stdout, '42\n')
  const { data } = await client.http.get(`/api/v1/agent/sandboxes/${id}`)
  assert.equal(data.sandbox_id, box.sandbox_id)
  assert.match(data.created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/)
  assert.match(data.user_id, /^[0-9a-f-]{36}$/)
  await client.deleteSandbox(id)
})

test('a wrong token is refused: 401', async () => {
  const other = new SandboxClient(server.apiUrl, 'e2b_' + '0'.repeat(40))
  await assert.rejects(other.createSandbox('base'), (e) => e.response.status === 401 && e.response.data.error.code === 'unauthorized')
})
