"""The server's API by hand: Python's standard library is all that a guest has."""
import base64
import http.client
import json
import os
import re
import struct
import time
import urllib.parse

LATE_SECONDS = 60


class Refused(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status} {text[:300]}")
        self.status, self.text = status, text


def until(what, check, seconds=LATE_SECONDS):
    """What check() gives, once that is true; errors of a connection count as not yet."""
    deadline = time.monotonic() + seconds
    last = None
    while time.monotonic() < deadline:
        try:
            found = check()
            if found:
                return found
        except (OSError, http.client.HTTPException, Refused) as error:
            last = error
        time.sleep(0.05)
    raise AssertionError(f"{what}: not within {seconds} s ({last})")


def envelope(message):
    payload = json.dumps(message).encode()
    return struct.pack(">BI", 0, len(payload)) + payload


def messages(stream):
    at = 0
    while at + 5 <= len(stream):
        _, size = struct.unpack_from(">BI", stream, at)
        yield json.loads(stream[at + 5:at + 5 + size])
        at += 5 + size


class Server:
    def __init__(self, data):
        self.data = data
        self.read_env()

    def read_env(self):
        with open(os.path.join(self.data, "env"), encoding="utf-8") as lines:
            found = re.findall(r"^export ([A-Z0-9_]+)='?([^'\n]*)'?$", lines.read(), re.M)
        self.env = dict(found)
        self.at = urllib.parse.urlsplit(self.env["E2B_API_URL"])

    def send(self, method, path, body=None, headers=None):
        """-> (status, bytes)"""
        connection = http.client.HTTPConnection(self.at.hostname, self.at.port, timeout=LATE_SECONDS)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def call(self, method, path, body=None):
        """One call of the API -> its JSON; Refused when the answer is no success."""
        headers = {"X-API-Key": self.env["E2B_API_KEY"]} | ({"Content-Type": "application/json"} if body is not None else {})
        status, text = self.send(method, path, None if body is None else json.dumps(body), headers)
        if status >= 300:
            raise Refused(status, text.decode(errors="replace"))
        return json.loads(text) if text else None

    def create(self, template="base", **more):
        return Sandbox(self, self.call("POST", "/v2/sandboxes", {"templateID": template, "timeout": 3600, **more}))

    def list(self):
        return {entry["sandboxID"]: entry["state"] for entry in self.call("GET", "/v2/sandboxes")}

    def is_healthy(self):
        return self.send("GET", "/health")[0] in (200, 204)


class Sandbox:
    def __init__(self, server, answer):
        self.server, self.id, self.token = server, answer["sandboxID"], answer["envdAccessToken"]

    def post(self, what, **body):
        return self.server.call("POST", f"/sandboxes/{self.id}/{what}", body)

    def daemon(self, method, path, body=None, kind="application/octet-stream"):
        user = base64.b64encode(b"user:").decode()
        return self.server.send(method, path, body, {"E2b-Sandbox-Id": self.id, "E2b-Sandbox-Port": "49983", "X-Access-Token": self.token,
                                                     "Authorization": "Basic " + user, "Content-Type": kind})

    def run(self, script):
        """A shell command -> (exit code, output); a command that was killed has no exit code: None."""
        status, stream = self.daemon("POST", "/process.Process/Start",
                                     envelope({"process": {"cmd": "/bin/bash", "args": ["-c", script]}, "stdin": False}), "application/connect+json")
        if status != 200:
            raise Refused(status, stream.decode(errors="replace"))
        output, code = b"", None
        for message in messages(stream):
            event = message.get("event", {})
            output += b"".join(base64.b64decode(event.get("data", {}).get(kind, "")) for kind in ("stdout", "stderr"))
            if event.get("end", {}).get("exited"):
                code = event["end"].get("exitCode", 0)
        return code, output.decode(errors="replace")

    def output(self, script):
        code, text = self.run(script)
        if code != 0:
            raise AssertionError(f"{script!r} ended with {code}: {text}")
        return text

    @staticmethod
    def file_url(path):
        return "/files?" + urllib.parse.urlencode({"path": path, "username": "user"})

    def write(self, path, content):
        status, text = self.daemon("POST", self.file_url(path), content)
        if status != 200:
            raise Refused(status, text.decode(errors="replace"))

    def read(self, path):
        status, content = self.daemon("GET", self.file_url(path))
        if status != 200:
            raise Refused(status, content.decode(errors="replace"))
        return content

    def preview(self, port, path="/"):
        """A request to a port of the sandbox, by the name that a browser would use."""
        return self.server.send("GET", path, None, {"Host": f"{port}-{self.id}.{self.server.env['E2B_DOMAIN']}"})

    def state(self):
        return self.server.call("GET", f"/sandboxes/{self.id}")["state"]

    def connect(self):
        self.token = self.server.call("POST", f"/v2/sandboxes/{self.id}/connect", {"timeout": 3600})["envdAccessToken"]

    def kill(self):
        self.server.call("DELETE", f"/sandboxes/{self.id}")
