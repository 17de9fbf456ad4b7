#!/usr/bin/python3
"""The generators of random numbers in a checkpoint.

Environment: as for api_test.py.
"""

import contextlib
import io
import os
import random
import subprocess
import sys
import unittest
import unittest.mock

from api_test import PYTHON, Api, numpy, spotter, torch


class Gpus:
    """torch.cuda with so many, in use or not yet."""

    def __init__(self, count, used=True):
        self.states, self.used = [torch.tensor([each]) for each in range(count)], used

    def is_available(self):
        return bool(self.states)

    def is_initialized(self):
        return self.used

    def device_count(self):
        return len(self.states)

    def get_rng_state_all(self):
        assert self.used, "it begins CUDA"
        return [each.clone() for each in self.states]

    def set_rng_state(self, state, device):
        self.states[device] = state


@unittest.skipUnless(torch, "python3-torch is not installed")
class Generators(Api):
    @staticmethod
    def drawn():
        return (random.random(), random.gauss(0, 1), numpy.random.random(), numpy.random.normal(),
                torch.rand(2).tolist())

    def test_a_checkpoint_goes_on_with_the_same_numbers(self):
        for odd in (False, True):  # NumPy and Python draw normal numbers by twos
            with self.subTest(odd=odd), spotter.open(self.checkpoints) as run:
                if odd:
                    random.gauss(0, 1)
                    numpy.random.normal()
                run.save(1, generators=spotter.generators.capture())
                run.flush()
                following = self.drawn()
                random.seed(4)
                numpy.random.seed(4)
                torch.manual_seed(4)
                spotter.generators.restore(run.restore()["generators"])
                self.assertEqual(self.drawn(), following)

    @unittest.skipIf(not torch or torch.__version__ < "2", "it takes no floating-point number")
    def test_pytorch_loads_them_where_it_loads_no_code(self):
        file = io.BytesIO()
        states = spotter.generators.capture()
        torch.save(states, file)
        file.seek(0)
        loaded, following = torch.load(file, weights_only=True), self.drawn()
        spotter.generators.restore(loaded)
        self.assertEqual(self.drawn(), following)

    def test_gpus_in_use_have_theirs_and_none_is_begun_for_it(self):
        with unittest.mock.patch.object(torch, "cuda", Gpus(2, used=False)):
            self.assertNotIn("cuda", spotter.generators.capture())
        with unittest.mock.patch.object(torch, "cuda", Gpus(2)):
            states = spotter.generators.capture()
        for count in (0, 1, 2, 3):
            gpus = Gpus(count)
            gpus.states = [torch.tensor([-1]) for _ in gpus.states]
            with unittest.mock.patch.object(torch, "cuda", gpus):
                spotter.generators.restore(states)
            self.assertEqual([int(each) for each in gpus.states], [0, 1, -1][:count])

    def test_nothing_is_loaded_for_it(self):
        program = ("import sys, spotter; states = spotter.generators.capture(); "
                   "spotter.generators.restore(states); "
                   "print(sorted(states), 'numpy' in sys.modules, 'torch' in sys.modules)")
        said = subprocess.run(["/usr/bin/python3", "-c", program], stdout=subprocess.PIPE,
                              env=os.environ | {"PYTHONPATH": str(PYTHON)}, text=True, check=True)
        self.assertEqual(said.stdout, "['python'] False False\n")

    def test_a_checkpoint_without_them_is_said(self):
        before = random.getstate()
        with contextlib.redirect_stderr(io.StringIO()) as said:
            spotter.generators.restore(None)
        self.assertRegex(said.getvalue(), r"\Aspotter: this checkpoint has no states [^\n]*\n\Z")
        self.assertEqual(random.getstate(), before)


if __name__ == "__main__":
    sys.exit(unittest.main())
