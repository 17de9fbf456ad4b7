"""The metadata service in every kind of trouble, and a notice in the midst of it."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


MODES = ("down", "slow", "401", "403", "429", "500", "empty", "garbage", "half")


class MetadataTroubles(life.Life):
    steps = 550  # ten troubles of a second or more each, on a machine that builds beside them

    def trouble(self, mode, seconds):
        self.fault("imds", mode=mode, **{"for": f"{seconds}s"})

    def test_it_is_outlived_and_the_notice_is_seen(self):
        self.trouble("down", 6)  # while the first instance boots
        one = self.begin()
        self.wait_training(one, 3)
        for mode in MODES:
            self.trouble(mode, 1)
            self.wait_more_steps(one, 9)
        self.trouble("401", 2)  # the agent needs another token, and is given garbage for one
        time.sleep(2)
        self.trouble("garbage", 3)
        self.wait_more_steps(one, 40)
        self.assertEqual(len(self.trainer_runs()), 1, "the trainer was disturbed")
        self.assert_fleet_untouched()
        self.trouble("500", 3)
        self.world.interrupt(one, 25)
        self.wait_status(one, "released", lambda status: status.get("released"))
        self.trouble("half", 20)  # while its successor boots
        two = self.successor(one)
        self.wait_training(two, 1)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
