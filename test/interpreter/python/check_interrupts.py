"""SIGINT at any moment ends the code, and keeps the kernel and its variables."""

from kernel import shared
from tap import equal, test, true


def interrupted(code, marker="ready\n"):
    """Starts the code, interrupts it when it printed its marker, and returns what it gave."""
    kernel = shared()
    kernel.run("kept = 'yes'")
    request = kernel.start(code)
    text = ""
    while marker not in text:
        message = kernel.next_message(request)
        text += message["content"].get("text", "")
    kernel.interrupt()
    run = kernel.finish(request)
    equal(kernel.run("1 + 1, kept").main, [{"text/plain": "(2, 'yes')"}])
    return run


@test("an interrupt ends a sleep, a computation and a wait for a thread")
def _():
    equal(interrupted("import time\nprint('ready')\ntime.sleep(1000)").error["ename"], "KeyboardInterrupt")
    equal(interrupted("print('ready')\nwhile True: pass").error["ename"], "KeyboardInterrupt")
    equal(interrupted("import threading\nprint('ready')\nthreading.Event().wait()").error["ename"], "KeyboardInterrupt")


@test("an interrupt ends code that prints without end")
def _():
    equal(interrupted("print('ready')\nwhile True: print('x' * 1000)").error["ename"], "KeyboardInterrupt")


@test("an interrupt ends !commands with all they started, and the code after them does not run")
def _():
    run = interrupted("!echo ready; sleep 1001 | sleep 1001\nprint('after')")
    equal(run.error["ename"], "KeyboardInterrupt")
    true("after" not in run.out(), "the code after the command did not run")
    equal(shared().run("x = !pgrep -fx 'sleep 1001'\nlen(x)").main, [{"text/plain": "0"}])
    equal(interrupted("!echo ready; trap '' INT TERM; while true; do sleep 0.1; done").error["ename"], "KeyboardInterrupt")


@test("an interrupt ends os.system and subprocess.run")
def _():
    equal(interrupted("import subprocess\nsubprocess.run(['sh', '-c', 'echo ready; exec sleep 1002'])").error["ename"], "KeyboardInterrupt")
    shared().run("!pkill -fx 'sleep 1002'")


@test("an interrupt ends %%bash")
def _():
    run = interrupted("%%bash\necho ready\nsleep 1003")
    true(run.error is not None, "an error")
    equal(shared().run("x = !pgrep -fx 'sleep 1003'\nlen(x)").main, [{"text/plain": "0"}])


@test("an interrupt ends a top-level await")
def _():
    true(interrupted("import asyncio\nprint('ready')\nawait asyncio.sleep(1000)").error["ename"] in ("CancelledError", "KeyboardInterrupt"), "the name of the error")


@test("an interrupt ends computing code beside a top-level await, and in a task")
def _():
    run = interrupted("import asyncio, time\nawait asyncio.sleep(0)\nprint('ready')\ntime.sleep(1000)")
    equal(run.error["ename"], "KeyboardInterrupt")
    run = interrupted("async def busy():\n    print('ready')\n    time.sleep(1000)\nawait asyncio.create_task(busy())")
    true(run.error["ename"] in ("CancelledError", "KeyboardInterrupt"), "the name of the error")


@test("an interrupt of an idle kernel changes nothing")
def _():
    shared().interrupt()
    equal(shared().run("1 + 1").main, [{"text/plain": "2"}])
