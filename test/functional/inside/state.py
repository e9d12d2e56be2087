"""Runs inside a sandbox: a Python process with much to lose.   python3 state.py PORT [MEBIBYTES]

Every HTTP request is answered with JSON: a counter, checksums, and whether each thing it holds still works.
"""
import hashlib
import http.server
import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
import time

port, mebibytes = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 16
memory = bytearray(random.Random(port).randbytes(1 << 20) * mebibytes)
requests = 0
ticks = 0
numbers = (n * n for n in range(10**9))
database = sqlite3.connect("/tmp/state.db", check_same_thread=False, isolation_level=None)
database.execute("create table kept (n integer)")
database.execute("begin immediate")
database.execute("insert into kept values (41)")
cat = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
log = open("/tmp/state.log", "w+")
log.write("first line\nsecond line\n")
log.seek(11)
started = time.monotonic()
asked, answered = threading.Event(), threading.Event()


def tick():
    global ticks
    while True:
        time.sleep(0.01)
        ticks += 1


def worker():
    while True:
        asked.wait()
        asked.clear()
        answered.set()


def works():
    yield "generator", next(numbers) >= 0
    yield "transaction", database.in_transaction and database.execute("select n from kept").fetchone() == (41,)
    cat.stdin.write(b"hello\n")
    cat.stdin.flush()
    yield "child", cat.stdout.readline() == b"hello\n" and cat.poll() is None
    yield "file position", log.tell() == 11 and log.readline() == "second line\n"
    log.seek(11)
    before = ticks
    deadline = time.monotonic() + 10
    while ticks == before and time.monotonic() < deadline:
        time.sleep(0.001)
    yield "thread that ticks", ticks > before
    asked.set()
    yield "thread that waits", answered.wait(10)
    answered.clear()
    yield "clock", time.monotonic() >= started


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        global requests
        requests += 1
        memory[requests] = requests & 255  # what was changed must be there the next time, too
        state = {
            "pid": os.getpid(),
            "requests": requests,
            "memory": hashlib.sha256(memory).hexdigest(),
            "touched": sum(memory[1 : requests + 1]) == sum(n & 255 for n in range(1, requests + 1)),
            "wall": time.time(),
            "mono": time.monotonic(),
            "works": dict(works()),
        }
        body = json.dumps(state).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


for run in (tick, worker):
    threading.Thread(target=run, daemon=True).start()
server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Handler)
print("ready", os.getpid(), flush=True)
server.serve_forever()
