// Waiting for a condition of the outside world: nothing sends us an event when a process, a mount or a cgroup goes.

import fs from 'node:fs'

export class Late extends Error {}

/** Ask until `question` answers something true; its answer is returned.  Throws Late with `what` at the deadline.
 *  firstPauseMs: before it is asked again; later pauses are longer, up to 50 ms. */
export async function until(what, question, deadlineMs = 60_000, firstPauseMs = 2) {
  const end = performance.now() + deadlineMs
  for (let pause = firstPauseMs; ; pause = Math.min(pause * 2, 50)) {
    const answer = await question()
    if (answer) return answer
    if (performance.now() > end) throw new Late(`not within ${deadlineMs} ms: ${typeof what === 'function' ? what() : what}`)
    await new Promise((done) => setTimeout(done, pause))
  }
}

/** What `promise` gives.  Throws Late with `what` when the promise takes longer. */
export async function within(what, promise, deadlineMs = 60_000) {
  let timer
  const late = new Promise((_, fail) => {
    timer = setTimeout(() => fail(new Late(`not within ${deadlineMs} ms: ${typeof what === 'function' ? what() : what}`)), deadlineMs)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The writing end of a named pipe, as soon as a process reads there.  An open() that waits by itself could never be given up. */
export function openWhenRead(fifo) {
  const open = () => fs.promises.open(fifo, fs.constants.O_WRONLY | fs.constants.O_NONBLOCK).catch(() => null)
  return until(`a process that waits at ${fifo}`, open, 60_000)
}
