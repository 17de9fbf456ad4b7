#!/usr/bin/python3
"""Layouts of much used frameworks that no kind of scripts.py stands for, in the same manner.

    strangers.py KIND DIRECTORY LOG

kills.py plays these by name only, as the guard still falls short with some; the docstring of a
kind says in which way.
"""

import json
import os
import pathlib
import random
import re
import shutil
import sys
import time

import scripts
from scripts import (EVERY, Folders, Megatron, Script, check, noise, numbered, opaque, put,
                     put_json, read_json, read_opaque, read_safetensors, read_zipped, safetensors,
                     same_step, zipped)


def read_all(step, paths, read=read_zipped):
    """The step of a save that has these files."""
    for path in paths:
        check(path.exists(), f"of {step} there is no {path.name}")
    return same_step({"name": step, **{path.name: read(path)["step"] for path in paths}})


def put_renamed(path, data, temporary):
    put(temporary, data)
    temporary.rename(path)


class InPlace(Script):
    """Some files, all written over in each save."""
    files = "*.pt"
    names = ("model.pt", "optim.pt")
    write, read = staticmethod(zipped), staticmethod(read_zipped)

    def load(self):
        paths = [self.at / name for name in self.names]
        if not any(path.exists() for path in paths):
            return 0
        check(paths[0].exists(), f"no {paths[0].name}")
        return read_all(self.read(paths[0])["step"], paths, self.read)

    def save(self, step):
        for name in self.names:
            put(self.at / name, self.write(step, name))
            time.sleep(0.05)


class LlmC(Script):
    """llm.c: the model, a state of each rank, then an empty file by which the newest is found:
    a mark that is to stay with its checkpoint."""
    files = "*.bin"

    def parts(self, step):
        return [self.at / f"model_{step:08d}.bin",
                *(self.at / f"state_{step:08d}_{rank:05d}.bin" for rank in range(2))]

    def load(self):
        there = list(numbered(self.at, r"DONE_(\d+)"))
        return read_all(there[-1], self.parts(there[-1]), read_opaque) if there else 0

    def save(self, step):
        for path in self.parts(step):
            put(path, opaque(step, path.name))
        (self.at / f"DONE_{step:08d}").touch()
        for old in list(numbered(self.at, r"DONE_(\d+)"))[:-3]:
            for path in [*self.parts(old), self.at / f"DONE_{old:08d}"]:
                path.unlink(missing_ok=True)


class ByCtime(Script):
    """max(glob("*.pth"), key=os.path.getctime), as it is found everywhere. Where files cannot be
    cloned, removing a second name of ours would make an old file the newest."""
    files = "*.pth"

    def load(self):
        there = list(self.at.glob("model_*.pth"))
        return read_zipped(max(there, key=os.path.getctime))["step"] if there else 0

    def save(self, step):
        put(self.at / f"model_{step}.pth", zipped(step, "model"))


class Sidecar(InPlace):
    """Pickles in place, and the step by itself, which no pattern names: it has to go back, too."""
    files = "*.pkl"
    names = ("params.pkl", "opt_state.pkl")
    write, read = staticmethod(opaque), staticmethod(read_opaque)

    def load(self):
        step = super().load()
        text = (self.at / "step.txt").read_text() if step else "0"
        check(text.isdigit(), f"step.txt has {text!r}")
        return same_step({"step.txt": int(text), "pickles": step})

    def save(self, step):
        super().save(step)
        put(self.at / "step.txt", str(step), pieces=1)


class JsonPointer(Megatron):
    """The newest folder by a number in a JSON that names it in no other way."""
    folders, tracker = "ckpt_*", "state.json"

    def folder(self, step):
        return self.at / f"ckpt_{step:06d}"

    def parts(self):
        return ["model.pt", "optim.pt"]

    def named(self, text):
        return json.loads(text)["global_step"]

    def words(self, step):
        return json.dumps({"global_step": step, "lr": 0.1})


class DeepLatest(Megatron):
    """Below a folder of the experiment, in which no checkpoint lies directly, and its tracker."""
    files, folders = "*.pt", "*"

    def __init__(self, directory):
        (directory / "exp1").mkdir(exist_ok=True)
        super().__init__(directory / "exp1")


