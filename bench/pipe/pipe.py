#!/usr/bin/python3
"""Pipe mode against what people use: the same objects from the same S3 server (the emulator).

Wall time from the start of the process until the last byte was read, CPU of the process with its
children, and peak memory; interleaved rounds, medians. What is not installed is left out.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build/release/bin"
READER = """
import sys
block = bytearray(16 << 20)
with open(sys.argv[1], "rb", buffering=0) as fifo:
    while fifo.readinto(block): pass
"""
BOTO = """
import boto3, sys
s3 = boto3.client("s3")
for page in s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=sys.argv[1]):
    for each in page["Contents"]:
        body = s3.get_object(Bucket="bucket", Key=each["Key"])["Body"]
        while body.read(1 << 20): pass
"""
TRANSFER = """
import boto3, sys
class Sink:
    def write(self, data): return len(data)
s3 = boto3.client("s3")
for page in s3.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix=sys.argv[1]):
    for each in page["Contents"]: s3.download_fileobj("bucket", each["Key"], Sink())
"""
# name -> (bytes of an object, how many)
SIZES = {"64 KiB": (64 << 10, 4096), "1 MiB": (1 << 20, 512), "64 MiB": (64 << 20, 8),
         "1 GiB": (1 << 30, 1)}
TARGET, BARE_TARGET, CPU_TARGET, BUDGET = 1.8, 0.8, 0.4, 256


class Server:
    def __init__(self, folder):
        self.folder = folder
        (pathlib.Path(folder) / "s3/bucket").mkdir(parents=True)
        self.process = subprocess.Popen(
            [BIN / "spotter-emulator", "serve", "--directory", folder, "--api", "127.0.0.1:0",
             "--metadata", "127.0.0.1:0", "--mode", "user"], stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        self.url = dict(word.split("=", 1) for word in words[1:])["api"]

    def open_to_all(self):
        """So that curl need not sign."""
        subprocess.run([BIN / "spotter-emulator", "--api", self.url, "fault", "s3-public",
                        "bucket=bucket", "on=true"], check=True, capture_output=True)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def contenders(server, size, count, scratch):
    """name -> command; "bare": what the server gives to a reader without a FIFO."""
    prefix = f"{size}/"
    keys = [f"{server.url}/bucket/{size}/{i:05}" for i in range(count)]
    config = scratch / f"curl-{size}"
    config.write_text("".join(f'url = "{key}"\noutput = "/dev/null"\n' for key in keys))
    pieces = scratch / f"pieces-{size}"
    step = 8 << 20
    pieces.write_text("next\n".join(
        f'url = "{key}"\noutput = "/dev/null"\nrange = "{at}-{at + step - 1}"\n'
        for key in keys for at in range(0, size, step)))
    pipe = [BIN / "spotter", "pipe", "--channel", f"train=s3://bucket/{prefix}", "--directory",
            scratch / "data"]
    read = ["--", sys.executable, "-c", READER, scratch / "data/train_0"]
    found = {
        "spotter": [*pipe, *read],
        "spotter, copying": [*pipe, "--copy", *read],
        "boto3": [sys.executable, "-c", BOTO, prefix],
        "boto3, s3transfer": [sys.executable, "-c", TRANSFER, prefix],
        "curl": ["curl", "-s", "-K", config],
        "bare": ["curl", "-s", "--no-progress-meter", "-Z", "--parallel-max", "8", "-K", pieces],
    }
    if shutil.which("aws") and count <= 16:  # a process for each object: minutes for small ones
        found["aws s3 cp -"] = ["sh", "-c", "; ".join(
            f"aws s3 cp s3://bucket/{size}/{i:05} - >/dev/null" for i in range(count))]
    if shutil.which("rclone"):
        found["rclone"] = ["sh", "-c", "rclone cat --s3-provider Other --s3-env-auth "
                           f"--s3-endpoint {server.url} :s3:bucket/{prefix} >/dev/null"]
    return found


def measure(command, environment):
    """Seconds of wall time and of CPU, KiB at the peak of the largest process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    child = subprocess.Popen(["/usr/bin/python3", "-c", """
import json, resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(json.dumps([status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
""", *map(str, command)], env=environment, stdout=subprocess.PIPE, text=True)
    status, peak = json.loads(child.communicate()[0])
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != 0:
        raise SystemExit(f"status {status} of {command[0]}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, peak


def run(server, scratch, rounds, names):
    environment = {**os.environ, "AWS_ENDPOINT_URL": server.url, "AWS_REGION": "us-west-2",
                   "AWS_ACCESS_KEY_ID": "AKIAEMULATOR00000000", "HOME": str(scratch),
                   "AWS_SECRET_ACCESS_KEY": "emulator-secret"}
    figures = {}
    for name in names:
        size, count = SIZES[name]
        folder = pathlib.Path(server.folder) / "s3/bucket" / str(size)
        folder.mkdir(parents=True)
        block = os.urandom(min(size, 64 << 20))
        for i in range(count):
            with open(folder / f"{i:05}", "wb") as file:
                for _ in range(size // len(block)):
                    file.write(block)
        commands = contenders(server, size, count, scratch)
        measure(commands["boto3"], environment)  # the server reads each object for its ETag once
        taken = {each: [] for each in commands}
        for _ in range(rounds):
            for each, command in commands.items():
                taken[each].append(measure(command, environment))
        gigabytes = size * count / 1e9
        figures[name] = {each: {"GB/s": gigabytes / statistics.median(t[0] for t in times),
                                "CPU s/GB": statistics.median(t[1] for t in times) / gigabytes,
                                "MiB": max(t[2] for t in times) / 1024}
                         for each, times in taken.items()}
        shutil.rmtree(folder)
        report(name, figures[name])
    return figures


def report(size, figures):
    ours = figures["spotter"]["GB/s"]
    for name, each in figures.items():
        print(f"{size:>7}  {name:18} {each['GB/s']:6.2f} GB/s {each['CPU s/GB']:6.2f} CPU s/GB "
              f"{each['MiB']:6.0f} MiB  {ours / each['GB/s']:5.2f} x", flush=True)


def misses(figures):
    for size, all_of_it in figures.items():
        ours = all_of_it["spotter"]
        peers = {name: each["GB/s"] for name, each in all_of_it.items()
                 if not name.startswith("spotter") and name != "bare"}
        best = max(peers, key=peers.get)
        if ours["GB/s"] < TARGET * peers[best]:
            yield f"{size}: {ours['GB/s'] / peers[best]:.2f} x {best}; target {TARGET}"
        if ours["GB/s"] < BARE_TARGET * all_of_it["bare"]["GB/s"]:
            yield (f"{size}: {ours['GB/s'] / all_of_it['bare']['GB/s']:.2f} of what the server "
                   f"gives; target {BARE_TARGET}")
        if ours["CPU s/GB"] > CPU_TARGET:
            yield f"{size}: {ours['CPU s/GB']:.2f} CPU s/GB with its reader; target {CPU_TARGET}"
        if ours["MiB"] > BUDGET + 64:
            yield f"{size}: {ours['MiB']:.0f} MiB; target {BUDGET} and the program"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spotter-bench-", dir="/dev/shm") as folder:
        server = Server(folder)
        scratch = pathlib.Path(folder) / "scratch"
        scratch.mkdir()
        try:
            server.open_to_all()
            figures = run(server, scratch, arguments.rounds, arguments.sizes)
        finally:
            server.stop()
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    missed = list(misses(figures))
    print("\n".join(missed) if missed else "every target is met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
