"""The other side of the figures of the code interpreter: plain jupyter_client with the same kernel, without the service.

Runs inside a sandbox of the template and answers on a port, so that both sides are measured in turn. What it answers is measured
here, without the way of the answer.
usage: peer.py PORT
    GET /calls/N      the times of N executions of 1+1, in microseconds
    GET /output/N     the time of an execution that prints N megabytes line by line, in microseconds
"""
import http.server
import json
import os
import sys
import time

from jupyter_client.manager import KernelManager

LINE = "x" * 99


def run(client, code):
    """One execution, until both its reply and its last message are here: (microseconds, size of the output, result)."""
    began = time.perf_counter()
    request = client.execute(code, allow_stdin=False)
    size, text = 0, None
    while True:
        message = client.get_iopub_msg(timeout=600)
        if message["parent_header"].get("msg_id") != request:
            continue
        kind, content = message["msg_type"], message["content"]
        if kind == "stream":
            size += len(content["text"])
        elif kind == "execute_result":
            text = content["data"]["text/plain"]
        elif kind == "status" and content["execution_state"] == "idle":
            break
    while client.get_shell_msg(timeout=600)["parent_header"].get("msg_id") != request:
        pass
    return (time.perf_counter() - began) * 1e6, size, text


def calls(client, count):
    times = []
    for _ in range(count):
        took, _, text = run(client, "1+1")
        if text != "2":
            raise ValueError(f"1+1 is {text}")
        times.append(took)
    return times


def output(client, megabytes):
    took, size, _ = run(client, f"for i in range({megabytes * 10_000}): print({LINE!r})")
    if size != megabytes * 1_000_000:
        raise ValueError(f"{size} bytes of {megabytes} MB came")
    return took


class Answer(http.server.BaseHTTPRequestHandler):
    client = None

    def do_GET(self):
        _, what, count = self.path.split("/")
        try:
            status, body = 200, {"calls": calls, "output": output}[what](self.client, int(count))
        except Exception as error:
            status, body = 500, str(error)
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


def main():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(cwd="/home/user", env=dict(os.environ))
    Answer.client = manager.client()
    Answer.client.start_channels()
    Answer.client.wait_for_ready(timeout=120)
    http.server.HTTPServer(("0.0.0.0", int(sys.argv[1])), Answer).serve_forever()


main()
