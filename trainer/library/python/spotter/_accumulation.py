"""What callbacks of frameworks share."""

import random
import sys
import time


class Once:
    """A number for progress(), which fetches it only when it is sent: NaN from then on."""

    def __init__(self, value):
        self._value = value

    def __float__(self):
        value, self._value = float(self._value), float("nan")
        return value


class Accumulation:
    """How long the rest of a step takes that accumulates the gradients of several batches."""

    def __init__(self):
        self._begun, self._batches, self._done = time.monotonic(), 1, 0

    def begins(self, batches):
        self._begun, self._batches, self._done = time.monotonic(), batches, 0

    def rest(self):
        """To be called after each batch but the last: seconds."""
        self._done += 1
        each = (time.monotonic() - self._begun) / self._done
        return each * max(self._batches - self._done, 1)


class Randomness:
    """The generators of random numbers as they were at the end of a step: a checkpoint that is made
    within the next one repeats its batches with the same numbers."""

    def __init__(self):
        self._restore = []

    def remember(self):
        numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
        self._restore = [(random.setstate, random.getstate())]
        if numpy:
            self._restore.append((numpy.random.set_state, numpy.random.get_state()))
        if torch:
            self._restore.append((torch.random.set_rng_state, torch.random.get_rng_state()))
        if torch and torch.cuda.is_available() and torch.cuda.is_initialized():
            cuda = torch.cuda
            self._restore.append((cuda.set_rng_state_all, cuda.get_rng_state_all()))

    def go_back(self):
        for restore, state in self._restore:
            restore(state)
