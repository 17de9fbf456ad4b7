"""A volume of data beside the job's own: of one snapshot, in each zone its own, gone at the end."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life

LESSON = "what a terabyte of lessons says\n"
READ = ('cat "$SPOTTER_STORAGE-data/lesson" >>"$NOTES/read"; '
        'touch "$SPOTTER_STORAGE-data/mark" 2>>"$NOTES/refused" && echo yes >>"$NOTES/written"; '
        'exec ./train.py')


class DataVolumes(life.Life):
    snapshot = None

    def setUp(self):
        super().setUp()
        self.root_only("what is read-only is mounted so")
        self.notes = self.world.shared / "notes"
        self.notes.mkdir()
        self.notes.chmod(0o777)

    def job(self, **more):
        trainer = {**(more.pop("trainer", None) or {}), "command": READ}
        env = {**(more.pop("env", None) or {}), "NOTES": str(self.notes)}
        job = super().job(env=env, trainer=trainer, **more)
        job["storage"] = [{"state": job["storage"]},
                          {"data": {"snapshot": self.snapshot, "mount": "${SPOTTER_MOUNT}-data",
                                    "initialization_rate": 200}}]
        return job

    def data(self):
        """Volumes of data that are there: {id: zone}."""
        return {one.text("volumeId"): one.text("availabilityZone") for one in self.ec2.volumes()
                if one.tags().get("spotter:role") == "data"}

    def starts(self):
        return (self.notes / "read").read_text()

    def assert_all_gone_but_the_snapshot(self, **more):
        self.wait_end()
        self.assertEqual(self.data(), {})
        self.assertEqual([one.text("snapshotId") for one in self.ec2.snapshots()], [self.snapshot])
        self.ec2.call("DeleteSnapshot", SnapshotId=self.snapshot)
        self.assert_ended_well(**more)

    def test_each_zone_has_its_own_which_is_read_and_never_written(self):
        self.snapshot = self.users_snapshot(LESSON)
        here, there = self.world.zones
        self.room(here)
        one = self.begin(env={"PACE": "0.3"})
        self.wait_training(one, 3)
        self.assertEqual(self.starts(), LESSON)
        self.assertRegex((self.notes / "refused").read_text(), "Read-only file system")
        self.assertEqual(list(self.data().values()), [here])
        first = list(self.data())[0]
        self.assertEqual(self.volume_state(first), "in-use")
        self.assertIn(f"{self.snapshot} at 200 MiB/s", self.world.control("state", "--json"))
        self.room(there)
        self.notice(one)
        two = self.successor(one)
        self.wait_more_steps(two)
        self.assertEqual(sorted(self.data().values()), [here, there])
        self.assertEqual(self.volume_state(first), "available")
        self.assertEqual(self.starts(), 2 * LESSON)
        both = self.data()
        self.room(here)
        self.notice(two)
        three = self.successor(one, two)
        self.wait_more_steps(three)
        self.assertEqual(self.data(), both, "what lies there is used again")
        self.assertFalse((self.notes / "written").exists())
        self.assert_all_gone_but_the_snapshot()
        self.assertEqual(self.starts(), 3 * LESSON)

    def test_an_agent_that_is_killed_leaves_none_behind(self):
        self.snapshot = self.users_snapshot(LESSON)
        one = self.begin(zones=[self.zone], env={"PACE": "0.2"})
        self.wait_training(one, 3)
        made = self.data()
        self.kill_agent(one)
        self.wait_more_steps(one)
        self.assertEqual(self.data(), made)
        self.assertEqual(self.starts(), LESSON, "the trainer was adopted")
        self.assert_all_gone_but_the_snapshot(kills=1)

    def test_a_namesakes_volumes_of_the_same_snapshot_are_neither_used_nor_deleted(self):
        self.snapshot = self.users_snapshot(LESSON)
        tags = {"spotter:job": self.job_name, "spotter:role": "data",
                "spotter:storage": "Name=other-volume"}
        theirs = [self.volume(tags=tags, SnapshotId=self.snapshot, zone=zone)
                  for zone in self.world.zones]
        del tags["spotter:storage"]  # as an earlier version tagged it: whose it is nobody knows
        theirs.append(self.volume(tags=tags, SnapshotId=self.snapshot))
        one = self.begin(zones=[self.zone], env={"PACE": "0.2"})
        self.wait_training(one, 3)
        (ours,) = set(self.data()) - set(theirs)
        seen = {volume.text("volumeId"): volume for volume in self.ec2.volumes()}
        self.assertEqual(seen[ours].tags(), {**tags, "spotter:storage": "Name=mnist-volume"})
        self.assertEqual(self.volume_state(ours), "in-use")
        self.wait_end()
        self.assertEqual(sorted(self.data()), sorted(theirs), "ours is gone, theirs are not")
        for volume in theirs:
            self.assertEqual(self.volume_state(volume), "available")
            self.ec2.call("DeleteVolume", VolumeId=volume)
        self.assert_all_gone_but_the_snapshot()

    def test_a_snapshot_that_is_not_there_is_named_and_nothing_is_ended(self):
        self.snapshot = "snap-0123456789abcdef0"
        one = self.begin(zones=[self.zone])
        self.wait_stage(one, "blocked")
        self.wait_console(one, "snap-0123456789abcdef0 for .*InvalidSnapshot.NotFound")
        self.assertFalse((self.notes / "read").exists(), "the trainer waits for its data")
        self.assert_fleet_untouched()

    def test_a_wrong_list_is_reported_before_anything_begins(self):
        self.snapshot = "vol-1"
        job = self.job()
        job["storage"].append({"state": {"folder": {"path": "/data"}}})
        file = self.world.workplace / "wrong.yaml"
        file.write_text(life.harness.jobs.yaml(job))
        done = subprocess.run([self.world.bin / "spotter", "agent", "--check", "--job", file],
                              env={"SPOTTER_MOUNT": "/mnt/spotter"}, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        for words in ("expected a snapshot's id", "expected exactly one state, found 2",
                      "the state is kept on `ebs`"):
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    life.harness.main()
