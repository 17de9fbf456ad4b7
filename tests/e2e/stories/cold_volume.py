"""A volume whose blocks EBS brings when they are first touched: the newest checkpoint is read
first, the rest behind the trainer, and nothing waits for it."""

import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import life
from emulator import wait

# What lies on the volume beside the checkpoints: as long as it is read, more than a minute without
# whoever reads it early.
DATA = """#!/usr/bin/python3
import os
if not os.path.exists("data"):
    with open("data.part", "wb") as file:
        for _ in range(240):
            file.write(os.urandom(1 << 20))
        os.fsync(file.fileno())
    os.rename("data.part", "data")
"""


class Cold(life.Life):
    emulator_options = ("--cold-volumes",)

    def setUp(self):
        if not (pathlib.Path(harness.BINARIES) / "spotter-emulator-cold").exists():
            self.skipTest("needs spotter-emulator-cold (scripts/build)")
        if not pathlib.Path("/dev/fuse").exists():
            self.skipTest("needs FUSE")
        super().setUp()

    def make_world(self):
        try:
            return super().make_world()
        except harness.Failed as failed:
            if "only loop devices" in str(failed):
                self.skipTest("needs root: loop devices are slow, folders are not")
            raise

    def progress_of(self, instance):
        return self.wait_status(instance, "what was read of the volume",
                                lambda status: status.get("volume_total_bytes"))


class ColdVolume(Cold):
    def code(self):
        return {"train.py": DATA + self.trainer.read_text()}

    def test_the_rest_is_read_behind_the_trainer_and_a_notice_does_not_wait_for_it(self):
        one = self.begin(env={"FORMAT": "spotter", **self.held(10)})
        self.wait_training(one, 10)
        self.room(self.world.zones[1])
        self.notice(one)
        two = self.successor(one)
        first = self.wait_console(two, r"the newest checkpoint of the copy, [^,]+, is read")
        self.wait_training(two, 11)
        early = self.progress_of(two)
        self.assertLess(early["volume_read_bytes"], early["volume_total_bytes"])
        self.assertGreater(early["volume_total_bytes"], 240 << 20)
        wait("more to be read", lambda: self.progress_of(two)["volume_read_bytes"] >
             early["volume_read_bytes"])
        console = self.world.console(two)
        self.assertLess(first.start(), console.index("starting the trainer"))
        self.assertNotIn("behind the trainer", console)
        self.notice(two)
        three = self.successor(one, two)
        self.wait_console(three, r"all that vol-\w+ had is read, behind the trainer: 0\.\d GB in")
        self.assertNotIn("volume_read_bytes", self.world.status(three))
        self.gate.touch()
        self.assert_ended_well()
        self.assertEqual((self.kept_folder(".spotter") / "warm").read_text(), self.left + "\n")

    def test_where_a_rate_is_paid_ebs_loads_it(self):
        rate = {"image": "ami-0123456789abcdef0", "instance_types": ["p3.2xlarge"],
                "profile": "spotter-role", "zones": self.world.zones,
                "volume": {"size": 1, "initialization_rate": 300}}
        one = self.begin(env=self.held(10), launch=rate)
        self.wait_training(one, 10)
        self.room(self.world.zones[1])
        self.world.kill(one)
        two = self.successor(one)
        self.wait_training(two, 11)
        self.gate.touch()
        self.assert_ended_well(kills=1)
        self.assertNotIn("behind the trainer", self.world.console(two))
        self.assertFalse((self.kept_folder(".spotter") / "warm").exists())


class ColdData(Cold):
    snapshot = None

    def job(self, **more):
        job = super().job(**more)
        job["storage"] = [{"state": job["storage"]},
                          {"data": {"snapshot": self.snapshot, "mount": "${SPOTTER_MOUNT}-data"}}]
        return job

    def test_data_are_read_behind_the_trainer_and_the_next_agent_goes_on_there(self):
        self.snapshot = self.users_snapshot("", 240 << 20)
        one = self.begin(env=self.held(10))
        self.wait_training(one, 10)
        (volume,) = [it.text("volumeId") for it in self.ec2.volumes()
                     if it.tags().get("spotter:role") == "data"]
        kept = self.world.instance(one) / "run" / "warm.json"

        def position():
            return json.loads(kept.read_text())[volume] if kept.exists() else 0
        wait("a part to be read", lambda: position() > 32 << 20)
        self.assertGreater(self.progress_of(one)["volume_total_bytes"], 240 << 20)
        self.assertNotIn("behind the trainer", self.world.console(one))
        self.kill_agent(one)
        last = [position()]

        def all_is_read():
            last.append(position())
            self.assertGreaterEqual(last[-1], last[-2], "what was read is not read again")
            return re.search(f"all that {volume} had is read, behind the trainer",
                             self.world.console(one))
        wait("all to be read", all_is_read)
        self.assertGreater(last[-1], 240 << 20)
        self.gate.touch()
        self.wait_end()
        self.ec2.call("DeleteSnapshot", SnapshotId=self.snapshot)
        self.assert_ended_well(kills=1)
        self.assertIn(volume, (self.kept_folder(".spotter") / "warm").read_text().split(),
                      "the next instance of this zone does not read it again")


if __name__ == "__main__":
    life.harness.main()
