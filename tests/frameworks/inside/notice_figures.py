"""A notice in a training of Transformers that accumulates gradients and saves once an epoch:

    inside_test.py ROOT LIBRARY notice_figures [--rounds N] [--batch SECONDS] [--window SECONDS]

in three ways: Transformers' own enable_jit_checkpoint on SIGTERM; spotter.transformers.Callback on
SIGTERM alone; and with the notice's file, which says until when one may train. Each round in a
process of its own, at a moment drawn by chance, the same for all three. Says how long it takes to
the first whole checkpoint (ours are durable by then, Transformers' are not), and how many steps
more or less than at the notice the machine's end leaves in the newest one.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import socket
import statistics
import tempfile
import threading
import time
import traceback

import torch

torch.set_num_threads(1)
import transformers as hf  # noqa: E402
from common import write_notice  # noqa: E402

import spotter.transformers  # noqa: E402

BATCHES = 8  # a step
WAYS = ("enable_jit_checkpoint", "spotter, SIGTERM", "spotter, notice")


class Slow(hf.GPT2LMHeadModel):
    """A model whose batch takes as long as it is asked to."""

    batches, each = 0, 0.0

    def forward(self, input_ids=None, labels=None, **options):  # the names are looked up
        time.sleep(self.each)
        Slow.batches += 1
        return super().forward(input_ids=input_ids, labels=labels, **options)


def whole(folder):
    """The steps of the checkpoints that are written to their end."""
    return [int(path.parent.name.split("-")[1])
            for path in folder.glob("checkpoint-*/trainer_state.json")
            if not (path.parent / "checkpoint-is-incomplete.txt").exists()]


class Round:
    def __init__(self, way, folder, options):
        self.way, self.folder, self.options = way, folder, options
        self.noticed = self.first = self.done = None

    def trainer(self):
        Slow.each = self.options.batch
        config = hf.GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=1000, n_positions=32,
                               bos_token_id=0, eos_token_id=0)
        data = [{"input_ids": row, "labels": row} for row in torch.randint(1000, (4000, 32))]
        ours = self.way != WAYS[0]
        trainer = hf.Trainer(Slow(config), hf.TrainingArguments(
            str(self.folder / "out"), gradient_accumulation_steps=BATCHES, save_strategy="epoch",
            per_device_train_batch_size=1, use_cpu=True, disable_tqdm=True, report_to=[],
            logging_steps=1000, enable_jit_checkpoint=not ours), train_dataset=data)
        if ours:
            trainer.add_callback(spotter.transformers.Callback())
        return trainer

    def notice(self, after):
        """When so many seconds of the training are over."""
        while not Slow.batches:
            time.sleep(0.001)
        time.sleep(after)
        self.noticed, self.done = time.monotonic(), Slow.batches
        if self.way == WAYS[2]:
            write_notice(self.folder / "notice", self.options.window)
        else:
            os.kill(os.getpid(), signal.SIGTERM)
        while self.first is None:
            if self.way != WAYS[0]:
                there = "X_SPOTTER_CHECKPOINT_STEP" in self.ear.recv(4096).decode()
            else:
                there = whole(self.folder / "out")
                time.sleep(0.002)
            if there:
                self.first = time.monotonic()

    def run(self, after):
        os.environ["SPOTTER_NOTICE_FILE"] = str(self.folder / "notice")
        os.environ["NOTIFY_SOCKET"] = str(self.folder / "sock")
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.ear.bind(str(self.folder / "sock"))
        waiting = threading.Thread(target=self.notice, args=(after,))
        waiting.start()
        try:
            self.trainer().train()
        except spotter.Stopped:
            pass
        ended = time.monotonic()
        waiting.join()
        gained = max(whole(self.folder / "out")) - self.done / BATCHES
        return self.first - self.noticed, gained, ended - self.noticed


def in_child(work):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, json.dumps(work()).encode())
        except BaseException:
            traceback.print_exc()
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    os.waitpid(child, 0)
    return json.loads(text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--batch", type=float, default=0.25, help="seconds")
    parser.add_argument("--window", type=float, default=20, help="seconds to train in")
    options = parser.parse_args()
    hf.logging.set_verbosity_error()
    hf.logging.disable_progress_bar()
    chance = random.Random(1)
    step = BATCHES * options.batch
    moments = [step + chance.random() * step for _ in range(options.rounds)]
    print(f"{options.rounds} notices, {BATCHES} batches of {options.batch} s a step; "
          f"medians (worst)")
    seconds = {}
    for way in WAYS:
        rows = []
        for after in moments:
            with tempfile.TemporaryDirectory() as folder:
                one = Round(way, pathlib.Path(folder), options)
                rows.append(in_child(lambda one=one, after=after: one.run(after)))
        first, gained, ended = zip(*rows)
        seconds[way] = statistics.median(first)
        print(f"{way:22} whole after {statistics.median(first):6.2f} s ({max(first):6.2f}); "
              f"steps in it against the notice's {statistics.median(gained):+6.2f} "
              f"({min(gained):+6.2f}); ended after {statistics.median(ended):6.2f} s", flush=True)
    for way in WAYS[1:]:
        print(f"{way}: {seconds[way] / seconds[WAYS[0]]:.2f} x the time of {WAYS[0]}")


if __name__ == "__main__":
    main()
