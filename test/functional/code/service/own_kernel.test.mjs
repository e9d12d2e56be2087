// A template of one's own on top of code-interpreter-v1: a kernel that was copied into it, and its variables.
import assert from 'node:assert/strict'
import { test } from 'node:test'

import { codeSuite, stdoutOf, templateOfCode } from '../../lib/code/suite.mjs'
import { contextDir, deleteTemplates, templateName } from '../../lib/build/builds.mjs'
import { api } from '../../lib/raw.mjs'

const suite = await codeSuite()
const { Sandbox, Template, server } = suite

const kernel = {
  argv: ['kernel-of-template', '-f', '{connection_file}'],
  display_name: 'of template',
  language: 'python',
  env: { PATH: '/opt/jupyter/bin:${PATH}', FILLED_IN: '<${OF_TEMPLATE}>', PREFIX: '$NOBODY' },
}
const envs = { JUPYTER_PATH: '/opt/jupyter', OF_TEMPLATE: 'a=b c', PIP_OF_TEMPLATE: '1', CLASSPATH: '/opt/classes', LD_LIBRARY_PATH: '/opt/lib' }

test('a kernel that is copied into a template, with the variables of the template, in its first process', { timeout: 600_000 }, async () => {
  const name = templateName('kernel')
  const fileContextPath = contextDir({
    'kernel.json': JSON.stringify(kernel),
    'kernel-of-template': { mode: 0o755, text: '#!/bin/sh\nexec python3 -m ipykernel_launcher "$@"\n' },
  })
  const template = Template({ fileContextPath })
    .fromTemplate(templateOfCode)
    .copy('kernel.json', '/opt/jupyter/kernels/of_template/kernel.json', { user: 'root' })
    .copy('kernel-of-template', '/opt/jupyter/bin/kernel-of-template', { user: 'root', mode: 0o755 })
    .setEnvs(envs)
  await Template.build(template, name)
  try {
    const sandbox = await Sandbox.create(name, { timeoutMs: 300_000 })
    try {
      const began = 'began = dict(line.split("=", 1) for line in open("/proc/self/environ").read().split("\\0") if line)\n'
      const names = [...Object.keys(envs), 'HOME']
      for (const language of ['python', 'of_template']) {
        const run = await sandbox.runCode(`${began}for name in ${JSON.stringify(names)}: print(began.get(name))`, { language, timeoutMs: 120_000 })
        assert.equal(run.error, undefined, run.error?.value)
        assert.deepEqual(stdoutOf(run).trim().split('\n'), [...Object.values(envs), '/root'], language)
      }
      const filled = await sandbox.runCode(`${began}print(began["FILLED_IN"], began["PREFIX"], began["PATH"].split(":")[0], "E2B_SANDBOX_ID" in began)`, { language: 'of_template' })
      assert.equal(stdoutOf(filled).trim(), '<a=b c> $NOBODY /opt/jupyter/bin False')
      const java = await sandbox.runCode('System.out.println(System.getenv("CLASSPATH"));', { language: 'java', timeoutMs: 120_000 })
      assert.equal(stdoutOf(java).trim(), '/opt/classes')
    } finally {
      await sandbox.kill()
    }
  } finally {
    await deleteTemplates(api, server, name)
  }
})
