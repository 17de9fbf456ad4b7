"""A disk that is blank and not ours, or holds something else, or does not mount: left as it is."""

import hashlib
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import job as jobs


class WhichDisk(harness.Story):
    def backing(self, volume):
        return next((self.world.directory / "volumes").glob(f"{volume}*"))

    def test_a_blank_disk_that_is_not_marked_as_ours_is_not_formatted(self):
        volume = self.volume(tags={"Name": jobs.TAG})
        instance = self.launch(self.job())
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "spotter:format=blank")
        self._assert_untouched(volume)
        if self.backing(volume).is_dir():
            self.assertEqual(list(self.backing(volume).iterdir()), [])
        else:
            self.assertEqual(self.backing(volume).stat().st_blocks, 0)

    def test_a_foreign_file_system_is_left_alone(self):
        self.root_only("a foreign file system needs a real disk")
        volume = self.volume()
        subprocess.run(["mkfs.ext4", "-q", "-F", self.backing(volume)], check=True)
        before = self._sum(volume)
        instance = self.launch(self.job())
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "something other than the file system")
        self._assert_untouched(volume)
        self.assertEqual(self._sum(volume), before)

    def test_a_file_system_that_does_not_mount_is_left_alone(self):
        self.root_only("a damaged file system needs a real disk")
        volume = self.volume()
        disk = self.backing(volume)
        subprocess.run(["mkfs.xfs", "-q", "-f", disk], check=True)
        with open(disk, "r+b") as file:  # the superblock stays recognisable, its sum is wrong
            file.seek(200)
            file.write(b"\xff" * 40)
        before = self._sum(volume)
        instance = self.launch(self.job())
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "blocked: .*file system")
        self._assert_untouched(volume)
        self.assertEqual(self._sum(volume), before)

    def _sum(self, volume):
        with open(self.backing(volume), "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def _assert_untouched(self, volume):
        self.assertEqual(self.trainers(self.instance), [])
        self.assert_volumes(volume)
        self.assert_fleet_untouched()


if __name__ == "__main__":
    harness.main()