class Rotate(Script):
    """ckpt.2.pt <- ckpt.1.pt <- ckpt.pt, which is written then."""
    files = "*.pt"
    names = ("ckpt.pt", "ckpt.1.pt", "ckpt.2.pt")

    def load(self):
        steps = [read_zipped(self.at / name)["step"] for name in self.names
                 if (self.at / name).exists()]
        check(steps == sorted(set(steps), reverse=True), f"a mixture: {steps}")
        check(not steps or (self.at / "ckpt.pt").exists(), "no ckpt.pt")
        return steps[0] if steps else 0

    def save(self, step):
        for older, newer in ((2, 1), (1, 0)):
            if (self.at / self.names[newer]).exists():
                (self.at / self.names[newer]).rename(self.at / self.names[older])
        put(self.at / "ckpt.pt", zipped(step, "all"))


class OpenLog(InPlace):
    """wandb's file, which is written over from its start, grows by each step, and stays open:
    nothing of the first run's first two saves is recorded."""
    files = "*.pt *.wandb"
    counted = r".*\.pt"

    def __init__(self, directory):
        super().__init__(directory)
        self.log = open(directory / "run.wandb", "wb", buffering=0)

    def train(self):
        super().train()
        self.log.write(noise(0, "row", 300))


class Piecewise(Script):
    """h5py.File(path, "a"), df.to_hdf(path, key): a file that is opened and closed once for each
    of its parts."""
    files = "*.bin"
    parts = 4

    def load(self):
        path = self.at / "all.bin"
        if not path.exists():
            return 0
        lines = path.read_text().split("\n")[:-1]
        check(len(lines) == self.parts, f"{len(lines)} parts")
        for at, line in enumerate(lines):
            step, body = line.split(" ")
            check(bytes.fromhex(body) == noise(int(step), at, 9000), f"part {at} is torn")
        return same_step({at: int(line.split(" ")[0]) for at, line in enumerate(lines)})

    def save(self, step):
        (self.at / "all.bin").unlink(missing_ok=True)
        for at in range(self.parts):
            with open(self.at / "all.bin", "a", encoding="ascii") as file:
                file.write(f"{step} {noise(step, at, 9000).hex()}\n")
            time.sleep(0.12)


class LateRank(Folders):
    """The second rank writes its part a while after the first."""
    folders = "step_*"
    rest = 3

    def parts(self, step):
        return [self.at / f"step_{step}/rank_{rank}.pt" for rank in range(2)]

    def load(self):
        there = list(numbered(self.at, r"step_(\d+)"))
        return read_all(there[-1], self.parts(there[-1])) if there else 0

    def save(self, step):
        first, second = self.parts(step)
        put(first, zipped(step, "first"))
        time.sleep(1.6)
        put(second, zipped(step, "second"))


class Marian(InPlace):
    """model.iterN.npz before the others, which are written in place."""
    files = "*.npz"
    names = ("model.npz", "model.npz.optimizer.npz")

    def save(self, step):
        put(self.at / f"model.iter{step}.npz", zipped(step, "model"))
        super().save(step)


class Ignite(Script):
    """n_saved=1: the old one is removed first; the new one is written by another name, renamed."""
    files = "*.pt"

    def load(self):
        there = list(numbered(self.at, r"checkpoint_(\d+)\.pt").items())
        return same_step({"name": there[-1][0], "file": read_zipped(there[-1][1])["step"]}) \
            if there else 0

    def save(self, step):
        for old in numbered(self.at, r"checkpoint_(\d+)\.pt").values():
            old.unlink()
        put_renamed(self.at / f"checkpoint_{step}.pt", zipped(step, "all"),
                    self.at / f"tmp{random.randbytes(4).hex()}")


class TwoProcesses(InPlace):
    """Another process writes ema.pt, by a beat of its own."""
    counted = "(model|optim).pt"

    def __init__(self, directory):
        super().__init__(directory)
        parent = os.getpid()
        if os.fork() == 0:
            number = 0
            while os.getppid() == parent:
                time.sleep(0.45)
                number += 1
                put(directory / "ema.pt", zipped(number, "ema"))
            os._exit(1)


