"""The ways in which EC2 takes an instance away, each survived by the job, one after the other."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class Interruptions(life.Life):
    def test_a_notice_of_five_seconds_then_another_zone(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 5)
        two = self.successor(one)  # the interruption emptied the first zone
        self.wait_training(two, 10)
        self.assert_ended_well()
        self.assertGreater(len(self.trainer_runs()), 1)
        self.assert_log_is_with_the_job(one, two)

    def assert_log_is_with_the_job(self, one, two):
        """All that the agents said until they released it, though their instances are gone."""
        log = (self.kept_folder(".spotter") / "agent.log").read_text()
        said = [line.split(maxsplit=3)[1:] for line in log.splitlines()]
        self.assertIn([one, "warning"], [words[:2] for words in said])
        self.assertRegex(log, f"{one} warning interruption notice")
        self.assertRegex(log, f"{two} info +the trainer goes on from step")
        self.assertRegex(log, f"{two} info +the trainer is done")
        times = [line.split()[0] for line in log.splitlines()]
        self.assertEqual(times, sorted(times))

    def test_no_notice_then_another_zone(self):
        one = self.begin(env=self.held(20))
        self.wait_training(one, 5)
        self.room(self.world.zones[1])
        self.world.kill(one)
        self.gate.touch()
        self.successor(one)
        self.assert_ended_well(kills=1)

    def test_a_volume_with_as_many_tags_as_ec2_takes(self):
        one = self.begin(env=self.held(20))
        self.wait_training(one, 5)
        [volume] = self.ec2.volumes()
        users = [f"team-{number:02}" for number in range(50 - len(volume.tags()))]
        self.ec2.call("CreateTags", ResourceId=[volume.text("volumeId")],
                      Tag=[{"Key": key, "Value": "x"} for key in users])
        self.room(self.world.zones[1])
        self.world.kill(one)
        two = self.successor(one)
        self.wait_training(two, 5)
        [copy] = self.ec2.volumes()
        kept = [key for key in copy.tags() if key in users]
        self.assertGreater(len(kept), 30)
        self.assertIn("EC2 takes 50 tags of a volume: the copy does not get team-",
                      self.world.console(two))
        self.gate.touch()
        self.assert_ended_well(kills=1)

    def test_stopped_with_its_volume_still_attached(self):
        one = self.begin(env={"BEHAVIOUR": "deaf"})
        self.wait_training(one, 5)
        self.world.interrupt(one, 6, action="stop")
        self.successor(one)
        self.assert_ended_well(kills=1)

    def test_hibernation_leaves_no_time(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 120, action="hibernate")
        self.successor(one)
        self.assert_ended_well(kills=1)

    def test_a_notice_withdrawn(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 60)
        self.wait_status(one, "released", lambda status: status.get("released"))
        self.world.control("withdraw", one)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
