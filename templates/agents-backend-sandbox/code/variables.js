// The variables that the sandbox was created with: this process began when the template was built, and has those of the build.
'use strict'
const fs = require('node:fs')

const ofBuild = { ...process.env }

function read(file) {
  try {
    const { ino, mtimeNs } = fs.statSync(file, { bigint: true })
    return { version: `${ino} ${mtimeNs}`, text: () => fs.readFileSync(file, 'utf8') }
  } catch {
    return { version: 'none', text: () => '' } // a sandbox without variables has no file
  }
}

/** A function that takes the variables of the file into process.env; a file that did not change is not read again. */
exports.variablesOf = (file) => {
  let known = 'none'
  let given = [] // names
  return () => {
    const { version, text } = read(file)
    if (version === known) return
    for (const name of given) {
      if (name in ofBuild) process.env[name] = ofBuild[name]
      else delete process.env[name]
    }
    const entries = text().split('\0').filter((entry) => entry.indexOf('=') > 0).map((entry) => [entry.slice(0, entry.indexOf('=')), entry.slice(entry.indexOf('=') + 1)])
    for (const [name, value] of entries) process.env[name] = value
    given = entries.map(([name]) => name)
    known = version
  }
}
