"""What keeps memory and files: pause and resume, snapshot, fork, rollback, and pausing with files only."""
import os
import signal

import api
import host
import use


def counting(here, **options):
    box = here.server.create(**options)
    use.serve(box)
    box.write("/home/user/note", b"first")
    return box


def pause_warm(here):
    """pause and resume: memory, files and ports go on"""
    box = counting(here)
    pid = box.output("pgrep -f count.py")
    box.post("pause")
    assert box.state() == "paused"
    assert box.preview(8000)[0] == 502
    box.connect()
    assert box.preview(8000) == (200, b"2")
    assert box.output("pgrep -f count.py") == pid
    assert box.read("/home/user/note") == b"first"
    box.kill()


def pause_cold(here):
    """the same from the disk: the engine that had the processes was killed in between"""
    box = counting(here)
    box.post("pause")
    engine = host.pids("sg-engine")
    os.kill(engine[0], signal.SIGKILL)
    api.until("another engine", lambda: host.pids("sg-engine") not in ([], engine))
    api.until("the sandbox runs again", lambda: box.connect() or True)
    assert box.preview(8000) == (200, b"2")
    assert box.read("/home/user/note") == b"first"
    assert box.output("echo fine") == "fine\n"
    box.kill()


def pause_by_time(here):
    """a sandbox whose time is up is paused, and traffic resumes it"""
    box = counting(here, autoPause=True, autoResume={"enabled": True})
    box.post("timeout", timeout=0)
    api.until("it is paused", lambda: box.state() == "paused")
    api.until("traffic resumes it", lambda: box.preview(8000) == (200, b"2"))
    assert box.state() == "running"
    box.kill()


def snapshot(here):
    """a snapshot starts new sandboxes with running programs; the original goes on"""
    box = counting(here)
    kept = box.post("snapshots")["snapshotID"]
    box.write("/home/user/note", b"second")
    other = here.server.create(kept)
    assert other.read("/home/user/note") == b"first"
    assert (other.preview(8000), other.preview(8000), box.preview(8000)) == ((200, b"2"), (200, b"3"), (200, b"2"))
    other.kill()
    box.kill()
    here.server.call("DELETE", f"/templates/{kept}")


def fork(here):
    """two forks go their own ways, with their own identity"""
    box = counting(here)
    forks = [api.Sandbox(here.server, entry["sandbox"]) for entry in box.post("fork", count=2, timeout=3600)]
    for number, one in enumerate(forks):
        assert one.preview(8000) == (200, b"2")
        one.write("/home/user/note", b"%d" % number)
    assert [one.read("/home/user/note") for one in [box, *forks]] == [b"first", b"0", b"1"]
    assert len({one.output("hostname; cat /etc/machine-id") for one in [box, *forks]}) == 3
    for one in [box, *forks]:
        one.kill()


def rollback(here):
    """a rollback takes memory and files back"""
    box = counting(here)
    kept = box.post("snapshots")["snapshotID"]
    box.write("/home/user/note", b"second")
    assert box.preview(8000) == (200, b"2")
    box.post("rollback", snapshotID=kept)
    api.until("it runs", lambda: box.connect() or True)
    assert box.read("/home/user/note") == b"first"
    assert box.preview(8000) == (200, b"2")
    box.kill()
    here.server.call("DELETE", f"/templates/{kept}")


def files_only(here):
    """a pause of files only keeps the files, and programs end"""
    box = counting(here)
    box.post("pause", memory=False)
    assert box.state() == "paused"
    box.connect()
    assert box.read("/home/user/note") == b"first"
    assert box.preview(8000)[0] == 502
    assert box.output("echo fine") == "fine\n"
    box.kill()


PAUSES = [pause_warm, pause_cold, pause_by_time]
SNAPSHOTS = [snapshot]
FORKS = [fork]
ROLLBACKS = [rollback]
FILES_ONLY = [files_only]
