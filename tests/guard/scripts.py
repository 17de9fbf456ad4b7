#!/usr/bin/python3
"""Trainers that know nothing of Spotter: seventeen ways in which real ones write and find their
checkpoints, without the frameworks.

    scripts.py KIND DIRECTORY LOG

Resumes from what is there by the script's own rule, trains (a step is a short sleep), and saves,
until it is killed. LOG gets a line each: `start STEP`, `save STEP NANOSECONDS` as a save begins,
`saved STEP` as it is over, `damaged WHY` where a file is torn, or two of one save are not of the
same: then the exit status is 1, as a framework's would be.
"""

import hashlib
import io
import json
import os
import pathlib
import pickle
import random
import re
import shutil
import signal
import sqlite3
import struct
import sys
import time
import zipfile

EVERY = 10  # steps between two saves
STEP = 0.13  # seconds: a save each 1.3, more than a guard that knows nothing yet waits for more
PIECE = 0.006  # between two pieces of a file


class Damaged(Exception):
    pass


def check(good, why):
    if not good:
        raise Damaged(why)


# --- what the files hold: a step, and bytes that belong to it alone ---
def noise(step, label, size=40_000):
    return random.Random(f"{step} {label}").randbytes(size)


def opaque(step, label, **more):
    body = pickle.dumps({"step": step, "weights": noise(step, label), **more})
    return hashlib.sha256(body).digest() + body


def read_opaque(path):
    data = path.read_bytes()
    check(hashlib.sha256(data[32:]).digest() == data[:32], f"{path.name} is torn")
    return pickle.loads(data[32:])


def zipped(step, label, **more):
    """As torch.save."""
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w") as file:
        file.writestr("archive/data.pkl", pickle.dumps({"step": step, **more}))
        file.writestr("archive/data/0", noise(step, label))
    return memory.getvalue()


def read_zipped(path):
    try:
        with zipfile.ZipFile(path) as file:
            check(file.testzip() is None, f"{path.name} is torn")
            return pickle.loads(file.read("archive/data.pkl"))
    except (zipfile.BadZipFile, EOFError, OSError) as error:
        raise Damaged(f"{path.name}: {error}") from error


def safetensors(step, label):
    body = noise(step, label)
    head = json.dumps({"__metadata__": {"step": str(step), "sum": hashlib.sha256(body).hexdigest()},
                       "w": {"dtype": "U8", "shape": [len(body)],
                             "data_offsets": [0, len(body)]}}).encode()
    return struct.pack("<Q", len(head)) + head + body


def read_safetensors(path):
    data = path.read_bytes()
    try:
        length = struct.unpack("<Q", data[:8])[0]
        about = json.loads(data[8:8 + length])["__metadata__"]
    except (struct.error, ValueError) as error:
        raise Damaged(f"{path.name} is torn: {error}") from error
    check(hashlib.sha256(data[8 + length:]).hexdigest() == about["sum"], f"{path.name} is torn")
    return {"step": int(about["step"])}


def read_json(path):
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise Damaged(f"{path.name}: {error}") from error


