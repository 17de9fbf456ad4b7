"""PyTorch Lightning:

    callback = spotter.lightning.Callback()              # $SPOTTER_CHECKPOINTS
    trainer = Trainer(callbacks=[callback])
    trainer.fit(model, data, ckpt_path=callback.ckpt_path())
    callback.exit_if_stopped()

Saved is what Lightning itself would write, and what it leaves out: the generators of random
numbers, of each rank and GPU, and where the epoch's loaders are. So a training that was interrupted
ends with the bits of one that was not. Within an epoch the batches that were trained on are loaded
once more, and dropped; what a worker that outlives its epoch (persistent_workers) draws by itself
is not known. An evaluation leaves the generators as it has found them: a resumed run may leave it
out.
"""

import os
import pathlib
import sys
import tempfile
import threading

from . import _run, generators
from ._accumulation import Accumulation
from ._lightning_data import Data

try:
    from lightning.pytorch import Callback as _Base
except ImportError:
    from pytorch_lightning import Callback as _Base


# Lightning starts the script again for the other devices; they find the checkpoint by it.
FILE = "SPOTTER_LIGHTNING_CHECKPOINT"
# In Lightning's checkpoint, for each rank: which numbers it draws next, and from which batch.
OURS = "spotter_exactly"


class Callback(_Base):
    def __init__(self, directory=None, **options):
        super().__init__()
        self.run = _run.open(directory, **options)
        self.stopped = False
        self._folder = None
        self._data, self._step = Data(), Accumulation()
        self._at_step = None  # the end of the last one, as a checkpoint within the next one has it

    def ckpt_path(self):
        """For Trainer.fit(ckpt_path=): the newest checkpoint as a file of Lightning's own format,
        or None."""
        import torch

        if not self.run.leads and FILE in os.environ:
            return os.environ[FILE] or None
        old = self.run.restore()
        os.environ[FILE] = ""
        if old is None:
            return None
        if OURS not in old["lightning"]:
            generators.restore(None)
        self._folder = tempfile.TemporaryDirectory(prefix="spotter-")
        path = pathlib.Path(self._folder.name) / f"step-{old.step}.ckpt"
        torch.save(old["lightning"], path)
        os.environ[FILE] = str(path)
        return str(path)

    def exit_if_stopped(self):
        if self.stopped:
            sys.exit(_run.STOPPED)

    def setup(self, trainer, pl_module, stage):
        if stage == "fit":
            self._data.watch(trainer)

    def on_load_checkpoint(self, trainer, pl_module, checkpoint):
        everybodys = checkpoint.get(OURS, ())
        if trainer.global_rank < len(everybodys):
            self._data.resumes(**everybodys[trainer.global_rank])

    def on_train_start(self, trainer, pl_module):
        # Lightning's own handler of SIGTERM, which it has put there by now, ends the training
        # before the next batch, without a checkpoint and with status 0.
        if threading.current_thread() is threading.main_thread():
            self.run.catch_signals()
        if trainer.world_size > 1:
            trainer.strategy.barrier()
        if self._folder:  # all ranks have read it
            self._folder.cleanup()
            self._folder = None
        self._at_step = None
        self._step.begins(trainer.accumulate_grad_batches)

    def on_train_epoch_start(self, trainer, pl_module):
        self._data.epoch_starts()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        step = trainer.global_step
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self.run.progress(step, epoch=trainer.current_epoch + 1,
                          loss=float("nan") if loss is None else loss)
        if self._data.accumulates():
            # No checkpoint has the gradients that wait: one made here repeats the step's batches.
            if not self.run.has_time(self._step.rest()):
                self._save_last_step(trainer)
                self._stop(trainer)
            return
        if self.run.should_checkpoint():
            self.run.save(step, lightning=self._checkpoint(trainer, self._now(trainer)))
        if self.run.should_stop():
            self._stop(trainer)
        if trainer.accumulate_grad_batches > 1:
            self._at_step = self._now(trainer)
            self._step.begins(trainer.accumulate_grad_batches)

    def _stop(self, trainer):
        self.stopped = trainer.should_stop = True
        self.run.leave()  # now: Lightning evaluates first

    def _save_last_step(self, trainer):
        if self._at_step and self.run.can_save():
            self.run.begin_save()
            self.run.save(trainer.global_step, lightning=self._checkpoint(trainer, self._at_step))

    def _now(self, trainer):
        return self._data.now(trainer._checkpoint_connector._get_loops_state_dict())

    def _checkpoint(self, trainer, at):
        """All that Lightning itself would write, loops and optimizers included, and ours."""
        loops, exactly = at
        state = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
        return state | {"loops": loops, OURS: self.run._ranks.gather(exactly)}

    def on_validation_end(self, trainer, pl_module):
        if trainer.sanity_checking:  # of two batches, before the first step
            return
        if metrics := _run.evaluated(trainer.callback_metrics):
            self.run.progress(trainer.global_step, epoch=trainer.current_epoch + 1,
                              metrics=metrics)

    def on_train_end(self, trainer, pl_module):
        if not self.stopped:
            self.run.flush()
