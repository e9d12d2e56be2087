"""Cells of the user's, run by a shell that is started again when it ends, and their output as messages."""

import codecs
import os
import re
import subprocess
import threading

from shell import Shell, ShellEnded

LINES_APART_MAX = 1000  # lines of a cell that are messages of their own; later lines may share a message
CHUNK_BYTES_MAX = 65536  # also of a line that does not end
WORD = re.compile(r"[^\s\"'`;|&<>()=]*$")


class Output:
    """Bytes of the terminal to stream messages: one for each line."""

    def __init__(self, send):
        self.send = send
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = ""
        self.lines = 0

    def add(self, data):
        self.text += self.decoder.decode(data)
        end = self.text.rfind("\n") + 1
        complete, self.text = self.text[:end], self.text[end:]
        if complete and self.lines > LINES_APART_MAX:
            self.send(complete)
        else:
            for line in re.findall(r"[^\n]*\n", complete):
                self.send(line)
                self.lines += 1
        if len(self.text) > CHUNK_BYTES_MAX:
            self.flush()

    def flush(self):
        """Sends what has no end of line yet."""
        if self.text:
            self.send(self.text)
            self.text = ""

    def end(self):
        self.text += self.decoder.decode(b"", final=True)
        self.flush()


class Cells:
    def __init__(self, wire):
        self.wire = wire
        self.is_ending = False  # the kernel, and bash with it
        self.starting = threading.Lock()  # for `shell`, which the control thread interrupts
        self.shell = Shell()
        self.parent = None
        self.idle = Output(self._send)

    @property
    def terminal(self):
        return self.shell.terminal

    def _send(self, text):
        self.wire.publish("stream", self.parent, {"name": "stdout", "text": text})

    def run(self, request, code):
        """None, or what is wrong: the status as text."""
        self.parent = request
        self.idle.end()
        stripped = code.rstrip()
        if (len(stripped) - len(stripped.rstrip("\\"))) % 2:
            return "Cell has trailing backslash"
        if "\0" in code:
            return "Cell has a NUL character"
        output = Output(self._send)
        try:
            status = self.shell.run(code.encode("utf-8", "surrogatepass"), output.add, output.flush)
        except ShellEnded as ended:
            status = ended.status
            output.end()
            self._start_again(status)
        output.end()
        return str(status) if status else None

    def _start_again(self, status):
        if self.is_ending:
            return
        old = self.shell
        self.wire.publish("stream", self.parent, {
            "name": "stderr",
            "text": f"bash has ended with status {status}. A new one has its directory and its exported variables.\n",
        })
        directory = old.directory if old.directory and os.path.isdir(old.directory) else None
        with self.starting:
            self.shell = Shell(directory=directory, restored=old.exported)
        old.close()

    def forward_idle_output(self, is_there):
        """Output of background jobs while no cell runs."""
        if not is_there:
            return
        data = self.shell.idle_output()
        if data:
            self.idle.add(data)
            self.idle.flush()
        elif self.shell.process.poll() is not None:
            self._start_again(self.shell.process.returncode)

    def interrupt(self):
        with self.starting:
            self.shell.interrupt()

    def hang_up(self):
        self.is_ending = True
        self.shell.hang_up()

    def _capture(self, code):
        """Output of code that is not the user's."""
        parts = []
        try:
            status = self.shell.run(code.encode("utf-8", "surrogatepass"), parts.append)
        except ShellEnded as ended:
            status = ended.status
            self._start_again(status)
        return status, b"".join(parts).decode("utf-8", "replace")

    def evaluate(self, request, text):
        """A user expression: the value is what it prints."""
        self.parent = request
        status, output = self._capture(str(text))
        if status:
            return {"status": "error", "ename": "", "evalue": str(status), "traceback": []}
        return {"status": "ok", "data": {"text/plain": output}, "metadata": {}}

    def complete(self, code, position):
        before = code if position is None else code[:position]
        word = WORD.search(before).group()
        quoted = "'" + word.replace("'", "'\\''") + "'"
        matches = []
        if word.startswith("$"):
            _, output = self._capture(f"compgen -v -- '{re.sub(r'[^A-Za-z0-9_]', '', word)}'")
            matches = ["$" + name for name in output.split("\n") if name and not name.startswith("__sandglass")]
        elif word:
            _, output = self._capture(f"compgen -A function -A alias -A builtin -A keyword -c -f -- {quoted}")
            matches = [name for name in output.split("\n") if name]
        return {
            "status": "ok", "matches": sorted(set(matches)), "metadata": {},
            "cursor_start": len(before) - len(word), "cursor_end": len(before),
        }

    def inspect(self, code, position):
        position = len(code) if position is None else position
        word = re.search(r"[\w.+:@-]*$", code[:position]).group() + re.match(r"[\w.+:@-]*", code[position:]).group()
        status, output = self._capture(f"type -- '{word}' 2>/dev/null; help -- '{word}' 2>/dev/null") if word else (1, "")
        if not output:
            return {"status": "ok", "found": False, "data": {}, "metadata": {}}
        return {"status": "ok", "found": True, "data": {"text/plain": output}, "metadata": {}}

    def is_complete(self, code):
        if code.rstrip(" \t\n").endswith("\\"):
            return {"status": "incomplete", "indent": ""}
        checked = subprocess.run(["/bin/bash", "-n"], input=code.encode("utf-8", "replace"), stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, check=False)
        errors = checked.stderr.decode("utf-8", "replace")
        if "unexpected end of file" in errors or "unexpected EOF" in errors or "delimited by end-of-file" in errors:
            return {"status": "incomplete", "indent": ""}
        return {"status": "invalid"} if checked.returncode else {"status": "complete"}
