#!/usr/bin/python3
"""What libspotter and spotter-train call of the standard library through the dynamic symbol table:
nothing that PyTorch's libtorch.so exports, too, and broken (trainer/library/files.hpp).

Environment: SPOTTER_BINARIES, paths separated by colons; OTHER_FILESYSTEM, a library that exports
such symbols; SPOTTER_TRAIN, where it was built.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from small_mnist import write_small_mnist  # noqa: E402

BROKEN = re.compile(r"std::filesystem::.*(directory_iterator|remove_all)|std::experimental::")
BINARIES = os.environ["SPOTTER_BINARIES"].split(":")
OTHER = os.environ["OTHER_FILESYSTEM"]
TRAIN = os.environ.get("SPOTTER_TRAIN")


def broken(binary):
    """An archive has no dynamic symbols: what it leaves undefined its program takes by them."""
    dynamic = () if binary.endswith(".a") else ("--dynamic",)
    named = subprocess.run(["nm", "--demangle", "--undefined-only", *dynamic, binary],
                           stdout=subprocess.PIPE, text=True, check=True).stdout
    return sorted({line.strip() for line in named.splitlines() if BROKEN.search(line)})


class Symbols(unittest.TestCase):
    def test_none_is_one_that_libtorch_has_too(self):
        for binary in BINARIES:
            with self.subTest(binary=binary):
                self.assertEqual(broken(binary), [])

    @unittest.skipUnless(TRAIN, "built without the trainer")
    def test_spotter_train_removes_checkpoints_where_such_a_library_comes_first(self):
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            write_small_mnist(folder / "data", 512, 64)
            subprocess.run(
                [TRAIN, "--data", folder / "data", "--checkpoints", folder / "checkpoints",
                 "--result", folder / "result", "--device", "cpu", "--epochs", "2",
                 "--checkpoint-every", "1"],
                env=os.environ | {"LD_PRELOAD": OTHER}, stdout=subprocess.DEVNULL, check=True,
                timeout=120)
            kept = sorted(path.name for path in (folder / "checkpoints").glob("step-*"))
            self.assertEqual(kept, ["step-000000000007", "step-000000000008"])


if __name__ == "__main__":
    unittest.main()
