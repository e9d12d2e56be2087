// Numbers that both threads see: indexes of one Int32Array.
'use strict'
module.exports = {
  CONSUMED: 0, // how much output peers have read, modulo 2^32
  FLUSHED: 1, // 1: everything has left the process
  INTERRUPTS_DONE: 2, // number of the last interrupt after which the main thread had nothing to run any more
  IN_SCRIPT: 3, // whether the main thread runs a script that SIGINT ends: one of the following
  LENGTH: 4,
  OUTSIDE: 0,
  INSIDE: 1,
  SIGNALLED: 2, // it does, and SIGINT is on its way
}
