"""The generators of random numbers: Python's, NumPy's, PyTorch's of the CPU and of each GPU.

    run.save(step, model=model.state_dict(), generators=spotter.generators.capture())
    ...
    spotter.generators.restore(old.get("generators"))

What the callbacks and savers of frameworks save beside what their framework does. NumPy and PyTorch
count where they are loaded, GPUs where CUDA is in use: none of them is begun for it. Of several
ranks each has its own.
"""

import random
import sys

_LOST = ("spotter: this checkpoint has no states of the generators of random numbers, as one of an "
         "older version: the training goes on with others, and ends with other bits")


def capture():
    """The states as plain numbers, texts and tensors, which torch.load(weights_only=True) takes."""
    states = {"python": random.getstate()}
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if numpy:
        name, words, *rest = numpy.random.get_state()
        states["numpy"] = (name, tuple(words.tolist()), *rest)
    if torch:
        states["torch"] = torch.random.get_rng_state()
    if torch and torch.cuda.is_available() and torch.cuda.is_initialized():
        states["cuda"] = torch.cuda.get_rng_state_all()
    return states


def restore(states):
    """What capture() has returned; None, as of an older checkpoint, is said in a line."""
    if not states:
        print(_LOST, file=sys.stderr, flush=True)
        return
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
    if "numpy" in states:
        import numpy

        numpy.random.set_state(tuple(states["numpy"]))
    if "torch" in states:
        import torch

        torch.random.set_rng_state(states["torch"])
        _restore_gpus(torch.cuda, states.get("cuda", ()))


def _restore_gpus(cuda, states):
    """The machine may have another number of them, or none."""
    for device, state in enumerate(states[:cuda.device_count()]):
        cuda.set_rng_state(state, device)


class Kept:
    """Generators that are kept from what happens within: `with Kept(): evaluate()`."""

    def __enter__(self):
        self.states = capture()

    def __exit__(self, *_):
        restore(self.states)
