// Runs functions by name and prints TAP.
'use strict'

function run(tests) {
  const names = Object.keys(tests)
  console.log(`1..${names.length}`)
  names.forEach((name, i) => {
    try {
      tests[name]()
      console.log(`ok ${i + 1} - ${name}`)
    } catch (error) {
      process.exitCode = 1
      console.log(`not ok ${i + 1} - ${name}\n${String(error.stack).replace(/^/gm, '# ')}`)
    }
  })
}

module.exports = { run }
