"""The javascript kernel, driven by Debian's jupyter_client. usage: test_kernel.py [WORD...]"""

import base64
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import zmq  # noqa: E402
from kernel_client import DEADLINE_S, Kernel, holds, main, same  # noqa: E402

kernel = Kernel("javascript")


def run(code, **options):
    return kernel.run(code, **options)


def text(code):
    result = run(code)
    holds(result.error is None, f"{code}: {result}")
    return result.text


# Protocol


def kernel_info_names_the_language():
    info = kernel.ask("kernel_info_request")
    same(info["status"], "ok")
    same(info["protocol_version"], "5.3")
    same(info["language_info"]["name"], "javascript")
    same(info["language_info"]["file_extension"], ".js")


def states_and_input_frame_an_execution():
    result = run("console.log(1); 2")
    same(result.states, ["busy", "idle"])
    same([kind for kind, _ in result.messages], ["execute_input", "stream", "execute_result"])
    same(result.of("execute_input")[0]["code"], "console.log(1); 2")
    same(result.of("execute_input")[0]["execution_count"], result.reply["execution_count"])
    same(result.reply["status"], "ok")
    same(result.reply["payload"], [])


def counts_only_what_goes_into_the_history():
    first = run("1").reply["execution_count"]
    same(run("1", silent=True).reply["execution_count"], first)
    same(run("1", store_history=False).reply["execution_count"], first)
    same(run("1").reply["execution_count"], first + 1)


def silent_executions_show_no_input_and_no_result():
    result = run("globalThis.quiet = 7; quiet", silent=True)
    same([kind for kind, _ in result.messages], [])
    same(text("quiet"), "7")


def user_expressions_have_a_status_each():
    reply = run("var u = 20", user_expressions={"good": "u + 1", "bad": "missing", "promised": "Promise.resolve(3)"}).reply
    same(reply["user_expressions"]["good"]["data"]["text/plain"], "21")
    same(reply["user_expressions"]["promised"]["data"]["text/plain"], "3")
    same(reply["user_expressions"]["bad"]["status"], "error")
    same(reply["user_expressions"]["bad"]["ename"], "ReferenceError")


def an_error_aborts_queued_executions():
    requests = [kernel.send("await new Promise(r => setTimeout(r, 5000)); throw new Error('first')"), kernel.send("1"), kernel.send("2")]
    same([kernel.reply(request)["status"] for request in requests], ["error", "aborted", "aborted"])
    same(text("3"), "3")


def without_stop_on_error_the_queue_goes_on():
    requests = [kernel.send("throw new Error('first')", stop_on_error=False), kernel.send("1")]
    same([kernel.reply(request)["status"] for request in requests], ["error", "ok"])


def completes_names_and_properties():
    run("var completing = { alpha: 1, alphabet: 2 }")
    reply = kernel.ask("complete_request", code="x = completing.alp", cursor_pos=18)
    same(reply["matches"], ["alpha", "alphabet"])
    same((reply["cursor_start"], reply["cursor_end"]), (15, 18))
    holds("completing" in kernel.ask("complete_request", code="compl", cursor_pos=5)["matches"], "a global is completed")
    same(kernel.ask("complete_request", code="'\U0001f600'; Math.flo", cursor_pos=13)["cursor_start"], 10)


def inspects_names():
    reply = kernel.ask("inspect_request", code="Math.max", cursor_pos=8, detail_level=0)
    holds(reply["found"] and "function" in reply["data"]["text/plain"], reply)
    same(kernel.ask("inspect_request", code="nothingHere", cursor_pos=4)["found"], False)


def knows_whether_code_is_complete():
    same(kernel.ask("is_complete_request", code="1 + 1")["status"], "complete")
    same(kernel.ask("is_complete_request", code="function f() {")["status"], "incomplete")
    same(kernel.ask("is_complete_request", code="`open")["status"], "incomplete")
    same(kernel.ask("is_complete_request", code="let x: number = 1")["status"], "complete")
    same(kernel.ask("is_complete_request", code="1 +* 2")["status"], "invalid")


