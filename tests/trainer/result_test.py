#!/usr/bin/python3
"""A result of spotter-train in stock PyTorch and torchvision.

Environment: SPOTTER_TRAIN.
"""

import json
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import unittest

import torch
import torchvision

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from small_mnist import write_small_mnist  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = os.environ.get("SPOTTER_TRAIN", str(ROOT / "build/release/bin/spotter-train"))


def tensors_in(file):
    """As the format's description has it; tests/frameworks asks Hugging Face's own library."""
    data = file.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = (8 + size + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
        tensors[name] = values.reshape(entry["shape"])
    return tensors, metadata


def mnist_in(folder):
    images = (folder / "t10k-images-idx3-ubyte").read_bytes()[16:]
    labels = (folder / "t10k-labels-idx1-ubyte").read_bytes()[8:]
    return (torch.tensor(list(images), dtype=torch.uint8).reshape(-1, 1, 28, 28),
            torch.tensor(list(labels)))


def write_cifar10(folder):
    """Ten images a file: what is learned does not matter here."""
    folder.mkdir()
    chance = random.Random(3)
    for name in [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]:
        (folder / name).write_bytes(b"".join(
            bytes([label, *chance.randbytes(3 * 1024)]) for label in range(10)))


def cifar10_in(folder):
    records = (folder / "test_batch.bin").read_bytes()
    images = b"".join(records[at + 1:at + 3073] for at in range(0, len(records), 3073))
    return (torch.tensor(list(images), dtype=torch.uint8).reshape(-1, 3, 32, 32),
            torch.tensor(list(records[::3073])))


class Result(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.scratch = pathlib.Path(scratch.name)
        write_small_mnist(cls.scratch / "mnist", 300, 100)
        write_cifar10(cls.scratch / "cifar10")
        cls.mlp = cls.train("mlp", "mnist", "--hidden", "32,16", "--activation", "tanh",
                            "--batch-size", "32", "--epochs", "2")

    @classmethod
    def train(cls, name, data, *more):
        result = cls.scratch / name
        subprocess.run([TRAIN, "--data", cls.scratch / data, "--checkpoints",
                        cls.scratch / f"{name}-c", "--result", result, *more],
                       check=True, capture_output=True, timeout=300)
        return result

    def accuracy(self, logits, labels):
        return (logits.argmax(1) == labels).sum().item() / len(labels)

    def same_by_both(self, result, network, images, labels):
        """TorchScript and a stock network with the tensors: the same, as accurate as reported."""
        reported = json.loads((result / "metrics.json").read_text())["accuracy"]
        tensors, metadata = tensors_in(result / "model.safetensors")
        network.load_state_dict(tensors, strict=True)
        network.eval()
        scale = json.loads(metadata["input"])["divide_by"]
        with torch.no_grad():
            stock = network(images.float() / scale)
            script = torch.jit.load(str(result / "model.pt"))(images)
        self.assertEqual(self.accuracy(stock, labels), reported)
        self.assertEqual(self.accuracy(script, labels), reported)
        torch.testing.assert_close(stock, script)

    def test_the_mlp_in_a_stock_sequential(self):
        nn = torch.nn
        self.same_by_both(self.mlp, nn.Sequential(
            nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 32), nn.Tanh(),
            nn.Dropout(0.2), nn.Linear(32, 16), nn.Tanh(), nn.Dropout(0.2), nn.Dropout(0.2),
            nn.Linear(16, 10)),
            *mnist_in(self.scratch / "mnist"))

    def test_the_residual_networks_in_torchvision(self):
        for name in ("resnet18", "resnet50"):
            with self.subTest(name):
                result = self.train(name, "cifar10", "--model", name, "--batch-size", "25",
                                    "--epochs", "1")
                self.same_by_both(result, getattr(torchvision.models, name)(num_classes=10),
                                  *cifar10_in(self.scratch / "cifar10"))

    def test_torchscript_says_what_it_is_of(self):
        files = {"parameters": "", "input": "", "format": ""}
        torch.jit.load(str(self.mlp / "model.pt"), _extra_files=files)
        _, metadata = tensors_in(self.mlp / "model.safetensors")
        self.assertEqual({name: text.decode() for name, text in files.items()}, metadata)
        self.assertEqual(json.loads(metadata["parameters"])["hidden_nodes"], [32, 16])


if __name__ == "__main__":
    unittest.main()
