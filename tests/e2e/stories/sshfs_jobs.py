"""Several jobs of one machine on one mount over sshfs: the first mounts, the last unmounts, and
between them the server, or the mount itself, may die."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import disk_full
import emulator
import fake_trainer
import harness
import run
import shares
import sshd
from emulator import wait

PYTHON = emulator.ROOT / "trainer/library/python"
SAVER = """
import spotter
run = spotter.open()
old = run.restore()
for step in range(old.step + 1 if old else 1, 21):
    run.save(step, weights=bytes(100_000))
    run.flush()
run.finished()
"""


@unittest.skipIf(sshd.why_not(), sshd.why_not())
class SshfsJobs(run.RunCase):
    steps = 60

    def setUp(self):
        # What is mounted here is nobody else's: other stories would hold a copy of it.
        sshd.own_mounts()
        super().setUp()
        self.server = sshd.Sshd(self.place / "server")
        self.addCleanup(self.server.close)
        self.environment["SPOTTER_MOUNTS"] = str(self.place / "mounts")
        self.mount = self.place / "mnt"
        self.began = []

    def _end(self):
        for process in self.began:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        super()._end()

    def job(self, name, command=f"/usr/bin/python3 {run.TRAINER}", **environment):
        """A job of this name on the share, begun; its words are in a file of its own."""
        (self.place / name).mkdir(exist_ok=True)
        document = self.place / name / "job.yaml"
        document.write_text(json.dumps({
            "job": name, "trainer": {"command": command},
            "storage": self.server.storage(self.storage, self.mount),
            "on_failure": {"attempts_without_progress": 100, "then": "hold"}}))
        self.output = self.place / name / "output"
        journal = self.place / name / "journal"
        journal.mkdir(exist_ok=True)
        with open(self.output, "ab") as output:
            process = subprocess.Popen(
                [f"{harness.BINARIES}/spotter", "run", "--job", document],
                env={**self.environment, "SPOTTER_RUN": str(self.place / name / "run"),
                     "JOURNAL": str(journal), **environment},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)
        self.began.append(process)
        return process

    def steps_of(self, name):
        return [int(line.split()[1]) for path in sorted((self.place / name / "journal").iterdir())
                for line in path.read_text().splitlines()]

    def wait_steps(self, *names, more=4):
        before = {name: len(self.steps_of(name)) for name in names}
        for name in names:
            wait(f"steps of {name}", lambda name=name: len(self.steps_of(name))
                 >= before[name] + more)

    def is_mounted(self):
        return str(self.mount) in emulator.mounts(self.place)

    def ended(self, name, process, kills=0):
        """It ended well, and nothing that was durable was done again."""
        self.output = self.place / name / "output"
        self.assertEqual(self.end(process), 0, self.output.read_text())
        done = self.steps_of(name)
        self.assertEqual(done, sorted(set(done)), "a durable step was lost and done again")
        self.assertLessEqual(len(set(range(1, self.steps + 1)) - set(done)), kills)
        result = self.storage / name / "result" / "weights.bin"
        self.assertEqual(result.read_text(), fake_trainer.result_of(self.steps))

    def test_the_first_mounts_and_the_last_unmounts(self):
        one = self.job("one")
        self.wait_steps("one")
        two = self.job("two", STEPS="1000000")
        self.wait_steps("two")
        self.ended("one", one)
        self.assertTrue(self.is_mounted(), "the other one still works there")
        self.wait_steps("two")
        two.send_signal(signal.SIGTERM)
        self.output = self.place / "two" / "output"
        self.assertEqual(self.end(two), 75, self.output.read_text())
        self.assertFalse(self.is_mounted())
        done = self.steps_of("two")
        self.assertEqual(done, list(range(1, len(done) + 1)), "each step once")

    def test_what_is_mounted_already_is_used_and_stays(self):
        # As AWS Batch, or an image, gives it: what it takes to mount it is not there.
        share = self.server.storage(self.storage, self.mount)["sshfs"]
        self.mount.mkdir()
        self.addCleanup(subprocess.run, ["umount", "-l", self.mount], check=False,
                        capture_output=True)
        subprocess.run(["sshfs", "-p", str(share["port"]), "-o", f"IdentityFile={share['key']},"
                        f"UserKnownHostsFile={share['known_hosts']},{share['options']}",
                        share["source"], self.mount], check=True, timeout=60)
        (self.server.place / "user").rename(self.server.place / "lost")
        self.ended("one", self.job("one", STEPS=str(self.steps)))
        self.assertTrue(self.is_mounted(), "it was not ours to unmount")
        subprocess.run(["umount", self.mount], check=True, timeout=60)

    def test_a_server_that_dies_under_two_jobs(self):
        jobs = {name: self.job(name) for name in ("one", "two")}
        for _ in range(2):
            self.wait_steps(*jobs)
            self.server.kill()
            self.server.start()
        for name, process in jobs.items():
            self.ended(name, process, kills=4)
        self.assertFalse(self.is_mounted())

    def test_a_mount_that_dies_is_made_again_for_both(self):
        jobs = {name: self.job(name, STEPS="1000000") for name in ("one", "two")}
        self.wait_steps(*jobs)
        for pid, words in emulator.processes(self.place):
            if words.startswith("sshfs "):
                os.kill(pid, signal.SIGKILL)
        self.wait_steps(*jobs)
        jobs["one"].send_signal(signal.SIGTERM)
        self.output = self.place / "one" / "output"
        self.assertEqual(self.end(jobs["one"]), 75)
        self.wait_steps("two")
        jobs["two"].send_signal(signal.SIGTERM)
        self.output = self.place / "two" / "output"
        self.assertEqual(self.end(jobs["two"]), 75)
        self.assertFalse(self.is_mounted())
        for name in jobs:
            done = self.steps_of(name)
            self.assertEqual(done, sorted(set(done)), "a durable step was lost and done again")

    def test_libspotter_says_that_there_is_no_room(self):
        if pathlib.Path(harness.BINARIES).parent.name == "asan":
            self.skipTest("the sanitizers' runtime would have to be preloaded into python3")
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", self.storage], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.storage], check=False,
                        capture_output=True)
        saver = self.place / "saver.py"
        saver.write_text(SAVER)
        library = pathlib.Path(harness.BINARIES).parent / "lib" / "libspotter.so.1"
        ready = self.place / "ready"
        job = self.job("saver", f"while ! [ -e {ready} ]; do sleep 0.1; done; "
                       f"exec /usr/bin/python3 {saver}", PYTHONPATH=str(PYTHON),
                       SPOTTER_LIBRARY=str(library), PYTHONDONTWRITEBYTECODE="1")
        self.output = self.place / "saver" / "output"
        wait("the trainer to be started", lambda: self.said("training on"))
        disk_full.stuff(self.storage / "stuffing")
        ready.touch()
        wait("the trainer to say it", lambda: self.said("no room is left)"))
        (self.storage / "stuffing").unlink()
        self.assertEqual(self.end(job), 0, self.output.read_text())


if __name__ == "__main__":
    harness.main()
