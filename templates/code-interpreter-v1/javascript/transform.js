// Turns a cell into a script for V8. Names that the cell declares at its top become global variables, so that later cells see them
// and may declare them again. Imports are taken out, as they come before everything else. A cell with `await` at its top becomes an
// async function.
'use strict'
const vm = require('vm')
const { Edits } = require('./edits.js')
const { parse, walk, isFunction, namesIn } = require('./syntax.js')
const { eraseTypes } = require('./types.js')

const IMPORT = '$sandglass_import' // global function that takes the place of import()
const META = '$sandglass_import_meta' // and of import.meta

// Returns {code, columnOffset, imports, isAsync, hasValue}:
//   imports: [{specifier, attributes, bindings: [{name, imported}], isTyped}], imported is a name, 'default' or '*'
//   hasValue: the last statement is an expression, whose value is the script's (of a promise, if isAsync)
// Throws SyntaxError.
function transform(source) {
  // A cell that is an object literal, not a block, as node's own prompt sees it.
  if (/^\s*\{/.test(source) && /\}\s*$/.test(source)) {
    try {
      return transformText(`(${source}\n)`, 1)
    } catch {
      // A block.
    }
  }
  try {
    return transformText(source, 0)
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    // Too deep for the parser, which is written in JavaScript. V8 has more room and takes the code as it is.
    return { code: source, columnOffset: 0, imports: [], isAsync: false, hasValue: true }
  }
}

function transformText(source, wrapped) {
  const cell = new Cell(source)
  const { prefix, body, suffix } = cell.make()
  return {
    code: prefix + body + suffix,
    columnOffset: -prefix.length - wrapped,
    imports: cell.imports,
    isAsync: cell.isAsync,
    hasValue: cell.hasValue,
  }
}

class Cell {
  constructor(source) {
    const { program, isTyped } = parseOrExplain(source)
    this.program = program
    this.isTyped = isTyped
    this.edits = new Edits(source)
    this.imports = []
    this.names = new Set() // declared at the top of an async cell
    this.functions = new Set()
    this.isAsync = false
    this.hasValue = false
  }

  make() {
    walk(this.program, (node) => this.look(node))
    if (this.isTyped) eraseTypes(this.program, this.edits, { assignOnly: this.isAsync })
    const statements = this.program.body.map((node) => this.unexport(node)).filter(Boolean)
    for (const statement of statements) this.declare(statement)
    if (this.isAsync) this.declareNested(statements)
    this.keepValue(statements)
    const body = this.edits.render()
    if (!this.isAsync) return { prefix: '', body, suffix: '' }
    const variables = [...this.names, ...this.functions]
    const hoisted = [...this.functions].map((name) => `globalThis.${name} = ${name};`).join('')
    return { prefix: `${variables.length ? `var ${variables.join(', ')};` : ''}(async () => {${hoisted}`, body, suffix: '\n})()' }
  }

  // await, import() and import.meta, wherever they are.
  look(node) {
    if (node.type === 'ImportExpression') this.edits.replace(node.start, node.start + 'import'.length, IMPORT)
    else if (node.type === 'MetaProperty' && node.meta.name === 'import') this.edits.replace(node.start, node.end, META)
    else if (node.type === 'Program') walk(node, (inner) => this.lookForAwait(inner))
  }

  lookForAwait(node) {
    if (isFunction(node) || /^Class(Body|Declaration|Expression)$/.test(node.type)) return false
    if (node.type === 'AwaitExpression' || (node.type === 'ForOfStatement' && node.await)) this.isAsync = true
    return !this.isAsync
  }

  // Imports and exports become what is left of them: a declaration, an expression, or nothing.
  unexport(node) {
    if (node.type === 'ImportDeclaration') return this.takeImport(node)
    if (/^Export(All|Namespace)/.test(node.type) || (node.type === 'ExportNamedDeclaration' && !node.declaration)) {
      if (node.source && node.exportKind !== 'type') this.addImport(node, [])
      this.edits.blank(node.start, node.end, ';')
      return null
    }
    if (node.type !== 'ExportNamedDeclaration' && node.type !== 'ExportDefaultDeclaration') return this.isErased(node) ? null : node
    const { declaration } = node
    if (this.isErased(declaration) || node.exportKind === 'type') return null
    this.edits.blank(node.start, declaration.start)
    if (node.type === 'ExportNamedDeclaration' || declaration.id) return declaration
    if (/^(Function|Class)Declaration$/.test(declaration.type)) {
      // export default function () {}: a value without a name.
      this.edits.insert(declaration.start, '(')
      this.edits.insert(declaration.end, ');')
      return null
    }
    return { type: 'ExpressionStatement', expression: declaration, start: declaration.start, end: node.end }
  }

