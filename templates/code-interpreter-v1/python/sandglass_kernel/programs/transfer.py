"""Moves text between a running program and the kernel."""

import codecs
import os
import select
import signal
import subprocess

READ_BYTES = 64 << 10
# How often the end of a program is looked for, while it prints nothing.
LOOK_MILLISECONDS = 50
# What an interrupted program gets, and how long it may take to end after each signal.
LAST_SIGNALS = ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 10))


def transfer(process, outputs, input_file=None, input_bytes=b""):
    """Gives the input to the program and its output to functions, until the program ends.

    outputs: {file descriptor: function that takes text}. If a function waits, the program waits too. Does not wait for programs in
    the background that keep the output open. If anything raises, for example KeyboardInterrupt, the program and everything that it
    started ends first.
    """
    try:
        _move(process, {output: _Decoder(take) for output, take in outputs.items()}, input_file, memoryview(input_bytes))
    except BaseException:
        end(process)
        raise


class _Decoder:
    def __init__(self, take):
        self._take = take
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def take(self, data):
        text = self._decoder.decode(data, not data)
        if text:
            self._take(text)


def _move(process, outputs, input_file, data):
    poll = select.poll()
    open_outputs = set(outputs)
    for output in open_outputs:
        poll.register(output, select.POLLIN)
    if input_file is not None:
        os.set_blocking(input_file.fileno(), False)
        poll.register(input_file, select.POLLOUT)
    while open_outputs or process.poll() is None:
        # Asked before the look at the output: what an ended program printed is there by now.
        has_ended = process.poll() is not None
        ready = dict(poll.poll(0 if has_ended else LOOK_MILLISECONDS))
        for output in open_outputs & ready.keys():
            chunk = _read(output)
            outputs[output].take(chunk)
            if not chunk:
                poll.unregister(output)
                open_outputs.discard(output)
        if input_file is not None and input_file.fileno() in ready:
            data = _write(input_file.fileno(), data)
            if not data:
                poll.unregister(input_file)
                input_file.close()
                input_file = None
        if has_ended and not ready:
            break
    for output in open_outputs:
        outputs[output].take(b"")


def _read(output):
    try:
        return os.read(output, READ_BYTES)
    except OSError:
        # The last program closed the terminal.
        return b""


def _write(descriptor, data):
    """What remains to be written; nothing if the program does not read any more."""
    try:
        return data[os.write(descriptor, data[:READ_BYTES]) :]
    except BlockingIOError:
        return data
    except OSError:
        return data[:0]


def end(process):
    """Ends the program and everything that it started."""
    for number, seconds in LAST_SIGNALS:
        try:
            os.killpg(process.pid, number)
        except OSError:
            pass
        try:
            process.wait(seconds)
            return
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            pass
