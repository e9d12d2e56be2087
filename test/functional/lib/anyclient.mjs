// What an application does, with one version of the npm client: `node anyclient.mjs PACKAGE`, with the exports of a server.
// In a process of its own, since clients read their variables when they are loaded.  Says what it did, and throws.
import assert from 'node:assert/strict'

const { Sandbox, ...client } = await import(process.argv[2])
const done = []
const step = async (name, body) => {
  try {
    await body()
  } catch (e) {
    throw Object.assign(new Error(`${name}: ${e.name}: ${e.message}`), { cause: e })
  }
  done.push(name)
}
const fetchText = async (...args) => {
  const answer = await fetch(...args)
  return [answer.status, await answer.text()]
}

const sandbox = await Sandbox.create('base')
const other = await Sandbox.create('base') // so that there is somebody to be taken for
try {
  await step('commands', async () => {
    assert.equal((await sandbox.commands.run('echo out; echo err >&2')).stdout, 'out\n')
    const cat = await sandbox.commands.run('cat', { background: true, stdin: true })
    assert.ok((await sandbox.commands.list()).some(({ pid }) => pid === cat.pid))
    assert.equal(await cat.kill(), true)
  })
  await step('files: write, read, list', async () => {
    assert.equal((await sandbox.files.write('a.txt', 'content')).path, '/home/user/a.txt')
    await other.files.write('a.txt', 'of the other')
    await sandbox.files.write([{ path: 'b.txt', data: 'b' }, { path: 'c.txt', data: 'c' }])
    assert.equal(await sandbox.files.read('a.txt'), 'content')
    assert.equal(await other.files.read('a.txt'), 'of the other')
    assert.equal(Buffer.from(await sandbox.files.read('a.txt', { format: 'bytes' })).toString(), 'content')
    assert.deepEqual((await sandbox.files.list('/home/user')).map(({ name }) => name).filter((name) => name.endsWith('.txt')), ['a.txt', 'b.txt', 'c.txt'])
    await assert.rejects(sandbox.files.read('nothing'), client.NotFoundError)
  })
  await step('signed URLs', async () => {
    assert.deepEqual(await fetchText(await sandbox.downloadUrl('a.txt')), [200, 'content'])
    const form = new FormData()
    form.append('file', new Blob(['uploaded']), 'up.txt')
    assert.equal((await fetchText(await sandbox.uploadUrl('up.txt'), { method: 'POST', body: form }))[0], 200)
    assert.equal(await sandbox.files.read('up.txt'), 'uploaded')
  })
  await step('connect', async () => {
    const again = await Sandbox.connect(sandbox.sandboxId)
    assert.equal(await again.files.read('a.txt'), 'content')
    assert.equal((await again.commands.run('cat a.txt')).stdout, 'content')
    await again.setTimeout(120_000)
    assert.equal((await again.getInfo()).sandboxId, sandbox.sandboxId)
  })
  const pause = sandbox.pause ?? sandbox.betaPause
  if (pause)
    await step('pause and resume', async () => {
      await pause.call(sandbox)
      assert.equal(await sandbox.isRunning(), false)
      await assert.rejects(sandbox.files.read('a.txt'), client.TimeoutError)
      const again = await Sandbox.connect(sandbox.sandboxId)
      assert.equal(await again.files.read('a.txt'), 'content')
      assert.equal(await sandbox.isRunning(), true)
    })
  await step('kill', async () => {
    await sandbox.kill()
    assert.equal(await sandbox.isRunning(), false)
    await assert.rejects(sandbox.files.read('a.txt'), client.TimeoutError)
    assert.equal(await Sandbox.kill(sandbox.sandboxId), false)
    assert.equal(await other.isRunning(), true)
  })
} finally {
  await Sandbox.kill(sandbox.sandboxId)
  await Sandbox.kill(other.sandboxId)
}
console.log(done.join('; '))
process.exit(0) // some versions keep connections open
