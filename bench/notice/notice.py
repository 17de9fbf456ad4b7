#!/usr/bin/python3
"""From a notice in the metadata service to the signal at the trainer and the durable checkpoint.

Rounds of one instance: interrupt it (120 s), let it release its volume, withdraw the notice, let it
train again. The agent polls once a second, so the signal comes after a part of a second that chance
decides, and then at once: the target is the poll interval + 20 ms at the most.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import job as jobs  # noqa: E402
from emulator import Emulator, wait  # noqa: E402

POLL = 1.0
ALLOWED = 0.020

TRAINER = """#!/usr/bin/python3
import os, signal, sys, time
asked = []
signal.signal(signal.SIGTERM, lambda *_: asked.append(time.clock_gettime(time.CLOCK_BOOTTIME)))
while not asked:
    signal.pause()
path = os.environ["SPOTTER_CHECKPOINTS"] + "/state"
with open(path + ".new", "wb") as file:
    file.write(os.urandom(3 << 20))
    file.flush()
    os.fsync(file.fileno())
os.rename(path + ".new", path)
folder = os.open(os.path.dirname(path), os.O_RDONLY)
os.fsync(folder)
durable = time.clock_gettime(time.CLOCK_BOOTTIME)
with open(os.environ["STAMPS"], "a") as file:
    file.write(f"{asked[0]} {durable}\\n")
sys.exit(75)
"""


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def post(world, what, **body):
    request = urllib.request.Request(f"{world.ec2.endpoint}/_spotter/{what}",
                                     json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10):
        pass


def rounds(world, instance, stamps, count):
    results = []
    for _ in range(count):
        wait("training", lambda: world.status(instance).get("stage") == "training", 60)
        time.sleep(1.5 + random.random())  # the trainer is up, and the phase of the poll is chance
        before = len(stamps.read_text().splitlines())
        set_at = now()
        post(world, "interrupt", instance=instance, in_ms=120_000)
        wait("the stamp", lambda: len(stamps.read_text().splitlines()) > before, 30)
        signalled, durable = map(float, stamps.read_text().splitlines()[-1].split())
        wait("released", lambda: world.status(instance).get("released"), 60)
        released = now()
        results.append((signalled - set_at, durable - set_at, released - set_at))
        post(world, "withdraw", instance=instance)
        wait("work again", lambda: not world.status(instance).get("released"), 30)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    world = Emulator(arguments.bin, name="bench", zones=("us-west-2a",))
    try:
        place = world.workplace
        stamps = place / "stamps"
        stamps.write_text("")
        stamps.chmod(0o666)
        revision = jobs.repository(place / "repository", {"train.py": TRAINER})
        document = jobs.document("bench", place / "repository", revision, "exec ./train.py",
                                 trainer={"env": {"STAMPS": str(stamps)}},
                                 ebs={"consistency_bound": "1s"},
                                 on_failure={"attempts_without_progress": 1000})
        volume_tags = jobs.volume_tags(jobs.TAG, "bench")
        world.ec2.create_volume("us-west-2a", volume_tags)
        user_data = jobs.user_data(world.bin, jobs.yaml(document))
        template = world.ec2.create_template("bench", user_data)
        world.ec2.request_spot_fleet(template, ["us-west-2a"])
        instance = wait("an instance", lambda: next(
            (one.text("instanceId") for one in world.ec2.instances()), None), 30)
        results = rounds(world, instance, stamps, arguments.rounds)
    finally:
        remains = world.close()
    signals, durables, releases = zip(*results)
    worst = max(signals)
    facts = {"rounds": len(results), "poll_s": POLL,
             "signal_s": {"median": statistics.median(signals), "max": worst},
             "durable_s": {"median": statistics.median(durables), "max": max(durables)},
             "released_s": {"median": statistics.median(releases), "max": max(releases)},
             "signal_within_poll_plus_20ms": sum(one <= POLL + ALLOWED for one in signals)}
    print(json.dumps(facts, indent=2))
    if arguments.json:
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    sys.exit(bool(remains) or worst > POLL + ALLOWED)


if __name__ == "__main__":
    main()
