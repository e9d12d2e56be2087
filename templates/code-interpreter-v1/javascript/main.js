// Jupyter kernel for JavaScript and TypeScript. This thread runs the user's code; wire.js is the thread that owns the sockets.
// usage: launch CONNECTION_FILE
'use strict'
const fs = require('fs')
const { Worker } = require('worker_threads')
const shared = require('./shared.js')
const { PROTOCOL } = require('./messages.js')

const { setImmediate } = globalThis
const KERNEL_INFO = {
  status: 'ok',
  protocol_version: PROTOCOL,
  implementation: 'sandglass-javascript',
  implementation_version: '1.0.0',
  banner: `JavaScript and TypeScript on node ${process.version}`,
  language_info: {
    name: 'javascript', version: process.version.slice(1), mimetype: 'text/javascript', file_extension: '.js',
    pygments_lexer: 'javascript', codemirror_mode: 'javascript', nbconvert_exporter: 'script',
  },
  help_links: [],
}

function isPipe(fd) {
  try {
    return fs.fstatSync(fd).isFIFO()
  } catch {
    return false
  }
}

function startWire(connection) {
  const numbers = new SharedArrayBuffer(4 * shared.LENGTH)
  // `launch` made the pipes; without it, output of children goes where the kernel's own goes.
  const hasPipes = isPipe(3) && isPipe(4)
  const wire = new Worker(require.resolve('./wire.js'), {
    workerData: {
      connection,
      shared: numbers,
      kernelInfo: KERNEL_INFO,
      pipes: hasPipes ? [{ fd: 3, name: 'stdout' }, { fd: 4, name: 'stderr' }] : [],
      logFd: hasPipes ? 5 : 2,
    },
    resourceLimits: { maxYoungGenerationSizeMb: 4 }, // this thread makes little but garbage
    stdout: false,
    stderr: false,
  })
  return { wire, numbers: new Int32Array(numbers) }
}

class Kernel {
  constructor(output, cells) {
    this.output = output
    this.cells = cells
    this.count = 0 // of executions
    this.queue = [] // requests: {number, type, content}
    this.isBusy = false
  }

  add(request) {
    this.queue.push(request)
    if (!this.isBusy) this.work()
  }

  async work() {
    this.isBusy = true
    for (let request = this.queue.shift(); request; request = this.queue.shift()) {
      const { number } = request
      this.output.publishState(number, 'busy')
      await this.answer(request)
      this.output.publishState(number, 'idle')
      this.output.post(['finish', number])
    }
    this.isBusy = false
  }

  async answer({ number, type, content }) {
    const { describe } = require('./cells.js')
    const handle = HANDLERS[type]
    if (!handle) return
    let reply
    try {
      reply = await handle(this, content, number)
    } catch (error) {
      reply = { status: 'error', ...describe(error) }
    }
    const isStop = type === 'execute_request' && reply.status === 'error' && content.stop_on_error !== false
    const aborted = isStop ? await this.takeExecutions() : []
    this.output.post(['reply', number, type.replace(/_request$/, '_reply'), JSON.stringify(reply)])
    this.abort(aborted)
  }

  async execute(content, number) {
    const { Interrupted, describe } = require('./cells.js')
    const silent = content.silent === true
    const { output } = this
    if (typeof content.code !== 'string') throw new TypeError('code is no text')
    if (!silent && content.store_history !== false) this.count++
    const count = this.count
    output.post(['parent', number])
    this.cells.begin()
    if (!silent) output.publish('execute_input', { code: content.code, execution_count: count })
    try {
      const { value, hasValue } = await this.cells.run(content.code, `[cell ${count}]`)
      if (!silent && hasValue) await this.show(value, count)
      const expressions = await this.cells.evaluate(content.user_expressions ?? {})
      this.endOutput()
      return { status: 'ok', execution_count: count, user_expressions: expressions, payload: [] }
    } catch (error) {
      const described = describe(error)
      if (error instanceof Interrupted) await this.cells.settle()
      else this.endOutput()
      output.post(['drain'])
      if (!silent) output.publishNow(0, 'error', described)
      return { status: 'error', ...described, execution_count: count, user_expressions: {}, payload: [] }
    } finally {
      this.cells.end()
    }
  }

