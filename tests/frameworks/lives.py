"""The lives of a trainer that knows nothing of Spotter, by a real framework, in its root:

    lives.py transformers|accelerate|dcp|dcp-async|dcp-ranks FOLDER RANKS

reads a line for each life, trains in a process of its own, and says how it went: the framework is
imported once. A life resumes from the highest checkpoint-N in FOLDER, as each of them has it, says
`resumed N` (0: from scratch), and saves every few steps until it is killed. Where it ends by itself
it could not resume: a broken checkpoint. dcp-ranks trains in RANKS processes, of which the launcher
ends all when one ends, as torchrun does.
"""

import ctypes
import os
import pathlib
import re
import shutil
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1
STEPS, PAUSE, KEPT = 2, 0.6, 2  # a save every 1.2 s: time for what the guard calls durable

KIND, FOLDER, RANKS = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])
LIBC = ctypes.CDLL(None)

import torch  # noqa: E402 (its threads do not outlive a fork)

torch.set_num_threads(1)


def resumed(step):
    print(f"resumed {step}", flush=True)


def step_of(path):
    return int(re.fullmatch(r"checkpoint-(\d+)", path.name).group(1))


def all_checkpoints():
    return sorted(FOLDER.glob("checkpoint-*"), key=step_of)


def steps_after(step, save):
    """The loop of a script: saves every few steps, and keeps the newest."""
    while True:
        time.sleep(PAUSE)
        step += 1
        if step % STEPS == 0:
            save(FOLDER / f"checkpoint-{step}", step)
            for old in all_checkpoints()[:-KEPT]:
                shutil.rmtree(old)


def transformers():
    import transformers as hf
    from transformers.trainer_utils import get_last_checkpoint

    class Slow(hf.TrainerCallback):
        def on_train_begin(self, _args, state, _control, **_more):
            resumed(state.global_step)

        def on_step_end(self, *_args, **_more):
            time.sleep(PAUSE)

    def life():
        config = hf.GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=1000, n_positions=32)
        data = [{"input_ids": row, "labels": row} for row in torch.randint(1000, (64, 32))]
        arguments = hf.TrainingArguments(
            str(FOLDER), save_steps=STEPS, save_total_limit=KEPT, max_steps=100_000, use_cpu=True,
            per_device_train_batch_size=2, disable_tqdm=True, report_to=[], logging_steps=1000)
        trainer = hf.Trainer(hf.GPT2LMHeadModel(config), arguments, train_dataset=data,
                             callbacks=[Slow()])
        trainer.train(resume_from_checkpoint=get_last_checkpoint(FOLDER) is not None)
    return life


def accelerate():
    from accelerate import Accelerator

    class Count:
        step = 0

        def state_dict(self):
            return {"step": self.step}

        def load_state_dict(self, state):
            self.step = state["step"]

    def life():
        accelerator, count = Accelerator(cpu=True), Count()
        model = torch.nn.Sequential(torch.nn.Linear(200, 200), torch.nn.Linear(200, 10))
        optimizer = torch.optim.Adam(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
        model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
        accelerator.register_for_checkpointing(count)
        if found := all_checkpoints():
            accelerator.load_state(str(found[-1]))
            assert count.step == step_of(found[-1])
        resumed(count.step)

        def save(path, step):
            count.step = step
            model(torch.rand(4, 200)).sum().backward()
            optimizer.step()
            accelerator.save_state(str(path))
        steps_after(count.step, save)
    return life


def distributed(asynchronous):
    import torch.distributed.checkpoint as dcp

    def life():
        if asynchronous:
            torch.distributed.init_process_group(
                "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        state = {"weights": torch.rand(400, 400), "more": torch.rand(300, 300), "step": 0}
        step = 0
        if found := all_checkpoints():
            dcp.load(state, checkpoint_id=str(found[-1]), no_dist=not asynchronous)
            step = state["step"]
            assert step == step_of(found[-1])
        resumed(step)
        under_way = []

        def save(path, step):
            state["step"] = step
            if not asynchronous:
                return dcp.save(state, checkpoint_id=str(path), no_dist=True)
            if under_way:
                under_way.pop().result()
            under_way.append(dcp.async_save(state, checkpoint_id=str(path)))
        steps_after(step, save)
    return life


def ranks():
    import torch.distributed.checkpoint as dcp
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, zeros

    def weights_of(mesh):
        # Not divisible by the ranks: their parts differ.
        return zeros(401, 400, device_mesh=mesh, placements=[Shard(0)])

    def one(rank, meeting, said):
        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank,
                                             world_size=RANKS)
        weights = weights_of(init_device_mesh("cpu", (RANKS,)))
        state = {"weights": weights, "whole": torch.zeros(300, 300), "step": 0}
        step = 0
        if found := all_checkpoints():
            dcp.load(state, checkpoint_id=str(found[-1]))
            step = state["step"]
            assert step == step_of(found[-1])
            assert bool((weights.to_local() == step).all() and (state["whole"] == step).all())
        if rank == 0:
            resumed(step)
        said.append(step)
        while True:
            time.sleep(PAUSE)
            step += 1
            if step % STEPS == 0:
                state |= {"step": step, "whole": torch.full((300, 300), float(step))}
                weights.to_local().fill_(step)
                dcp.save(state, checkpoint_id=str(FOLDER / f"checkpoint-{step}"))
                if rank == 0:
                    for old in all_checkpoints()[:-KEPT]:
                        shutil.rmtree(old)

    def life():
        meeting = FOLDER.parent / f"meeting-{os.getpid()}"
        children = []
        for rank in range(RANKS):
            children.append(os.fork())
            if children[-1] == 0:
                LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
                lived(lambda said, rank=rank: one(rank, meeting, said))
        print("pid", os.getpid(), *children, flush=True)
        ended, _ = os.wait()
        for child in children:
            if child != ended:
                os.kill(child, signal.SIGKILL)
        os._exit(1)
    return life


def lived(life):
    """Ends this process with it, and says why: what a person would see. What fails after it has
    resumed misses a rank that was killed."""
    said = []
    try:
        life(said)
    except BaseException as error:
        words = f"broken {type(error).__name__}: {error}"
        if not said:
            print(words.replace("\n", " ")[:300], flush=True)
    os._exit(1)


def main():
    life = {"transformers": transformers, "accelerate": accelerate, "dcp-ranks": ranks,
            "dcp": lambda: distributed(False), "dcp-async": lambda: distributed(True)}[KIND]()
    LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1)
    print("ready", flush=True)
    for _ in sys.stdin:
        if os.fork() == 0:
            if KIND != "dcp-ranks":
                print(f"pid {os.getpid()}", flush=True)
            lived(lambda _: life())
        try:
            while True:
                os.wait()  # for the ranks, too
        except ChildProcessError:
            print("over", flush=True)


main()
