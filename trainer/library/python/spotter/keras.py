"""Keras (3, or as tensorflow.keras):

    callback = spotter.keras.Callback()                  # $SPOTTER_CHECKPOINTS
    model.fit(x, y, initial_epoch=callback.restore(model), callbacks=[..., callback])
    callback.exit_if_stopped()

Saved at the end of a batch, or of an epoch, when it is time, with what Keras leaves out of the
weights: the seeds of its layers, the generators of random numbers, the metrics, and where fit() is
in its data. So a training that was interrupted ends with the bits of one that was not. Within an
epoch its first batches are taken from the data once more, and not trained on again; where Keras 3
does not know how many batches an epoch has, in Keras 2, and of data that goes on over several
epochs, they are repeated on the weights that it had.

What is drawn between two epochs, as by an evaluation, is no part of the training: a resumed run
may leave it out, and each epoch goes on with the generators that the one before has left. The
callback stands last, so that what others change at an epoch's end is in the checkpoint; those that
remember something themselves (EarlyStopping, ReduceLROnPlateau) begin again.
"""

import sys

from . import _run, generators

try:
    from keras.callbacks import Callback as _Base
except ImportError:
    from tensorflow.keras.callbacks import Callback as _Base

LONG = 1e8  # seconds; there is so much time only where nobody asks to stop


def _numbers(variable):
    if hasattr(variable, "detach"):  # PyTorch's Keras has them on the GPU
        variable = variable.detach().cpu()
    return variable.numpy() if hasattr(variable, "numpy") else variable


def _optimizer_variables(model):
    variables = getattr(getattr(model, "optimizer", None), "variables", None)
    return list(variables() if callable(variables) else variables or [])


def _metric_variables(model):
    return list(getattr(model, "metrics_variables", ()))


def _seed_variables(model):
    """What Keras 3 counts as a model's state, but not as its weights: the layers' seeds."""
    weights = {id(each) for each in model.weights}
    return [each for each in getattr(model, "variables", ()) if id(each) not in weights]


def _global_seed(make=False):
    """The generator of what is drawn without a seed; None: there is none yet, or Keras is older."""
    try:
        from keras.src.backend.common import global_state
        from keras.src.random import seed_generator
    except ImportError:
        return None
    if make:
        return seed_generator.global_seed_generator()
    return global_state.get_global_attribute(seed_generator.GLOBAL_SEED_GENERATOR)


def _assign(variables, values):
    for variable, value in zip(variables, values):
        variable.assign(value)


def _data_of_fit():
    """The iterator of fit(), which it does not pass; None: this Keras has none."""
    frame = sys._getframe(1)
    while frame:
        if frame.f_code.co_name == "fit" and "epoch_iterator" in frame.f_locals:
            return frame.f_locals["epoch_iterator"]
        frame = frame.f_back
    return None


class _Data:
    """Where fit() is in its data: which pass it is, and with which generators it has begun."""

    def __init__(self):
        self._iterator = None
        self.number, self.begun = 0, None

    def epoch_begins(self):
        self._iterator = _data_of_fit()
        self.number = getattr(self._adapter(), "_epoch", 0)
        self.begun = generators.capture()

    def batches(self):
        """In an epoch; None: nobody knows, or it is not worth knowing."""
        endless = getattr(self._iterator, "steps_per_epoch", None)
        return None if endless else getattr(self._iterator, "num_batches", None)

    def go_on(self, number, begun, done, then):
        """After epoch_begins(): in that pass, behind so many batches; calls `then` before the next
        one is taken."""
        self.number, self.begun = number, begun
        if hasattr(self._adapter(), "_epoch"):
            self._adapter()._epoch = number
        if not done:
            return then()
        generators.restore(begun)
        iterator, every = self._iterator, self._iterator._enumerate_iterator

        def rest():
            iterator._enumerate_iterator = every
            waits = True
            for first, last, batches in every():
                if last < done:
                    for _ in range(last + 1 - first):
                        next(batches)
                    continue
                if waits:
                    then()
                waits = False
                yield first, last, batches

        iterator._enumerate_iterator = rest

    def _adapter(self):
        return getattr(self._iterator, "data_adapter", None)