  isErased(node) {
    return node.declare === true || /^(TSInterface|TSTypeAlias|TSNamespaceExport)Declaration$|^TSDeclareFunction$/.test(node.type) ||
      node.type === 'EmptyStatement'
  }

  takeImport(node) {
    if (node.importKind === 'type') return null
    const bindings = node.specifiers.filter(({ importKind }) => importKind !== 'type').map((specifier) => ({
      name: specifier.local.name,
      imported: specifier.type === 'ImportDefaultSpecifier' ? 'default'
        : specifier.type === 'ImportNamespaceSpecifier' ? '*'
          : specifier.imported.name ?? specifier.imported.value,
    }))
    this.addImport(node, bindings)
    this.edits.blank(node.start, node.end, ';')
    return null
  }

  addImport(node, bindings) {
    const attributes = {}
    for (const { key, value } of node.attributes ?? []) attributes[key.name ?? key.value] = value.value
    this.imports.push({ specifier: node.source.value, attributes, bindings, isTyped: this.isTyped })
  }

  // A declaration at the top: of a global variable.
  declare(node) {
    if (node.type === 'VariableDeclaration') this.declareVariables(node)
    else if (node.type === 'ClassDeclaration') {
      this.edits.insert(node.start, `${this.isAsync ? '' : 'var '}${node.id.name} = `)
      this.edits.insert(node.end, ';')
      this.names.add(node.id.name)
    } else if (node.type === 'FunctionDeclaration') this.functions.add(node.id.name)
    else if (/^TS(Enum|Module|ImportEquals)Declaration$/.test(node.type)) this.names.add(node.id.name)
  }

  declareVariables(node) {
    if (this.isAsync) return this.assignVariables(node, null)
    if (node.kind === 'var') return undefined
    this.edits.replace(node.start, node.start + node.kind.length, 'var')
    // `let x` starts anew, `var x` would keep the value of an earlier cell.
    for (const { id, init } of node.declarations) if (!init) this.edits.insert(id.end, ' = undefined')
    return undefined
  }

  // The variables are global and the declaration only assigns them.
  assignVariables(node, parent) {
    const { declarations, kind } = node
    for (const { id } of declarations) namesIn(id).forEach((name) => this.names.add(name))
    if (parent && /^For/.test(parent.type) && (parent.init === node || parent.left === node))
      return this.edits.blank(node.start, declarations[0].start)
    this.edits.replace(node.start, declarations[0].start, 'void (')
    for (const { id, init } of declarations) {
      if (init) continue
      if (kind === 'var') this.edits.insert(id.start, '0, ')
      else this.edits.insert(id.end, ' = undefined')
    }
    this.edits.insert(declarations[declarations.length - 1].end, this.edits.text[node.end - 1] === ';' ? ')' : ');')
    return undefined
  }

  // `var` inside of blocks and loops is a variable of the cell too.
  declareNested(statements) {
    const top = new Set(statements)
    for (const statement of statements) {
      if (isFunction(statement)) continue
      walk(statement, (node, parent) => {
        if (isFunction(node) || node.type === 'ClassBody') return false
        if (node.type === 'VariableDeclaration' && node.kind === 'var' && !top.has(node)) this.assignVariables(node, parent)
        return true
      })
    }
  }

  keepValue(statements) {
    const last = statements[statements.length - 1]
    if (!last) {
      this.hasValue = this.program.body.length === 0 && this.program.directives.length > 0
      return
    }
    if (last.type !== 'ExpressionStatement') return
    this.hasValue = true
    if (!this.isAsync) return
    this.edits.insert(last.expression.start, 'return (')
    this.edits.insert(last.expression.end, ')')
  }
}

// Parses. V8's own words for an error are the ones that people know, as long as V8 can be asked: it takes `import` and `await` at
// the top of a script for errors.
function parseOrExplain(source) {
  try {
    return parse(source)
  } catch (error) {
    if (error instanceof RangeError) throw error
    try {
      new vm.Script(source, { filename: '[cell]' })
    } catch (other) {
      if (other.name === 'SyntaxError' && !/\b(import|export|await|async)\b/.test(source)) throw other
    }
    const { line, column } = error.loc ?? { line: 1, column: 0 }
    const explained = new SyntaxError(error.message.replace(/ \(\d+:\d+\)$/, ''))
    explained.stack = `[cell]:${line}\n${source.split('\n')[line - 1] ?? ''}\n${' '.repeat(column)}^\n\nSyntaxError: ${explained.message}`
    throw explained
  }
}

module.exports = { transform, IMPORT, META }
