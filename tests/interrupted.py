#!/usr/bin/python3
"""Ends the gate (or the parts that are named) at moments of its life, by Ctrl-C and SIGTERM by
turns, and looks whether anything of it is left: a process, a mount, a loop device, a namespace, a
group of processes, a file outside the build folder. By hand, alone on its machine:
tests/interrupted.py [--moments N] [NAME...]"""

import argparse
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
import run  # noqa: E402

ENTRIES = 190  # of the gate: a moment is a share of them
PLACES = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/netns", "/run/spotter-mounts", "/var/lib",
          "/etc", "/etc/systemd/system", str(pathlib.Path.home()), str(ROOT))
GROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified")


def lines_of(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.splitlines()


def machine():
    """What of a machine a test could leave changed, each as a line."""
    seen = {f"mount {line.split()[4]}"
            for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()}
    seen |= {f"loop device {line}" for line in lines_of("losetup", "--noheadings", "-O",
                                                        "NAME,BACK-FILE")}
    seen |= {f"address {line}" for line in lines_of("ip", "-brief", "address")}
    for kind, places in (("file", PLACES), ("group", GROUPS)):
        seen |= {f"{kind} {entry.path}" for place in places if os.path.isdir(place)
                 for entry in os.scandir(place) if kind == "file" or entry.is_dir()}
    return seen


def end_at(moment, number, names):
    """The number of entries that had ended, and the exit status."""
    process = subprocess.Popen(["scripts/test", *names], cwd=ROOT, start_new_session=True,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    ended = 0
    for line in process.stdout:
        ended += bool(re.search(r" Test +#\d+: .*(Passed|Failed|Skipped)", line))
        begun = line.startswith("==") or ended
        if begun and ended >= moment:
            break
    # As a terminal does it, to all in front; as a service manager, to the one that it started.
    if number == signal.SIGINT:
        os.killpg(process.pid, number)
    else:
        os.kill(process.pid, number)
    process.stdout.read()
    return ended, process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--entries", type=int, default=ENTRIES)
    options = parser.parse_args()
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    failed = 0
    for i in range(options.moments):
        before = machine()
        number = (signal.SIGINT, signal.SIGTERM)[i % 2]
        ended, status = end_at(i * options.entries // options.moments, number, options.names)
        run.reap()
        left = sorted(machine() - before)
        left += [f"process {pid}: {run.words_of(pid)}" for pid in run.descendants()]
        if status != 130:
            left.append(f"exit status {status}")
        failed += bool(left)
        print(f"{number.name} after {ended} entries:", *(left or ["nothing left"]), sep="\n  ",
              flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
