#!/usr/bin/python3
"""A job on instances that are virtual machines, from `spotter launch` on: moved to another zone at
a notice; power lost in the middle of a checkpoint."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import machine
import virtual
import fake_trainer
import harness
import root as roots
import volumes
import whole_machines
from emulator import wait

# The trainer's last act of a checkpoint, and what keeps it from that when asked to.
COMPLETE = "        os.rename(new, self.folder / name)\n"
HOLD = "        while os.path.exists('/run/hold'):\n            time.sleep(0.01)\n"


@unittest.skipIf(virtual.missing(), f"skipped: {virtual.missing()}")
class Instances(whole_machines.WholeLife):
    steps = 250  # the machines are slow: it has to train on while they are asked

    def make_world(self):
        trainer = pathlib.Path(fake_trainer.__file__).read_text().replace(COMPLETE, HOLD + COMPLETE)
        self.assertIn(HOLD, trainer)
        try:
            return virtual.Virtual(harness.BINARIES, name="machine",
                                   files={"srv/train.py": trainer})
        except roots.NoPackages as why:
            return self.skipTest(f"Debian's packages were not to be had: {why}")

    def begin(self, **env):
        self.volume()
        job = self.job(env={"STEPS": str(self.steps), "PACE": "0.3", "FORMAT": "spotter", **env})
        del job["code"]  # its repository is this machine's
        job["trainer"]["command"] = "/usr/bin/python3 /srv/train.py"
        return self.launch(job, zones=self.world.zones)

    def assert_steps(self, kills, torn):
        """Nobody here saw the steps; what came of them is on the volume."""

    def test_moved_to_another_zone_at_a_notice(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.assertIn("nvme", self.world.run(one, "findmnt", "-no", "SOURCE", "/mnt/spotter"))
        self.room(self.world.zones[1])
        self.world.interrupt(one, 45)
        self.wait_status(one, "released", lambda status: status.get("released"))
        kept = self.world.status(one)["checkpoint_step"]
        wait("its disk to be taken out", lambda: "vol" not in self.world.run(
            one, "sh", "-c", "cat /sys/block/nvme*/device/serial"))
        two = self.wait_instance([one])
        self.wait_training(two, kept + 2)
        self.assertGreaterEqual(self.resumed(two), kept)
        self.assert_ended_well()

    def resumed(self, instance):
        return int(self.wait_journal(instance, r"the trainer goes on from step (\d+)")[1])

    def test_power_lost_in_the_middle_of_a_checkpoint(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.run(one, "touch", "/run/hold")
        wait("a checkpoint that is not complete", lambda: self.world.run(
            one, "sh", "-c", "ls -d /mnt/spotter/checkpoints/new-step-*", check=False)
             .startswith("/mnt"))
        kept = self.world.status(one)["checkpoint_step"]
        self.world.kill(one)
        two = self.wait_instance([one])
        self.wait_training(two, kept + 2)
        self.assertRegex(self.world.run(two, "dmesg"), r"XFS \(nvme\d+n1\): Starting recovery")
        self.assertGreaterEqual(self.resumed(two), kept, "what was durable is there")
        self.assert_ended_well()


if __name__ == "__main__":
    machine.main(virtual.missing, virtual.make_root)