def history_and_comms_are_empty():
    same(kernel.ask("history_request", hist_access_type="tail", n=5, output=False, raw=True)["history"], [])
    same(kernel.ask("comm_info_request")["comms"], {})


def messages_with_a_wrong_signature_are_dropped():
    session = kernel.client.session
    key = session.key
    session.key = b"wrong"
    kernel.client.execute("globalThis.forged = 1")
    session.key = key
    same(text("typeof forged"), "'undefined'")


# Output


def console_log_is_one_chunk():
    same(run('console.log("Hello World!")').chunks(), ["Hello World!\n"])
    same(run("console.log('%s is %d', 'x', 5, { a: [1] })").chunks(), ["x is 5 { a: [ 1 ] }\n"])


def each_write_is_one_chunk():
    same(run("process.stdout.write('a'); process.stdout.write('b\\n'); console.log('c')").chunks(), ["a", "b\n", "c\n"])


def errors_and_warnings_go_to_stderr():
    result = run("console.error('e'); console.warn('w'); process.stderr.write('p')")
    same(result.chunks("stderr"), ["e\n", "w\n", "p"])
    same(result.chunks(), [])


def bytes_are_decoded():
    same(run("process.stdout.write(Buffer.from('\\u00e9')); process.stdout.write(Buffer.from([0xff, 0x0a]))").stdout, "\u00e9\ufffd\n")


def long_text_comes_whole():
    same(len(run("console.log('x'.repeat(3000000))").stdout), 3000001)
    holds(run("console.log('\U0001f600'.repeat(300000))").stdout == "\U0001f600" * 300000 + "\n", "no character is cut")


def children_with_inherited_stdio_are_seen_in_order():
    result = run("console.log(1); require('child_process').execSync('echo 2; echo e >&2', { stdio: 'inherit' }); console.log(3)")
    same(result.stdout, "1\n2\n3\n")
    same(result.stderr, "e\n")


def output_of_spawned_children_arrives():
    result = run("await new Promise(r => require('child_process').spawn('echo', ['spawned'], { stdio: 'inherit' }).on('close', r))")
    same(result.stdout, "spawned\n")


def writes_to_the_descriptor_are_seen():
    same(run("require('fs').writeSync(1, 'by fd\\n')").stdout, "by fd\n")


def streams_can_be_piped_into_stdout():
    code = "const s = require('stream').Readable.from(['x', 'y']); s.pipe(process.stdout); await new Promise(r => s.on('end', r)); console.log('z')"
    same(run(code).stdout, "xyz\n")


def stdout_can_be_intercepted():
    code = "const w = process.stdout.write; let got = ''; process.stdout.write = s => { got += s; return true }; console.log('in');" \
        " process.stdout.write = w; got"
    same(text(code), "'in\\n'")


def reading_stdin_ends_at_once():
    same(run("let n = 0; for await (const c of process.stdin) n += c.length; console.log(n)").stdout, "0\n")


# Values


def the_last_expression_is_the_result():
    same(text("x = 1; x"), "1")
    same(text("x += 1; x"), "2")
    same(text("'quoted'"), "'quoted'")
    same(text("({ a: 1, b: [2, { c: 3 }] })"), "{ a: 1, b: [ 2, { c: 3 } ] }")
    same(text("{ a: 1 }"), "{ a: 1 }")
    same(text("null"), "null")
    same(text("new Map([[1, 'x']])"), "Map(1) { 1 => 'x' }")


def undefined_and_statements_have_no_result():
    for code in ("undefined", "let nothing = 5", "if (true) { 5 }", "function f() {}", "for (const i of [1]) i", "", "// comment", "void 0"):
        same(run(code).of("execute_result"), [], code)


def promises_are_awaited():
    same(text("Promise.resolve('Hello World!')"), "'Hello World!'")
    same(text("new Promise(r => setTimeout(() => r(5), 20))"), "5")
    same(run("Promise.resolve()").of("execute_result"), [])
    same(run("Promise.reject(new RangeError('late'))").error["ename"], "RangeError")
    same(text("[Promise.resolve(1)].length"), "1")


