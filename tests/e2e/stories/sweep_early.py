"""A sweep that ends its hopeless experiments early: by one verdict, whatever comes between."""

import csv
import io
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import sweep_fleet
from emulator import wait


class Early(sweep_fleet.Shared):
    hosts = 1
    steps = 50
    first = 20

    def sweep(self, experiments, *words, **more):
        job = super().sweep(experiments, *words, **more)
        job["sweep"].update(objective={"metric": "val_accuracy"},
                            stop={"rule": "asha", "first": self.first})
        return job

    def rung(self, rung, index):
        return self.bucket / f"all/{self.job_name}/rungs/val_accuracy-max-{self.first}-3/"\
            f"{rung}/{index:05d}"

    def others_were_there(self):
        """Of an experiment that no machine here trains, at each rung: the order does not matter."""
        for rung in range(3):
            self.rung(rung, 9).parent.mkdir(parents=True)
            self.rung(rung, 9).write_text(json.dumps(
                {"version": 1, "step": 20, "metric": "val_accuracy", "value": 0.3, "better": 0,
                 "compared": 1, "goes_on": True}))

    def record(self, rung, index):
        return json.loads(self.rung(rung, index).read_text())

    def assert_stopped(self, index, value):
        self.assertTrue((self.home(index) / "DONE").exists())
        self.assertFalse((self.home(index) / "result/weights.bin").exists())
        self.assertTrue(list((self.home(index) / "checkpoints").glob("step-*")))
        self.assertEqual((self.claim(index)["state"], self.claim(index)["failures"]), ("done", 0))
        outcome = self.published(index)
        self.assertRegex(outcome["stopped_early"],
                         f"val_accuracy {value} at step .* is not among the best 1/3 of the ")
        self.assertEqual(outcome["state"], "done")
        self.assertLess(outcome["step"], self.steps)

    def results(self):
        job = self.world.workplace / "job.yaml"
        job.write_text(self.text)
        done = subprocess.run(
            [f"{harness.BINARIES}/spotter", "sweep", "results", str(job), "--csv", "-"],
            env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=False,
            timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def begin(self, *words, **more):
        job = self.sweep(*words, **more)
        self.text = sweep_fleet.jobs.yaml(job) + "\n"
        return self.launch(job, zones=self.world.zones)

    def test_a_hopeless_one_ends_though_the_bucket_and_its_machine_were_lost_at_the_rung(self):
        self.others_were_there()
        self.begin(2, env={"SCORES": "0.5 0.1"})
        first = self.busy(1, 12)
        self.world.control("fault", "s3-slow-down", "percent=100")
        self.busy(1, 25)
        self.assertFalse(self.rung(0, 1).exists(), "nothing was decided")
        self.world.kill(first)
        self.world.control("fault", "clear")
        self.wait_end()
        self.assert_stopped(1, "0.1")
        self.assertGreaterEqual(self.claim(1)["token"], 2)
        self.assertFalse(self.record(0, 1)["goes_on"])
        runs = self.trainer_runs(1)
        self.assertGreater(runs[0][-1], self.first, "it trained on")
        self.assertGreater(len(runs), 1, "another machine asked again")
        self.assert_result(0)
        self.assertTrue(self.record(0, 0)["goes_on"])
        self.assertEqual(self.published(0)["stopped_early"], "")
        rows = self.results()
        self.assertEqual([(row["index"], row["state"]) for row in rows],
                         [("0", "done"), ("1", "done")])
        self.assertEqual(rows[0]["stopped_early"], "")
        self.assertIn("is not among the best", rows[1]["stopped_early"])

    def test_an_earlier_verdict_holds_and_who_reports_nothing_is_not_stopped(self):
        self.first = 10
        self.others_were_there()
        # As if its machine had died between the verdict and the trainer's end.
        self.rung(0, 1).write_text(json.dumps(
            {"version": 1, "step": 10, "metric": "val_accuracy", "value": 0.2, "better": 1,
             "compared": 2, "goes_on": False}))
        instance = self.begin(3, env={"SCORES": "0.5 0.9 -"})
        wait("the trainer's silence to be logged", lambda: "the trainer has not reported "
             "val_accuracy" in self.world.console(instance))
        self.wait_end()
        self.assert_stopped(1, "0.2")
        self.assertFalse(self.rung(1, 1).exists(), "it came no further")
        for each in (0, 2):
            self.assert_done(each)
        self.assertFalse(self.rung(0, 2).exists())


if __name__ == "__main__":
    harness.main()
