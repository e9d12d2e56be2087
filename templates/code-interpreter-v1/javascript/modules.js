// require and import of user code: from the working directory, then from the places of global packages.
'use strict'
const fs = require('fs')
const { createRequire, builtinModules, Module } = require('module')
const path = require('path')
const { pathToFileURL } = require('url')
const vm = require('vm')
const { IMPORT, META } = require('./transform.js')

const GLOBAL_FOLDERS = ['/usr/local/lib/node_modules', '/usr/lib/node_modules', '/usr/share/nodejs']
const importers = new Map() // by folder: a function that imports as a module in that folder does
const requires = new Map()

// How a file in this folder would import.
function importerOf(folder) {
  if (!importers.has(folder)) {
    const options = { filename: path.join(folder, '[cell].js'), importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER }
    importers.set(folder, new vm.Script('(specifier, options) => import(specifier, options)', options).runInThisContext())
  }
  return importers.get(folder)
}

function requireOf(folder) {
  if (!requires.has(folder)) requires.set(folder, createRequire(path.join(folder, '[cell].js')))
  return requires.get(folder)
}

const here = () => requireOf(process.cwd())

// Without attributes, import of JSON is an error in node; notebooks are less strict.
function isJson(specifier, options) {
  return /^[./].*\.json$/.test(specifier) && !options?.with && !options?.assert
}

async function importModule(specifier, options) {
  specifier = String(specifier)
  if (isJson(specifier, options)) return { default: here()(specifier) }
  try {
    return await importerOf(process.cwd())(specifier, options)
  } catch (error) {
    if (error?.code !== 'ERR_MODULE_NOT_FOUND' || /^[./]|^[a-z]+:/.test(specifier) || !isAbout(error, specifier)) throw error
    return importGlobal(specifier, options, error)
  }
}

// Whether the module itself is missing, not one that it needs.
function isAbout(error, specifier) {
  const name = specifier.split('/').slice(0, specifier.startsWith('@') ? 2 : 1).join('/')
  return error.message.includes(`'${name}'`)
}

async function importGlobal(specifier, options, notFound) {
  for (const folder of GLOBAL_FOLDERS) {
    const name = specifier.split('/').slice(0, specifier.startsWith('@') ? 2 : 1).join('/')
    if (!fs.existsSync(path.join(folder, name))) continue
    if (path.basename(folder) === 'node_modules') return importerOf(path.dirname(folder))(specifier, options)
    return importerOf('/')(pathToFileURL(here().resolve(specifier)).href, options)
  }
  const error = new Error(`Cannot find package '${specifier}' from ${process.cwd()}`)
  throw Object.assign(error, { code: notFound.code })
}

// The value of an imported name. CommonJS modules may have names that node does not see before they run.
function exported(module, { imported }, { specifier, isTyped }) {
  if (imported === '*') return module
  if (imported in module) return module[imported]
  const whole = module.default
  if (whole !== null && (typeof whole === 'object' || typeof whole === 'function') && imported in whole) return whole[imported]
  if (isTyped) return undefined // perhaps a type
  throw new SyntaxError(`The requested module '${specifier}' does not provide an export named '${imported}'`)
}

// Carries out the imports of a cell: the names become global variables, all or none of them.
async function importAll(imports) {
  const values = {}
  for (const one of imports) {
    const options = Object.keys(one.attributes).length > 0 ? { with: one.attributes } : undefined
    const module = await importModule(one.specifier, options)
    for (const binding of one.bindings) values[binding.name] = exported(module, binding, one)
  }
  for (const [name, value] of Object.entries(values)) globalThis[name] = value
}

// Packages of the global folders for require(), as NODE_PATH gives them.
function addGlobalFolders() {
  const before = process.env.NODE_PATH
  process.env.NODE_PATH = [before, ...GLOBAL_FOLDERS].filter(Boolean).join(path.delimiter)
  Module._initPaths()
  if (before === undefined) delete process.env.NODE_PATH
  else process.env.NODE_PATH = before
}

function define(name, descriptor) {
  Object.defineProperty(globalThis, name, { configurable: true, enumerable: false, ...descriptor })
}

// A global that follows the working directory until user code gives it another value.
function defineDefault(name, get) {
  define(name, { get, set: (value) => define(name, { value, writable: true }) })
}

function installModules() {
  addGlobalFolders()
  const require = (id) => here()(id)
  require.resolve = (id, options) => here().resolve(id, options)
  require.resolve.paths = (id) => here().resolve.paths(id)
  require.cache = here().cache
  require.main = undefined
  define('require', { value: require, writable: true })
  const module = { exports: {}, id: '[cell]', children: [], loaded: true, paths: [] }
  define('module', { value: module, writable: true })
  define('exports', { value: module.exports, writable: true })
  defineDefault('__dirname', () => process.cwd())
  defineDefault('__filename', () => path.join(process.cwd(), '[cell].js'))
  define(IMPORT, { value: importModule })
  define(META, {
    get: () => ({
      url: pathToFileURL(path.join(process.cwd(), '[cell].js')).href,
      filename: path.join(process.cwd(), '[cell].js'),
      dirname: process.cwd(),
      resolve: (id) => (builtinModules.includes(id.replace(/^node:/, '')) ? `node:${id.replace(/^node:/, '')}` : pathToFileURL(here().resolve(id)).href),
    }),
  })
}

module.exports = { importAll, installModules }
