"""The bash kernel, driven by Debian's jupyter_client. usage: test_kernel.py [WORD...]"""

import os
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))

import zmq  # noqa: E402
from kernel_client import DEADLINE_S, Kernel, holds, main, same  # noqa: E402

kernel = Kernel("bash")


def run(code, **options):
    return kernel.run(code, **options)


def out(code):
    result = run(code)
    holds(result.error is None, f"{code}: {result}")
    return result.stdout


# Protocol


def kernel_info_names_the_language():
    info = kernel.ask("kernel_info_request")
    same((info["status"], info["protocol_version"], info["language_info"]["name"]), ("ok", "5.3", "bash"))


def states_and_input_frame_an_execution():
    result = run("echo 1")
    same(result.states, ["busy", "idle"])
    same([kind for kind, _ in result.messages], ["execute_input", "stream"])
    same(result.reply["status"], "ok")


def counts_only_what_goes_into_the_history():
    first = run(":").reply["execution_count"]
    same(run("quiet=1", silent=True).reply["execution_count"], first)
    same(run(":", store_history=False).reply["execution_count"], first)
    same(run(":").reply["execution_count"], first + 1)
    same(out("echo $quiet"), "1\n")


def silent_executions_show_no_input_and_no_error():
    result = run("false", silent=True)
    same([kind for kind, _ in result.messages], [])
    same((result.reply["status"], result.reply["evalue"]), ("error", "1"))


def user_expressions_are_what_they_print():
    reply = run("v=5", user_expressions={"good": "echo $v", "bad": "(exit 3)"}).reply["user_expressions"]
    same(reply["good"]["data"]["text/plain"], "5\n")
    same((reply["bad"]["status"], reply["bad"]["evalue"]), ("error", "3"))


def an_error_aborts_queued_executions():
    requests = [kernel.send("sleep 5; false"), kernel.send("echo 1"), kernel.send("echo 2")]
    same([kernel.reply(request)["status"] for request in requests], ["error", "aborted", "aborted"])
    requests = [kernel.send("sleep 1; false", stop_on_error=False), kernel.send("echo 1")]
    same([kernel.reply(request)["status"] for request in requests], ["error", "ok"])


def completes_commands_variables_and_files():
    run("completing_variable=1; completing_function() { :; }")
    same(kernel.ask("complete_request", code="echo $completing_", cursor_pos=17)["matches"], ["$completing_variable"])
    same(kernel.ask("complete_request", code="completing_f", cursor_pos=12)["matches"], ["completing_function"])
    reply = kernel.ask("complete_request", code="ls /etc/passw", cursor_pos=13)
    holds("/etc/passwd" in reply["matches"], reply)
    same((reply["cursor_start"], reply["cursor_end"]), (3, 13))


def knows_whether_code_is_complete():
    for code, status in (("echo 1", "complete"), ("echo 'open", "incomplete"), ("if true; then", "incomplete"), ("echo \\", "incomplete"),
                         ("fi", "invalid")):
        same(kernel.ask("is_complete_request", code=code)["status"], status, code)


def other_requests_are_answered():
    same(kernel.ask("history_request", hist_access_type="tail", n=5, output=False, raw=True)["history"], [])
    same(kernel.ask("comm_info_request")["comms"], {})
    holds(kernel.ask("inspect_request", code="cd", cursor_pos=2)["found"], "cd is known")
    same(kernel.ask("inspect_request", code="nosuchthing", cursor_pos=2)["found"], False)


def messages_with_a_wrong_signature_are_dropped():
    session = kernel.client.session
    key = session.key
    session.key = b"wrong"
    kernel.client.execute("forged=1")
    session.key = key
    same(out("echo [$forged]"), "[]\n")


# Output


def each_line_is_one_chunk():
    same(run("echo a; echo b; printf 'c\\nd\\n'").chunks(), ["a\n", "b\n", "c\n", "d\n"])


def stderr_is_merged():
    result = run("echo out; echo err >&2; ls /nosuchfile")
    same(result.chunks()[:2], ["out\n", "err\n"])
    same(result.stderr, "")


def lines_without_an_end_come_out():
    same(run("printf partial").chunks(), ["partial"])
    result = run("printf first; sleep 2; echo second")
    same(result.stdout, "firstsecond\n")
    same(result.chunks()[0], "first")


