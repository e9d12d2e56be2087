"""Jupyter messages over ZeroMQ sockets: signed, and with waiting instead of dropping."""

import datetime
import hashlib
import hmac
import json
import os
import threading
import time
import uuid

import zmq

DELIMITER = b"<IDS|MSG>"
OUTPUT_MESSAGES_MAX = 100  # that wait for a slow client; the kernel's own buffers come on top
CONTROL_WAIT_S = 1.0  # how long the control channel waits for a main thread that waits for a slow client
MESSAGE_BYTES_MAX = 256 * 1024 * 1024


class Request:
    def __init__(self, channel, identities, header, content):
        self.channel = channel
        self.identities = identities
        self.header = header
        self.type = header["msg_type"]
        self.content = content


class Wire:
    def __init__(self, connection_file):
        with open(connection_file, encoding="utf-8") as file:
            self.connection = json.load(file)
        if self.connection["transport"] != "tcp":
            raise ValueError(f"transport {self.connection['transport']!r} is not supported")
        scheme, _, digest = self.connection.get("signature_scheme", "hmac-sha256").partition("-")
        if scheme != "hmac" or digest not in hashlib.algorithms_available:
            raise ValueError("the signature scheme is not supported")
        self.key, self.digest = self.connection["key"].encode(), digest
        self.session = str(uuid.uuid4())
        self.count = 0
        self.context = zmq.Context()
        self.shell = self._bind(zmq.ROUTER, "shell_port")
        self.control = self._bind(zmq.ROUTER, "control_port")
        self.stdin = self._bind(zmq.ROUTER, "stdin_port")
        self.iopub = self._bind(zmq.XPUB, "iopub_port")
        self.publishing = threading.Lock()  # for the iopub socket
        self.poller = zmq.Poller()
        self.poller.register(self.shell, zmq.POLLIN)

    def _bind(self, kind, port):
        socket = self.context.socket(kind)
        socket.linger = 1000
        socket.set(zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX)
        if kind == zmq.XPUB:
            socket.set(zmq.SNDHWM, OUTPUT_MESSAGES_MAX)
            socket.set(zmq.XPUB_NODROP, 1)
        socket.bind(f"tcp://{self.connection['ip']}:{self.connection[port]}")
        return socket

    def start_heartbeat(self):
        socket = self.context.socket(zmq.REP)
        socket.set(zmq.MAXMSGSIZE, 65536)
        socket.bind(f"tcp://{self.connection['ip']}:{self.connection['hb_port']}")

        def echo():
            while True:
                try:
                    socket.send_multipart(socket.recv_multipart())
                except zmq.ZMQError:
                    if socket.closed:
                        return

        threading.Thread(target=echo, daemon=True).start()

    def wait_for_shell(self, terminal):
        """Waits for a request, or for output of a background job: then True."""
        self.poller.register(terminal, zmq.POLLIN)
        try:
            return any(which == terminal for which, _ in self.poller.poll())
        finally:
            self.poller.unregister(terminal)

    def shell_requests(self):
        """The next request, if there is one."""
        request = self._receive(self.shell, zmq.DONTWAIT)
        return [request] if request else []

    def waiting_shell_requests(self):
        """Requests that have arrived by now."""
        requests = []
        while self.shell.poll(0):
            request = self._receive(self.shell, zmq.DONTWAIT)
            if request:
                requests.append(request)
        return requests

    def control_requests(self):
        while True:
            request = self._receive(self.control, 0)
            if request:
                yield request

    def _receive(self, socket, flags):
        """A valid request, or None: what is not valid is dropped."""
        try:
            frames = socket.recv_multipart(flags)
        except zmq.Again:
            return None
        try:
            at = frames.index(DELIMITER)
            signature, *parts = frames[at + 1:]
            if len(parts) < 4 or (self.key and not hmac.compare_digest(signature, self._sign(parts[:4]))):
                return None
            header, content = json.loads(parts[0]), json.loads(parts[3])
            if not isinstance(header["msg_type"], str) or not isinstance(content, dict):
                return None
            return Request(socket, frames[:at], header, content)
        except (ValueError, KeyError, TypeError, RecursionError):
            return None

    def _sign(self, parts):
        if not self.key:
            return b""
        mac = hmac.new(self.key, digestmod=self.digest)
        for part in parts:
            mac.update(part)
        return mac.hexdigest().encode()

    def _compose(self, prefix, kind, parent, content):
        self.count += 1
        header = {
            "msg_id": f"{self.session}_{self.count}", "session": self.session, "username": "kernel",
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(), "msg_type": kind, "version": "5.3",
        }
        parts = [json.dumps(part).encode() for part in (header, parent.header if parent else {}, {}, content)]
        return [*prefix, DELIMITER, self._sign(parts), *parts]

    def publish(self, kind, parent, content):
        """Waits while the client is slow."""
        topic = f"stream.{content['name']}" if kind == "stream" else kind
        with self.publishing:
            self._take_subscriptions()
            self.iopub.send_multipart(self._compose([topic.encode()], kind, parent, content))

    def _take_subscriptions(self):
        """libzmq keeps the list; the messages about it only have to be taken."""
        while self.iopub.get(zmq.EVENTS) & zmq.POLLIN:
            self.iopub.recv_multipart()

    def publish_soon(self, kind, parent, content):
        """As publish, for threads that must not wait for the client: then nothing is published."""
        if not self.publishing.acquire(timeout=CONTROL_WAIT_S):
            return
        try:
            self.iopub.send_multipart(self._compose([kind.encode()], kind, parent, content), zmq.DONTWAIT)
        except zmq.Again:
            pass
        finally:
            self.publishing.release()

    def reply(self, request, content):
        kind = request.type.replace("_request", "_reply")
        request.channel.send_multipart(self._compose(request.identities, kind, request, content))

    def flush_and_exit(self):
        """From the control thread: the main thread may never come back."""
        self.control.close()
        if self.publishing.acquire(timeout=CONTROL_WAIT_S):
            self.iopub.close()
        time.sleep(0.1)  # the sockets' own thread sends what is left
        os._exit(0)
