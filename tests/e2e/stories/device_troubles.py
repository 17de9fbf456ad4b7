"""The device comes late, or under another name; and a volume hangs in `attaching`."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class DeviceTroubles(life.Life):
    def test_late_and_under_the_name_that_xen_gives_it(self):
        self.fault("device-late", by="4s")
        one = self.begin(zones=[self.zone])
        self.wait_training(one, 5)
        self.fault("device-by-name", on="true")
        self.fault("device-late", by="0s")
        self.room(self.zone)
        self.world.kill(one)
        two = self.successor(one)
        self.wait_training(two, 10)
        self.kill_agent(two)  # the next one finds the volume without a link by its id
        self.assert_ended_well(kills=1)
        self.assertEqual(len(self.trainer_runs()), 2, "the trainer was adopted")

    def test_hanging_in_attaching_is_given_up_and_tried_by_another_name(self):
        self.fault("attach-hangs", **{"for": "12s"})
        one = self.begin()
        self.wait_training(one, 1)
        self.assertRegex((self.world.directory / "emulator.log").read_text(),
                         f"{one} DetachVolume -> 200")
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