def long_strings_are_not_cut():
    same(len(text("'x'.repeat(50000)")), 50002)


def objects_with_methods_are_rich():
    result = run("({ _toHtml() { return '<b>x</b>' }, _toPng: () => Buffer.from('png'), _toSvg: async () => '<svg/>' })")
    data = result.of("execute_result")[0]["data"]
    same(data["text/html"], "<b>x</b>")
    same(base64.b64decode(data["image/png"]), b"png")
    same(data["image/svg+xml"], "<svg/>")
    holds("text/plain" in data, data)
    data = run("({ _toJpeg: () => 'AAAA' })").of("execute_result")[0]["data"]
    same(data["image/jpeg"], "AAAA")
    data = run("({ _toMime: () => ({ 'text/x-own': 'v', 'application/json': { a: [1] } }) })").of("execute_result")[0]["data"]
    same(data, {"text/x-own": "v", "application/json": {"a": [1]}})


def helpers_give_results_and_displays():
    same(run("$$.html('<i>1</i>')").of("execute_result")[0]["data"], {"text/html": "<i>1</i>"})
    result = run("$$.html('a'); console.log('between'); $$.svg('<svg/>'); $$.png('AA'); 5")
    same([kind for kind, _ in result.messages[1:]], ["display_data", "stream", "display_data", "display_data", "execute_result"])
    same(result.of("display_data")[1]["data"], {"image/svg+xml": "<svg/>"})
    same(result.text, "5")
    same(run("$$.jpeg(Buffer.from('j'))").of("execute_result")[0]["data"], {"image/jpeg": "ag=="})
    same(run("$$.mime({ 'text/latex': 'x' })").of("execute_result")[0]["data"], {"text/latex": "x"})
    same(run("$$.json({ a: 1 })").of("execute_result")[0]["data"]["application/json"], {"a": 1})
    same(run("$$.mime(5)").error["ename"], "TypeError")


def display_shows_at_once():
    result = run("display({ a: 1 }); console.log('after'); display($$.html('x')); display(null)")
    same([kind for kind, _ in result.messages[1:]], ["display_data", "stream", "display_data", "display_data"])
    same(result.of("display_data")[0]["data"], {"text/plain": "{ a: 1 }"})
    same(result.of("display_data")[1]["data"], {"text/html": "x"})


def values_that_json_cannot_have_do_no_harm():
    same(run("$$.mime({ 'text/plain': undefined, 'text/html': 'x' })").of("execute_result")[0]["data"], {"text/html": "x"})
    same(run("$$.json({ n: 1n })").error["ename"], "TypeError")
    same(text("1n"), "1n")
    same(text("1"), "1")


# Errors


def errors_have_name_message_and_stack():
    error = run("function inner() {\n  throw new TypeError('bad')\n}\ninner()").error
    same((error["ename"], error["evalue"]), ("TypeError", "bad"))
    same(error["traceback"][0], "TypeError: bad")
    holds(re.search(r"inner \(\[cell \d+\]:2:9\)", error["traceback"][1]), error)
    holds(not any("/opt/" in line or "node:vm" in line for line in error["traceback"]), error)


def errors_of_syntax_name_the_line():
    error = run("let a = 1\nlet b = = 2").error
    same(error["ename"], "SyntaxError")
    same(error["evalue"], "Unexpected token '='")
    holds("let b = = 2" in error["traceback"], error)
    same(run("let x = await ) 1").error["ename"], "SyntaxError")


def a_return_at_the_top_is_an_error():
    error = run("return 5").error
    same((error["ename"], error["evalue"]), ("SyntaxError", "Illegal return statement"))
    same(run("await 1; return 5").error["ename"], "SyntaxError")


def unknown_names_are_reference_errors():
    same(run("xyz").error["evalue"], "xyz is not defined")


