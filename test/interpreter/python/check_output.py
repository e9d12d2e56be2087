"""How printed text arrives."""

import time

from kernel import shared, wait_for
from tap import equal, test, true


@test("a print is one message with its newline, on stdout and on stderr")
def _():
    equal(shared().run("print('hello')").stdout, ["hello\n"])
    equal(shared().run("print(1)").stdout, ["1\n"])
    run = shared().run("import sys; print('This is an error message', file=sys.stderr)")
    equal((run.stdout, run.stderr), ([], ["This is an error message\n"]))


@test("a print is never cut in two, however busy the processor is")
def _():
    code = """
import threading, time
stop = False
def burn():
    while not stop: pass
for _ in range(4): threading.Thread(target=burn).start()
for i in range(20):
    print('line', i)
    time.sleep(0.05)
stop = True"""
    stdout = shared().run(code).stdout
    equal("".join(stdout), "".join(f"line {i}\n" for i in range(20)))
    equal([text for text in stdout if not text.endswith("\n")], [], "messages that end inside a line")


@test("a print waits for its slow arguments, but not for ever")
def _():
    code = "class Slow:\n    def __init__(self, seconds): self.seconds = seconds\n    def __str__(self): time.sleep(self.seconds); return 'slow'\nimport time\n"
    equal(shared().run(code + "print('a', Slow(0.5))").stdout, ["a slow\n"])
    equal(shared().run(code + "print('a', Slow(3))").stdout, ["a ", "slow\n"])


@test("output arrives while the code still runs")
def _():
    kernel = shared()
    request = kernel.start("print('early')\nprint('partial', end='')\nimport os, time\nwhile not os.path.exists('/tmp/go-on'):\n    time.sleep(0.01)\nos.remove('/tmp/go-on')")
    text = ""
    while text != "early\npartial":
        message = kernel.next_message(request)
        if message["msg_type"] == "stream":
            text += message["content"]["text"]
            true("early\npartial".startswith(text), text)
    open("/tmp/go-on", "w").close()
    kernel.finish(request)


@test("text, displays and the value come in the order of the code")
def _():
    kernel = shared()
    request = kernel.start("import sys\nprint('a')\ndisplay('b')\nprint('c', file=sys.stderr)\nprint('d', flush=True)\n'e'")
    seen = []
    while True:
        message = kernel.next_message(request)
        content = message["content"]
        if content.get("execution_state") == "idle":
            break
        if message["msg_type"] in ("stream", "display_data", "execute_result"):
            seen.append(content.get("text") or content["data"]["text/plain"])
    equal(sorted(seen), ["'b'", "'e'", "a\n", "c\n", "d\n"])
    equal((seen[0], seen[1], seen[-1]), ("a\n", "'b'", "'e'"))


@test("flush, write, writelines, print with all its arguments")
def _():
    run = shared().run("import sys\nsys.stdout.write('a')\nsys.stdout.writelines(['b', 'c\\n'])\nprint(1, 2, sep='-', end='!', flush=True)\nNone")
    equal(run.out(), "abc\n1-2!")
    equal(shared().run("sys.stdout.write(b'x')").error["ename"], "TypeError")


@test("sys.stdout.buffer takes bytes, in order with text")
def _():
    equal(shared().run("print('a'); sys.stdout.buffer.write('é\\n'.encode()); sys.stdout.buffer.flush(); print('b')").out(), "a\né\nb\n")


@test("letters of several bytes arrive whole, in any number")
def _():
    text = "aé漢🎉"
    equal(shared().run(f"print('{text}' * 100000, end='')").out(), text * 100000)
    equal(shared().run(f"import os; os.system(\"python3 -c 'print(\\\"{text}\\\" * 50000, end=str())'\"); None").out(), text * 50000)


@test("invalid text is replaced, not lost: half surrogates, bytes that are no UTF-8, NUL")
def _():
    equal(shared().run("print('a\\ud800b')").out(), "a?b\n")
    equal(shared().run("import os; os.write(1, b'a\\xff\\xfeb\\n'); None").out(), "a\ufffd\ufffdb\n")
    equal(shared().run("print('a\\0b')").out(), "a\0b\n")


@test("a long text is cut into pieces that together are the text")
def _():
    run = shared().run("print('0123456789' * 100000)")
    equal(run.out(), "0123456789" * 100000 + "\n")
    true(max(map(len, run.stdout)) <= 65536, "no piece has more than 64 KiB")


@test("text of threads arrives, also after the code ended")
def _():
    kernel = shared()
    run = kernel.run("import sys, threading\nts = [threading.Thread(target=lambda n=n: [sys.stdout.write(f'{n}:{i}\\n') for i in range(500)]) for n in range(8)]\n[t.start() for t in ts]; [t.join() for t in ts]; None")
    equal(sorted(run.out().split()), sorted(f"{n}:{i}" for n in range(8) for i in range(500)))
    request = kernel.start("import time\ndef late():\n    time.sleep(0.3)\n    print('late')\nthreading.Thread(target=late).start()")
    kernel.finish(request)
    message = kernel.next_message(request)
    equal((message["msg_type"], message["content"]["text"]), ("stream", "late\n"))


@test("warnings and logging arrive on stderr")
def _():
    run = shared().run("import warnings, logging; warnings.warn('careful'); logging.getLogger('x').warning('logged')")
    true("careful" in "".join(run.stderr) and "logged" in "".join(run.stderr), run.stderr)


@test("contextlib.redirect_stdout and print to files work")
def _():
    equal(shared().run("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n    print('x')\nf.getvalue()").main, [{"text/plain": "'x\\n'"}])


@test("a silent execution that prints is heard, and does not count")
def _():
    before = shared().run("1").count
    equal(shared().run("print('quiet')", silent=True, store_history=False).out(), "quiet\n")
    equal(shared().run("1").count, before + 1)
