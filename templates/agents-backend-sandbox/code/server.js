// VS Code on port 9000: code-server and the gate before it, in one process.
//
//   node server.js --token-file FILE --workspace DIRECTORY [--listen ADDRESS:PORT]
//
// Listens when VS Code is loaded.
'use strict'
const fs = require('node:fs')
const http = require('node:http')
const os = require('node:os')
const path = require('node:path')
const { parseArgs } = require('node:util')

const { makeGate } = require('./gate.js')
const { variablesOf } = require('./variables.js')

const codeServer = process.env.CODE_SERVER_DIR ?? '/opt/code-server/node_modules/code-server'
process.env.CODE_SERVER_PARENT_PID = String(process.pid) // code-server is a part of another program: VS Code waits to be called
const { parse, setDefaults } = require(`${codeServer}/out/node/cli.js`)
const { runCodeServer } = require(`${codeServer}/out/node/main.js`)

const { values } = parseArgs({ options: { 'token-file': { type: 'string' }, workspace: { type: 'string' }, listen: { type: 'string', default: '0.0.0.0:9000' } } })

/** The status of a page of the inner server. */
const visit = (socketPath, address) =>
  new Promise((done, fail) => {
    const request = http.get({ socketPath, path: address, headers: { Host: 'localhost', Connection: 'close' } }, (answer) => answer.resume().on('end', () => done(answer.statusCode)))
    request.on('error', fail)
  })

async function main() {
  const dir = path.join(os.homedir(), '.local/share/code-server')
  const socket = path.join(dir, 'gate.sock')
  fs.mkdirSync(dir, { recursive: true, mode: 0o700 })
  const argv = ['--auth', 'none', '--socket', socket, '--socket-mode', '600', '--user-data-dir', dir, '--config', path.join(dir, 'config.yaml')]
  argv.push('--disable-telemetry', '--disable-update-check', '--disable-workspace-trust', '--disable-getting-started-override', '--app-name', 'VS Code', values.workspace)
  const { server } = await runCodeServer(await setDefaults(parse(argv), {}))
  const status = await visit(socket, `/?folder=${encodeURIComponent(values.workspace)}`)
  if (status !== 200) throw new Error(`VS Code answers ${status}`)
  const [host, port] = values.listen.split(':')
  makeGate(server, values['token-file'], variablesOf('/run/sandglass/environ')).listen(Number(port), host, function () {
    console.log(`listening on port ${this.address().port}`)
  })
}

main().catch((e) => {
  console.error(e)
  process.exit(1)
})
