"""What a guest boots from, made once and kept: kernel, initrd, a disk with a root file system, a disk with template and CRIU."""
import hashlib
import json
import lzma
import os
import re
import shutil
import subprocess
import time

import debian

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT_SIZE = "6G"  # sparse
PACKAGES_OLD_DAYS = 30

# What a guest has: what the server's package depends on; what a host of a sandbox usually has; what the tests use.
PACKAGES = """systemd-sysv mount hostname kmod procps iproute2 nftables iptables python3 curl jq strace ca-certificates debian-archive-keyring
    mmdebstrap libjansson4 zlib1g libnghttp2-14 libsqlite3-0 libseccomp2 libnftables1 libnss-myhostname adduser""".split()
# What the initrd needs to see the root disk; the others are loaded from there.
BOOT_MODULES = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "crc32c"]
# Drivers of devices that no guest has take most of the room.
DRIVERS_KEPT = ["block", "char", "net/dummy", "net/ifb", "net/tun", "net/veth", "net/bridge", "virtio", "rtc", "fs"]
# Nobody logs in to a guest, and a guest has no network to keep its packages fresh by.
UNITS_OFF = ["apt-daily.timer", "apt-daily-upgrade.timer", "getty@tty1.service", "serial-getty@ttyS0.service"]
MACHINE_ID = "5a6e64676c6173735f67756573745f31\n"  # without one, systemd takes each boot for the first and sets up every unit

INITRD_INIT = """\
#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
for module in $(cat /modules/order); do insmod /modules/$module; done
rounds=0
until mount -t ext4 -o noatime,noinit_itable /dev/vda /root 2>/dev/null; do
        rounds=$((rounds + 1))
        [ $rounds -lt 300 ] || { echo "no root disk" >/dev/console; poweroff -f; }
        usleep 50000
done
init=$(sed 's/.*guest_init=\\([^ ]*\\).*/\\1/' /proc/cmdline)
umount /proc
mount -o move /dev /root/dev
exec switch_root /root "$init"
"""


