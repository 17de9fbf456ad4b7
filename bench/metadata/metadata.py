#!/usr/bin/python3
"""The emulator's metadata service: requests a second at 64 connections, and its memory after them;
how long the emulator takes to start, and its memory then.

wrk (a Debian package, installed if it is missing) asks for the instance's id with a token, as often
as it can. Targets: 20,000 a second, 20 MiB resident, 100 ms. Another's metadata service may be
asked in turns with ours: whatever else this machine does slows both. It gets --port, and must
answer as many at most.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from emulator import Emulator  # noqa: E402

CONNECTIONS, RATE, MEMORY, START = 64, 20_000, 20, 100
ROUNDS = 5
TOKEN = "X-aws-ec2-metadata-token"


def install():
    if not shutil.which("wrk"):
        subprocess.run(["apt-get", "install", "-qq", "-y", "--no-install-recommends", "wrk"],
                       check=True, stdout=subprocess.DEVNULL)


def token(endpoint):
    request = urllib.request.Request(f"{endpoint}/latest/api/token", method="PUT",
                                     headers={f"{TOKEN}-ttl-seconds": "600"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid):
    text = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Rss: +(\d+) kB", text, re.M)[1]) / 1024


def starts(program):
    """Milliseconds from the command to its READY line, and MiB resident then."""
    with tempfile.TemporaryDirectory() as folder:
        words = [program, "serve", "--directory", folder, "--mode", "user", "--api", "127.0.0.1:0",
                 "--metadata", "127.0.0.1:0"]
        began = time.monotonic()
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            line = process.stdout.readline()
            took = 1000 * (time.monotonic() - began)
            memory = resident(process.pid)
            process.terminate()
    if not line.startswith(b"READY"):
        sys.exit(f"{program} does not serve")
    return took, memory


class Other:
    """Somebody else's metadata service, on a free port."""

    def __init__(self, program):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([*shlex.split(program), "--port", str(port)],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                token(self.url)
                return
            except OSError as why:
                if self.process.poll() is not None:
                    sys.exit(f"{program} does not serve: {why}")
                time.sleep(0.05)

    def close(self):
        self.process.terminate()
        self.process.wait()


def measure(url, pid, seconds):
    before = processor_seconds(pid)
    done = subprocess.run(
        ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "60s", "-H",
         f"{TOKEN}: {token(url)}", f"{url}/latest/meta-data/instance-id"], capture_output=True,
        text=True, check=True, timeout=seconds + 60)
    spent = processor_seconds(pid) - before
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        sys.exit(done.stdout)
    count = int(re.search(r"(\d+) requests in", done.stdout)[1])
    return {"requests_a_second": float(re.search(r"Requests/sec: +([\d.]+)", done.stdout)[1]),
            "microseconds_of_processor_a_request": spent / count * 1e6,
            "resident_mib": resident(pid)}


def in_turns(services, seconds):
    """For each of (url, pid): the round with the median rate."""
    rounds = [[measure(*each, seconds) for each in services] for _ in range(ROUNDS)]
    return [sorted(its, key=lambda one: one["requests_a_second"])[ROUNDS // 2]
            for its in zip(*rounds, strict=True)]


def show(name, found):
    print(f"{name}: {found['requests_a_second']:.0f} requests a second at {CONNECTIONS} connections"
          f" ({found['microseconds_of_processor_a_request']:.0f} us of processor time each), "
          f"{found['resident_mib']:.1f} MiB resident")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=int, default=4, help="for each of five rounds")
    parser.add_argument("--beside", help="a metadata service's command, which takes --port")
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    arguments = parser.parse_args()
    install()
    other = None
    world = Emulator(arguments.bin, name="metadata", mode="user")
    try:
        other = Other(arguments.beside) if arguments.beside else None
        url = world.control("instance", "add").split()[1]
        found, *others = in_turns([(url, world.process.pid)] + [(it.url, it.process.pid)
                                                                for it in [other] if it],
                                  arguments.seconds)
    finally:
        remains = world.close()
        if other:
            other.close()
    started = [starts(f"{arguments.bin}/spotter-emulator") for _ in range(ROUNDS)]
    found["start_ms"], found["idle_mib"] = map(statistics.median, zip(*started, strict=True))
    most = others[0]["requests_a_second"] if others else RATE
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps({**found, "beside": others}))
    show("spotter-emulator", found)
    if others:
        show(arguments.beside, others[0])
    print(f"it serves after {found['start_ms']:.0f} ms, with {found['idle_mib']:.1f} MiB; "
          f"targets: {most:.0f} requests a second, {START} ms, {MEMORY} MiB")
    sys.exit(bool(remains) or found["requests_a_second"] < most or found["start_ms"] >= START
             or max(found["resident_mib"], found["idle_mib"]) >= MEMORY)


if __name__ == "__main__":
    main()
