"""`cache: instance-store`: the files of a channel on the machine's own disk, fetched again by the
next one; on a machine without such a disk they are on the storage, as ever."""

import hashlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life
import volumes

# Prints its folder, then the trainer of every story.
READ = """cd "$SM_CHANNEL_TRAIN" && cat 1 2 | sha256sum | cut -c1-64 >>"$NOTES/read" &&
readlink -f . >>"$NOTES/where" && echo "${SPOTTER_CACHE:-none}" >>"$NOTES/cache" &&
cd "$SPOTTER_STORAGE/code" && exec ./train.py"""
# What the verb `mount` makes of a disk (tests/host/instance_store_test.cpp): a folder of the
# trainer's user.
DISK = "mkdir -p $SPOTTER_MOUNT-cache/story && chmod 777 $SPOTTER_MOUNT-cache/story"


class InstanceStore(life.Life):
    def setUp(self):
        super().setUp()
        self.notes = self.world.shared / "notes"
        self.notes.mkdir()
        self.notes.chmod(0o777)
        folder = self.world.directory / "s3/data/train"
        folder.mkdir(parents=True)
        for name in ("1", "2"):
            (folder / name).write_bytes(name.encode() * 1_000_000)
        self.whole = hashlib.sha256(b"1" * 1_000_000 + b"2" * 1_000_000).hexdigest()
        self.disks = DISK

    def launch(self, job, **more):
        return super().launch(job, before=self.disks, **more)

    def start(self, **more):
        return self.begin(trainer={"command": READ}, env={"NOTES": str(self.notes)},
                          channels={"train": {"source": "s3://data/train/", "mode": "file"}},
                          cache="instance-store", **more)

    def lines(self, name):
        return (self.notes / name).read_text().splitlines()

    def test_each_machine_fetches_its_own_and_none_is_on_the_volume(self):
        one = self.start()
        self.wait_training(one, 3)
        self.world.kill(one)
        two = self.successor(one)
        self.wait_training(two, 5)
        self.assertEqual(self.lines("read"), [self.whole] * 2)
        for instance, where, cache in zip((one, two), self.lines("where"), self.lines("cache")):
            self.assertIn(instance, where)
            self.assertTrue(where.endswith("mnt-cache/story/train"), where)
            self.assertTrue(cache.endswith("mnt-cache/story"), cache)
        self.assert_ended_well(kills=1)
        data = volumes.copy_out(self.world, self.left, "ml") / "input/data"
        self.assertTrue((data / "train").is_symlink())

    def test_without_such_a_disk_they_are_on_the_storage(self):
        self.disks = ""
        one = self.start()
        self.wait_training(one, 3)
        self.wait_console(one, "no instance store")
        self.assertEqual(self.lines("read"), [self.whole])
        self.assertTrue(self.lines("where")[0].endswith("/ml/input/data/train"))
        self.assertEqual(self.lines("cache"), ["none"])
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
