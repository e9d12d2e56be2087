// Preload for the TLS suites: names below the server's domain are this machine, as a wildcard DNS record would say.
// Only the resolver is told; the client under test is untouched.
import dns from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'

const suffix = '.' + (process.env.SANDGLASS_TEST_NAMES ?? 'localhost')
const isOurs = (name) => name === suffix.slice(1) || name.endsWith(suffix)
const real = dns.lookup

dns.lookup = function lookup(name, options, callback) {
  if (typeof options === 'function') [options, callback] = [{}, options]
  if (!isOurs(String(name).toLowerCase())) return real.call(dns, name, options, callback)
  if (options?.all) process.nextTick(callback, null, [{ address: '127.0.0.1', family: 4 }])
  else process.nextTick(callback, null, '127.0.0.1', 4)
}
syncBuiltinESMExports()
