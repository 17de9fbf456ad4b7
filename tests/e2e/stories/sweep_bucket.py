"""A sweep with nothing but a bucket: the claims and each experiment's home are in it."""

import contextlib
import csv
import io
import json
import os
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import fake_trainer
import harness
import job as jobs
import sweep_fleet
from emulator import wait

PLACE = "s3://claims/all"


class Homes(sweep_fleet.Shared):
    hosts = 2

    def head(self, index):
        path = self.bucket / f"all/heads/{self.job_name}/{index}/head.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def kept(self, index, path):
        """What the bucket has of this file of the experiment's home."""
        home = self.bucket / f"all/homes/{self.job_name}/{index}"
        manifest = json.loads((home / self.head(index)["manifest"]).read_text())
        [its] = [each for each in manifest["files"] if each["path"] == path]
        return (home / f"data/{its['group']}/{its['sum']}-{its['bytes']}").read_text()

    def results(self, text):
        """As one reads them who may do what the printed policy allows, and no more."""
        self.world.allow_only(jobs.yaml(text) + "\n")
        job = self.world.workplace / "job.yaml"
        job.write_text(jobs.yaml(text) + "\n")
        done = subprocess.run(
            [f"{harness.BINARIES}/spotter", "sweep", "results", str(job), "--csv", "-"],
            env={**self.world.launcher(), "SPOTTER_MOUNT": str(self.world.workplace / "nothing")},
            capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def assert_home(self, index):
        self.assertEqual(self.head(index)["state"], "done")
        self.assertEqual(self.kept(index, "result/weights.bin"),
                         fake_trainer.result_of(self.steps))


class SweepBucket(Homes):
    def sweep(self, experiments, *words, **more):
        self.text = super().sweep(
            experiments, *words,
            storage={"s3": {"at": PLACE, "cache": "${SPOTTER_MOUNT}"}}, **more)
        return self.text

    def assert_finished(self, index):
        self.assert_home(index)
        self.assertEqual(self.claim(index)["state"], "done")
        outcome = self.published(index)
        self.assertEqual((outcome["state"], outcome["step"]), ("done", self.steps))
        self.assertEqual(outcome["parameters"], {"lr": index / 10})
        points = [json.loads(line) for line in self.kept(index, "metrics.jsonl").splitlines()]
        steps = [point["step"] for point in points]
        self.assertEqual(steps, sorted(set(steps)), "the curve of another is in it")
        self.assertIn(f"step {self.steps} of {self.steps}", self.kept(index, "log/trainer.log"))

    def machines(self, index):
        """Which trained it, one after the other."""
        return ["-".join(path.name.split("-")[1:-1])
                for path in sorted(self.journal.glob(f"*-{index}"))]

    def test_each_is_finished_once_and_an_interrupted_one_goes_on_elsewhere(self):
        self.lease = "60s"  # nobody is lost here, and nobody's claim is to end
        self.begin(4, env=self.held(20))
        first = self.first_begun()
        noticed = self.busy(first, 8)
        self.world.interrupt(noticed, 120)
        self.wait_console(noticed, "releasing the work: the instance is about to end")
        self.gate.touch()
        self.wait_end()
        for each in range(4):
            self.assert_finished(each)
            done = [step for run in self.trainer_runs(each) for step in run]
            self.assertEqual(done, list(range(1, self.steps + 1)), "each step once")
        self.assertEqual(len(self.machines(first)), 2)
        self.assertEqual(len(set(self.machines(first))), 2, "it went on where it was")
        self.assertEqual(self.claim(int(first))["token"], 2)
        self.assertEqual(self.ec2.volumes(), [])

    def test_a_machine_that_stands_still_keeps_no_experiment(self):
        """EC2 shows it as running; its claim is over, and that decides."""
        self.begin(2)
        index = self.first_begun()
        first = self.busy(index, 5)
        wait("a commit", lambda: self.head(int(index)).get("newest", 0) > 0)
        asleep = [pid for pid, _ in self.everybody(first)]
        for pid in asleep:
            with contextlib.suppress(ProcessLookupError):  # a verb that has ended
                os.kill(pid, signal.SIGSTOP)
        try:
            wait("another to take over", lambda: len(self.machines(index)) == 2)
        finally:
            for pid in asleep:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.wait_console(first, "the claim is lost")
        self.wait_end()
        for each in range(2):
            self.assert_finished(each)
        self.assertEqual(self.claim(int(index))["token"], 2)
        self.assertEqual(self.head(int(index))["attempt"], 2)

    def test_a_lost_machine_and_the_table_of_results(self):
        self.begin(3, env={"SCORES": "0.5 0.9 0.7"})
        index = self.first_begun()
        lost = self.busy(index, 5)
        wait("a commit", lambda: self.head(int(index)).get("newest", 0) > 0)
        self.world.kill(lost)
        self.busy(index, 3)
        self.wait_end()
        for each in range(3):
            self.assert_finished(each)
        rows = self.results(self.text)
        self.assertEqual(
            [(row["index"], row["state"], float(row["val_accuracy"])) for row in rows],
            [("1", "done", 0.9), ("2", "done", 0.7), ("0", "done", 0.5)])
        # Of a machine that ended when the head said done, nothing lies beside the claim.
        for each in range(2):
            (self.bucket / f"all/{self.job_name}/{each:05d}.result").unlink()
        for before, after in zip(rows, self.results(self.text), strict=True):
            for name in ("index", "state", "lr", "step", "val_accuracy", "attempts", "model"):
                self.assertEqual(after[name], before[name], "as the homes say")


class Array(Homes):
    """Of Batch, Slurm or Kubernetes: the index says which home."""

    def task(self, index, machine):
        place = self.world.workplace / machine
        place.mkdir()
        job = place / "job.yaml"
        self.text = {
            "job": self.job_name, "storage": {"s3": {"at": PLACE, "cache": str(place / "cache")}},
            "trainer": {"command": "true --lr={lr}"},
            "sweep": {"parameters": [{"lr": 0.1}, {"lr": 0.2}]}}
        job.write_text(jobs.yaml(self.text) + "\n")
        environment = {
            **self.world.launcher(), "AWS_ACCESS_KEY_ID": ec2.USER, "HOME": str(place),
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:9",
            "SPOTTER_RUN": str(place / "run"), "STEPS": str(self.steps), "PACE": "0.1",
            "FORMAT": "spotter", "JOURNAL": str(self.journal),
            "AWS_BATCH_JOB_ARRAY_INDEX": str(index), "AWS_BATCH_JOB_ARRAY_SIZE": "2"}
        with open(place / "output", "ab") as output:
            return subprocess.Popen(
                [f"{harness.BINARIES}/spotter", "run", "--job", str(job), "--",
                 "/usr/bin/python3", str(self.trainer)], env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)

    def states(self):
        return sorted((row["index"], row["state"]) for row in self.results(self.text))

    def end(self, process):
        try:
            return process.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise

    def test_a_task_of_an_array_goes_on_in_its_home_on_another_machine(self):
        first, neighbour = self.task(0, "one"), self.task(1, "two")
        wait("some steps", lambda: sum(map(len, self.trainer_runs(0))) >= 5)
        first.send_signal(signal.SIGTERM)
        self.assertEqual(self.end(first), 75)
        self.assertEqual(self.head(0)["state"], "released")
        self.assertIn(("0", "stopped"), self.states())
        self.assertEqual(self.end(self.task(0, "three")), 0)
        self.assertEqual(self.end(neighbour), 0)
        for index in range(2):
            self.assert_home(index)
            done = [step for run in self.trainer_runs(index) for step in run]
            self.assertEqual(done, list(range(1, self.steps + 1)), "each step once")
        self.assertEqual(len(self.trainer_runs(0)), 2)
        self.assertEqual(self.states(), [("0", "done"), ("1", "done")])
        rows = {row["index"]: row for row in self.results(self.text)}
        for index, lr in (("0", "0.1"), ("1", "0.2")):
            self.assertEqual((rows[index]["lr"], rows[index]["step"]), (lr, str(self.steps)))
        self.assertEqual(rows["0"]["attempts"], "2")


if __name__ == "__main__":
    harness.main()
