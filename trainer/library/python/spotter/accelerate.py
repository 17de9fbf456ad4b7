"""Accelerate:

    saver = spotter.accelerate.Saver(accelerator)    # after prepare(); $SPOTTER_CHECKPOINTS
    step = saver.restore()                           # 0: from scratch
    for batch in batches_after(step):
        with accelerator.accumulate(model):
            ...
        saver.step(loss=loss)               # after each batch; exits with status 75 when asked
    saver.finished()                        # the result is durable

Each checkpoint is a folder of save_state(), `checkpoint-N` after N steps of the optimizer. It is
written under another name and renamed once it is durable: it is there whole, or not at all. What
load_state() does not know (how far the data was read) is to be made from `step`, or registered with
accelerator.register_for_checkpointing(). All ranks make all of these calls.
"""

import sys

from . import _run
from ._accumulation import Accumulation, Randomness
from ._folders import Folders


class Saver:
    """directory    as for spotter.open()
    keep_last    checkpoints
    options      every and signals of spotter.open()
    """

    def __init__(self, accelerator, directory=None, *, keep_last=2, **options):
        if accelerator.project_configuration.automatic_checkpoint_naming:
            raise ValueError("automatic_checkpoint_naming writes elsewhere: leave it off")
        self._accelerator = accelerator
        self.run = _run.open(directory, keep_last=keep_last, **options)
        self._folders = Folders(self.run.directory, keep_last)
        self.count, self._durable = 0, None  # steps of the optimizer
        self._accumulation, self._random = Accumulation(), Randomness()
        self._begins()

    def restore(self):
        """Loads the newest checkpoint; returns its step, 0 without one."""
        found = self.run._ranks.share(
            lambda: max(self._folders.steps(), default=None))
        self.count, self._durable = found or 0, found
        self.run.resumed(self.count)
        if found is not None:
            self._accelerator.load_state(str(self._folders.path(found)))
        self._begins()
        return self.count

    def step(self, **progress):
        """To be called after each batch, with what progress() takes."""
        if not self._accelerator.sync_gradients:
            if not self.run.has_time(self._accumulation.rest()):
                self._random.go_back()
                self._accelerator.step = self._batches  # of the accumulation, which starts over
                self.save()
                self.run.leave()
                sys.exit(_run.STOPPED)
            return
        self.count += 1
        self.run.progress(self.count, **progress)
        if self.run.should_checkpoint():
            self.save()
        self.run.stop_if_asked()
        self._begins()

    def save(self):
        """Saves now; False: it would not be durable in time."""
        if self.count == self._durable:
            self.run.saved(self.count, self._folders.path(self.count))
            return True
        if not self.run.can_save():
            return False
        self.run.begin_save()
        made = self._folders.unfinished(self.count)
        self.run._ranks.share(self._clean)
        self._accelerator.save_state(str(made))
        self.run.saved(self.count, self._folders.path(self.count), made_as=made)
        self._durable = self.count
        self.run._ranks.share(lambda: self._folders.rotate(self.count))
        return True

    def _clean(self):
        self.run._check_writer()
        self._folders.clean()

    def finished(self):
        """Reports that the result is durable: the job may end."""
        self.run.finished()

    def close(self):
        self.run.close()

    def _begins(self):
        batches = self._accelerator.gradient_accumulation_steps
        self._accumulation.begins(batches)
        self._batches = self._accelerator.step
        if batches > 1:
            self._random.remember()