class Estimator(Script):
    """The newest of two by the time in its name (Spark's and MXNet's estimators do so)."""
    files, name = "*.pt", r"model-(\d{8}-\d{6}-\d+)\.pt"
    keep = 2

    def load(self):
        there = sorted(path for path in self.at.iterdir() if re.fullmatch(self.name, path.name))
        return read_zipped(there[-1])["step"] if there else 0

    def save(self, step):
        at = time.time_ns()
        name = time.strftime("model-%Y%m%d-%H%M%S-", time.gmtime(at // 10**9))
        put_renamed(self.at / f"{name}{at % 10**9:09}.pt", zipped(step, "all"),
                    self.at / "model.pt.partial")
        there = sorted(path for path in self.at.iterdir() if re.fullmatch(self.name, path.name))
        for old in there[:-self.keep]:
            old.unlink()


class Versions(Script):
    """A folder by the time, written as .tmp-CHANCE, renamed; the oldest of three is removed."""
    folders = "v*"

    def load(self):
        there = sorted(self.at.glob("v*"))
        return read_all(read_zipped(there[-1] / "model.pt")["step"],
                        [there[-1] / name for name in ("model.pt", "optim.pt")]) if there else 0

    def save(self, step):
        temporary = self.at / f".tmp-{random.randbytes(4).hex()}"
        for name in ("model.pt", "optim.pt"):
            put(temporary / name, zipped(step, name))
        temporary.rename(self.at / f"v{time.time_ns()}")
        for old in sorted(self.at.glob("v*"))[:-3]:
            shutil.rmtree(old)


class Orbax(Script):
    """A folder by its number, written by a name with the time in it, two levels deep, renamed; the
    oldest of three is removed."""
    folders = "[0-9]*"
    parts = ("_METADATA", "default/manifest.ocdbt", "default/d/0a1b", "default/d/2c3d")

    def load(self):
        there = [path for path in self.at.glob("*") if path.name.isdigit()]
        if not there:
            return 0
        newest = max(there, key=lambda path: int(path.name))
        return read_all(int(newest.name), [newest / part for part in self.parts], read_opaque)

    def save(self, step):
        temporary = self.at / f"{step}.orbax-checkpoint-tmp-{time.time_ns()}"
        for part in reversed(self.parts):
            put(temporary / part, opaque(step, part))
        temporary.rename(self.at / str(step))
        for old in sorted((path for path in self.at.glob("*") if path.name.isdigit()),
                          key=lambda path: int(path.name))[:-3]:
            shutil.rmtree(old)


class Espnet(Script):
    """checkpoint.pth in place (all of the trainer), Nepoch.pth of the model, the oldest removed,
    and latest.pth as a link."""
    files = "*.pth"

    def load(self):
        path = self.at / "checkpoint.pth"
        return read_all(read_zipped(path)["step"], [path]) if path.exists() else 0

    def save(self, step):
        put(self.at / "checkpoint.pth", zipped(step, "all"))
        put(self.at / f"{step}epoch.pth", zipped(step, "model"))
        latest = self.at / "latest.pth"
        latest.unlink(missing_ok=True)
        latest.symlink_to(f"{step}epoch.pth")
        for old in list(numbered(self.at, r"(\d+)epoch\.pth").values())[:-3]:
            old.unlink()


class Detectron(Script):
    """model_N.pth, then last_checkpoint, which has its name; the oldest of three is removed."""
    files = "*.pth"

    def load(self):
        path = self.at / "last_checkpoint"
        if not path.exists():
            return 0
        number = re.fullmatch(r"model_(\d+)\.pth", path.read_text())
        check(number, f"last_checkpoint has {path.read_text()!r}")
        return read_all(int(number[1]), [self.at / number[0]])

    def save(self, step):
        put(self.at / f"model_{step:07d}.pth", zipped(step, "model"))
        put(self.at / "last_checkpoint", f"model_{step:07d}.pth", pieces=1)
        for old in list(numbered(self.at, r"model_(\d+)\.pth").values())[:-3]:
            old.unlink()


def together(*works):
    """Each in a process of its own; returns when all are over."""
    pids = []
    for work in works:
        pid = os.fork()
        if pid == 0:
            work()
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


class RanksInPlace(Script):
    """Three processes write over their own files at once, each at its own moment; then the first
    one writes model.pt, and step.json."""
    files = "*.pt"
    rest = 2

    def load(self):
        paths = [self.at / "model.pt", *(self.at / f"state_rank{rank}.pt" for rank in range(3))]
        if not paths[0].exists():
            check(not list(self.at.glob("*.pt")), "no model.pt")
            return 0
        step = read_all(read_zipped(paths[0])["step"], paths)
        check((self.at / "step.json").exists(), "no step.json")
        return same_step({"files": step, "json": read_json(self.at / "step.json")["step"]})

    def save(self, step):
        def part(rank):
            time.sleep((0, 0.15, 0.4)[rank])
            put(self.at / f"state_rank{rank}.pt", zipped(step, rank))
        together(*(lambda rank=rank: part(rank) for rank in range(3)))
        put(self.at / "model.pt", zipped(step, "model"))
        put_json(self.at / "step.json", {"step": step})


class Shards(Script):
    """fairseq's FSDP: each process writes over its own checkpoint_last-shardN.pt."""
    files = "*.pt"

    def load(self):
        paths = [self.at / f"checkpoint_last-shard{rank}.pt" for rank in range(3)]
        if not any(path.exists() for path in paths):
            return 0
        check(paths[0].exists(), "no shard 0")
        return read_all(read_zipped(paths[0])["step"], paths)

    def save(self, step):
        def part(rank):
            time.sleep((0, 0.1, 0.3)[rank])
            put(self.at / f"checkpoint_last-shard{rank}.pt", zipped(step, rank))
        together(*(lambda rank=rank: part(rank) for rank in range(3)))


class Rewritten(InPlace):
    """The folder is removed, and all its files are written again."""
    files = None
    names = ("last/model.pt", "last/optim.pt", "last/scheduler.pt", "last/scaler.pt")

    def load(self):
        check(not (self.at / "last").exists() or (self.at / self.names[0]).exists(), "no model.pt")
        return super().load()

    def save(self, step):
        shutil.rmtree(self.at / "last", ignore_errors=True)
        super().save(step)


class Sharded(Script):
    """save_pretrained() in place: model-I-of-K.safetensors, the index, then the optimizer. K is
    another one now and then: what is of the old K goes first."""

    def parts(self, count):
        return [self.at / f"model-{at:05d}-of-{count:05d}.safetensors"
                for at in range(1, count + 1)]

    def load(self):
        path = self.at / "model.safetensors.index.json"
        if not path.exists():
            check(not list(self.at.iterdir()), "no index")
            return 0
        index = read_json(path)
        read_all(index["step"], [self.at / "optimizer.pt"])
        return read_all(index["step"], self.parts(index["count"]), read_safetensors)

    def save(self, step):
        count = 2 if step // EVERY % 4 == 0 else 3
        for old in self.at.glob("model-*.safetensors"):
            if old not in self.parts(count):
                old.unlink()
        for path in self.parts(count):
            put(path, safetensors(step, path.name))
        put_json(self.at / "model.safetensors.index.json",
                 {"step": step, "count": count, "weight_map": {f"w{at}": "x" for at in range(900)}})
        put(self.at / "optimizer.pt", zipped(step, "optimizer"))


KINDS = {"llmc": LlmC, "ctime": ByCtime, "sidecar": Sidecar, "json-pointer": JsonPointer,
         "deep-latest": DeepLatest, "rotate": Rotate, "open-log": OpenLog,
         "piecewise": Piecewise, "late-rank": LateRank, "marian": Marian,
         # The guard is clean with these; rules that wait longer for a set's files lose them.
         "ignite1": Ignite, "two-processes": TwoProcesses, "estimator": Estimator,
         "versions": Versions, "orbax": Orbax, "espnet": Espnet, "detectron": Detectron,
         "ranks-in-place": RanksInPlace, "shards": Shards, "rewritten": Rewritten,
         "sharded": Sharded}

if __name__ == "__main__":
    sys.exit(scripts.main(KINDS))
