"""`finish_by` with `launch: {on_demand: when-needed}`: the job is on spot while there is time, on
demand when the deadline asks for it, and on spot again when that pays. `spotter watch` decides, and
says why."""

import datetime
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import launched
from emulator import wait

PLACE = "s3://seen/jobs"


class FinishBy(launched.Launched):
    """Of 20 minutes of work, as job.yaml estimates it, the trainer does some seconds' worth, and
    waits for the story. A look of `--once` reckons with ten minutes until the next one."""
    steps = 320

    def setUp(self):
        super().setUp()
        self.gate = self.world.shared / "gate"
        (self.world.directory / "s3/seen").mkdir(parents=True)

    def job(self, **more):
        due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=self.time)
        return super().job(publish=PLACE, finish_by=due.strftime("%Y-%m-%dT%H:%MZ"), **more)

    def begin_on_spot(self, minutes):
        self.time = minutes
        return self.go(self.world.zones, on_demand="when-needed", work="20m", start="5s",
                       env={"HOLD": "20", "GATE": str(self.gate)})

    def watch(self):
        said = self.spotter("watch", self.file, "--once").stdout
        self.said = getattr(self, "said", "") + said
        return said

    def lifecycle(self, instance):
        return next(one.text("instanceLifecycle") for one in self.ec2.instances()
                    if one.text("instanceId") == instance)

    def trains_on(self, instance):
        self.wait_stage(instance, "training", 120)

    def fleets(self):
        return {one["on_demand"]: one for one in self.listed()[self.job_name]["fleets"]
                if one["state"] != "cancelled"}

    def test_it_leaves_spot_when_the_deadline_asks_and_returns_when_that_pays(self):
        # 19 min of work, and 16 more: another look without a spot instance would be too late.
        one = self.begin_on_spot(36)
        self.wait_training(one, 15)
        self.assertIn(f"the job has the spot instance {one}", self.watch())
        self.room()
        self.world.interrupt(one, 5)
        wait("the spot instance to be gone",
             lambda: not self.listed()[self.job_name]["instances"], 90)
        wait("it to ask for an on-demand instance", lambda: "asks for it" in self.watch(), 60)
        paid = self.wait_instance([one], 60)
        self.assertEqual(self.lifecycle(paid), "")
        self.trains_on(paid)
        self.assertRegex(self.watch(), "on demand, by fleet-.*, until there is spot capacity|^$")
        shown = self.spotter("status", "--job", self.file).stdout
        self.assertRegex(shown, r"(?m)^deadline +\d+ % left, about [\d.]+ h; on demand now; spot")
        # A spot instance comes, and the job returns to it.
        self.room(*self.world.zones)
        back = self.wait_instance([one, paid], 90)
        self.assertEqual(self.lifecycle(back), "spot")
        wait("the on-demand instance to end", lambda: "is ended" in self.watch(), 90)
        self.trains_on(back)
        wait("its fleet to end", lambda: True not in self.fleets(), 60)
        self.gate.touch()
        self.wait_end()
        for decision in (r"the job has the spot instance",
                         r"for the deadline an on-demand instance is asked for; (9\d|100) % left",
                         r"the on-demand instance ends: the spot instance \S+ is there; \d+ % left",
                         r"spot in us-west-2\w is \d+ % cheaper and lasted [\d.]+ h on average"):
            self.assertTrue(re.search(decision, self.said), decision + "\n" + self.said)
        self.assert_ended_well()

    def test_it_leaves_a_spot_instance_whose_loss_would_be_too_late(self):
        one = self.begin_on_spot(28)
        self.wait_training(one, 15)
        wait("it to ask for an on-demand instance", lambda: "asks for it" in self.watch(), 60)
        paid = self.wait_instance([one], 60)
        wait("the job's own fleet to rest", lambda: "gets the target 0" in self.watch(), 60)
        self.trains_on(paid)
        self.assertIn("as the deadline asks", self.said)
        self.assertEqual(self.fleets()[False]["target"], 0)
        self.watch()
        self.assertIn("rests", self.said)
        self.gate.touch()
        wait("both fleets to end", lambda: not self.fleets(), 120)
        self.assert_ended_well()


if __name__ == "__main__":
    launched.life.harness.main()
