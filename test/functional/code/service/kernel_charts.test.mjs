// test/interpreter/charts, in a sandbox of the template.
import { testKernel } from '../../lib/code/kernel_tests.mjs'

await testKernel('charts')
