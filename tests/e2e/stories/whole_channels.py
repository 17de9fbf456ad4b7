"""A trainer with views of data on a whole machine: root mounts them, its unit is any other's."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import channels
import harness
import whole
import whole_machines
from emulator import wait

TRAINER = "spotter-trainer-story.service"
# As udev has it. No fusermount3: nothing needs a program that gives rights.
FUSE = """\
#!/bin/sh
mknod /dev/fuse c 10 229 && chmod 666 /dev/fuse
"""


class WholeChannels(whole_machines.WholeLife):
    def borrow_fuse(self):
        if not pathlib.Path("/dev/fuse").exists():
            self.skipTest("/dev/fuse is not there")
        whole.write(self.world.workplace / "cloud/var/lib/cloud/scripts/per-boot/fuse", FUSE, 0o755)

    def test_views_of_data_are_read_and_released_with_the_volume(self):
        self.borrow_fuse()
        expected = channels.Channels.put(self)
        volume = self.volume()
        one = self.launch(self.job(trainer={"command": channels.VIEW, "stop_grace": "2s"},
                                   env={"EXPECTED": expected},
                                   channels={"train": "s3://data/train/,mode=fast_file"}),
                          zones=self.world.zones)
        self.wait_training(one, 1)
        shown = self.world.run(one, "systemctl", "show", TRAINER, "-p",
                              "NoNewPrivileges,ProtectSystem,CapabilityBoundingSet")
        self.assertIn("NoNewPrivileges=yes", shown)
        self.assertIn("ProtectSystem=strict", shown)
        self.assertNotIn("cap_sys_admin", shown)
        view, = (line for line in self.world.run(one, "cat", "/proc/mounts").splitlines()
                 if " fuse.spotter " in line)
        self.assertTrue({"ro", "nosuid", "nodev"} <= set(view.split()[3].split(",")), view)
        self.world.interrupt(one, 20)
        self.wait_status(one, "released", lambda status: status.get("released"))
        wait("the volume to be free", lambda: self.volume_state(volume) != "in-use")
        wait("the fleet to be cancelled", self.fleet_is_cancelled)


if __name__ == "__main__":
    harness.main()
