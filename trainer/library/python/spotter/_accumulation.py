"""What callbacks of frameworks share."""

import time

from . import generators


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
        self.states = None

    def remember(self):
        self.states = generators.capture()

    def go_back(self):
        if self.states:
            generators.restore(self.states)
