"""A kernel under test, driven by Debian's jupyter_client."""

import json
import os
import signal
import time

from jupyter_client import KernelManager
from jupyter_client.kernelspec import KernelSpec

import tap

FOLDER = os.environ.get("SANDGLASS_PYTHON_KERNEL", "/opt/sandglass/interpreter/python")
# How long anything may take. Not a figure: the machine may be busy.
DEADLINE = 300

# What tests with the shared kernel may use without an import of their own, whichever of them run.
IMPORTS = """
import asyncio, io, os, pathlib, subprocess, sys, threading, time
import matplotlib.pyplot as plt, numpy as np, pandas as pd
from PIL import Image
"""

_shared = []


class Manager(KernelManager):
    """Starts the kernel from its kernel.json, wherever its folder is."""

    @property
    def kernel_spec(self):
        with open(os.path.join(FOLDER, "kernel.json")) as file:
            spec = json.load(file)
        argv = [part.replace("/opt/sandglass/interpreter/python", FOLDER) for part in spec["argv"]]
        return KernelSpec(**{**spec, "argv": argv})


class Run:
    """What one execution gave."""

    def __init__(self):
        self.stdout = []
        self.stderr = []
        self.results = []
        self.main = []
        self.error = None
        self.count = None
        self.reply = None

    def out(self):
        return "".join(self.stdout)


class Kernel:
    def __init__(self, cwd="/home/user"):
        os.makedirs(cwd, exist_ok=True)
        self.manager = Manager()
        self.manager.start_kernel(cwd=cwd)
        tap.at_end.append(self.end)
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=DEADLINE)

    @property
    def pid(self):
        return self.manager.provisioner.pid

    def end(self):
        if self.manager.has_kernel:
            self.client.stop_channels()
            self.manager.shutdown_kernel(now=True)

    def interrupt(self):
        os.kill(self.pid, signal.SIGINT)

    def memory(self, key="VmHWM"):
        """KiB: the most resident memory so far (VmHWM), or now (VmRSS)."""
        with open(f"/proc/{self.pid}/status") as file:
            for line in file:
                if line.startswith(key + ":"):
                    return int(line.split()[1])

    def start(self, code, **options):
        options.setdefault("allow_stdin", False)
        return self.client.execute(code, **options)

    def next_message(self, request):
        """The next message of this execution."""
        while True:
            message = self.client.get_iopub_msg(timeout=DEADLINE)
            if message["parent_header"].get("msg_id") == request:
                return message

    def run(self, code, **options):
        """Executes the code and collects everything until the kernel is idle."""
        return self.finish(self.start(code, **options))

    def finish(self, request, result=None, on_stream=None):
        result = result or Run()
        while True:
            message = self.next_message(request)
            content = message["content"]
            kind = message["msg_type"]
            if kind == "status" and content["execution_state"] == "idle":
                break
            if kind == "stream" and on_stream:
                on_stream(content)
            elif kind == "stream":
                getattr(result, content["name"]).append(content["text"])
            elif kind in ("display_data", "execute_result"):
                result.results.append(content["data"])
                if kind == "execute_result":
                    result.main.append(content["data"])
            elif kind == "error":
                result.error = content
            elif kind == "execute_input":
                result.count = content["execution_count"]
        while True:
            reply = self.client.get_shell_msg(timeout=DEADLINE)
            if reply["parent_header"].get("msg_id") == request:
                result.reply = reply["content"]
                return result


def shared():
    """One kernel for all tests that do not need their own."""
    if not _shared or not _shared[0].manager.is_alive():
        _shared[:] = [Kernel()]
        tap.equal(_shared[0].run(IMPORTS, silent=True, store_history=False).reply["status"], "ok")
    return _shared[0]


def wait_for(condition, what):
    """Waits until the condition holds."""
    end = time.monotonic() + DEADLINE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.02)
