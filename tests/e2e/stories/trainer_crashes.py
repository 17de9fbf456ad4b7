"""A trainer that only ever crashes: counted on the volume, then the fleet is scaled to zero."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import life
from emulator import wait


class TrainerCrashes(harness.Story):
    def test_attempts_are_counted_and_then_it_stops_costing_money(self):
        volume = self.volume()
        job = self.job(env={"BEHAVIOUR": "crash"},
                       on_failure={"attempts_without_progress": 2, "then": "scale-to-zero"})
        instance = self.launch(job)
        wait("the fleet's target to be 0", lambda: self.ec2.fleet_target(self.fleet) == 0)
        wait("the instance to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        self.assertFalse(self.ec2.fleet_state(self.fleet).startswith("cancelled"))
        self.wait_volume(volume, "available")  # an instance may be gone before its disk is free
        self.assert_volumes(volume)
        console = self.world.console(instance)
        self.assertRegex(console, "(?i)attempts_without_progress")
        self.assertIn("always crashes", console, "the trainer's last words are in the journal")
        log = (self.world.instance(instance) / "run" / "trainer.log")
        text = log.read_text() if log.exists() else console
        self.assertEqual(text.count("behaviour crash"), 2)

    def test_hold_keeps_the_instance(self):
        volume = self.volume()
        job = self.job(env={"BEHAVIOUR": "crash"},
                       on_failure={"attempts_without_progress": 1, "then": "hold"})
        instance = self.launch(job)
        self.wait_stage(instance, "gave-up")
        self.assert_fleet_untouched()
        self.assert_volumes(volume)


class Hang(life.Life):
    def test_one_that_hangs_is_stopped_and_started_again(self):
        one = self.begin(env=self.held(20), on_failure={"stall": "30s"})
        self.wait_console(one, r"the trainer hangs: for 0\.\d minutes no line, step or checkpoint")
        self.wait_console(one, r"  \d+ \(\S+\), thread \d+ \S+")
        self.assert_ended_well()  # each start does 20 steps more


if __name__ == "__main__":
    harness.main()
