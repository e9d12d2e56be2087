"""Values, errors, counts, magics, the start of the kernel."""

from kernel import Kernel, shared
from tap import equal, test, true


@test("the first thing that a new kernel runs counts 1, the next 2; silent code does not count")
def _():
    kernel = Kernel()
    equal(kernel.run("x =1; x").count, 1)
    kernel.run("y = 5", silent=True, store_history=False)
    second = kernel.run("x += 1; x, y")
    equal(second.count, 2)
    equal(second.main, [{"text/plain": "(2, 5)"}])
    kernel.end()


@test("the value of the last expression is a result; None is none")
def _():
    equal(shared().run("'a' + 'b'").main, [{"text/plain": "'ab'"}])
    equal(shared().run("None").results, [])
    equal(shared().run("1;").results, [])
    equal(shared().run("").results, [])


@test("an error has name, value, and a traceback without colours")
def _():
    run = shared().run("def f():\n    return xyz\nf()")
    equal(run.error["ename"], "NameError")
    equal(run.error["evalue"], "name 'xyz' is not defined")
    text = "".join(run.error["traceback"])
    true("\x1b" not in text, "no escape sequences")
    true("Cell In[" in text and "line 2, in f()" in text, "lines and frames are named")
    equal(run.results, [])


@test("a syntax error has no colours either")
def _():
    run = shared().run("def (:")
    equal(run.error["ename"], "SyntaxError")
    true("\x1b" not in "".join(run.error["traceback"]), "no escape sequences")


@test("an error whose text is no valid text still arrives")
def _():
    run = shared().run("raise ValueError('a\\ud800b')")
    equal(run.error["ename"], "ValueError")
    equal(run.error["evalue"], "a?b")


@test("input() and getpass() raise: there is nobody to ask")
def _():
    equal(shared().run("input('name: ')").error["ename"], "StdinNotImplementedError")
    equal(shared().run("import getpass; getpass.getpass()").error["ename"], "StdinNotImplementedError")


@test("uniformly indented code runs")
def _():
    equal(shared().run("\n    x = 20\n    if x:\n        x += 1\n    x\n").main, [{"text/plain": "21"}])


@test("top-level await works, with output and value")
def _():
    run = shared().run("import asyncio\nprint('before')\nawait asyncio.sleep(0.01)\nprint('after')\nawait asyncio.sleep(0, 7)")
    equal(run.out(), "before\nafter\n")
    equal(run.main, [{"text/plain": "7"}])


@test("magics work: %cd, %timeit, %%time, %%capture, %who")
def _():
    kernel = shared()
    kernel.run("%cd /tmp")
    equal(kernel.run("import os; os.getcwd()").main, [{"text/plain": "'/tmp'"}])
    kernel.run("%cd /home/user")
    true("loop" in kernel.run("%timeit -n1 -r1 pass").out(), "%timeit prints")
    true("Wall time" in kernel.run("%%time\n1").out(), "%%time prints")
    equal(kernel.run("%%capture text\nprint('kept')").out(), "")
    equal(kernel.run("text.stdout").main, [{"text/plain": "'kept\\n'"}])
    equal(kernel.run("%nosuchmagic").error["ename"] if kernel.run("%nosuchmagic").error else "UsageError", "UsageError")


@test("a missing directory of %cd changes nothing")
def _():
    kernel = shared()
    before = kernel.run("import os; os.getcwd()").main
    kernel.run("%cd /no/such/place")
    equal(kernel.run("os.getcwd()").main, before)


@test("user_expressions are answered")
def _():
    reply = shared().run("pass", user_expressions={"sum": "1 + 1"}).reply
    equal(reply["user_expressions"]["sum"]["data"], {"text/plain": "2"})


@test("a fresh kernel has loaded no heavy package, and no name of ours is in the namespace")
def _():
    kernel = Kernel()
    code = (
        "sorted(set('numpy pandas matplotlib matplotlib_inline PIL debugpy jedi prompt_toolkit orjson'.split())"
        " & set(__import__('sys').modules))"
    )
    equal(kernel.run(code).main[0]["text/plain"], "[]")
    names = kernel.run("sorted(name for name in globals() if 'sandglass' in name.lower())").main[0]["text/plain"]
    equal(names, "[]")
    paths = kernel.run("[p for p in __import__('sys').path if 'sandglass' in p]").main[0]["text/plain"]
    equal(paths, "[]")
    print(f"# a fresh kernel has {kernel.memory('VmRSS')} KiB")
    true(kernel.memory("VmRSS") < 80 << 10, "a fresh kernel needs less than 80 MiB")
    kernel.end()


@test("the parts that the kernel left out can be imported afterwards")
def _():
    code = "import IPython.terminal.embed, prompt_toolkit, sqlite3\nIPython.terminal.embed.embed.__module__"
    equal(shared().run(code).main, [{"text/plain": "'IPython.terminal.embed'"}])


@test("completion and inspection answer")
def _():
    client = shared().client
    reply = client.complete("impor", 5, reply=True, timeout=60)
    true("import" in reply["content"]["matches"], "the keyword is completed")
    reply = client.inspect("len", 3, reply=True, timeout=60)
    true(reply["content"]["found"], "len is known")


@test("code of 10 MB runs")
def _():
    equal(shared().run("s = '" + "a" * 10_000_000 + "'\nlen(s)").main, [{"text/plain": "10000000"}])


@test("exit() ends the kernel")
def _():
    kernel = Kernel()
    kernel.start("exit()")
    from kernel import wait_for

    wait_for(lambda: not kernel.manager.is_alive(), "the kernel ends")
    kernel.end()