def anything_can_be_thrown():
    same(run("throw 'text'").error["evalue"], "text")
    same(run("throw { a: 1 }").error["evalue"], "{ a: 1 }")
    same(run("throw null").error["evalue"], "null")
    same(run("throw undefined").error["ename"], "Error")
    same(run("class Own extends Error { name = 'Own' }; throw new Own('m')").error["ename"], "Own")
    same(run("const e = new Error('x'); Object.defineProperty(e, 'stack', { get() { throw 1 } }); throw e").error["evalue"], "x")
    holds(any("[cause]: Error: inner" in line for line in run("throw new Error('o', { cause: new Error('inner') })").error["traceback"]), "cause")


def uncaught_errors_of_timers_are_printed():
    result = run("setTimeout(() => { throw new Error('late') }, 1); Promise.reject(new Error('lost'));"
                 " await new Promise(r => setTimeout(r, 100)); 'alive'")
    same(result.text, "'alive'")
    holds("Error: late" in result.stderr and "Error: lost" in result.stderr, result)


def output_after_the_cell_is_not_lost():
    run("setTimeout(() => console.log('afterwards'), 100)")
    holds("afterwards" in kernel.idle_output("afterwards"), "the output of a timer")


# Declarations


def state_is_kept_and_names_may_be_declared_again():
    run("const c = 1; let l = 2; var v = 3; class K { m() { return 4 } }; function f() { return 5 }; const { d, e: [g] } = { d: 6, e: [7] }")
    same(text("[c, l, v, new K().m(), f(), d, g].join()"), "'1,2,3,4,5,6,7'")
    run("const c = 10; class K {}; let l")
    same(text("[c, l, typeof new K().m]"), "[ 10, undefined, 'undefined' ]")


def declarations_with_await_are_kept():
    run("const a1 = await 1, { b1, c1 = await 3 } = { b1: 2 }; let d1; class E1 {}; function f1() { return a1 }\n"
        "for (var i1 = 0; i1 < await 3; i1++) { var j1 = i1; const hidden = 1 }\nfor (var k1 of [7, 8]) {}\nif (true) var m1 = 9")
    same(text("[a1, b1, c1, d1, typeof E1, f1(), i1, j1, k1, m1, typeof hidden].join()"), "'1,2,3,,function,1,3,2,8,9,undefined'")
    same(text("await Promise.resolve(4); f1() + 1"), "2")
    same(text("const s1 = new Set(); for await (const x of [1, 2]) s1.add(x); s1.size"), "2")


def functions_are_hoisted_in_async_cells():
    same(text("const early = h1(); await 1; function h1() { return 'up' }; early"), "'up'")


def values_after_await_are_results():
    same(text("await Promise.resolve('Hello World!')"), "'Hello World!'")
    same(text("await 1; { x: 2 }"), None)
    same(text("// note\nawait 5 // end"), "5")


def lines_without_semicolons_stay_apart():
    same(run("const p = await 1\nconst q = 2\nclass R {}\nconsole.log(p, q)\n;[p, q].forEach(n => console.log(n))").stdout, "1 2\n1\n2\n")


# Modules


