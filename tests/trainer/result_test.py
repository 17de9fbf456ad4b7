#!/usr/bin/python3
"""A result of spotter-train in stock PyTorch and torchvision, and `spotter-train predict`.

Environment: SPOTTER_TRAIN.
"""

import json
import os
import pathlib
import random
import re
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
USAGE, FAILED = 2, 1


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

    def predict(self, *words, status=0):
        done = subprocess.run([TRAIN, "predict", *words], capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, status, done.stderr + done.stdout)
        return done.stderr if status else done.stdout

    def test_predict_says_what_the_network_takes_each_image_for(self):
        images, labels = mnist_in(self.scratch / "mnist")
        with torch.no_grad():
            shares = torch.jit.load(str(self.mlp / "model.pt"))(images).softmax(1)
        words = self.predict(self.mlp / "model.safetensors", "--data", self.scratch / "mnist",
                             *map(str, range(100)))
        right = 0
        for number, found in enumerate(re.findall(
                r"^test image (\d+): (\d) \((\S+) %\), then \d \(\S+ %\); "
                r"(right|wrong, it is (\d))$",
                words, re.M)):
            self.assertEqual(int(found[0]), number)
            self.assertEqual(int(found[1]), shares[number].argmax().item())
            self.assertAlmostEqual(float(found[2]), 100 * shares[number].max().item(), delta=0.06)
            self.assertEqual(found[3] == "right", int(found[1]) == labels[number].item())
            self.assertIn(found[4], ("", str(labels[number].item())))
            right += found[3] == "right"
        self.assertEqual(number, 99)
        self.assertTrue(words.endswith(f"{right} of 100 are right\n"), words[-100:])
        self.assertNotIn("\x1b", words, "no escape sequence where there is no terminal")

    def test_predict_takes_an_image_of_ones_own_and_a_checkpoint(self):
        images, _ = mnist_in(self.scratch / "mnist")
        own = self.scratch / "own.pgm"
        own.write_bytes(b"P5\n# made by hand\n28 28\n255\n" + bytes(images[7].flatten().tolist()))
        of_data = self.predict(self.mlp / "model.safetensors", "--data", self.scratch / "mnist",
                               "7")
        seen = re.search(r"test image 7: (.*); ", of_data)[1]
        checkpoint = max((self.scratch / "mlp-c").glob("step-*"))
        for model in (self.mlp, checkpoint):
            words = self.predict(model / "model.safetensors", "--image", own)
            self.assertIn(f"the image: {seen}\n", words)
            self.assertEqual(words.split("the image")[0], of_data.split("test image")[0])

    def test_predict_says_what_is_wrong(self):
        model, data = self.mlp / "model.safetensors", self.scratch / "mnist"
        wrong = self.scratch / "wrong"
        wrong.write_bytes(b"P5 30 30 255\n" + bytes(900))
        self.assertIn("Give --data DIR", self.predict(model, status=USAGE))
        self.assertIn("Give --data DIR", self.predict(model, "7", "--image", wrong, status=USAGE))
        self.assertIn("excludes", self.predict(model, "--data", data, "--image", wrong,
                                               status=USAGE))
        self.assertIn("the last one is 99", self.predict(model, "--data", data, "100",
                                                         status=FAILED))
        self.assertIn("another size", self.predict(model, "--data", self.scratch / "cifar10",
                                                   status=FAILED))
        self.assertIn("the image has 30x30 pixels, the network takes 28x28; ImageMagick",
                      self.predict(model, "--image", wrong, status=FAILED))
        self.assertIn("no safetensors file", self.predict(wrong, "--data", data, status=FAILED))
        self.assertIn("No such file", self.predict(self.scratch / "none", "--data", data,
                                                   status=FAILED))


if __name__ == "__main__":
    unittest.main()
