// A sandbox whose memory and files can be compared: inside it runs generation.py.
import fs from 'node:fs'

import { startReady } from './inside.mjs'

const program = fs.readFileSync(new URL('../inside/generation.py', import.meta.url), 'utf8')

/** Start the program. */
export async function holdGeneration(sandbox) {
  await sandbox.files.write('generation.py', program)
  await startReady(sandbox, 'exec python3 generation.py')
  return getGeneration(sandbox)
}

async function ask(sandbox, question) {
  const { stdout } = await sandbox.commands.run(`exec 3<>/dev/tcp/127.0.0.1/8123; echo ${question} >&3; cat <&3`)
  const [nonce, memory, file] = stdout.trim().split(' ')
  return { nonce, memory: Number(memory), file: Number(file) }
}

export const setGeneration = (sandbox, number) => ask(sandbox, `set ${number}`)

/** {nonce, memory, file}; without the program {file}: it was begun anew from its files. */
export async function getGeneration(sandbox) {
  const { stdout } = await sandbox.commands.run("pgrep -f '[g]eneration.py' >/dev/null && echo runs; head -c 8 generation")
  const [, runs, file] = /^(runs\n)?(.*)$/s.exec(stdout)
  return runs ? ask(sandbox, 'get') : { file: Number(file) }
}
