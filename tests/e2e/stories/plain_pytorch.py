"""A plain PyTorch script with torch.save: as if nothing had happened, to the bit."""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import unaware

SAME = """
import sys, torch
one, two = (torch.load(name) for name in sys.argv[1:])
sys.exit(not (one.keys() == two.keys() and all(torch.equal(one[key], two[key]) for key in one)))
"""


class PlainPyTorch(unaware.Unaware):
    modules, files, result = "torch", "*.pt", "result/mnist.pt"
    trainer = harness.TRAINERS / "mnist_pytorch.py"
    command = ("./train.py --epochs {epochs} --images 3000 --checkpoints \"{storage}/checkpoints\" "
               "--save-model \"{storage}/result/mnist.pt\"")

    def test_it_ends_as_if_nothing_had_happened(self):
        self.story()

    def assert_same(self, expected, found):
        done = subprocess.run(["/usr/bin/python3", "-c", SAME, expected, found], check=False)
        self.assertEqual(done.returncode, 0, "other weights than those of the uninterrupted run")


if __name__ == "__main__":
    harness.main()
