"""Builds the client where the headers of systemd, FUSE and Linux are absent.

An overlay, in a mount namespace of its own, shows /usr/include without them, as macOS has none of
them; what glibc's and the kernel's own headers include of linux/ has to stay, and is `scripts/check
client`'s to find. First the view itself is judged: none of these headers can be included there.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INCLUDE = pathlib.Path("/usr/include")
OF_LINUX = ("auxv", "epoll", "eventfd", "fanotify", "fsuid", "inotify", "prctl", "sendfile",
            "signalfd", "statfs", "sysinfo", "sysmacros", "timerfd", "vfs", "xattr")
# Of linux/ what others' headers include: <limits.h>, <errno.h>, <fcntl.h>, <sys/ioctl.h>, and Asio.
NEEDED = {"close_range.h", "errno.h", "falloc.h", "ioctl.h", "limits.h", "posix_types.h",
          "stat.h", "stddef.h", "types.h", "version.h"}


def absent():
    """The files and folders that macOS does not have, below /usr/include."""
    multiarch = subprocess.run(["c++", "-print-multiarch"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.strip()
    yield from (INCLUDE / each for each in ("systemd", "fuse3", "blkid", "malloc.h"))
    yield from (INCLUDE / multiarch / "sys" / f"{each}.h" for each in OF_LINUX)
    yield from (each for each in (INCLUDE / "linux").iterdir() if each.name not in NEEDED)


def includes(*headers):
    """Does a source that includes them compile?"""
    source = "".join(f"#include <{each}>\n" for each in headers)
    return subprocess.run(["c++", "-std=c++20", "-fsyntax-only", "-x", "c++", "-"], text=True,
                          input=source, check=False, stderr=subprocess.DEVNULL).returncode == 0


def hide(place):
    """In this mount namespace, from here on."""
    for folder in ("upper", "work"):
        (place / folder).mkdir()
    subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={INCLUDE},"
                    f"upperdir={place}/upper,workdir={place}/work", INCLUDE], check=True)
    for each in absent():
        if each.is_dir():
            shutil.rmtree(each)
        else:
            each.unlink(missing_ok=True)


def judge():
    """Fails where the view would not find what it is for."""
    for header in ("systemd/sd-journal.h", "fuse3/fuse.h", "linux/magic.h", "linux/netlink.h",
                   "sys/epoll.h", "sys/inotify.h", "sys/prctl.h", "sys/vfs.h"):
        if includes(header):
            sys.exit(f"<{header}> is there: the view is not what it should be")
    if not includes("cerrno", "climits", "fcntl.h", "sys/ioctl.h", "sys/socket.h", "sys/stat.h",
                    "unistd.h"):
        sys.exit("what macOS has, too, cannot be included any more")


def main():
    if os.geteuid() != 0:
        print("skipped: only root can show /usr/include otherwise")
        sys.exit(77)
    if sys.argv[1:] != ["--inside"]:
        done = subprocess.run(["unshare", "--mount", "--propagation", "slave", "/usr/bin/python3",
                               "-B", __file__, "--inside"], check=False)
        sys.exit(done.returncode)
    with tempfile.TemporaryDirectory(prefix="spotter-absent-") as place:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
        try:
            hide(pathlib.Path(place))
            judge()
            done = subprocess.run(["scripts/build", "client", "spotter"], cwd=ROOT, check=False)
        finally:
            subprocess.run(["umount", "--lazy", INCLUDE], check=False)
            subprocess.run(["umount", "--lazy", place], check=False)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
