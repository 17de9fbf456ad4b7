"""spotter.safetensors, and what other readers of the format make of its files."""

import unittest

import torch
from common import Inside
from safetensors.torch import load_file

import spotter.safetensors


class Safetensors(Inside):
    def life(self, step, weights=None):
        """What is found, as a dictionary; then a step is saved."""
        with spotter.open(self.checkpoints, every=0) as run:
            old = spotter.safetensors.load(run)
            if step:
                weights = torch.full((3, 2), float(step)) if weights is None else weights
                self.assertTrue(spotter.safetensors.save(
                    run, step, {"weights": weights, "half": weights.half()},
                    {"epoch": str(step)}))
                if run.leads:
                    self.assertEqual(run.durable_step, step)
            return old

    def names(self):
        return sorted(path.name for path in self.checkpoints.iterdir() if path.name != ".writer")

    def test_the_newest_comes_back_and_two_stay(self):
        self.assertIsNone(self.life(1))
        for step in (2, 10):
            self.life(step)
        old = self.life(None)
        self.assertEqual((old.step, old.meta), (10, {"epoch": "10"}))
        self.assertTrue(torch.equal(old["weights"], torch.full((3, 2), 10.0)))
        self.assertEqual(old["half"].dtype, torch.float16)
        self.assertEqual(self.names(), ["checkpoint-10", "checkpoint-2"])
        self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP"), ["1", "2", "10"])
        self.assertEqual(self.said("X_SPOTTER_RESUMED_STEP"), ["0", "1", "2", "10"])

    def test_tied_weights_and_a_step_that_is_saved_twice(self):
        weights = torch.ones(2)
        with spotter.open(self.checkpoints, every=0) as run:
            for factor in (1, 3):
                tied = factor * weights
                spotter.safetensors.save(run, 4, {"embedding": tied, "head": tied})
            old = spotter.safetensors.load(run)
        self.assertTrue(torch.equal(old["head"], 3 * weights))
        self.assertTrue(torch.equal(old["embedding"], 3 * weights))
        self.assertEqual(self.names(), ["checkpoint-4"])

    def test_another_program_reads_the_file(self):
        weights = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3).T)  # not contiguous
        self.life(1, weights)
        read = load_file(self.checkpoints / "checkpoint-1/model.safetensors")
        self.assertTrue(torch.equal(read["weights"], weights))

    def test_a_torn_one_is_passed_over_and_all_torn_is_an_error(self):
        self.life(1)
        self.life(2)
        newest, older = (self.checkpoints / f"checkpoint-{step}/model.safetensors"
                         for step in (2, 1))
        newest.write_bytes(newest.read_bytes()[:-1])
        self.assertEqual(self.life(None).step, 1)
        older.unlink()
        with self.assertRaisesRegex(spotter.SpotterError, "are torn"):
            self.life(None)

    def test_ranks_share_rank_0_s(self):
        def life(rank):
            torch.distributed.init_process_group("gloo")
            old = self.life(5, torch.full((2, 2), float(rank)))
            self.assertEqual(old.step if old else 0, expected)
            if old:
                self.assertTrue(torch.equal(old["weights"], torch.zeros(2, 2)))
            torch.distributed.destroy_process_group()

        for expected in (0, 5):
            self.assertEqual(self.ranks(2, life), [0, 0])


if __name__ == "__main__":
    unittest.main()