def in_folder(files, code):
    """Runs code with a new working directory that has these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(content)
        run(f"process.chdir({json.dumps(folder)})")
        try:
            return run(code)
        finally:
            run("process.chdir('/home/user')")


PACKAGES = {
    "node_modules/commons/package.json": '{"name":"commons","main":"main.js"}',
    "node_modules/commons/main.js": "const n = 'late'; module.exports = { plain: 1 }; module.exports[n + 'r'] = 2",
    "node_modules/modern/package.json": '{"name":"modern","type":"module","exports":{"import":"./main.js"}}',
    "node_modules/modern/main.js": "export default 'def'; export const named = await Promise.resolve('nam')",
    "local.mjs": "export const local = 'here'",
    "data.json": '{"a":1}',
}


def builtins_are_imported():
    same(run("import { readFileSync } from 'fs'; console.log(typeof readFileSync)").stdout, "function\n")
    same(text("import path, { join as j } from 'node:path'; import * as os from 'os'; [path.join === j, typeof os.cpus]"), "[ true, 'function' ]")
    same(text("typeof readFileSync"), "'function'")


def packages_are_imported_from_the_working_directory():
    same(in_folder(PACKAGES, "import d, { named } from 'modern'; d + named").text, "'defnam'")
    same(in_folder(PACKAGES, "import c, { plain, later } from 'commons'; [c.plain, plain, later]").text, "[ 1, 1, 2 ]")
    same(in_folder(PACKAGES, "import { local } from './local.mjs'; import data from './data.json'; [local, data.a]").text, "[ 'here', 1 ]")
    same(in_folder(PACKAGES, "import 'commons'; const m = await import('modern'); m.named").text, "'nam'")
    same(in_folder(PACKAGES, "require('commons').plain + require('./data.json').a").text, "2")
    same(in_folder(PACKAGES, "import j from './data.json' with { type: 'json' }; j.a").text, "1")


def global_packages_are_found():
    folder = "/usr/local/lib/node_modules/sandglass-test-package"
    os.makedirs(folder)
    try:
        for name, content in (("package.json", '{"type":"module","exports":{"import":"./m.js"}}'), ("m.js", "export default 'global'")):
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(content)
        same(text("import g from 'sandglass-test-package'; g"), "'global'")
        same(text("(await import('sandglass-test-package')).default"), "'global'")
    finally:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def missing_modules_and_names_are_errors():
    holds("no-such-package" in run("import x from 'no-such-package'").error["evalue"], "the name is in the message")
    holds("no-such-package" in run("require('no-such-package')").error["evalue"], "the name is in the message")
    same(run("import { nothing } from 'fs'").error["ename"], "SyntaxError")


def an_import_that_fails_leaves_no_names():
    run("import { readdirSync as importedFirst, importedNever } from 'fs'")
    same(text("[typeof importedFirst, typeof importedNever]"), "[ 'undefined', 'undefined' ]")


def import_meta_and_dirname_follow_the_directory():
    same(text("[__dirname, import.meta.dirname, import.meta.url]"), "[ '/home/user', '/home/user', 'file:///home/user/%5Bcell%5D.js' ]")
    same(text("import { createRequire } from 'module'; createRequire(import.meta.url)('path').sep"), "'/'")


# TypeScript


def types_are_removed():
    code = """
