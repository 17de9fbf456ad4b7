"""libspotter for Python: checkpoints that cannot tear, written behind the training's back.

    import spotter

    run = spotter.open("checkpoints")            # without a name: $SPOTTER_CHECKPOINTS
    old = run.restore()                          # None: from scratch
    if old:
        model.load_state_dict(old["model"])
    for step in range(old.step + 1 if old else 1, steps + 1):
        train(step)
        run.progress(step, loss=loss)
        if run.should_checkpoint():
            run.save(step, model=model.state_dict())
        run.stop_if_asked()                      # exits with status 75 when it is time to go
    run.finished()                               # the result is durable

What is saved may be anything that pickle takes; tensors of PyTorch and arrays of NumPy inside it,
however deep, are copied at the speed of memory. save() returns when they are; the disk is written
behind. Outside of Spotter all of it works as a plain checkpoint library.

Data of a channel (spotter pipe, a job's `channels:`, SageMaker's Pipe mode) goes on where the
checkpoint left it, in the middle of an epoch, too; spotter.data has it for PyTorch:

    train = run.channel("train")                 # after restore(); recordio, or lines=True, ...
    for epoch in range(train.epoch, epochs):
        for record in train: ...

Only load checkpoints that you wrote yourself: they hold pickles.
"""

from ._channel import Channel
from ._run import STOPPED, Checkpoint, Run, SpotterError, Stopped, open  # noqa: A004

__all__ = ["STOPPED", "Channel", "Checkpoint", "Run", "SpotterError", "Stopped", "open"]
