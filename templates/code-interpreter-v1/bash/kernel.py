#!/usr/bin/python3
"""Jupyter kernel for bash. usage: kernel.py CONNECTION_FILE

The main thread answers the shell channel and runs cells. A thread of its own answers the control channel, so interrupts arrive while
a cell runs; another one answers heartbeats. Who prints faster than the client reads waits: the iopub socket blocks instead of
dropping, so the terminal fills up.
"""

import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from cells import Cells  # noqa: E402
from wire import Wire  # noqa: E402

PARENT_POLL_S = 3
KERNEL_INFO = {
    "status": "ok",
    "protocol_version": "5.3",
    "implementation": "sandglass-bash",
    "implementation_version": "1.0.0",
    "banner": "bash",
    "language_info": {
        "name": "bash", "version": "5", "mimetype": "text/x-sh", "file_extension": ".sh", "pygments_lexer": "bash",
        "codemirror_mode": "shell",
    },
    "help_links": [],
}


class Kernel:
    def __init__(self, connection_file):
        self.wire = Wire(connection_file)
        self.cells = Cells(self.wire)
        self.count = 0

    def serve(self):
        """Answers the shell channel until the kernel is told to end."""
        self.wire.start_heartbeat()
        threading.Thread(target=self.serve_control, daemon=True).start()
        if "JPY_PARENT_PID" in os.environ:
            threading.Thread(target=self.end_with_parent, args=(os.getppid(),), daemon=True).start()
        while True:
            self.cells.forward_idle_output(self.wire.wait_for_shell(self.cells.terminal))
            for request in self.wire.shell_requests():
                self.answer(request)

    def answer(self, request):
        handler = getattr(self, "on_" + request.type, None)
        if handler is None:
            return
        self.wire.publish("status", request, {"execution_state": "busy"})
        try:
            content = handler(request)
        except (TypeError, ValueError, KeyError) as error:
            content = {"status": "error", "ename": type(error).__name__, "evalue": str(error), "traceback": []}
        is_stop = request.type == "execute_request" and content["status"] == "error" and request.content.get("stop_on_error") is not False
        queue = self.wire.waiting_shell_requests() if is_stop else []
        self.wire.reply(request, content)
        self.wire.publish("status", request, {"execution_state": "idle"})
        self.abort(queue)

    def on_kernel_info_request(self, _request):
        return KERNEL_INFO

    def on_execute_request(self, request):
        content = request.content
        code = content["code"]
        if not isinstance(code, str):
            raise TypeError("code is no text")
        silent = content.get("silent") is True
        if not silent and content.get("store_history") is not False:
            self.count += 1
        if not silent:
            self.wire.publish("execute_input", request, {"code": code, "execution_count": self.count})
        failure = self.cells.run(request, code)
        if failure is None:
            expressions = {name: self.cells.evaluate(request, text) for name, text in (content.get("user_expressions") or {}).items()}
            return {"status": "ok", "execution_count": self.count, "user_expressions": expressions, "payload": []}
        error = {"ename": "", "evalue": failure, "traceback": []}
        if not silent:
            self.wire.publish("error", request, error)
        return {"status": "error", "execution_count": self.count, "user_expressions": {}, "payload": [], **error}

    def abort(self, requests):
        """Executions that were sent before the client could know of an error are not carried out."""
        for request in requests:
            if request.type != "execute_request":
                self.answer(request)
                continue
            self.wire.publish("status", request, {"execution_state": "busy"})
            self.wire.reply(request, {"status": "aborted", "execution_count": self.count})
            self.wire.publish("status", request, {"execution_state": "idle"})

    def on_complete_request(self, request):
        return self.cells.complete(request.content["code"], request.content.get("cursor_pos"))

    def on_is_complete_request(self, request):
        return self.cells.is_complete(request.content["code"])

    def on_inspect_request(self, request):
        return self.cells.inspect(request.content["code"], request.content.get("cursor_pos"))

    def on_history_request(self, _request):
        return {"status": "ok", "history": []}

    def on_comm_info_request(self, _request):
        return {"status": "ok", "comms": {}}

    def serve_control(self):
        for request in self.wire.control_requests():
            self.wire.publish_soon("status", request, {"execution_state": "busy"})
            if request.type == "interrupt_request":
                self.cells.interrupt()
                self.wire.reply(request, {"status": "ok"})
            elif request.type == "kernel_info_request":
                self.wire.reply(request, KERNEL_INFO)
            elif request.type == "shutdown_request":
                self.shut_down(request)
            self.wire.publish_soon("status", request, {"execution_state": "idle"})

    def end_with_parent(self, parent):
        """Some parents ask their kernels to end with them, as Jupyter does."""
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        self.cells.hang_up()
        os._exit(1)

    def shut_down(self, request):
        content = {"status": "ok", "restart": request.content.get("restart") is True}
        self.wire.reply(request, content)
        self.wire.publish_soon("shutdown_reply", request, content)
        self.wire.publish_soon("status", request, {"execution_state": "idle"})
        self.cells.hang_up()
        self.wire.flush_and_exit()


def main(arguments):
    if len(arguments) != 1:
        sys.exit("usage: kernel.py CONNECTION_FILE")
    kernel = Kernel(arguments[0])
    signal.signal(signal.SIGINT, lambda number, frame: kernel.cells.interrupt())
    kernel.serve()


if __name__ == "__main__":
    main(sys.argv[1:])
