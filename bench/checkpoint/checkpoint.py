#!/usr/bin/python3
"""What a checkpoint of a large state costs, against memcpy and dd, in one run; then, from Python
and beside PyTorch's own ways, table.py.

Everything on the same disk (--directory, which should be the one that matters), round after round,
so that a neighbour's load falls on all of them; medians of the rounds, and ratios of these.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import table

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROUNDS = 5
TARGETS = {"stall_to_memcpy": (1.2, "at most"), "write_to_dd": (0.9, "at least"),
           "restore_to_dd": (0.9, "at least"), "torch_save_to_stall": (10, "at least"),
           "torch_load_to_restore_cold": (1, "at least"),
           "torch_load_to_restore_warm": (1, "at least"),
           "restore_to_reading_cold": (1.1, "at most"), "restore_to_reading_warm": (1.1, "at most"),
           "stall_to_bus": (1.3, "at most"), "memory": (2.2, "at most")}


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
    return {name: statistics.median(values) for name, values in seconds.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--directory", default="/var/tmp", help="on the disk to measure")
    parser.add_argument("--mib", type=int, default=1024, help="of state")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.rounds = ROUNDS
    size = arguments.mib << 20
    with tempfile.TemporaryDirectory(prefix="spotter-bench-", dir=arguments.directory) as name:
        seconds = measure(f"{arguments.bin}/bench_checkpoint", pathlib.Path(name), size)
    ratios = {"stall_to_memcpy": seconds["stall"] / seconds["memcpy"],
              "write_to_dd": seconds["dd_write"] / seconds["write"],
              "restore_to_dd": seconds["dd_read"] / seconds["restore"]}
    rows = table.measure(arguments)
    if "torch.save, fsync" in rows:
        ours, torchs = rows["libspotter"], rows["torch.save, fsync"]
        ratios |= {"torch_save_to_stall": torchs["durable"] / ours["later"],
                   "memory": ours["memory"]}
        for kind in ("cold", "warm"):
            ratios[f"torch_load_to_restore_{kind}"] = torchs[kind] / ours[kind]
            ratios[f"restore_to_reading_{kind}"] = ours[kind] / ours[f"reading, {kind}"]
        on_bus = rows.get("libspotter, on a bus", ours)
        ratios["stall_to_bus"] = on_bus["later"] / on_bus["bus"]
    facts = {"mib": arguments.mib, "rounds": ROUNDS, "median_s": seconds, "ratios": ratios,
             "table": rows}
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
