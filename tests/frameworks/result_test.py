#!/usr/bin/python3
"""A result of spotter-train, read by today's PyTorch and Hugging Face's safetensors.

    result_test.py SPOTTER_TRAIN ROOT

ROOT is a tree of Debian testing with the frameworks (`scripts/frameworks` makes it).
"""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "trainer"))
from small_mnist import write_small_mnist  # noqa: E402

SKIPPED = 77
READER = """
import json, sys, torch
from safetensors.torch import load_file
from safetensors import safe_open
nn = torch.nn
tensors = load_file("model.safetensors")
with safe_open("model.safetensors", "pt") as file:
    scale = json.loads(file.metadata()["input"])["divide_by"]
network = nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 32), nn.ReLU(),
                        nn.Dropout(0.2), nn.Dropout(0.2), nn.Linear(32, 10))
network.load_state_dict(tensors, strict=True)
network.eval()
images = torch.frombuffer(bytearray(open("images", "rb").read()[16:]), dtype=torch.uint8)
images = images.reshape(-1, 1, 28, 28)
labels = torch.frombuffer(bytearray(open("labels", "rb").read()[8:]), dtype=torch.uint8)
with torch.no_grad():
    for logits in (network(images.float() / scale), torch.jit.load("model.pt")(images)):
        print("accuracy", (logits.argmax(1) == labels).sum().item() / len(labels))
"""


def main(train, root):
    root = pathlib.Path(root)
    if not (root / "usr/bin/python3").exists():
        print(f"skipped: there is no {root}: scripts/frameworks makes it")
        return SKIPPED
    place = pathlib.Path(tempfile.mkdtemp(prefix="result-", dir=root / "tmp"))
    try:
        write_small_mnist(place / "data", 300, 100)
        subprocess.run([train, "--data", place / "data", "--checkpoints", place / "c", "--result",
                        place, "--hidden", "32", "--batch-size", "32", "--epochs", "2"], check=True)
        for name in ("images", "labels"):
            found, = (place / "data").glob(f"t10k-{name}-*")
            shutil.copy(found, place / name)
        (place / "read.py").write_text(READER)
        done = subprocess.run(
            ["chroot", root, "/bin/sh", "-c", f"cd /tmp/{place.name} && exec python3 read.py"],
            stdout=subprocess.PIPE, text=True, check=True)
        reported = json.loads((place / "metrics.json").read_text())["accuracy"]
        read = [float(number) for number in re.findall("^accuracy (.*)$", done.stdout, re.M)]
        print(f"reported {reported}, safetensors and TorchScript give {read}")
        return 0 if read == [reported, reported] else 1
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
