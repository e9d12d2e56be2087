#!/usr/bin/env python3
"""Tests of the Java kernel with Debian's jupyter_client, as any Jupyter client would use it.

Runs where the kernel is installed (a sandbox of the template, or a root file system with the same packages): the kernelspec
"java", /opt/sandglass/interpreter/java/kernel.jar, the JDK and python3-jupyter-client. Writes TAP; exits 1 on a failure.
usage: test_kernel.py [WORD...]     only the tests whose names have one of the words
"""

import base64
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback

from jupyter_client.manager import KernelManager

JAR = "/opt/sandglass/interpreter/java/kernel.jar"
HERE = os.path.dirname(os.path.abspath(__file__))
DEADLINE = 300
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Ran:
    """What one execution gave: the messages of iopub in order, and the reply."""

    def __init__(self, messages, reply):
        self.messages = messages
        self.reply = reply

    def all(self, kind):
        return [m["content"] for m in self.messages if m["msg_type"] == kind]

    def stream(self, name):
        return [c["text"] for c in self.all("stream") if c["name"] == name]

    @property
    def text(self):
        results = self.all("execute_result")
        return results[0]["data"]["text/plain"] if results else None

    @property
    def error(self):
        errors = self.all("error")
        return errors[0] if errors else None


class Kernel:
    def __init__(self, cwd="/home/user", **env):
        self.manager = KernelManager(kernel_name="java")
        self.manager.start_kernel(cwd=cwd, env=dict(os.environ, **env))
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE)

    @property
    def pid(self):
        return self.manager.provisioner.pid

    def send(self, code, **options):
        options.setdefault("allow_stdin", False)
        return self.client.execute(code, **options)

    def reply(self, request, channel="shell"):
        get = getattr(self.client, f"get_{channel}_msg")
        while True:
            message = get(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") == request:
                return message

    def published(self, request, kind=None):
        """Messages of a request until it is idle, or until the first one of a kind."""
        messages = []
        while True:
            message = self.client.get_iopub_msg(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") != request:
                continue
            messages.append(message)
            if kind and message["msg_type"] == kind:
                return messages
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return messages

    def run(self, code, **options):
        request = self.send(code, **options)
        messages = self.published(request)
        return Ran(messages, self.reply(request)["content"])

    def finish(self, request, before=()):
        messages = list(before) + self.published(request)
        return Ran(messages, self.reply(request)["content"])

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


shared = None


def kernel():
    """One kernel for the tests that leave it usable."""
    global shared
    if shared is None:
        shared = Kernel()
    return shared


def equal(got, wanted):
    if got != wanted:
        raise AssertionError(f"got {got!r}, wanted {wanted!r}")


def check(good, what):
    if not good:
        raise AssertionError(what)


@test
def codecs():
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "-encoding", "UTF-8", "-cp", JAR, "-d", classes, f"{HERE}/SelfTest.java"], check=True)
        done = subprocess.run(["java", "-cp", f"{JAR}:{classes}", "sandglass.kernel.SelfTest"], capture_output=True, text=True)
    bad = [line for line in done.stdout.splitlines() if not line.startswith("good: ")]
    check(done.returncode == 0 and not bad and "random bytes" in done.stdout, f"{bad} {done.stderr}")


@test
def kernel_info():
    k = kernel()
    content = k.reply(k.client.kernel_info())["content"]
    equal(content["status"], "ok")
    equal(content["protocol_version"], "5.3")
    equal(content["language_info"]["name"], "java")
    control = k.client.session.msg("kernel_info_request", {})
    k.client.control_channel.send(control)
    equal(k.reply(control["header"]["msg_id"], "control")["content"]["language_info"]["name"], "java")


@test
def heartbeat():
    k = kernel()
    k.client.hb_channel.unpause()
    end = time.time() + DEADLINE
    while not k.client.hb_channel.is_beating() and time.time() < end:
        time.sleep(0.1)
    check(k.client.hb_channel.is_beating(), "no heartbeat")


