"""What Lightning's and Keras' tests share: lives of a training that draws from each generator,
ended at every kind of moment, and the bits with which it ends."""

import contextlib
import importlib.util
import io
import os
import random
import signal
import sys

import numpy
import torch
from common import Inside

import spotter


def skip_without(*packages):
    """Debian has none of them: pip install --target build/frameworks/site."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        print(f"skipped: no {', '.join(missing)} in build/frameworks/site (tests/README.md)")
        sys.exit(77)


def draw():
    """A number that each of the generators is needed for."""
    return random.random() + numpy.random.random() + torch.rand(()).item()


def _kill():
    os.kill(os.getpid(), signal.SIGKILL)


class Exactly(Inside):
    """`train(seed, at, call, **options)` trains to the end, or until it is stopped, and returns the
    weights; `call` is called once so many steps are done."""

    def whole(self, **options):
        here, self.checkpoints = self.checkpoints, self.folder / "whole"
        weights = self.train(seed=3, **options)
        self.checkpoints = here
        self.life_is_over()
        return weights

    def lives(self, *ends, **options):
        """The weights of one that is ended at these steps, and goes on as another process would:
        with generators that were never those."""
        for number, at in enumerate(ends):
            with self.assertRaises(SystemExit) as end:
                self.train(seed=3 if number == 0 else 100 + number, at=at, call=self.notice,
                           **options)
            self.assertEqual(end.exception.code, spotter.STOPPED)
            self.life_is_over()
        return self.train(seed=200, **options)

    def killed(self, *ends, **options):
        """The same of one for each step at which it is killed, with a checkpoint at most steps; and
        of one that is not."""
        for at in ends:  # before this process has a gradient
            self.checkpoints = self.folder / f"killed-{at}"
            child = self.child(lambda: self.train(seed=3, at=at, call=_kill, every=1e-6, **options))
            self.assertEqual(self.end(child), -signal.SIGKILL)
        whole = self.whole(**options)
        for at in ends:
            self.checkpoints = self.folder / f"killed-{at}"
            yield at, self.train(seed=200, **options), whole

    def assert_same(self, weights, expected):
        self.assertEqual(len(weights), len(expected))
        for at, (one, other) in enumerate(zip(weights, expected)):
            self.assertTrue(numpy.array_equal(one, other), f"weights {at} differ")

    @contextlib.contextmanager
    def warned(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            yield
        self.assertEqual(said.getvalue().count("no states of the generators"), 1, said.getvalue())
