// Building templates with one version of the npm client: `node anybuilder.mjs PACKAGE CONTEXT`, with the exports of a server.
// In a process of its own, since clients read their variables when they are loaded.  Says what it did, and throws.
import assert from 'node:assert/strict'

const [, , name, fileContextPath] = process.argv
const { Sandbox, Template, BuildError } = await import(name)
const alias = `any-${name.replaceAll('.', '-')}-${process.pid}`
const isOld = name === 'e2b-2.2' // before 2.3 steps run as root
const done = []

const template = (last = 'true') => Template({ fileContextPath }).fromBaseImage().copy('folder/test.txt', 'folder/').runCmd('whoami > /tmp/who').runCmd(last)
const logs = []
await Template.build(template(), { alias, cpuCount: 1, memoryMB: 512 })
done.push('built')
const sandbox = await Sandbox.create(alias)
try {
  const { stdout } = await sandbox.commands.run(`cat /tmp/who; whoami; pwd; cat ${isOld ? '/root' : '/home/user'}/folder/test.txt`, { user: undefined }).catch((e) => e)
  assert.equal(stdout.split('\n').slice(0, 3).join(' '), isOld ? 'root user /home/user' : 'user user /home/user')
  done.push('user')
} finally {
  await sandbox.kill()
}
await Template.build(template(), { alias, cpuCount: 1, memoryMB: 512, onBuildLogs: (entry) => logs.push(entry.message) })
assert.match(logs.join('\n'), /CACHED/)
done.push('cached')
await assert.rejects(Template.build(template('exit 9'), { alias }), (e) => e instanceof BuildError && /exit status 9/.test(e.message))
done.push('failed at its step')
console.log(done.join('; '))
process.exit(0) // some versions keep connections open