@test
def order_of_messages():
    ran = kernel().run('System.out.print("a"); 5')
    kinds = [m["msg_type"] + m["content"].get("execution_state", "") for m in ran.messages]
    equal(kinds, ["statusbusy", "execute_input", "stream", "execute_result", "statusidle"])
    equal(ran.all("execute_input")[0]["code"], 'System.out.print("a"); 5')
    equal(ran.all("execute_result")[0]["execution_count"], ran.reply["execution_count"])


@test
def values():
    k = kernel()
    for code, text in [
        ("1 + 1", "2"), ("int x = 1; x", "1"), ("x += 1; x", "2"), ("x", "2"), ("x = 9", "9"), ("x++", "9"),
        ('"abc"', '"abc"'), ("'c'", "'c'"), ("1.5", "1.5"), ("true", "true"), ("new int[] {1, 2}", "int[2] { 1, 2 }"),
        ("List.of(1, 2)", "[1, 2]"), ("x // a comment\n// another", "10"), ("x;", "10"), ("// first\nx + 1 /* in */ + 1", "12"),
        ('"a\\nb"', '"a\\nb"'), ("\n\n    int y = 3;\n    y * 2\n", "6"), ("record P(int a) { }\nnew P(4)", "P[a=4]"),
        ("enum E { A, B }\nE.B", "B"), ("int i1, i2 = 4; i1 + i2", "4"), ("Stream.of(3, 1).sorted().toList()", "[1, 3]"),
        ("new BigInteger(\"12\").pow(2)", "144"), ('Files.exists(Path.of("/"))', "true"), ('Pattern.matches("a+", "aa")', "true"),
        ("if (x > 1) x = 3;\nelse x = 4;\nx", "3"), ('switch (x) { case 3 -> "three"; default -> "other"; }', '"three"'),
    ]:
        ran = k.run(code)
        equal((code, ran.reply["status"], ran.text), (code, "ok", text))


@test
def no_value():
    k = kernel()
    for code in ["int z = 5;", "int z", "var w = 1;", "import java.time.*;", "void nothing() { }", "nothing()", "class Q { }", "null", "", "  \n ",
                 "// comment", "/* comment */", "for (int i = 0; i < 2; i++) { }", 'System.out.print("")', "5; int z2 = 1;"]:
        ran = k.run(code)
        equal((code, ran.reply["status"], ran.all("execute_result")), (code, "ok", []))


@test
def state_is_kept():
    k = kernel()
    k.run("int total = 40; int add(int n) { return total += n; }\nclass Box { int v; Box(int v) { this.v = v; } }")
    equal(k.run("add(2)").text, "42")
    equal(k.run("total").text, "42")
    equal(k.run("new Box(7).v").text, "7")
    k.run("int add(int n) { return total -= n; }")
    equal(k.run("add(2)").text, "40")


@test
def names_that_come_later():
    k = kernel()
    equal(k.run("int before() { return after() + 1; }\nint after() { return 1; }\nbefore()").text, "2")
    ran = k.run("int lonely() { return neverDeclared(); }")
    equal(ran.reply["status"], "ok")
    check("neverDeclared" in "".join(ran.stream("stderr")), ran.messages)
    ran = k.run("lonely()")
    equal(ran.reply["ename"], "UnresolvedReferenceException")
    check("neverDeclared" in ran.reply["evalue"], ran.reply)


@test
def streams():
    k = kernel()
    ran = k.run('System.out.println("Hello, World!");')
    equal(ran.stream("stdout"), ["Hello, World!", "\n"])
    equal(k.run('System.out.print("one");').stream("stdout"), ["one"])
    equal(k.run('System.err.println("bad");').stream("stderr"), ["bad", "\n"])
    equal(k.run('System.out.printf("%d %s%n", 1, "a");').stream("stdout"), ["1 a\n"])
    ran = k.run('System.out.print("o"); System.err.print("e"); System.out.print("p");')
    equal([(c["name"], c["text"]) for c in ran.all("stream")], [("stdout", "o"), ("stderr", "e"), ("stdout", "p")])
    equal(k.run('System.out.write("\u00e4\u20ac".getBytes("UTF-8"));').stream("stdout"), ["\u00e4\u20ac"])


