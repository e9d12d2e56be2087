"""Output without end: the kernel waits for its reader, its memory stays small, and nothing is lost."""

import os
import time

import zmq

from kernel import DEADLINE, Kernel, wait_for
from tap import equal, test, true

BYTES = int(os.environ.get("SANDGLASS_FLOOD_BYTES", 64_000_000))
# KiB that a kernel may grow by, whatever it prints: what waits in the kernel and in ZeroMQ, several times.
GROWTH = 24 << 10


class Flood:
    """A kernel whose only reader can stop reading."""

    def __init__(self):
        self.kernel = Kernel()
        # jupyter_client's own subscriber must not be the reader: it reads into its own memory.
        self.kernel.run("import os, sys, time")
        self.before = self.kernel.memory()
        self.kernel.client.iopub_channel.stop()
        info = self.kernel.client.get_connection_info()
        self.context = zmq.Context()
        self.reader = self.context.socket(zmq.SUB)
        self.reader.rcvhwm = 4
        self.reader.subscribe(b"")
        self.reader.connect(f"tcp://{info['ip']}:{info['iopub_port']}")
        self._wait_for_subscription()

    def _wait_for_subscription(self):
        end = time.monotonic() + DEADLINE
        while time.monotonic() < end:
            self.kernel.client.kernel_info()
            if self.reader.poll(100):
                break
        # Everything that the requests caused is read before the test begins.
        while self.reader.poll(500):
            self.reader.recv_multipart()

    def start(self, code):
        return self.kernel.start(code)

    def next(self):
        true(self.reader.poll(DEADLINE * 1000), "a message arrives")
        _, frames = self.kernel.client.session.feed_identities(self.reader.recv_multipart())
        return self.kernel.client.session.deserialize(frames)

    def read_to_end(self, on_text):
        error = None
        while True:
            message = self.next()
            content = message["content"]
            if message["msg_type"] == "stream":
                on_text(content["text"])
            elif message["msg_type"] == "error":
                error = content
            elif content.get("execution_state") == "idle":
                return error

    def has_stopped(self):
        """Waits until the kernel no longer computes: it waits for the reader."""

        def time_used():
            with open(f"/proc/{self.kernel.pid}/stat") as file:
                fields = file.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        def quiet():
            before = time_used()
            time.sleep(1)
            return time_used() - before <= 5

        wait_for(quiet, "the kernel waits for its reader")

    def growth(self):
        return self.kernel.memory() - self.before

    def end(self):
        self.reader.close(0)
        self.context.term()
        self.kernel.manager.shutdown_kernel(now=True)


def flood(code, expected_size):
    """Runs the code while nobody reads, looks at memory, reads everything, and checks its size."""
    it = Flood()
    it.start(code)
    it.has_stopped()
    stopped = it.growth()
    size = 0

    def count(text):
        nonlocal size
        size += len(text)

    equal(it.read_to_end(count), None, "error")
    equal(size, expected_size, "characters read")
    print(f"# grew by {stopped} KiB while nobody read, by {it.growth()} KiB in all")
    true(it.growth() < GROWTH, f"the kernel grew by {it.growth()} KiB")
    it.end()


@test("many lines: nothing lost, memory bounded")
def _():
    lines = BYTES // 100
    it = Flood()
    it.start(f"for i in range({lines}):\n    print(f'{{i:099d}}')")
    it.has_stopped()
    expected = 0
    rest = ""

    def check(text):
        nonlocal expected, rest
        *complete, rest = (rest + text).split("\n")
        for line in complete:
            if int(line) != expected:
                raise AssertionError(f"line {expected} is {line}")
            expected += 1

    equal(it.read_to_end(check), None, "error")
    equal((expected, rest), (lines, ""), "lines")
    print(f"# grew by {it.growth()} KiB")
    true(it.growth() < GROWTH, f"the kernel grew by {it.growth()} KiB")
    it.end()


@test("a reader that is slow all the time gets everything")
def _():
    # Wakes of the thread that sends must not pile up: 2000 fill their queue, and the thread that prints would wait there for ever.
    lines = 20_000
    it = Flood()
    it.start(f"for i in range({lines}):\n    print(i, 'y' * 5000)")
    size = 0

    def count(text):
        nonlocal size
        size += text.count("\n")
        time.sleep(0.005)

    equal(it.read_to_end(count), None, "error")
    equal(size, lines, "lines")
    it.end()


