"""A whole job whose state is on a share: the same promises as life.py's, without a volume."""

import json

import fake_trainer
import job as jobs
import life
from emulator import wait


class ShareLife(life.Life):
    """Subclasses say what `storage:` is."""

    def storage(self):
        raise NotImplementedError

    def home(self):
        """The job's folder as the server has it."""
        raise NotImplementedError

    def begin(self, env=None, trainer=None, **more):
        self.journal = self.world.workplace / "journal"
        self.journal.mkdir(exist_ok=True)
        self.journal.chmod(0o777)  # the trainer's user writes there
        env = {"STEPS": str(self.steps), "JOURNAL": str(self.journal), "FORMAT": "spotter",
               "PACE": "0.1", **(env or {})}
        text = jobs.document(self.job_name, self.repository, self.revision, "./train.py",
                             trainer={"env": env, **(trainer or {})},
                             storage=self.storage(), **more)
        return self.launch(text, zones=self.world.zones)

    def assert_ended_well(self, kills=0, torn=0, seconds=120):
        wait("the fleet to be cancelled", self.fleet_is_cancelled, seconds)
        wait("the instances to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()), 30)
        self.assert_steps(kills, torn)
        self.assertEqual(self.ec2.volumes(), [], "a share needs no volume")
        self.assertEqual((self.home() / "result" / "weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertEqual(json.loads((self.home() / "DONE").read_text())["job"], self.job_name)
        self.assertIn(f"step {self.steps} of {self.steps}",
                      (self.home() / "log" / "trainer.log").read_text())
