// The gate before VS Code: lets in who knows the token of this sandbox.
//
// The token is the text of a file.  The file is read at each request, since the template is saved while this program runs, and each
// sandbox gets a token of its own later.  Without the file nobody gets in.  A visit with ?tkn=TOKEN gets a cookie, and goes on at the
// same address without the token.
'use strict'
const { createHash, createHmac, timingSafeEqual } = require('node:crypto')
const fs = require('node:fs')
const http = require('node:http')

const tokenBytesMax = 4096
const cookieName = 'sandglass-code'

/** null: there is none. */
function readToken(file) {
  let fd
  try {
    fd = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
    const bytes = Buffer.alloc(tokenBytesMax + 1)
    const count = fs.readSync(fd, bytes)
    return count > tokenBytesMax ? null : bytes.toString('utf8', 0, count).trim() || null
  } catch {
    return null
  } finally {
    if (fd !== undefined) fs.closeSync(fd)
  }
}

const digest = (text) => createHash('sha256').update(text).digest()
/** In a time that says nothing about either text. */
const isSame = (a, b) => timingSafeEqual(digest(a), digest(b))

/** What the cookie says: made of the token, and not the token. */
const cookieOf = (token) => createHmac('sha256', token).update('VS Code of a sandbox').digest('hex')

/** {path, tkn: the values of this parameter, rest: the address without it}.  The address stays on this host. */
function splitAddress(url) {
  const at = url.indexOf('?')
  const path = at < 0 ? url : url.slice(0, at)
  const parts = at < 0 ? [] : url.slice(at + 1).split('&')
  const isToken = (part) => part.split('=', 1)[0] === 'tkn'
  const others = parts.filter((part) => !isToken(part)).join('&')
  const tkn = new URLSearchParams(parts.filter(isToken).join('&')).getAll('tkn')
  return { tkn, rest: `/${path.replace(/^[/\\]+/, '')}${others && `?${others}`}` }
}

const cookies = (request) => (request.headers.cookie ?? '').split(';').map((pair) => pair.trim()).filter(Boolean)
const isOurs = (pair) => pair.startsWith(`${cookieName}=`)

const hasCookie = (request, token) => cookies(request).some((pair) => isOurs(pair) && isSame(pair.slice(cookieName.length + 1), cookieOf(token)))

/** Programs behind VS Code see the cookies of a request, too. */
function dropCookie(request) {
  const others = cookies(request).filter((pair) => !isOurs(pair))
  if (others.length) request.headers.cookie = others.join('; ')
  else delete request.headers.cookie
}

/** A page of another site may make a browser send the cookie, but only with the name of that site. */
function isOfThisSite(request) {
  const { origin } = request.headers
  if (origin === undefined) return true
  try {
    return new URL(origin).host === (request.headers['x-forwarded-host'] ?? request.headers.host)
  } catch {
    return false
  }
}

/** Does the request have what it needs to go on? */
function mayPass(request, token) {
  if (token === null || !hasCookie(request, token) || !isOfThisSite(request)) return false
  dropCookie(request)
  return true
}

/** An embedded page gets the cookie only so; a browser takes it so only by https. */
const cookieRules = (request) => (request.headers['x-forwarded-proto'] === 'https' ? 'SameSite=None; Secure; Partitioned' : 'SameSite=Lax')

function enter(request, response, token, rest) {
  response.writeHead(303, {
    Location: rest,
    'Set-Cookie': `${cookieName}=${cookieOf(token)}; Path=/; HttpOnly; ${cookieRules(request)}`,
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
  }).end()
}

const page = `<!doctype html>
<html lang="en"><meta charset="utf-8"><title>VS Code: token needed</title>
<body style="font: 1rem system-ui; margin: 4rem">
<form><label>Token of this sandbox: <input name="tkn" type="password" autocomplete="off" autofocus></label> <button>Open VS Code</button></form>
`

function refuse(request, response) {
  const isPage = /\btext\/html\b/.test(request.headers.accept ?? '')
  const text = isPage ? page : 'The token of this sandbox is needed: ?tkn=TOKEN\n'
  response.writeHead(401, {
    'Content-Type': `${isPage ? 'text/html' : 'text/plain'}; charset=utf-8`,
    'Content-Length': Buffer.byteLength(text),
    'Cache-Control': 'no-store',
    'Referrer-Policy': 'no-referrer',
    Connection: 'close', // whatever body there is is not read
  }).end(request.method === 'HEAD' ? undefined : text)
}

/** A server that hands to `inner`, another server of this process, what may pass; `onPass` is called before. */
exports.makeGate = (inner, tokenFile, onPass = () => {}) => {
  const gate = http.createServer((request, response) => {
    const token = readToken(tokenFile)
    const { tkn, rest } = splitAddress(request.url)
    if (tkn.length > 0) {
      const isKnown = token !== null && tkn.length === 1 && isSame(tkn[0], token)
      return isKnown && ['GET', 'HEAD'].includes(request.method) ? enter(request, response, token, rest) : refuse(request, response)
    }
    if (!mayPass(request, token)) return refuse(request, response)
    onPass()
    inner.emit('request', request, response)
  })
  gate.on('upgrade', (request, socket, head) => {
    socket.on('error', () => socket.destroy())
    if (!mayPass(request, readToken(tokenFile))) return socket.end('HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n\r\n')
    onPass()
    inner.emit('upgrade', request, socket, head)
  })
  return gate
}
