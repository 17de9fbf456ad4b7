#!/usr/bin/python3
"""From an instance's boot to its trainer's first step, by stage: Spotter beside AWS's script.

The same world of spotter-emulator (seed, delays of EC2) for both, in turn: an instance of a spot
fleet boots; the job's volume, with a file system and a checkpoint on it, lies in its zone or in
another one; or its home of 100 MB is in a bucket. The script does, with the real `aws`, what the
user data of AWS's example does, in its order: who am I, describe-volumes, in another zone
snapshot, wait, delete, create and wait, then attach, sleep 10, mount, git clone, train. Needs root
and awscli.

--cold: the volume is in another zone, has 40 GB of data and a checkpoint of 3 GB, which the trainer
reads from one end to the other before its first step; and a block of what a snapshot is made into
is as slow as EBS makes it (tests/emulator/cold_files.hpp). All sizes are times --scale; the figure
is that of the real sizes: the time that the checkpoint takes to be read, divided by it, and the
rest as it was. Needs FUSE, too.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import ec2  # noqa: E402
import fake_trainer  # noqa: E402
import job as jobs  # noqa: E402
from emulator import Emulator, Failed, wait  # noqa: E402

ZONES = ("us-west-2a", "us-west-2b")
TARGET = 0.5
TARGET_WITH_FENCE = 0.3
TARGET_OF_BUCKET = 0.1
BYTES_IN_BUCKET = 100_000_000
CHECKPOINT, DATA, GIBIBYTES = 3_000_000_000, 40_000_000_000, 50
TARGETS_COLD = {"spotter": 60, "spotter, rate": 30}  # seconds

TRAINER = """#!/usr/bin/python3
import os, time
with open(os.environ["STAMPS"] + "/first-step", "a") as file:
    file.write(f"{time.clock_gettime(time.CLOCK_BOOTTIME)}\\n")
time.sleep(3600)
"""

COLD_TRAINER = """#!/usr/bin/python3
import glob, os, time
[weights] = glob.glob(os.environ.get("CHECKPOINTS", "../checkpoints") + "/*/weights")
began = time.clock_gettime(time.CLOCK_BOOTTIME)
with open(weights, "rb") as file:
    while file.read(1 << 20):
        pass
now = time.clock_gettime(time.CLOCK_BOOTTIME)
with open(os.environ["STAMPS"] + "/read", "w") as file:
    file.write(str(now - began))
""" + TRAINER.partition("\n")[2]

# `at NAME`: the stage NAME begins.
AWS_SCRIPT = """#!/bin/bash
at() {{ echo "$1 $(cut -d' ' -f1 /proc/uptime)" >>{stamps}/stages; }}
export AWS_DEFAULT_REGION={region} AWS_PAGER=
at "looking around"
metadata=${{AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}}/latest
token=$(curl -sX PUT -H "X-aws-ec2-metadata-token-ttl-seconds: 300" $metadata/api/token)
about() {{ curl -s -H "X-aws-ec2-metadata-token: $token" $metadata/meta-data/$1; }}
instance=$(about instance-id)
zone=$(about placement/availability-zone)
volumes() {{ aws ec2 describe-volumes --filters "Name=tag:Name,Values={tag}" \\
  --query "Volumes[].$1" --output text; }}
volume=$(volumes VolumeId)
where=$(volumes AvailabilityZone)
tags() {{ echo "ResourceType=$1,Tags=[{{Key=Name,Value=$2}}]"; }}
if [ "$where" != "$zone" ]; then
  at "snapshot"
  snapshot=$(aws ec2 create-snapshot --volume-id $volume --description "$(date)" \\
    --tag-specifications "$(tags snapshot {tag}-snapshot)" --query SnapshotId --output text)
  aws ec2 wait snapshot-completed --snapshot-ids $snapshot
  at "volume of it"
  aws ec2 delete-volume --volume-id $volume
  volume=$(aws ec2 create-volume --availability-zone $zone --snapshot-id $snapshot \\
    --volume-type gp3 --tag-specifications "$(tags volume {tag})" --query VolumeId --output text)
  aws ec2 wait volume-available --volume-ids $volume
