#!/usr/bin/python3
"""scripts/fetch-cifar10 on a small archive of the real layout, and a resnet trained on its files.

The script is a copy with the small archive's sum in place of the real one's: it must not fetch.
Environment: SPOTTER_TRAIN.
"""

import hashlib
import io
import os
import pathlib
import random
import re
import subprocess
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TRAIN = os.environ.get("SPOTTER_TRAIN", str(ROOT / "build/release/bin/spotter-train"))
FILES = [*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin"]
FOLDER = "cifar-10-batches-bin"  # in the archive of https://www.cs.toronto.edu/~kriz/cifar.html


def batch(seed):
    """4 records: the label's byte, then 1024 bytes each of red, green and blue."""
    chance = random.Random(seed)
    return b"".join(bytes([number % 10]) + chance.randbytes(3072) for number in range(4))


def archive():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        folder = tarfile.TarInfo(FOLDER)
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder)
        for name, content in [("batches.meta.txt", b"airplane\n"), ("readme.html", b"<html>"),
                              *((name, batch(name)) for name in FILES)]:
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode, entry.uid = len(content), 0o444, 2156
            tar.addfile(entry, io.BytesIO(content))
    return data.getvalue()


class Fetch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.data = self.scratch / "data"
        self.data.mkdir()
        self.archive = archive()
        text = (ROOT / "scripts/fetch-cifar10").read_text()
        text, changed = re.subn(r"(?m)^sum=[0-9a-f]{64}$",
                                f"sum={hashlib.sha256(self.archive).hexdigest()}", text)
        self.assertEqual(changed, 1)
        self.script = self.scratch / "fetch-cifar10"
        self.script.write_text(text)

    def fetch(self, status=0):
        done = subprocess.run(["bash", self.script, self.data], capture_output=True, text=True,
                              timeout=600, check=False)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_what_it_unpacks_trains_a_resnet(self):
        (self.data / "cifar-10-binary.tar.gz").write_bytes(self.archive)
        self.assertIn("sums verified", self.fetch())
        for name in FILES:
            self.assertEqual((self.data / name).read_bytes(), batch(name), name)
        self.assertEqual(sorted(path.name for path in self.data.iterdir()),
                         sorted([*FILES, "cifar-10-binary.tar.gz", "cifar10.sha256"]))
        (self.data / "cifar-10-binary.tar.gz").unlink()
        self.assertIn("sums verified", self.fetch(), "nothing is fetched twice")

        done = subprocess.run(
            [TRAIN, "--data", self.data, "--checkpoints", self.scratch / "c", "--result",
             self.scratch / "result", "--model", "resnet50", "--epochs", "1", "--batch-size", "10",
             "--amp"], capture_output=True, text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("2 steps, 20 training and 4 test images", done.stdout)
        self.assertTrue((self.scratch / "result/model.safetensors").exists())

    def test_a_wrong_archive_is_refused_and_nothing_is_left(self):
        wrong = bytearray(self.archive)
        wrong[-9] ^= 1
        (self.data / "cifar-10-binary.tar.gz").write_bytes(wrong)
        self.assertIn("has a wrong sum: remove it", self.fetch(status=1))
        self.assertEqual([path.name for path in self.data.iterdir()], ["cifar-10-binary.tar.gz"])


if __name__ == "__main__":
    unittest.main()