def put(path, data, pieces=4):
    """As one who writes tensor after tensor."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = data.encode() if isinstance(data, str) else data
    with open(path, "wb", buffering=0) as file:
        size = -(-len(data) // pieces)
        for at in range(0, len(data), size):
            file.write(data[at:at + size])
            time.sleep(PIECE)


def put_json(path, value):
    put(path, json.dumps(value), pieces=1)


def same_step(found):
    """`found`: name -> step, of files that are of one save."""
    check(len(set(found.values())) == 1, f"a mixture: {found}")
    return next(iter(found.values()))


def numbered(directory, pattern):
    """number -> path, the smallest first."""
    matches = ((re.fullmatch(pattern, path.name), path) for path in directory.iterdir())
    return dict(sorted((int(match[1]), path) for match, path in matches if match))


class Script:
    files = folders = None  # as job.yaml says it
    rest = 1.0  # x EVERY steps between two saves
    counted = r".*"  # files that are written in saves alone

    def __init__(self, directory):
        self.at = directory

    def load(self):
        """The step to go on from; 0: nothing is there."""
        raise NotImplementedError

    def save(self, step):
        raise NotImplementedError

    def train(self):
        time.sleep(STEP * self.rest)


class NanoGpt(Script):
    files = "*.pt"
    read, data = staticmethod(read_zipped), staticmethod(zipped)
    name = "ckpt.pt"

    def load(self):
        path = self.at / self.name
        return self.read(path)["step"] if path.exists() else 0

    def save(self, step):
        put(self.at / self.name, self.data(step, self.name), pieces=8)


class Ddp(NanoGpt):
    """Rank 0 saves; the others are there, too."""
    name = "snapshot.pt"
    read, data = staticmethod(read_opaque), staticmethod(opaque)

    def __init__(self, directory):
        super().__init__(directory)
        for _ in range(2):
            if os.fork() == 0:
                parent = os.getppid()
                while os.getppid() == parent:
                    time.sleep(0.05)
                os._exit(1)


class Folders(Script):
    """Transformers' Trainer: save_total_limit 2, trainer_state.json last."""
    folders = "checkpoint-*"
    keep = 2
    first_removed = False  # before the next is written, as diffusers' examples do it

    def members(self, step):
        return {"config.json": None, "model.safetensors": safetensors,
                "optimizer.pt": zipped, "scheduler.pt": zipped, "rng_state.pth": zipped}

    def load(self):
        there = numbered(self.at, r"checkpoint-(\d+)")
        if not there:
            return 0
        number, folder = list(there.items())[-1]
        steps = {"the folder's name": number}
        for name, data in self.members(number).items():
            path = folder / name
            check(path.exists(), f"{folder.name} has no {name}")
            if data is None:
                steps[name] = read_json(path)["step"]
            else:
                steps[name] = {safetensors: read_safetensors, zipped: read_zipped,
                               opaque: read_opaque}[data](path)["step"]
        return same_step(steps)

    def remove_old(self, keep):
        for folder in list(numbered(self.at, r"checkpoint-(\d+)").values())[:-keep or None]:
            shutil.rmtree(folder)

    def save(self, step):
        if self.first_removed:
            self.remove_old(self.keep - 1)
        folder = self.at / f"checkpoint-{step}"
        for name, data in self.members(step).items():
            if data is None:
                put_json(folder / name, {"step": step})
            else:
                put(folder / name, data(step, name))
        if not self.first_removed:
            self.remove_old(self.keep)


class Transformers(Folders):
    def members(self, step):
        return {**super().members(step), "trainer_state.json": None}


class SentenceTransformers(Folders):
    def members(self, step):
        return {"modules.json": None, "0_Transformer/config.json": None,
                "0_Transformer/model.safetensors": safetensors, "1_Pooling/config.json": None,
                "2_Dense/model.safetensors": safetensors, "optimizer.pt": zipped,
                "rng_state.pth": zipped, "trainer_state.json": None}


class Adapters(Folders):
    def members(self, step):
        return {"adapter_config.json": None, "adapter_model.safetensors": safetensors,
                "optimizer.pt": zipped, "scheduler.pt": zipped, "trainer_state.json": None}


class PeftCallback(Folders):
    """on_save() adds its folder when the Trainer is done."""
    def members(self, step):
        return {**super().members(step), "trainer_state.json": None,
                "adapter/adapter_config.json": None,
                "adapter/adapter_model.safetensors": safetensors}

    def save(self, step):
        folder = self.at / f"checkpoint-{step}"
        for name, data in self.members(step).items():
            if name == "adapter/adapter_config.json":
                self.remove_old(self.keep)
                time.sleep(0.05)
            put_json(folder / name, {"step": step}) if data is None else put(
                folder / name, data(step, name))


class Accelerate(Folders):
    """accelerator.save_state() of the examples of diffusers, one after another."""
    first_removed = True
    rest = 0.3

    def members(self, step):
        return {"unet/config.json": None, "unet/diffusion_pytorch_model.safetensors": safetensors,
                "optimizer.bin": zipped, "scheduler.bin": zipped, "random_states_0.pkl": opaque}


