"""A plain PyTorch script with torch.save: as if nothing had happened, to the bit."""

import pathlib
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
    same = SAME
    modules, files, result = "torch", "*.pt", "result/mnist.pt"
    trainer = harness.TRAINERS / "mnist_pytorch.py"
    command = ("./train.py --epochs {epochs} --images 3000 --checkpoints \"{storage}/checkpoints\" "
               "--save-model \"{storage}/result/mnist.pt\"")

    def test_it_ends_as_if_nothing_had_happened(self):
        self.story()


if __name__ == "__main__":
    harness.main()
