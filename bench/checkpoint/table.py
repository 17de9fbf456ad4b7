#!/usr/bin/python3
"""What a checkpoint costs a training in PyTorch, by libspotter and by PyTorch's own ways, side by
side: each round plays them one after the other, a process each; the table has the medians.

With --device cpu the state is in the host's memory, and once more "on a bus": a device, played by a
thread, that copies what was queued only after all was. With --device cuda it is on the GPU.

  first, later  seconds that training pauses for a save
  bus           the state's way to ready memory of the host, and nothing else
  durable       from the begin of the save until it is on the disk
  cold, warm    a restore from the disk, and from the page cache; `reading`: the files' bytes alone,
                by several threads, past the cache if that is cold
  memory        most of the host's memory in use with one save in flight, in states
"""

import argparse
import json
import mmap
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parents[2]
TENSORS = 64
SAVES = 4
PIECE = 8 << 20


def memory_of(name):
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) << 10


def files_of(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def forget(folder):
    for path in files_of(folder):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_all(folder, flags=0):
    """Into memory of its own, as each reader needs it."""
    def read(path, at):
        file = os.open(path, os.O_RDONLY | flags)
        piece = mmap.mmap(-1, PIECE)
        os.preadv(file, [piece], at)
        os.close(file)
        return piece
    with ThreadPoolExecutor(8) as readers:
        return list(readers.map(lambda each: read(*each), [
            (path, at) for path in files_of(folder)
            for at in range(0, path.stat().st_size, PIECE)]))


class Libspotter:
    def __init__(self, folder):
        import spotter
        self._run = spotter.open(folder, keep_last=1)

    def restore(self):
        return self._run.restore()["model"]

    def save(self, step, state):
        self._run.save(step, model=state)
        return self._run.flush


class OnBus(Libspotter):
    def __init__(self, folder):
        super().__init__(folder)
        from spotter import _staging

        class Bus(_staging.Staging):
            """Copies by a thread of its own, and nothing before all is queued."""
            takes = staticmethod(lambda tensor: True)
            queued, thread = [], ThreadPoolExecutor(1)

            def _copy(self, target, source):
                self.queued.append((target, source))

            def _wait(self):
                copies = [self.thread.submit(to.copy_, source) for to, source in self.queued]
                for copy in copies:
                    copy.result()
                self.queued.clear()
        self._run._staging = Bus()


class TorchSave:
    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self._path = folder / "state.pt"

    def save(self, step, state):
        import torch
        with open(self._path, "wb") as file:
            torch.save(state, file)
            file.flush()
            os.fsync(file.fileno())
        return lambda: None

    def restore(self):
        import torch
        return torch.load(self._path)


class Dcp:
    """In the setting that pauses least: pinned memory that is kept, and a process that writes."""

    def __init__(self, folder):
        import torch.distributed as distributed
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
        distributed.init_process_group("gloo", init_method=f"file://{folder}.meeting", rank=0,
                                       world_size=1)
        self._checkpoint, self._folder = checkpoint, folder
        self._options = {"async_checkpointer_type": AsyncCheckpointerType.PROCESS}
        try:
            from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions
            self._options["async_stager"] = DefaultStager(StagingOptions(True, True, True, True))
        except ImportError:  # before PyTorch 2.9: it stages before it returns
            pass

    def save(self, step, state):
        found = self._checkpoint.async_save({"model": state}, checkpoint_id=str(self._folder),
                                            **self._options)
        if hasattr(found, "staging_completion"):
            found.staging_completion.result()
        return getattr(found, "upload_completion", found).result

    def restore(self):
        import torch
        state = {f"layer{i}": torch.empty(SIZE // TENSORS // 4) for i in range(TENSORS)}
        self._checkpoint.load({"model": state}, checkpoint_id=str(self._folder))
        return state


SYSTEMS = {"libspotter": Libspotter, "libspotter, on a bus": OnBus, "torch.save, fsync": TorchSave,
           "DCP": Dcp}
SIZE = 0


def save(way, folder, device):
    import torch
    saver = way(folder)
    before = memory_of("VmRSS")
    state = {f"layer{i}": torch.rand(SIZE // TENSORS // 4, device=device) for i in range(TENSORS)}
    pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak is one from here on
    target = torch.empty(SIZE, dtype=torch.uint8, pin_memory=device != "cpu").fill_(1)
    begun = time.monotonic()
    for i, tensor in enumerate(state.values()):
        one = SIZE // TENSORS
        target[i * one:(i + 1) * one].copy_(tensor.view(torch.uint8), non_blocking=True)
    if device != "cpu":
        torch.cuda.synchronize()
    figures = {"bus": time.monotonic() - begun, "stall": [], "durable": []}
    del target
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    for step in range(SAVES):
        for tensor in state.values():
            tensor += 1
        begun = time.monotonic()
        wait = saver.save(step, state)
        figures["stall"].append(time.monotonic() - begun)
        wait()
        figures["durable"].append(time.monotonic() - begun)
    figures["memory"] = (memory_of("VmHWM") - before) / SIZE
    return figures


def restore(way, folder, device):
    __import__("torch")  # before the time begins
    reader = way(folder)
    # A virtual machine's host gives it memory when it is first used: that is not the reader's time.
    used = mmap.mmap(-1, SIZE)
    used.madvise(mmap.MADV_HUGEPAGE)
    for at in range(0, SIZE, mmap.PAGESIZE):
        used[at] = 1
    used.close()
    begun = time.monotonic()
    found = reader.restore()
    taken = time.monotonic() - begun
    assert sum(tensor.numel() * tensor.element_size() for tensor in found.values()) == SIZE
    return {"restore": taken}


def play(arguments, name, folder, phase):
    done = subprocess.run(
        [sys.executable, __file__, "--device", arguments.device, "--mib", str(arguments.mib),
         "--worker", name, phase, folder], text=True, capture_output=True)
    if done.returncode:
        raise ImportError(done.stderr.strip().splitlines()[-1])
    return json.loads(done.stdout)


def one_round(arguments, name, folder):
    saved = play(arguments, name, folder, "save")
    row = {"first": saved["stall"][0], "later": statistics.median(saved["stall"][1:]),
           "durable": statistics.median(saved["durable"][1:]), "bus": saved["bus"],
           "memory": saved["memory"]}
    for kind, flags in (("cold", os.O_DIRECT), ("warm", 0)):
        prepare = forget if kind == "cold" else read_all
        prepare(folder)
        begun = time.monotonic()
        read_all(folder, flags)
        row[f"reading, {kind}"] = time.monotonic() - begun
        prepare(folder)
        row[kind] = play(arguments, name, folder, "restore")["restore"]
    return row


def measure(arguments):
    rows = {}
    names = [name for name in SYSTEMS if arguments.device == "cpu" or "bus" not in name]
    for _ in range(arguments.rounds):
        for name in list(names):
            with tempfile.TemporaryDirectory(prefix="spotter-bench-",
                                             dir=arguments.directory) as folder:
                try:
                    row = one_round(arguments, name, pathlib.Path(folder) / "checkpoints")
                except ImportError as error:
                    print(f"without {name}: {error}")
                    names.remove(name)
                    continue
            rows.setdefault(name, []).append(row)
    rows = {name: {what: statistics.median(row[what] for row in each) for what in each[0]}
            for name, each in rows.items()}
    show(arguments, rows)
    return rows


def show(arguments, rows):
    columns = ("first", "later", "bus", "durable", "cold", "reading, cold", "warm",
               "reading, warm", "memory")
    print(f"{arguments.mib} MiB, {arguments.device}, {os.cpu_count()} cores, "
          f"{arguments.directory}; seconds, memory in states")
    print("| |" + "".join(f" {column} |" for column in columns))
    print("|---|" + "---|" * len(columns))
    for name, row in rows.items():
        print(f"| {name} |" + "".join(f" {row[column]:.3f} |" for column in columns), flush=True)


def main():
    global SIZE
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--directory", default="/var/tmp", help="on the disk to measure")
    parser.add_argument("--mib", type=int, default=1024, help="of state")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    SIZE = arguments.mib << 20
    if arguments.worker:
        name, phase, folder = arguments.worker
        sys.path.insert(0, str(ROOT / "trainer/library/python"))
        played = {"save": save, "restore": restore}[phase]
        return print(json.dumps(played(SYSTEMS[name], pathlib.Path(folder), arguments.device)))
    rows = measure(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
