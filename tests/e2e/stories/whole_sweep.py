"""A sweep on a whole machine: an agent and a unit for each experiment, and a share."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fake_trainer
import harness
import job as jobs
import whole_machines
from emulator import wait


class WholeSweep(whole_machines.WholeLife):
    steps = 60

    def units(self, instance):
        shown = self.world.run(instance, "systemctl", "list-units", "--plain", "--no-legend",
                              "spotter-trainer-*", check=False)
        return [line.split()[0] for line in shown.splitlines()]

    def test_an_experiment_after_the_other_and_the_worker_is_killed(self):
        folder = self.world.shared / "data"
        folder.mkdir()
        (self.world.directory / "s3" / "claims").mkdir(parents=True)
        one = self.launch(jobs.document(
            self.job_name, self.repository, self.revision, "./train.py",
            trainer={"env": {"STEPS": str(self.steps), "PACE": "0.1", "FORMAT": "spotter"},
                     "memory_max": "1G"},
            sweep={"parameters": [{"lr": 0.1}, {"lr": 0.2}]},
            storage={"folder": {"path": str(folder)}},
            claims={"at": "s3://claims/all", "lease": "5s"}), zones=self.world.zones)
        first, = wait("the first one's unit", lambda: self.units(one))
        wait("it to train", lambda: self.trainers(one))
        agent = self.agent(one)
        self.assertEqual(self.world.run(one, "systemctl", "show", "-P", "MemoryMax", first).strip(),
                         str(1 << 30))
        self.world.run(one, "systemctl", "kill", "--kill-who=main", "--signal=KILL", "spotter")
        wait("another agent", lambda: self.agent(one) not in ("0", agent))
        second, = wait("the second one's unit", lambda: [
            unit for unit in self.units(one) if unit != first])
        self.assertEqual({first, second},
                         {f"spotter-trainer-{self.job_name}:{index}.service" for index in (0, 1)})
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        for index in (0, 1):
            result = folder / self.job_name / str(index) / "result/weights.bin"
            self.assertEqual(result.read_text(), fake_trainer.result_of(self.steps))


if __name__ == "__main__":
    harness.main()
