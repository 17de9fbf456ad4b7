#!/usr/bin/python3
"""Pipe mode against what people use: the same objects from the same S3 server on this machine.

  server      what the servers give, so that the faster one is used, and is not the bottleneck

  throughput  wall time of the whole process until the last byte was read, CPU with its children,
              memory of its largest process; for four sizes of objects, over TLS and plain HTTP
  networks    the same where a connection gives 90 MB/s, or answers after 30 ms, or all together
              are held to a total
  start       until the first byte: of 1 GB, and of 1 TB in 100,000 keys (sparse), against a bare
              ranged GET, and against files that are fetched first

Interleaved rounds, medians. What is not installed is left out. Exit status 1: a target is missed.
"""

import argparse
import contextlib
import json
import pathlib
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import peers
import server as servers

# name -> (bytes of an object, how many): a GiB, of small ones a quarter. --gigabytes has more.
SIZES = {"64 KiB": (64 << 10, 4096), "1 MiB": (1 << 20, 1024), "64 MiB": (64 << 20, 16),
         "1 GiB": (1 << 30, 1)}
TRANSPORTS = ("tls", "plain")
# name -> (faults of the server, bytes a second that all connections have together)
TOTAL = 400_000_000
NETWORKS = {"90 MB/s each": ([["s3-slow", "rate=90000000"]], None),
            "30 ms": ([["latency", "action=GetObject", "of=30ms"]], None),
            "90 MB/s each, 400 in all": ([["s3-slow", "rate=90000000", f"total={TOTAL}"]], TOTAL),
            "20 MB/s each, 30 ms, 400 in all": (
                [["s3-slow", "rate=20000000", f"total={TOTAL}"],
                 ["latency", "action=GetObject", "of=30ms"]], TOTAL)}
# CPU is that of spotter with its reader.
TARGET = {"peers": 1.8, "bare": 0.8, "cpu": 0.4, "mebibytes": 256, "total": 0.9, "start": 1.3}
# Over TLS: ahead of every peer. boto3's CPU is its stream's.
TLS_TARGET = {**TARGET, "peers": 1, "bare": 0, "cpu": float("inf"), "boto3": 1, "mebibytes": 128}
OURS = "spotter"


class Failed(Exception):
    pass