class ImageNet(Script):
    """checkpoint.pth.tar in place; of the best a copy."""
    files = "*.pth.tar"

    def __init__(self, directory):
        super().__init__(directory)
        self.best = 0

    def load(self):
        path, best = self.at / "checkpoint.pth.tar", self.at / "model_best.pth.tar"
        if not path.exists():
            check(not best.exists(), "only model_best is there")
            return 0
        found = read_zipped(path)
        self.best = found["best"]
        check(best.exists() and read_zipped(best)["step"] == self.best,
              f"the best is not that of step {self.best}")
        return found["step"]

    def save(self, step):
        is_best = step % (3 * EVERY) == EVERY or not self.best
        self.best = step if is_best else self.best
        path = self.at / "checkpoint.pth.tar"
        put(path, zipped(step, "checkpoint", best=self.best))
        if is_best:
            shutil.copyfile(path, self.at / "model_best.pth.tar")


class Timm(Script):
    """CheckpointSaver: tmp, last, and hard links of it."""
    files = "*.pth.tar"

    def load(self):
        last = self.at / "last.pth.tar"
        others = [path for path in self.at.iterdir() if path.name != "tmp.pth.tar"]
        if not last.exists():
            check(not others, f"no last, but {[path.name for path in others]}")
            return 0
        for path in others:
            number = re.fullmatch(r"checkpoint-(\d+)\.pth\.tar", path.name)
            step = read_zipped(path)["step"]
            check(not number or step == int(number[1]), f"{path.name} is of {step}")
        return read_zipped(last)["step"]

    def save(self, step):
        last, temporary = self.at / "last.pth.tar", self.at / "tmp.pth.tar"
        put(temporary, zipped(step, "last"))
        last.unlink(missing_ok=True)
        temporary.rename(last)
        numbers = numbered(self.at, r"checkpoint-(\d+)\.pth\.tar")
        if len(numbers) > 2:
            next(iter(numbers.values())).unlink()
        os.link(last, self.at / f"checkpoint-{step}.pth.tar")
        if step % (2 * EVERY) == 0:
            best = self.at / "model_best.pth.tar"
            best.unlink(missing_ok=True)
            os.link(last, best)


class Keras(Script):
    """ModelCheckpoint, and BackupAndRestore after it: three names in place."""
    files = "*.keras *.h5 *.json"

    def load(self):
        paths = [self.at / name for name in
                 ("model.keras", "backup/latest.weights.h5", "backup/training_metadata.json")]
        there = [path.name for path in paths if path.exists()]
        if not there:
            return 0
        check(len(there) == 3, f"only {there}")
        return same_step({"model": read_zipped(paths[0])["step"],
                          "weights": self.read_h5(paths[1]),
                          "metadata": read_json(paths[2])["step"]})

    @staticmethod
    def read_h5(path):
        data = path.read_bytes()
        check(len(data) > 96 and struct.unpack("<Q", data[40:48])[0] == len(data),
              f"{path.name} is torn")
        body = data[96:]
        check(hashlib.sha256(body[40:]).digest() == body[8:40], f"{path.name} is torn")
        return struct.unpack("<Q", body[:8])[0]

    @staticmethod
    def h5(step):
        noises = noise(step, "h5")
        body = struct.pack("<Q", step) + hashlib.sha256(noises).digest() + noises
        head = b"\x89HDF\r\n\x1a\n" + bytes(5) + b"\x08\x08" + bytes(9) + bytes(8) + b"\xff" * 8
        return (head + struct.pack("<Q", 96 + len(body)) + b"\xff" * 8).ljust(96, b"\0") + body

    def save(self, step):
        put(self.at / "model.keras", zipped(step, "model"))
        time.sleep(0.02)
        put(self.at / "backup/latest.weights.h5", self.h5(step))
        put_json(self.at / "backup/training_metadata.json", {"step": step})


class Nanochat(Script):
    """Sets of three files side by side; none is ever removed."""
    files = "*.pt *.json"

    def load(self):
        there = numbered(self.at, r"model_(\d+)\.pt")
        if not there:
            return 0
        number = list(there)[-1]
        paths = [self.at / f"meta_{number:06d}.json", self.at / f"optim_{number:06d}_rank0.pt"]
        check(all(path.exists() for path in paths), f"the set of {number} is not whole")
        return same_step({"name": number, "model": read_zipped(there[number])["step"],
                          "meta": read_json(paths[0])["step"],
                          "optimizer": read_zipped(paths[1])["step"]})

    def save(self, step):
        put(self.at / f"model_{step:06d}.pt", zipped(step, "model"))
        put_json(self.at / f"meta_{step:06d}.json", {"step": step})
        time.sleep(0.03)
        put(self.at / f"optim_{step:06d}_rank0.pt", zipped(step, "optimizer"))


