"""spotter-train on channels: after a notice and after a kill it goes on in the middle of an epoch,
on the next instance, and ends with the bits of a run from files that nothing happened to."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "tests/trainer")]
import harness
from emulator import wait
from small_mnist import write_small_mnist

EXAMPLES, EPOCH, EPOCHS = 300, 10, 9
OPTIONS = ["--batch-size", "32", "--epochs", str(EPOCHS), "--hidden", "32,16"]
COMMAND = """exec {train} --data pipe:train,test --examples {examples} {options} \
--checkpoint-every 4 --slow-down 250 --steps-log "$JOURNAL/steps" --result "$JOURNAL/result" """


class ChannelsResumed(harness.Story):
    def begin(self):
        self.journal = self.world.workplace / "journal"
        self.journal.mkdir()
        self.journal.chmod(0o777)  # the trainer's user writes there
        self.files = self.world.workplace / "files"
        write_small_mnist(self.files, EXAMPLES, 100)
        subprocess.run([ROOT / "scripts/pack-records", self.files,
                        self.world.directory / "s3/data", "--records", "70"],
                       check=True, stdout=subprocess.DEVNULL)
        self.volume()
        command = COMMAND.format(train=f"{self.world.bin}/spotter-train", examples=EXAMPLES,
                                 options=" ".join(OPTIONS))
        return self.launch(
            # It gets the notice's file, too; a signal would end its slowness.
            self.job(trainer={"command": command, "stop_signal": "none"},
                     env={"JOURNAL": str(self.journal)},
                     channels={name: f"s3://data/{name}/" for name in ("train", "test")}),
            zones=self.world.zones)

    def weights_from_files(self):
        place = self.world.workplace / "alone"
        subprocess.run([f"{harness.BINARIES}/spotter-train", "--data", self.files, "--unshuffled",
                        *OPTIONS, "--checkpoints", place / "c", "--result", place / "result"],
                       check=True, stdout=subprocess.DEVNULL)
        return (place / "result/model.safetensors").read_bytes()

    def test_the_same_bits(self):
        if not (pathlib.Path(harness.BINARIES) / "spotter-train").exists():
            self.skipTest("needs spotter-train, which this flavour has not")
        one = self.begin()
        self.wait_training(one, EPOCH + 3)
        self.world.interrupt(one, 8)
        two = self.wait_instance(besides=(one,))
        self.wait_training(two, 4 * EPOCH + 6)
        self.world.kill(two)
        wait("the fleet to be cancelled",
             lambda: self.ec2.fleet_state(self.fleet).startswith("cancelled"))
        self.assertEqual((self.journal / "result/model.safetensors").read_bytes(),
                         self.weights_from_files())
        steps = list(map(int, (self.journal / "steps").read_text().split()))
        self.assertEqual(sorted(set(steps)), list(range(1, EPOCH * EPOCHS + 1)))
        repeated = len(steps) - EPOCH * EPOCHS
        self.assertLess(repeated, 2 * EPOCH, "after the kill it was begun again")


if __name__ == "__main__":
    harness.main()
