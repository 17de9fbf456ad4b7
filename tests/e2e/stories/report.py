"""What `spotter report` says of a job on three instances, of which one ends announced and one is
lost, is what happened."""

import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness
import shares
import sweep_fleet
from emulator import wait


PLACE = "s3://seen/jobs"


class Reporting:
    """A story's; `home()` is where its history is."""

    def report(self, *words, place=None):
        """As somebody prints it who sees the share, or S3, and may ask for prices."""
        environment = {**self.world.launcher(), "SPOTTER_RUN": "/nonexistent",
                       "AWS_EC2_METADATA_DISABLED": "true"}
        done = subprocess.run([f"{self.world.bin}/spotter", "report", "--from",
                               place or str(self.home()), *words], env=environment, text=True,
                              capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return done.stdout

    def model(self, place=None):
        return json.loads(self.report("--json", place=place))

    def zones(self):
        return {one.text("instanceId"): one.text("placement/availabilityZone")
                for one in self.ec2.instances()}

    def assert_cost(self, cost):
        self.assertGreater(cost["spot_dollars"], 0, cost)
        self.assertGreater(cost["on_demand_dollars"], cost["spot_dollars"])
        said = (1 - cost["billable_seconds"] / cost["instance_seconds"]) * 100
        self.assertAlmostEqual(cost["savings_percent"], said, 1)
        shown = float(re.search(r"= ([\d.]+)%?;", cost["formula"])[1])
        self.assertAlmostEqual(cost["savings_percent"], shown, delta=0.11)


class OfASweep(Reporting, sweep_fleet.Shared):
    hosts = 2
    steps = 120  # the notice comes before the end

    def setUp(self):
        super().setUp()
        (self.world.directory / "s3/seen").mkdir(parents=True)

    def home(self, index=None):
        return self.folder / self.job_name / ("" if index is None else str(index))

    def test_three_experiments_on_a_fleet_of_two(self):
        self.begin(3, publish=PLACE)
        taken = self.first_begun()
        instance = self.busy(taken, 5)
        self.world.interrupt(instance, 15)
        self.wait_end()
        zones = self.zones()
        for place in (None, f"{PLACE}/{self.job_name}"):
            model = self.model(place)
            self.assertEqual((model["job"], model["state"]), (self.job_name, "finished"), place)
            found = {it["index"]: it for it in model["sweep"]["experiments"]}
            self.assertEqual({index: it["state"] for index, it in found.items()},
                             {0: "done", 1: "done", 2: "done"})
            for it in found.values():
                self.assertAlmostEqual(it["loss"], 1 / self.steps, 6)
            for it in model["instances"]:
                self.assertEqual(it["zone"], zones[it["id"]])
            announced = [it for it in model["interruptions"]
                    if (it["instance"], it["experiment"]) == (instance, int(taken))]
            self.assertEqual([it["kind"] for it in announced], ["terminate"])
            self.assertLessEqual(announced[0]["seconds_to_durable"], announced[0]["window_seconds"])
            self.assertEqual(announced[0]["repeated_steps"], 0)
            self.assert_cost(model["cost"])
        # What the sets were, only the job's description says.
        job = self.world.workplace / "policies-1/job.yaml"
        sweep = json.loads(self.report("--json", "--job", str(job)))["sweep"]
        self.assertEqual(sweep["parameters"], ["lr"])
        self.assertEqual([it["parameters"]["lr"] for it in sweep["experiments"]], [0, 0.1, 0.2])


class Report(Reporting, shares.ShareLife):
    every = 7  # steps a checkpoint
    steps = 150  # it is seen while the third trains

    def storage(self):
        return {"folder": {"path": str(self.folder)}}

    def setUp(self):
        super().setUp()
        self.folder = self.world.workplace / "shared"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        (self.world.directory / "s3/seen").mkdir(parents=True)

    def home(self):
        return self.folder / self.job_name

    def live_through(self):
        """An announced end, a loss, the end; the instances in their order."""
        first = self.begin(env={"EVERY": str(self.every)}, publish=PLACE)
        self.wait_training(first, 5)
        self.world.interrupt(first, 20)
        self.wait_status(first, "released", lambda status: status.get("released"))
        second = self.successor(first)
        self.wait_status(second, "training", lambda one: one.get("resumed_step"))
        self.wait_more_steps(second, self.every + 2)
        self.world.kill(second)
        third = self.successor(first, second)
        self.wait_status(third, "training", lambda one: one.get("resumed_step"))
        return first, second, third

    def repeated(self):
        """Of each start of a trainer after the first: the steps that had been done before."""
        runs = [[step for _, step in run] for run in self.trainer_runs()]
        return [max(one) + 1 - next_one[0] for one, next_one in zip(runs, runs[1:])]

    def assert_is_what_happened(self, model, instances):
        first, second, third = instances
        self.assertEqual((model["job"], model["state"]), (self.job_name, "finished"))
        self.assertIsNotNone(model["to"])
        zones = self.zones()
        self.assertEqual([(it["id"], it["end"], it["zone"]) for it in model["instances"]],
                         [(first, "interrupted", zones[first]), (second, "lost", zones[second]),
                          (third, "finished", zones[third])])
        announced, lost = model["interruptions"]
        self.assertEqual((announced["instance"], announced["kind"]), (first, "terminate"))
        self.assertEqual((lost["instance"], lost["kind"]), (second, "lost"))
        self.assertLessEqual(announced["seconds_to_durable"], announced["window_seconds"])
        self.assertAlmostEqual(announced["window_seconds"], 20, delta=5)
        repeated = self.repeated()
        self.assertEqual(repeated[0], 0)
        self.assertEqual(announced["repeated_steps"], 0)
        self.assertEqual(announced["checkpoint_step"], announced["resumed_step"])
        self.assertRegex(announced["why"],
                         r"the notice came \d+ s before the end: .*, nothing repeated")
        # What a lost machine did last, nobody knows.
        self.assertLessEqual(lost["repeated_steps"], repeated[1])
        self.assertEqual(lost["resumed_step"] % self.every, 0)
        self.assertIn("lost without notice", lost["why"])
        self.assertEqual(model["goodput"]["repeated_steps"],
                         announced["repeated_steps"] + lost["repeated_steps"])
        for it in model["interruptions"]:
            self.assertGreater(it["down_seconds"], 0)
        part = model["goodput"]["part"]
        self.assertTrue(0 < part < 1, part)

    def assert_whole_curve(self, curve):
        self.assertEqual(curve["step"][-1], self.steps)
        self.assertAlmostEqual(curve["loss"][-1], 1 / self.steps, 6)

    def last_words_are_published(self):
        """The status is written last. The machine may end with the fleet before that."""
        status = self.world.directory / "s3/seen/jobs" / self.job_name / "status.json"
        return json.loads(status.read_text())["stage"] == "finished"

    def seen_training(self, place, instance):
        model = self.model(place)
        last = model["instances"][-1]
        is_it = (model["state"], last["id"], last["end"]) == ("training", instance, "running")
        return model if is_it else None

    def test_three_instances_on_a_share(self):
        instances = self.live_through()
        published = f"{PLACE}/{self.job_name}"
        model = wait("the third to be seen",
                     lambda: self.seen_training(published, instances[2]))
        self.assertIsNone(model["to"])
        self.assert_ended_well(torn=self.every)
        for place in (None, published):
            with self.subTest(place=place or "the storage"):
                model = self.model(place)
                self.assert_is_what_happened(model, instances)
                if place is None or self.last_words_are_published():
                    self.assert_whole_curve(model["curve"])
                self.assert_cost(model["cost"])
        page = self.report("--output", "-")
        self.assertIn("<!doctype html>", page.lower())
        self.assertIsNone(re.search(r"https?://(?!www\.w3\.org/)", page), "something is loaded")
        for instance in instances:
            self.assertIn(instance, page)


if __name__ == "__main__":
    harness.main()
