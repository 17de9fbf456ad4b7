"""How a trainer may end: as a notice comes, without its result, with all its parents killed."""

import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


class Endings(life.Life):
    def test_done_in_the_second_of_the_notice(self):
        one = self.begin(env={"BEHAVIOUR": "finish"})
        self.wait_training(one, self.steps - 15)
        self.world.interrupt(one, 10)
        self.assert_ended_well()
        self.assertEqual(len(self.trainer_runs()), 1)

    def test_status_0_without_the_result_is_not_done(self):
        one = self.begin(env={"BEHAVIOUR": "empty"}, trainer={"result": "result/weights.bin"})
        self.wait_training(one, 1)
        self.assert_ended_well()
        self.assertEqual(len(self.trainer_runs()), 2, "it was started again")

    def test_agent_supervisor_and_trainer_killed_at_once(self):
        one = self.begin()
        self.wait_training(one, 5)
        for pid, words in self.everybody(one):
            if words.startswith(f"{self.world.bin}/spotter ") or "train.py" in words:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # the trainer goes with its supervisor
        self.assert_ended_well(kills=1)
        self.assertEqual(len(self.trainer_runs()), 2, "it was started again, on the same instance")


if __name__ == "__main__":
    life.harness.main()