@test
def text_of_all_kinds():
    k = kernel()
    equal(k.run('"\u00e4\U0001f600"').text, '"\u00e4\U0001f600"')
    equal("".join(k.run("System.out.print('\\ud83d'); System.out.print('\\ude00');").stream("stdout")), "\U0001f600")
    equal("".join(k.run('System.out.print("a\\ud83d"); System.out.print("b\\ude00");').stream("stdout")), "a\ufffdb\ufffd")
    equal("".join(k.run("System.out.write(0xff); System.out.write(0xc3);").stream("stdout")), "\ufffd\ufffd")
    equal(k.run('String lone = "\\udc00"; lone').text, '"\ufffd"')
    equal(k.run('"\\0\\1".length()').text, "2")
    equal("".join(k.run('System.out.print("\\0\\u001b[1m");').stream("stdout")), "\0\x1b[1m")


@test
def compile_errors():
    k = kernel()
    ran = k.run("int good = 1;\n\n\tint bad = missing + 1;\nint never = 2;")
    equal(ran.reply["status"], "error")
    equal(ran.error["ename"], "CompilationException")
    equal(ran.error["evalue"], "cannot find symbol\n  symbol:   variable missing")
    count = ran.reply["execution_count"]
    equal("".join(ran.error["traceback"]), f"cell {count}, line 3: cannot find symbol\n  symbol:   variable missing\n"
          "\tint bad = missing + 1;\n\t          ^^^^^^^")
    equal({key: ran.reply[key] for key in ran.error}, ran.error)
    equal(k.run("good").text, "1")
    equal(k.run("never").reply["ename"], "CompilationException")
    for code, value in [("int i = ;", "illegal start of expression"), ("{ int i = 1;", "reached end of file while parsing"),
                        ('int i = "x";', "incompatible types: java.lang.String cannot be converted to int"), ("foo bar baz", None), ("}", None),
                        ("for (int i = 0; i < 3; i++) {\n  System.out.println(i)\n}", "';' expected"), ('"abc', None), ("\\", None), ("#", None)]:
        ran = k.run(code)
        equal((code, ran.error["ename"]), (code, "CompilationException"))
        if value:
            equal(ran.error["evalue"], value)
        check("^" in ran.error["traceback"][0], ran.error)


@test
def exceptions():
    k = kernel()
    ran = k.run("int divide(int n) {\n  return 1 / n;\n}\n\nint kept = 5;\ndivide(0);\nint notReached = 1;")
    count = ran.reply["execution_count"]
    equal(ran.error["ename"], "java.lang.ArithmeticException")
    equal(ran.error["evalue"], "/ by zero")
    equal("".join(ran.error["traceback"]),
          f"java.lang.ArithmeticException: / by zero\n    at divide (cell {count}, line 2)\n    at (cell {count}, line 6)")
    equal(k.run("kept").text, "5")
    equal(k.run("notReached").reply["ename"], "CompilationException")
    ran = k.run('class Mine extends RuntimeException { Mine(String m, Throwable t) { super(m, t); } }\n'
                'try { divide(0); } catch (Exception e) { throw new Mine("outer", e); }')
    equal((ran.error["ename"], ran.error["evalue"]), ("Mine", "outer"))
    check("\nCaused by: java.lang.ArithmeticException: / by zero\n" in ran.error["traceback"][0], ran.error)
    ran = k.run("throw new Exception();")
    equal((ran.error["ename"], ran.error["evalue"]), ("java.lang.Exception", ""))
    ran = k.run("int deep(int n) { return deep(n + 1) + 1; }\ndeep(0)")
    equal(ran.error["ename"], "java.lang.StackOverflowError")
    check(len(ran.error["traceback"][0]) < 10000, "the traceback is too long")
    ran = k.run('class Shy { public String toString() { throw new IllegalStateException("no text"); } }\nnew Shy()')
    equal((ran.error["ename"], ran.error["evalue"]), ("java.lang.IllegalStateException", "no text"))
    ran = k.run('System.out.print("before"); throw new Error("late");')
    equal([m["msg_type"] for m in ran.messages if m["msg_type"] in ("stream", "error")], ["stream", "error"])
    equal(k.run("1").text, "1")


