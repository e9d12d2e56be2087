"""Everyday use: create, commands, files, preview."""
import os

import api
import host


def create(here):
    """a sandbox is created, listed and ended"""
    box = here.server.create()
    assert here.server.list()[box.id] == "running"
    box.kill()
    assert box.id not in here.server.list()


def create_many(here):
    """four sandboxes at the same time, each with its own address and files"""
    boxes = [here.server.create() for _ in range(4)]
    addresses = {box.output("hostname -I; echo $HOSTNAME >mine") for box in boxes}
    assert len(addresses) == len(boxes), addresses
    assert len({box.read("mine") for box in boxes}) == len(boxes)
    for box in boxes:
        box.kill()


def create_deep(here):
    """a sandbox with as many layers as there can be, all of them seen"""
    box = here.server.create("deep0")
    assert int(box.output("ls -d /srv/deep-* | wc -l")) == host.LAYERS_MAX - 1
    assert box.output("sudo rmdir /srv/deep-0 && sudo mv /srv/deep-1 /srv/moved && ls -d /srv/moved") == "/srv/moved\n"
    box.kill()


def is_isolated(here):
    """a sandbox sees its own processes, mounts and devices only, and is root of nothing outside"""
    box = here.server.create()
    assert int(box.output("ls -d /proc/[0-9]* | wc -l")) < 20
    assert "uid=1000" in box.output("id")
    assert box.output("sudo id -u").strip() == "0"
    assert box.run("sudo mknod /tmp/disk b 253 0 && sudo head -c1 /tmp/disk")[0] != 0
    assert box.run("sudo mount -t ext4 /dev/vda /mnt")[0] != 0
    assert box.output("stat -c %F /dev/null").strip() == "character special file"
    box.kill()


def commands(here):
    """output, exit code, signal and user of a command"""
    box = here.server.create()
    assert box.run("echo out; echo err >&2; exit 3") == (3, "out\nerr\n")
    assert box.run("kill -9 $$")[0] in (None, 137, -1, 9)
    assert box.output("python3 -c 'print(6 * 7)'") == "42\n"
    box.kill()


def long_output(here):
    """an output of a megabyte comes whole"""
    box = here.server.create()
    assert len(box.output("head -c 1000000 /dev/zero | tr '\\0' x")) == 1000000
    box.kill()


def files(here):
    """files of all sizes are written and read, also from the sandbox"""
    box = here.server.create()
    for size in (0, 1, 300_000):
        content = os.urandom(size)
        box.write("/home/user/a file", content)
        assert box.read("/home/user/a file") == content
    box.write("/home/user/note", b"hello")
    assert box.output("cat note; stat -c %U note") == "hellouser\n"
    box.output("mkdir -p deep/er; echo inside >deep/er/file; rm -rf deep")
    box.kill()


def system_files(here):
    """files of the template are changed in one sandbox and stay in the other"""
    one, other = here.server.create(), here.server.create()
    one.output("sudo rm /etc/debian_version; sudo mv /usr/share/common-licenses /usr/share/moved; echo x | sudo tee /etc/motd")
    assert "Debian" in other.output("cat /etc/debian_version /etc/os-release")
    other.output("ls /usr/share/common-licenses/GPL-3")
    one.output("ls /usr/share/moved/GPL-3; test ! -e /etc/debian_version")
    one.kill()
    other.kill()


def serve(box, port=8000):
    """A server inside that counts requests in its memory."""
    box.write("/home/user/count.py", b"""
import http.server
class Count(http.server.BaseHTTPRequestHandler):
    seen = 0
    def do_GET(self):
        Count.seen += 1
        self.send_response(200); self.end_headers(); self.wfile.write(b"%d" % Count.seen)
    def log_message(self, *args): pass
http.server.HTTPServer(("127.0.0.1", PORT), Count).serve_forever()
""".replace(b"PORT", str(port).encode()))
    box.output("setsid python3 count.py >count.log 2>&1 </dev/null &")
    api.until("the counter listens", lambda: box.preview(port) == (200, b"1"))


def preview(here):
    """a server in a sandbox is reached by name; a port without a server is refused"""
    box = here.server.create()
    serve(box)
    assert box.preview(8000) == (200, b"2")
    assert box.preview(8001)[0] == 502
    box.kill()


CREATES = [create, create_many, create_deep, is_isolated]
COMMANDS = [commands, long_output]
FILES = [files, system_files]
PREVIEWS = [preview]
