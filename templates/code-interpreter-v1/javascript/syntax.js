// Parsing, and walking through what was parsed.
'use strict'
const babel = require('@babel/parser')

const OPTIONS = {
  sourceType: 'script', // cells are not strict, as in other notebooks
  allowImportExportEverywhere: true,
  allowAwaitOutsideFunction: true,
  createParenthesizedExpressions: true,
  createImportExpressions: true,
  attachComment: false,
  errorRecovery: true,
}
const NOT_CHILDREN = new Set(['loc', 'extra', 'errors', 'tokens', 'comments'])

function parseWith(code, plugins) {
  const file = babel.parse(code, { ...OPTIONS, plugins })
  const error = file.errors.find(({ reasonCode }) => reasonCode !== 'ImportMetaOutsideModule')
  if (error) throw error
  return file.program
}

// What is valid JavaScript means what it means there (`a < b > (c)`), everything else is taken as TypeScript.
// Returns {program, isTyped}. Throws a SyntaxError of the parser's, whichever language got farther.
function parse(code) {
  let plainError
  try {
    return { program: parseWith(code, []), isTyped: false }
  } catch (error) {
    if (error instanceof RangeError) throw error // too deep
    plainError = error
  }
  try {
    return { program: parseWith(code, ['typescript', 'decorators']), isTyped: true }
  } catch (error) {
    throw (plainError.pos ?? 0) > (error.pos ?? 0) ? plainError : error
  }
}

function isNode(value) {
  return typeof value === 'object' && value !== null && typeof value.type === 'string'
}

function* childrenOf(node) {
  for (const key of Object.keys(node)) {
    if (NOT_CHILDREN.has(key)) continue
    const value = node[key]
    if (Array.isArray(value)) {
      for (const item of value) if (isNode(item)) yield item
    } else if (isNode(value)) yield value
  }
}

// Calls enter(node, parent) for each node, outer ones first. What returns false is not entered. No recursion: code may be deep.
function walk(root, enter) {
  const stack = [[root, null]]
  while (stack.length > 0) {
    const [node, parent] = stack.pop()
    if (enter(node, parent) === false) continue
    const children = [...childrenOf(node)]
    for (let i = children.length - 1; i >= 0; i--) stack.push([children[i], node])
  }
}

function isFunction(node) {
  return /Function|^(Object|Class|ClassPrivate)Method$/.test(node.type)
}

// The names that a pattern binds.
function namesIn(pattern, names = []) {
  if (pattern === null) return names
  switch (pattern.type) {
    case 'Identifier': names.push(pattern.name); break
    case 'ObjectPattern': for (const property of pattern.properties) namesIn(property.value ?? property.argument, names); break
    case 'ArrayPattern': for (const element of pattern.elements) namesIn(element, names); break
    case 'AssignmentPattern': namesIn(pattern.left, names); break
    case 'RestElement': namesIn(pattern.argument, names); break
    case 'ParenthesizedExpression': namesIn(pattern.expression, names); break
  }
  return names
}

module.exports = { parse, walk, isFunction, namesIn }
