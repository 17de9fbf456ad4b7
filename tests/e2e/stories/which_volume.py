"""No volume, two volumes, a volume that another instance holds: said clearly, nothing touched."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import job as jobs


class WhichVolume(harness.Story):
    def test_no_volume_with_the_tag(self):
        other = self.volume(tags={"Name": "something-else"})
        instance = self.launch(self.job())
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "no volume carries the tag")
        self.assert_volumes(other)
        self.assert_fleet_untouched()

    def test_it_goes_on_when_the_volume_appears(self):
        instance = self.launch(self.job(env={"STEPS": "100000"}))
        self.wait_stage(instance, "blocked")
        self.volume()
        self.wait_training(instance, 1)

    def test_two_volumes_with_the_tag(self):
        one, two = self.volume(), self.volume()
        instance = self.launch(self.job())
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "several volumes carry the tag")
        self.assertEqual(self.volume_state(one), "available")
        self.assertEqual(self.volume_state(two), "available")
        self.assert_volumes(one, two)
        self.assert_fleet_untouched()

    def test_a_volume_held_by_another_instance_is_waited_for(self):
        volume = self.volume()
        self.world.control("instance", "add", "--zone", self.zone)
        holder = self.wait_instance()
        self.ec2.call("AttachVolume", VolumeId=volume, InstanceId=holder, Device="/dev/sdf")
        self.wait_volume(volume, "in-use")
        instance = self.launch(self.job(env={"STEPS": "3"}), besides=(holder,))
        self.wait_console(instance, "attached to another instance")
        self.assertEqual(self.volume_state(volume), "in-use")
        self.assert_volumes(volume)
        self.assert_fleet_untouched()
        # Not forced: it is released by its holder, and only then taken.
        self.ec2.call("DetachVolume", VolumeId=volume)
        self.wait_status(instance, "the job to go on", lambda status: status["stage"] in
                         ("training", "finished"))

    def test_a_generation_that_is_no_number_is_not_an_old_one(self):
        """Somebody edited the tag: read as 0, the original was older than its copy, and deleted."""
        tags = jobs.volume_tags(jobs.TAG, self.job_name)
        original = self.volume(tags={**tags, "spotter:generation": "four"})
        copy = self.volume(tags={
            "spotter:job": self.job_name, "spotter:role": "verified", "spotter:parent": original,
            "spotter:lineage": original, "spotter:generation": "3", "spotter:moves": "1"})
        instance = self.launch(self.job(env={"STEPS": "3"}))
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "spotter:generation of " + original + " is no number")
        self.assert_volumes(original, copy)
        self.assert_fleet_untouched()


if __name__ == "__main__":
    harness.main()
