"""Speaks to the interpreter of a sandbox as E2B's Python client does, and checks what it relies on.

usage: python_client.py '{"port": N, "sandboxId": "...", "trafficAccessToken": ..., "envdAccessToken": ...}'

HTTP/1.1; every field is sent, with null where nothing is given; lines are what str.splitlines() says; keys are taken without a
default.  Prints a line for each case.
"""
import http.client
import json
import sys
import traceback

SANDBOX = json.loads(sys.argv[1])
CHART_2D = ["x_label", "y_label", "x_unit", "y_unit"]
CHART_POINTS = CHART_2D + ["x_ticks", "x_tick_labels", "x_scale", "y_ticks", "y_tick_labels", "y_scale"]


class Execution:
    def __init__(self):
        self.stdout, self.stderr, self.results, self.error, self.count, self.timestamps = [], [], [], None, None, []

    def take(self, event):
        """One line, as the client's parser takes it: a missing key is a KeyError."""
        kind = event.pop("type")
        if kind == "stdout":
            self.stdout.append(event["text"])
            self.timestamps.append(event["timestamp"])
        elif kind == "stderr":
            self.stderr.append(event["text"])
            self.timestamps.append(event["timestamp"])
        elif kind == "result":
            self.results.append(event)
        elif kind == "error":
            self.error = (event["name"], event["value"], event["traceback"])
        elif kind == "number_of_executions":
            self.count = event["execution_count"]
        return kind


def headers(execute):
    found = {"Content-Type": "application/json", "E2b-Sandbox-Id": SANDBOX["sandboxId"], "E2b-Sandbox-Port": "49999", "User-Agent": "python-httpx/0.28.1"}
    if SANDBOX.get("trafficAccessToken"):
        found["E2B-Traffic-Access-Token"] = SANDBOX["trafficAccessToken"]
    if execute and SANDBOX.get("envdAccessToken"):
        found["X-Access-Token"] = SANDBOX["envdAccessToken"]
    return found


def ask(method, path, body=None, timeout=120):
    connection = http.client.HTTPConnection("127.0.0.1", SANDBOX["port"], timeout=timeout)
    payload = None if body is None else json.dumps(body)
    connection.request(method, path, payload, headers(path == "/execute"))
    return connection, connection.getresponse()


def call(method, path, body=None):
    connection, answer = ask(method, path, body)
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def lines(answer):
    """What httpx's iter_lines() gives: pieces are decoded as they come, and split wherever str.splitlines() splits."""
    rest = ""
    while piece := answer.read1(65536):
        text = rest + piece.decode("ascii")  # the service promises ASCII
        complete = text.splitlines(keepends=True)
        rest = complete.pop() if complete and not complete[-1].endswith("\n") else ""
        yield from (line.rstrip("\n") for line in complete)
    if rest:
        yield rest


def run(code, context_id=None, language=None, env_vars=None):
    connection, answer = ask("POST", "/execute", {"code": code, "context_id": context_id, "language": language, "env_vars": env_vars})
    assert answer.status == 200, (answer.status, answer.read())
    assert answer.version == 11
    execution, kinds = Execution(), []
    for line in lines(answer):
        kinds.append(execution.take(json.loads(line)))
    connection.close()
    assert kinds[-1] == "end_of_execution", kinds
    return execution


def explicit_nulls():
    assert run("x = 1; x").results[0]["text"] == "1"
    assert run("1+1", language="js").results[0]["text"] == "2"
    assert run("import os; print(os.environ['FOO'])", env_vars={"FOO": "bar"}).stdout == ["bar\n"]


def separators_of_lines():
    text = "a\u0085b\u2028c\u2029d\x0ce\x0bf\x1cg\x1dh\x1ei ü"
    execution = run(f"print({text!r})\n{text!r}")
    assert "".join(execution.stdout) == text + "\n"


def timestamps_and_errors():
    execution = run("import sys\nprint('out')\nprint('err', file=sys.stderr)\nraise ValueError('no')")
    assert len(execution.timestamps) == 2 and all(isinstance(t, str) and t for t in execution.timestamps)
    assert execution.error[:2] == ("ValueError", "no") and "ValueError" in execution.error[2]
    assert run("(exit 4)", language="bash").error == ("", "4", "")


def results_keep_extra():
    execution = run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n7")
    assert execution.results[0]["extra"] == {} and execution.results[1]["extra"] == {}
    assert execution.results[0]["is_main_result"] is False and execution.results[1]["is_main_result"] is True


def chart(code):
    return run(f"import matplotlib.pyplot as plt\nplt.close('all')\n{code}\nplt.show()").results[0]["chart"]


def charts_have_all_keys():
    line = chart("plt.plot([1, 2], [3, 4], label='l')\nplt.xlabel('Time (s)')")
    assert line["type"] == "line" and line["title"] is None and line["x_unit"] == "s"
    for key in CHART_POINTS:
        line[key]
    assert all(isinstance(n, float) for n in line["x_ticks"] + line["y_ticks"])
    assert all(isinstance(n, float) for point in line["elements"][0]["points"] for n in point)
    bar = chart("plt.bar(['a', 'b'], [1, 2], label='g')")
    assert all(isinstance(e["value"], float) and e["group"] == "g" for e in bar["elements"])
    for key in CHART_2D:
        bar[key]
    pie = chart("plt.pie([1, 1], labels=['a', 'b'])")
    assert all(isinstance(e["angle"], float) and isinstance(e["radius"], float) for e in pie["elements"])
    box = chart("plt.boxplot([[1, 2, 3]], patch_artist=True)")
    for key in ["min", "first_quartile", "median", "third_quartile", "max"]:
        assert isinstance(box["elements"][0][key], float), key
    both = chart("fig, (a, b) = plt.subplots(1, 2)\na.plot([1, 2])\nb.plot([2, 1])")
    assert both["type"] == "superchart" and both["title"] == "" and len(both["elements"]) == 2
    assert '"line"' in json.dumps(both)


def contexts_without_an_access_token():
    status, text = call("POST", "/contexts", {"language": "python", "cwd": "/root"})
    context = json.loads(text)
    assert (status, context["language"], context["cwd"]) == (200, "python", "/root"), text
    assert run("import os; os.getcwd()", context_id=context["id"]).results[0]["text"] == "/root"
    assert json.loads(call("GET", "/contexts")[1])[-1]["id"] == context["id"]
    assert call("POST", f"/contexts/{context['id']}/restart")[0] == 200
    assert call("DELETE", f"/contexts/{context['id']}")[0] == 200
    assert call("DELETE", f"/contexts/{context['id']}") == (404, f"Context {context['id']} not found")


def a_deadline_closes_the_socket():
    connection, answer = ask("POST", "/execute", {"code": "import time\nprint('runs', flush=True)\ntime.sleep(300)", "context_id": None, "language": None, "env_vars": None})
    for line in lines(answer):
        if json.loads(line)["type"] == "stdout":
            break
    answer.close()
    connection.close()
    assert run("1 + 1").results[0]["text"] == "2"


def one_print_is_one_event():
    assert run("print('hello')").stdout == ["hello\n"]
    assert run("print(1)").count > 0


CASES = [explicit_nulls, separators_of_lines, timestamps_and_errors, results_keep_extra, charts_have_all_keys, contexts_without_an_access_token, a_deadline_closes_the_socket, one_print_is_one_event]
failed = 0
for case in CASES:
    try:
        case()
        print("ok -", case.__name__)
    except Exception:  # pylint: disable=broad-except
        failed += 1
        print("not ok -", case.__name__)
        traceback.print_exc()
sys.exit(1 if failed else 0)
