"""An interruption notice: the volume is released before the deadline, whatever the trainer does."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness


class Notice(harness.Story):
    def _interrupted(self, behaviour, seconds, env):
        volume = self.volume()
        instance = self.launch(self.job(env={"BEHAVIOUR": behaviour, "STEPS": "100000", **env}))
        self.wait_training(instance, 4)
        pace = json.loads((self.world.instance(instance) / "run" / "pace").read_text())
        self.assertEqual("checkpoint_every_seconds" in pace, not env, "job.yaml's word counts")
        self.world.interrupt(instance, seconds)  # after them nobody is left there to say so
        self.wait_released(instance)
        self.wait_volume(volume, "available")
        self.assertEqual(self.trainers(instance), [])
        self.assert_fleet_untouched()
        return volume, instance

    def test_a_trainer_that_listens_checkpoints_and_its_successor_goes_on(self):
        volume, instance = self._interrupted("train", 120, {})
        stopped = self.world.status(instance)["checkpoint_step"]
        self.world.kill(instance)  # nobody waits for the deadline
        # An interruption means that the zone is full; somebody else's instance ends there.
        self.world.control("fault", "capacity", self.zone, "1")
        other = self.wait_instance(besides=(instance,))
        status = self.wait_status(other, "training", lambda one: one.get("resumed_step"))
        self.assertEqual(status["resumed_step"], stopped)
        self.assertEqual(self.volume_state(volume), "in-use")
        self.wait_status(other, "a pace", lambda one: one.get("steps_per_second"))
        shown = self.shown(other)
        for line in (f"instance    {other}, p3.2xlarge in us-west-2", f"volume      {volume}",
                     "stage       training on ", "checkpoint  step ", "spent       ",
                     "1 interruption\n"):
            self.assertIn(line, shown)

    def shown(self, instance):
        """What `spotter status` prints there."""
        environment = {**os.environ, "SPOTTER_RUN": str(self.world.instance(instance) / "run")}
        return subprocess.run([pathlib.Path(harness.BINARIES) / "spotter", "status"], text=True,
                              env=environment, capture_output=True, check=True).stdout

    def test_a_trainer_that_ignores_signals_is_killed_in_time(self):
        self._interrupted("deaf", 60, {"SPOTTER_CHECKPOINT_EVERY": "7"})


if __name__ == "__main__":
    harness.main()
