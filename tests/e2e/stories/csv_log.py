"""A plain script that only writes a CSV log: its curve is whole, however it is interrupted, and a
sweep of such scripts is ranked by it."""

import csv
import io
import json
import pathlib
import pickle
import signal
import subprocess
import sys
import zipfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import job as jobs
import run
from emulator import processes, sweep, wait
from volumes import copy_out

TRAINER = harness.TRAINERS / "logs_csv.py"


def assert_whole(test, lines, epochs):
    curve = [json.loads(line) for line in lines.splitlines()]
    test.assertEqual([point["step"] for point in curve], list(range(epochs)))
    for point in curve:
        good = 1 - abs(point["epoch"] - epochs // 2) / epochs
        test.assertAlmostEqual(point["val_accuracy"], good)
        test.assertAlmostEqual(point["loss"], 1 / (point["epoch"] + 2))


class CsvLog(run.RunCase):
    def setUp(self):
        super().setUp()
        self.job = self.place / "job.yaml"
        self.home = self.storage / "mnist"

    def describe(self, command, more=""):
        self.job.write_text(
            f"job: mnist\nstorage: {{folder: {{path: {self.storage}}}}}\n"
            f"trainer: {{command: '/usr/bin/python3 {TRAINER} {command}'}}\n"
            f"checkpoints: {{files: '*.zip'}}\nmetrics: {{csv: result/training.csv}}\n{more}")

    def begin(self, **environment):
        with open(self.output, "ab") as output:
            return subprocess.Popen(
                [f"{harness.BINARIES}/spotter", "run", "--job", str(self.job)],
                env={**self.environment, **environment}, stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT, start_new_session=True)

    def status(self):
        try:
            return json.loads((self.place / "run" / "status.json").read_text())
        except (FileNotFoundError, ValueError):
            return {}

    def reached(self):
        return self.status().get("step") or 0

    def curve(self):
        return (self.home / "metrics.jsonl").read_text()

    def test_the_curve_is_whole_after_a_stop_and_a_loss(self):
        self.describe("16 0.4")
        first = self.begin()
        wait("some epochs", lambda: self.reached() >= 3)
        status = self.status()
        self.assertIn("val_accuracy", status["metrics"])
        self.assertEqual(status["epoch"], status["step"])
        first.send_signal(signal.SIGTERM)
        self.end(first)
        stopped = json.loads(self.curve().splitlines()[-1])["step"]
        # Everything is killed: the last rows are in the script's log alone.
        second = self.begin()
        wait("more epochs", lambda: self.reached() >= stopped + 3)
        sweep(self.place)
        second.wait()
        wait("all to be gone", lambda: not processes(self.place))
        self.assertEqual(self.end(self.begin()), 0, self.output.read_text())
        self.assertEqual(self.output.read_text().count("resumed after epoch"), 2)
        assert_whole(self, self.curve(), 16)

    def test_the_end_of_a_short_run_is_in_it(self):
        self.describe("5 0")
        self.assertEqual(self.end(self.begin()), 0, self.output.read_text())
        assert_whole(self, self.curve(), 5)

    def test_a_sweep_is_ranked_by_it(self):
        self.describe("4 0 {rate}", "sweep: {parameters: [{rate: 0.5}, {rate: 0.75}, {rate: 0.25}]"
                      ", objective: {metric: val_accuracy, mode: max}}\n")
        for index in range(3):
            place = self.place / f"run-{index}"
            place.mkdir()
            task = self.begin(SPOTTER_RUN=str(place), AWS_BATCH_JOB_ARRAY_INDEX=str(index),
                              AWS_BATCH_JOB_ARRAY_SIZE="3")
            self.assertEqual(self.end(task), 0, self.output.read_text())
        done = subprocess.run([f"{harness.BINARIES}/spotter", "sweep", "results", str(self.job),
                               "--csv", "-"], env=self.environment, capture_output=True, text=True,
                              check=True, timeout=60)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["index"] for row in rows], ["1", "0", "2"])
        self.assertEqual([float(row["val_accuracy"]) for row in rows], [0.5625, 0.375, 0.1875])


class CsvLogOnAVolume(harness.Story):
    trainer = TRAINER

    def test_the_curve_moves_along(self):
        volume = self.volume()
        job = jobs.document(
            self.job_name, self.repository, self.revision, "./train.py 9 2",
            trainer={"result": "result/weights"}, ebs={"consistency_bound": "1s"},
            checkpoints={"directory": "checkpoints", "files": "*.zip",
                         "keep_best": {"metric": "val_accuracy", "mode": "max"}},
            metrics={"csv": "result/training.csv"})
        first = self.launch(job)
        status = self.wait_training(first, 2)
        self.assertIn("val_loss", status["metrics"])
        self.world.interrupt(first, 15)
        self.wait_status(first, "released", lambda now: now.get("released"))
        self.world.control("fault", "capacity", self.zone, "5")
        second = self.wait_instance(besides=(first,))
        self.wait_training(second, 5)
        self.world.kill(second)  # what was not made durable by then is lost
        self.wait_instance(besides=(first, second))
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"))
        wait("the instances to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        result = copy_out(self.world, volume, "result")
        self.assertTrue((result / "training.csv").exists())
        curve = copy_out(self.world, volume, "metrics.jsonl")
        assert_whole(self, curve.read_text(), 9)
        # The trainer has removed it long ago.
        best = json.loads(copy_out(self.world, volume, ".spotter/best.json").read_text())
        self.assertEqual((best["name"], best["value"]), ("epoch-004.zip", 1.0))
        kept = copy_out(self.world, volume, f".spotter/best/{best['kept']}")
        with zipfile.ZipFile(kept) as archive:
            self.assertEqual(pickle.loads(archive.read("state")), (4, 5.0))
        self.assertIn("is the best so far by val_accuracy", self.world.console(first))


if __name__ == "__main__":
    harness.main()