def only_newlines_end_lines():
    same(run("printf 'a\\rb\\n'; printf 'x\\u0085y\\u2028z\\v\\f\\n'").chunks(), ["a\rb\n", "x\u0085y\u2028z\v\f\n"])


def invalid_utf8_is_replaced():
    same(run("printf '\\xff\\xfe bad\\n'; printf '\\xc3'; sleep 1; printf '\\xa9\\n'").stdout, "\ufffd\ufffd bad\n\u00e9\n")


def escape_sequences_pass():
    same(out("printf '\\e[1mbold\\e[0m\\n'; printf '\\e_sandglass 0123\\e\\\\\\n'; printf '\\e'"), "\x1b[1mbold\x1b[0m\n\x1b_sandglass 0123\x1b\\\n\x1b")


def there_is_no_prompt_and_no_echo():
    same(run("x=1").chunks(), [])
    same(run("").chunks(), [])
    same(run("# comment").chunks(), [])
    holds("[?2004" not in out("echo x"), "no bracketed paste")


def output_is_a_terminal_and_input_is_empty():
    same(out("[ -t 1 ] && echo terminal; read line; echo \"$? $line\"; cat"), "terminal\n1 \n")


def background_output_arrives_later():
    run("{ sleep 1; echo from the background; } & disown")
    holds("from the background" in kernel.idle_output("from the background"), "output")


# State and errors


def state_is_kept():
    run("x=5; export Y=2; cd /tmp; f() { echo \"f $1\"; }; alias al='echo aliased'; arr=(a b); shopt -s nullglob; set -o pipefail")
    same(out("echo $x $Y $PWD ${arr[1]}; f 1; al; bash -c 'echo $Y'; shopt -q nullglob && echo glob; false | true || echo pipefail"),
         "5 2 /tmp b\nf 1\naliased\n2\nglob\npipefail\n")
    run("cd /home/user; shopt -u nullglob; set +o pipefail")


def the_shell_is_interactive():
    same(out("[[ $- == *i* && $- == *m* ]] && echo yes"), "yes\n")


def the_status_is_the_error():
    for code, status in (("false", "1"), ("(exit 42)", "42"), ("nosuchcommand", "127"), ("echo fine; false", "1"), ("sh -c 'kill -9 $$'", "137")):
        error = run(code).error
        same(error, {"ename": "", "evalue": status, "traceback": []}, code)
    same(run("false; true").error, None)


def a_trailing_backslash_is_an_error():
    for code in ("echo foo \\", "echo foo \\\n", "\\"):
        same(run(code).error, {"ename": "", "evalue": "Cell has trailing backslash", "traceback": []}, code)
    same(out("echo foo \\\\"), "foo \\\n")
    same(out("echo a \\\nb"), "a b\n")


def incomplete_code_does_not_hang():
    for code in ('echo "open', "echo 'open", "if true; then echo x", "f() {", "echo $(ls", "for i in 1; do"):
        result = run(code)
        holds(result.error is not None and result.error["evalue"] in ("1", "2"), f"{code}: {result}")
        holds("unexpected" in result.stdout, f"{code}: {result}")
    holds("syntax error: unexpected end of file" in run("if true; then echo x").stdout, "the message of bash")
    same(run("echo a; echo b)").error["evalue"], "2")
    same(out("echo fine"), "fine\n")


def documents_and_long_code_work():
    same(out("cat <<EOF\na $((1 + 1))\n'b'\nEOF\ncat <<'EOF'\n$x\nEOF"), "a 2\n'b'\n$x\n")
    same(out("for i in 1 2; do\n  case $i in\n    1) echo one ;;\n    *) echo other ;;\n  esac\ndone"), "one\nother\n")
    same(out("cat <<EOF\nwithout an end")[-len("without an end\n"):], "without an end\n")
    same(out(": '" + "z" * 10_000_000 + "'; echo long"), "long\n")


def text_of_any_kind_passes():
    same(out("echo 'é \U0001f600 \"$x\" `x` \\'"), "é \U0001f600 \"$x\" `x` \\\n")
    same(run("echo a\0b").error["evalue"], "Cell has a NUL character")


