"""spotter.dcp within torch.distributed.checkpoint, with one rank and several."""

import os
import unittest
import warnings

import torch
import torch.distributed.checkpoint as dcp
from common import Inside
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import spotter.dcp

ROWS = 11  # of no number of ranks a multiple


def numbers(step):
    return torch.arange(ROWS * 3.0).reshape(ROWS, 3) + step


class Dcp(Inside):
    def setUp(self):
        super().setUp()
        warnings.simplefilter("ignore")

    def alone(self, step, save=True):
        """What a life of one process without a group finds; then it saves this step."""
        with spotter.open(self.checkpoints, every=0) as run:
            reader = spotter.dcp.Reader(run)
            state = {"weights": torch.zeros(ROWS, 3), "step": 0}
            if reader:
                dcp.load(state, storage_reader=reader, no_dist=True)
                self.assertEqual(state["step"], reader.step)
                self.assertTrue(torch.equal(state["weights"], numbers(reader.step)))
            if save:
                dcp.save({"weights": numbers(step), "step": step}, no_dist=True,
                         storage_writer=spotter.dcp.Writer(run, step))
            return reader.step

    def names(self):
        return sorted(path.name for path in self.checkpoints.iterdir() if path.name != ".writer")

    def group(self, life):
        def one(rank):
            torch.distributed.init_process_group("gloo")
            try:
                with spotter.open(self.checkpoints, every=0) as run:
                    life(run, init_device_mesh("cpu", (torch.distributed.get_world_size(),)))
            finally:
                torch.distributed.destroy_process_group()
        return one

    def sharded(self, step, expected):
        def life(run, mesh):
            reader = spotter.dcp.Reader(run)
            self.assertEqual((reader.step, bool(reader)), (expected, expected > 0))
            weights = distribute_tensor(torch.zeros(ROWS, 3), mesh, [Shard(0)])
            state = {"weights": weights, "step": 0}
            if reader:
                dcp.load(state, storage_reader=reader)
                self.assertEqual(state["step"], reader.step)
                self.assertTrue(torch.equal(weights.full_tensor(), numbers(reader.step)))
            state = {"weights": distribute_tensor(numbers(step), mesh, [Shard(0)]), "step": step}
            dcp.save(state, storage_writer=spotter.dcp.Writer(run, step))
        return self.group(life)

    def test_one_rank_goes_on_from_the_newest_and_keeps_two(self):
        self.assertEqual([self.alone(step) for step in (1, 2, 30)], [0, 1, 2])
        self.assertEqual(self.names(), ["checkpoint-2", "checkpoint-30"])
        self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP"), ["1", "2", "30"])
        self.assertEqual(self.said("X_SPOTTER_RESUMED_STEP"), ["0", "1", "2"])

    def test_another_number_of_ranks_goes_on(self):
        for ranks, step, expected in ((2, 1, 0), (3, 2, 1), (1, 3, 2), (2, 4, 3)):
            self.assertEqual(self.ranks(ranks, self.sharded(step, expected)), [0] * ranks)
        self.assertEqual(self.names(), ["checkpoint-3", "checkpoint-4"])
        self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP"), ["1", "2", "3", "4"])
        files = sorted(path.name for path in (self.checkpoints / "checkpoint-4").iterdir())
        self.assertEqual(files, [".metadata", "__0_0.distcp", "__1_0.distcp"])

    def test_a_model_of_fsdp_and_its_optimizer_go_on_with_another_number_of_ranks(self):
        def trained(run, mesh, steps):
            torch.manual_seed(5)
            model = torch.nn.Sequential(torch.nn.Linear(6, 7), torch.nn.Linear(7, 1))
            for layer in (*model, model):
                fully_shard(layer, mesh=mesh)
            optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
            reader = spotter.dcp.Reader(run)
            if reader:
                state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
                dcp.load(state, storage_reader=reader)
                set_state_dict(model, optimizer, model_state_dict=state["model"],
                               optim_state_dict=state["optimizer"])
            for step in range(reader.step + 1, steps + 1):
                optimizer.zero_grad()
                model(torch.full((2, 6), 0.1 * step)).square().mean().backward()
                optimizer.step()
            state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
            dcp.save(state, storage_writer=spotter.dcp.Writer(run, steps))
            whole = {name: each.full_tensor() for name, each in state["model"].items()}
            self.assertTrue(all(isinstance(each, DTensor) for each in state["model"].values()))
            torch.save(whole, self.folder / f"end-{mesh.get_local_rank()}")

        def life(steps):
            return self.group(lambda run, mesh: trained(run, mesh, steps))
        here, self.checkpoints = self.checkpoints, self.folder / "uninterrupted"
        self.assertEqual(self.ranks(2, life(6)), [0, 0])
        expected = torch.load(self.folder / "end-0")
        self.checkpoints = here
        for ranks, steps in ((2, 2), (3, 4), (2, 6)):
            self.assertEqual(self.ranks(ranks, life(steps)), [0] * ranks)
        for name, each in torch.load(self.folder / "end-1").items():
            torch.testing.assert_close(each, expected[name])

    def test_what_a_killed_rank_leaves_is_not_a_checkpoint(self):
        def killed(run, mesh):
            spotter.dcp.Reader(run)
            writer = spotter.dcp.Writer(run, 2)
            if torch.distributed.get_rank() == 1:
                writer.write_data = lambda *_: os._exit(9)
            state = {"weights": distribute_tensor(numbers(2), mesh, [Shard(0)]), "step": 2}
            dcp.save(state, storage_writer=writer)

        self.assertEqual(self.ranks(2, self.sharded(1, 0)), [0, 0])
        self.assertEqual(self.ranks(2, self.group(killed))[1], 9)
        self.assertEqual(self.names(), [".spotter-unfinished-2", "checkpoint-1"])
        self.assertEqual(self.ranks(2, self.sharded(3, 1)), [0, 0])
        self.assertEqual(self.names(), ["checkpoint-1", "checkpoint-3"])

    def test_a_torn_one_is_passed_over_and_all_torn_is_an_error(self):
        for step in (1, 2):
            self.alone(step)
        part = next((self.checkpoints / "checkpoint-2").glob("*.distcp"))
        part.write_bytes(part.read_bytes()[:-1])
        self.assertEqual(self.alone(0, save=False), 1)
        (self.checkpoints / "checkpoint-1/.metadata").write_bytes(b"")
        with self.assertRaisesRegex(spotter.SpotterError, "are torn"):
            self.alone(0, save=False)

    def test_what_cannot_be_kept_is_refused(self):
        torch.distributed.init_process_group(
            "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        with spotter.open(self.checkpoints, every=0) as run:
            state = {"weights": numbers(1)}
            with self.assertRaisesRegex(BaseException, r"not for async_save\(\)"):
                dcp.async_save(state, storage_writer=spotter.dcp.Writer(run, 1)).result()
            with self.assertRaisesRegex(BaseException, "leave out the checkpoint_id"):
                dcp.save(state, checkpoint_id="else", storage_writer=spotter.dcp.Writer(run, 1))
        self.assertEqual(self.names(), [])


if __name__ == "__main__":
    unittest.main()
