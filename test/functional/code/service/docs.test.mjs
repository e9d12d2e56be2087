// docs/code.md is true: its programs run as they stand, on the template of the code interpreter.
import { codeSuite } from '../../lib/code/suite.mjs'
import { testPage } from '../../docs/snippets.mjs'

const { server } = await codeSuite()
testPage('code.md', () => server)
