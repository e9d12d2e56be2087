"""One guest: QEMU with software emulation, a shared folder, and lines that come out of the guest."""
import os
import selectors
import signal
import subprocess
import tempfile
import time

BOOT_SECONDS = 120  # software emulation on a busy machine
BOOT_ATTEMPTS = 2   # one boot in many hangs
MEMORY_MB = 2048


class Hangs(Exception):
    """The guest did not come up, or did not come to its end, in time."""


def command(kernel, share, base, options):
    words = ["console=ttyS0", "quiet", "panic=-1", "mitigations=off", "audit=0", "random.trust_cpu=on", "rw",
             "guest_init=" + ("/usr/lib/guest/init" if options["init"] == "plain" else "/lib/systemd/systemd"),
             "guest_cgroups=" + options["cgroups"], "systemd.show_status=0", "systemd.firstboot=0", *options.get("words", [])]
    argv = ["qemu-system-x86_64", "-M", "q35", "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", "2", "-m", str(options.get("memory_mb", MEMORY_MB)),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel["vmlinuz"], "-initrd", kernel["initrd"], "-append", " ".join(words),
            "-virtfs", f"local,path={share},mount_tag=share,security_model=none,id=share", "-device", "virtio-rng-pci",
            "-serial", "file:" + os.path.join(share, "console.log"), "-serial", "stdio"]
    for number, disk in enumerate(filter(None, (kernel["root.img"], base))):
        argv += ["-drive", f"file={disk},if=none,id=d{number},format=raw,snapshot=on,cache=unsafe,aio=threads", "-device", f"virtio-blk-pci,drive=d{number}"]
    return argv


class Guest:
    """A running guest.  lines() gives what comes out of it, until it has ended."""

    def __init__(self, kernel, share, base, options):
        self.share, self.code = share, None
        niceness = ["nice", "-n", str(options["nice"])] if options.get("nice") else []
        # Its own process group: Ctrl-C ends it by way of end(), once.
        self.process = subprocess.Popen(niceness + command(kernel, share, base, options), stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        self.rest = b""

    def end(self):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdout.close()

    def lines(self, deadline):
        """Lines as they come; Hangs when the deadline (monotonic) passes first."""
        with selectors.DefaultSelector() as waiting:
            waiting.register(self.process.stdout, selectors.EVENT_READ)
            while True:
                if not waiting.select(max(0, deadline - time.monotonic())):
                    raise Hangs()
                piece = os.read(self.process.stdout.fileno(), 65536)
                *whole, self.rest = (self.rest + piece).split(b"\n")
                for line in whole:
                    yield line.decode(errors="replace").rstrip("\r")
                if not piece:
                    return


def boot(kernel, share, base, options, say):
    """-> a Guest that is up."""
    for attempt in range(1, BOOT_ATTEMPTS + 1):
        started = time.monotonic()
        guest = Guest(kernel, share, base, options)
        said = []
        try:
            for line in guest.lines(started + options["boot_seconds"]):
                if line == "guest: up":
                    say(f"{kernel['version']} with {options['init']} is up after {time.monotonic() - started:.0f} s")
                    return guest
                said.append(line)
            why = "ended before it was up: " + " ".join(said[-3:])
        except Hangs:
            why = f"is not up after {options['boot_seconds']} s"
        except BaseException:
            guest.end()
            raise
        guest.end()
        say(f"{kernel['version']} {why}; attempt {attempt} of {BOOT_ATTEMPTS}; {os.path.join(share, 'console.log')}")
    raise Hangs(f"{kernel['version']} does not boot")


def run(kernel, share, base, options, on_line, say):
    """Boot, let the guest run its script -> the script's exit code.  Every line of the script goes to on_line."""
    guest = boot(kernel, share, base, options, say)
    deadline = time.monotonic() + options["seconds"]
    code = None
    try:
        for line in guest.lines(deadline):
            if line.startswith("guest: exit "):
                code = int(line.rsplit(" ", 1)[1])
            else:
                on_line(line)
    except Hangs:
        raise Hangs(f"the script did not end within {options['seconds']} s") from None
    finally:
        guest.end()
    if code is None:
        raise Hangs(f"the guest ended in the middle of the script: see {os.path.join(share, 'console.log')}")
    return code


def share_folder():
    return tempfile.mkdtemp(prefix="sandglass-guest-")
