"""One interactive bash on a terminal of its own, which runs cells.

bash reads commands from a pipe, not from the terminal: nothing is echoed, and no prompt is parsed. For each cell the pipe gets two
lines. The first line evaluates the cell, whose text is in a memory file. The second line reports the cell's status: SIGINT throws
bash out of the first line only. When another SIGINT throws bash out of the second line too, the line is sent again. Reports go
through another pipe. A mark goes through the terminal: everything before the mark is output of the cell. Marks are random, so no
output can look like one.
"""

import fcntl
import os
import select
import signal
import struct
import subprocess
import termios
import threading
import time

CODE_FD, REPORT_FD, TERMINAL_FD = 252, 253, 254  # in bash; 255 is bash's own
READ_BYTES = 65536
IDLE_S = 0.05  # what was printed without an end of line is shown after this time
REPORT_WAIT_S = 0.5  # how long a report may take
MARK_WAIT_S = 1.0  # how long a mark may come after its report
INTERRUPTS_AGAIN = 5
HANG_UP_S = 1.5  # how long bash may take to end
TIOCSIG = 0x40045436
FOLDER = os.path.dirname(os.path.abspath(__file__))

# When bash ends, the kernel starts another one with the same directory and the same exported variables: bash reports both at the end of
# each cell, and (startup.bash) when it ends by itself.
SAVE = "{ \\builtin printf 'variables '; \\builtin declare -xp; \\builtin declare -xfp; \\builtin printf '\\0directory %s\\0' \"$PWD\"; }"
# What `set -x` and `set -v` would show of these lines is kept from the user: both are off while no cell runs, and so is the prompt.
# Backslashes: no alias is used. There is no function of ours that user code could remove.
BEGIN = (
    "\\unset __sandglass_status __sandglass_reported",
    f"__sandglass_cell=$(</proc/self/fd/{CODE_FD})",
    "PS1=${__sandglass_ps1-}",
    "\\builtin eval \"${__sandglass_flags:+set -$__sandglass_flags;}$__sandglass_cell\" </dev/null",
    "{ __sandglass_status=$? __sandglass_flags=${-//[!xv]}; \\builtin set +xv; } 2>/dev/null",
    "__sandglass_ps1=${PS1-} PS1= PS2=",
    "\\unset PROMPT_COMMAND __sandglass_cell 2>/dev/null\n",
)
REPORT = (
    f"\\builtin printf '@MARK@' >&{TERMINAL_FD}",
    f"{SAVE} >&{REPORT_FD} 2>/dev/null",
    f"\\builtin printf 'done @CELL@ %s\\0' \"${{__sandglass_status:-$__sandglass_last}}\" >&{REPORT_FD}",
    "__sandglass_reported=@CELL@",
)
RUN = "; ".join(BEGIN)
END = "{ __sandglass_last=$?; [[ $- != *[xv]* ]] || __sandglass_flags=${-//[!xv]}; \\builtin set +xv; } 2>/dev/null; " \
    "[[ ${__sandglass_reported-} == @CELL@ ]] || { " + "; ".join(REPORT) + "; }\n"


class ShellEnded(Exception):
    """bash has ended; `status` is its exit code."""

    def __init__(self, status):
        super().__init__(f"bash ended with status {status}")
        self.status = status


