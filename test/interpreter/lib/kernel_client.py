"""Drives one Jupyter kernel with Debian's jupyter_client, and reports checks as TAP. Runs inside a sandbox of the template."""

import os
import queue
import sys
import threading
import time
import traceback

from jupyter_client.manager import KernelManager

DEADLINE_S = 180  # for every wait: generous, machines are busy
LOOK_S = 2  # how often a wait looks whether the kernel lives


class Run:
    """What one execution gave."""

    def __init__(self):
        self.messages = []  # (type, content) from iopub, without states
        self.states = []
        self.reply = None

    def of(self, kind):
        return [content for name, content in self.messages if name == kind]

    def chunks(self, name="stdout"):
        return [content["text"] for content in self.of("stream") if content["name"] == name]

    @property
    def stdout(self):
        return "".join(self.chunks())

    @property
    def stderr(self):
        return "".join(self.chunks("stderr"))

    @property
    def text(self):
        """text/plain of the result, or None."""
        results = self.of("execute_result")
        return results[0]["data"].get("text/plain") if results else None

    @property
    def error(self):
        errors = self.of("error")
        return errors[0] if errors else None

    def __repr__(self):
        return f"{self.messages} {self.reply}"[:2000]


class Kernel:
    def __init__(self, name, cwd="/home/user"):
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(cwd=cwd)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE_S)

    @property
    def pid(self):
        return self.manager.provisioner.pid

    @property
    def anonymous_mib(self):
        """Memory of the kernel's process that is not a mapped file."""
        with open(f"/proc/{self.pid}/status", encoding="utf-8") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("RssAnon")) // 1024

    def shrinks_below(self, mib):
        """Runs code until the memory is small: a kernel frees it when it next collects its garbage."""
        end = time.monotonic() + DEADLINE_S
        while self.anonymous_mib >= mib:
            holds(time.monotonic() < end, f"{self.anonymous_mib} MiB")
            self.run("0")

    def send(self, code, **options):
        return self.client.execute(code, allow_stdin=False, **options)

    def run(self, code, until=None, **options):
        """Executes and collects everything. `until`: a function that is called once, in a thread, when the first output has come."""
        return self.collect(self.send(code, **options), until)

    def started(self, code):
        """Sends code, and reads its first output and no more. An interrupt before that may be one of nothing."""
        request = self.send(code)
        end = time.monotonic() + DEADLINE_S
        while True:
            message = self.next(self.client.get_iopub_msg, end, f"no output: {code}")
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == "stream":
                return request

    def next(self, get, end, what):
        """The next message that `get`, a function of the client, gives. `what` is the error at the end, or soon after the kernel's own."""
        is_alive = True
        while True:
            try:
                return get(timeout=min(LOOK_S, max(end - time.monotonic(), 0.01)))
            except queue.Empty:
                if not is_alive:
                    raise Failed(f"the kernel has ended; {what}") from None
                if time.monotonic() > end:
                    raise TimeoutError(what) from None
                is_alive = self.manager.is_alive()

    def collect(self, request, until=None):
        run = Run()
        end = time.monotonic() + DEADLINE_S
        while "idle" not in run.states:
            message = self.next(self.client.get_iopub_msg, end, run)
            # jupyter_client gives the same numbers to interrupts, which the manager sends, and to executions, which the client sends.
            parent = message["parent_header"]
            if parent.get("msg_id") != request or parent.get("msg_type") != "execute_request":
                continue
            if message["msg_type"] == "status":
                run.states.append(message["content"]["execution_state"])
                continue
            run.messages.append((message["msg_type"], message["content"]))
            if until and message["msg_type"] == "stream":
                threading.Thread(target=until).start()
                until = None
        run.reply = self.reply(request)
        return run

    def reply(self, request):
        end = time.monotonic() + DEADLINE_S
        while True:
            message = self.next(self.client.get_shell_msg, end, "no reply")
            if message["parent_header"].get("msg_id") == request:
                return message["content"]

    def ask(self, kind, **content):
        """A request on the shell channel that is not an execution."""
        message = self.client.session.msg(kind, content)
        self.client.shell_channel.send(message)
        return self.reply(message["header"]["msg_id"])

    def idle_output(self, text):
        """Waits until output with this text comes, whichever request it belongs to."""
        seen = ""
        end = time.monotonic() + DEADLINE_S
        while text not in seen:
            message = self.client.get_iopub_msg(timeout=max(end - time.monotonic(), 0.01))
            if message["msg_type"] == "stream":
                seen += message["content"]["text"]
        return seen

    def interrupt(self):
        self.manager.interrupt_kernel()

    def interrupt_by_message(self):
        """Waits until the kernel has answered: jupyter_client's own way does not, and a late interrupt hits what is run next."""
        request = self.client.session.msg("interrupt_request", {})
        self.client.control_channel.send(request)
        while self.client.get_control_msg(timeout=DEADLINE_S)["parent_header"].get("msg_id") != request["header"]["msg_id"]:
            pass

    def wait_for_end(self):
        end = time.monotonic() + DEADLINE_S
        while self.manager.is_alive():
            if time.monotonic() > end:
                raise TimeoutError("the kernel lives on")
            time.sleep(0.02)

    def stop(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Failed(AssertionError):
    pass


def same(got, expected, what=""):
    if got != expected:
        raise Failed(f"{what} got {got!r}, expected {expected!r}")


def holds(condition, what):
    if not condition:
        raise Failed(f"does not hold: {what}")


def main(tests):
    """Runs functions, prints TAP, and ends the process. Arguments choose tests by words in their names."""
    words = sys.argv[1:]
    chosen = [test for test in tests if not words or any(word in test.__name__ for word in words)]
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, test in enumerate(chosen, 1):
        try:
            test()
            print(f"ok {number} - {test.__name__}", flush=True)
        except Exception as error:  # a test may fail in any way
            failed += 1
            print(f"not ok {number} - {test.__name__}", flush=True)
            lines = str(error) if isinstance(error, Failed) else traceback.format_exc()
            print("".join(f"# {line}\n" for line in lines.splitlines()), end="", flush=True)
    sys.stdout.flush()
    os._exit(1 if failed else 0)
