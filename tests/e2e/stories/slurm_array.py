"""scripts/slurm-array on a real Slurm: what is preempted goes on where it was."""

import os
import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fake_trainer
import harness
import run
import slurm
from emulator import ROOT, place_beside, wait


class SlurmArray(run.RunCase):
    steps = 60

    def setUp(self):
        if missing := slurm.missing():
            self.skipTest(f"Slurm is not installed: no {', '.join(missing)} (scripts/setup)")
        if os.geteuid() != 0:
            self.skipTest("needs root: Slurm's daemons run jobs as others")
        super().setUp()
        # Its sockets' paths must be short, too.
        place = pathlib.Path(place_beside())
        self.addCleanup(lambda: shutil.rmtree(place, ignore_errors=True))
        self.slurm = slurm.Slurm(place)
        self.addCleanup(self._stop)
        self.job = self.place / "job.yaml"
        self.job.write_text(
            f"job: tuning\nstorage: {{folder: {{path: {self.storage}}}}}\n"
            "trainer: {command: 'true'}\nsweep: {grid: {lr: [0.1, 0.2, 0.3]}}\n")

    def _stop(self):
        result = self._outcome.result
        if result and (result.failures or result.errors):
            print(self.slurm.logs(), self.said_by_all(), file=sys.stderr)
        self.slurm.stop()

    def said_by_all(self):
        return "".join(path.read_text(errors="replace") for path in self.place.glob("task-*"))

    def submit(self, *words, **environment):
        path = f"{harness.BINARIES}:{os.environ['PATH']}"
        without_run = {name: value for name, value in self.environment.items()
                       if name in ("STEPS", "PACE", "FORMAT", "AWS_EC2_METADATA_SERVICE_ENDPOINT")}
        said = self.slurm.ask("sbatch", "--parsable", *words, PATH=path,
                              **without_run, **environment)
        self.assertRegex(said, r"^\d+$")
        return said

    def steps_of(self, index):
        path = self.place / "journal" / str(index)
        return [int(line.split()[1]) for each in sorted(path.glob("*"))
                for line in each.read_text().splitlines()]

    def done(self, index):
        return (self.storage / "tuning" / str(index) / "DONE").exists()

    def test_a_preempted_task_is_queued_again_and_goes_on(self):
        for index in range(3):
            (self.journal / str(index)).mkdir()
        command = ["/bin/sh", "-c",
                   f'JOURNAL={self.journal}/$SPOTTER_EXPERIMENT exec /usr/bin/python3 "$0" {{lr}}',
                   run.TRAINER]
        gate = self.place / "gate"
        array = self.submit("--array=0-2", f"--output={self.place}/task-%a",
                            ROOT / "scripts/slurm-array", self.job, *command,
                            EACH="20", GATE=str(gate))
        wait("two tasks at work",
             lambda: min(len(self.steps_of(0)), len(self.steps_of(1))) > 5)
        self.submit("--partition=urgent", "--wrap", "sleep 3", "--output=/dev/null")
        wait("one to be preempted", lambda: "exit status 75" in self.said_by_all())
        gate.touch()
        wait("all to be done", lambda: all(map(self.done, range(3))))
        wait("Slurm to know", lambda: set(self.slurm.states(array).values()) <= {"COMPLETED"})
        for index in range(3):
            self.assertEqual(self.steps_of(index), list(range(1, self.steps + 1)), "each step once")
            home = self.storage / "tuning" / str(index)
            self.assertEqual((home / "result" / "weights.bin").read_text(),
                             fake_trainer.result_of(self.steps))


if __name__ == "__main__":
    harness.main()
