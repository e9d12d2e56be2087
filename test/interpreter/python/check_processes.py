"""Programs and processes that the code starts."""

from kernel import shared
from tap import equal, test, true


@test("!command prints its output as stdout, in one piece, with plain newlines")
def _():
    shared().run("%cd /home/user")
    equal(shared().run("!pwd").stdout, ["/home/user\n"])
    equal(shared().run("!printf 'a\\nb\\n'; echo error >&2").out(), "a\nb\nerror\n")
    equal(shared().run("def f(inner):\n    !echo {inner} $inner\nf('value')").out(), "value value\n")


@test("!command has an exit status, no input, and bash if there is one")
def _():
    kernel = shared()
    kernel.run("!exit 3")
    equal(kernel.run("_exit_code").main, [{"text/plain": "3"}])
    kernel.run("!kill -9 $$")
    equal(kernel.run("_exit_code").main, [{"text/plain": "-9"}])
    equal(kernel.run("!cat; echo end").out(), "end\n")
    equal(kernel.run("!nosuchcommand 2>/dev/null").error, None)
    equal(kernel.run("_exit_code").main, [{"text/plain": "127"}])


@test("!command & is refused with a clear error; programs in the background of a command do not stop it from ending")
def _():
    equal(shared().run("!sleep 100 &").error["ename"], "OSError")
    equal(shared().run("!(sleep 1000 & echo $! > /tmp/background); echo started").out(), "started\n")
    shared().run("!kill $(cat /tmp/background)")


@test("lines = !command gives the lines")
def _():
    equal(shared().run("x = !printf 'a\\nb\\n'\nlist(x)").main[0]["text/plain"], "['a', 'b']")


@test("%%bash and %%sh run scripts; stderr stays stderr; a failure is an error")
def _():
    run = shared().run("%%bash\necho out\necho err >&2\n[[ 1 == 1 ]] && pwd")
    equal((run.out(), "".join(run.stderr)), ("out\n/home/user\n", "err\n"))
    equal(shared().run("%%bash\nexit 3").error["ename"], "CalledProcessError")
    equal(shared().run("%%sh\nprintf '%s' 漢字").out(), "漢字")


@test("%%bash keeps letters of several bytes whole, and can keep its output in a variable")
def _():
    equal(shared().run("%%bash\nfor i in $(seq 300); do printf 'é漢'; done").out(), "é漢" * 300)
    shared().run("%%bash --out kept --err errors\nfor i in $(seq 100); do echo line $i; done; echo e >&2")
    equal(shared().run("print(kept, end='')").out(), "".join(f"line {i}\n" for i in range(1, 101)))
    equal(shared().run("print(errors, end='')").out(), "e\n")
    equal(shared().run("%%script python3 -\nprint(6 * 7)").out(), "42\n")
    true("find program" in shared().run("%%script nosuchprogram\nx").out(), "a missing program is named")


@test("os.system and subprocess print in order with print")
def _():
    code = "import os, subprocess\nprint('1')\nos.system('echo 2')\nprint('3')\nsubprocess.run(['echo', '4'])\nprint('5')\nsubprocess.run(['sh', '-c', 'echo 6 >&2'])\nNone"
    run = shared().run(code)
    equal((run.out(), "".join(run.stderr)), ("1\n2\n3\n4\n5\n", "6\n"))
    equal(shared().run("import sys; subprocess.run(['echo', 'x'], stdout=sys.stdout); None").out(), "x\n")


@test("the end of the code waits for what a program has written")
def _():
    for _ in range(20):
        equal(shared().run("import os; os.system('echo last'); None").out(), "last\n")


@test("forked processes print, and display")
def _():
    code = "import os\npid = os.fork()\nif pid == 0:\n    print('child')\n    os._exit(0)\nos.waitpid(pid, 0)\nprint('parent')"
    equal(shared().run(code).out(), "child\nparent\n")
    code = "import multiprocessing as mp\nwith mp.get_context('fork').Pool(3) as pool:\n    pool.map(print, range(100))\nNone"
    equal(sorted(map(int, shared().run(code).out().split())), list(range(100)))
    run = shared().run("pid = os.fork()\nif pid == 0:\n    display('shown')\n    os._exit(0)\nos.waitpid(pid, 0)[1]")
    equal(run.main, [{"text/plain": "0"}])
    # The display takes a way of its own, and may arrive after the end of the code.
    if len(run.results) == 1:
        message = shared().client.get_iopub_msg(timeout=60)
        run.results.append(message["content"]["data"])
    true({"text/plain": "'shown'"} in run.results, run.results)


@test("the input of programs is empty")
def _():
    equal(shared().run("import subprocess; subprocess.run(['cat']).returncode").main, [{"text/plain": "0"}])
    equal(shared().run("import sys; sys.stdin.read()").main, [{"text/plain": "''"}])
