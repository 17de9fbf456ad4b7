"""libspotter for Python: atomic checkpoints, written in the background.

    import spotter

    run = spotter.open()                         # $SPOTTER_CHECKPOINTS; without Spotter a folder
    old = run.restore()                          # None: from scratch
    if old:
        model.load_state_dict(old["model"])
    for step in range(old.step + 1 if old else 1, steps + 1):
        train(step)
        run.progress(step, loss=loss)            # after an evaluation also val_loss=..., ...
        if run.should_checkpoint():
            run.save(step, model=model.state_dict())
        run.stop_if_asked()                      # exits with status 75 when it is time to go
    run.finished()                               # the result is durable

Anything that pickle accepts can be saved; PyTorch tensors and NumPy arrays in it, at any depth, are
copied at the speed of memory. save() returns once they are copied, and the disk is written in the
background. Without Spotter's agent this is a plain checkpoint library.

With spotter.generators.capture() among the values, and restore(), the same random numbers follow.

A channel (spotter pipe, a job's `channels:`, SageMaker's Pipe mode) resumes where the checkpoint
left it, also in the middle of an epoch; for PyTorch see spotter.data:

    train = run.channel("train")                 # after restore(); recordio, or lines=True, ...
    for epoch in range(train.epoch, epochs):
        for record in train: ...

Within a framework: spotter.transformers, spotter.accelerate, spotter.dcp (sharded states),
spotter.safetensors, spotter.lightning, spotter.keras; a format of your own: Run.saved().

Only load checkpoints that you wrote yourself: they hold pickles.
"""

from . import _ends, generators
from ._channel import Channel
from ._run import STOPPED, Checkpoint, Run, SpotterError, Stopped, open  # noqa: A004

__all__ = ["STOPPED", "Channel", "Checkpoint", "Run", "SpotterError", "Stopped", "generators",
           "open"]

_ends.watch()