def sha(*parts):
    """A short name for contents: strings, or files by their path in a tuple."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, tuple):
            with open(part[0], "rb") as content:
                total.update(content.read())
        else:
            total.update(part.encode())
        total.update(b"\0")
    return total.hexdigest()[:16]


# ------------------------------------------------------------- the initrd


def cpio_entry(number, name, mode, content=b""):
    fields = [number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name) + 1, 0]
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
    return head + b"\0" * (-len(head) % 4) + content + b"\0" * (-len(content) % 4)


def cpio(entries):
    """An archive as the kernel unpacks it; entries: (name, mode, content)."""
    every = [*entries, ("TRAILER!!!", 0, b"")]
    return b"".join(cpio_entry(number, *entry) for number, entry in enumerate(every, 1))


def module_name(path):
    return os.path.basename(path).split(".ko")[0].replace("-", "_")


def module_content(path):
    with open(path, "rb") as file:
        content = file.read()
    if path.endswith(".xz"):
        return lzma.decompress(content)
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dc", path], check=True, stdout=subprocess.PIPE).stdout
    return content


def modules_in_order(folder, wanted):
    """Paths of the modules with these names and of what they need, the needed ones first; built-in ones are left out."""
    needs = {}
    with open(os.path.join(folder, "modules.dep"), encoding="utf-8") as lines:
        for line in lines:
            path, _, rest = line.partition(":")
            needs[path] = rest.split()
    by_name = {module_name(path): path for path in needs}
    order = []

    def add(path):
        for need in needs[path]:
            add(need)
        if path not in order:
            order.append(path)

    for name in wanted:
        if name in by_name:
            add(by_name[name])
    return [os.path.join(folder, path) for path in order]


def make_initrd(modules, busybox, path):
    paths = modules_in_order(modules, BOOT_MODULES)
    names = [module_name(path) + ".ko" for path in paths]
    with open(busybox, "rb") as program:
        entries = [("bin", 0o40755, b""), ("bin/busybox", 0o100755, program.read()), ("init", 0o100755, INITRD_INIT.encode())]
    entries += [(name, 0o40755, b"") for name in ("dev", "proc", "root", "modules")]
    entries += [("modules/order", 0o100644, " ".join(names).encode())]
    entries += [("modules/" + name, 0o100644, module_content(path)) for name, path in zip(names, paths)]
    with open(path, "wb") as out:
        out.write(cpio(entries))


# ------------------------------------------------------------- disks


def make_disk(folder, path, size):
    """A file with an ext4 of this size (sparse) and this content; in place when it is complete."""
    with open(path + ".new", "wb"):
        pass
    debian.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1", "-d", folder, path + ".new", size])
    os.rename(path + ".new", path)


def trim_modules(modules):
    drivers = os.path.join(modules, "kernel", "drivers")
    for folder, subfolders, files in os.walk(drivers, topdown=False):
        for name in files:
            below = os.path.relpath(os.path.join(folder, name), drivers)
            if not any(below.startswith(kept) for kept in DRIVERS_KEPT):
                os.unlink(os.path.join(folder, name))
        if not os.listdir(folder):
            os.rmdir(folder)
    for part in ("sound", "drivers/gpu"):
        shutil.rmtree(os.path.join(modules, "kernel", part), ignore_errors=True)


class Cache:
    """The folder with everything that guests boot from."""

    def __init__(self, folder, mirror=None, say=print):
        self.folder, self.say = os.path.abspath(folder), say
        self.given_mirror = mirror
        os.makedirs(self.folder, exist_ok=True)

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def suite(self, name):
        suite = debian.Suite(name, self.given_mirror or debian.host_mirror(), self.path("apt", name))
        self.say(f"reading the package lists of Debian {name}")
        suite.update()
        return suite

    def is_fresh(self, folder, key):
        try:
            with open(os.path.join(folder, "made.json"), encoding="utf-8") as note:
                made = json.load(note)
        except (OSError, ValueError):
            return False
        return made["key"] == key and time.time() - made["at"] < PACKAGES_OLD_DAYS * 86400

    @staticmethod
    def kernel_key(suite_name):
        """A name for everything that the files of a kernel are made from, except the packages' versions."""
        inside = [(os.path.join(HERE, "inside", file),) for file in ("init", "start", "guest.service")]
        return sha(suite_name, " ".join(PACKAGES), INITRD_INIT, " ".join(BOOT_MODULES + DRIVERS_KEPT), ROOT_SIZE, *inside)

    def kernel(self, name, suite_name, is_update_wanted=False):
        """-> {vmlinuz, initrd, root, version, suite}: paths and words about a kernel and its distribution."""
        folder = self.path("kernel-" + name)
        key = self.kernel_key(suite_name)
        if is_update_wanted or not self.is_fresh(folder, key):
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            self.make_kernel(folder, suite_name, key)
        with open(os.path.join(folder, "made.json"), encoding="utf-8") as note:
            return {**json.load(note), **{part: os.path.join(folder, part) for part in ("vmlinuz", "initrd", "root.img")}}

    def make_kernel(self, folder, suite_name, key):
        suite = self.suite(suite_name)
        tree = os.path.join(folder, "tree")
        self.say(f"downloading the kernel of Debian {suite_name}")
        debs = suite.download([*suite.kernel_packages(), "busybox-static"])
        self.say(f"making a root file system of Debian {suite_name}: a minute or two")
        suite.bootstrap(tree, PACKAGES)
        for deb in debs:
            debian.unpack(deb, os.path.join(folder, "unpacked"))
        version = self.add_kernel(folder, tree)
        self.add_inside(tree)
        self.say("making its disk")
        make_disk(tree, os.path.join(folder, "root.img"), ROOT_SIZE)
        pretty = re.search(r'^PRETTY_NAME="?([^"\n]*)', open(os.path.join(tree, "etc/os-release"), encoding="utf-8").read(), re.M).group(1)
        for rest in ("tree", "unpacked"):
            shutil.rmtree(os.path.join(folder, rest))
        with open(os.path.join(folder, "made.json"), "w", encoding="utf-8") as note:
            json.dump({"key": key, "at": time.time(), "version": version, "suite": suite_name, "distribution": pretty}, note)

    @staticmethod
    def add_kernel(folder, tree):
        """Modules into the tree, kernel and initrd beside it -> the kernel's version."""
        unpacked = os.path.join(folder, "unpacked")
        top = next(path for path in (os.path.join(unpacked, at, "lib/modules") for at in ("", "usr")) if os.path.isdir(path))
        (version,) = os.listdir(top)
        modules = os.path.join(tree, "usr/lib/modules", version)
        trim_modules(os.path.join(top, version))
        shutil.copytree(os.path.join(top, version), modules, symlinks=True)
        debian.run(["chroot", tree, "depmod", version])
        busybox = next(path for path in (os.path.join(unpacked, at, "bin/busybox") for at in ("", "usr")) if os.path.exists(path))
        make_initrd(modules, busybox, os.path.join(folder, "initrd"))
        places = [os.path.join(unpacked, "boot", "vmlinuz-" + version), os.path.join(modules, "vmlinuz")]  # newer packages: the latter
        shutil.move(next(filter(os.path.exists, places)), os.path.join(folder, "vmlinuz"))
        return version

    @staticmethod
    def add_inside(tree):
        place = os.path.join(tree, "usr/lib/guest")
        os.makedirs(place)
        for name in ("init", "start"):
            shutil.copy(os.path.join(HERE, "inside", name), place)
        shutil.copy(os.path.join(HERE, "inside", "guest.service"), os.path.join(tree, "etc/systemd/system"))
        wants = os.path.join(tree, "etc/systemd/system/multi-user.target.wants")
        os.makedirs(wants, exist_ok=True)
        os.symlink("/etc/systemd/system/guest.service", os.path.join(wants, "guest.service"))
        for unit in UNITS_OFF:
            os.symlink("/dev/null", os.path.join(tree, "etc/systemd/system", unit))
        for folder in ("share", "base"):
            os.makedirs(os.path.join(tree, folder), exist_ok=True)
        for name, text in (("hostname", "guest\n"), ("hosts", "127.0.0.1 localhost guest\n"), ("fstab", ""), ("machine-id", MACHINE_ID)):
            with open(os.path.join(tree, "etc", name), "w", encoding="utf-8") as out:
                out.write(text)

    def base_disk(self, images, criu):
        """A disk with the template `base` and CRIU: overlays cannot have a shared folder below them."""
        with open(os.path.join(images, "templates", "base.json"), encoding="utf-8") as manifest:
            template = manifest.read()
        layers = json.loads(template)["layers"]
        tool = os.path.join(criu, "tool")
        path = self.path(f"base-{sha(template, (os.path.join(tool, 'version'),), (os.path.join(tool, 'criu'),))}.img")
        if os.path.exists(path):
            return path
        for old in os.listdir(self.folder):
            if old.startswith("base-"):
                debian.run(["rm", "-rf", self.path(old)])
        tree = path + ".tree"
        self.say("making a disk with the template and CRIU")
        os.makedirs(tree + "/images/layers", 0o755)
        os.makedirs(tree + "/criu")
        for layer in layers:
            debian.run(["cp", "-a", os.path.join(images, "layers", layer), tree + "/images/layers/"])
        debian.run(["cp", "-a", tool, tree + "/criu/"])
        os.makedirs(tree + "/images/templates")
        shutil.copy(os.path.join(images, "templates", "base.json"), tree + "/images/templates/")
        os.chmod(tree + "/images/layers", 0o700)
        make_disk(tree, path, "3G")
        shutil.rmtree(tree)
        return path
