"""Keras (3, or as tensorflow.keras):

    callback = spotter.keras.Callback("checkpoints")
    model.fit(x, y, initial_epoch=callback.restore(model), callbacks=[callback])
    callback.exit_if_stopped()

Saved at the end of a batch, or of an epoch, when it is time; fit() can only begin at an epoch, so a
run that was stopped within one repeats that epoch's first batches on the weights that it had.
"""

import sys

from . import _run

try:
    from keras.callbacks import Callback as _Base
except ImportError:
    from tensorflow.keras.callbacks import Callback as _Base


def _numbers(variable):
    return variable.numpy() if hasattr(variable, "numpy") else variable


def _optimizer_variables(model):
    variables = getattr(getattr(model, "optimizer", None), "variables", None)
    return list(variables() if callable(variables) else variables or [])


class Callback(_Base):
    def __init__(self, directory=None, **options):
        super().__init__()
        self.run = _run.open(directory, **options)
        self.stopped = self._fits = False
        self._epoch = self._step = 0

    def restore(self, model):
        """Loads the newest checkpoint into a compiled, built model; returns the epoch to continue
        with (0: from scratch)."""
        old = self.run.restore()
        if old is None:
            return 0
        model.set_weights(old["weights"])
        optimizer = getattr(model, "optimizer", None)
        if old["optimizer"] and optimizer is not None:
            if hasattr(optimizer, "build"):
                optimizer.build(model.trainable_variables)
            for variable, value in zip(_optimizer_variables(model), old["optimizer"]):
                variable.assign(value)
        self._step = old.step
        return old.meta["epoch"]

    def exit_if_stopped(self):
        if self.stopped:
            sys.exit(_run.STOPPED)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self._step += 1
        logs = logs or {}
        last = batch + 1 == (self.params or {}).get("steps")  # None where Keras does not know
        if last:
            self._epoch += 1
        self.run.progress(self._step, epoch=self._epoch + (not last),
                          loss=logs.get("loss", float("nan")),
                          accuracy=logs.get("accuracy", float("nan")))
        self._save_if_due()

    # Weights do not change during an evaluation, but a notice must not wait for its end.
    def on_test_batch_end(self, batch, logs=None):
        if self._fits and not self.stopped:
            self._save_if_due()

    def on_train_begin(self, logs=None):
        self._fits = True

    def on_epoch_end(self, epoch, logs=None):
        self._epoch = epoch + 1
        if metrics := _run.evaluated(logs or {}):
            self.run.progress(self._step, epoch=self._epoch, metrics=metrics)
        if not self.stopped:
            self._save_if_due()

    def on_train_end(self, logs=None):
        self._fits = False
        if not self.stopped:
            self.run.flush()

    def _save_if_due(self):
        if self.run.should_checkpoint():
            self.run.save(self._step, weights=self.model.get_weights(),
                          optimizer=[_numbers(one) for one in _optimizer_variables(self.model)],
                          meta={"epoch": self._epoch})
        if self.run.should_stop():
            self.stopped = self.model.stop_training = True
            self.run.leave()  # now: Keras evaluates the epoch first
