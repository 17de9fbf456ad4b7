"""The trainer's unit on a whole machine whose trainer mounts views of data: it may, no more."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import channels
import harness
import whole
import whole_machines
from emulator import wait

TRAINER = "spotter-trainer-story.service"
# What the package fuse3 and udev would bring, from the machine that runs the tests.
FUSE = """\
#!/bin/sh
mknod /dev/fuse c 10 229 && chmod 666 /dev/fuse
ln -sf {usr}/bin/fusermount3 /usr/bin/
"""


class WholeChannels(whole_machines.WholeLife):
    def borrow_fuse(self):
        for name in ("/dev/fuse", "/usr/bin/fusermount3"):
            if not pathlib.Path(name).exists():
                self.skipTest(f"{name} is not there")
        usr = self.world.shared / "usr"
        usr.mkdir()
        subprocess.run(["mount", "--bind", "-o", "ro", "/usr", usr], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", usr], check=True)
        whole.write(self.world.workplace / "cloud/var/lib/cloud/scripts/per-boot/fuse",
                    FUSE.format(usr=usr), 0o755)

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
                              "NoNewPrivileges,ProtectSystem")
        self.assertEqual(shown.splitlines(), ["ProtectSystem=strict", "NoNewPrivileges=no"])
        self.assertNotIn("fuse", self.world.run(one, "cat", "/proc/mounts"), "it is the unit's own")
        self.world.interrupt(one, 20)
        self.wait_status(one, "released", lambda status: status.get("released"))
        wait("the volume to be free", lambda: self.volume_state(volume) != "in-use")
        wait("the fleet to be cancelled", self.fleet_is_cancelled)


if __name__ == "__main__":
    harness.main()
