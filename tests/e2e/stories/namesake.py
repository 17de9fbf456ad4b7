"""Two jobs of one name in one account: what is left of the one's move is nothing to the other."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import life
from emulator import wait


class Namesake(life.Life):
    steps = 30

    def others_job(self):
        """The same name; another volume."""
        job = super().job(env={"STEPS": "4"})
        job["storage"]["ebs"]["tag"] = {"Name": "other-volume"}
        return life.harness.jobs.yaml(job)

    def may_both(self, text):
        """The instances' role is that of both jobs."""
        file = self.world.workplace / "other.yaml"
        file.write_text(text)
        done = subprocess.run(
            [self.world.bin / "spotter", "iam", "agent", file, "--account", ec2.ACCOUNT,
             "--region", ec2.REGION, "--role", ec2.ROLE], env={"SPOTTER_MOUNT": "/mnt/spotter"},
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=True)
        policy = self.world.workplace / "other.json"
        policy.write_text(json.dumps(json.loads(done.stdout)))
        self.world.more_policies = [policy]

    def target(self, capacity):
        self.ec2.call("ModifySpotFleetRequest", SpotFleetRequestId=self.fleet,
                      TargetCapacity=capacity)

    def nobody_runs(self):
        return all(one.text("instanceState/name") == "terminated" for one in self.ec2.instances())

    def break_off_a_move(self):
        """The original in the first zone, a free copy in the second, a snapshot; no instance."""
        one = self.begin(env={"PACE": "0.2"})
        self.wait_training(one, 3)
        self.room(self.world.zones[1])
        self.world.interrupt(one, 8)
        two = self.successor(one)
        wait("a copy", lambda: len(self.ec2.volumes()) > 2, every=0.05)
        self.room()
        self.target(0)
        self.world.kill(two)
        wait("the end of its instances", self.nobody_runs)
        wait("its volumes to be free", lambda: all(
            one.text("status") == "available" for one in self.ec2.volumes()))
        wait("the snapshot to be completed", lambda: all(
            one.text("status") == "completed" for one in self.ec2.snapshots()))

    def test_who_ends_deletes_and_takes_nothing_of_the_others_move(self):
        text = self.others_job()
        self.may_both(text)
        other = self.volume(tags=life.harness.jobs.volume_tags("other-volume", self.job_name))
        self.break_off_a_move()
        volumes = {one.text("volumeId"): one.tags() for one in self.ec2.volumes()}
        snapshots = {one.text("snapshotId"): one.tags() for one in self.ec2.snapshots()}
        self.assertEqual(len(volumes), 3, volumes)
        self.assertNotEqual(snapshots, {})
        copy = next(one for one, tags in volumes.items() if "spotter:parent" in tags)
        original = volumes[copy]["spotter:parent"]
        self.assertEqual(volumes[copy]["spotter:lineage"], original)
        self.assertEqual(volumes[copy]["spotter:storage"], "Name=mnist-volume")
        # As an earlier version tags it: of which volume it was made is then all that it says.
        for name in snapshots:
            self.ec2.call("DeleteTags", ResourceId=[name],
                          Tag=[{"Key": "spotter:storage"}, {"Key": "spotter:lineage"}])
        self.room(self.world.zones[1])  # where the copy would be at hand
        template = self.ec2.create_template("namesake", self.user_data(text, True, ""))
        fleet = self.ec2.request_spot_fleet(template, self.world.zones, tags=self.fleet_tags())
        wait("the other job to end", lambda: self.ec2.fleet_state(fleet) == "cancelled")
        wait("the end of its instances", self.nobody_runs)
        left = {one.text("volumeId"): one.tags() for one in self.ec2.volumes()}
        for name in (original, copy):
            self.assertEqual(left[name], volumes[name], "the other's volume was changed")
        self.assertEqual({one.text("snapshotId") for one in self.ec2.snapshots()},
                         set(snapshots), "the other's snapshot was deleted")
        mine = [name for name, tags in left.items() if tags.get("spotter:done") == "true"]
        self.assertEqual(len(mine), 1, left)
        self.assertEqual(left[mine[0]].get("spotter:lineage"), other)
        self.ec2.call("DeleteVolume", VolumeId=mine[0])
        self.room(*self.world.zones)
        self.target(1)
        self.assert_ended_well()

    def test_the_others_copy_that_is_not_promoted_yet_is_not_taken(self):
        gone = "vol-0123456789abcdef0"
        tags = {"spotter:job": self.job_name, "spotter:role": "verified", "spotter:parent": gone,
                "spotter:generation": "3", "spotter:lineage": gone, "spotter:moves": "1",
                "spotter:storage": "Name=other-volume"}
        copy = self.volume(tags=tags)
        instance = self.launch(self.job())
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "no volume carries the tag")
        self.assert_volumes(copy)
        self.assertEqual(self.ec2.volumes()[0].tags(), tags)
        self.assert_fleet_untouched()

    def test_a_tag_with_wildcards_means_itself(self):
        name = "dat\\a*"  # EC2's filters: `data` and any text
        theirs = [self.volume(tags={"Name": of}) for of in ("data-of-others", "dat\\a1")]
        self.volume(tags=life.harness.jobs.volume_tags(name, self.job_name))
        job = self.job()
        job["storage"]["ebs"]["tag"] = {"Name": name}
        self.wait_training(self.launch(job), 1)
        seen = {one.text("volumeId"): one for one in self.ec2.volumes()}
        for each in theirs:
            self.assertEqual(seen[each].text("status"), "available")
            self.assertEqual(set(seen[each].tags()), {"Name"})


if __name__ == "__main__":
    life.harness.main()
