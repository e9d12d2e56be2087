"""The server on this machine: starting it, its processes, its traces in the kernel, its end."""
import glob
import json
import os
import re
import signal
import subprocess

import api

DATA = "/var/lib/sandglass"
IMAGES, CRIU = "/base/images", "/base/criu"
SETTINGS = "/etc/sandglass-test.json"
LOG = "/var/log/sandglass-test.log"
START_SECONDS = 100
SMALL = {"memoryMB": 192, "cpuCount": 1}
PIDS = 128
LAYERS_MAX = 64


class NotRunning(AssertionError):
    """Without a server there is nothing else to try."""


class NotHere(Exception):
    """This machine is not one that the test is about."""


def processes():
    """{pid: name}"""
    found = {}
    for path in glob.glob("/proc/[0-9]*/comm"):
        try:
            with open(path, encoding="utf-8") as name:
                found[int(path.split("/")[2])] = name.read().strip()
        except OSError:
            pass  # it has just ended
    return found


def pids(name):
    return [pid for pid, found in processes().items() if found == name]


def cgroup_dirs(slot="*"):
    """Directories of sandboxes' control groups, in whichever hierarchy and at whichever place."""
    return [folder for folder in glob.glob(f"/sys/fs/cgroup/**/sandglass-[0-9]*/{slot}", recursive=True)
            + glob.glob(f"/run/sandglass/**/sandglass-[0-9]*/{slot}", recursive=True) if os.path.isdir(folder)]


class Host:
    def __init__(self, way, program):
        self.is_systemd, self.program = way == "systemd", program
        self.child = self.server = None

    def cli(self, *args):
        done = subprocess.run([self.program, *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.returncode, done.stdout

    # --- starting

    def prepare(self):
        """Two more templates: a small one, the ends of whose limits are soon reached, and one with all the layers there can be."""
        with open(IMAGES + "/templates/base.json", encoding="utf-8") as manifest:
            template = json.load(manifest)
        layers = template["layers"] + [f"deep-{number}" for number in range(LAYERS_MAX - len(template["layers"]))]
        for name in layers[len(template["layers"]):]:
            os.makedirs(f"{IMAGES}/layers/{name}/srv/{name}", 0o755)
        for alias, more in (("small", SMALL), ("deep0", {"layers": layers})):
            with open(f"{IMAGES}/templates/{alias}.json", "w", encoding="utf-8") as out:
                json.dump(template | more | {"alias": alias, "templateID": alias + template["templateID"][5:]}, out)
        with open(SETTINGS, "w", encoding="utf-8") as out:
            json.dump({"default_pids": PIDS, "pool_size": 4}, out)
        if self.is_systemd:
            self.prepare_unit()

    def prepare_unit(self):
        """The unit as it is installed, but with template and CRIU from the second disk: a guest has no network to fetch them by."""
        shown = subprocess.run(["systemctl", "cat", "sandglass.service"], check=True, stdout=subprocess.PIPE, text=True).stdout
        command = next(line for line in shown.splitlines() if line.startswith("ExecStart="))
        command = re.sub(r" --config \S+", "", command)
        os.makedirs("/etc/systemd/system/sandglass.service.d")
        with open("/etc/systemd/system/sandglass.service.d/test.conf", "w", encoding="utf-8") as out:
            out.write(f"[Service]\nExecStart=\n{command} --images {IMAGES} --criu {CRIU} --config {SETTINGS}\nRestartSec=100ms\n")
        subprocess.run(["systemctl", "daemon-reload"], check=True)

    def start(self):
        if self.is_systemd:
            subprocess.run(["systemctl", "start", "sandglass"], check=False)
        else:
            with open(LOG, "ab") as log:
                self.child = subprocess.Popen([self.program, "serve", "--data", DATA, "--images", IMAGES, "--criu", CRIU, "--config", SETTINGS],
                                              stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.await_server()

    def await_server(self):
        def look():
            if self.child and self.child.poll() is not None:
                raise NotRunning("the server ended")
            self.server = api.Server(DATA)
            return self.server.is_healthy() and self.server.list() is not None
        try:
            api.until("the server is ready", look, START_SECONDS)
        except AssertionError as error:
            raise NotRunning(str(error)) from error

    def stop(self, how=signal.SIGTERM):
        """End the server, not the sandboxes."""
        if self.is_systemd:
            subprocess.run(["systemctl", "stop", "sandglass"], check=True)
        else:
            os.kill(self.supervisor(), how)
            self.child.wait()

    def supervisor(self):
        with open(DATA + "/lock", encoding="utf-8") as lock:
            return int(lock.read())

    def log_tail(self):
        if self.is_systemd:
            text = subprocess.run(["journalctl", "-u", "sandglass", "-n", "15", "-o", "cat", "--no-pager"], stdout=subprocess.PIPE, text=True, check=False).stdout
        else:
            text = open(LOG, encoding="utf-8", errors="replace").read() if os.path.exists(LOG) else ""
        return text.splitlines()[-15:]


# ------------------------------------------------------------- tests


def start(here):
    """the server starts and is ready"""
    here.prepare()
    here.start()


def doctor(here):
    """doctor finds everything that is needed"""
    code, text = here.cli("doctor", "--data", DATA, "--images", IMAGES, "--criu", CRIU)
    for line in text.splitlines():
        print("#   " + line)
    assert code == 0, text


def down_leaves_nothing(here):
    """down ends the sandboxes and leaves no control group, link or process"""
    box = here.server.create()
    assert box.run("true")[0] == 0
    if here.is_systemd:
        here.stop()
    code, text = here.cli("down", "--data", DATA)
    assert code == 0, text
    assert cgroup_dirs() == [], cgroup_dirs()
    links = [name for name in os.listdir("/sys/class/net") if name.startswith("sg")]
    assert links == [], links
    api.until("the processes have ended", lambda: not [name for name in processes().values() if name.startswith("sg-")])


STARTS = [start, doctor]
ENDS = [down_leaves_nothing]