interface Point<T = number> { x: T; y?: T }
type Maybe<T> = T | null
declare const nowhere: string
abstract class Base<T> implements Iterable<T> {
  static readonly kind: string = 'base'
  protected items: T[] = []
  declare hidden: number
  constructor(private readonly first: T, public second?: T) {}
  abstract size(): number
  get one(): T { return this.first! }
  *[Symbol.iterator](): Generator<T> { yield this.first }
}
class Derived extends Base<number> {
  constructor(x: number) { super(x, 2) }
  override size(): number { return 1 as number }
}
function over(a: string): string
function over(a: number): number
function over(this: unknown, a: any): any { return a }
const point: Point = { x: 1 } satisfies Point
const arrow = async <T,>(v: T, ...rest: T[]): Promise<{
  v: T
}> => ({ v })
let definite!: number
const d = new Derived(<any>7)
[d.one, d.second, Base.kind, over(3), point.x, (await arrow<number>(5)).v, [...d].length, 'hidden' in d].join() as string
"""
    holds(run(code).error is not None, "types do not hide that a line goes on")
    code = code.replace("(<any>7)\n", "(<any>7);\n")
    same(text(code), "'7,2,base,3,1,5,1,false'")


def enums_and_namespaces_become_code():
    same(text("enum E { A, B = 5, C, D = 'd', F = B | 2 }; [E.A, E.C, E[5], E.D, E.F]"), "[ 0, 6, 'B', 'd', 7 ]")
    same(text("const enum Z { One = 1 }; Z.One"), "1")
    same(text("namespace N { export const a = 1; export function f() { return a + 1 }; export namespace M { export let z = 3 } }; [N.a, N.f(), N.M.z]"),
         "[ 1, 2, 3 ]")
    same(text("enum E { X }; Object.keys(E)"), "[ '0', 'X' ]")
    same(text("await 1; enum G { A = 4 }; G.A"), "4")
    same(text("G[4]"), "'A'")


def type_imports_are_dropped():
    same(text("import type { Foo } from 'no-such-package'; import { type Bar, sep } from 'path'; const s: string = sep; s"), "'/'")


def positions_stay_in_typescript():
    error = run("interface A {\n  b: string\n}\nconst x: number = 1;\nthrow new Error('here')").error
    holds(re.search(r"\]:5:7", error["traceback"][1]), error)


def valid_javascript_means_what_it_means_there():
    same(text("var a = 1, b = 2, c = 3; [a < b, b > (c)]"), "[ true, false ]")
    same(text("f = (x) => x; f(a < b, c > (d = 1))"), "true")


def transforms_are_right():
    """The programs beside this one, with the parser that the kernel uses."""
    for program in ("test_transform.js", "test_zmtp.js"):
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), program)
        environment = {**os.environ, "SANDGLASS_JAVASCRIPT_KERNEL": os.path.dirname(kernel.manager.kernel_spec.argv[1])}
        ended = subprocess.run(["node", path], env=environment, capture_output=True, text=True, check=False)
        holds(ended.returncode == 0 and "SKIP" not in ended.stdout, ended.stdout + ended.stderr)


# Interrupts


def interrupted(code, how=None):
    result = run(code if "console.log" in code else "console.log('started');" + code, until=how or kernel.interrupt)
    holds(result.error is not None, f"{code}: {result}")
    same(result.error["ename"], "KeyboardInterrupt", code)
    same(result.reply["status"], "error")
    same(text("kept"), "42", code)


def endless_code_is_interrupted_and_state_is_kept():
    run("var kept = 42")
    interrupted("for (;;) {}")
    interrupted("try { for (;;) {} } catch { } finally { }")
    interrupted("await new Promise(() => {})")
    interrupted("await 1; for (;;) {}")
    interrupted("setTimeout(() => { console.log('spins'); for (;;) {} }, 10); await new Promise(() => {})")
    interrupted("Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)")
    interrupted("require('child_process').execSync('sleep 1000')")
    interrupted("new Promise(() => {})")


def signal_when_asleep():
    """node may lose a signal that arrives while a script begins or ends."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        with open(f"/proc/{kernel.pid}/task/{kernel.pid}/stat", encoding="utf-8") as stat:
            if stat.read().rsplit(")", 1)[1].split()[0] == "S":
                return os.kill(kernel.pid, signal.SIGINT)
        time.sleep(0.05)
    raise TimeoutError("the kernel does not wait")


