"""Storage that is a folder: whoever made it (a person, AWS Batch, the image) keeps it."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import shares
from emulator import wait


class Folder(shares.ShareLife):
    def setUp(self):
        super().setUp()
        self.folder = self.world.workplace / "shared"
        self.folder.mkdir()
        self.folder.chmod(0o755)

    def storage(self):
        return {"folder": {"path": str(self.folder)}}

    def home(self):
        return self.folder / self.job_name

    def test_a_notice_and_then_a_kill_and_the_job_goes_on(self):
        first = self.begin(env=self.held(15))
        self.wait_training(first, 5)
        self.world.interrupt(first, 120)
        self.wait_released(first)
        self.assertEqual(self.trainers(first), [])
        self.world.kill(first)
        second = self.successor(first)
        self.wait_status(second, "training", lambda one: one.get("resumed_step"))
        self.wait_more_steps(second)
        self.world.kill(second)
        third = self.successor(first, second)
        status = self.wait_status(third, "training", lambda one: one.get("resumed_step"))
        self.assertGreaterEqual(status["resumed_step"], 8)
        self.gate.touch()
        self.assert_ended_well(kills=1)

    def test_a_killed_agent_takes_its_trainer_over(self):
        instance = self.begin()
        self.wait_training(instance, 5)
        trainers = self.trainers(instance)
        self.kill_agent(instance)
        self.wait_console(instance, "it is taken over")
        self.wait_more_steps(instance)
        self.assertEqual(self.trainers(instance), trainers)
        self.assert_ended_well()

    def test_a_fleet_of_two_is_refused_until_it_is_one(self):
        self.request_fleet = lambda template, zones: self.ec2.request_spot_fleet(
            template, zones, 2, self.fleet_tags())
        instance = self.begin()
        self.wait_console(instance, "keeps more than one instance")
        self.assertEqual(self.trainer_runs(), [], "a trainer was started")
        self.assertEqual(list(self.folder.iterdir()), [], "something was written")

    def test_a_folder_that_is_missing_is_named(self):
        self.folder.rmdir()
        instance = self.begin()
        self.wait_console(instance, f"there is no folder {self.folder}: make it")
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.assert_ended_well()

    def test_a_result_that_cannot_be_looked_at_is_not_missing(self):
        once = ("cd $SPOTTER_STORAGE && echo >>starts; mkdir good && touch good/result && "
                "ln -s way way")
        instance = self.begin(trainer={"command": once, "result": "way/result"})
        self.wait_console(instance, "whether there is .* is not known yet")
        time.sleep(15)  # more than one look of the agent's
        self.assertNotIn("attempt 1 without progress", self.world.console(instance))
        way = self.home() / "way"  # that leads to itself
        way.unlink()
        way.symlink_to("good")
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        self.assertTrue((self.home() / "DONE").exists())
        self.assertEqual((self.home() / "starts").read_text(), "\n", "it trained again")


if __name__ == "__main__":
    harness.main()
