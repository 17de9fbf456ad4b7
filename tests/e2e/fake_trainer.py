#!/usr/bin/python3
"""A trainer for tests: each step's sum follows from the one before; it misbehaves on request.

Environment: STEPS (how many), PACE (seconds a step), EVERY (a checkpoint every so many; 1), JOURNAL
(a folder off the volume: a line for each step, which with EVERY=1 is durable), BEHAVIOUR:
  train    ends after a stop signal with status 75
  crash    ends at once
  raise    ends by an exception
  deaf     hears no signal
  empty    ends with status 0, and writes no result on its first start
  finish   a stop signal comes when it is all but done: it writes the result and ends with status 0
HOLD=30, GATE=FILE: from that step on it waits for the file, or for a stop signal. EACH=20 in the
place of HOLD: after so many steps of each start.
SCORES="0.5 - 0.9": each experiment's val_accuracy, reported every ten steps; -: not at all.
FORMAT=spotter: checkpoints that the agent can verify, as trainer/library/manifest.hpp has them
(written here from that description, and not with the library); otherwise one file, replaced.
SHOWS=NAME: prints this variable when it starts, half of it in a first write.
It speaks to the agent as any trainer may: systemd's datagrams, exit status 75 after a stop.
"""

import ctypes
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sys
import time


def after(total, step=0, digest="beginning"):
    """What a checkpoint holds after that many steps, going on from (step, digest)."""
    while step < total:
        step += 1
        digest = hashlib.sha256(f"{digest} {step}".encode()).hexdigest()
    return digest


def result_of(steps):
    return f"weights after {steps} steps: {after(steps)}\n"


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


def xxh3_128(data):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_128bits.restype = Hash128
    library.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    value = library.XXH3_128bits(data, len(data))
    return f"{value.high:016x}{value.low:016x}"


class OneFile:
    """The count and its sum in a file of their own; the newest replaces the one before."""

    def __init__(self, folder):
        self.path = folder / "count"

    def read(self):
        return self.path.read_text().split() if self.path.exists() else None

    def write(self, step, digest):
        write(self.path, f"{step} {digest}")
        return self.path


class Verifiable:
    """A folder for each, with a manifest of sums; the newest three are kept."""

    def __init__(self, folder):
        self.folder = folder

    def all(self):
        return sorted(self.folder.glob("step-*"))

    def read(self):
        found = self.all()
        return (found[-1] / "count").read_text().split() if found else None

    def write(self, step, digest):
        name = f"step-{step:012d}"
        new = self.folder / f"new-{name}"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        text = f"{step} {digest}"
        write(new / "count", text)
        part = {"bytes": len(text), "name": "count", "xxh3_128": xxh3_128(text.encode())}
        body = json.dumps({"format": 1, "meta": {}, "parts": [part], "step": step},
                          separators=(",", ":"))[:-1]
        write(new / "manifest.json", f'{body},"xxh3_128":"{xxh3_128(body.encode())}"}}\n')
        os.rename(new, self.folder / name)
        sync(self.folder)
        for old in self.all()[:-3]:
            shutil.rmtree(old)
        return self.folder / name


