"""Checkpoints that are folders, of a trainer that knows nothing of Spotter and fails on a broken
one: through a notice, a move, and kills in mid-save, it always resumes from a whole one."""

import os
import pathlib
import re
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import unaware
from emulator import wait

SAME = """
import sys
one, two = (open(name, "rb").read() for name in sys.argv[1:])
sys.exit(not (one and one == two))
"""


class FolderCheckpoints(unaware.Unaware):
    same = SAME
    modules, result, directory = "zipfile", "result/weights", "training"
    trainer = harness.TRAINERS / "folder_checkpoints.py"
    command = "./train.py \"{storage}/training\" \"{storage}/result/weights\" {epochs}"
    stop_signal = "none"

    def the_job(self):
        job = super().the_job()
        job["checkpoints"] = {"directory": self.directory, "folders": "checkpoint-*"}
        return job

    def wait_durable(self, instance, more_than=0):
        def highest():
            found = re.findall(r"checkpoint-(\d+) is durable", self.world.console(instance))
            number = max(map(int, found), default=0)
            return number if number > more_than else None
        return wait(f"a checkpoint after {more_than}", highest)

    def _stop_in_the_middle(self, trainer, end):
        folder = self.folder(trainer)
        known = set(os.listdir(folder))
        while time.monotonic() < end:
            new = next((name for name in os.listdir(folder) if name not in known), None)
            if not new:
                time.sleep(0.001)
                continue
            time.sleep(0.08)
            os.kill(trainer, signal.SIGSTOP)
            there = sorted(os.listdir(folder / new))
            if there and "trainer_state.json" not in there:
                print(f"{new}: killed with {', '.join(there)}", flush=True)
                return True
            os.kill(trainer, signal.SIGCONT)
            known.add(new)
        return False

    def test_it_ends_as_if_nothing_had_happened(self):
        self.story()


if __name__ == "__main__":
    harness.main()