@test
def out_of_memory():
    k = kernel()
    ran = k.run("long[] huge = new long[Integer.MAX_VALUE - 8];")
    if ran.reply["status"] == "error":
        equal(ran.error["ename"], "java.lang.OutOfMemoryError")
    else:
        k.run("huge = null; System.gc();")
    equal(k.run("2").text, "2")


@test
def counting():
    k = Kernel()
    try:
        equal(k.run("1").reply["execution_count"], 1)
        equal(k.run('System.setProperty("a", "b"); 5', silent=True).reply["execution_count"], 1)
        equal(k.run("2", store_history=False).reply["execution_count"], 1)
        equal(k.run("3").reply["execution_count"], 2)
        equal(k.run("missing").reply["execution_count"], 3)
        equal(k.run("4").reply["execution_count"], 4)
    finally:
        k.close()


@test
def silent():
    k = kernel()
    ran = k.run("int quiet = 8; quiet", silent=True)
    equal([m["msg_type"] for m in ran.messages], ["status", "status"])
    equal(ran.reply["status"], "ok")
    equal(k.run("quiet").text, "8")
    ran = k.run("missing", silent=True)
    equal([m["msg_type"] for m in ran.messages], ["status", "status"])
    equal((ran.reply["status"], ran.reply["ename"]), ("error", "CompilationException"))


@test
def user_expressions():
    k = kernel()
    ran = k.run("int ue = 3;", user_expressions={"a": "ue + 1", "b": "missing"})
    equal(ran.reply["user_expressions"]["a"]["data"], {"text/plain": "4"})
    equal(ran.reply["user_expressions"]["b"]["ename"], "CompilationException")


@test
def variables_and_directory():
    k = kernel()
    equal(k.run('System.getProperty("user.dir")').text, '"/home/user"')
    k.run('System.setProperty("FOO", "a\\"b\\n");', silent=True)
    equal(k.run('System.getProperty("FOO").length()').text, "4")
    k.run('System.clearProperty("FOO");', silent=True)
    equal(k.run('System.getProperty("FOO", "default")').text, '"default"')
    other = Kernel(cwd="/tmp", SOME_VARIABLE="value")
    try:
        equal(other.run('System.getProperty("user.dir")').text, '"/tmp"')
        equal(other.run('System.getenv("SOME_VARIABLE")').text, '"value"')
    finally:
        other.close()


@test
def class_path():
    with tempfile.TemporaryDirectory() as directory:
        with open(f"{directory}/Extra.java", "w") as file:
            file.write("package extra; public class Extra { public static int seven() { return 7; } }")
        subprocess.run(["javac", "-d", directory, f"{directory}/Extra.java"], check=True)
        k = Kernel(CLASSPATH=directory)
        try:
            equal(k.run("extra.Extra.seven()").text, "7")
        finally:
            k.close()


