#!/usr/bin/python3
"""The emulator's metadata service: requests a second at 64 connections, and its memory after them.

wrk (a Debian package, installed if it is missing) asks for the instance's id with a token, as often
as it can. Targets: 20,000 a second, 20 MiB resident.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from emulator import Emulator  # noqa: E402

CONNECTIONS, RATE, MEMORY = 64, 20_000, 20
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


def measure(world, seconds):
    endpoint = world.control("instance", "add", "--zone", "us-west-2a").split()[1]
    url = endpoint if "://" in endpoint else f"http://{endpoint}"
    before = processor_seconds(world.process.pid)
    done = subprocess.run(
        ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-H", f"{TOKEN}: {token(url)}",
         f"{url}/latest/meta-data/instance-id"], capture_output=True, text=True, check=True,
        timeout=seconds + 60)
    spent = processor_seconds(world.process.pid) - before
    if "Non-2xx" in done.stdout or "Socket errors" in done.stdout:
        sys.exit(done.stdout)
    count = int(re.search(r"(\d+) requests in", done.stdout)[1])
    return {"requests_a_second": float(re.search(r"Requests/sec: +([\d.]+)", done.stdout)[1]),
            "microseconds_of_processor_a_request": spent / count * 1e6,
            "resident_mib": resident(world.process.pid)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    arguments = parser.parse_args()
    install()
    world = Emulator(arguments.bin, name="metadata", mode="user")
    try:
        found = measure(world, arguments.seconds)
    finally:
        remains = world.close()
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(found))
    print(f"{found['requests_a_second']:.0f} requests a second at {CONNECTIONS} connections "
          f"({found['microseconds_of_processor_a_request']:.0f} us of processor time each), "
          f"{found['resident_mib']:.1f} MiB resident; targets {RATE}, {MEMORY} MiB")
    sys.exit(bool(remains) or found["requests_a_second"] < RATE
             or found["resident_mib"] >= MEMORY)


if __name__ == "__main__":
    main()
