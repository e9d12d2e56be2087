// Answers to questions about code and names: completion, inspection, whether code is complete.
'use strict'
const { inspect } = require('./display.js')
const { parse } = require('./syntax.js')

const NAME = /[\p{L}\p{Nl}$_][\p{L}\p{Nl}\p{Mn}\p{Mc}\p{Nd}\p{Pc}$]*/u
const PATH_BEFORE = new RegExp(`(?:${NAME.source}(?:\\?)?\\.)*(?:${NAME.source})?$`, 'u')
const PATH_AFTER = new RegExp(`^[\\p{L}\\p{Nl}\\p{Mn}\\p{Mc}\\p{Nd}\\p{Pc}$]*`, 'u')
const UNTERMINATED = new Set(['UnterminatedTemplate', 'UnterminatedComment'])
const WORDS = ('async await break case catch class const continue debugger default delete do else export extends false finally for ' +
  'function if import in instanceof let new null of return static super switch this throw true try typeof undefined var void while ' +
  'with yield').split(' ')

// Positions of the protocol count characters, those of JavaScript halves of some.
function unitsOf(code, characters) {
  return [...code].slice(0, characters).join('').length
}

function charactersOf(code, units) {
  return [...code.slice(0, units)].length
}

// The value that a path of names has, without calling getters.
function lookUp(names) {
  let value = globalThis
  for (const name of names) {
    if (value === null || value === undefined) return undefined
    let owner = Object(value)
    while (owner !== null && !Object.prototype.hasOwnProperty.call(owner, name)) owner = Object.getPrototypeOf(owner)
    const property = owner === null ? undefined : Object.getOwnPropertyDescriptor(owner, name)
    if (property?.get && owner !== globalThis) return undefined
    value = property?.get ? owner[name] : property?.value
  }
  return value
}

function namesOf(value) {
  const names = new Set()
  for (let owner = Object(value); owner !== null; owner = Object.getPrototypeOf(owner))
    for (const name of Object.getOwnPropertyNames(owner)) if (new RegExp(`^${NAME.source}$`, 'u').test(name)) names.add(name)
  return names
}

function complete({ code = '', cursor_pos: position = [...code].length }) {
  const end = unitsOf(code, position)
  const [text] = PATH_BEFORE.exec(code.slice(0, end))
  const names = text.split(/\??\./)
  const prefix = names.pop()
  const value = lookUp(names)
  const known = value === undefined || value === null ? [] : [...namesOf(value)]
  if (names.length === 0) known.push(...WORDS)
  const matches = [...new Set(known)].filter((name) => name.startsWith(prefix)).sort()
  return {
    status: 'ok', matches, metadata: {}, cursor_start: charactersOf(code, end - prefix.length), cursor_end: charactersOf(code, end),
  }
}

function inspectName({ code = '', cursor_pos: position = [...code].length }) {
  const at = unitsOf(code, position)
  const text = PATH_BEFORE.exec(code.slice(0, at))[0] + PATH_AFTER.exec(code.slice(at))[0]
  const names = text.split(/\??\./)
  const value = text === '' ? undefined : lookUp(names)
  if (value === undefined) return { status: 'ok', found: false, data: {}, metadata: {} }
  const source = typeof value === 'function' ? `\n${Function.prototype.toString.call(value)}` : ''
  return { status: 'ok', found: true, data: { 'text/plain': `${text}: ${typeof value}\n${inspect(value)}${source}` }, metadata: {} }
}

function isComplete({ code = '' }) {
  try {
    parse(code)
    return { status: 'complete' }
  } catch (error) {
    const isCut = (error.pos ?? 0) >= code.trimEnd().length || UNTERMINATED.has(error.reasonCode)
    return isCut ? { status: 'incomplete', indent: '' } : { status: 'invalid' }
  }
}

module.exports = { complete, inspectName, isComplete }