@test
def displays():
    k = kernel()
    ran = k.run('Display.html("<b>x</b>"); Display.png(new byte[] {1, 2}); Display.mime("text/x-mine", "data");'
                'Display.json(Map.of("a", new int[] {1, 2})); Display.latex("$x$"); display(5); display("s"); display(null);')
    equal([c["data"] for c in ran.all("display_data")],
          [{"text/html": "<b>x</b>"}, {"image/png": base64.b64encode(b"\1\2").decode()}, {"text/x-mine": "data"},
           {"application/json": {"a": [1, 2]}}, {"text/latex": "$x$"}, {"text/plain": "5"}, {"text/plain": '"s"'}, {"text/plain": "null"}])
    equal(ran.all("execute_result"), [])
    ran = k.run('class Card implements Display.Rich { public Map<String, ?> mimeBundle() { return Map.of("text/html", "<i>c</i>"); }\n'
                'public String toString() { return "card"; } }\nnew Card()')
    equal(ran.all("execute_result")[0]["data"], {"text/plain": "card", "text/html": "<i>c</i>"})
    ran = k.run("new java.awt.image.BufferedImage(3, 2, java.awt.image.BufferedImage.TYPE_INT_RGB)")
    check(base64.b64decode(ran.all("execute_result")[0]["data"]["image/png"]).startswith(b"\x89PNG"), "no picture")
    ran = k.run("List<Object> loop = new ArrayList<>(); loop.add(loop); Display.json(loop);")
    equal(ran.error["ename"], "java.lang.IllegalArgumentException")
    equal(k.run("1").text, "1")


@test
def is_complete():
    k = kernel()
    for code, status in [("int a = 1;", "complete"), ("1 + 1", "complete"), ("for (;;) {", "incomplete"), ("int f() {\n", "incomplete"),
                         ("int a = 1; int b = ", "incomplete"), ("", "complete"), ("// c", "complete"), ("}{", "invalid"), ("f(", "incomplete")]:
        content = k.reply(k.client.is_complete(code))["content"]
        equal((code, content["status"]), (code, status))


@test
def completion():
    k = kernel()
    k.run('String greeting = "hello";')
    content = k.reply(k.client.complete("greeting.toUpp", 14))["content"]
    equal((content["matches"], content["cursor_start"], content["cursor_end"]), (["toUpperCase("], 9, 14))
    code = 'var smile = "\U0001f600"; greet'
    content = k.reply(k.client.complete(code, len(code)))["content"]
    equal((content["matches"], content["cursor_start"]), (["greeting"], len(code) - 5))
    for code, cursor in [("", 0), ("x", 99), ("}{", 1), ("nothing.at.all.", 15)]:
        equal(k.reply(k.client.complete(code, cursor))["content"]["status"], "ok")


@test
def inspection():
    k = kernel()
    k.run("int inspected(int first, String second) { return 1; }")
    content = k.reply(k.client.inspect("inspected", 4))["content"]
    check(content["found"] and "inspected(int first, String second)" in content["data"]["text/plain"], content)
    content = k.reply(k.client.inspect("noSuchThing", 4))["content"]
    equal((content["status"], content["found"], content["data"]), ("ok", False, {}))


@test
def history_and_comms():
    k = kernel()
    content = k.reply(k.client.history(hist_access_type="tail", n=5))["content"]
    equal((content["status"], content["history"]), ("ok", []))
    content = k.reply(k.client.comm_info())["content"]
    equal((content["status"], content["comms"]), ("ok", {}))
    opened = k.client.session.msg("comm_open", {"comm_id": "c1", "target_name": "none", "data": {}})
    k.client.shell_channel.send(opened)
    messages = k.published(opened["header"]["msg_id"])
    equal([m["content"]["comm_id"] for m in messages if m["msg_type"] == "comm_close"], ["c1"])


@test
def stop_on_error():
    k = kernel()
    first = k.send('Thread.sleep(5000); throw new Exception("stop");')
    later = [k.send("int abortedOne = 1;"), k.send("int abortedTwo = 1;")]
    info = k.client.kernel_info()
    replies = {}
    while len(replies) < 4:
        message = k.client.get_shell_msg(timeout=DEADLINE)
        replies[message["parent_header"]["msg_id"]] = message["content"]["status"]
    equal([replies[r] for r in [first, *later, info]], ["error", "aborted", "aborted", "ok"])
    equal(k.run("abortedOne").reply["ename"], "CompilationException")
    first = k.send('Thread.sleep(300); throw new Exception("go on");', stop_on_error=False)
    second = k.send("int runs = 6;")
    equal([k.reply(first)["content"]["status"], k.reply(second)["content"]["status"]], ["error", "ok"])
    equal(k.run("runs").text, "6")
    for _ in range(20):
        k.run("missing")
        equal(k.run("1").reply["status"], "ok")