fi
at "attach, sleep 10"
aws ec2 attach-volume --volume-id $volume --instance-id $instance --device /dev/sdf
sleep 10
at "mount"
mkdir -p $SPOTTER_MOUNT
mount -o nouuid $SPOTTER_DEVICES/xvdf $SPOTTER_MOUNT || exit
chown -R {user}: $SPOTTER_MOUNT
at "code"
as_user() {{ setpriv --reuid {user} --regid {group} --clear-groups "$@"; }}
mkdir code && chown {user}: code
HOME=$PWD as_user git clone -q {repository} code
cd code
at "trainer's start"
CHECKPOINTS=$SPOTTER_MOUNT/checkpoints STAMPS={stamps} as_user ./train.py
request=$(aws ec2 describe-spot-fleet-requests --query \\
  "SpotFleetRequestConfigs[0].SpotFleetRequestId" --output text)
aws ec2 cancel-spot-fleet-requests --spot-fleet-request-ids $request --terminate-instances
"""
# What the agent says when a stage of the table begins; of the rest it is silent here.
SAID = (("snapshot", r"taking a snapshot"), ("volume of it", r"making a copy"),
        ("attach", r"attaching"), ("mount", r"finding the device"),
        ("proof, commit", r"verified; (deleting|writing)"), ("code", r"fetching the code"),
        ("trainer's start", r"starting the trainer"))
LINE = re.compile(r"^(\d{4}-\S+T\S+)\s+\w+\s+(.*)$", re.M)


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Run:
    def __init__(self, arguments, seed, moves):
        self.scale = arguments.scale if arguments.cold else 0
        self.world = Emulator(arguments.bin, name="first", zones=ZONES, seed=seed,
                              options=("--cold-volumes",) if arguments.cold else ())
        if self.world.mode != "root":
            raise Failed("needs root: a volume is a disk")
        self.moves = moves
        self.stamps = self.world.workplace / "stamps"
        self.stamps.mkdir()
        self.stamps.chmod(0o777)
        self.repository = self.world.workplace / "repository"
        self.revision = jobs.repository(
            self.repository, {"train.py": COLD_TRAINER if self.scale else TRAINER})
        tags = {**jobs.volume_tags(jobs.TAG, "bench"), "spotter:format": ""}
        size = max(1, round(GIBIBYTES * self.scale))
        volume = self.world.ec2.create_volume(ZONES[1 if moves else 0], tags, size)
        wait("the volume", lambda: self.world.ec2.volumes()[0].text("status") == "available", 30)
        backing = next((self.world.directory / "volumes").glob(f"{volume}*"))
        subprocess.run(["mkfs.xfs", "-q", backing], check=True)
        try:
            if self.scale:
                self.fill(backing)
        except BaseException:
            self.world.close()
            raise

    def fill(self, backing):
        """The data are blocks that the file system has given away, and nobody has written."""
        at = self.world.workplace / "filling"
        at.mkdir()
        subprocess.run(["mount", "-o", "loop", backing, at], check=True)
        try:
            with open(at / "data", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, round(DATA * self.scale))
            folder = at / "checkpoints/step-000000000001"
            folder.mkdir(parents=True)
            size = round(CHECKPOINT * self.scale)
            weights = (random.Random(1).randbytes(1 << 24) * (size // (1 << 24) + 1))[:size]
            (folder / "weights").write_bytes(weights)
            part = {"bytes": len(weights), "name": "weights",
                    "xxh3_128": fake_trainer.xxh3_128(weights)}
            (folder / "manifest.json").write_bytes(
                sealed({"format": 1, "meta": {}, "parts": [part], "step": 1}))
        finally:
            subprocess.run(["umount", at], check=True)

    def seconds_read(self, console):
        """What it took to read the checkpoint from the copy."""
        by_us = re.search(r"the newest checkpoint of the copy, .*, is read: ([0-9.]+) s", console)
        by_trainer = float((self.stamps / "read").read_text())
        return by_trainer + (float(by_us[1]) if by_us else 0)

    def of_real_size(self, seconds, stages, console=""):
        """With the time that the checkpoint took as a stage of its own."""
        if not self.scale:
            return seconds, stages
        read = self.seconds_read(console)
        whole = seconds - read + read / self.scale
        return whole, {**stages, "reads the checkpoint, at scale": read, "all, at scale": seconds}

    def boot(self, user_data):
        """Until the instance runs; its id and when that was."""
        template = self.world.ec2.create_template("bench", user_data)
        self.world.ec2.request_spot_fleet(template, [ZONES[0]], tags={"spotter:job": "bench"})
        return wait("an instance", lambda: next(
            (one.text("instanceId") for one in self.world.ec2.instances()
             if one.text("instanceState/name") == "running"), None), 60, every=0.02), now()

    def first_step(self):
        file = self.stamps / "first-step"
        wait("the first step", lambda: file.exists() and file.read_text(), 400, every=0.02)
        return float(file.read_text().split()[0])

    def by_aws(self):
        self.world.control("fault", "device-by-name", "on=true")  # as its p3 is: on Xen
        _, began = self.boot("#!/bin/sh\nexec bash ./script.sh\n".replace(
            "exec", f"cp {self.write_script()} script.sh; exec"))
        step = self.first_step()
        stages = [line.rsplit(" ", 1) for line in (self.stamps / "stages").read_text().splitlines()]
        times = [float(at) for _, at in stages] + [step]
        return self.of_real_size(step - began,
                                 durations([name for name, _ in stages], times, began))

    def write_script(self):
        script = self.world.workplace / "script.sh"
        group = subprocess.run(["id", "-g", jobs.trainer_user()], capture_output=True, text=True,
                               check=True).stdout.strip()
        script.write_text(AWS_SCRIPT.format(
            stamps=self.stamps, region=ec2.REGION, tag=jobs.TAG, user=jobs.trainer_user(),
            group=group, repository=self.repository))
        return script

    def by_fence(self):
        (self.world.directory / "s3/fenced").mkdir(parents=True)
        return self.by_spotter(fence="s3://fenced/bench")

    def by_bucket(self):
        """A home with one checkpoint, as a machine that released it left it."""
        place = self.world.directory / "s3/homes"
        home, heads = place / "homes/bench", place / "heads/bench"
        for folder in (home / "data/1", home / "manifests", heads):
            folder.mkdir(parents=True)
        checkpoint = "checkpoints/step-000000000001"
        weights = random.Random(1).randbytes(BYTES_IN_BUCKET)
        part = {"bytes": len(weights), "name": "weights",
                "xxh3_128": fake_trainer.xxh3_128(weights)}
        files = {f"{checkpoint}/weights": weights, f"{checkpoint}/manifest.json": sealed(
            {"format": 1, "meta": {}, "parts": [part], "step": 1})}
        entries = []
        for path, content in files.items():
            total = fake_trainer.xxh3_128(content)
            (home / f"data/1/{total}-{len(content)}").write_bytes(content)
            entries.append({"path": path, "bytes": len(content), "mtime_ns": 0, "sum": total,
                            "group": "1"})
        manifest = sealed({"format": 1, "job": "bench", "files": entries, "step": 1})
        name = f"manifests/1-{fake_trainer.xxh3_128(manifest)}.json"
        (home / name).write_bytes(manifest)
        (heads / "head.json").write_text(json.dumps({
            "version": 1, "epoch": 2, "state": "released", "holder": "i-0123", "job": "bench",
            "commits": 2, "manifest": name, "newest": 1, "bytes": len(weights)}))
        return self.by_spotter(storage={"s3": {"at": "s3://homes", "cache": "${SPOTTER_MOUNT}"}})

    def by_spotter(self, **more):
        trainer = {"env": {"STAMPS": str(self.stamps)}}
        if "storage" in more:  # all that the instances may, as of the other rows
            trainer["role"] = "instance"
        document = jobs.document("bench", self.repository, self.revision, "exec ./train.py",
                                 trainer=trainer, **more)
        instance, began = self.boot(jobs.user_data(self.world.bin, jobs.yaml(document)))
        step = self.first_step()
        names, times = ["looking around"], [began]
        to_boot_time = now() - time.time()
        for stamp, words in LINE.findall(self.world.console(instance)):
            stage = next((name for name, said in SAID if re.search(said, words)), names[-1])
            if stage != names[-1]:
                names.append(stage)
                times.append(datetime.datetime.fromisoformat(stamp).timestamp() + to_boot_time)
        return self.of_real_size(step - began, durations(names, times + [step], began),
                                 self.world.console(instance))

    def by_rate(self):
        return self.by_spotter(launch={
            "image": "ami-0123456789abcdef0", "instance_types": ["p3.2xlarge"],
            "profile": "spotter-role", "zones": list(ZONES),
            "volume": {"size": round(GIBIBYTES * self.scale), "initialization_rate": 300}})


def sealed(fields):
    """As trainer/library/manifest.hpp: the last member is the sum of all bytes before it."""
    body = json.dumps(fields, separators=(",", ":"), sort_keys=True)[:-1].encode()
    return body + b',"xxh3_128":"' + fake_trainer.xxh3_128(body).encode() + b'"}\n'


def durations(names, times, began):
    """Seconds of each stage; what comes again is added up."""
    result = {}
    times[0] = began
    for name, begin, end in zip(names, times, times[1:]):
        result[name] = result.get(name, 0) + end - begin
    return result


def measure(arguments, seed, moves, who):
    run = Run(arguments, seed, moves)
    try:
        if who in ("fence", "bucket"):
            return run.by_fence() if who == "fence" else run.by_bucket()
        if who == "rate":
            return run.by_rate()
        return run.by_aws() if who == "aws" else run.by_spotter()
    except BaseException:
        print(run.world.logs(), file=sys.stderr)
        raise
    finally:
        remains = run.world.close()
        if remains:
            print(remains, file=sys.stderr)


def cost_of_aws():
    """Seconds that one `aws` takes before it asks for anything, on this machine now."""
    begin = time.monotonic()
    subprocess.run(["aws", "--version"], capture_output=True, check=True)
    return time.monotonic() - begin


def median_of(runs):
    total = statistics.median(one for one, _ in runs)
    names = {name: None for _, stages in runs for name in stages}
    return total, {name: statistics.median(stages.get(name, 0) for _, stages in runs)
                   for name in names}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", default=str(ROOT / "build/release/bin"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("same", "other"))
    parser.add_argument("--cold", action="store_true")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    if shutil.which("aws") is None:
        sys.exit("first-step: needs awscli")
    cases = {"same zone": (False, {"aws": "aws", "spotter": ""}),
             "other zone": (True, {"aws": "aws", "spotter": "", "spotter, fence": "fence",
                                    "spotter, bucket": "bucket"})}
    if arguments.cold:
        cases = {"cold, 43 GB": (True, {"aws": "aws", "spotter": "", "spotter, rate": "rate"})}
    facts, missed = {}, False
    for case, (moves, whos) in cases.items():
        if arguments.only and not case.startswith(arguments.only):
            continue
        runs = {name: [] for name in whos}
        starts = [cost_of_aws()]
        for seed in range(1, arguments.rounds + 1):
            for name, who in whos.items():
                runs[name].append(measure(arguments, seed, moves, who))
            starts.append(cost_of_aws())
        facts[case] = {"aws_start_s": statistics.median(starts)}
        baseline = median_of(runs["aws"])[0]
        for name, all_runs in runs.items():
            total, stages = median_of(all_runs)
            facts[case][name] = {"seconds": total, "ratio": total / baseline, "stages": stages}
            parts = ", ".join(f"{part} {seconds:.1f}" for part, seconds in stages.items())
            print(f"{case:10}  {name:17} {total:6.1f} s  {total / baseline:4.2f} x   {parts}",
                  flush=True)
        if arguments.cold:
            missed = any(facts[case][name]["seconds"] > most
                         for name, most in TARGETS_COLD.items())
            continue
        missed |= facts[case]["spotter"]["ratio"] > TARGET
        if "spotter, fence" in whos:
            missed |= facts[case]["spotter, fence"]["ratio"] > TARGET_WITH_FENCE
        if "spotter, bucket" in whos:
            missed |= facts[case]["spotter, bucket"]["ratio"] > TARGET_OF_BUCKET
        print(f"{'':10}  one `aws` takes {facts[case]['aws_start_s']:.2f} s here before it asks",
              flush=True)
    targets = (", ".join(f"{name} {most} s" for name, most in TARGETS_COLD.items())
               if arguments.cold else
               f"{TARGET} x, with a fence {TARGET_WITH_FENCE} x, of a home in a bucket "
               f"{TARGET_OF_BUCKET} x")
    print(f"target: at most {targets}" + ("; missed" if missed else ""))
    if arguments.json:
        arguments.json.write_text(json.dumps(facts, indent=2) + "\n")
    sys.exit(missed)


if __name__ == "__main__":
    main()
