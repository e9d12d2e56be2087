// Templates that come with the program, built when their name is used for the first time.
import assert from 'node:assert/strict'

import { api } from '../raw.mjs'
import { until } from '../wait.mjs'

/** The first use begins the build and waits for it, or says that it goes on. */
export async function firstUse(server, name, deadlineMs = 500_000) {
  await until(`template ${name}`, async () => {
    const { status, json, headers } = await api(server, 'POST', '/v2/sandboxes', { body: { templateID: name } })
    if (status === 201) await api(server, 'DELETE', `/sandboxes/${json.sandboxID}`)
    else {
      assert.equal(status, 503, JSON.stringify(json))
      assert.match(json.message, new RegExp(`template '${name}' is being built for its first use`))
      assert.equal(headers['retry-after'], '1')
    }
    return status === 201
  }, deadlineMs, 500)
}
