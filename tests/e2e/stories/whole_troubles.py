"""Ills of a whole machine: it boots without a network, its disk is full."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import whole_machines
from emulator import wait


class WholeTroubles(whole_machines.WholeLife):
    steps = 150
    emulator_options = ("--disk", "48m")

    def test_a_boot_without_a_network(self):
        one = self.begin()
        self.wait_training(one, 5)
        before = self.world.leader(one)
        self.world.network(one, "down")
        self.world.run(one, "systemctl", "reboot")
        wait("another boot", lambda: self.world.inside(one) not in (None, before))
        self.wait_journal(one, "Started spotter.service(?s:.*)Started spotter.service(?s:.*)"
                               "metadata service does not say")
        self.assertEqual(self.trainers(one), [])
        self.world.network(one, "up")
        self.assert_ended_well(kills=1)
        self.assertEqual(len(self.trainer_runs()), 2)

    def test_a_root_disk_that_is_full(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.run(one, "sh", "-c", "cat /dev/zero >/var/stuffing; true")
        self.world.run(one, "systemctl", "restart", "spotter")
        self.wait_more_steps(one)
        self.world.interrupt(one, 10)
        self.wait_status(one, "released", lambda status: status.get("released"))
        self.assert_ended_well()
        self.assertEqual(len(self.trainer_runs()), 2)


if __name__ == "__main__":
    harness.main()