def environment_values_of_any_kind_pass():
    run("export ODD='a'\\''b\nc\"$x'", silent=True)
    same(out("printf '%s' \"$ODD\""), "a'b\nc\"$x")
    run("unset ODD", silent=True)
    same(out("echo [${ODD-unset}]"), "[unset]\n")


def jobs_survive_cells():
    run("sleep 1000 & job=$!")
    same(out("kill -0 $job && echo runs"), "runs\n")
    run("kill $job; wait $job")
    same(run("kill -0 $job").reply["status"], "error")


# Hostile cells


def settings_of_the_shell_do_no_harm():
    run("PS1='PROMPT> '; PS2='MORE> '; PROMPT_COMMAND='echo prompted'")
    same(out("echo $PS1"), "PROMPT>\n")
    run("alias printf='echo no' eval='echo no' builtin='echo no' unset='echo no'; printf() { echo no; }; eval() { echo no; }")
    same(out("echo fine"), "fine\n")
    run("unalias -a; \\unset -f printf eval")
    run("IFS=abcdefghijklmnop0123456789; set -f -u -C -k")
    same(out("echo fine"), "fine\n")
    run("IFS=$' \\t\\n'; set +f +u +C +k; PS1=")
    same(run("stty -F /dev/tty sane; stty -F /dev/tty raw").error, None)
    same(out("echo a; echo b"), "a\nb\n")


def tracing_shows_only_the_users_code():
    same(run("set -x; echo traced").stdout.replace("++", "+"), "+ echo traced\ntraced\n")
    same(run("echo more").stdout.replace("++", "+"), "+ echo more\nmore\n")
    run("set +x; set -v")
    holds("sandglass" not in run("echo verbose").stdout, "nothing of the kernel's")
    run("set +v")
    same(out("echo quiet"), "quiet\n")


def traps_do_no_harm():
    run("trap 'echo interrupted' INT; trap 'echo debug >/dev/null' DEBUG; trap 'echo failed' ERR")
    holds("failed" in run("false").stdout, "the trap runs")
    same(out("kill -INT $$; echo on"), "interrupted\non\n")
    run("trap - INT DEBUG ERR")


def redirections_of_the_shell_stay_the_users():
    run("exec 3>&1 >/dev/null")
    same(out("echo hidden"), "")
    run("exec >&3 3>&-")
    same(out("echo seen"), "seen\n")
    run("exec </dev/zero")
    same(out("read -t 1 line; echo still"), "still\n")


def signals_to_the_shell_itself_do_no_harm():
    run("kept=42")
    same(run("kill -INT $$; sleep 1000").error["evalue"], "130")
    same(out("echo $kept"), "42\n")


def the_end_of_the_shell_is_an_error_and_a_new_one_starts():
    for code, status in (("exit 3", "3"), ("set -e; false; echo never", "1"), ("exec sh -c 'exit 4'", "4"), ("kill -9 $$", "137")):
        run("cd /tmp; export KEPT=exported; lost=1")
        result = run(code)
        same(result.error["evalue"], status, code)
        holds("bash has ended" in result.stderr, result)
        same(out("echo $PWD $KEPT [$lost] $-")[:len("/tmp exported [] ")], "/tmp exported [] ", code)
    holds("bash has ended" in run("exit").stderr, "also without an error")
    run("cd /home/user; unset KEPT")


def what_the_last_cell_exported_is_kept():
    run("export AT_THE_END=\"it's\nhere\"; cd /; exit 0")
    same(out("echo \"$AT_THE_END\" $PWD"), "it's\nhere /\n")
    run("cd /home/user; unset AT_THE_END; trap 'echo goodbye' EXIT")
    holds("goodbye" in run("exit 1").stdout, "a trap of the user's runs")
    same(out("pwd"), "/home/user\n")


def descriptors_of_the_kernel_stay_its_own():
    names = set(out("ls /proc/self/fd").split())
    holds(names <= {"0", "1", "2", "3", "252", "253", "254"}, names)
    before = len(os.listdir(f"/proc/{kernel.pid}/fd"))
    for _ in range(3):
        run("exit")
    same(len(os.listdir(f"/proc/{kernel.pid}/fd")), before, "descriptors")


# Interrupts and resources


def interrupted(code, how=None):
    result = run("echo started; " + code, until=how or kernel.interrupt)
    same(result.error and result.error["evalue"], "130", code)
    same(out("echo $kept"), "42\n", code)


