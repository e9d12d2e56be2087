// Makes JavaScript of TypeScript: types become spaces, so lines and columns stay. Enums, namespaces, parameter properties and
// `import x = ...` become code.
'use strict'
const { walk, namesIn } = require('./syntax.js')

const MODIFIERS = /\b(public|private|protected|readonly|override|abstract|declare)\b/g
const NO_CODE = new Set(['TSInterfaceDeclaration', 'TSTypeAliasDeclaration', 'TSDeclareFunction', 'TSDeclareMethod', 'TSIndexSignature',
  'TSNamespaceExportDeclaration'])
const STARTS_LIKE_A_CONTINUATION = /^[([`/+\-*.,<]/

class TypeEraser {
  constructor(program, edits) {
    this.program = program
    this.edits = edits
    this.code = edits.text
    this.seen = new Set() // names of enums and namespaces so far: a second declaration adds to the first
    this.blanked = new Map() // end: start of types that became spaces
    this.topLevel = new Set(program.body.map((node) => this.declarationIn(node)))
    this.late = [] // enums and namespaces: their text is made when everything inside of them is done
  }

  declarationIn(node) {
    return /^Export(Named|Default)Declaration$/.test(node.type) && node.declaration ? node.declaration : node
  }

  // `assignOnly`: enums and namespaces at the top are assigned, not declared (their names are declared elsewhere).
  erase({ assignOnly }) {
    this.assignOnly = assignOnly
    walk(this.program, (node, parent) => this.visit(node, parent))
    for (const make of this.late.reverse()) make()
  }

  // The text from start to end becomes spaces.
  blank(start, end, first) {
    this.edits.blank(start, end, first)
    this.blanked.set(end, start)
  }

  visit(node, parent) {
    if (this.hasNoCode(node)) {
      const whole = parent && /^Export(Named|Default)Declaration$/.test(parent.type) ? parent : node
      this.blank(whole.start, whole.end, ';')
      return false
    }
    if (node.decorators?.length) throw new SyntaxError('decorators are not supported')
    if (/Statement$|^VariableDeclaration$/.test(node.type)) this.late.push(() => this.endStatement(node))
    const visitor = this[node.type]
    return visitor ? visitor.call(this, node, parent) : undefined
  }

  hasNoCode(node) {
    return NO_CODE.has(node.type) || node.declare === true || (node.type === 'ClassProperty' && node.abstract === true) ||
      ((node.type === 'ImportDeclaration' && node.importKind === 'type') || (/^Export/.test(node.type) && node.exportKind === 'type')) ||
      (node.type === 'TSModuleDeclaration' && (node.global === true || node.kind === 'global' || node.id.type === 'StringLiteral'))
  }

  // A statement that ended because a type cannot go on must not go on as an expression.
  endStatement(node) {
    const start = this.blanked.get(node.end)
    if (start === undefined) return
    const next = this.code.slice(node.end).replace(/^(\s|\/\/[^\n]*\n|\/\*[^]*?\*\/)+/, '')
    if (STARTS_LIKE_A_CONTINUATION.test(next)) this.edits.insert(start, ';')
  }

  TSTypeAnnotation(node) {
    this.blank(node.start, node.end)
    return false
  }

  TSTypeParameterDeclaration(node) {
    this.blank(node.start, node.end)
    return false
  }

  TSTypeParameterInstantiation(node) {
    this.blank(node.start, node.end)
    return false
  }

  // A name with `?` or `!` between it and its type, and the parameter `this`.
  Identifier(node, parent) {
    const end = node.typeAnnotation ? node.typeAnnotation.start : node.end
    if (node.name === 'this' && parent.params?.[0] === node) {
      const next = parent.params[1]
      const comma = /^\s*,/.exec(this.code.slice(node.end))
      this.blank(node.start, next ? next.start : node.end + (comma ? comma[0].length : 0))
      return false
    }
    if (node.optional || node.typeAnnotation) this.blank(node.start + node.name.length, end)
    return undefined
  }

  ObjectPattern(node) {
    if (node.optional) this.blankMark(node.typeAnnotation ? node.typeAnnotation.start : node.end)
  }

  ArrayPattern(node) {
    this.ObjectPattern(node)
  }

  // The `?` or `!` before this position.
  blankMark(before) {
    const mark = /[?!]\s*$/.exec(this.code.slice(0, before))
    if (mark) this.edits.blank(mark.index, mark.index + 1)
  }

  ArrowFunctionExpression(node) {
    const type = node.returnType
    if (!type || !this.code.slice(type.start, type.end).includes('\n')) return
    // No line may end between `)` and `=>`: the parenthesis moves behind the type.
    const close = this.code.lastIndexOf(')', type.start)
    this.edits.blank(close, close + 1)
    this.edits.insert(type.end, ')')
  }

  TSAsExpression(node) {
    this.blank(node.expression.end, node.end)
  }

  TSSatisfiesExpression(node) {
    this.blank(node.expression.end, node.end)
  }

  TSNonNullExpression(node) {
    this.blank(node.expression.end, node.end)
  }

  TSInstantiationExpression(node) {
    this.blank(node.expression.end, node.end)
  }

  TSTypeAssertion(node) {
    this.edits.blank(node.start, node.expression.start)
  }

  ClassDeclaration(node) {
    if (node.abstract) this.edits.blank(node.start, node.start + 'abstract'.length)
    if (node.implements?.length) {
      const start = this.code.lastIndexOf('implements', node.implements[0].start)
      this.edits.blank(start, node.implements[node.implements.length - 1].end)
    }
  }

  ClassExpression(node) {
    this.ClassDeclaration(node)
  }

  ClassProperty(node) {
    this.blankModifiers(node)
    const end = node.typeAnnotation?.start ?? node.value?.start ?? node.end
    const between = this.code.slice(node.key.end, end)
    const mark = /^\s*\]?\s*([?!])/.exec(between)
    if (mark && (node.optional || node.definite)) {
      const at = node.key.end + mark[0].length - 1
      this.edits.blank(at, at + 1)
    }
    // Without a semicolon, a field that lost its type could go on with the next line.
    if (node.typeAnnotation && !node.value && this.code[node.end - 1] !== ';') this.edits.insert(node.typeAnnotation.start, ';')
  }

  ClassPrivateProperty(node) {
    this.ClassProperty(node)
  }

  ClassAccessorProperty(node) {
    this.ClassProperty(node)
  }

  ClassMethod(node) {
    this.blankModifiers(node)
    if (node.optional) {
      const at = this.code.indexOf('?', node.key.end)
      this.edits.blank(at, at + 1)
    }
    if (node.kind === 'constructor') this.assignParameters(node)
  }

  ClassPrivateMethod(node) {
    this.ClassMethod(node)
  }

  blankModifiers(node) {
    const head = this.code.slice(node.start, node.key.start)
    for (const match of head.matchAll(MODIFIERS))
      this.edits.blank(node.start + match.index, node.start + match.index + match[0].length)
  }

  TSParameterProperty(node) {
    this.edits.blank(node.start, node.parameter.start)
  }

  // constructor(private x = 1) assigns this.x, after super() if there is one.
  assignParameters(node) {
    const names = node.params.filter(({ type }) => type === 'TSParameterProperty').flatMap(({ parameter }) => namesIn(parameter))
    if (names.length === 0) return
    const statements = node.body.body
    const after = statements.find(({ type, expression }) => type === 'ExpressionStatement' && expression.callee?.type === 'Super')
    const at = after ? after.end : node.body.start + 1
    this.edits.insert(at, ';' + names.map((name) => `this.${name} = ${name};`).join(''))
  }

  TSImportEqualsDeclaration(node) {
    if (node.importKind === 'type') return this.blank(node.start, node.end, ';')
    const reference = node.moduleReference
    const value = reference.type === 'TSExternalModuleReference'
      ? `require(${this.code.slice(reference.expression.start, reference.expression.end)})`
      : this.code.slice(reference.start, reference.end)
    this.edits.replace(node.start, node.end, `${this.declare(node)}${node.id.name} = ${value};`)
    return false
  }

  TSExportAssignment(node) {
    this.edits.replace(node.start, node.expression.start, 'module.exports = ')
  }

  // `var ` before the name of something, or nothing if the name is declared elsewhere.
  declare(node) {
    return this.assignOnly && this.topLevel.has(node) ? '' : 'var '
  }

  // What a second declaration of the same name in this code adds to.
  existing(name) {
    const isSecond = this.seen.has(name)
    this.seen.add(name)
    return isSecond ? name : '{}'
  }

  TSEnumDeclaration(node) {
    const { name } = node.id
    const existing = this.existing(name)
    this.late.push(() => {
      const members = node.members ?? node.body.members
      const names = members.map(({ id }) => (id.type === 'Identifier' ? id.name : null))
      const locals = names.filter((local) => local !== null && local !== name)
      let text = `${this.declare(node)}${name} = ((${name}) => { let $previous = -1${locals.map((local) => `, ${local}`).join('')};` +
        ` const $set = (key, value) => { ${name}[key] = value; if (typeof value === "number") ${name}[value] = key; return $previous = value };`
      members.forEach(({ id, initializer }, i) => {
        const key = JSON.stringify(id.type === 'Identifier' ? id.name : id.value)
        const value = initializer ? this.edits.render(initializer.start, initializer.end).replace(/\n/g, ' ') : '$previous + 1'
        text += ` ${locals.includes(names[i]) ? `${names[i]} = ` : ''}$set(${key}, ${value});`
      })
      this.edits.replace(node.start, node.end, `${text} return ${name} })(${existing});`)
    })
  }

  TSModuleDeclaration(node) {
    const { name } = node.id
    const existing = this.existing(name)
    const isNested = node.body.type === 'TSModuleDeclaration' // namespace A.B {}
    const statements = isNested ? [node.body] : node.body.body
    const names = []
    for (const statement of statements) {
      const declaration = isNested ? statement : statement.type === 'ExportNamedDeclaration' ? statement.declaration : null
      if (!declaration || this.hasNoCode(declaration)) continue
      if (!isNested) this.edits.blank(statement.start, declaration.start)
      for (const declared of declaration.declarations ?? [declaration]) namesIn(declared.id, names)
    }
    const getters = names.map((exported) => `Object.defineProperty(${name}, ${JSON.stringify(exported)}, ` +
      `{ get: () => ${exported}, set: ($value) => { ${exported} = $value }, enumerable: true, configurable: true });`).join(' ')
    const start = isNested ? node.body.start : node.body.start + 1
    const end = isNested ? node.body.end : node.body.end - 1
    this.edits.replace(node.start, start, `${this.declare(node)}${name} = ((${name}) => { ${getters}`)
    if (isNested) this.edits.insert(end, ` return ${name} })(${existing});`)
    else this.edits.replace(end, node.end, `; return ${name} })(${existing});`)
  }
}

// Adds to `edits` what makes JavaScript of the program. Throws SyntaxError for what cannot be JavaScript.
function eraseTypes(program, edits, options) {
  new TypeEraser(program, edits).erase(options)
}

module.exports = { eraseTypes }
