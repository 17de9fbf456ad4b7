#!/usr/bin/python3
"""A trainer for tests: each step's sum follows from the one before; it misbehaves on request.

Environment: STEPS (how many), PACE (seconds a step), JOURNAL (a folder off the volume: a line for
each step that is durable), BEHAVIOUR:
  train    ends after a stop signal with status 75
  crash    ends at once
  deaf     hears no signal
  empty    ends with status 0, and writes no result on its first start
  finish   a stop signal comes when it is all but done: it writes the result and ends with status 0
It speaks to the agent as any trainer may: systemd's datagrams, exit status 75 after a stop.
"""

import hashlib
import os
import pathlib
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


def tell(**fields):
    text = "\n".join(f"{key}={value}" for key, value in fields.items())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as link:
            link.setblocking(False)
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
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


def journal():
    """Where the durable steps are written down, one file for each start; None: nowhere."""
    folder = os.environ.get("JOURNAL")
    instance = pathlib.Path(os.environ["SPOTTER_NOTICE_FILE"]).parts[-3]
    # A process id comes again on another instance, the time does not.
    return folder and open(f"{folder}/{time.monotonic_ns():020d}-{instance}", "x", buffering=1,
                           encoding="utf-8")


class Trainer:
    def __init__(self):
        self.storage = pathlib.Path(os.environ["SPOTTER_STORAGE"])
        self.steps = int(os.environ.get("STEPS", "20"))
        self.pace = float(os.environ.get("PACE", "0.1"))
        self.behaviour = os.environ.get("BEHAVIOUR", "train")
        self.kept = self.storage / "checkpoints" / "count"
        self.step, self.digest, self.stopped = 0, after(0), False
        if self.kept.exists():
            step, self.digest = self.kept.read_text().split()
            self.step = int(step)

    def listen(self):
        def stop(*_):
            self.stopped = True
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN if self.behaviour == "deaf" else stop)

    def train(self):
        lines = journal()
        tell(READY=1, X_SPOTTER_RESUMED_STEP=self.step)
        while self.step < self.steps:
            time.sleep(self.pace)
            self.digest = after(self.step + 1, self.step, self.digest)
            self.step += 1
            write(self.kept, f"{self.step} {self.digest}")
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
        tell(X_SPOTTER_CHECKPOINT=self.kept, X_SPOTTER_CHECKPOINT_STEP=self.step)

    def finish(self):
        first = self.storage / "checkpoints" / "was-here"
        if self.behaviour == "empty" and not first.exists():
            write(first, "no result yet\n")
            return
        write(self.storage / "result" / "weights.bin",
              f"weights after {self.step} steps: {self.digest}\n")
        tell(X_SPOTTER_FINISHED=1)


def main():
    trainer = Trainer()
    print(f"trainer {os.getpid()} starts, behaviour {trainer.behaviour}", flush=True)
    if trainer.behaviour == "crash":
        sys.exit("cannot train: this trainer always crashes")
    trainer.listen()
    trainer.train()
    trainer.finish()


if __name__ == "__main__":
    main()
