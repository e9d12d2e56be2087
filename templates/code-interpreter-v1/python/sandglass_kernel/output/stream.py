"""sys.stdout and sys.stderr of the kernel."""

import codecs
import fcntl
import io
import os
import select
import sys
import termios
import threading
import time

from ipykernel.iostream import OutStream

# The longest text of one message, in characters.
PIECE = 64 << 10
# Texts are sent after this time, so that many short lines become one message.
SEND_SECONDS = 0.02
# print() writes a text and its newline separately. A thread between the two gets this time, if it writes nothing meanwhile,
PRINT_SECONDS = 2.0
# and this time, if it writes again and again.
BUSY_SECONDS = 0.5
# How often a thread that prints looks into the pipe of other programs. No program starts and prints in less time.
LOOK_SECONDS = 0.0003
# How long flush() waits for the thread that sends. What it hands over is sent in any case.
FLUSH_SECONDS = 1.0


class _Process:
    """Whether this is a process that the code forked. A question to the system at every print would take longer than the rest."""

    is_child = False


def _after_fork():
    _Process.is_child = True


os.register_at_fork(after_in_child=_after_fork)


class KernelStream(OutStream):
    """Text for the client. A thread that prints faster than the client reads waits.

    What other programs write to the file descriptor (os.system, subprocess) arrives in a pipe, and joins the text in the order in
    which it was written.
    """

    def __init__(self, *args, **kwargs):
        self._texts = []
        self._texts_size = 0
        self._texts_parent = None
        self._first_write = 0.0
        self._last_write = 0.0
        self._last_look = 0.0
        self._writer = None
        self._seen_write = None
        self._timer_is_set = False
        self._taking = False
        self._line_of_child = ""
        self._pipe_lock = threading.RLock()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        super().__init__(*args, **kwargs)

    # --- the interface of a file

    def write(self, string):
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string).__name__}")
        sender = self.pub_thread
        if sender is None:
            raise ValueError("I/O operation on closed file")
        if _Process.is_child:
            self._write_in_child(string)
            return len(string)
        now = time.monotonic()
        if now - self._last_look > LOOK_SECONDS:
            self._last_look = now
            self._take_from_pipe()
        if not string.endswith(("\n", "\r")):
            frame = sys._getframe(1)
            self._writer = (threading.get_ident(), id(frame), frame.f_lasti)
        for start in range(0, len(string), PIECE):
            if sender.gate.is_full:
                sender.wait_for_room()
            self._append(string if len(string) <= PIECE else string[start : start + PIECE], now)
        return len(string)

    def flush(self):
        """Hands everything over to the thread that sends, and waits for it a little: the code may be about to crash.

        The kernel itself flushes to keep the order of messages. It need not wait, because all messages take the same queue.
        """
        if _Process.is_child:
            self._write_line_of_child(len(self._line_of_child))
        if self.pub_thread is None or _Process.is_child:
            return
        self._take_from_pipe()
        self._hand_over()
        if not sys._getframe(1).f_globals.get("__name__", "").startswith("ipykernel."):
            self.pub_thread.wait_until_sent(FLUSH_SECONDS)

    def fileno(self):
        """The file descriptor that programs inherit. What they write to it arrives here."""
        if self._should_watch:
            return self._original_stdstream_fd
        raise io.UnsupportedOperation("fileno")

    @property
    def buffer(self):
        """For bytes, as of the usual sys.stdout."""
        return _Bytes(self)

    @property
    def errors(self):
        return "replace"

    # --- what waits to become a message

    def _append(self, text, now):
        parent = self.parent_header
        with self._buffer_lock:
            if parent is not self._texts_parent:
                self._hand_over()
                self._texts_parent = parent
            if not self._texts:
                self._first_write = now
            self._texts.append(text)
            self._texts_size += len(text)
            self._last_write = now
            if self._texts_size >= PIECE:
                self._hand_over()
            elif not self._timer_is_set:
                self._timer_is_set = True
                self.pub_thread.schedule(self._set_timer)

    def _hand_over(self, only_lines=False):
        with self._buffer_lock:
            self._timer_is_set = False
            if not self._texts:
                return
            text = "".join(self._texts)
            parent = self._texts_parent
            self._texts.clear()
            self._texts_size = 0
            if only_lines:
                end = text.rfind("\n") + 1
                text, rest = text[:end], text[end:]
                self._texts.append(rest)
                self._texts_size = len(rest)
                self._first_write = self._last_write
            # The thread that sends is made for use after a fork; Session would refuse.
            self.session.pid = os.getpid()
            message = self.session.msg("stream", {"name": self.name, "text": text}, parent=parent)
            for hook in self._hooks:
                message = hook(message)
                if message is None:
                    return
            self.session.send(self.pub_thread, message, ident=self.topic)

    def _flush(self):
        """ipykernel's own name of this operation."""
        self._hand_over()

    # --- the timer, in the thread that sends

    def _set_timer(self):
        self._seen_write = None
        self._io_loop.call_later(SEND_SECONDS, self._on_timer)

    def _on_timer(self):
        with self._buffer_lock:
            if not self._texts:
                self._timer_is_set = False
            elif self._is_complete():
                self._hand_over()
            else:
                if any("\n" in text for text in self._texts):
                    self._hand_over(only_lines=True)
                    self._timer_is_set = True
                self._seen_write = self._last_write
                self._io_loop.call_later(SEND_SECONDS, self._on_timer)

    def _is_complete(self):
        """Whether the texts can be sent: they end with a line, or the thread that wrote them is no longer in that print()."""
        if self._texts[-1].endswith(("\n", "\r")) or not self._writer_is_at_work():
            return True
        now = time.monotonic()
        has_written_since = self._seen_write not in (None, self._last_write)
        return now - self._first_write > (BUSY_SECONDS if has_written_since else PRINT_SECONDS)

    def _writer_is_at_work(self):
        if self._writer is None:
            return False
        thread, frame_id, instruction = self._writer
        frame = sys._current_frames().get(thread)
        while frame is not None:
            if id(frame) == frame_id:
                return frame.f_lasti == instruction
            frame = frame.f_back
        return False

    # --- what arrives in the pipe

    def _watch_pipe_fd(self):
        """The thread that reads the pipe. It stops reading while there is no room, and then the writing programs wait."""
        poll = select.poll()
        poll.register(self._fid, select.POLLIN)
        try:
            while self._should_watch:
                poll.poll()
                if getattr(self, "pub_thread", None) is None:
                    time.sleep(0.01)
                    continue
                self.pub_thread.wait_for_room()
                self._take_from_pipe()
        except Exception:
            self._exc = sys.exc_info()

    def _take_from_pipe(self):
        """Appends what is in the pipe now. Any thread may call this, so that texts keep their order."""
        if not self._should_watch or not self._taking and not self._bytes_in_pipe():
            return
        with self._pipe_lock:
            self._taking = True
            try:
                waiting = self._bytes_in_pipe()
                while waiting > 0:
                    data = os.read(self._fid, min(waiting, PIECE))
                    waiting -= len(data)
                    text = self._decoder.decode(data)
                    if text:
                        self._writer = None
                        self._append(text, time.monotonic())
            finally:
                self._taking = False

    def _bytes_in_pipe(self):
        count = fcntl.ioctl(self._fid, termios.FIONREAD, b"\0\0\0\0")
        return int.from_bytes(count, sys.byteorder)

    def _write_in_child(self, string):
        """A process that the code forked has no thread that sends. Its file descriptor leads to the pipe of the kernel.

        print() writes a text and its newline separately: whole lines are passed on, so that lines of several processes stay whole.
        """
        self._line_of_child += string
        end = max(self._line_of_child.rfind("\n"), self._line_of_child.rfind("\r")) + 1
        self._write_line_of_child(end if len(self._line_of_child) - end < PIECE else len(self._line_of_child))

    def _write_line_of_child(self, end):
        text, self._line_of_child = self._line_of_child[:end], self._line_of_child[end:]
        _write_all(self._original_stdstream_fd if self._should_watch else 1, text.encode("utf-8", "replace"))


class _Bytes(io.RawIOBase):
    """Bytes go through the file descriptor, like those of other programs."""

    def __init__(self, stream):
        self._stream = stream
        self.name = stream.name
        self.mode = "wb"

    def writable(self):
        return True

    def write(self, data):
        data = memoryview(data).cast("B")
        _write_all(self._stream.fileno(), data)
        # The next text comes after these bytes, however soon.
        self._stream._last_look = 0.0
        return len(data)

    def flush(self):
        self._stream.flush()

    def fileno(self):
        return self._stream.fileno()

    def close(self):
        # The stream stays open when this view of it is no longer used.
        pass


def _write_all(descriptor, data):
    data = memoryview(data)
    while len(data):
        data = data[os.write(descriptor, data) :]