def absorb_signals():
    """A signal may arrive when the code has ended, and any thread may take it, when that next runs. It hits nothing that is tested."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        with open(f"/proc/{kernel.pid}/status", encoding="utf-8") as status:
            pending = next(int(line.split()[1], 16) for line in status if line.startswith("ShdPnd"))
        if not pending & 1 << signal.SIGINT - 1:
            run("0")
            return
        time.sleep(0.01)
    raise TimeoutError("the signal stays pending")


def a_signal_interrupts():
    """A signal that arrives while a script begins or ends may be lost, or end node. Each code says `started` after its script has begun or ended."""
    run("var kept = 42")
    for code in ("console.log('started'); for (;;) {}", "setTimeout(() => console.log('started')); await new Promise(() => {})"):
        ended = threading.Event()

        def send_signals(over=ended):
            while True:
                os.kill(kernel.pid, signal.SIGINT)
                if over.wait(20):
                    return

        sender = threading.Thread(target=send_signals)
        result = run(code, until=sender.start)
        ended.set()
        sender.join()
        absorb_signals()
        holds(result.error is not None, f"{code}: {result}")
        same(result.error["ename"], "KeyboardInterrupt", code)
        same(text("kept"), "42", code)


def an_interrupt_of_nothing_is_harmless():
    kernel.interrupt_by_message()
    same(text("1 + 1"), "2")
    same(text("await 3"), "3")
    signal_when_asleep()
    absorb_signals()
    same(text("1 + 1"), "2")


def timers_go_on_after_an_interrupt():
    run("var ticks = 0; var ticker = setInterval(() => ticks++, 5); var kept = 42")
    interrupted("await new Promise(() => {})")
    same(text("const before = ticks; while (ticks < before + 3) await new Promise(r => setTimeout(r, 5)); clearInterval(ticker); 'went on'"), "'went on'")


# Resources


def printing_waits_for_a_slow_reader():
    """Nobody reads while 1 GB would be printed; then the code is interrupted."""
    run("var kept = 42")
    request = kernel.started("const line = 'x'.repeat(1000); console.log('begin'); for (let i = 0; i < 1e6; i++) console.log(line)")
    stops_growing()
    kernel.interrupt()
    result = kernel.collect(request)
    same(result.error["ename"], "KeyboardInterrupt")
    holds(len(result.stdout) < 64 * 1024 * 1024, "far less than everything was printed")
    request = kernel.started("await 1; for (;;) console.log(line)")
    stops_growing()
    kernel.interrupt()
    same(kernel.collect(request).error["ename"], "KeyboardInterrupt")
    same(text("kept"), "42")


def children_wait_for_a_slow_reader():
    request = kernel.started("console.log('begin'); require('child_process').execSync('yes | head -c 1000000000', { stdio: 'inherit' })")
    stops_growing()
    kernel.interrupt()
    same(kernel.collect(request).reply["status"], "error")


def stops_growing():
    """Until the processor time of the kernel stands still: everything waits. Its memory is small then."""
    def used():
        with open(f"/proc/{kernel.pid}/stat", encoding="utf-8") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    end = time.monotonic() + DEADLINE_S
    last, since = used(), time.monotonic()
    while time.monotonic() - since < 1:
        holds(time.monotonic() < end, "the kernel waits")
        time.sleep(0.1)
        if used() != last:
            last, since = used(), time.monotonic()
    holds(kernel.anonymous_mib < 200, f"{kernel.anonymous_mib} MiB")


def much_output_leaves_little_memory():
    result = run("for (let i = 0; i < 20000; i++) console.log('y'.repeat(1000))")
    same(len(result.stdout), 20000 * 1001)
    same(len(result.chunks()), 20000)
    kernel.shrinks_below(200)


def code_of_ten_megabytes_runs():
    same(text("/*" + "z" * 10_000_000 + "*/ 1"), "1")


def heartbeats_are_answered_while_code_runs():
    request = kernel.started("console.log('busy'); const until = Date.now() + 1e7; while (Date.now() < until) {}")
    socket = zmq.Context.instance().socket(zmq.REQ)
    socket.connect(f"tcp://127.0.0.1:{kernel.client.get_connection_info()['hb_port']}")
    for _ in range(3):
        socket.send_multipart([b"ping", b"two"])
        holds(socket.poll(DEADLINE_S * 1000), "an answer")
        same(socket.recv_multipart(), [b"ping", b"two"])
    socket.close()
    kernel.interrupt()
    same(kernel.collect(request).error["ename"], "KeyboardInterrupt")


def until_closed(peer):
    """With an end or with a reset: which one, depends on what the kernel has read by then."""
    try:
        while peer.recv(4096):
            pass
    except ConnectionResetError:
        pass


def peers_that_speak_nonsense_do_no_harm():
    info = kernel.client.get_connection_info()
    for port in ("shell_port", "iopub_port", "control_port", "stdin_port", "hb_port"):
        for nonsense in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 200, b"\xff\0\0\0\0\0\0\0\1\x7f\3\0PLAIN" + b"\0" * 47,
                         b"\xff\0\0\0\0\0\0\0\1\x7f\3\0NULL" + b"\0" * 48 + b"\2\xff\xff\xff\xff\xff\xff\xff\xff", b""):
            with socket.create_connection(("127.0.0.1", info[port]), timeout=DEADLINE_S) as peer:
                peer.sendall(nonsense)
                if nonsense:
                    until_closed(peer)
    same(text("'alive'"), "'alive'")


def a_thousand_connections_do_no_harm():
    port = kernel.client.get_connection_info()["shell_port"]
    peers = [socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) for _ in range(1000)]
    same(text("'alive'"), "'alive'")
    for peer in peers:
        peer.close()
    same(text("'alive'"), "'alive'")


def messages_that_do_not_end_are_bounded():
    """Many peers begin long messages: together they get some memory, and no more."""
    port = kernel.client.get_connection_info()["shell_port"]
    ready = b"\5READY\x0bSocket-Type\0\0\0\6DEALER"
    hello = b"\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL" + b"\0" * 48 + bytes([4, len(ready)]) + ready
    peers = []
    for _ in range(10):
        peer = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S)
        peers.append(peer)
        try:
            peer.sendall(hello + b"\2" + (100 * 1024 * 1024).to_bytes(8, "big"))
            for _ in range(90):
                peer.sendall(b"x" * 1024 * 1024)
        except OSError:
            continue  # the kernel has closed the connection
    kernel.shrinks_below(500)
    for peer in peers:
        peer.close()
    same(text("'alive'"), "'alive'")


def random_numbers_are_renewed():
    same(text("const r = new Set(Array.from({ length: 1000 }, Math.random)); [r.size, Math.min(...r) >= 0, Math.max(...r) < 1]"), "[ 1000, true, true ]")
    run("globalThis[Symbol.for('sandglass.reseed')]?.()", silent=True)
    same(text("typeof globalThis[Symbol.for('sandglass.reseed')]"), "'function'")
    code = """
