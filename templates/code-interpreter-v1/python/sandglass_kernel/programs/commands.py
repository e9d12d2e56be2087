"""Commands that code starts with an exclamation mark: !pwd"""

import fcntl
import os
import shutil
import struct
import subprocess
import sys
import termios

from .transfer import transfer

# What programs believe to be the size of their terminal.
ROWS, COLUMNS = 50, 200


def run(command):
    """Runs the command in a shell and prints its output while it runs. Returns its exit status, negative for a signal.

    The command has a terminal for its output, so that programs print line by line, and an empty input.
    """
    sys.stdout.flush()
    output, terminal = _open_terminal()
    try:
        process = subprocess.Popen(
            [_shell(), "-c", command], stdin=subprocess.DEVNULL, stdout=terminal, stderr=terminal, start_new_session=True
        )
        os.close(terminal)
        terminal = None
        transfer(process, {output: sys.stdout.write})
    finally:
        os.close(output)
        if terminal is not None:
            os.close(terminal)
    status = process.wait()
    # A shell reports the signal that ended its last command this way.
    return -(status - 128) if status > 128 else status


def _shell():
    for name in (os.environ.get("SHELL"), "bash", "sh"):
        path = name and shutil.which(name)
        if path:
            return path
    raise OSError("no shell found")


def _open_terminal():
    """Where the output is read, and where the command writes it."""
    try:
        output, terminal = os.openpty()
    except OSError:
        # No terminals here. The output arrives all the same, but perhaps late: many programs write whole blocks into a pipe.
        return os.pipe()
    attributes = termios.tcgetattr(terminal)
    # Newlines stay newlines.
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    return output, terminal
