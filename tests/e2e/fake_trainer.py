#!/usr/bin/python3
"""A trainer for tests: counts steps as a file on the volume, and misbehaves on request.

Environment: STEPS (how many), PACE (seconds a step), BEHAVIOUR (train, crash, deaf, fail-at-N).
It speaks to the agent as any trainer may: systemd's datagrams, exit status 75 after a stop.
"""

import os
import pathlib
import signal
import socket
import sys
import time


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


def main():
    storage = pathlib.Path(os.environ["SPOTTER_STORAGE"])
    steps, pace = int(os.environ.get("STEPS", "20")), float(os.environ.get("PACE", "0.1"))
    behaviour = os.environ.get("BEHAVIOUR", "train")
    print(f"trainer {os.getpid()} starts, behaviour {behaviour}", flush=True)
    if behaviour == "crash":
        sys.exit("cannot train: this trainer always crashes")
    stopped = []
    deaf = behaviour == "deaf"
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN if deaf else lambda *_: stopped.append(True))

    kept = storage / "checkpoints" / "count"
    step = int(kept.read_text()) if kept.exists() else 0
    tell(READY=1, X_SPOTTER_RESUMED_STEP=step)
    while step < steps:
        time.sleep(pace)
        step += 1
        write(kept, str(step))
        print(f"step {step} of {steps}", flush=True)
        tell(X_SPOTTER_STEP=step, X_SPOTTER_STEPS_TOTAL=steps, X_SPOTTER_EPOCH=1,
             X_SPOTTER_EPOCHS_TOTAL=1, X_SPOTTER_LOSS=1 / step)
        tell(X_SPOTTER_CHECKPOINT=kept, X_SPOTTER_CHECKPOINT_STEP=step)
        if stopped:
            print(f"stopped at step {step}", flush=True)
            sys.exit(75)
    write(storage / "result" / "weights.bin", f"weights after {step} steps\n")
    tell(X_SPOTTER_FINISHED=1)


if __name__ == "__main__":
    main()
