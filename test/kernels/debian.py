"""Packages and file systems of Debian suites, by an apt of our own: the host's package state is never touched."""
import glob
import os
import re
import shutil
import subprocess

KEYRINGS = ("/usr/share/keyrings/debian-archive-keyring.pgp", "/usr/share/keyrings/debian-archive-keyring.gpg")
ATTEMPTS = 3  # a mirror may be in the middle of an update

APT_CONF = """\
#clear APT::Update;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Pre-Invoke;
#clear DPkg::Post-Invoke;
#clear APT::Default-Release;
#clear APT::Architectures;
Dir::Etc::sourcelist "{dir}/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State "{dir}";
Dir::State::status "{dir}/status";
Dir::Cache "{dir}/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
"""


class Failed(Exception):
    """A tool failed; the text says which, and what it said last."""


def run(argv, **options):
    """Run a program to its end and return what it printed."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise Failed(f"{argv[0]} failed ({done.returncode}):\n" + "\n".join(done.stdout.splitlines()[-8:]))
    return done.stdout


def keyring():
    return next(path for path in KEYRINGS if os.path.exists(path) or path == KEYRINGS[-1])


def host_mirror():
    """The mirror that this host's own release comes from."""
    with open("/usr/lib/os-release", encoding="utf-8") as text:
        codename = dict(line.rstrip().split("=", 1) for line in text if "=" in line).get("VERSION_CODENAME")
    for line in run(["apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"]).splitlines():
        uri, release, component = line.split(" ", 2)
        if release == codename and component == "main" and uri.startswith("http"):
            return uri
    raise Failed("no Debian mirror in this host's apt configuration: give --mirror URL")


class Suite:
    """One suite of Debian, with lists and downloads in `folder`."""

    def __init__(self, name, mirror, folder):
        self.name, self.mirror, self.folder = name, mirror, os.path.abspath(folder)
        self.conf = os.path.join(self.folder, "apt.conf")

    def update(self):
        for part in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.folder, part), exist_ok=True)
        for name, text in (("apt.conf", APT_CONF.format(dir=self.folder)), ("status", ""),
                           ("sources.list", f"deb [signed-by={keyring()}] {self.mirror} {self.name} main\n")):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as out:
                out.write(text)
        self.again(lambda: run(["apt-get", "-c", self.conf, "-q", "update"]))

    @staticmethod
    def again(attempt):
        for left in reversed(range(ATTEMPTS)):
            try:
                return attempt()
            except Failed:
                if not left:
                    raise

    def depends(self, package):
        shown = run(["apt-cache", "-c", self.conf, "show", "--no-all-versions", package])
        found = re.search(r"^Depends: (.*)$", shown, re.M)
        return [re.split(r"[ :(|]", part.strip(), 1)[0] for part in found.group(1).split(",")] if found else []

    def download(self, packages):
        """-> the files, in the order of the packages."""
        folder = os.path.join(self.folder, "debs")
        files = []
        for package in packages:
            shutil.rmtree(folder + "/" + package, ignore_errors=True)
            os.makedirs(folder + "/" + package)
            self.again(lambda at=folder + "/" + package, name=package: run(["apt-get", "-c", self.conf, "-q", "download", name], cwd=at))
            files += glob.glob(f"{folder}/{package}/*.deb")
        return files

    def kernel_packages(self):
        """The packages with the stock kernel of this suite: one with the image; newer suites have the modules in another."""
        found, todo = [], ["linux-image-amd64"]
        while todo:
            package = todo.pop()
            todo += [name for name in self.depends(package)
                     if re.match(r"linux-(image|modules|binary)-\d", name) and name not in found + todo]
            if package != "linux-image-amd64":
                found.append(package)
        if not found:
            raise Failed(f"{self.name} has no linux-image-amd64 that leads to a kernel")
        return found

    def bootstrap(self, folder, packages):
        """A root file system with these packages."""
        source = f"deb [signed-by={keyring()}] {self.mirror} {self.name} main"
        argv = ["mmdebstrap", "--mode=root", "--variant=apt", '--aptopt=Acquire::Languages "none"', '--aptopt=Acquire::Retries "3"',
                '--aptopt=Acquire::Check-Valid-Until "false"', "--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/man/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*", "--dpkgopt=path-exclude=/usr/share/doc/*",
                "--include=" + ",".join(packages), self.name, folder, source]
        self.again(lambda: (shutil.rmtree(folder, ignore_errors=True), run(argv)))


def unpack(deb, folder):
    run(["dpkg-deb", "-x", deb, folder])