const c = require('crypto')
const filled = c.randomFillSync(new Uint16Array(8), 2, 3)
const later = await new Promise((done, fail) => c.randomBytes(8, (error, bytes) => error ? fail(error) : done(bytes)));
[c.randomBytes(16).length, c.randomUUID().length, crypto.randomUUID()[14], c.randomInt(5, 6), c.randomInt(1), later.length,
  crypto.getRandomValues(new Uint32Array(2)).length, filled[0] + filled[1] + filled[6], new Set(Array.from({ length: 300 }, () => c.randomInt(3))).size].join()
"""
    same(text(code), "'16,36,4,5,0,8,2,0,3'")
    same(run("require('crypto').randomBytes(-1)").error["ename"], "RangeError")


def environment_and_directory_are_the_process():
    same(text("process.env['A B'] = 'x\\'y\\n'; require('child_process').execFileSync('env', ['-0']).toString().includes(\"A B=x'y\\n\")"), "true")
    same(text("delete process.env['A B']; process.env['A B']"), None)
    same(text("process.cwd()"), "'/home/user'")
    same(run("process.chdir('/no/such/directory')").reply["status"], "error")


def process_exit_ends_the_kernel():
    other = Kernel("javascript")
    other.send("console.log('last words'); process.exit(3)")
    holds("last words" in other.idle_output("last words"), "output before the end arrives")
    other.wait_for_end()
    other.stop()


def a_shutdown_request_ends_the_kernel():
    other = Kernel("javascript")
    other.send("for (;;) {}")
    other.client.shutdown()
    reply = other.client.get_control_msg(timeout=DEADLINE_S)
    same((reply["msg_type"], reply["content"]["status"]), ("shutdown_reply", "ok"))
    other.wait_for_end()
    other.stop()


def the_kernel_is_small():
    other = Kernel("javascript")
    same(other.run("1").text, "1")
    holds(other.anonymous_mib < 80, f"{other.anonymous_mib} MiB")
    other.stop()


main([test for name, test in list(globals().items()) if callable(test) and getattr(test, "__module__", "") == "__main__"
      and test.__code__.co_argcount == 0 and name not in ("stops_growing", "signal_when_asleep", "absorb_signals")])
