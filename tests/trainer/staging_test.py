#!/usr/bin/python3
"""What a save does with tensors on a GPU, tried without one: a GPU's copies are late, and are there
only once they were waited for. So is this stand-in for CUDA."""

import ctypes
import os
import pathlib
import signal
import unittest

from api_test import Api, spotter, torch
from spotter import _staging, _state


class Late(_staging.Staging):
    """Copies nothing before it is waited for."""

    def __init__(self):
        super().__init__()
        self.queued, self.waits, self.at = [], 0, set()

    @staticmethod
    def takes(tensor):
        return True

    def fetch(self, parts, lend):
        def lent(size):
            memory = lend(size)
            self.at.add(memory)
            return memory
        return super().fetch(parts, lent)

    def _copy(self, target, source):
        target.fill_(0xEE)
        self.queued.append((target, source))

    def _wait(self):
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
            self.assertEqual(len(late.at), 1, "the memory of the save before is used again")
            late.at.clear()
            larger = torch.ones(60 << 20, dtype=torch.uint8)
            run.save(4, state=self.state(4), rest=larger)
            run.flush()
            self.check(run.restore()["state"], 4)
            self.assertTrue(torch.equal(run.restore()["rest"], larger))

    def test_what_is_saved_already_is_not_fetched(self):
        with spotter.open(self.checkpoints) as run:
            late = run._staging = Late()
            run.save(1, state=self.state(1))
            os.kill(os.getpid(), signal.SIGTERM)
            self.assertTrue(run.should_checkpoint())
            late._copy = None
            self.assertTrue(run.save(1, state=self.state(1)))
            run.flush()
            self.check(run.restore()["state"], 1)

    def test_a_tensor_comes_to_the_device_that_is_said_of_its_own(self):
        class Anywhere(Late):
            def fetch(self, parts, lend):
                for name, pieces in parts:
                    if name.endswith(".pickle"):
                        named = ctypes.string_at(pieces[0].address, pieces[0].size)
                        pieces[0] = _state._bytes_piece(named.replace(b"\x03cpu", b"\x03gpu"))
                return super().fetch(parts, lend)
        with spotter.open(self.checkpoints) as run:
            run._staging, asked = Anywhere(), []
            run.save(1, state=self.state(1))
            run.flush()
            self.check(run.restore(map_location=lambda was: asked.append(was) or "cpu")["state"], 1)
            self.assertEqual(set(asked), {"gpu"})
            for tensor in run.restore(map_location="meta")["state"]["kinds"]:
                self.assertEqual(tensor.device.type, "meta")

    def test_one_save_in_flight_takes_the_state_once_more(self):
        """And what was restored takes nothing, once it is in the tensors that are there."""
        for staging in ("", "run._staging = staging_test.Late()"):
            trainer = self.program(f"""
                import pathlib, sys, torch
                sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
                import spotter, staging_test
                def peak(restarted=False):
                    if restarted:
                        pathlib.Path("/proc/self/clear_refs").write_text("5")
                    lines = pathlib.Path("/proc/self/status").read_text().splitlines()
                    return next(int(line.split()[1]) << 10 for line in lines if "VmHWM" in line)
                state = [torch.rand(4 << 20) for _ in range(8)]  # 128 MiB
                with spotter.open({str(self.checkpoints)!r}) as run:
                    {staging}
                    run.save(0, state=state[0])
                    run.flush()
                    before = peak(True)
                    for step in range(1, 5):
                        run.save(step, state=state)
                        run.flush()
                    print(peak() - before)
                    run.restore(into=dict(state=state))
                    print(peak(True) - before)
            """)
            for size in map(int, trainer.stdout):
                self.assertLess(size, 1.2 * (128 << 20), staging)
            self.assertEqual(trainer.wait(), 0)


if __name__ == "__main__":
    unittest.main()