class Lightning(Script):
    """save_top_k 1 and save_last="link": the guard takes a link for finished after a second."""
    files = "*.ckpt"
    rest = 2

    def load(self):
        last = self.at / "last.ckpt"
        there = numbered(self.at, r"epoch=\d+-step=(\d+)\.ckpt")
        if not os.path.lexists(last):
            check(not there, "no last.ckpt")
            return 0
        check(last.exists(), f"last.ckpt leads to {os.readlink(last)}, which is not there")
        return same_step({"last.ckpt": read_zipped(last)["step"], "newest": list(there)[-1]})

    def save(self, step):
        before = list(numbered(self.at, r"epoch=\d+-step=(\d+)\.ckpt").values())
        name = f"epoch={step // EVERY - 1}-step={step}.ckpt"
        put(self.at / name, zipped(step, "weights"))
        for path in before:
            path.unlink()
        last = self.at / "last.ckpt"
        if os.path.lexists(last):
            last.unlink()
        last.symlink_to(name)


class Megatron(Script):
    """iter_NNN folders, and a tracker that names the newest by its number."""
    folders = "iter_*"
    tracker, keep = "latest_checkpointed_iteration.txt", 3

    def folder(self, step):
        return self.at / f"iter_{step:07d}"

    def parts(self):
        return [f"mp_rank_0{rank}/model_optim_rng.pt" for rank in range(2)]

    def named(self, text):
        return int(text)

    def load(self):
        tracker = self.at / self.tracker
        if not tracker.exists():
            return 0
        try:
            step = self.named(tracker.read_text())
        except ValueError as error:
            raise Damaged(f"{self.tracker}: {error}") from error
        steps = {"tracker": step}
        for name in self.parts():
            path = self.folder(step) / name
            check(path.exists(), f"{self.tracker} names {step}, of which {name} is not there")
            steps[name] = read_zipped(path)["step"]
        return same_step(steps)

    def save(self, step):
        for name in self.parts():
            put(self.folder(step) / name, zipped(step, name))
        put(self.at / self.tracker, self.words(step), pieces=1)
        for path in sorted(self.at.glob(self.folders))[:-self.keep]:
            shutil.rmtree(path)

    def words(self, step):
        return str(step)


class DeepSpeed(Megatron):
    folders, tracker = "global_step*", "latest"

    def folder(self, step):
        return self.at / f"global_step{step}"

    def parts(self):
        return ["mp_rank_00_model_states.pt", "bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"]

    def named(self, text):
        return int(text.removeprefix("global_step"))

    def words(self, step):
        return f"global_step{step}"

    def save(self, step):  # nothing is removed but by hand
        for name in self.parts():
            put(self.folder(step) / name, zipped(step, name))
        put(self.at / self.tracker, self.words(step), pieces=1)
        for old in list(numbered(self.at, r"global_step(\d+)").values())[:-4]:
            shutil.rmtree(old)


class TensorFlow(Script):
    """CheckpointManager, max_to_keep 2."""
    files = "ckpt-*"

    def load(self):
        state = self.at / "checkpoint"
        if not state.exists():
            return 0
        named = re.match(r'model_checkpoint_path: "ckpt-(\d+)"\n', state.read_text())
        check(named, "`checkpoint` is torn")
        step, prefix = int(named[1]), f"ckpt-{named[1]}"
        index, data = self.at / f"{prefix}.index", self.at / f"{prefix}.data-00000-of-00001"
        check(index.exists() and data.exists(), f"`checkpoint` names {prefix}, which is not there")
        return same_step({"name": step, "index": read_opaque(index)["step"],
                          "data": read_opaque(data)["step"]})

    def save(self, step):
        prefix, parts = f"ckpt-{step}", self.at / f"ckpt-{step}_temp"
        put(parts / "part-00000-of-00001.data-00000-of-00001", opaque(step, "data"))
        put(parts / "part-00000-of-00001.index", opaque(step, "index"), pieces=1)
        (parts / "part-00000-of-00001.data-00000-of-00001").rename(
            self.at / f"{prefix}.data-00000-of-00001")
        (parts / "part-00000-of-00001.index").rename(self.at / f"{prefix}.index")
        parts.rmdir()
        state = self.at / "checkpoint.tmp"
        put(state, f'model_checkpoint_path: "{prefix}"\nall_model_checkpoint_paths: "{prefix}"\n',
            pieces=1)
        state.rename(self.at / "checkpoint")
        for number in list(numbered(self.at, r"ckpt-(\d+)\.index"))[:-2]:
            for path in self.at.glob(f"ckpt-{number}.*"):
                path.unlink()


