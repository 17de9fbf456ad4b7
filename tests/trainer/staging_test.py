#!/usr/bin/python3
"""What a save does with tensors on a GPU, tried without one: a GPU's copies are late, and are there
only once they were waited for. So is this stand-in for CUDA."""

import unittest

from api_test import Api, spotter, torch
from spotter import _staging


class Late(_staging.Staging):
    """Copies nothing before wait()."""

    def __init__(self):
        super().__init__()
        self.queued, self.waits, self.made = [], 0, 0

    @staticmethod
    def takes(tensor):
        return True

    def _block(self, torch):
        self.made += 1
        return torch.full((_staging.BLOCK,), 0xEE, dtype=torch.uint8)

    def _copy(self, target, source):
        self.queued.append((target, source))

    def wait(self):
        for target, source in self.queued:
            target.copy_(source)
        self.queued.clear()
        self.waits += 1


@unittest.skipUnless(torch, "python3-torch is not installed")
class OnGpus(Api):
    def state(self, number):
        tensor = torch.full((3, 5), number)
        return {
            "small": [torch.full((each,), number, dtype=torch.int16) for each in range(1, 40)],
            "large": torch.full((20 << 20,), float(number)),  # 80 MiB: more than a block
            "kinds": [tensor.to(one) for one in (torch.bool, torch.bfloat16, torch.complex64,
                                                 torch.float64)],
            "strided": torch.arange(24).reshape(2, 3, 4).transpose(0, 2) + number,
            "conjugate": torch.tensor([number + 2j]).conj(), "scalar": torch.tensor(number),
            "empty": torch.empty(0, 4), "tied": [tensor, tensor]}

    def check(self, found, number):
        wanted = self.state(number)
        for name in ("small", "kinds"):
            self.assertEqual(len(wanted[name]), len(found[name]))
            for one, other in zip(wanted[name], found[name]):
                self.assertEqual(one.dtype, other.dtype)
                self.assertTrue(torch.equal(one, other), name)
        for name in ("large", "strided", "conjugate", "scalar", "empty"):
            self.assertTrue(torch.equal(wanted[name], found[name]), name)
        self.assertIs(found["tied"][0], found["tied"][1])

    def test_each_save_has_what_it_was_given_and_waits_once(self):
        with spotter.open(self.checkpoints, keep_last=9) as run:
            late = run._staging = Late()
            for number in (1, 2, 3):
                run.save(number, state=self.state(number), rest=torch.tensor([number]))
                self.assertEqual(late.waits, number)
                run.flush()
                self.check(run.restore()["state"], number)
            self.assertEqual(late.made, 2, "the memory of the save before is used again")
            late.made = 0
            larger = torch.ones(60 << 20, dtype=torch.uint8)
            run.save(4, state=self.state(4), rest=larger)
            run.flush()
            self.check(run.restore()["state"], 4)
            self.assertTrue(torch.equal(run.restore()["rest"], larger))
            self.assertEqual(late.made, 1, "what is missing is added")

    def test_without_a_gpu_nothing_is_staged(self):
        with spotter.open(self.checkpoints) as run:
            run.save(1, state=self.state(1))
            self.assertEqual(run._staging._blocks, [])
            run.flush()
            self.check(run.restore()["state"], 1)

    def test_memory_that_cannot_be_pinned_is_used_as_it_is(self):
        # As here, where PyTorch finds no GPU to pin for, or where a limit forbids it.
        self.assertEqual(_staging.Staging._block(torch).numel(), _staging.BLOCK)


if __name__ == "__main__":
    unittest.main()
