"""A share over sshfs whose server lives, and fails: no room, no permission, another folder in its
place, a network that is away for long. What was durable stays, the reason is said, and the job goes
on when there is none any more."""

import pathlib
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import disk_full
import harness
import job as jobs
import shares
import sshd
from emulator import wait


@unittest.skipIf(sshd.why_not(), sshd.why_not())
class SshfsTroubles(shares.SshfsLife):
    server_user = jobs.UNPRIVILEGED  # root would be refused nothing

    def test_a_server_without_room(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=16m,mode=755,uid={self.server_user}",
                        "none", self.folder], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", self.folder], check=False,
                        capture_output=True)
        self.steps = 200  # it must not be done before there is no room, on a busy machine
        instance = self.begin(**self.patient)
        self.wait_training(instance, 5)
        disk_full.stuff_until(self.folder / "stuffing", lambda: re.search(
            r"blocked: .*no room is left .*on its server", self.world.console(instance)))
        self.assert_fleet_untouched()
        (self.folder / "stuffing").unlink()
        self.assert_ended_well(kills=5)

    def test_permission_that_is_taken_away_and_given_back(self):
        instance = self.begin(**self.patient)
        self.wait_training(instance, 5)
        self.home().chmod(0o500)  # nothing new, and nothing renamed
        (self.home() / ".spotter").chmod(0o500)
        (self.home() / "checkpoints").chmod(0o500)
        self.wait_console(instance, "Permission denied: .*/checkpoints/")
        self.wait_console(instance, "blocked: .*Permission denied")
        for folder in (self.home(), self.home() / ".spotter", self.home() / "checkpoints"):
            folder.chmod(0o755)
        self.assert_ended_well(kills=3)
        # Between two tries nothing is mounted, and nothing there is asked.
        self.assertNotRegex(self.world.console(instance), "cannot look at .*No such file")

    def test_a_folder_that_is_gone_is_not_begun_again(self):
        instance = self.begin(**self.patient)
        self.wait_training(instance, 5)
        away = self.folder.with_name("away")  # as when a server's disk is not mounted yet
        self.folder.rename(away)
        self.folder.mkdir()
        shutil.chown(self.folder, self.server_user)
        self.wait_console(instance, "blocked: .*/story was there, and is gone")
        self.assertEqual(list(self.folder.iterdir()), [], "begun again")
        self.assert_fleet_untouched()
        self.folder.rmdir()
        away.rename(self.folder)
        self.assert_ended_well(kills=3)

    def connections(self, instance):
        """The processes of ssh that carry its mount."""
        return {pid for pid, words in self.everybody(instance) if "-s sftp" in words}

    def test_a_network_that_is_away_until_ssh_has_given_it_up(self):
        instance = self.begin(env={"PACE": "0.7"}, **self.patient)
        self.wait_training(instance, 5)
        before = self.connections(instance)
        self.server.switch.cut()
        self.wait_status(instance, "to say what hangs", lambda one:
                         "does not answer" in one.get("storage_says", ""))
        wait("ssh to give it up", lambda: not before & self.connections(instance))  # then EIO
        self.assertEqual(len(self.agents(instance)), 1)
        self.server.switch.mend()
        self.assert_ended_well(kills=4)


if __name__ == "__main__":
    harness.main()