class Callback(_Base):
    def __init__(self, directory=None, **options):
        super().__init__()
        self.run = _run.open(directory, **options)
        self.stopped = self._fits = False
        self._epoch = self._step = self._done = 0
        self._data, self._resumed = _Data(), None
        self._kept = None  # the generators, from the end of an epoch's last batch on

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
            _assign(_optimizer_variables(model), old["optimizer"])
        self._step = old.step
        self._resumed = old.get("exactly")
        if not self._resumed:
            generators.restore(None)
        return old.meta["epoch"]

    def exit_if_stopped(self):
        if self.stopped:
            sys.exit(_run.STOPPED)

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch, self._done = epoch, 0
        self._use_kept()
        self._data.epoch_begins()
        old, self._resumed = self._resumed, None
        if old:
            self._go_on(old)

    def _go_on(self, old):
        model, self._done = self.model, old["done"]
        _assign(_seed_variables(model), old["seeds"])
        if old["global_seed"] is not None and (seed := _global_seed(make=True)):
            seed.state.assign(old["global_seed"])
        if self._done:
            _assign(_metric_variables(model), old["metrics"])
        self._data.go_on(old["data"], old["begun"], self._done,
                         lambda: generators.restore(old["generators"]))

    def on_train_batch_end(self, batch, logs=None):
        self._step += 1
        logs = logs or {}
        steps = (self.params or {}).get("steps") or self._data.batches()  # None: nobody knows
        last = batch + 1 == steps
        if last:
            self._epoch += 1
            self._keep()
        self._done = 0 if last or not self._data.batches() else batch + 1
        self.run.progress(self._step, epoch=self._epoch + (not last),
                          loss=logs.get("loss", float("nan")),
                          accuracy=logs.get("accuracy", float("nan")))
        # The end of an epoch is saved with what the other callbacks make of it, if there is time.
        if not last or not self.run.has_time(LONG):
            self._save_if_due(last)

    # Weights do not change during an evaluation, but a notice must not wait for its end.
    def on_test_batch_end(self, batch, logs=None):
        if self._fits and not self.stopped and not self.run.has_time(LONG):
            self._save_if_due(True)

    def on_test_begin(self, logs=None):
        if self._fits:
            self._keep()

    def _keep(self):
        self._kept = self._kept or generators.capture()

    def _use_kept(self):
        if self._kept:
            generators.restore(self._kept)
        self._kept = None

    def on_train_begin(self, logs=None):
        self._fits = True

    def on_epoch_end(self, epoch, logs=None):
        self._epoch, self._done = epoch + 1, 0
        self._keep()
        if metrics := _run.evaluated(logs or {}):
            self.run.progress(self._step, epoch=self._epoch, metrics=metrics)
        if not self.stopped:
            self._save_if_due(True)

    def on_train_end(self, logs=None):
        self._fits = False
        self._use_kept()
        if not self.stopped:
            self.run.flush()

    def _save_if_due(self, whole):
        """`whole`: the epoch is."""
        if self.run.should_checkpoint():
            model = self.model
            self.run.save(self._step, weights=model.get_weights(),
                          optimizer=[_numbers(each) for each in _optimizer_variables(model)],
                          exactly=self._exactly(model, whole), meta={"epoch": self._epoch})
        if self.run.should_stop():
            self.stopped = self.model.stop_training = True
            self.run.leave()  # now: Keras evaluates the epoch first

    def _exactly(self, model, whole):
        now, seed = self._kept or generators.capture(), _global_seed()
        next_pass = whole or not self._done
        return {"seeds": [_numbers(each) for each in _seed_variables(model)],
                "global_seed": _numbers(seed.state) if seed else None,
                "metrics": [_numbers(each) for each in _metric_variables(model)],
                "generators": now, "done": 0 if whole else self._done,
                "begun": now if next_pass else self._data.begun,
                "data": self._data.number + whole}
