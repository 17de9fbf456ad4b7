"""Roots of Debian and Ubuntu for tests: made by mmdebstrap once, kept in build/roots, written to
only through an overlay that is mounted for as long as one command runs, and seen by it alone.

    base = root.made("boots", ["systemd-sysv", "xfsprogs"])     # a folder that nobody writes to
    mine = root.Root(base, place)                               # what is written lies in `place`
    mine.run("apt-get", "update")
"""

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.request

from emulator import ROOT

MIRROR = "http://deb.debian.org/debian"
UBUNTU = "http://archive.ubuntu.com/ubuntu"
UBUNTU_KEYS = "usr/share/keyrings/ubuntu-archive-keyring.gpg"
ROOTS = ROOT / "build/roots"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE = 600  # seconds, with the network and the disk
# Its own mounts and processes: of neither anything is left once it has ended.
ALONE = ["unshare", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"]
# Words: base, place, command. What is in place/shared is seen as /srv.
ENTER = ('set -e; mount -t overlay overlay -o '
         '"lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"; '
         'mount -t proc proc "$2/root/proc"; mount --bind "$2/shared" "$2/root/srv"; '
         'cd /; root=$2/root; shift 2; exec chroot "$root" "$@"')


class NoPackages(Exception):
    """The network's trouble, or the mirror's."""


NO_PACKAGES = re.compile("Failed to fetch|Unable to fetch|Temporary failure|"
                         "Could not (resolve|connect)")


def missing(suite="", mirror=MIRROR):
    """Why no root can be made here, for skipTest; empty: one can be. Without a suite: this
    machine's."""
    if os.geteuid() != 0:
        return "needs root: a root of its own is made and entered"
    if mirror == UBUNTU and not os.environ.get("SPOTTER_UBUNTU"):
        return "Ubuntu's packages are fetched only when asked for, with SPOTTER_UBUNTU=1"
    for program in ("mmdebstrap", "unshare", "chroot"):
        if not shutil.which(program):
            return f"{program} is not installed (scripts/setup)"
    try:
        with urllib.request.urlopen(f"{mirror}/dists/{suite or release()}/Release", timeout=10):
            return ""
    except OSError as error:
        return f"no way to the packages of {mirror}: {error}"


def release():
    """This machine's, as what is built here runs there."""
    found = re.search(r"VERSION_CODENAME=(\w+)", pathlib.Path("/etc/os-release").read_text())
    return found.group(1) if found else "bookworm"


def made(name="bare", packages=(), suite="", mirror=MIRROR, options=()):
    """The folder of a root with the required packages, apt and these; made (15 s and more) when
    there is none with just these, with more options of mmdebstrap. Without a suite: this machine's
    Debian. One name has one list of packages. Raises NoPackages."""
    words = ["mmdebstrap", "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io",
             *([f"--include={','.join(packages)}"] if packages else []), *options,
             suite or release()]
    # Debian's own default has its security updates, too.
    source = [] if mirror == MIRROR else [mirror]
    key = hashlib.sha256(" ".join(words + source).encode()).hexdigest()[:12]
    folder = ROOTS / f"{name}-{key}"
    ROOTS.mkdir(parents=True, exist_ok=True)
    with open(ROOTS / f"{name}.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        for old in (*ROOTS.glob(f"{name}-*"), *ROOTS.glob(f"new-{name}-*")):
            shutil.rmtree(old)
        new = pathlib.Path(tempfile.mkdtemp(prefix=f"new-{name}-", dir=ROOTS))
        try:
            done = subprocess.run([*ALONE, "--mount-proc", *words, new / "root", *source],
                                  check=False, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=PATIENCE)
            if done.returncode:
                fault = NoPackages if NO_PACKAGES.search(done.stderr) else RuntimeError
                raise fault(done.stderr[-3000:])
            (new / "root").rename(folder)  # whoever sees it sees all of it
        except subprocess.TimeoutExpired:
            raise NoPackages(f"mmdebstrap was not done within {PATIENCE} s") from None
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return folder


def ubuntu(suite):
    """One of Ubuntu, with Python; its keys come with a package of a newer Debian."""
    keys = made("keys", ["ubuntu-keyring"], "trixie") / UBUNTU_KEYS
    return made(f"ubuntu-{suite}", ["apt", "python3"], suite, UBUNTU, [f"--keyring={keys}"])


class Root:
    """A root whose base stays as it is. Only one command at a time. Whoever made `place` removes
    it."""

    def __init__(self, base, place):
        self.base, self.place = pathlib.Path(base), pathlib.Path(place)
        self.shared = self.place / "shared"
        for part in ("upper", "work", "root", "shared"):
            (self.place / part).mkdir(parents=True)
        shutil.copystat(self.base, self.place / "upper")

    def enter(self, command, environment=None):
        """The words of subprocess that run a command as process 1 in it."""
        given = [f"{name}={value}" for name, value in
                 {"PATH": PATH, "LC_ALL": "C.UTF-8", **(environment or {})}.items()]
        return [*ALONE, "/bin/sh", "-c", ENTER, "enter", str(self.base), str(self.place),
                "/usr/bin/env", "-i", *given, *map(str, command)]

    def run(self, *command, environment=None):
        """Its end: exit status, and stdout with stderr in between."""
        return subprocess.run(self.enter(command, environment), check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE)
