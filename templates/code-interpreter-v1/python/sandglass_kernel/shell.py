"""The shell that runs code, and the kernel around it."""

import asyncio
import asyncio.events
import os
import signal
from contextlib import contextmanager

from ipykernel.ipkernel import IPythonKernel
from ipykernel.zmqshell import ZMQInteractiveShell
from traitlets import Float, Type

from . import results
from .output.sender import WaitingDisplayPublisher
from .programs import commands
from .programs.scripts import Scripts


class Shell(ZMQInteractiveShell):
    """ipykernel's shell with our results and our way to run commands."""

    display_pub_class = Type(WaitingDisplayPublisher)

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        results.install(self)

    def init_environment(self):
        """Programs that the code starts print for a reader that is no terminal: without colours, without waiting for keys."""
        os.environ["TERM"] = "dumb"
        os.environ["PAGER"] = os.environ["GIT_PAGER"] = "cat"

    def init_magics(self):
        super().init_magics()
        self.register_magics(Scripts)

    def system_piped(self, cmd):
        if cmd.rstrip().endswith("&"):
            raise OSError("Background processes not supported.")
        self.user_ns["_exit_code"] = commands.run(self.var_expand(cmd, depth=1))

    system = system_piped


class Kernel(IPythonKernel):
    """ipykernel's kernel with our shell, and with interrupts that reach code with a top-level await."""

    shell_class = Type(Shell)
    # All messages of an execution take the same queue, so nothing must be waited for.
    _execute_sleep = Float(0.0).tag(config=True)

    @contextmanager
    def _cancel_on_sigint(self, future):
        """While code with a top-level await runs, SIGINT ends it wherever it is.

        If the code computes, the signal raises KeyboardInterrupt in it. If the code waits, its future is cancelled.
        """
        loop = future.get_loop()

        def interrupt(number, frame):
            task = asyncio.current_task(loop)
            if task is future:
                raise KeyboardInterrupt
            # This also wakes the event loop.
            loop.call_soon_threadsafe(future.cancel)
            if task is not None or _is_in_callback(frame):
                # KeyboardInterrupt would end the event loop, and with it the kernel.
                raise asyncio.CancelledError

        before = signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)


def _is_in_callback(frame):
    code = asyncio.events.Handle._run.__code__
    while frame is not None:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return False