  endOutput() {
    this.output.sendDeferred()
    this.output.post(['drain'])
  }

  async show(value, count) {
    const { bundleOf } = require('./display.js')
    this.output.sendDeferred(value)
    const data = await bundleOf(value)
    this.endOutput()
    if (data) this.output.publish('execute_result', { execution_count: count, data, metadata: {} })
  }

  // Executions that were sent before the client can know of an error.
  async takeExecutions() {
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
    const isExecution = ({ type }) => type === 'execute_request'
    const taken = this.queue.filter(isExecution)
    this.queue = this.queue.filter((request) => !isExecution(request))
    return taken
  }

  abort(requests) {
    for (const { number } of requests) {
      this.output.publishState(number, 'busy')
      this.output.post(['reply', number, 'execute_reply', JSON.stringify({ status: 'aborted', execution_count: this.count })])
      this.output.publishState(number, 'idle')
      this.output.post(['finish', number])
    }
  }
}

const HANDLERS = {
  execute_request: (kernel, content, number) => kernel.execute(content, number),
  kernel_info_request: () => KERNEL_INFO,
  complete_request: (kernel, content) => require('./answers.js').complete(content),
  inspect_request: (kernel, content) => require('./answers.js').inspectName(content),
  is_complete_request: (kernel, content) => require('./answers.js').isComplete(content),
  history_request: () => ({ status: 'ok', history: [] }),
  comm_info_request: () => ({ status: 'ok', comms: {} }),
  connect_request: () => ({ status: 'ok' }),
}

// Compiles what the first cell would have to compile, so that a checkpoint of this process has that behind it.
async function warm(cells, bundleOf, answers) {
  const { transform } = require('./transform.js')
  for (const code of ['const a: number = 1; enum B { C }', 'let d = await 1; class E { m() {} }', 'var { f } = {}; function g() {}'])
    transform(code)
  for (const code of ['1 + 1', 'await 2', 'import "fs"; ({ a: [1] })', '"text"']) await bundleOf((await cells.run(code, '[warm]')).value)
  answers.complete({ code: 'Math.ma' })
}

async function main([connectionFile]) {
  if (!connectionFile) throw new Error('usage: launch CONNECTION_FILE')
  const connection = JSON.parse(fs.readFileSync(connectionFile, 'utf8'))
  if (connection.transport !== 'tcp') throw new Error(`transport ${JSON.stringify(connection.transport)} is not supported`)
  const { wire, numbers } = startWire(connection)
  const { Output, takeOver } = require('./output.js')
  const { Cells, describe } = require('./cells.js')
  const { bundleOf, installHelpers } = require('./display.js')
  const output = new Output(wire, numbers)
  const cells = new Cells(numbers)
  const kernel = new Kernel(output, cells)
  const report = (error) => output.print('stderr', `Uncaught ${describe(error).traceback.join('\n')}\n`)
  const facts = {
    request: ([, number, type, content]) => kernel.add({ number, type, content }),
    interrupt: ([, number]) => cells.interrupt(number),
    exit: () => process.reallyExit(0),
    listening: () => {},
    failed: ([, reason]) => {
      fs.writeSync(isPipe(3) ? 5 : 2, `javascript kernel: ${reason}\n`)
      process.reallyExit(1)
    },
  }
  wire.on('message', (fact) => facts[fact[0]](fact))
  wire.on('error', (error) => facts.failed(['failed', error.stack]))
  process.on('SIGINT', () => cells.interrupt())
  process.on('uncaughtException', report)
  process.on('unhandledRejection', report)
  process.on('exit', () => output.flush())
  require('./random.js').installRandom()
  takeOver(output)
  installHelpers(output)
  require('./modules.js').installModules()
  process.argv.length = 1
  await warm(cells, bundleOf, require('./answers.js'))
  output.post(['listen'])
}

main(process.argv.slice(2)).catch((error) => {
  fs.writeSync(isPipe(3) ? 5 : 2, `javascript kernel: ${error.stack}\n`)
  process.reallyExit(1)
})
