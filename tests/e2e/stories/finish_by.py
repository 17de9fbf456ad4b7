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
# An hour of a market: dear capacity that goes after ten minutes, and cheap capacity that comes
# elsewhere half an hour after the beginning; until then its price is for nothing.
TRACES = {"g5.xlarge_us-west-2a": "0,1,0.30 600,0,0.30 3600,0,0.30",
          "g5.xlarge_us-west-2b": "0,0,0.10 1800,1,0.12 3600,1,0.12"}


class FinishBy(launched.Launched):
    """Of 20 minutes of work, as job.yaml estimates it, the trainer does some seconds' worth, and
    waits for the story. A look of `--once` reckons with ten minutes until the next one."""
    steps = 320

    def setUp(self):
        super().setUp()
        self.gate = self.world.shared / "gate"
        (self.world.directory / "s3/seen").mkdir(parents=True)

    def job(self, **more):
        now = datetime.datetime.now(datetime.timezone.utc)
        self.due = now + datetime.timedelta(minutes=self.time)
        return super().job(publish=PLACE, finish_by=self.due.strftime("%Y-%m-%dT%H:%MZ"), **more)

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
        self.wait_stage(instance, "training")

    def zone_of(self, instance):
        return next(one.text("placement/availabilityZone") for one in self.ec2.instances()
                    if one.text("instanceId") == instance)

    def play(self, *words):
        return self.world.control("market", self.world.workplace / "market", "--in", "5s", *words)

    def fleets(self):
        return {one["on_demand"]: one for one in self.listed()[self.job_name]["fleets"]
                if one["state"] != "cancelled"}

    def goes_on_on_demand(self, spot):
        """Until that one is gone and the on-demand instance that was asked for trains."""
        wait("the spot instance to be gone",
             lambda: not self.listed()[self.job_name]["instances"])
        wait("it to ask for an on-demand instance", lambda: "asks for it" in self.watch())
        paid = self.wait_instance([spot])
        self.assertEqual(self.lifecycle(paid), "")
        self.trains_on(paid)
        return paid

    def test_it_leaves_spot_when_the_deadline_asks_and_returns_when_that_pays(self):
        # 19 min of work, and 16 more: another look without a spot instance would be too late.
        one = self.begin_on_spot(36)
        self.wait_training(one, 15)
        self.assertIn(f"the job has the spot instance {one}", self.watch())
        self.room()
        self.world.interrupt(one, 5)
        paid = self.goes_on_on_demand(one)
        self.assertRegex(self.watch(), "on demand, by fleet-.*, until there is spot capacity|^$")
        shown = self.spotter("status", "--job", self.file).stdout
        self.assertRegex(shown, r"(?m)^deadline +by \S+Z; \d+ % left, about [\d.]+ h; on demand "
                                r"now; spot")
        # Its machine knows what the watcher wrote down, with the prices.
        seen = self.wait_status(paid, "what the watcher said", lambda one: one.get("watcher"))
        self.assertRegex(seen["watcher"], r"^watched at \S+Z: no spot since \S+Z; \d+ % left, .*; "
                                          r"spot in us-west-2\w is \d+ % cheaper and lasted")
        # A spot instance comes, and the job returns to it.
        self.room(*self.world.zones)
        back = self.wait_instance([one, paid])
        self.assertEqual(self.lifecycle(back), "spot")
        wait("the on-demand instance to end", lambda: "is ended" in self.watch())
        self.trains_on(back)
        wait("its fleet to end", lambda: True not in self.fleets())
        self.gate.touch()
        self.wait_end()
        for decision in (r"the job has the spot instance",
                         r"for the deadline an on-demand instance is asked for; (9\d|100) % left",
                         r"the on-demand instance ends: the spot instance \S+ is there; \d+ % left",
                         r"spot in us-west-2\w is \d+ % cheaper and lasted [\d.]+ h on average"):
            self.assertTrue(re.search(decision, self.said), decision + "\n" + self.said)
        self.assert_ended_well()

    def test_it_follows_a_market_and_is_in_time(self):
        (self.world.workplace / "market").mkdir()
        for pool, lines in TRACES.items():
            file = self.world.workplace / "market" / f"{pool}.csv"
            file.write_text("seconds,available,dollars\n" + "\n".join(lines.split()) + "\n")
        (self.world.directory / "prices").mkdir()
        (self.world.directory / "prices/g5.xlarge").write_text("0.60")
        self.play("--until", "1m", "--speed", "60")
        one = self.begin_on_spot(36)
        self.assertEqual(self.zone_of(one), "us-west-2a")
        self.wait_training(one, 15)
        self.watch()
        said = self.play("--from", "1m", "--until", "15m", "--speed", "600")
        self.assertIn("00:10:00 g5.xlarge us-west-2a: no capacity at $0.3 an hour", said)
        paid = self.goes_on_on_demand(one)
        self.play("--from", "15m", "--speed", "600")
        back = self.wait_instance([one, paid])
        self.assertEqual((self.lifecycle(back), self.zone_of(back)), ("spot", "us-west-2b"))
        wait("the on-demand instance to end", lambda: "is ended" in self.watch())
        self.trains_on(back)
        self.gate.touch()
        self.wait_end()
        self.assertLess(datetime.datetime.now(datetime.timezone.utc), self.due)
        for decision in (rf"the job has the spot instance {one}; .*us-west-2a is 50 % cheaper",
                         r"no spot instance since \S+: for the deadline an on-demand instance",
                         rf"the on-demand instance ends: the spot instance {back} is there;"
                         r".* spot in us-west-2b is 80 % cheaper"):
            self.assertTrue(re.search(decision, self.said), decision + "\n" + self.said)
        self.assert_ended_well()

    def test_it_leaves_a_spot_instance_whose_loss_would_be_too_late(self):
        one = self.begin_on_spot(28)
        self.wait_training(one, 15)
        wait("it to ask for an on-demand instance", lambda: "asks for it" in self.watch())
        paid = self.wait_instance([one])
        wait("the job's own fleet to rest", lambda: "gets the target 0" in self.watch())
        self.trains_on(paid)
        self.assertIn("as the deadline asks", self.said)
        self.assertEqual(self.fleets()[False]["target"], 0)
        self.watch()
        self.assertIn("rests", self.said)
        self.gate.touch()
        wait("both fleets to end", lambda: not self.fleets())
        self.assert_ended_well()


if __name__ == "__main__":
    launched.life.harness.main()