def interrupted(k, code, interrupt, text="started"):
    request = k.send("{ " + code + " }")  # One snippet, so the interrupt comes while this code runs.
    before = k.published(request, "stream")
    equal(before[-1]["content"]["text"], text)
    interrupt()
    return k.finish(request, before)


@test
def interrupts():
    k = kernel()
    k.run("int survivor = 77;")
    ways = [k.manager.interrupt_kernel, lambda: os.kill(k.pid, signal.SIGINT)]
    codes = [
        'System.out.print("started"); while (true) { }',
        'System.out.print("started"); Thread.sleep(1000000);',
        'System.out.print("started"); for (long i = 0; ; i++) survivor = (int) (i & 0) + 77;',
        'System.out.print("started"); synchronized (k1) { k1.wait(); }',
        'System.out.print("started"); while (true) { try { Thread.sleep(10); } catch (InterruptedException e) { } }',
        'System.out.print("started"); Stream.iterate(1, n -> n).forEach(n -> { for (int i = 0; i < 2; i++) { } });',
    ]
    k.run("Object k1 = new Object();")
    for code in codes:
        for way in ways:
            ran = interrupted(k, code, way)
            equal((code, ran.reply["status"], ran.reply["ename"]), (code, "error", "java.lang.InterruptedException"))
            equal(k.run("survivor").text, "77")


@test
def interrupt_of_printing():
    k = kernel()
    request = k.send("while (true) System.out.println(12345);")
    k.published(request, "stream")
    k.manager.interrupt_kernel()
    equal(k.finish(request).reply["ename"], "java.lang.InterruptedException")
    equal(k.run("1").text, "1")


@test
def interrupt_when_idle():
    k = kernel()
    k.manager.interrupt_kernel()
    os.kill(k.pid, signal.SIGINT)
    time.sleep(1)  # The signal has no answer to wait for; one that comes late hits the next execution.
    end = time.time() + DEADLINE
    while k.run("1 + 2").text != "3":
        check(time.time() < end, "no execution ends by itself")


@test
def interrupt_of_code_that_does_not_stop():
    k = Kernel()
    try:
        k.run("int survivor = 5;")
        ran = interrupted(k, 'System.out.print("started"); new Random(1).longs().limit(1L << 60).max();',
                          k.manager.interrupt_kernel)
        equal(ran.reply["ename"], "java.lang.InterruptedException")
        check("background" in ran.reply["evalue"], ran.reply)
        equal(k.run("survivor").text, "5")
    finally:
        k.close()


@test
def threads_go_on():
    k = kernel()
    k.run("var told = new CountDownLatch(1); var gone = new CountDownLatch(1);")
    ran = k.run('new Thread(() -> { try { told.await(); } catch (InterruptedException e) { } gone.countDown(); }).start(); "free"')
    equal(ran.text, '"free"')
    equal(k.run("told.countDown(); gone.await(60, TimeUnit.SECONDS)").text, "true")
    ran = k.run('var t = new Thread(() -> { throw new RuntimeException("in a thread"); }); t.start(); t.join(); Thread.sleep(50);')
    equal(ran.reply["status"], "ok")
    check("in a thread" in "".join(ran.stream("stderr")), ran.messages)


@test
def standard_input():
    k = kernel()
    ran = k.run("System.in.read()")
    equal((ran.error["ename"], ran.error["evalue"]), ("java.io.IOException", "standard input is not available here"))
    request = k.send("new Scanner(System.in).nextLine()", allow_stdin=True)
    k.client.get_stdin_msg(timeout=DEADLINE)
    k.client.input("typed \u00e4")
    equal(k.finish(request).text, '"typed \u00e4"')


@test
def much_output():
    k = kernel()
    ran = k.run("for (int i = 0; i < 20000; i++) System.out.println(i);")
    equal("".join(ran.stream("stdout")), "".join(f"{i}\n" for i in range(20000)))
    ran = k.run('System.out.print("x".repeat(10_000_000));')
    equal(sum(len(t) for t in ran.stream("stdout")), 10_000_000)
    equal(len(k.run('"y".repeat(5_000_000)').text), 5_000_002)


