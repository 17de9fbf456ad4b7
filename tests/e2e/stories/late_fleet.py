"""EC2 shows late which fleet an instance is of: the work does not wait for that, the end does."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class LateFleet(life.Life):
    steps = 5  # the end comes well before the agent takes the fleet for none

    def test_a_fleet_whose_tag_comes_late_is_cancelled_at_the_end(self):
        self.fault("fleet-tags-late", least="1h", most="1h")
        one = self.begin()
        self.wait_console(one, "asking EC2 which fleet to cancel")
        self.assertFalse(self.fleet_is_cancelled(), "by whom?")
        self.fault("fleet-tags-late", most="0s")
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
