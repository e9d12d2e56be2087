// `sandglass mcp` with the official client, as assistants start it: by stdio or by HTTP.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import fs from 'node:fs'
import { createInterface } from 'node:readline'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

import { binary } from './server.mjs'

const noServers = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^(E2B_|SANDGLASS_DATA)/.test(name)))

/** A client's `tool(name, args, options)`: the result, with its text and its facts. */
function caller(client) {
  return async (name, args = {}, options) => {
    const result = await client.callTool({ name, arguments: args }, undefined, { timeout: 240_000, ...options })
    return { ...result, text: result.content.find((one) => one.type === 'text')?.text, facts: result.structuredContent }
  }
}

/** An assistant: what `entry` of a configuration names is started, and spoken to on stdin and stdout. */
export async function assistant(entry, { env = {} } = {}) {
  const transport = new StdioClientTransport({ ...entry, env: { ...noServers, ...env, ...entry.env }, stderr: 'pipe' })
  const client = new Client({ name: 'test', version: '1' })
  let words = ''
  transport.stderr.on('data', (piece) => (words += piece))
  await client.connect(transport)
  return { client, tool: caller(client), pid: transport.pid, words: () => words, close: () => client.close() }
}

/** The program by itself, lines in and lines out; `next()` is the next message. */
export function bare(args, options = {}) {
  const child = spawn(binary, ['mcp', ...args], { env: { ...noServers, ...options.env }, stdio: ['pipe', 'pipe', 'pipe'] })
  let lines // stdout is not read before the first next()
  let words = ''
  child.stderr.setEncoding('utf8').on('data', (piece) => (words += piece))
  const ended = new Promise((done) => child.once('close', (code, signal) => done({ code, signal, words })))
  return {
    child,
    ended,
    write: (text) => child.stdin.write(text),
    send: (...messages) => child.stdin.write(messages.map((one) => `${JSON.stringify(one)}\n`).join('')),
    next: async () => {
      lines ??= createInterface({ input: child.stdout })[Symbol.asyncIterator]()
      const { value, done } = await lines.next()
      assert.ok(!done, `no message any more: ${words}`)
      return JSON.parse(value)
    },
    end: () => (child.stdin.end(), ended),
  }
}

/** `sandglass mcp --http`: its address, its token, clients of it. */
export async function byHttp(args, { env = {} } = {}) {
  const child = spawn(binary, ['mcp', '--http', '127.0.0.1:0', ...args], { env: { ...noServers, ...env }, stdio: ['ignore', 'inherit', 'pipe'] })
  const lines = createInterface({ input: child.stderr })[Symbol.asyncIterator]()
  const url = (await lines.next()).value
  const file = (await lines.next()).value.match(/the text of (.*)$/)[1]
  const token = fs.readFileSync(file, 'utf8').trim()
  return {
    url, token, file, child,
    connect: async (bearer = token) => {
      const client = new Client({ name: 'test', version: '1' })
      const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${bearer}` } } })
      await client.connect(transport)
      return { client, transport, tool: caller(client), close: async () => (await transport.terminateSession(), client.close()) }
    },
    stop: () => {
      const ended = new Promise((done) => child.once('exit', (code, signal) => done({ code, signal })))
      child.kill('SIGTERM')
      return ended
    },
  }
}
