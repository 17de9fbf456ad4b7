#!/usr/bin/python3
"""Runs a command on a file system that is made for it, and unmounted after it.

    disks.py xfs|ext4|share VARIABLE COMMAND...

xfs (with reflink) and ext4 lie in a file in memory, behind a loop device; the share is a folder of
this machine over sshfs, a FUSE file system without leases and reflinks. VARIABLE of the command's
environment names the mount point. Exit status: the command's; 77 where it cannot be mounted here.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
import sshd  # noqa: E402

BYTES = 8 << 30  # sparse


def must(*words):
    subprocess.run([str(word) for word in words], check=True, stdout=subprocess.DEVNULL)


@contextlib.contextmanager
def mounted(kind, scratch):
    """The kernel frees the loop device with its last mount, also where we are killed: the mounts
    are of this process alone (sshd.own_mounts)."""
    point, image = scratch / "mount", scratch / "image"
    point.mkdir()
    if kind == "share":
        server = sshd.Sshd(scratch / "sshd")
        (scratch / "shown").mkdir()
        try:
            must("sshfs", f"{server.user}@127.0.0.1:{scratch / 'shown'}", point, "-p", server.port,
                 "-o", f"IdentityFile={server.place / 'user'},UserKnownHostsFile="
                 f"{server.known_hosts},StrictHostKeyChecking=yes")
            yield point
        finally:
            subprocess.run(["fusermount3", "-u", "-z", point], check=False)
            server.close()
        return
    with open(image, "wb") as file:
        file.truncate(BYTES)
    must(*(["mkfs.xfs", "-q", "-m", "reflink=1"] if kind == "xfs" else ["mkfs.ext4", "-q"]), image)
    must("mount", "-o", "loop", image, point)
    try:
        yield point
    finally:
        must("umount", point)


def why_not(kind):
    if kind == "share":
        return sshd.why_not()
    if os.geteuid() != 0 or not os.access("/dev/loop-control", os.R_OK | os.W_OK):
        return "needs root, and loop devices"
    return ""


def main():
    kind, variable, *command = sys.argv[1:]
    if reason := why_not(kind):
        print(reason)
        return 77
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is mounted is unmounted
    sshd.own_mounts()
    with tempfile.TemporaryDirectory(prefix="spotter-disks-", dir="/dev/shm") as scratch:
        with mounted(kind, pathlib.Path(scratch)) as point:
            return subprocess.run(command, env={**os.environ, variable: str(point)},
                                  check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
