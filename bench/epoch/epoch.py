#!/usr/bin/python3
"""Epochs of a training.

  mnist  spotter-train on MNIST: from Pipe channels against from memory, the same examples in the
         same order, to the same bits. The time between the ends of two epochs, the first one left
         out (it has the start in it)
  modes  from the start to the end of epochs 1 and 10 in Pipe mode, file mode and fast_file, of
         three file types over TLS, and its picture (modes.py)

Interleaved rounds, medians. The S3 server (the emulator) and the data plane run on the same cores.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/pipe"))
from server import BIN, Emulator  # noqa: E402
import modes  # noqa: E402

CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
TARGET, EPOCHS = 1.05, 4


def epochs(command, environment):
    """Seconds of each epoch but the first."""
    ends = []
    with subprocess.Popen(list(map(str, command)), env=environment, stdout=subprocess.PIPE,
                          text=True) as trainer:
        for line in trainer.stdout:
            if line.startswith("epoch "):
                ends.append(time.monotonic())
    if trainer.returncode != 0 or len(ends) != EPOCHS:
        raise SystemExit(f"status {trainer.returncode}, {len(ends)} epochs")
    return [after - before for before, after in zip(ends, ends[1:])]


def train(scratch, name, data):
    place = tempfile.mkdtemp(prefix=name, dir=scratch)
    return [BIN / "spotter-train", "--data", data, "--checkpoints", f"{place}/c", "--result",
            f"{place}/result", "--hidden", "256,128", "--epochs", EPOCHS], pathlib.Path(place)


def measure(server, scratch, data, rounds):
    environment = {**os.environ, "AWS_ENDPOINT_URL": server.url, "AWS_REGION": "us-west-2",
                   "AWS_ACCESS_KEY_ID": server.keys[0], "HOME": str(scratch),
                   "AWS_SECRET_ACCESS_KEY": server.keys[1]}
    pipe = [BIN / "spotter", "pipe", "--channel", "train=s3://mnist/train/", "--channel",
            "test=s3://mnist/test/", "--directory", scratch / "data", "--"]
    taken = {"memory": [], "pipe": []}
    for _ in range(rounds):
        memory, one = train(scratch, "memory", data)
        taken["memory"] += epochs([*memory, "--unshuffled"], environment)
        piped, other = train(scratch, "pipe", "pipe:train,test")
        taken["pipe"] += epochs([*pipe, *piped], environment)
        weights = [(place / "result/model.safetensors").read_bytes() for place in (one, other)]
        if weights[0] != weights[1]:
            raise SystemExit("these are not the same weights")
    return taken


def mnist(arguments):
    subprocess.run([ROOT / "scripts/fetch-mnist", arguments.data], check=True)
    with tempfile.TemporaryDirectory(prefix="spotter-bench-", dir="/dev/shm") as folder:
        scratch = pathlib.Path(folder) / "scratch"
        scratch.mkdir()
        subprocess.run([ROOT / "scripts/pack-records", arguments.data, f"{folder}/s3/mnist"],
                       check=True, stdout=subprocess.DEVNULL)
        server = Emulator(folder)
        try:
            taken = measure(server, scratch, arguments.data, arguments.rounds)
        finally:
            server.stop()
    medians = {name: statistics.median(each) for name, each in taken.items()}
    ratio = medians["pipe"] / medians["memory"]
    for name, each in taken.items():
        print(f"{name:7} {medians[name]:.3f} s an epoch (median of {len(each)}, "
              f"{min(each):.3f} to {max(each):.3f})")
    print(f"from Pipe {ratio:.3f} x from memory; target {TARGET}")
    return {**medians, "ratio": ratio, "all": taken}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=["mnist", "modes"], choices=["mnist", "modes"])
    parser.add_argument("--data", type=pathlib.Path, default=CACHE / "spotter/mnist")
    parser.add_argument("--svg", type=pathlib.Path, default=ROOT / "bench/epoch/modes.svg")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder and the server go, too
    figures = {}
    if "mnist" in arguments.only:
        figures["mnist"] = mnist(arguments)
    if "modes" in arguments.only:
        with tempfile.TemporaryDirectory(prefix="spotter-bench-", dir="/dev/shm") as folder:
            figures["modes"] = modes.figures(folder, arguments.rounds)
        arguments.svg.write_text(modes.picture(figures["modes"]))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if figures.get("mnist", {"ratio": 0})["ratio"] > TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
