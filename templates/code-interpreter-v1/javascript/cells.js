// Runs cells: the code of execute requests, one at a time, in the main context of this process.
'use strict'
const path = require('path')
const { types } = require('util')
const vm = require('vm')
const { bundleOf, inspect } = require('./display.js')
const { importAll } = require('./modules.js')
const { INTERRUPTS_DONE, IN_SCRIPT, OUTSIDE, INSIDE, SIGNALLED } = require('./shared.js')
const { transform } = require('./transform.js')

const { setImmediate } = globalThis
const KERNEL_FOLDER = __dirname + path.sep
const RUN = '$sandglass_run' // global function that runs a script
const BREAKABLE = new vm.Script(`${RUN}()`, { filename: path.join(__dirname, 'breakable') })
const OUR_FRAMES = [KERNEL_FOLDER, 'node:vm:', '(node:internal/process/task_queues']

class Interrupted extends Error {
  constructor() {
    super('Execution was interrupted')
    this.name = 'KeyboardInterrupt'
    this.stack = `${this.name}: ${this.message}`
  }
}

class Cells {
  constructor(shared) {
    this.shared = shared
    this.abandon = null // rejects what the running cell waits for
    this.isRunning = false
    this.lastInterrupt = 0
    this.script = null
    Object.defineProperty(globalThis, RUN, { value: () => this.script() })
  }

  // The value of the code: {value, hasValue}. Throws what the code throws.
  async run(code, filename) {
    const cell = transform(code)
    if (cell.imports.length > 0) await this.wait(importAll(cell.imports))
    let value = this.runScript(cell, filename)
    if (cell.isAsync || (cell.hasValue && types.isPromise(value))) value = await this.wait(value)
    return { value, hasValue: cell.hasValue }
  }

  runScript({ code, columnOffset }, filename) {
    const script = new vm.Script(code, { filename, columnOffset, importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER })
    this.script = () => this.runInside(script)
    try {
      return BREAKABLE.runInThisContext({ breakOnSigint: true, displayErrors: false })
    } catch (error) {
      throw error?.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupted() : error
    } finally {
      Atomics.store(this.shared, IN_SCRIPT, OUTSIDE)
    }
  }

  // Runs inside of BREAKABLE: a SIGINT that the other thread sends meanwhile ends a script, and never the process.
  runInside(script) {
    Atomics.store(this.shared, IN_SCRIPT, INSIDE)
    try {
      return script.runInThisContext({ displayErrors: false })
    } finally {
      if (Atomics.compareExchange(this.shared, IN_SCRIPT, INSIDE, OUTSIDE) === SIGNALLED) for (;;); // until the signal arrives
    }
  }

  // Waits for a promise, or for an interrupt. Then the promise is abandoned: nobody looks at its value any more.
  wait(promise) {
    return new Promise((resolve, reject) => {
      this.abandon = () => reject(new Interrupted())
      promise.then(resolve, reject)
    }).finally(() => {
      this.abandon = null
    })
  }

  // An interrupt that arrived as a message (with its number) or as a signal. A script has been ended by then.
  interrupt(number) {
    if (number !== undefined) this.lastInterrupt = number
    if (this.isRunning) this.abandon?.()
    else this.interruptsDone()
  }

  begin() {
    this.isRunning = true
  }

  end() {
    this.isRunning = false
    this.interruptsDone()
  }

  interruptsDone() {
    Atomics.store(this.shared, INTERRUPTS_DONE, this.lastInterrupt)
  }

  // The message of an interrupt that ended a script is still under way: it must not end the next cell.
  settle() {
    return new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  }

  // Values of expressions, each with a status of its own.
  async evaluate(expressions) {
    const results = {}
    for (const [name, code] of Object.entries(expressions)) {
      try {
        const { value } = await this.run(String(code), '[expression]')
        results[name] = { status: 'ok', data: (await bundleOf(value)) ?? { 'text/plain': 'undefined' }, metadata: {} }
      } catch (error) {
        results[name] = { status: 'error', ...describe(error) }
      }
    }
    return results
  }
}

// Lines of a stack without the frames of this kernel.
function stackLines(stack) {
  return stack.split('\n').filter((line) => !/^\s+at /.test(line) || !OUR_FRAMES.some((text) => line.includes(text)))
}

function textOf(make) {
  try {
    return String(make())
  } catch {
    return ''
  }
}

// Anything can be thrown, also what has getters that throw.
function describe(error) {
  if (!types.isNativeError(error) && !(error instanceof Error)) {
    const text = textOf(() => (typeof error === 'string' ? error : inspect(error)))
    return { ename: 'Error', evalue: text, traceback: [`Uncaught ${text}`] }
  }
  const ename = textOf(() => error.name) || 'Error'
  const evalue = textOf(() => error.message)
  const traceback = stackLines(textOf(() => error.stack) || `${ename}: ${evalue}`)
  const cause = textOf(() => (types.isNativeError(error.cause) ? error.cause.stack : ''))
  if (cause) traceback.push(...stackLines(`[cause]: ${cause}`))
  return { ename, evalue, traceback }
}

module.exports = { Cells, Interrupted, describe }
