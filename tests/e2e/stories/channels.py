"""Data channels of a job: streamed, also on the next instance; what cannot be had is a failure."""

import hashlib
import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import wait

# Reads two epochs; other bytes than expected are a failure. The first trainer then tells the agent
# and waits for its end, which comes without notice; the second one is done.
READER = """exec python3 - <<'END'
import hashlib, os, signal, socket, sys, time
for epoch in range(2):
    with open(os.environ["SM_CHANNEL_TRAIN"] + "_" + str(epoch), "rb") as fifo:
        if hashlib.sha256(fifo.read()).hexdigest() != os.environ["EXPECTED"]:
            sys.exit("these are not the bytes")
mark = os.environ["SPOTTER_STORAGE"] + "/result/first"
if not os.path.exists(mark):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    open(mark, "w").close()
    os.sync()
    agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    for _ in range(600):  # one alone may come before the agent knows that the trainer runs
        agent.sendto(b"X_SPOTTER_STEP=1", os.environ["NOTIFY_SOCKET"])
        time.sleep(1)
END
"""

# A program with fixed paths below $ML, as SageMaker's documentation has it. The second one finds
# what the first one was given, although S3 has it no more.
FILES = """exec python3 - <<'END'
import hashlib, json, os, signal, socket, sys, time
ml = os.environ["ML"]
with open(ml + "/input/config/hyperparameters.json") as file:
    if json.load(file) != {"epochs": "2"} or os.environ["SM_HP_EPOCHS"] != "2":
        sys.exit("these are not the hyperparameters")
whole = hashlib.sha256()
for each in sorted(os.listdir(ml + "/input/data/train")):
    with open(ml + "/input/data/train/" + each, "rb") as file:
        whole.update(file.read())
if whole.hexdigest() != os.environ["EXPECTED"]:
    sys.exit("these are not the bytes")
if os.path.exists(ml + "/checkpoints/last"):
    with open(os.environ["SM_MODEL_DIR"] + "/weights", "w") as file:
        file.write("trained")
    sys.exit()
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
open(ml + "/checkpoints/last", "w").close()
os.sync()
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
for _ in range(600):
    agent.sendto(b"X_SPOTTER_STEP=1", os.environ["NOTIFY_SOCKET"])
    time.sleep(1)
END
"""

# Reads all of it, and goes on reading, deaf to signals; on the next instance it is done.
VIEW = """exec python3 - <<'END'
import hashlib, os, signal, socket, sys, time
folder = os.environ["SM_CHANNEL_TRAIN"]
whole = hashlib.sha256()
for each in sorted(os.listdir(folder)):
    with open(folder + "/" + each, "rb") as file:
        whole.update(file.read())
if whole.hexdigest() != os.environ["EXPECTED"]:
    sys.exit("these are not the bytes")
mark = os.environ["SPOTTER_STORAGE"] + "/result/first"
if os.path.exists(mark):
    sys.exit()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(mark, "w").close()
os.sync()
agent = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
os.chdir(folder)
held = open("3", "rb", buffering=0)
while True:
    os.pread(held.fileno(), 100, 0)
    agent.sendto(b"X_SPOTTER_STEP=1", os.environ["NOTIFY_SOCKET"])
    time.sleep(0.2)
END
"""
# Of a thousand channels every other one is streamed.
MANY = """exec python3 - <<'END'
import os, sys
folder = os.path.dirname(os.environ["SM_CHANNEL_C0000"])
for i in range(1000):
    name = f"/c{i:04}_0" if i % 2 else f"/c{i:04}/object"
    if f"SM_CHANNEL_C{i:04}" not in os.environ or open(folder + name).read() != str(i):
        sys.exit(f"these are not the bytes of channel {i}")
open(os.environ["SPOTTER_STORAGE"] + "/result/all", "w").close()
END
"""
# Where udev runs everybody may use it.
FUSE_FOR_ALL = "mknod fuse c 10 229 && chmod 666 fuse && mount --bind fuse /dev/fuse"


