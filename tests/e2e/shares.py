"""A whole job whose state is on a share: the same promises as life.py's, without a volume."""

import json
import pathlib
import shutil

import fake_trainer
import job as jobs
import life
import sshd
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

    def assert_ended_well(self, kills=0, torn=0):
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        wait("the instances to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        self.assert_steps(kills, torn)
        self.assertEqual(self.ec2.volumes(), [], "a share needs no volume")
        self.assertEqual((self.home() / "result" / "weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertEqual(json.loads((self.home() / "DONE").read_text())["job"], self.job_name)
        self.assertIn(f"step {self.steps} of {self.steps}",
                      (self.home() / "log" / "trainer.log").read_text())


def forget_mounts(place):
    """Where the agents of this machine keep who uses which mount below `place` (share.hpp)."""
    ours = str(place).replace("/", "%2F")
    for folder in pathlib.Path("/run/spotter-mounts").glob(f"{ours}%2F*"):
        shutil.rmtree(folder)


class SshfsLife(ShareLife):
    """A folder of this machine, over a real sshd of our own."""

    # A trainer for which a failed write is a failed run: it is started again, from the newest
    # checkpoint, as often as it takes.
    patient = {"on_failure": {"attempts_without_progress": 100, "then": "hold"}}
    server_user = ""  # ourselves

    def setUp(self):
        super().setUp()
        self.root_only("every instance mounts for itself")
        self.server = sshd.Sshd(self.world.workplace / "server", self.server_user)
        self.addCleanup(self.server.close)
        self.folder = self.world.workplace / "files"
        self.folder.mkdir()
        if self.server_user:
            shutil.chown(self.folder, self.server_user)

    def _end(self):
        # Before the server goes: what its clients still have to say is then said.
        self.world.stop()
        forget_mounts(self.world.workplace)
        super()._end()

    def storage(self):
        return self.server.storage(self.folder, "${SPOTTER_MOUNT}")

    def home(self):
        return self.folder / self.job_name
