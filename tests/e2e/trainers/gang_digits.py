#!/usr/bin/python3
"""Digits made on the spot, learnt by several ranks with DDP. The state counts how often each sample
was trained on: what a lost step trained is lost with it, so in the end each count is the number of
epochs, if no sample was left out or taken twice."""

import contextlib
import hashlib
import os
import pathlib
import socket
import sys
import time

import spotter
import torch
import torch.distributed
import torch.nn.functional as F
from spotter.batches import Batches, sum_in_order

SAMPLES, EPOCHS, BATCH, MICRO = (int(os.environ.get(name, default)) for name, default in (
    ("SAMPLES", 320), ("EPOCHS", 4), ("BATCH", 32), ("MICRO", 4)))
PACE = float(os.environ.get("PACE", "0.1"))
# From this step on it does one step each time that it is started, until there is the file GATE.
HOLD, GATE = int(os.environ.get("HOLD", "1000000")), pathlib.Path(os.environ.get("GATE", "/"))


def digits():
    """Ten patterns of 8 x 8 and noise."""
    random = torch.Generator().manual_seed(7)
    patterns = torch.rand(10, 64, generator=random)
    labels = torch.arange(SAMPLES) % 10
    return patterns[labels] + 0.3 * torch.randn(SAMPLES, 64, generator=random), labels


def note(text):
    """A line of this rank's journal: whoever reads it sees it whole."""
    name = f"{os.environ['SPOTTER_GANG_MEMBER']}-{os.environ['LOCAL_RANK']}"
    with open(pathlib.Path(os.environ["JOURNAL"]) / name, "a") as file:
        file.write(text + "\n")


def gate_is_open():
    """For all ranks, or for none."""
    is_open = torch.tensor(int(GATE.exists()))
    torch.distributed.all_reduce(is_open, op=torch.distributed.ReduceOp.MIN)
    return bool(is_open)


def hang_once(step):
    """HANG=m2:7: there before this step, and once."""
    if [os.environ["SPOTTER_GANG_MEMBER"], str(step)] != os.environ.get("HANG", "").split(":"):
        return
    once = pathlib.Path(os.environ["JOURNAL"]).parent / "hung"
    if not once.exists():
        once.touch()
        time.sleep(3600)


def hang_if_named():
    """HANGS=FILE: there the member hangs that the file names, each time."""
    named = pathlib.Path(os.environ.get("HANGS", "/"))
    if named.is_file() and named.read_text() == os.environ["SPOTTER_GANG_MEMBER"]:
        time.sleep(3600)


def tear_again(step):
    """TEAR=m2:7:4: there after this step, the first so often, all its connections are cut."""
    member, when, times = os.environ.get("TEAR", "::").split(":")
    if [os.environ["SPOTTER_GANG_MEMBER"], str(step)] != [member, when]:
        return
    torn = pathlib.Path(os.environ["JOURNAL"]).parent / "torn"
    so_often = len(torn.read_text()) if torn.exists() else 0
    if so_often >= int(times):
        return
    torn.write_text("x" * (so_often + 1))
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(name))) as connection:
            if connection.family == socket.AF_INET:
                connection.getpeername()
                connection.shutdown(socket.SHUT_RDWR)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(1)
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    storage = pathlib.Path(os.environ["SPOTTER_STORAGE"])
    images, labels = digits()
    network = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    counts = torch.zeros(SAMPLES, dtype=torch.int64)
    run = spotter.open(copies=True)
    old = run.restore()
    if old:
        network.load_state_dict(old["network"])
        optimizer.load_state_dict(old["optimizer"])
        counts = old["counts"]
    done = old.step if old else 0
    model = torch.nn.parallel.DistributedDataParallel(network)
    model.register_comm_hook(None, sum_in_order)
    note(f"resumed {done} {ranks} {time.time()}")
    batches = Batches(SAMPLES, BATCH, micro=MICRO, seed=3, epochs=EPOCHS, after=done)
    for batch in batches:
        hang_once(batch.step)
        optimizer.zero_grad()
        seen = torch.zeros_like(counts)
        for part in batch:
            with contextlib.nullcontext() if part.last else model.no_sync():
                loss = F.cross_entropy(model(images[part.samples]), labels[part.samples],
                                       reduction="sum") * part.weight
                loss.backward()
            if part.weight:
                seen[part.samples] += 1
        optimizer.step()
        torch.distributed.all_reduce(seen)
        counts += seen
        note(f"step {batch.step} {ranks} {time.time()}")
        tear_again(batch.step)
        if os.environ.get("FAIL_AT") == str(batch.step):
            sys.exit(9)
        time.sleep(PACE)
        run.progress(batch.step, steps_total=batches.steps_total, loss=loss.detach())
        while True:
            hang_if_named()
            if run.should_checkpoint():
                run.save(batch.step, network=network.state_dict(),
                         optimizer=optimizer.state_dict(), counts=counts)
            run.stop_if_asked()
            if batch.step < HOLD or gate_is_open():
                break
            time.sleep(0.2)
    if rank == 0:
        weights = b"".join(value.numpy().tobytes() for value in network.state_dict().values())
        right = (network(images).argmax(1) == labels).float().mean().item()
        (storage / "result/weights.txt").write_text(
            f"{hashlib.sha256(weights).hexdigest()} {counts.min()} {counts.max()} {right:.3f}\n")
    run.finished()


if __name__ == "__main__":
    main()