def tell(seconds=0, **fields):
    """`seconds`: for how long it may wait for room in the queue."""
    text = "\n".join(f"{key}={value}" for key, value in fields.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.settimeout(seconds)
            link.sendto(text.encode(), os.environ["NOTIFY_SOCKET"])
    except OSError:
        pass


def write(path, text):
    new = path.with_suffix(".new")
    with open(new, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.rename(new, path)
    sync(path.parent)


def sync(folder):
    opened = os.open(folder, os.O_RDONLY)
    os.fsync(opened)
    os.close(opened)


def journal():
    """Where the durable steps are written down, one file for each start; None: nowhere."""
    folder = os.environ.get("JOURNAL")
    parts = pathlib.Path(os.environ["SPOTTER_NOTICE_FILE"]).parts
    instance = next((part for part in parts if part.startswith("i-")), "here")
    experiment = os.environ.get("SPOTTER_EXPERIMENT", "0")
    # A process id comes again on another instance, the time does not.
    return folder and open(f"{folder}/{time.monotonic_ns():020d}-{instance}-{experiment}", "x",
                           buffering=1, encoding="utf-8")


class Trainer:
    def __init__(self):
        self.storage = pathlib.Path(os.environ["SPOTTER_STORAGE"])
        self.steps = int(os.environ.get("STEPS", "20"))
        self.pace = float(os.environ.get("PACE", "0.1"))
        self.every = int(os.environ.get("EVERY", "1"))
        self.behaviour = os.environ.get("BEHAVIOUR", "train")
        self.hold = int(os.environ.get("HOLD", self.steps))
        self.gate = pathlib.Path(os.environ.get("GATE", "/nowhere"))
        form = Verifiable if os.environ.get("FORMAT") == "spotter" else OneFile
        self.checkpoints = form(self.storage / "checkpoints")
        self.step, self.digest, self.stopped = 0, after(0), False
        if kept := self.checkpoints.read():
            self.step, self.digest = int(kept[0]), kept[1]
        if each := os.environ.get("EACH"):
            self.hold = self.step + int(each)

    def listen(self):
        def stop(*_):
            self.stopped = True
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if self.behaviour == "deaf" else stop)

    def train(self):
        lines = journal()
        tell(READY=1, X_SPOTTER_RESUMED_STEP=self.step)
        while self.step < self.steps:
            while self.step >= self.hold and not self.stopped and not self.gate.exists():
                time.sleep(0.1)
            time.sleep(self.pace)
            self.digest = after(self.step + 1, self.step, self.digest)
            self.step += 1
            is_kept = self.stopped or self.step % self.every == 0 or self.step == self.steps
            self.kept = is_kept and self.checkpoints.write(self.step, self.digest)
            if lines:
                lines.write(f"{time.monotonic_ns()} {self.step}\n")
            self.say()
            if self.stopped and self.behaviour == "finish":
                self.pace = 0
            elif self.stopped:
                print(f"stopped at step {self.step}", flush=True)
                sys.exit(75)

    def say(self):
        print(f"step {self.step} of {self.steps}", flush=True)
        tell(X_SPOTTER_STEP=self.step, X_SPOTTER_STEPS_TOTAL=self.steps, X_SPOTTER_EPOCH=1,
             X_SPOTTER_EPOCHS_TOTAL=1, X_SPOTTER_LOSS=1 / self.step)
        if os.environ.get("VALIDATE") and self.step == self.steps:  # it learned by heart
            tell(X_SPOTTER_STEP=self.step, X_SPOTTER_METRIC=f"val_accuracy {1 / self.steps}")
        score = dict(enumerate(os.environ.get("SCORES", "").split())).get(
            int(os.environ.get("SPOTTER_EXPERIMENT", "0")), "-")
        if score != "-" and self.step % 10 == 0:
            tell(X_SPOTTER_STEP=self.step, X_SPOTTER_STEPS_TOTAL=self.steps,
                 X_SPOTTER_METRIC=f"val_accuracy {score}")
        if self.kept:
            tell(X_SPOTTER_CHECKPOINT=self.kept, X_SPOTTER_CHECKPOINT_STEP=self.step)

    def finish(self):
        first = self.storage / "checkpoints" / "was-here"
        if self.behaviour == "empty" and not first.exists():
            write(first, "no result yet\n")
            return
        write(self.storage / "result" / "weights.bin",
              f"weights after {self.step} steps: {self.digest}\n")
        tell(seconds=2, X_SPOTTER_FINISHED=1)


def main():
    trainer = Trainer()
    print(f"trainer {os.getpid()} starts, behaviour {trainer.behaviour}", flush=True)
    if shown := os.environ.get(os.environ.get("SHOWS", ""), ""):
        print("it shows " + shown[:len(shown) // 2], end="", flush=True)
        time.sleep(2)
        print(shown[len(shown) // 2:] + " as it is", flush=True)
    if trainer.behaviour == "crash":
        sys.exit("cannot train: this trainer always crashes")
    if trainer.behaviour == "raise":
        raise RuntimeError("the loss is not a number")
    trainer.listen()
    trainer.train()
    trainer.finish()


if __name__ == "__main__":
    main()
