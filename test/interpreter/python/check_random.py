"""Random numbers of processes that continue from the same memory."""

from kernel import Kernel, shared
from tap import equal, test, true

STATE = "random.seed(1); np.random.seed(1)"


@test("reseed() renews random and numpy, gives no result, and leaves no name")
def _():
    kernel = shared()
    kernel.run("import random, tempfile, uuid, ssl, numpy as np\n" + STATE)
    first = kernel.run("(random.random(), np.random.rand())").main
    kernel.run(STATE)
    equal(kernel.run("(random.random(), np.random.rand())").main, first, "the same seed draws the same")
    kernel.run(STATE)
    names = kernel.run("sorted(globals())").main[0]["application/json"]
    run = kernel.run('__import__("sandglass_kernel").reseed()', silent=True, store_history=False)
    equal((run.error, run.results, run.stdout, run.count, run.reply["status"]), (None, [], [], None, "ok"))
    second = kernel.run("(random.random(), np.random.rand())").main
    one, two = (eval(draws[0]["text/plain"].replace("np.float64", "")) for draws in (first, second))
    true(one[0] != two[0], "random draws something else")
    true(one[1] != two[1], "numpy draws something else")
    new = set(kernel.run("sorted(globals())").main[0]["application/json"]) - set(names)
    equal([name for name in new if not name.startswith("_")], [], "new names")


@test("two forks of the same memory draw the same without reseed(), and differently with it")
def _():
    code = """
import os, numpy as np
np.random.seed(5)
def child(renew):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        if renew:
            __import__('sandglass_kernel').reseed()
        os.write(w, repr(np.random.rand()).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(w)
    return os.read(r, 1000)
child(False) == child(False), child(True) == child(True)"""
    equal(shared().run(code).main, [{"text/plain": "(True, False)"}])


@test("reseed() loads nothing")
def _():
    kernel = Kernel()
    code = "import sys; before = set(sys.modules)"
    kernel.run(code)
    kernel.run('__import__("sandglass_kernel").reseed()', silent=True, store_history=False)
    equal(kernel.run("sorted(set(sys.modules) - before)").main[0]["application/json"], ["sandglass_kernel.randomness"])
    kernel.end()
