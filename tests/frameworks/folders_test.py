#!/usr/bin/python3
"""Checkpoints that are folders, by the real frameworks, killed wherever they write.

    folders_test.py SPOTTER ROOT [--kills N] [--ranks N] [--bare] [FRAMEWORK...]

ROOT is a tree of Debian testing with the frameworks (`scripts/frameworks` makes it). Each life of
a trainer is killed at an event that the kernel reports of its checkpoints' folder, drawn by chance
from all of a few saves: a file made, written to, closed, renamed, removed. Between two lives the
guard and `spotter host verify` do what they do under the supervisor and the agent; after one kill
in four the guard is killed, too, as where the machine is lost. Each life must resume from a
checkpoint no older than the last one that the guard called durable. Of several ranks (dcp-ranks,
`--ranks`) all are killed at once, or one, and their launcher ends the others. `--bare`: the same
without Spotter, where a checkpoint on which the next life fails is removed by hand, and counted.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading

import root as roots

HERE = pathlib.Path(__file__).resolve().parent
KINDS = ("transformers", "accelerate", "dcp", "dcp-async", "dcp-ranks")
MODIFY, CLOSE, MOVED, CREATE, DELETE = 0x2, 0x8, 0xC0, 0x100, 0x200
LIBC = ctypes.CDLL(None, use_errno=True)


class Events(threading.Thread):
    """Kills the trainer at the `at`-th event below a folder: all its processes, or of several ranks
    the one that `choose` picks."""

    def __init__(self, folder, at, choose):
        super().__init__(daemon=True)
        self.notify, self.folders = LIBC.inotify_init1(os.O_CLOEXEC), {}
        self.folder, self.at, self.seen = folder, at, 0
        self.pids, self.choose = [], choose
        self.what = "nothing"
        self.watch(folder)

    def watch(self, folder):
        mask = MODIFY | CLOSE | MOVED | CREATE | DELETE
        number = LIBC.inotify_add_watch(self.notify, os.fsencode(folder), mask)
        self.folders[number] = folder

    def run(self):
        while True:
            data = os.read(self.notify, 65536)
            while data:
                number, mask, _, length = struct.unpack_from("iIII", data)
                name = os.fsdecode(data[16:16 + length].rstrip(b"\0"))
                data = data[16 + length:]
                if mask & 0x40000000 and mask & CREATE:
                    self.watch(self.folders[number] / name)
                self.seen += 1
                if self.seen >= self.at:
                    for pid in self.choose(self.pids):
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    self.what = f"{mask & 0xfff:#x} of {name}"
                    os.close(self.notify)
                    return


def processes(chance):
    """Which of [the launcher, rank 0, rank 1, ...] are killed."""
    one = chance.random() < 0.5 and chance.random()
    return lambda pids: [pids[1 + int(one * len(pids[1:]))]] if one and pids[1:] else pids


class Trainer:
    """A framework in its root; what it writes is in `folder`, which the root sees as /work."""

    def __init__(self, root, kind, ranks, mount):
        self.lives = subprocess.Popen(
            roots.within(root, {"work": mount, "lives": HERE}, "nice", "python3",
                         "/lives/lives.py", kind, "/work/ckpt", str(ranks)),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            stderr=subprocess.DEVNULL, env=roots.ENVIRONMENT)
        if self.line() != "ready":
            raise SystemExit(f"{kind}: the root has it not")

    def line(self):
        return self.lives.stdout.readline().strip()

    def live(self, events):
        """(the step that it resumed from, why it broke); killed by `events`."""
        self.lives.stdin.write("\n")
        resumed = broken = None
        while (line := self.line()) != "over":
            if line.startswith("pid "):
                # Its number in our own namespace is the same: only the mounts are its own.
                events.pids = [int(pid) for pid in line.split()[1:]]
                events.start()
            elif line.startswith("resumed "):
                resumed = int(line.split()[1])
            elif line.startswith("broken "):
                broken = line
            elif not line and self.lives.poll() is not None:
                raise SystemExit("the trainer's parent has ended")
        return resumed, broken

    def end(self):
        self.lives.stdin.close()
        self.lives.wait(timeout=60)


class Watch:
    """The guard beside one life, and what the agent would hear."""

    def __init__(self, spotter, mount):
        self.path = mount / "sock"
        self.path.unlink(missing_ok=True)
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(self.path))
        self.socket.setblocking(False)
        self.guard = subprocess.Popen(
            [spotter, "guard", "--mount", mount, "--directory", "ckpt", "--folders",
             "checkpoint-*", "--socket", self.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True)
        said = self.guard.stdout.readline()
        assert said == "ready\n", said

    def end(self, word):
        """The steps that were called durable."""
        if word is None:
            self.guard.kill()
        self.guard.communicate((word or "") + "\n" if word else None, timeout=60)
        steps = []
        with contextlib.suppress(BlockingIOError):
            while True:
                text = self.socket.recv(65536).decode()
                steps += map(int, re.findall(r"X_SPOTTER_CHECKPOINT_STEP=(\d+)", text))
        self.socket.close()
        return steps


def verify(spotter, mount):
    request = {"verb": "verify", "mount_point": str(mount), "checkpoints": "ckpt",
               "folders": "checkpoint-*"}
    done = subprocess.run([spotter, "host"], input=json.dumps(request), check=True,
                          capture_output=True, text=True)
    return json.loads(done.stdout)


def story(kind, options, chance):
    """Counts of one framework: lives, those by hand, those from scratch."""
    mount = pathlib.Path(tempfile.mkdtemp(prefix=f"spotter-{kind}-", dir="/var/tmp"))
    for folder in ("ckpt", ".spotter"):
        (mount / folder).mkdir()
    counts = {"kills": 0, "by hand": 0, "from scratch": 0, "went back": 0}
    trainer = Trainer(options.root, kind, options.ranks, mount)
    durable = 0
    try:
        while counts["kills"] < options.kills:
            watch = None if options.bare else Watch(options.spotter, mount)
            events = Events(mount / "ckpt", chance.randint(1, options.events), processes(chance))
            resumed, broken = trainer.live(events)
            if broken:
                counts["by hand"] += 1
                print(f"{kind}: {broken}", flush=True)
                newest = max((mount / "ckpt").glob("checkpoint-*"),
                             key=lambda path: int(path.name.split("-")[1]))
                shutil.rmtree(newest)
            else:
                counts["kills"] += 1
                counts["from scratch"] += resumed == 0 and durable > 0
                if resumed < durable:
                    counts["went back"] += 1
                    print(f"{kind}: resumed from {resumed}, {durable} was durable", flush=True)
            if watch:
                steps = watch.end("killed" if chance.random() < 0.75 else None)
                durable = max([durable, *steps])
                verify(options.spotter, mount)
    finally:
        trainer.end()
        shutil.rmtree(mount)
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spotter", type=pathlib.Path)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--ranks", type=int, default=2, help="of dcp-ranks")
    parser.add_argument("--events", type=int, default=70, help="of a few saves")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("kinds", nargs="*", default=KINDS)
    options = parser.parse_intermixed_args()
    roots.skip_without(options.root)
    bad = 0
    for kind in options.kinds:
        counts = story(kind, options, random.Random(options.seed))
        print(f"{kind}{' bare' if options.bare else ''}: " +
              ", ".join(f"{count} {what}" for what, count in counts.items()), flush=True)
        bad += counts["by hand"] + counts["from scratch"] + counts["went back"]
    sys.exit(1 if bad and not options.bare else 0)


if __name__ == "__main__":
    main()
