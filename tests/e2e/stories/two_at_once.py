"""The user raises the target: two instances and one volume, and never two writers."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life
from emulator import wait


class TwoAtOnce(life.Life):
    steps = 120

    def target(self, capacity):
        self.ec2.call("ModifySpotFleetRequest", SpotFleetRequestId=self.fleet,
                      TargetCapacity=capacity)

    def test_one_works_the_other_waits_and_takes_over(self):
        one = self.begin()
        self.room(*self.world.zones)
        self.target(2)
        two = self.successor(one)
        self.wait_training(one, 5)
        self.wait_console(two, "attached to another instance")
        self.assertEqual(self.trainers(two), [])
        # In the other zone, it races with the successor in the first one for a volume left behind.
        self.world.kill(one)
        wait("a trainer again", lambda: len(self.trainer_runs()) > 1)
        self.assert_ended_well(kills=1)


if __name__ == "__main__":
    life.harness.main()
