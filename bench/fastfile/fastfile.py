#!/usr/bin/python3
"""Mode fast_file against s3fs and `aws s3 cp`: the same objects of one S3 server on this machine.

  read    wall time of the whole process until every file was read, one after the other
  jumps   500 reads of 4 KiB at random places of 1 GiB
  start   until the first byte of the first file

Over TLS, or with --transport plain without. Interleaved rounds, medians. What is not installed is
left out. Exit status 1: it reads less than twice as fast as another.
"""

import argparse
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "pipe"))
import peers  # noqa: E402
import pipe  # noqa: E402
import server as servers  # noqa: E402

TARGET = 2  # times the speed of each peer
SIZES = {"64 KiB": (64 << 10, 4096), "1 MiB": (1 << 20, 512), "64 MiB": (64 << 20, 8),
         "1 GiB": (1 << 30, 1)}
JUMPS = """
import os, random, sys
file = os.open(sys.argv[1], os.O_RDONLY)
chance = random.Random(1)
for _ in range(500): os.pread(file, 4096, chance.randrange((1 << 30) // 4096) * 4096)
"""
FIRST = """
import sys, time
open(sys.argv[1], "rb", buffering=0).read(1)
print(time.time_ns())
"""


def ours(scratch, prefix, program):
    view = scratch / "data/train"
    return [peers.BIN / "spotter", "pipe", "--channel",
            f"train=s3://bucket/{prefix}/,mode=fast_file", "--directory", scratch / "data", "--",
            "sh", "-c", '"$0" -c "$1" "$2"/*', sys.executable, program, view]


def commands_for(scratch, prefix, program, few=True):
    commands = {"fast_file": ours(scratch, prefix, program)}
    if shutil.which("s3fs") and few:  # it wants listings that nginx's are not
        mount = scratch / "s3fs"
        mount.mkdir(exist_ok=True)
        commands["s3fs"] = ["sh", "-c", peers.MOUNTED, "sh", mount, sys.executable, program, prefix]
    return commands


def read(server, scratch, environment, rounds, sizes):
    for what in sizes:
        size, count = SIZES[what]
        prefix = str(size)
        server.fill(prefix, size, count)
        commands = commands_for(scratch, prefix, peers.READER, count <= 64)
        if count == 1 and shutil.which("aws"):
            commands["aws s3 cp"] = peers.into_reader(
                'aws --endpoint-url "$AWS_ENDPOINT_URL" s3 cp --quiet "$1" -',
                f"s3://bucket/{prefix}/00000")
        environment["READER"] = peers.READER
        figures = pipe.compare(server, commands, environment, rounds, size * count / 1e9)
        pipe.report(what, figures, "fast_file")
        yield what, figures
        if count > 1:
            server.drop(prefix)


def times(what, measure, commands, rounds):
    taken = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            taken[name].append(measure(command))
    figures = {name: statistics.median(each) for name, each in taken.items()}
    for name, seconds in figures.items():
        print(f"{what:>12}  {name:18} {seconds * 1000:8.1f} ms"
              f"  {figures['fast_file'] / seconds:5.2f} x", flush=True)
    return what, figures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transport", choices=pipe.TRANSPORTS, default="tls")
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES),
                        help="jumps and start need 1 GiB")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spotter-fastfile-", dir="/dev/shm") as folder:
        scratch = pathlib.Path(folder) / "scratch"
        scratch.mkdir()
        with pipe.serving(lambda where: servers.fastest(where, arguments.transport == "tls"),
                          folder) as server:
            environment = peers.environment(server, scratch)
            figures = dict(read(server, scratch, environment, arguments.rounds, arguments.sizes))
            large = str(1 << 30)
            if "1 GiB" in arguments.sizes:
                figures.update([
                    times("jumps", lambda command: pipe.measure(command, environment)[0],
                          commands_for(scratch, large, JUMPS), arguments.rounds),
                    times("start", lambda command: pipe.first_byte(command, environment),
                          commands_for(scratch, large, FIRST), arguments.rounds)])
    missed = []
    for what in arguments.sizes:
        ours = figures[what]["fast_file"]["GB/s"]
        missed += [f"{what}: {ours / each['GB/s']:.2f} x the speed of {name}; target {TARGET}"
                   for name, each in figures[what].items()
                   if name != "fast_file" and ours < TARGET * each["GB/s"]]
    return pipe.conclude(figures, missed, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
