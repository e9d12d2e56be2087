"""kill -9 of each part of the server: sandboxes go on, and the next one takes them over."""
import os
import signal
import subprocess

import api
import host
import limits
import use


class Counter:
    """A sandbox with a program in memory, which must be the same one afterwards."""

    def __init__(self, here):
        self.box = here.server.create()
        use.serve(self.box)
        self.pid, self.seen = self.box.output("pgrep -f count.py"), 1

    def count(self):
        status, text = self.box.preview(8000)
        return int(text) if status == 200 else None

    def goes_on(self, here):
        self.seen += 1
        self.box.server = here.server
        api.until("the sandbox answers", lambda: self.box.state() == "running")
        count = api.until("its port answers", self.count)
        assert count >= self.seen, (count, self.seen)  # not from the beginning: it is the same program
        self.seen = count
        assert self.box.output("pgrep -f count.py") == self.pid
        fresh = api.until("a new sandbox", here.server.create)
        assert fresh.output("echo new") == "new\n"
        fresh.kill()


def counter_of(here):
    """One sandbox goes through all of it."""
    if not hasattr(here, "counter"):
        here.counter = Counter(here)
    return here.counter


def kill_role(name):
    def test(here):
        one = counter_of(here)
        old = host.pids(name)
        assert old, host.processes()
        for pid in old:
            os.kill(pid, signal.SIGKILL)
        api.until(f"another {name}", lambda: host.pids(name) and not set(host.pids(name)) & set(old))
        api.until("the server answers", here.server.is_healthy)
        one.goes_on(here)
    test.__doc__ = f"kill -9 of {name[3:]}: another one takes over"
    return test


def kill_supervisor(here):
    """kill -9 of the supervisor: the next start adopts running sandboxes, and paused ones are still there"""
    one, paused = counter_of(here), Counter(here)
    paused.box.post("pause")
    old = here.supervisor()
    if here.is_systemd:  # Restart= of the unit starts the next one
        os.kill(old, signal.SIGKILL)
        api.until("another supervisor", lambda: here.supervisor() != old)
        here.await_server()
    else:
        here.stop(signal.SIGKILL)
        here.start()
    one.goes_on(here)
    paused.box.server = here.server
    paused.box.connect()
    paused.goes_on(here)
    paused.box.kill()


def restart(here):
    """stopping and starting the server in order: sandboxes go on meanwhile"""
    one = counter_of(here)
    if here.is_systemd:
        subprocess.run(["systemctl", "restart", "sandglass"], check=True)
        here.await_server()
    else:
        here.stop()
        here.start()
    one.goes_on(here)


def daemon_reload(here):
    """systemd reads its units again: limits stay"""
    if not here.is_systemd:
        raise host.NotHere("this guest has no systemd")
    box = here.server.create("small")
    subprocess.run(["systemctl", "daemon-reload"], check=True)
    assert limits.read_number(limits.group_of(here, box), "memory.max") == host.SMALL["memoryMB"] << 20
    limits.memory(here)
    box.kill()


TESTS = [kill_role("sg-edge"), kill_role("sg-control"), kill_role("sg-engine"), kill_supervisor, restart, daemon_reload]