class Shell:
    def __init__(self, directory=None, restored=b""):
        """Starts bash. `restored`: code that runs first; what it prints, and what bash prints at its start, is discarded."""
        self.cell = 0
        self.code_fd = os.memfd_create("cell", 0)
        self.report_fd, report_write = os.pipe()
        command_read, self.command_fd = os.pipe()
        self.terminal, slave = os.openpty()
        try:
            self.process = self._start(command_read, report_write, slave, directory)
        finally:
            for fd in (command_read, report_write, slave):
                os.close(fd)
        os.set_blocking(self.terminal, False)
        os.set_blocking(self.report_fd, False)
        self.reports = b""
        self.is_running = False
        self.status = 0
        self.exported = b""  # when bash ends: declarations of its exported variables, as code
        self.directory = None  # and its working directory
        self.run(restored, lambda output: None)

    def _start(self, command_read, report_write, slave, directory):
        moves = ((self.code_fd, CODE_FD), (report_write, REPORT_FD), (slave, TERMINAL_FD))

        def prepare():  # in the child
            for fd, number in moves:
                os.dup2(fd, number, inheritable=True)
            os.closerange(3, CODE_FD)
            fcntl.ioctl(TERMINAL_FD, termios.TIOCSCTTY, 0)
            signal.signal(signal.SIGINT, signal.SIG_DFL)

        set_terminal_modes(slave)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        return subprocess.Popen(
            ["/bin/bash", "--noprofile", "--noediting", "--rcfile", os.path.join(FOLDER, "startup.bash"), "-i"],
            stdin=command_read, stdout=slave, stderr=slave, preexec_fn=prepare, start_new_session=True, cwd=directory,
            close_fds=False)  # prepare() closes them

    def run(self, code, on_output, on_idle=None):
        """Runs the code and returns its status, which is 130 after an interrupt. Raises ShellEnded.

        `on_output` gets bytes as they come, `on_idle` is called when nothing came for a moment.
        """
        self.cell += 1
        set_terminal_modes(self.terminal)
        self._write_code(code)
        mark = f"\x1b_sandglass {os.urandom(16).hex()}\x1b\\".encode()
        self.is_running = True
        try:
            self.read_since = None
            self._send(RUN + END, mark)
            return self._wait(mark, on_output, on_idle)
        finally:
            self.is_running = False

    def _write_code(self, code):
        os.ftruncate(self.code_fd, 0)
        at = 0
        while at < len(code):
            at += os.pwrite(self.code_fd, code[at:at + 1048576], at)

    def _send(self, text, mark):
        text = text.replace("@MARK@", mark.decode().replace("\\", "\\\\").replace("\x1b", "\\e")).replace("@CELL@", str(self.cell))
        try:
            os.write(self.command_fd, text.encode())
        except BrokenPipeError:
            pass  # bash has ended: _wait finds out

    def _is_report_lost(self):
        """Whether bash has read the line that reports, a while ago: SIGINT has thrown it out of that line too."""
        now = time.monotonic()
        if struct.unpack("i", fcntl.ioctl(self.command_fd, termios.FIONREAD, b"\0" * 4))[0]:
            self.read_since = None
        elif self.read_since is None:
            self.read_since = now
        elif now - self.read_since > REPORT_WAIT_S:
            self.read_since = None
            return True
        return False

    def _wait(self, mark, on_output, on_idle):
        held, status, deadline, has_mark = b"", None, None, False
        while not (has_mark and status is not None):
            timeout = IDLE_S if deadline is None else max(deadline - time.monotonic(), 0)
            readable, _, _ = select.select([self.terminal, self.report_fd], [], [], timeout)
            data = self._read(self.terminal) if self.terminal in readable else b""
            if data:
                held, has_mark = self._pass_on(held + data, mark, has_mark, on_output)
            elif deadline is not None and time.monotonic() >= deadline:
                break  # somebody took the mark away: another terminal mode, another reader
            elif not readable and on_idle:
                on_idle()
            if status is None and not data and self._is_report_lost():
                self._send(END, mark)
            if self.report_fd in readable and self._take_reports():
                status = self.status
                deadline = time.monotonic() + MARK_WAIT_S
            elif not data and self.process.poll() is not None:
                self._end(held, mark, has_mark, on_output)
        return status

    def _end(self, held, mark, has_mark, on_output):
        """bash has ended: takes what it left."""
        for data in iter(lambda: self._read(self.terminal), b""):
            held, has_mark = self._pass_on(held + data, mark, has_mark, on_output)
        if held:
            on_output(held)
        self._take_reports()
        raise ShellEnded(exit_code(self.process.returncode))

    def _pass_on(self, data, mark, has_mark, on_output):
        """Gives output to the callback, but not the mark, nor what may be the beginning of it."""
        if has_mark:
            data = data.replace(mark, b"")  # of a second report
            if data:
                on_output(data)
            return b"", True
        at = data.find(mark)
        if at >= 0:
            if at:
                on_output(data[:at])
            if data[at + len(mark):]:
                on_output(data[at + len(mark):])
            return b"", True
        keep = 0
        start = data.rfind(b"\x1b_", max(0, len(data) - len(mark)))
        if start >= 0 and mark.startswith(data[start:]):
            keep = len(data) - start
        elif data.endswith(b"\x1b"):
            keep = 1
        if len(data) > keep:
            on_output(data[:len(data) - keep])
        return data[len(data) - keep:], False

    def _read(self, fd):
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            return b""
        except OSError:  # EIO: nobody has the terminal open
            return b""

    def _take_reports(self):
        """Whether there is a report about the current cell; its status is in `status` then."""
        for data in iter(lambda: self._read(self.report_fd), b""):
            self.reports += data
        *complete, self.reports = self.reports.split(b"\0")
        is_done = False
        for report in complete:
            kind, _, rest = report.partition(b" ")
            if kind == b"variables":
                self.exported = rest
            elif kind == b"directory":
                self.directory = os.fsdecode(rest)
            elif kind == b"done" and rest.startswith(b"%d " % self.cell):
                self.status = int(rest.split(b" ")[1])
                is_done = True
        return is_done

    def idle_output(self):
        """What background jobs wrote while no cell ran."""
        return self._read(self.terminal)

    def interrupt(self, again=INTERRUPTS_AGAIN):
        """Ctrl-C: a signal for the foreground of the terminal.

        The signal may be lost: its program was ending, or bash had just started a program that was not in the foreground yet, or
        had not become that program yet. So another one is sent when the cell still runs a moment later, unless the foreground is a
        program that handles or ignores the signal: that program has it, and does with it what it wants.
        """
        try:
            target = os.tcgetpgrp(self.terminal)
            fcntl.ioctl(self.terminal, TIOCSIG, signal.SIGINT)
        except OSError:
            return  # bash has ended
        if again and self.is_running:
            timer = threading.Timer(IDLE_S * 4, self._interrupt_again, (self.cell, target, again - 1))
            timer.daemon = True
            timer.start()

    def _interrupt_again(self, cell, target, again):
        if not self.is_running or self.cell != cell:
            return
        try:
            is_same = os.tcgetpgrp(self.terminal) == target
        except OSError:
            return  # bash has ended
        if not is_same or target == self.process.pid or not handles_interrupts(target):
            self.interrupt(again)

    def hang_up(self):
        """Ends bash and its jobs, as a terminal does that is closed. Bash needs its terminal until it has ended its jobs."""
        try:
            os.killpg(self.process.pid, signal.SIGHUP)
            fcntl.ioctl(self.terminal, TIOCSIG, signal.SIGHUP)
        except OSError:
            pass  # bash has ended
        end = time.monotonic() + HANG_UP_S
        while self.process.poll() is None and time.monotonic() < end:
            time.sleep(0.01)

    def close(self):
        for fd in (self.command_fd, self.terminal, self.report_fd, self.code_fd):
            os.close(fd)
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGHUP)
            try:
                self.process.wait(1)
            except subprocess.TimeoutExpired:
                self.process.kill()
        self.process.wait()


def set_terminal_modes(fd):
    """No echo, and output as it is written: no carriage return before each line's end."""
    modes = termios.tcgetattr(fd)
    modes[0] &= ~(termios.INLCR | termios.IGNCR | termios.IXON)
    modes[1] &= ~termios.OPOST
    modes[3] = (modes[3] | termios.ISIG | termios.ICANON) & ~(termios.ECHO | termios.ECHONL | termios.TOSTOP)
    termios.tcsetattr(fd, termios.TCSANOW, modes)


def handles_interrupts(pid):
    """Whether a process handles or ignores SIGINT."""
    try:
        with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as status:
            masks = [int(line.split()[1], 16) for line in status if line.startswith(("SigIgn:", "SigCgt:"))]
    except OSError:
        return False  # the process has ended
    return any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)


def exit_code(returncode):
    return returncode if returncode >= 0 else 128 - returncode