@test
def output_waits_for_the_reader():
    """A subscriber that does not read: the printing thread must wait, and the kernel must stay small."""
    k = Kernel()
    try:
        info = k.manager.get_connection_info()
        slow = socket.create_connection((info["ip"], info["iopub_port"]))
        slow.sendall(b"\xff" + b"\0" * 8 + b"\x7f\3\0NULL" + b"\0" * 48)
        body = b"\5READY\13Socket-Type\0\0\0\3SUB"
        slow.sendall(bytes([4, len(body)]) + body)
        received = b""
        while len(received) < 66:
            received += slow.recv(66 - len(received))
        slow.sendall(b"\0\1\1")
        request = k.send('var sent = new java.util.concurrent.atomic.AtomicLong(); String kb = "x".repeat(1023) + "\\n";\n'
                         "var printer = new Thread(() -> { for (int i = 0; i < 1_000_000; i++) { System.out.print(kb); sent.incrementAndGet(); } });"
                         "printer.start();")
        k.reply(request)
        last, same = -1, 0
        end = time.time() + DEADLINE
        while same < 5 and time.time() < end:
            time.sleep(0.2)
            asked = k.send("", silent=True, user_expressions={"n": "sent.get()"})
            count = int(k.reply(asked)["content"]["user_expressions"]["n"]["data"]["text/plain"])
            same = same + 1 if count == last and count > 0 else 0
            last = count
        check(same == 5, f"the printing goes on: {last}")
        check(last < 100_000, f"{last} KiB were taken without a reader")
        with open(f"/proc/{k.pid}/status") as file:
            resident = next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
        check(resident < 400_000, f"{resident} KiB resident")
        slow.close()
        end = time.time() + DEADLINE
        while count == last and time.time() < end:
            asked = k.send("", silent=True, user_expressions={"n": "sent.get()"})
            count = int(k.reply(asked)["content"]["user_expressions"]["n"]["data"]["text/plain"])
        check(count > last, "the printing does not go on after the slow reader left")
    finally:
        k.close()


@test
def much_code():
    k = kernel()
    equal(k.run("/*" + "x" * 10_000_000 + "*/ 4").text, "4")
    code = "int many = 0;\n" + "many += 1;\n" * 50 + "many"
    equal(k.run(code).text, "50")
    deep = k.run("int deepSum = " + "(" * 3000 + "1" + ")" * 3000 + ";")
    equal(deep.reply["status"], "error")
    equal(k.run("1").text, "1")


@test
def code_too_large_for_a_class():
    k = kernel()
    long = "x" * 70000
    for code, value in [(f'String tooLong = "{long}";', "constant string too long"), (f'class TooLong {{ String t = "{long}"; }}', "constant string too long"),
                        (f'System.out.print("{long}");', "constant string too long"), ("{ " + "System.out.print(1); " * 10000 + " }", "code too large")]:
        ran = k.run(code)
        equal((ran.reply["ename"], ran.reply["evalue"]), ("CompilationException", value))
        equal(k.run("int afterwards = 6; afterwards").text, "6")
    equal(k.run("tooLong").reply["ename"], "CompilationException")


@test
def bad_messages():
    k = kernel()
    info = k.manager.get_connection_info()
    for port in ("shell_port", "iopub_port", "control_port", "stdin_port", "hb_port"):
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n" + b" " * 64, b"\xff" + b"\0" * 8 + b"\x7f\3\0CURVE" + b"\0" * 47, os.urandom(300)):
            with socket.create_connection((info["ip"], info[port])) as peer:
                peer.sendall(data)
    before = k.client.session.key
    k.client.session.key = b"wrong"
    k.send("int forged = 1;")
    k.client.session.key = before
    unknown = k.client.session.msg("no_such_request", {})
    k.client.shell_channel.send(unknown)
    odd = k.client.session.msg("execute_request", {"code": 5, "silent": "no"})
    k.client.shell_channel.send(odd)
    equal(k.reply(odd["header"]["msg_id"])["content"]["status"], "ok")
    equal(k.run("forged").reply["ename"], "CompilationException")


