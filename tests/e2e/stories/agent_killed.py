"""kill -9 of the agent alone: the trainer does not notice, the next agent adopts it."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import wait


class AgentKilled(harness.Story):
    def _training(self, steps, **env):
        self.volume()
        instance = self.launch(self.job(env={"STEPS": str(steps), **env}))
        self.wait_training(instance, 3)
        return instance

    def _kill(self, instance):
        before = self.agents(instance)
        self.assertEqual(len(before), 1)
        self.kill_agent(instance)
        wait("a new agent", lambda: [pid for pid in self.agents(instance) if pid not in before])

    def test_the_trainer_goes_on_and_the_job_finishes(self):
        instance = self._training(40, **self.held(20))
        trainer = self.trainers(instance)
        self.assertTrue(trainer)
        self._kill(instance)
        self.wait_console(instance, "it is taken over")
        self.assertEqual(self.trainers(instance), trainer)
        self.gate.touch()
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"))
        text = (self.world.instance(instance) / "run" / "trainer.log")
        if text.exists():
            self.assertEqual(text.read_text().count("behaviour train"), 1)

    def test_how_it_ended_is_known_although_nobody_watched(self):
        instance = self._training(25)
        for _ in range(20):  # keep the agents down until the trainer has ended by itself
            self.kill_agent(instance)
            if not self.trainers(instance):
                break
            time.sleep(0.2)
        wait("the trainer's end", lambda: not self.trainers(instance))
        wait("the fleet to be cancelled", lambda: self.ec2.fleet_state(self.fleet)
             .startswith("cancelled"))


if __name__ == "__main__":
    harness.main()