def measure(command, environment):
    """Seconds of wall time and of CPU, MiB at the peak of the largest process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begun = time.monotonic()
    child = subprocess.Popen([sys.executable, "-S", "-c", """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(status, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
""", *map(str, command)], env=environment, stdout=subprocess.PIPE, text=True)
    status, peak = child.communicate()[0].split()
    wall = time.monotonic() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status != "0":
        raise Failed(f"status {status} of {command}")
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, float(peak)


def compare(server, commands, environment, rounds, gigabytes):
    """name -> figures, of rounds in which each has its turn."""
    taken = {name: [] for name in commands}
    for _ in range(rounds):
        for name in list(taken):
            served = server.cpu_seconds()
            try:
                figures = measure(commands[name], environment)
            except Failed as failed:
                if name.startswith(OURS):
                    raise SystemExit(str(failed)) from None
                print(f"left out: {name}, {failed}")
                del taken[name]
                continue
            taken[name].append((*figures, server.cpu_seconds() - served))
    return {name: {"GB/s": gigabytes / statistics.median(t[0] for t in times),
                   "CPU s/GB": statistics.median(t[1] for t in times) / gigabytes,
                   "MiB": max(t[2] for t in times),
                   "server CPU": statistics.median(t[3] for t in times) / gigabytes}
            for name, times in taken.items()}


def report(what, figures, to=OURS):
    ours = figures[to]["GB/s"]
    for name, each in figures.items():
        print(f"{what:>12}  {name:18} {each['GB/s']:6.3f} GB/s {each['CPU s/GB']:6.2f} CPU s/GB "
              f"{each['MiB']:6.0f} MiB  server {each['server CPU']:5.2f}"
              f"  {ours / each['GB/s']:5.2f} x", flush=True)


@contextlib.contextmanager
def serving(kind, folder):
    server = kind(folder)
    try:
        yield server
    finally:
        server.stop()


def throughput(folder, scratch, arguments):
    for transport in arguments.transports:
        tls = transport == "tls"
        with serving(lambda where: servers.fastest(where, tls), folder) as server:
            for what, figures in throughput_of(server, scratch, arguments):
                yield f"{transport}, {what}", figures


def throughput_of(server, scratch, arguments):
    environment = peers.environment(server, scratch)
    rounds = arguments.rounds
    for what in arguments.sizes:
        size, count = SIZES[what]
        count *= arguments.gigabytes
        prefix = str(size)
        server.fill(prefix, size, count)
        commands = peers.contenders(server, scratch, prefix, size, count)
        absent = [name for name in peers.WANTED if name not in commands]
        if absent:
            print(f"{what}: left out, as not installed or too slow: {', '.join(absent)}")
        if arguments.beside:
            commands = {name: command for name, command in commands.items()
                        if name in (OURS, "bare", "boto3", *arguments.beside)}
        measure(commands["bare"], environment)
        figures = compare(server, commands, environment, rounds, size * count / 1e9)
        server.drop(prefix)
        report(f"{'tls' if server.certificate else 'plain'}, {what}", figures)
        yield what, figures


def networks(folder, scratch, arguments):
    for transport in arguments.transports:
        tls = transport == "tls"
        with serving(lambda where: servers.Emulator(where, tls), folder) as server:
            for what, figures in networks_of(server, scratch, arguments.rounds):
                yield f"{transport}, {what}", figures


def networks_of(server, scratch, rounds):
    environment = peers.environment(server, scratch)
    size, count = SIZES["64 MiB"]
    server.fill("networks", size, count)
    commands = peers.contenders(server, scratch, "networks", size, count)
    measure(commands["boto3"], environment)
    # One connection after the other has no chance here, and takes minutes.
    kept = [OURS, "boto3, s3transfer", "curl", "AWS CRT", "rclone"]
    for what, (faults, total) in NETWORKS.items():
        for fault in faults:
            server.fault(*fault)
        figures = compare(server, {name: commands[name] for name in kept if name in commands},
                          environment, rounds, size * count / 1e9)
        server.fault("clear")
        if total:
            figures[OURS]["of the total"] = figures[OURS]["GB/s"] * 1e9 / total
        print(what)
        report("64 MiB", figures)
        yield what, figures
    server.drop("networks")


def first_byte(command, environment):
    """Seconds from the start of the command until the byte that it takes has come."""
    begun = time.time_ns()
    done = subprocess.run([*map(str, command)], env=environment, check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return (int(done.stdout) - begun) / 1e9


def start(folder, scratch, arguments):
    with serving(servers.fastest, folder) as server:
        yield "start", start_of(server, scratch, 2 * arguments.rounds + 1)


def start_of(server, scratch, rounds):
    environment = peers.environment(server, scratch)
    server.fill("gigabyte", 1 << 30, 1)
    server.fill_sparse("terabyte", 10_000_000, 100_000)
    first = {"gigabyte": "gigabyte/00000", "terabyte": "terabyte/000/000000"}
    commands = {}
    for prefix, key in first.items():
        take = 'head -c 1 "$1" >/dev/null; date +%s%N'
        fifo = ["sh", "-c", take, "sh", scratch / "data/train_0"]
        commands[f"spotter, {prefix}"] = peers.spotter(scratch, prefix, command=fifo)
        commands[f"ranged GET, {prefix}"] = [
            "sh", "-c", 'curl -s -r 0-1048575 "$0" | head -c 1 >/dev/null; date +%s%N',
            f"{server.url}/bucket/{key}"]
    files = ["sh", "-c", 'head -c 1 "$0"/* >/dev/null; date +%s%N', scratch / "data/train"]
    commands["file mode, gigabyte"] = [
        peers.BIN / "spotter", "pipe", "--channel", "train=s3://bucket/gigabyte/,mode=file",
        "--directory", scratch / "data", "--", *files]
    taken = {name: [] for name in commands}
    for turn in range(rounds + 1):  # the first is the server's: it has seen none of it yet
        for name, command in commands.items():
            taken[name].append(first_byte(command, environment))
            if name.startswith("file mode"):
                subprocess.run(["rm", "-rf", scratch / "data/train"], check=True)
    figures = {name: statistics.median(times[1:]) for name, times in taken.items()}
    for name, seconds in figures.items():
        print(f"{'start':>12}  {name:24} {seconds * 1000:8.1f} ms", flush=True)
    return figures


def misses_of(what, figures):
    ours = figures[OURS]
    target = TLS_TARGET if what.startswith("tls") else TARGET
    peers_only = {name: each["GB/s"] for name, each in figures.items()
                  if not name.startswith(OURS) and name != "bare"}
    best = max(peers_only, key=peers_only.get)
    if "of the total" in ours:
        if ours["of the total"] < target["total"]:
            yield f"{what}: {ours['of the total']:.2f} of the total; target {target['total']}"
    elif ours["GB/s"] < target["peers"] * peers_only[best]:
        yield f"{what}: {ours['GB/s'] / peers_only[best]:.2f} x {best}; target {target['peers']}"
    if "bare" in figures and ours["GB/s"] < target["bare"] * figures["bare"]["GB/s"]:
        yield (f"{what}: {ours['GB/s'] / figures['bare']['GB/s']:.2f} of what the server gives; "
               f"target {target['bare']}")
    if "bare" in figures and ours["CPU s/GB"] > target["cpu"]:
        yield (f"{what}: {ours['CPU s/GB']:.2f} CPU s/GB with its reader; "
               f"target {target['cpu']}")
    if "boto3" in target and "boto3" in figures:
        of_boto3 = ours["CPU s/GB"] / figures["boto3"]["CPU s/GB"]
        if of_boto3 > target["boto3"]:
            yield f"{what}: {of_boto3:.2f} of boto3's CPU; target {target['boto3']}"
    if ours["MiB"] > target["mebibytes"]:
        yield f"{what}: {ours['MiB']:.0f} MiB; target {target['mebibytes']}"


def misses_of_start(figures):
    for prefix in ("gigabyte", "terabyte"):
        ratio = figures[f"spotter, {prefix}"] / figures[f"ranged GET, {prefix}"]
        print(f"start, {prefix}: {ratio:.2f} x a ranged GET")
        if ratio > TARGET["start"]:
            yield f"start, {prefix}: {ratio:.2f} x a ranged GET; target {TARGET['start']}"
    saved = 1 - figures["spotter, gigabyte"] / figures["file mode, gigabyte"]
    print(f"start, gigabyte: {saved:.0%} less than File mode (AWS claims 87 % for 78 GB)")


def server(folder, scratch, arguments):
    """What each server gives to many connections at once: it must be more than anybody takes."""
    for kind in [servers.Emulator] + [servers.Nginx] * bool(shutil.which("nginx")):
        with serving(kind, folder) as each:
            environment = peers.environment(each, scratch)
            for what in arguments.sizes:
                size, count = SIZES[what]
                prefix = f"{kind.__name__}-{size}"
                each.fill(prefix, size, count)
                urls = peers.object_urls(each, prefix, count)
                command = {kind.__name__: peers.bare(scratch, urls, size)}
                measure(*command.values(), environment)
                taken = compare(each, command, environment, arguments.rounds, size * count / 1e9)
                each.drop(prefix)
                report(what, taken, kind.__name__)
    yield from ()


def conclude(figures, missed, file):
    """Says which targets are missed, keeps the figures in the file, if any; the exit status."""
    if file:
        file.write_text(json.dumps(figures, indent=1) + "\n")
    print("\n".join(missed) if missed else "every target is met")
    return 1 if missed else 0


PARTS = {"server": server, "throughput": throughput, "networks": networks, "start": start}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", nargs="*", default=list(SIZES), choices=list(SIZES))
    parser.add_argument("--only", nargs="*", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--transports", nargs="*", default=TRANSPORTS, choices=TRANSPORTS)
    parser.add_argument("--beside", nargs="*", metavar="PEER", help="only these, and boto3")
    parser.add_argument("--gigabytes", type=int, default=1, help="of each size; 4 needs 5 GiB")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the folder and the server go, too
    figures, missed = {}, []
    with tempfile.TemporaryDirectory(prefix="spotter-bench-", dir="/dev/shm") as folder:
        scratch = pathlib.Path(folder) / "scratch"
        scratch.mkdir()
        for part, run in PARTS.items():
            if part not in arguments.only:
                continue
            for what, taken in run(folder, scratch, arguments):
                figures[what] = taken
                missed += misses_of_start(taken) if what == "start" else misses_of(what, taken)
    return conclude(figures, missed, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
