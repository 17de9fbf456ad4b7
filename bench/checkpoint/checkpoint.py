#!/usr/bin/python3
"""What a checkpoint of a large state costs, against memcpy, torch.save + fsync and dd, in one run.

Everything on the same disk (--directory, which should be the one that matters), round after round,
so that a neighbour's load falls on all of them; medians of the rounds, and ratios of these.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 5
TARGETS = {"stall_to_memcpy": (1.2, "at most"), "torch_save_to_stall": (10, "at least"),
           "python_torch_save_to_stall": (10, "at least"),
           "write_to_dd": (0.9, "at least"), "restore_to_dd": (0.9, "at least")}


def dd(*words):
    begun = time.monotonic()
    subprocess.run(["dd", "bs=8M", "status=none", *words], check=True)
    return time.monotonic() - begun


def write_with_dd(path, source, size):
    path.unlink(missing_ok=True)
    return dd(f"if={source}", f"of={path}", f"count={size >> 23}", "oflag=direct", "conv=fsync")


def forget(path):
    """Out of the page cache: what is measured is the disk."""
    for file in path.rglob("*"):
        if file.is_file():
            with open(file, "rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def library(binary, folder, size, phase):
    done = subprocess.run([binary, folder, str(size), phase], check=True, capture_output=True,
                          text=True)
    return json.loads(done.stdout)


def torch_asynchronous(folder):
    """PyTorch's own asynchronous checkpoint, as a function of the state: the stall, in seconds."""
    import torch
    try:
        from torch.distributed.checkpoint import async_save
    except ImportError:
        print(f"no asynchronous checkpoint in torch {torch.__version__} to compare with")
        return None

    def save(state):
        begun = time.monotonic()
        pending = async_save(state, checkpoint_id=str(folder / "torch-asynchronous"))
        stalled = time.monotonic() - begun
        pending.result()
        shutil.rmtree(folder / "torch-asynchronous")
        return stalled
    return save


def python_figures(folder, size):
    """torch.save + fsync beside this library's Python API: the same dict of tensors."""
    os.environ.setdefault("SPOTTER_LIBRARY", str(ROOT / "build/release/lib/libspotter.so"))
    sys.path.insert(0, str(ROOT / "trainer/library/python"))
    import torch
    import spotter
    state = {f"layer{i}": torch.rand(size // 64 // 4) for i in range(64)}
    seconds = {"torch_save": [], "python_stall": [], "torch_asynchronous_stall": []}
    asynchronous = torch_asynchronous(folder)
    with spotter.open(folder / "python", keep_last=1) as run:
        for number in range(ROUNDS + 1):
            for tensor in state.values():
                tensor += 1
            begun = time.monotonic()
            with open(folder / "torch.pt", "wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            seconds["torch_save"].append(time.monotonic() - begun)
            begun = time.monotonic()
            run.save(number, model=state)
            seconds["python_stall"].append(time.monotonic() - begun)
            run.flush()
            if asynchronous:
                seconds["torch_asynchronous_stall"].append(asynchronous(state))
    os.unlink(folder / "torch.pt")
    return {name: values[1:] for name, values in seconds.items() if values}


def measure(binary, folder, size):
    source, target = folder / "source", folder / "target"
    dd("if=/dev/urandom", f"of={source}", f"count={size >> 23}")
    dd(f"if={source}", "of=/dev/null")  # into the page cache: dd's source costs no disk
    seconds = {"memcpy": [], "stall": [], "write": [], "dd_write": [], "restore": [],
               "dd_read": [], "first_stall": []}
    for _ in range(ROUNDS):
        seconds["dd_write"].append(write_with_dd(target, source, size))
        saved = library(binary, folder / "checkpoints", size, "save")
        for name in ("memcpy", "stall", "write"):
            seconds[name] += saved[name]
        seconds["first_stall"].append(saved["first_stall"])
        seconds["dd_write"].append(write_with_dd(target, source, size))
        forget(folder)
        seconds["dd_read"].append(dd(f"if={target}", "of=/dev/null", "iflag=direct"))
        forget(folder)
        seconds["restore"].append(library(binary, folder / "checkpoints", size,
                                          "restore")["restore"])
    target.unlink()
    source.unlink()
    try:
        seconds |= python_figures(folder, size)
    except ImportError as error:
        print(f"without PyTorch: {error}")
    return {name: statistics.median(values) for name, values in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--directory", default="/var/tmp", help="on the disk to measure")
    parser.add_argument("--mib", type=int, default=1024, help="of state")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    size = arguments.mib << 20
    with tempfile.TemporaryDirectory(prefix="spotter-bench-", dir=arguments.directory) as name:
        seconds = measure(f"{arguments.bin}/bench_checkpoint", pathlib.Path(name), size)
    ratios = {"stall_to_memcpy": seconds["stall"] / seconds["memcpy"],
              "write_to_dd": seconds["dd_write"] / seconds["write"],
              "restore_to_dd": seconds["dd_read"] / seconds["restore"]}
    if "torch_save" in seconds:
        ratios["torch_save_to_stall"] = seconds["torch_save"] / seconds["stall"]
        ratios["python_torch_save_to_stall"] = seconds["torch_save"] / seconds["python_stall"]
    if "torch_asynchronous_stall" in seconds:
        ratios["torch_asynchronous_to_python_stall"] = \
            seconds["torch_asynchronous_stall"] / seconds["python_stall"]
    facts = {"mib": arguments.mib, "rounds": ROUNDS, "median_s": seconds, "ratios": ratios}
    print(json.dumps(facts, indent=2))
    missed = []
    for name, (target, word) in TARGETS.items():
        if name not in ratios:
            print(f"{name} was not measured")
            continue
        ratio = ratios[name]
        if ratio > target if word == "at most" else ratio < target:
            missed.append(f"{name} is {ratio:.2f}; {word} {target}")
    print("\n".join(missed) or "every target is met")
    if arguments.json:
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    sys.exit(bool(missed))


if __name__ == "__main__":
    main()
