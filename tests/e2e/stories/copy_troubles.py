"""In the move: a snapshot ends in `error`, a copy too, a key may not be used."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class CopyTroubles(life.Life):
    def test_a_failed_snapshot_and_a_failed_copy_are_made_again(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.fault("snapshot-fails", count=1)
        self.fault("volume-fails", count=1)
        self.world.interrupt(one, 10)
        self.successor(one)
        self.assert_ended_well()

    def test_a_key_that_may_not_be_used_is_named_and_then_may(self):
        one = self.begin(volume={"Encrypted": True})
        self.wait_training(one, 5)
        self.fault("key-forbidden", on="true")
        self.world.interrupt(one, 10)
        two = self.successor(one)
        self.wait_stage(two, "blocked")
        self.wait_console(two, "KMS")
        self.assert_fleet_untouched()
        self.fault("key-forbidden", on="false")
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
