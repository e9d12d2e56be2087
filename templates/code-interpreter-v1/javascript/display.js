// Values as MIME bundles, and the helpers that user code has for rich output: display() and $$.
'use strict'
const util = require('util')

const METHODS = { _toHtml: 'text/html', _toSvg: 'image/svg+xml', _toPng: 'image/png', _toJpeg: 'image/jpeg', _toMarkdown: 'text/markdown' }

// A string is shown whole and on one line, other values as node's prompt shows them.
function inspect(value) {
  return util.inspect(value, typeof value === 'string' ? { maxStringLength: null, breakLength: Infinity } : { maxStringLength: null })
}

// Pictures are base64 text; bytes are taken too.
function asText(value) {
  if (value instanceof ArrayBuffer) value = new Uint8Array(value)
  if (!ArrayBuffer.isView(value)) return value
  return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64')
}

// A bundle must be an object, and what JSON cannot have is left out of it.
function checkBundle(bundle) {
  if (typeof bundle !== 'object' || bundle === null) throw new TypeError('a MIME bundle is an object: { "text/html": ... }')
  const checked = {}
  for (const [type, value] of Object.entries(bundle)) {
    const json = JSON.stringify(asText(value))
    if (json !== undefined) checked[type] = JSON.parse(json)
  }
  return checked
}

// What $$.html() and the like give: shown once, also if the value is not the cell's last.
class Display {
  constructor(bundle) {
    this.bundle = bundle
  }

  [util.inspect.custom]() {
    return `[Display ${Object.keys(this.bundle).join(', ')}]`
  }
}

// The MIME bundle of a value, or undefined if there is nothing to show.
async function bundleOf(value) {
  if (value === undefined) return undefined
  if (value instanceof Display) return value.bundle
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return { 'text/plain': inspect(value) }
  if (typeof value._toMime === 'function') return checkBundle(await value._toMime())
  const bundle = {}
  for (const [method, type] of Object.entries(METHODS))
    if (typeof value[method] === 'function') bundle[type] = asText(await value[method]())
  return checkBundle({ 'text/plain': inspect(value), ...bundle })
}

// The globals. `output` sends what they show.
function installHelpers(output) {
  const helper = (type) => (value) => {
    const shown = new Display(checkBundle(typeof type === 'string' ? { [type]: value } : type(value)))
    output.defer(shown)
    return shown
  }
  const helpers = {
    html: helper('text/html'), svg: helper('image/svg+xml'), png: helper('image/png'), jpeg: helper('image/jpeg'),
    markdown: helper('text/markdown'), latex: helper('text/latex'), text: helper('text/plain'),
    json: helper((value) => ({ 'application/json': value, 'text/plain': inspect(value) })),
    mime: helper((bundle) => bundle),
  }
  // Shows at once if the bundle needs no waiting, which is so for everything but asynchronous methods.
  const display = (value) => {
    const show = (bundle) => bundle && output.publish('display_data', { data: bundle, metadata: {}, transient: {} })
    if (value instanceof Display) {
      output.deferred = output.deferred.filter((deferred) => deferred !== value)
      return void show(value.bundle)
    }
    const isPlain = value === null || !['object', 'function'].includes(typeof value) ||
      !['_toMime', ...Object.keys(METHODS)].some((method) => typeof value[method] === 'function')
    if (isPlain) return void show({ 'text/plain': inspect(value) })
    return bundleOf(value).then(show)
  }
  for (const [name, value] of Object.entries({ $$: helpers, display }))
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true, enumerable: false })
}

module.exports = { Display, bundleOf, inspect, installHelpers }
