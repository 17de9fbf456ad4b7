"""EC2 refuses every call for a while: at the start, in a move, at the end."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class Throttled(life.Life):
    steps = 80

    def throttle(self, seconds):
        self.fault("throttle", action="*", **{"for": f"{seconds}s"})

    def test_the_job_only_takes_longer(self):
        self.fault("latency", action="DescribeVolumes", of="700ms")
        one = self.begin()
        self.throttle(8)
        self.wait_training(one, 5)
        self.world.interrupt(one, 10)
        two = self.successor(one)
        self.throttle(15)
        self.wait_training(two, 15)
        self.throttle(15)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
