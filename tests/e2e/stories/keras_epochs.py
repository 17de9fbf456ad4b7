"""AWS's own example for spot instances, line by line: *.h5 named after the epoch, no signals."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import unaware

SAME = """
import sys, h5py
one, two = (h5py.File(name, "r") for name in sys.argv[1:])
names = [f"model_weights/{number}" for number in range(3)]
sys.exit(not all((one[name][...] == two[name][...]).all() for name in names))
"""


class KerasEpochs(unaware.Unaware):
    same = SAME
    modules, files, result = "h5py", "*.h5", "training/result/cifar10_model.h5"
    directory, subfolder = "training", "checkpoints"
    trainer = harness.TRAINERS / "cifar_keras.py"
    command = "./train.py \"{storage}/training\" {epochs} 512"
    stop_signal = "none"

    def test_it_ends_as_if_nothing_had_happened(self):
        self.story()


if __name__ == "__main__":
    harness.main()
