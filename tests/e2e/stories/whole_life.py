"""The whole life of a job on whole machines, by way of another zone; and the end of all of them."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import whole_machines
from emulator import groups, leftovers, wait


class Whole(whole_machines.WholeLife):
    steps = 100

    def test_from_the_fleet_to_the_end_by_way_of_another_zone(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 120)
        self.wait_released(one)
        self.wait_journal(one, "interruption notice: the instance ends in")
        self.world.kill(one)
        two = self.successor(one)
        self.wait_training(two, 10)
        self.assert_ended_well()
        # The deadline takes the first away at once; the end of the fleet shuts the second one down.
        self.assertNotIn("Stopping spotter.service", self.world.journal(one, "-o", "cat"))
        self.assertIn("Stopping spotter.service", self.world.journal(two, "-o", "cat"))
        self.assertGreater(len(self.trainer_runs()), 1)
        log = (self.kept_folder(".spotter") / "agent.log").read_text()
        for machine in (one, two):
            self.assertEqual(log.count(f"boot: user data of {machine}\n"), 1, log)
            self.assertIn(f" {machine} info ", log)

    def test_lost_without_a_notice(self):
        """What the package's own user keeps at home is on the volume: the next machine has it."""
        one = self.begin(trainer={"user": "spotter", "command":
                                  "cat /etc/hostname >>~/.machines; sync ~/.machines; "
                                  "./train.py; exit $?"})
        self.wait_training(one, 5)
        self.room(self.world.zones[1])
        self.world.kill(one)
        self.successor(one)
        self.assertNotIn("Stopping spotter.service", self.world.journal(one, "-o", "cat"))
        self.assert_ended_well(kills=1)
        home = self.kept_folder(".home")
        self.assertEqual(len((home / ".machines").read_text().splitlines()),
                         len(self.trainer_runs()))
        self.assertGreater(len(self.trainer_runs()), 1)

    def test_the_emulator_is_killed_and_nothing_is_left(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.process.kill()
        self.world.process.wait()
        (self.world.directory / "emulator.json").unlink()
        wait("all to be gone",
             lambda: not leftovers(self.world.directory, 0, with_groups=False))
        self.assertTrue(groups(self.world.directory), "a folder of the kernel stays, empty")
        self.world.serve()
        self.assertEqual(groups(self.world.directory), [])


if __name__ == "__main__":
    harness.main()
