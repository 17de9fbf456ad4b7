"""What EC2 describes is old by seconds, in every call, while the job moves."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class StaleAnswers(life.Life):
    def test_a_move_under_a_lag_within_the_bound(self):
        self.fault("consistency", lag="2500ms")
        one = self.begin(bound="3s")
        self.wait_training(one, 5)
        self.world.interrupt(one, 12)
        self.successor(one)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