def endless_code_is_interrupted_and_state_is_kept():
    run("kept=42")
    interrupted("sleep 1000")
    interrupted("sleep 1000; echo never")
    interrupted("while :; do :; done")
    interrupted("while true; do sleep 0.1; done")
    interrupted("cat </dev/tty")
    interrupted("stty -F /dev/tty -isig; sleep 1000")
    interrupted("sleep 1000", lambda: os.kill(kernel.pid, signal.SIGINT))


def many_interrupts_lose_no_cell():
    run("kept=42")
    for code in ("sleep 1000", "while :; do :; done", "true", "sleep 0.05"):
        for _ in range(3):
            sent = threading.Event()
            result = run("echo started; " + code, until=lambda done=sent: [*(kernel.interrupt() for _ in range(20)), done.set()])
            holds(result.reply["status"] in ("ok", "error"), result)
            holds(not result.stdout or sent.wait(DEADLINE_S), "all interrupts are sent")
            comes_back()


def comes_back():
    """Interrupts are not answered to the sender: the last of them may end a cell that was sent later."""
    end = time.monotonic() + DEADLINE_S
    while not run("echo $kept").stdout.endswith("42\n"):
        holds(time.monotonic() < end, "a cell runs to its end")


def an_interrupt_of_nothing_is_harmless():
    run("kept=42")
    kernel.interrupt()
    os.kill(kernel.pid, signal.SIGINT)
    comes_back()


def heartbeats_are_answered_while_code_runs():
    request = kernel.started("echo begun; sleep 1000")
    socket = zmq.Context.instance().socket(zmq.REQ)
    socket.connect(f"tcp://127.0.0.1:{kernel.client.get_connection_info()['hb_port']}")
    socket.send(b"ping")
    holds(socket.poll(DEADLINE_S * 1000), "an answer")
    same(socket.recv(), b"ping")
    socket.close()
    kernel.interrupt()
    same(kernel.collect(request).reply["status"], "error")


def printing_waits_for_a_slow_reader():
    """Nobody reads while 1 GB would be printed; then the code is interrupted."""
    run("kept=42")
    request = kernel.started("yes 'a line of some length' | head -c 1000000000")
    last, since = kernel_time(), time.monotonic()
    end = since + DEADLINE_S
    while time.monotonic() - since < 1:
        holds(time.monotonic() < end, "the kernel waits")
        time.sleep(0.1)
        if kernel_time() != last:
            last, since = kernel_time(), time.monotonic()
    holds(kernel.anonymous_mib < 60, f"{kernel.anonymous_mib} MiB")
    kernel.interrupt()
    result = kernel.collect(request)
    same(result.error["evalue"], "130")
    holds(len(result.stdout) < 64 * 1024 * 1024, "far less than everything was printed")
    run(":")  # bash answers an interrupt that comes when the cell has just ended with an empty line
    same(out("echo $kept"), "42\n")


def kernel_time():
    with open(f"/proc/{kernel.pid}/stat", encoding="utf-8") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def much_output_comes_whole():
    result = run("seq 200000")
    same(result.stdout, "".join(f"{n}\n" for n in range(1, 200001)))
    same(result.chunks()[:3], ["1\n", "2\n", "3\n"])
    same(len(out("head -c 3000000 /dev/zero | tr '\\0' x")), 3000000)
    holds(kernel.anonymous_mib < 60, f"{kernel.anonymous_mib} MiB")


def a_shutdown_request_ends_the_kernel_and_its_jobs():
    other = Kernel("bash")
    pid = int(other.run("sleep 1000 & echo $!").stdout.split()[-1])
    request = other.send("echo begun; sleep 1000")
    other.idle_output("begun")
    other.client.shutdown()
    reply = other.client.get_control_msg(timeout=DEADLINE_S)
    same((reply["msg_type"], reply["content"]["status"]), ("shutdown_reply", "ok"))
    other.wait_for_end()
    end = time.monotonic() + DEADLINE_S
    while is_running(pid):
        holds(time.monotonic() < end, f"job {pid} of {request} ends")
        time.sleep(0.05)
    other.stop()


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


main([test for name, test in list(globals().items()) if callable(test) and getattr(test, "__module__", "") == "__main__"
      and test.__code__.co_argcount == 0 and name not in ("kernel_time", "comes_back")])
