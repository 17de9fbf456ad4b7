"""PyTorch Lightning:

    callback = spotter.lightning.Callback("checkpoints")
    trainer = Trainer(callbacks=[callback])
    trainer.fit(model, data, ckpt_path=callback.ckpt_path())
    callback.exit_if_stopped()

Lightning begins its loader's epoch again where it goes on in the middle of one: the same bits as
without an interruption come from a loader that has state (Lightning calls its state_dict()), or of
one that was interrupted between two epochs.
"""

import os
import pathlib
import sys
import tempfile
import threading

from . import _run

try:
    from lightning.pytorch import Callback as _Base
except ImportError:
    from pytorch_lightning import Callback as _Base


# Lightning starts the script again for the other devices; they find the checkpoint by it.
FILE = "SPOTTER_LIGHTNING_CHECKPOINT"


class Callback(_Base):
    def __init__(self, directory=None, **options):
        super().__init__()
        self.run = _run.open(directory, **options)
        self.stopped = False
        self._folder = None

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
        self._folder = tempfile.TemporaryDirectory(prefix="spotter-")
        path = pathlib.Path(self._folder.name) / f"step-{old.step}.ckpt"
        torch.save(old["lightning"], path)
        os.environ[FILE] = str(path)
        return str(path)

    def exit_if_stopped(self):
        if self.stopped:
            sys.exit(_run.STOPPED)

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

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        step = trainer.global_step
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self.run.progress(step, epoch=trainer.current_epoch + 1,
                          loss=float("nan") if loss is None else loss)
        if self.run.should_checkpoint():
            # All that Lightning itself would write, loops and optimizers included.
            state = trainer._checkpoint_connector.dump_checkpoint(weights_only=False)
            self.run.save(step, lightning=state)
        if self.run.should_stop():
            self.stopped = trainer.should_stop = True
            self.run.leave()  # now: Lightning evaluates first

    def on_validation_end(self, trainer, pl_module):
        if trainer.sanity_checking:  # of two batches, before the first step
            return
        if metrics := _run.evaluated(trainer.callback_metrics):
            self.run.progress(trainer.global_step, epoch=trainer.current_epoch + 1,
                              metrics=metrics)

    def on_train_end(self, trainer, pl_module):
        if not self.stopped:
            self.run.flush()
