"""Limits, driven to their ends: whoever goes too far is stopped, the sandbox and the machine go on."""
import json
import os

import api
import host

FORKS = """
import os, time
made = 0
try:
    while made < 1000:
        if os.fork() == 0:
            os.closerange(0, 3)
            time.sleep(600)
        made += 1
except OSError:
    pass
print(made)
"""


def group_of(here, box):
    """The control group directories of a sandbox: by the pid of its first process."""
    with open(f"{host.DATA}/sandboxes/{box.id}/running.json", encoding="utf-8") as record:
        pid = json.load(record)["pid"]
    found = []
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as lines:
        for line in lines:
            path = line.rstrip("\n").split(":", 2)[2]
            if path != "/":  # a hierarchy that nobody uses
                found += [folder for folder in host.cgroup_dirs(os.path.basename(path)) if folder.endswith(path)]
    assert found, f"process {pid} of {box.id} is in no group of ours"
    return found


def read_number(folders, file, field=None):
    for folder in folders:
        if os.path.exists(f"{folder}/{file}"):
            with open(f"{folder}/{file}", encoding="utf-8") as text:
                words = text.read().split()
            return int(words[words.index(field) + 1] if field else words[0])
    raise AssertionError(f"none of {folders} has {file}")


def memory(here):
    """a command that wants more memory than there is gets killed, and the sandbox goes on"""
    box = here.server.create("small")
    code, text = box.run("python3 -c 'x = b\"y\" * (400 << 20); print(len(x))'")
    assert code != 0 and "419430400" not in text, (code, text)
    assert box.output("python3 -c 'x = b\"y\" * (64 << 20); print(len(x))'") == "67108864\n"
    used = here.server.call("GET", f"/sandboxes/{box.id}/metrics")[0]
    assert used["memTotal"] == host.SMALL["memoryMB"] << 20, used
    box.kill()


def memory_of_files(here):
    """files in the sandbox's own memory (/dev/shm) count, too"""
    box = here.server.create("small")
    assert box.run("head -c 400M /dev/zero >/dev/shm/big")[0] != 0
    assert box.state() == "running"
    box.kill()  # full as it is


def processes(here):
    """a fork bomb comes to its end at the limit, and other sandboxes notice nothing"""
    box, other = here.server.create("small"), here.server.create("small")
    made = int(box.output(f"python3 -c '{FORKS}'"))
    assert host.PIDS // 2 < made < host.PIDS, made
    assert read_number(group_of(here, box), "pids.current") <= host.PIDS
    assert read_number(group_of(here, box), "pids.events", "max") > 0
    assert other.output("echo fine") == "fine\n"
    box.kill()
    other.kill()


def processor(here):
    """a sandbox with one processor is held back when it uses more"""
    box = here.server.create("small")
    folders = group_of(here, box)
    box.output("for i in 1 2 3; do setsid sh -c 'while :; do :; done' >/dev/null 2>&1 </dev/null & done")
    api.until("it is held back", lambda: read_number(folders, "cpu.stat", "nr_throttled") > 5)
    assert box.output("echo fine") == "fine\n"
    box.kill()


TESTS = [memory, memory_of_files, processes, processor]
