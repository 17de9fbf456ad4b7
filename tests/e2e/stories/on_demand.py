"""`launch: {on_demand: after ...}`: no spot instance comes, so `spotter watch` asks for one on
demand; when there is a spot instance again, the job returns to it at a checkpoint and finishes."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import launched
from emulator import wait


class OnDemand(launched.Launched):
    steps = 320

    def setUp(self):
        super().setUp()
        self.gate = self.world.shared / "gate"

    def watch(self, *words):
        return self.spotter("watch", self.file, "--once", *words).stdout

    def begin_on_spot(self, **more):
        """The trainer waits before its last steps, however long the rest of the story takes."""
        return self.go(self.world.zones, on_demand="after 2s",
                       env={"HOLD": "300", "GATE": str(self.gate)}, **more)

    def lifecycle(self, instance):
        return next(one.text("instanceLifecycle") for one in self.ec2.instances()
                    if one.text("instanceId") == instance)

    def states_of_fleets(self):
        """Of all that still are: {on demand?: state}"""
        return {one["on_demand"]: one["state"] for one in self.listed()[self.job_name]["fleets"]
                if one["state"] != "cancelled"}

    def lose_spot(self, instance):
        self.room()
        self.world.interrupt(instance, 5)
        wait("the spot instance to be gone",
             lambda: not self.listed()[self.job_name]["instances"])

    def to_on_demand(self, besides):
        """Until the watcher has asked for an on-demand instance and that trains."""
        wait("it to ask for an on-demand instance", lambda: "asks for it" in self.watch())
        instance = self.wait_instance(besides)
        self.assertEqual(self.lifecycle(instance), "", "on demand")
        wait("it to train there", lambda: any(
            instance in path.name and path.read_text() for path in self.journal.iterdir()))
        return instance

    def trainer_runs_on(self, instance):
        return sum(len(path.read_text().splitlines()) for path in self.journal.iterdir()
                   if instance in path.name)

    def _there_and_back(self):
        one = self.begin_on_spot()
        self.wait_training(one, 3)
        self.assertIn(f"the job has the spot instance {one}", self.watch())
        self.lose_spot(one)
        self.assertIn("on demand from", self.watch())
        paid = self.to_on_demand([one])
        self.assertIn("until there is spot capacity", self.watch())
        shown = self.spotter("status", "--job", self.file).stdout
        self.assertRegex(shown, rf"(?m)^on demand +{paid}, \$\d+\.\d+ an hour$")
        self.assertEqual(self.states_of_fleets().keys(), {True, False})
        # A spot instance comes, waits for the volume, and gets it.
        self.room(*self.world.zones)
        back = self.wait_instance([one, paid])
        self.assertEqual(self.lifecycle(back), "spot")
        wait("the on-demand instance to end", lambda: "is ended" in self.watch())
        self.wait_training(back, 3)
        wait("its fleet to end", lambda: True not in self.states_of_fleets())
        self.gate.touch()
        self.wait_end()
        self.assertRegex(self.watch(), "the job is done|the job has no fleet")
        wait("no fleet to be left", lambda: not self.states_of_fleets())
        self.assert_ended_well()
        # On demand it did what lies between, and nothing twice.
        self.assertGreater(self.trainer_runs_on(paid), 0)

    def test_without_spot_capacity_it_goes_on_on_demand_and_then_on_spot_again(self):
        self._there_and_back()

    def test_the_same_beside_a_spot_fleet(self):
        self.kind = "spot-fleet"
        self._there_and_back()

    def test_what_finishes_on_demand_ends_the_fleet_that_waits(self):
        """Its agent does, with nobody watching; a watcher that is left running ends by itself."""
        one = self.begin_on_spot()
        self.wait_training(one, 3)
        self.lose_spot(one)
        paid = self.to_on_demand([one])
        self.gate.touch()
        wait("both fleets to end", lambda: not self.states_of_fleets())
        said = self.spotter("watch", self.file, "--interval", "1s").stdout
        self.assertRegex(said, "the job is done|the job has no fleet")
        self.assert_ended_well()
        self.assertGreater(self.trainer_runs_on(paid), 0)


if __name__ == "__main__":
    launched.life.harness.main()
