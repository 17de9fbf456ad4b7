#!/usr/bin/python3
"""Images a second of spotter-train beside PyTorch, on images of CIFAR-10's shape that are noise.

Both train the same network (the weights of the one are loaded into the other) from the same files,
with the same batches and optimizer, in turns, a process each. There are three of PyTorch: with the
settings that a first script has, as people run it who look at the time, and that with the same bits
in each run. Counted is from step to step within epochs, past the first steps; medians of epochs.
The ratios are of images a second of a GPU, and of images a second of processor time of a CPU.

On a GPU: --device cuda, by a Python whose PyTorch has one, and --program: a spotter-train that is
built with that PyTorch's libtorch (`-DCMAKE_PREFIX_PATH=` what its torch.utils.cmake_prefix_path
says).
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES, FILES, RECORD, CLASSES = 10_000, 5, 3073, 10
WARM = 0.2  # of an epoch's steps, not counted
DEFAULTS = {"cpu": ("resnet8", 128, []), "cuda": ("resnet50", 512, ["--amp"])}
# Ours, the peer, and why they are alike. The first line of each pair is divided by the second.
PAIRS = [("spotter-train", "PyTorch, the same bits"),
         ("spotter-train --any-bits", "PyTorch, as people run it")]


def make_data(folder):
    for name in [*(f"data_batch_{i + 1}.bin" for i in range(FILES)), "test_batch.bin"]:
        noise = bytearray(os.urandom(EXAMPLES * RECORD))
        noise[::RECORD] = bytes(label % CLASSES for label in noise[::RECORD])
        (folder / name).write_bytes(noise)


def cpu_seconds(process="self"):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rates_of(stamps, options):
    """[(images a second, images a second of processor time)], of each whole epoch. `stamps`: time,
    processor time and steps done as they were seen."""
    steps = EXAMPLES * FILES // options.batch  # the last batch of an epoch may be smaller
    rates = []
    for epoch in range(options.epochs):
        begin = epoch * -(-EXAMPLES * FILES // options.batch)
        seen = [each for each in stamps if begin + WARM * steps <= each[2] <= begin + steps]
        if len(seen) > 1:
            images = (seen[-1][2] - seen[0][2]) * options.batch
            rates.append([images / (seen[-1][i] - seen[0][i]) for i in range(2)])
    return rates


def ours(options, folder, *more):
    """What the log of steps says while it trains: a line for each."""
    log = folder / "steps"
    model, amp = options.model, DEFAULTS[options.device][2]
    command = [options.program, "--data", folder / "data", "--model", model, "--batch-size",
               options.batch, "--epochs", options.epochs, "--threads", os.cpu_count(), "--device",
               options.device, "--checkpoints", folder / "c", "--result", folder / "result",
               "--steps-log", log, *amp, *more]
    stamps, position, done = [], 0, 0
    with open(folder / "output", "w") as output:
        process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output)
        try:
            while process.poll() is None:
                time.sleep(0.002)
                try:
                    with open(log, "rb") as file:
                        file.seek(position)
                        text = file.read()
                except FileNotFoundError:
                    continue
                if text:
                    position, done = position + len(text), done + text.count(b"\n")
                    stamps.append((time.monotonic(), cpu_seconds(process.pid), done))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        sys.exit((folder / "output").read_text())
    return rates_of(stamps, options)


def network(model, torch):
    """torchvision's residual networks by their names, and the smallest of the paper's own."""
    nn = torch.nn
    bottleneck, large, width, blocks = {
        "resnet50": (True, True, 64, (3, 4, 6, 3)), "resnet18": (False, True, 64, (2, 2, 2, 2)),
        "resnet8": (False, False, 16, (1, 1, 1))}[model]

    class Block(nn.Module):
        def __init__(self, before, inner, stride):
            super().__init__()
            after = inner * (4 if bottleneck else 1)
            shapes = ([(before, inner, 1, 1), (inner, inner, 3, stride), (inner, after, 1, 1)]
                      if bottleneck else [(before, inner, 3, stride), (inner, after, 3, 1)])
            self.count = len(shapes)
            for i, (given, made, kernel, step) in enumerate(shapes, 1):
                setattr(self, f"conv{i}", nn.Conv2d(given, made, kernel, step, kernel // 2,
                                                    bias=False))
                setattr(self, f"bn{i}", nn.BatchNorm2d(made))
            self.downsample = None
            if before != after or stride != 1:
                self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False),
                                                nn.BatchNorm2d(after))

        def forward(self, values):
            shortcut = self.downsample(values) if self.downsample else values
            for i in range(1, self.count + 1):
                values = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(values))
                if i < self.count:
                    values = torch.relu(values)
            return torch.relu(values + shortcut)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = nn.Conv2d(3, width, 7 if large else 3, 2 if large else 1,
                                   3 if large else 1, bias=False)
            self.bn1 = nn.BatchNorm2d(width)
            self.stages, before = len(blocks), width
            for stage, count in enumerate(blocks):
                made = []
                for block in range(count):
                    inner = width << stage
                    made.append(Block(before, inner, 2 if stage and not block else 1))
                    before = inner * (4 if bottleneck else 1)
                setattr(self, f"layer{stage + 1}", nn.Sequential(*made))
            self.fc = nn.Linear(before, CLASSES)

        def forward(self, values):
            values = torch.relu(self.bn1(self.conv1(values)))
            if large:
                values = nn.functional.max_pool2d(values, 3, 2, 1)
            for stage in range(self.stages):
                values = getattr(self, f"layer{stage + 1}")(values)
            return self.fc(values.mean((2, 3)))

    return Network()


def peer(options, folder, quick, same_bits):
    """A training of PyTorch's in this process; its rates."""
    import torch
    torch.set_num_threads(os.cpu_count())
    on_gpu = options.device != "cpu"
    if same_bits:
        os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
        torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = quick and not same_bits
    records = torch.cat([
        torch.frombuffer(bytearray((folder / f"data/data_batch_{i + 1}.bin").read_bytes()),
                         dtype=torch.uint8).view(EXAMPLES, RECORD) for i in range(FILES)])
    labels, images = records[:, 0].long(), records[:, 1:].reshape(-1, 3, 32, 32)
    model = network(options.model, torch)
    missing, unknown = model.load_state_dict(torch.jit.load(folder / "model.pt").state_dict(),
                                             strict=False)
    if unknown or any(not name.endswith("num_batches_tracked") for name in missing):
        sys.exit(f"these are two networks: {missing}, {unknown}")
    layout = torch.channels_last if quick else torch.contiguous_format
    model = model.to(options.device, memory_format=layout).train()
    # As the optimizer's own documentation advises: fused on a GPU, else one operation for all.
    how = {} if not quick else {"fused": True} if on_gpu else {"foreach": True}
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001, **how)
    amp = bool(DEFAULTS[options.device][2])
    stamps, done = [], 0
    for _ in range(options.epochs):
        order = torch.randperm(len(labels))
        for some in order.split(options.batch):
            batch, wanted = images[some], labels[some]
            if on_gpu and quick:
                batch, wanted = batch.pin_memory(), wanted.pin_memory()
            batch = batch.to(options.device, non_blocking=quick)
            wanted = wanted.to(options.device, non_blocking=quick)
            batch = (batch.float() / 255).contiguous(memory_format=layout)
            with torch.autocast(options.device, torch.bfloat16, enabled=amp):
                loss = torch.nn.functional.cross_entropy(model(batch), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if not quick:
                loss.item()
            done += 1
            if on_gpu and quick and done % 10 == 0:
                torch.cuda.synchronize()  # else queued steps would be counted as done
            if not (on_gpu and quick) or done % 10 == 0:
                stamps.append((time.monotonic(), cpu_seconds(), done))
    print(json.dumps(rates_of(stamps, options)))


PEERS = {"PyTorch, a first script": (False, False), "PyTorch, as people run it": (True, False),
         "PyTorch, the same bits": (True, True)}


def play(options, name, folder):
    if name.startswith("spotter-train"):
        with tempfile.TemporaryDirectory(dir=folder.parent) as own:
            own = pathlib.Path(own)
            (own / "data").symlink_to(folder / "data")
            rates = ours(options, own, *name.split()[1:])
            (own / "result/model.pt").rename(folder / "model.pt")
            return rates
    done = subprocess.run(
        [sys.executable, __file__, "--worker", name, "--folder", folder, "--device", options.device,
         "--model", options.model, "--batch", str(options.batch), "--epochs", str(options.epochs)],
        text=True, capture_output=True)
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def show(options, rates):
    print(f"{options.model}, batch {options.batch}, {options.device}, {os.cpu_count()} cores")
    medians = {}
    for name, each in rates.items():
        walls, processors = zip(*each)
        medians[name] = statistics.median(processors if options.device == "cpu" else walls)
        print(f"{name:26} {statistics.median(walls):9.0f} images/s ({min(walls):.0f} to "
              f"{max(walls):.0f} in {len(each)} epochs), {statistics.median(processors):.0f} a "
              f"second of processor time ({min(processors):.0f} to {max(processors):.0f})")
    ratios = {}
    for mine, other in PAIRS:
        mine = mine if mine in medians else PAIRS[0][0]  # a CPU has one way only
        ratios[f"{mine} : {other}"] = ratio = medians[mine] / medians[other]
        print(f"{mine}: {ratio:.2f} x {other}; target 1.0")
    return {"images": rates, "ratios": ratios}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=DEFAULTS, default="cpu")
    parser.add_argument("--program", type=pathlib.Path,
                        default=ROOT / "build/release/bin/spotter-train")
    parser.add_argument("--model", choices=["resnet8", "resnet18", "resnet50"])
    parser.add_argument("--batch", type=int)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.model = options.model or DEFAULTS[options.device][0]
    options.batch = options.batch or DEFAULTS[options.device][1]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # its trainer and folder go, too
    if options.worker:
        return peer(options, options.folder, *PEERS[options.worker])
    names = ["spotter-train", *(["spotter-train --any-bits"] if options.device != "cpu" else []),
             *PEERS]
    rates = {}
    with tempfile.TemporaryDirectory(prefix="spotter-bench-", dir="/var/tmp") as scratch:
        folder = pathlib.Path(scratch) / "common"
        (folder / "data").mkdir(parents=True)
        make_data(folder / "data")
        for _ in range(options.rounds):
            for name in names:
                rates.setdefault(name, []).extend(play(options, name, folder))
    figures = show(options, rates)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")
    return int(any(ratio < 1 for ratio in figures["ratios"].values()))


if __name__ == "__main__":
    sys.exit(main())
