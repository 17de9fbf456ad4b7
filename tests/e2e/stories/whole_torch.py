"""PyTorch in the trainer's unit of a whole machine, which borrows this machine's."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import whole_machines
from emulator import wait

LIBRARIES = "lib/x86_64-linux-gnu"


class WholeTorch(whole_machines.WholeLife):
    trainer = harness.TRAINERS / "all_of_torch.py"

    def borrow(self):
        """This machine's /usr, where instances see it."""
        if subprocess.run(["/usr/bin/python3", "-c", "import torch.distributed"],
                          check=False).returncode:
            self.skipTest("python3-torch is not installed (scripts/setup)")
        usr = self.world.shared / "usr"
        usr.mkdir()
        subprocess.run(["mount", "--bind", "-o", "ro", "/usr", usr], check=True)
        self.addCleanup(subprocess.run, ["umount", "--lazy", usr], check=True)
        return usr

    def test_compiled_code_and_data_loaders(self):
        usr = self.borrow()
        libraries = [usr / "lib", *(usr / LIBRARIES / name for name in ("", "openblas-pthread"))]
        self.journal = self.world.shared / "journal"
        self.volume()
        job = self.job(env={"LD_LIBRARY_PATH": ":".join(map(str, libraries)),
                            "PYTHONHOME": str(usr)})
        job["trainer"]["command"] = f"{usr}/bin/python3 train.py"
        job["checkpoints"] = {"files": "*.pt"}  # whose files the guard keeps, in the same unit
        one = self.launch(job, zones=self.world.zones)
        self.wait_journal(one, "the trainer (finished|failed)")
        seen = self.wait_journal(one, "network.pt is durable(?s:.*)the trainer finished")
        self.assertNotIn("torn", seen[0])
        wait("the fleet to be cancelled", self.fleet_is_cancelled)


if __name__ == "__main__":
    harness.main()