class Yolo(Script):
    """results.csv, last.pt, best.pt."""
    files = "*.pt"

    def load(self):
        last, best = self.at / "weights/last.pt", self.at / "weights/best.pt"
        if not last.exists():
            check(not best.exists(), "only best.pt is there")
            return 0
        found = read_zipped(last)
        check(best.exists() and read_zipped(best)["step"] == found["best"],
              f"best.pt is not that of step {found['best']}")
        return found["step"]

    def save(self, step):
        with open(self.at / "results.csv", "a", encoding="ascii") as file:
            file.write(f"{step},0.5\n")
        best = step - step % (2 * EVERY) or step
        put(self.at / "weights/last.pt", zipped(step, "last", best=best))
        if best == step:
            put(self.at / "weights/best.pt", zipped(step, "best"))


class Sqlite(Script):
    """A study in a database, with its journal, beside a checkpoint in place; what is never closed
    is taken for finished after a second, too."""
    files = "*.db *.bin"
    rest = 2

    def __init__(self, directory):
        super().__init__(directory)
        self.study = sqlite3.connect(directory / "study.db")
        self.study.execute("pragma journal_mode = delete")
        for table in ("trials", "params"):
            self.study.execute(f"create table if not exists {table} (step integer, words text)")
        self.study.commit()

    def load(self):
        try:
            whole = self.study.execute("pragma integrity_check").fetchone()[0]
            newest = [self.study.execute(f"select max(step) from {table}").fetchone()[0] or 0
                      for table in ("trials", "params")]
        except sqlite3.Error as error:
            raise Damaged(f"study.db: {error}") from error
        check(whole == "ok", f"study.db: {whole}")
        check(newest[0] == newest[1], f"study.db: half a transaction: {newest}")
        path = self.at / "weights.bin"
        if not path.exists():
            return 0
        step = read_opaque(path)["step"]
        check(newest[0] >= step, f"study.db is of {newest[0]}, the weights of {step}")
        return step

    def save(self, step):
        for table in ("trials", "params"):
            self.study.execute(f"insert into {table} values (?, ?)", (step, "x" * 5000))
            time.sleep(PIECE)
        self.study.commit()
        put(self.at / "weights.bin", opaque(step, "weights"))


KINDS = {"nanogpt": NanoGpt, "transformers": Transformers,
         "sentence-transformers": SentenceTransformers, "adapters": Adapters,
         "peft-callback": PeftCallback, "accelerate": Accelerate, "imagenet": ImageNet,
         "timm": Timm, "ddp": Ddp, "keras": Keras, "nanochat": Nanochat, "lightning": Lightning,
         "megatron": Megatron, "deepspeed": DeepSpeed, "tensorflow": TensorFlow, "yolo": Yolo,
         "sqlite": Sqlite}


def main(kinds):
    kind, directory, log = sys.argv[1:]
    with open(log, "a", encoding="ascii", buffering=1) as said:
        script = kinds[kind](pathlib.Path(directory))
        try:
            step = script.load()
        except Damaged as why:
            said.write(f"damaged {why}\n")
            return 1
        stops = []
        signal.signal(signal.SIGTERM, lambda *_: stops.append(1))
        said.write(f"start {step}\n")
        while True:
            step += 1
            script.train()
            if step % EVERY == 0 or stops:
                said.write(f"save {step} {time.time_ns()}\n")
                script.save(step)
                said.write(f"saved {step}\n")
            if stops:
                time.sleep(0.3)  # frameworks end their workers and devices
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main(KINDS))
