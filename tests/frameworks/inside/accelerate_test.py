"""spotter.accelerate.Saver within Accelerate."""

import os
import pathlib
import signal
import time
import unittest

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, ProjectConfiguration, set_seed
from common import Inside

import spotter.accelerate

STEPS, BATCHES = 10, 4  # BATCHES a step


class Saver(Inside):
    def train(self, at=None, call=None, every=0, steps=STEPS, pause=0):
        """The weights behind so many steps; calls in the batch `at` (from 0) of all."""
        set_seed(3)
        gloo = [InitProcessGroupKwargs(backend="gloo")] if "RANK" in os.environ else None
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=BATCHES,
                                  kwargs_handlers=gloo)
        model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Dropout(),
                                    torch.nn.Linear(30, 1))
        optimizer = torch.optim.Adam(model.parameters())
        model, optimizer = accelerator.prepare(model, optimizer)
        saver = spotter.accelerate.Saver(accelerator, self.checkpoints, every=every)
        self.close = saver.close
        self.resumed = saver.restore()
        self.assertEqual(self.resumed, saver.count)
        for batch in range(saver.count * BATCHES, steps * BATCHES):
            with accelerator.accumulate(model):
                loss = model(torch.full((4, 20), float(batch))).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            if batch == at:
                call()
            time.sleep(pause)
            saver.step(loss=loss.detach())
        saver.finished()
        return accelerator.unwrap_model(model).state_dict()

    def stopped(self, at, call=None, **options):
        with self.assertRaises(SystemExit) as end:
            self.train(at, call or self.notice, **options)
        self.assertEqual(end.exception.code, spotter.STOPPED)
        self.close()
        reported = self.said("X_SPOTTER_CHECKPOINT_STEP")
        self.life_is_over()
        return [int(step) for step in reported]

    def uninterrupted(self, **options):
        here, self.checkpoints = self.checkpoints, self.folder / "uninterrupted"
        weights = self.train(**options)
        self.close()
        self.checkpoints = here
        self.life_is_over()
        return weights

    def assert_same(self, weights, expected):
        for name, each in weights.items():
            self.assertTrue(torch.equal(each, expected[name]), name)

    def names(self):
        return sorted(path.name for path in self.checkpoints.iterdir() if path.name != ".writer")

    def test_a_notice_costs_no_bits_at_the_end_of_a_step_and_within_one(self):
        whole = self.uninterrupted()
        # Batch 11 is the last of the third step, batch 25 the second of the seventh.
        self.assertEqual(self.stopped(11), [3])
        self.assertEqual(self.names(), ["checkpoint-3"])
        self.assertEqual(self.stopped(25), [6])
        self.assertEqual(self.stopped(29), [7])
        self.assertEqual(self.names(), ["checkpoint-6", "checkpoint-7"])
        self.assert_same(self.train(), whole)
        self.assertEqual(self.resumed, 7)

    def test_after_a_notice_training_goes_on_to_a_last_checkpoint(self):
        reported = self.stopped(4, lambda: self.notice(stop_by=3), pause=0.04,
                            steps=200)
        self.assertEqual(reported[0], 2)
        self.assertGreater(reported[-1], 4)

    def test_a_signal_alone_means_now(self):
        reported = self.stopped(13, lambda: os.kill(os.getpid(), signal.SIGTERM))
        self.assertEqual(reported, [3])

    def test_a_folder_is_there_whole_or_not_at_all(self):
        def torn(accelerator, folder):
            real(accelerator, folder)
            (pathlib.Path(folder) / "random_states_0.pkl").unlink()
            os._exit(9)

        def killed():
            Accelerator.save_state = torn
            self.stopped(11)

        real = Accelerator.save_state
        self.assertEqual(self.end(self.child(lambda: self.train(every=1e-6, steps=2))), 0)
        self.assertEqual(self.end(self.child(killed)), 9)
        self.assertEqual(self.names(), [".spotter-unfinished-3", "checkpoint-1", "checkpoint-2"])
        self.life_is_over()
        self.train(every=1e-6, steps=4)
        self.assertEqual((self.resumed, self.names()), (2, ["checkpoint-3", "checkpoint-4"]))

    def test_names_of_its_own_are_refused(self):
        accelerator = Accelerator(cpu=True, project_config=ProjectConfiguration(
            str(self.folder), automatic_checkpoint_naming=True))
        with self.assertRaisesRegex(ValueError, "automatic_checkpoint_naming"):
            spotter.accelerate.Saver(accelerator, self.checkpoints)

    def test_two_ranks_stop_at_the_same_step_and_resume(self):
        def life(rank, at):
            try:
                weights = self.train(at if rank == 0 else None, self.notice)
                torch.save(weights, self.folder / f"end-{rank}")
            finally:
                self.close()
                torch.distributed.destroy_process_group()

        self.assertEqual(self.ranks(2, lambda rank: life(rank, None)), [0, 0])
        whole = torch.load(self.folder / "end-0")
        self.checkpoints = self.folder / "again"
        for at, step in ((11, 3), (25, 6)):
            self.assertEqual(self.ranks(2, lambda rank, at=at: life(rank, at)),
                             [spotter.STOPPED] * 2)
            self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP"), [str(step)])
            files = sorted(path.name for path in
                           (self.checkpoints / f"checkpoint-{step}").glob("random*"))
            self.assertEqual(files, ["random_states_0.pkl", "random_states_1.pkl"])
            self.life_is_over()
        self.assertEqual(self.ranks(2, lambda rank: life(rank, None)), [0, 0])
        for rank in range(2):
            self.assert_same(torch.load(self.folder / f"end-{rank}"), whole)


if __name__ == "__main__":
    unittest.main()
