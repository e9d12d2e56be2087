// Debian's Chromium, headless, with a profile and a certificate store of its own.
import { spawnSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'

import { chromium } from 'playwright-core'

import { temporaryDir } from './server.mjs'

const executablePath = '/usr/bin/chromium'
const args = ['--headless=new', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking']
args.push('--disable-component-update', '--disable-sync')

/** A browser that trusts this authority, as a user's does after certutil: {newPage, close}, Playwright's pages. */
export async function openBrowser(caFile) {
  const dir = temporaryDir('browser')
  const store = path.join(dir, '.pki', 'nssdb')
  fs.mkdirSync(store, { recursive: true })
  const added = spawnSync('certutil', ['-d', `sql:${store}`, '-A', '-t', 'C,,', '-n', 'sandglass', '-i', caFile], { encoding: 'utf8' })
  if (added.status !== 0) throw new Error(`certutil: ${added.error?.message ?? added.stderr}`)
  const env = { PATH: process.env.PATH, HOME: dir }
  const browser = await chromium.launchPersistentContext(path.join(dir, 'profile'), { executablePath, args, env, headless: true })
  const close = async () => {
    await browser.close()
    fs.rmSync(dir, { recursive: true, force: true, maxRetries: 5 }) // its last children may still be writing
  }
  return { newPage: () => browser.newPage(), close }
}
