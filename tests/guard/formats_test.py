#!/usr/bin/python3
"""Files as torch, numpy and h5py really write them, through the verb `verify`: whole ones are
taken, each cut of them is moved aside, and only a zip is believed after the machine was lost."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SPOTTER = sys.argv.pop(1)
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from fake_trainer import xxh3_128  # noqa: E402

try:
    import h5py
    import numpy
    import torch
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup")
    sys.exit(77)


def write_torch(path):
    torch.save({"weights": torch.rand(100, 100), "epoch": 3}, path)


def write_torch_of_old(path):
    torch.save(torch.rand(100, 100), path, _use_new_zipfile_serialization=False)


def write_numpy(path):
    numpy.savez_compressed(path, weights=numpy.random.rand(100, 100))


def write_hdf5(path, **how):
    with h5py.File(path, "w", **how) as file:
        file["model_weights/0"] = numpy.random.rand(100, 100)
        file["optimizer/0"] = numpy.random.rand(100, 100)


def write_hdf5_of_today(path):
    write_hdf5(path, libver="latest")


# name -> how it is written, and: does its format prove every byte?
FORMATS = {"a.pt": (write_torch, True), "b.npz": (write_numpy, True), "c.h5": (write_hdf5, False),
           "d.h5": (write_hdf5_of_today, False), "e.pkl": (write_torch_of_old, False)}


PATTERNS = "*.pt *.npz *.h5 *.pkl"


class Formats(unittest.TestCase):
    def setUp(self):
        self.mount = pathlib.Path(tempfile.mkdtemp(prefix="spotter-formats-", dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.mount)
        (self.mount / "ckpt").mkdir()
        (self.mount / ".spotter").mkdir()

    def verify(self):
        request = {"verb": "verify", "mount_point": str(self.mount), "checkpoints": "ckpt",
                   "files": PATTERNS}
        done = subprocess.run([SPOTTER, "host"], input=json.dumps(request), capture_output=True,
                              text=True, check=True)
        return json.loads(done.stdout)

    def left(self):
        return sorted(path.name for path in (self.mount / "ckpt").iterdir())

    def write_all(self):
        for name, (write, _) in FORMATS.items():
            write(self.mount / "ckpt" / name)

    def test_whole_files_are_taken(self):
        self.write_all()
        self.assertEqual(self.verify()["torn"], [])
        self.assertEqual(self.left(), sorted(FORMATS))
        again = self.verify()
        self.assertEqual((again["torn"], again["said"]), ([], []))

    def test_cut_files_are_moved_aside(self):
        for share in (0.01, 0.3, 0.7, 0.99):
            self.write_all()
            for name in FORMATS:
                path = self.mount / "ckpt" / name
                with open(path, "r+b") as file:
                    file.truncate(int(path.stat().st_size * share))
            with self.subTest(share=share):
                self.verify()
                # A plain pickle does not tell its length: only the record could.
                self.assertEqual(self.left(), ["e.pkl"])

    def test_when_the_machine_was_lost_only_proven_ones_are_taken(self):
        guard = subprocess.Popen(
            [SPOTTER, "guard", "--mount", self.mount, "--directory", "ckpt", "--files", PATTERNS,
             "--socket", self.mount / "none"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(guard.stdout.readline(), b"ready\n")
        guard.kill()
        guard.communicate()
        # One file is a save, as the saves before were.
        record = json.loads((self.mount / ".spotter/checkpoints.json").read_bytes())
        del record["xxh3_128"]
        for name, (write, complete) in FORMATS.items():
            record["usual"] = [{name: 1}]
            body = json.dumps(record, separators=(",", ":"))[:-1]
            (self.mount / ".spotter/checkpoints.json").write_text(
                f'{body},"xxh3_128":"{xxh3_128(body.encode())}"}}\n')
            write(self.mount / "ckpt" / name)
            self.verify()
            self.assertEqual(self.left(), [name] if complete else [])
            for path in (self.mount / "ckpt").iterdir():
                path.unlink()


if __name__ == "__main__":
    unittest.main(verbosity=2)
