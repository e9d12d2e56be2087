// git.*: the client's helpers, against a `git daemon` inside the sandbox.
import assert from 'node:assert/strict'
import test from 'node:test'

import { suite } from '../lib/suite.mjs'

const { withSandbox } = await suite()

test('init, commit, branches, status, configuration', withSandbox(async ({ git, files, commands }) => {
  await git.init('/tmp/repo', { initialBranch: 'main' })
  await git.configureUser('A Name', 'name@example.com')
  await git.setConfig('pull.rebase', 'false', { scope: 'local', path: '/tmp/repo' })
  assert.equal(await git.getConfig('pull.rebase', { scope: 'local', path: '/tmp/repo' }), 'false')
  await files.write('/tmp/repo/a.txt', 'one\n')
  assert.equal((await git.status('/tmp/repo')).hasChanges, true)
  await git.add('/tmp/repo')
  await git.commit('/tmp/repo', 'first: "quoted" & more')
  assert.equal((await git.status('/tmp/repo')).isClean, true)
  assert.equal((await commands.run('git -C /tmp/repo log -1 --format="%an <%ae> %s"')).stdout, 'A Name <name@example.com> first: "quoted" & more\n')
  await git.createBranch('/tmp/repo', 'topic')
  const { branches, currentBranch } = await git.branches('/tmp/repo')
  assert.deepEqual([[...branches].sort(), currentBranch], [['main', 'topic'], 'topic'])
  await git.checkoutBranch('/tmp/repo', 'main')
  await git.deleteBranch('/tmp/repo', 'topic')
  await files.write('/tmp/repo/a.txt', 'two\n')
  await git.restore('/tmp/repo', { paths: ['a.txt'] })
  assert.equal(await files.read('/tmp/repo/a.txt'), 'one\n')
}))

test('clone, push and pull over the network of the sandbox', withSandbox(async ({ git, files, commands }) => {
  await commands.run('git init -q --bare -b main /tmp/served/origin.git; touch /tmp/served/origin.git/git-daemon-export-ok')
  await commands.run('git daemon --reuseaddr --listen=127.0.0.1 --port=9418 --base-path=/tmp/served --enable=receive-pack /tmp/served', { background: true, timeoutMs: 0 })
  await commands.run('until (exec 3<>/dev/tcp/127.0.0.1/9418); do sleep 0.02; done')
  await git.configureUser('A', 'a@example.com')
  const url = 'git://127.0.0.1/origin.git'
  await git.clone(url, { path: '/tmp/one' })
  await files.write('/tmp/one/data.txt', 'shared')
  await git.add('/tmp/one')
  await git.commit('/tmp/one', 'data')
  await git.push('/tmp/one', { remote: 'origin', branch: 'main', setUpstream: true })
  await git.clone(url, { path: '/tmp/two', branch: 'main', depth: 1 })
  assert.equal(await files.read('/tmp/two/data.txt'), 'shared')
  await files.write('/tmp/one/data.txt', 'changed')
  await git.add('/tmp/one')
  await git.commit('/tmp/one', 'change')
  await git.push('/tmp/one')
  await git.pull('/tmp/two')
  assert.equal(await files.read('/tmp/two/data.txt'), 'changed')
  await git.remoteAdd('/tmp/two', 'second', url)
  assert.equal(await git.remoteGet('/tmp/two', 'second'), url)
  await assert.rejects(git.clone('git://127.0.0.1/none.git', { path: '/tmp/none' }), { name: /^(GitAuthError|CommandExitError)$/ })
}))
