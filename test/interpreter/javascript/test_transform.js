// How cells become scripts. A TAP program; needs the parser of the kernel's package.json, and is skipped without it.
'use strict'
const assert = require('assert')
const path = require('path')
const vm = require('vm')

const kernel = path.resolve(process.env.SANDGLASS_JAVASCRIPT_KERNEL ?? path.join(__dirname, '../../../templates/code-interpreter-v1/javascript'))
let transform
try {
  require.resolve('@babel/parser', { paths: [kernel] })
  transform = require(path.join(kernel, 'transform.js')).transform
} catch {
  console.log('1..0 # SKIP the packages of the javascript kernel are not installed (npm ci in its folder)')
  process.exit(0)
}

// The value of a cell in a context of its own.
function value(code, context = vm.createContext({})) {
  const cell = transform(code)
  return vm.runInContext(cell.code, context)
}

function isRefused(code, pattern) {
  assert.throws(() => transform(code), (error) => error.name === 'SyntaxError' && pattern.test(error.message), code)
}

const tests = {
  'lines stay where they are'() {
    for (const code of ['const a = 1\nlet b\nclass C {\n}\nb', 'interface A {\n  b: string\n}\nenum E {\n  A,\n  B,\n}\n1', 'const f = (): {\n  a: 1\n} => 1\nawait f()',
      'import {\n  a,\n  b\n} from "x"\na', 'namespace N {\n  export const x = 1\n}\nN', '`a\nb`']) {
      const lines = transform(code).code.replace(/\n\}\)\(\)$/, '').split('\n').length
      assert.strictEqual(lines, code.split('\n').length, code)
    }
  },

  'declarations become variables that live on'() {
    const context = vm.createContext({})
    value('const a = 1; let b = 2; class C {}; function d() {}; const { e, f: [g = 5, ...h] } = { e: 3, f: [undefined, 6] }', context)
    assert.strictEqual(value('[a, b, typeof C, typeof d, e, g, h[0]].join()', context), '1,2,function,function,3,5,6')
    value('const a = 10; let b', context)
    assert.strictEqual(value('String([a, b])', context), '10,')
  },

  'the last expression is the value'() {
    for (const [code, hasValue] of [['1', true], ['let a = 1', false], ["'text'", true], ['1; // x', true], ['', false], ['if (1) 2', false], ['1; function f() {}', false],
      ['1; type A = string', true], ['{ a: 1 }', true], ['{ let a = 1 }', false], ['await 1', true], ['export default 5', true]])
      assert.strictEqual(transform(code).hasValue, hasValue, code)
  },

  'only await at the top makes a cell async'() {
    for (const [code, isAsync] of [['await 1', true], ['async () => await 1', false], ['for await (const a of b) {}', true], ['class A { async m() { await 1 } }', false],
      ['if (a) { [await b] }', true], ['async function f() { for await (const a of b) {} }', false], ['`${await 1}`', true]])
      assert.strictEqual(transform(code).isAsync, isAsync, code)
  },

  'imports are taken out'() {
    const { imports, code } = transform("import d, { a as b, default as e, 'x y' as f } from 'm'; import * as n from 'n'; import 's'; import j from './j' with { type: 'json' }")
    assert.deepStrictEqual(imports.map(({ specifier }) => specifier), ['m', 'n', 's', './j'])
    assert.deepStrictEqual(imports[0].bindings.map(({ name, imported }) => [name, imported]), [['d', 'default'], ['b', 'a'], ['e', 'default'], ['f', 'x y']])
    assert.deepStrictEqual(imports[1].bindings, [{ name: 'n', imported: '*' }])
    assert.deepStrictEqual(imports[3].attributes, { type: 'json' })
    assert.strictEqual(code.replace(/[;\s]/g, ''), '')
    assert.deepStrictEqual(transform("import type { A } from 'a'; import { type B } from 'b'").imports.map(({ specifier }) => specifier), ['b'])
    assert.ok(transform('import("x"); import.meta.url').code.includes('$sandglass_import("x"); $sandglass_import_meta.url'))
  },

  'exports lose their export'() {
    const context = vm.createContext({})
    value('export const a = 1; export function f() { return 2 }; export class C {}; export { a as b }; export default class D {}', context)
    assert.strictEqual(value('[a, f(), typeof C, typeof D].join()', context), '1,2,function,function')
  },

  'types leave no trace'() {
    const cases = {
      'let a: number = 1, b!: string; a as unknown as number': '1',
      'function f<T extends object>(this: any, a?: T, ...r: any[]): a is T { return !a! }; String(f())': 'true',
      'abstract class A<T> { declare x: number; private readonly y?: T; abstract m(): void; constructor(protected z = 4) {} static s?: string }; class B extends A<number> { q!: string; m() {}; constructor() { super(5); } }; Object.keys(new B()).join()': 'y,z,q',
      'enum E { A = 1, B, C = "c", D = A << 3, "x-y" = 9 } [E.B, E[1], E.C, E.D, E["x-y"]].join()': '2,A,c,8,9',
      'enum E { A } enum E { B = 1 } Object.keys(E).join()': '0,1,A,B',
      'namespace A.B { export const c = 3 } A.B.c': '3',
      'namespace N { export let n = 1; export function up() { n++ } } N.up(); N.n': '2',
      'const x = <any>{ a: 1 } as any; x!.a!': '1',
      'type A = 1\n;[1].length': '1',
      'const y = 1 as any\n;[y].length': '1',
      'let z = 1 as any\n`t`.length': '1',
      'new Map<string, Array<number>>().size': '0',
      'const g = <T,>(a: T): a is T => true; String(g<number>(1))': 'true',
      'import fs = require("fs"); 1': '1',
      'declare module "x" { const a: number }\ndeclare global { interface Window {} }\ndeclare function h(): void\n2': '2',
      'const o = { m(this: Window, a: number): void {}, async *g<T>(): AsyncGenerator<T> {} } satisfies object; Object.keys(o).join()': 'm,g',
      'class P { m?(): void {} get v(): number { return 1 } set v(a: number) {} }; new P().v': '1',
      'try { throw 1 } catch (e: unknown) { e } 3': '3',
      'function over(a: string): void; function over(a: number): void; function over(a: any) {} over.length': '1',
    }
    for (const [code, expected] of Object.entries(cases)) {
      const context = vm.createContext({ require: () => ({}) })
      assert.strictEqual(String(value(code, context)), expected, `${code}\n${transform(code).code}`)
    }
  },

  'valid JavaScript is not taken for TypeScript'() {
    assert.strictEqual(value('var a = 1, b = 2, c = 0; [a < b, b > (c)].join()'), 'true,true')
    assert.strictEqual(transform('a < b > (c)').code, 'a < b > (c)')
  },

  'errors are errors'() {
    isRefused('return 5', /^Illegal return statement$/)
    isRefused('await 1; return 5', /return/)
    isRefused('let a = 1; let a = 2', /already been declared/)
    isRefused('let a = = 1', /Unexpected token/)
    isRefused('@dec class A {}', /decorators are not supported|Invalid or unexpected/)
    isRefused('"open', /Invalid or unexpected token/)
    isRefused('import { from "x"', /./)
    isRefused('class A { constructor( }', /./)
  },

  'deep code does not overflow'() {
    assert.strictEqual(value(`${'('.repeat(600)}1${')'.repeat(600)}`), 1)
    assert.strictEqual(value(Array.from({ length: 5000 }, () => '1').join('+')), 5000)
    try {
      transform('['.repeat(200000))
    } catch (error) {
      assert.ok(['SyntaxError', 'RangeError'].includes(error.name), error.name)
    }
  },
}

require('./tap.js').run(tests)