@test("few huge texts: memory bounded beside the text itself")
def _():
    # The text itself is the user's, so it is made of the same small piece.
    flood(f"s = 'x' * 1000000\nfor i in range({BYTES // 1000000}):\n    sys.stdout.write(s)\nNone", BYTES // 1000000 * 1000000)


@test("stderr: memory bounded")
def _():
    flood(f"for i in range({BYTES // 1000}):\n    print('e' * 999, file=sys.stderr)", BYTES // 1000 * 1000)


@test("flush after each print: memory bounded")
def _():
    count = min(BYTES, 20_000_000) // 1000
    flood(f"for i in range({count}):\n    print('f' * 999, flush=True)", count * 1000)


@test("os.system: memory bounded, the program waits")
def _():
    flood(f"os.system('head -c {BYTES} /dev/zero | tr \"\\\\0\" x') and None", BYTES)


@test("!command: memory bounded, the program waits")
def _():
    flood(f"!head -c {BYTES} /dev/zero | tr '\\0' y", BYTES)


@test("%%bash: memory bounded, the program waits")
def _():
    flood(f"%%bash\nhead -c {BYTES} /dev/zero | tr '\\0' z", BYTES)


@test("threads: memory bounded")
def _():
    count = BYTES // 4 // 1000
    flood(
        f"import threading\ndef p():\n    for i in range({count}): sys.stdout.write('t' * 999 + '\\n')\nts = [threading.Thread(target=p) for _ in range(4)]\nfor t in ts: t.start()\nfor t in ts: t.join()",
        count * 4000,
    )


@test("thousands of threads that print once: nothing lost, none waits for ever")
def _():
    threads = 5000
    it = Flood()
    it.start(f"import threading\nfor i in range({threads}):\n    t = threading.Thread(target=print, args=('t' * 9999,))\n    t.start()\n    t.join()")
    texts = []
    equal(it.read_to_end(texts.append), None, "error")
    equal(sum(len(text) for text in texts), threads * 10_000, "characters read")
    it.end()


@test("displays: memory bounded, all arrive")
def _():
    it = Flood()
    count = BYTES // 1_000_000
    it.start(f"s = 'd' * 1000000\nfor i in range({count}):\n    display({{'text/html': s}}, raw=True)")
    it.has_stopped()
    seen = 0
    while True:
        message = it.next()
        seen += message["msg_type"] == "display_data"
        if message["content"].get("execution_state") == "idle":
            break
    equal(seen, count)
    # ZeroMQ counts messages, not bytes: these have a megabyte each.
    true(it.growth() < GROWTH + (48 << 10), f"the kernel grew by {it.growth()} KiB")
    it.end()


@test("an interrupt reaches code that waits for its reader")
def _():
    it = Flood()
    it.start("while True: print('x' * 1000)")
    it.has_stopped()
    it.kernel.interrupt()
    error = it.read_to_end(lambda text: None)
    equal(error["ename"], "KeyboardInterrupt")
    it.start("print('alive')")
    texts = []
    equal(it.read_to_end(texts.append), None)
    equal(texts, ["alive\n"])
    it.end()


@test("an interrupt reaches a !command whose output waits")
def _():
    it = Flood()
    it.start("!yes 1004")
    it.has_stopped()
    it.kernel.interrupt()
    equal(it.read_to_end(lambda text: None)["ename"], "KeyboardInterrupt")
    it.end()


@test("a reader that goes away does not stop the code for ever")
def _():
    it = Flood()
    it.start("for i in range(100000): print('x' * 1000)\nopen('/tmp/flood-over', 'w').close()")
    it.has_stopped()
    true(not os.path.exists("/tmp/flood-over"), "the code waits")
    it.reader.close(0)
    wait_for(lambda: os.path.exists("/tmp/flood-over"), "the code ends without a reader")
    os.remove("/tmp/flood-over")
    it.reader = it.context.socket(zmq.SUB)
    it.end()


@test("a kernel without any reader runs, and shuts down while code waits for a reader")
def _():
    it = Flood()
    it.start("while True: print('x' * 1000)")
    it.has_stopped()
    pid = it.kernel.pid
    it.kernel.client.shutdown()
    it.kernel.interrupt()
    wait_for(lambda: not it.kernel.manager.is_alive(), "the kernel ends")
    it.end()