@test
def two_clients():
    k = kernel()
    other = k.manager.client()
    other.start_channels()
    try:
        other.wait_for_ready(timeout=DEADLINE)
        request = k.send('System.out.print("both");')
        while True:
            message = other.get_iopub_msg(timeout=DEADLINE)
            if message["msg_type"] == "stream" and message["parent_header"]["msg_id"] == request:
                break
        equal(message["content"]["text"], "both")
        k.finish(request)
    finally:
        other.stop_channels()


@test
def system_exit():
    k = Kernel()
    try:
        request = k.send('System.out.print("last words"); System.exit(3);')
        messages = k.published(request, "stream")
        equal(messages[-1]["content"]["text"], "last words")
        end = time.time() + DEADLINE
        while k.manager.is_alive() and time.time() < end:
            time.sleep(0.1)
        equal(k.manager.provisioner.process.returncode, 3)
    finally:
        k.close()


@test
def shutdown():
    for busy in (False, True):
        k = Kernel()
        if busy:
            request = k.send('System.out.print("started"); while (true) { }')
            k.published(request, "stream")
        asked = k.client.session.msg("shutdown_request", {"restart": False})
        k.client.control_channel.send(asked)
        equal(k.reply(asked["header"]["msg_id"], "control")["content"], {"status": "ok", "restart": False})
        end = time.time() + DEADLINE
        while k.manager.is_alive() and time.time() < end:
            time.sleep(0.1)
        equal(k.manager.provisioner.process.returncode, 0)
        k.close()


@test
def restart():
    k = Kernel()
    try:
        k.run("int before = 1;")
        k.manager.restart_kernel()
        k.client.wait_for_ready(timeout=DEADLINE)
        ran = k.run("before")
        equal((ran.reply["ename"], ran.reply["execution_count"]), ("CompilationException", 1))
    finally:
        k.close()


@test
def bad_connection_files():
    good = '{"ip":"127.0.0.1","transport":"tcp","shell_port":1,"iopub_port":1,"stdin_port":1,"control_port":1,"hb_port":1,"key":"k"'
    for text, said in [("", "unexpected character"), ("{}", "shell_port is missing"), (good.replace("tcp", "ipc") + "}", "only the transport tcp"),
                       (good + ',"signature_scheme":"hmac-md5"}', "only the signature scheme"), (good.replace(":1,", ":70000,", 1) + "}", "no port")]:
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            file.write(text)
            file.flush()
            done = subprocess.run(["java", "-jar", JAR, file.name], capture_output=True, text=True, timeout=DEADLINE)
        check(done.returncode == 1 and said in done.stderr, (text, done))
    done = subprocess.run(["java", "-jar", JAR, "/nonexistent"], capture_output=True, text=True, timeout=DEADLINE)
    check(done.returncode == 1 and "/nonexistent" in done.stderr, done)
    check(subprocess.run(["java", "-jar", JAR], capture_output=True, timeout=DEADLINE).returncode == 2, "no argument")


def main():
    words = sys.argv[1:]
    chosen = [t for t in TESTS if not words or any(word in t.__name__ for word in words)]
    print(f"1..{len(chosen)}", flush=True)
    failed = 0
    for number, function in enumerate(chosen, 1):
        name = function.__name__.replace("_", " ")
        try:
            function()
            print(f"ok {number} - {name}", flush=True)
        except (Exception, queue.Empty) as error:
            failed += 1
            print(f"not ok {number} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print(f"# {line[:2000]}", flush=True)
            if not isinstance(error, AssertionError):
                drop_shared()
    drop_shared()
    return 1 if failed or not chosen else 0


def drop_shared():
    global shared
    if shared is not None:
        shared.close()
        shared = None


if __name__ == "__main__":
    sys.exit(main())
