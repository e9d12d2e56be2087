"""A stand-in for the code interpreter, for tests of its clients: it says what the code tells it to say.

usage: interpreter.py [PORT]       default 49999

The code of a run is a Python program that calls
    send(type, **fields)    one event
    raw(text or bytes)      bytes of the answer as they are
    bare()                  without the events at both ends (number_of_executions, end_of_execution)
    cut()                   end the connection in the middle
    hang()                  keepalives until the client has gone, then note(...) "left"
    note(text)              append a line to /tmp/notes
Variables stay in the context; `env` has the variables of the run.  An exception becomes an error event, as in a real kernel.
"""
import json
import socket
import sys
import threading
import time
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LANGUAGES = {"python", "javascript", "typescript", "r", "java", "bash"}
ALIASES = {"js": "javascript", "ts": "typescript"}
contexts = {}  # by id: {"id", "language", "cwd"}
states = {}  # by id: variables, count
lock = threading.Lock()


class Gone(Exception):
    pass


def note(text):
    with lock, open("/tmp/notes", "a", encoding="utf-8") as f:
        f.write(f"{text}\n")


def add_context(name, language, cwd="/home/user"):
    contexts[name] = {"id": name, "language": language, "cwd": cwd}
    states[name] = {"variables": {}, "count": 0}
    return contexts[name]


class Run:
    """One answer of /execute, in chunks."""

    def __init__(self, out, connection, state):
        self.out, self.connection, self.state = out, connection, state
        self.is_bare = self.has_begun = False

    def raw(self, data):
        data = data.encode() if isinstance(data, str) else data
        try:
            self.out.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.out.flush()
        except OSError:
            raise Gone from None

    def begin(self):
        if not self.has_begun and not self.is_bare:
            self.has_begun = True
            self.raw(json.dumps({"type": "number_of_executions", "execution_count": self.state["count"]}) + "\n")

    def send(self, kind, **fields):
        self.begin()
        self.raw(json.dumps({"type": kind, **fields}) + "\n")

    def bare(self):
        self.is_bare = True

    def cut(self):
        self.connection.shutdown(socket.SHUT_RDWR)
        raise Gone

    def hang(self):
        self.begin()
        try:
            while True:
                self.send("keepalive")
                time.sleep(0.02)
        except Gone:
            note("left")
            raise

    def run(self, code, env):
        self.state["count"] += 1
        variables = self.state["variables"]
        variables.update(send=self.send, raw=lambda data: (self.begin(), self.raw(data)), bare=self.bare, cut=self.cut,
                         hang=self.hang, note=note, env=env or {}, sleep=time.sleep)
        try:
            exec(compile(code, "<cell>", "exec"), variables)
        except Gone:
            raise
        except BaseException as e:
            self.send("error", name=type(e).__name__, value=str(e), traceback=traceback.format_exc())
        if not self.is_bare:
            self.begin()
            self.raw('{"type":"end_of_execution"}\n')


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind="application/json"):
        data = body.encode() if kind == "text/plain" else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, text):
        self.answer(status, text, "text/plain")

    def body(self):
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(data) if data else {}

    def make_context(self, language, cwd):
        language = ALIASES.get(language, language) or "python"
        if language not in LANGUAGES:
            self.refuse(500, f"Failed to create context: no kernel for '{language}'")
            return None
        return add_context(f"c{len(states)}", language, cwd or "/home/user")

    def execute(self, rq):
        note(f"execute {json.dumps({k: rq[k] for k in sorted(rq) if k != 'code'})} token={self.headers.get('X-Access-Token') is not None}")
        if rq.get("context_id") and rq.get("language"):
            return self.refuse(400, "Only one of context_id or language can be provided")
        name = rq.get("context_id")
        if not name:
            language = ALIASES.get(rq.get("language"), rq.get("language")) or "python"
            found = [c for c in contexts.values() if c["id"] == f"default-{language}"]
            if not found and language not in LANGUAGES:
                return self.refuse(500, f"Failed to create context: no kernel for '{language}'")
            name = (found[0] if found else add_context(f"default-{language}", language))["id"]
        if name not in contexts:
            return self.refuse(404, f"Context {name} not found")
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()
        try:
            Run(self.wfile, self.connection, states[name]).run(rq["code"], rq.get("env_vars"))
            self.wfile.write(b"0\r\n\r\n")
        except (Gone, OSError):
            self.close_connection = True

    def do_GET(self):
        if self.path == "/health":
            self.answer(200, "OK")
        elif self.path == "/contexts":
            self.answer(200, list(contexts.values()))
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        rq = self.body()
        if self.path == "/execute":
            self.execute(rq)
        elif self.path == "/contexts":
            context = self.make_context(rq.get("language"), rq.get("cwd"))
            if context:
                note(f"context {context['id']} {context['language']} {context['cwd']}")
                self.answer(200, context)
        else:
            self.answer(404, {"detail": "Not Found"})

    def do_DELETE(self):
        name = self.path.removeprefix("/contexts/")
        if name not in contexts:
            return self.refuse(404, f"Context {name} not found")
        del contexts[name]
        note(f"deleted {name}")
        self.answer(200, None)


for default in ("python", "javascript"):
    add_context(f"default-{default}", default)
ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1]) if len(sys.argv) > 1 else 49999), Handler).serve_forever()