class Channels(harness.Story):
    def put(self):
        """Some objects; the digest of all of them."""
        folder = self.world.directory / "s3/data/train"
        folder.mkdir(parents=True)
        whole = hashlib.sha256()
        for i in range(4):
            part = bytes([65 + i]) * (3_000_000 * i + 1)
            (folder / str(i)).write_bytes(part)
            whole.update(part)
        return whole.hexdigest()

    def user_data(self, job_text, restart, before):
        """EC2 takes 16 KiB of it: a longer job.yaml comes with the image."""
        if len(job_text) < 12_000:
            return super().user_data(job_text, restart, before)
        image = self.world.workplace / "job.yaml"
        image.write_text(job_text)
        return (f"#!/bin/sh\n{before}\ncp {image} job.yaml\n"
                f"exec {self.world.bin}/spotter agent --job job.yaml\n")

    def wait_cancelled(self):
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"))

    def reading_job(self, expected=""):
        return self.job(trainer={"command": READER}, env={"EXPECTED": expected},
                        channels={"train": "s3://data/train/"})

    def test_the_next_instance_reads_the_same(self):
        whole = self.put()
        self.volume()
        folder = self.world.workplace / "prometheus"
        folder.mkdir()
        job = self.reading_job(whole)
        job["prometheus"] = {"textfile": str(folder)}
        instance = self.launch(job, zones=self.world.zones)
        self.wait_training(instance, 1)
        size = sum(path.stat().st_size for path in
                   (self.world.directory / "s3/data/train").rglob("*") if path.is_file())
        both = f'spotter_pipe_bytes_total{{channel="train"}} {2 * size}\n'
        wait("the bytes of two epochs to be shown", lambda: any(
            both in path.read_text() for path in folder.glob("*.prom")))
        self.world.kill(instance)
        self.wait_cancelled()

    def test_files_are_there_for_the_next_instance_without_s3(self):
        whole = self.put()
        self.volume()
        link = str(self.world.directory / "opt/ml")
        job = self.job(trainer={"command": FILES}, env={"EXPECTED": whole, "ML": link},
                       channels={"train": {"source": "s3://data/train/", "mode": "file"}},
                       sagemaker={"link": link, "hyperparameters": {"epochs": 2}})
        instance = self.launch(job, zones=self.world.zones)
        self.wait_training(instance, 1)
        self.assertTrue(os.path.islink(link))
        self.wait_console(instance, "last is durable")
        shutil.rmtree(self.world.directory / "s3/data/train")
        self.world.kill(instance)
        self.wait_cancelled()
        self.assertFalse(os.path.islink(link), "it would lead nowhere, with the volume gone")

    def test_what_is_fetched_while_it_is_read_does_not_keep_the_volume(self):
        self.root_only("/dev/fuse is made usable for the trainer")
        if not pathlib.Path("/dev/fuse").exists():
            self.skipTest("no FUSE here")
        whole = self.put()
        volume = self.volume()
        job = self.job(trainer={"command": VIEW, "stop_grace": "2s"}, env={"EXPECTED": whole},
                       channels={"train": "s3://data/train/,mode=fast_file"})
        instance = self.launch(job, zones=self.world.zones, before=FUSE_FOR_ALL)
        self.wait_training(instance, 1)
        self.world.interrupt(instance, 20)
        self.wait_status(instance, "released", lambda status: status.get("released"))
        wait("the volume to be free", lambda: self.volume_state(volume) != "in-use")
        self.wait_cancelled()

    def test_a_thousand_of_them(self):
        long = "a/long/prefix/" * 9  # so that all of them are more than one argument may be
        for i in range(1000):
            folder = self.world.directory / f"s3/data/{long}{i}"
            folder.mkdir(parents=True)
            (folder / "object").write_text(str(i))
        self.volume()
        # No policy has room for all of them.
        job = self.job(trainer={"command": MANY, "reads": "s3://data/"}, channels={
            f"c{i:04}": f"s3://data/{long}{i}/,mode=" + ("pipe" if i % 2 else "file")
            for i in range(1000)})
        self.launch(job, zones=self.world.zones)
        self.wait_cancelled()

    def test_no_data_is_a_failure_that_is_shown(self):
        self.volume()
        instance = self.launch(self.reading_job())
        self.wait_console(instance, "channel train: s3://data/train/: there is no such bucket")


if __name__ == "__main__":
    harness.main()
