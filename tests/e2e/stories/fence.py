"""A job with a fence in S3: the volume moves between zones, and no consistency bound is waited for.
A move without a fence waits for none either. Whoever waits for it says so: "making sure"."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life
from emulator import wait

PLACE = "s3://fenced/jobs"
BOUND = 5  # seconds


class Fenced(life.Life):
    steps = 200

    def setUp(self):
        super().setUp()
        self.folder = self.world.directory / "s3/fenced/jobs" / self.job_name
        (self.world.directory / "s3/fenced").mkdir(parents=True)

    def begin(self, **more):
        return super().begin(fence=PLACE, bound=f"{BOUND}s", env={"PACE": "0.2"}, **more)

    def epoch(self):
        """The one object of the job; what it says."""
        objects = [path for path in self.folder.iterdir() if path.suffix == ".epoch"]
        self.assertEqual(len(objects), 1, objects)
        return json.loads(objects[0].read_text())

    def of_the_job(self):
        return [one.text("volumeId") for one in self.ec2.volumes()]

    def assert_moved(self, first, before, instance):
        """The copy is the job's: in S3, and for a person who looks at the tags."""
        epoch = self.epoch()
        self.assertEqual((epoch["state"], epoch["holder"]), ("using", instance))
        self.assertNotEqual(epoch["volume"], first)
        self.assertEqual(epoch["line"], first)
        self.assertGreater(epoch["epoch"], before["epoch"])
        self.assertGreater(epoch["generation"], before["generation"])
        tags = next(one.tags() for one in self.ec2.volumes()
                    if one.text("volumeId") == epoch["volume"])
        self.assertEqual(tags["spotter:fence"], f"{PLACE}/{self.job_name}/")
        self.assertEqual(tags["spotter:role"], "state")
        # What is left of the move goes when a checkpoint was made on the copy.
        wait("the original to be deleted", lambda: self.of_the_job() == [epoch["volume"]])

    def move(self, end):
        """Training in the first zone, ended by `end`, goes on in the second."""
        one = self.begin()
        self.wait_training(one, 5)
        [first] = self.of_the_job()
        before = self.epoch()
        self.assertEqual((before["state"], before["volume"], before["holder"]),
                         ("using", first, one))
        self.room(self.world.zones[1])
        end(one)
        two = self.successor(one)
        self.wait_training(two, 6)
        self.assert_moved(first, before, two)
        return one

    def end(self, **how):
        self.assert_ended_well(**how)
        self.assertEqual((self.epoch()["state"], self.epoch()["volume"]), ("done", self.left))

    def test_a_move_after_a_notice(self):
        one = self.move(self.notice)
        self.assertIn("is released", self.world.console(one))
        self.end()

    def test_a_move_after_a_loss(self):
        self.move(self.world.kill)
        self.end(kills=1)

    def test_without_a_fence_a_move_waits_for_no_bound_either(self):
        one = super().begin(bound=f"{BOUND}s", env={"PACE": "0.2"})
        self.wait_training(one, 5)
        [first] = self.of_the_job()
        self.room(self.world.zones[1])
        self.notice(one)
        two = self.successor(one)
        self.wait_training(two, 6)
        self.assertNotIn(first, self.of_the_job())
        self.assertNotIn("making sure", self.world.console(two))
        self.assert_ended_well()

    def test_s3_down_in_the_middle_of_a_move(self):
        one = self.begin()
        self.wait_training(one, 5)
        [first] = self.of_the_job()
        before = self.epoch()
        self.room(self.world.zones[1])
        self.world.interrupt(one, 30)
        two = self.successor(one)
        wait("a copy", lambda: len(self.ec2.volumes()) > 1, every=0.05)
        self.fault("s3-slow-down", percent=100)
        moving = self.epoch()
        self.wait_console(two, "a call failed")
        self.assertEqual(self.epoch(), moving, "nothing is committed")
        self.assertEqual(len(self.trainer_runs()), 1, "nor trained on")
        self.assertIn(first, self.of_the_job())
        self.fault("s3-slow-down", percent=0)
        self.wait_training(two, 6)
        self.assert_moved(first, before, two)
        self.end()

    def test_an_agent_without_it_does_not_use_the_volume(self):
        tags = {**life.harness.jobs.volume_tags(life.harness.jobs.TAG, self.job_name),
                "spotter:fence": f"{PLACE}/{self.job_name}/"}
        instance = super().begin(volume={"tags": tags})
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "spotter:fence names another fence")
        self.assertEqual(self.ec2.volumes()[0].text("status"), "available")
        self.assertEqual(self.trainer_runs(), [])

    def test_an_object_that_is_gone_is_not_written_again(self):
        tags = {**life.harness.jobs.volume_tags(life.harness.jobs.TAG, self.job_name),
                "spotter:fence": f"{PLACE}/{self.job_name}/"}
        instance = self.begin(volume={"tags": tags})
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, "object in S3 is not there")
        self.assertFalse(self.folder.exists())
        self.assertEqual(self.trainer_runs(), [])


if __name__ == "__main__":
    life.harness.main()
