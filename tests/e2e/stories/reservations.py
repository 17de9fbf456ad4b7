"""`launch.capacity_reservation`: a capacity block that comes to its end, and an interruptible
reservation whose owner takes its instance back. The metadata service says nothing of either."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import launched
from emulator import wait


class Reservations(launched.Launched):
    steps = 40
    besides = {}  # of job.yaml

    def job(self, **more):
        return super().job(**more, **self.besides)

    def reserve(self, market, *options):
        return self.world.control("reserve", market, "g5.xlarge", self.zone, *options).strip()

    def go_into(self, reservation, kind, besides=(), env=None):
        return self.go([self.zone], besides, env=env,
                       capacity_reservation={"id": reservation, "kind": kind})

    def state_of(self, instance):
        return next(one.text("instanceState/name") for one in self.ec2.instances()
                    if one.text("instanceId") == instance)

    def test_block_ends_and_the_job_goes_on_in_the_next(self):
        """EC2 ends its machines from 30 minutes before its end on: the trainer is asked two minutes
        before that, and the machine, which may live on, does not take the volume again."""
        self.fault("block-cleanup", most="5s")
        block = self.reserve("capacity-block", "--ends", "1950s")
        one = self.go_into(block, "capacity-block", env=self.held(10))
        self.wait_training(one, 5)
        self.wait_status(one, "until when there is capacity",
                         lambda it: f"in the capacity block {block}, which ends at"
                         in it.get("capacity_says", ""))
        again = self.spotter("launch", self.file)
        self.assertIn("is at work already", again.stderr)
        self.assertIn(self.fleet, self.spotter("list").stdout)
        self.wait_released(one)
        self.assertEqual(self.state_of(one), "running", "EC2 has not begun yet")
        shown, = (it for it in self.world.state()["instances"] if it["id"] == one)
        self.assertIsNone(shown["notice"], "the metadata service has none")
        self.gate.touch()
        later = self.reserve("capacity-block", "--ends", "5h")
        two = self.go_into(later, "capacity-block", [one])
        self.assertIn(self.state_of(one), ("shutting-down", "terminated"))
        self.wait_training(two, 11)
        self.assert_ended_well()

    def test_job_that_is_given_up_ends_its_machine(self):
        """A fleet of type instant has no target that could be lowered."""
        self.fault("block-cleanup", most="5s")
        self.besides = {"on_failure": {"attempts_without_progress": 1, "then": "scale-to-zero"}}
        self.go_into(self.reserve("capacity-block", "--ends", "5h"), "capacity-block",
                     env={"BEHAVIOUR": "crash"})
        wait("its machine to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        self.assertTrue(self.fleet_is_cancelled())

    def test_interruptible_one_is_reclaimed_and_the_job_goes_on_with_spot(self):
        lent = self.reserve("interruptible-capacity-reservation")
        one = self.go_into(lent, "interruptible", env=self.held(10))
        self.wait_training(one, 5)
        self.world.control("reclaim", lent)
        self.wait_released(one)
        self.assertEqual(self.state_of(one), "running", "released before its two minutes are over")
        wait("EC2 to end it", lambda: self.state_of(one) == "terminated", seconds=180)
        refused = self.spotter("launch", self.file, code=1).stderr
        self.assertIn(f"EC2 launched nothing into {lent}", refused)
        self.gate.touch()
        two = self.go(self.world.zones, [one])
        self.wait_training(two, 11)
        self.assert_ended_well()


if __name__ == "__main__":
    launched.life.harness.main()
