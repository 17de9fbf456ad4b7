"""spotter.transformers.Callback within Transformers' own Trainer."""

import functools
import json
import math
import os
import shutil
import signal
import time
import unittest

import torch
import transformers as hf
from common import Inside
from transformers.trainer_utils import get_last_checkpoint

import spotter.transformers

hf.logging.set_verbosity_error()
hf.logging.disable_progress_bar()
# Without it PyTorch does not load what Transformers maps to "cpu:0", as it does with several ranks.
torch.serialization.register_package(
    5, lambda _: None, lambda storage, place: storage if place == "cpu:0" else None)
STEPS, BATCHES = 12, 4  # BATCHES a step; an epoch is six steps


class At(hf.TrainerCallback):
    """Calls once the training is in a step behind so many, in a batch of it (0: at its end)."""

    def __init__(self, step, batch, call):
        self.step, self.batch, self.call, self.seen = step, batch, call, 0

    def on_step_begin(self, args, state, control, **_):
        self.seen = 0

    def on_substep_end(self, args, state, control, **_):
        self.seen += 1
        if (state.global_step, self.seen) == (self.step, self.batch):
            self.call()

    def on_step_end(self, args, state, control, **_):
        if (state.global_step, 0) == (self.step, self.batch):
            self.call()


class InEvaluation(hf.TrainerCallback):
    def __init__(self, call):
        self.call, self.batches = call, 0

    def on_prediction_step(self, args, state, control, **_):
        self.batches += 1
        self.call(self.batches)


@functools.cache
def data():
    chance = torch.Generator().manual_seed(5)
    return [{"input_ids": row, "labels": row}
            for row in torch.randint(100, (48, 8), generator=chance)]


class Callback(Inside):
    def trainer(self, *callbacks, ours=None, **arguments):
        hf.set_seed(3)
        config = hf.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=100, n_positions=8,
                               bos_token_id=0, eos_token_id=0)
        arguments = {
            "gradient_accumulation_steps": BATCHES, "max_steps": STEPS, "save_strategy": "epoch",
            "logging_steps": 2, "per_device_train_batch_size": 2, "use_cpu": True,
            "disable_tqdm": True, "report_to": []} | arguments
        trainer = hf.Trainer(
            hf.GPT2LMHeadModel(config), hf.TrainingArguments(str(self.checkpoints), **arguments),
            train_dataset=data(), eval_dataset=data()[:16], callbacks=list(callbacks))
        trainer.remove_callback(hf.PrinterCallback)
        trainer.add_callback(ours or spotter.transformers.Callback())
        return trainer

    def train(self, trainer):
        """The model's weights after it, or "stopped"."""
        try:
            trainer.train(resume_from_checkpoint=get_last_checkpoint(self.checkpoints)
                          if self.checkpoints.exists() else None)
        except spotter.Stopped as stopped:
            self.assertEqual(stopped.code, spotter.STOPPED)
            return "stopped"
        return {name: each.clone() for name, each in trainer.model.state_dict().items()}

    def uninterrupted(self, **arguments):
        here, self.checkpoints = self.checkpoints, self.folder / "uninterrupted"
        weights = self.train(self.trainer(**arguments))
        self.checkpoints = here
        self.life_is_over()
        return weights

    def steps(self):
        return sorted(int(path.name.split("-")[1])
                      for path in self.checkpoints.glob("checkpoint-*"))

    def assert_same(self, weights, expected):
        self.assertEqual(weights.keys(), expected.keys())
        for name, each in weights.items():
            self.assertTrue(torch.equal(each, expected[name]), name)

    def test_what_the_arguments_save_is_durable_and_reported_and_nothing_else_is_saved(self):
        self.train(self.trainer(ours=spotter.transformers.Callback(every=0)))
        self.assertEqual(self.steps(), [6, 12])
        reported = self.said("X_SPOTTER_CHECKPOINT_STEP")
        self.assertEqual(reported, ["6", "12"])

    def test_progress_has_the_log_s_loss(self):
        self.train(self.trainer(At(3, 1, lambda: time.sleep(0.2)), eval_strategy="epoch"))
        self.assertEqual(self.said("X_SPOTTER_RESUMED_STEP"), ["0"])
        steps = [each for each in self.messages if "X_SPOTTER_STEP" in each]
        self.assertEqual(steps[0]["X_SPOTTER_STEP"], "1")
        first = next(each for each in steps if "X_SPOTTER_LOSS" in each)
        # Logged behind the second step; one message in a tenth of a second is sent.
        self.assertIn(first["X_SPOTTER_STEP"], ("3", "4"))
        self.assertEqual((first["X_SPOTTER_STEPS_TOTAL"], first["X_SPOTTER_EPOCH"],
                          first["X_SPOTTER_EPOCHS_TOTAL"]), ("12", "1", "2"))
        self.assertAlmostEqual(float(first["X_SPOTTER_LOSS"]), math.log(100), delta=1)
        self.assertEqual(steps[-1]["X_SPOTTER_EPOCH"], "2")
        evaluated = [each for each in steps if "X_SPOTTER_METRIC" in each]
        self.assertEqual([each["X_SPOTTER_STEP"] for each in evaluated], ["6", "12"])
        for each in evaluated:
            name, value = each["X_SPOTTER_METRIC"].split()
            self.assertEqual(name, "val_loss")
            self.assertAlmostEqual(float(value), math.log(100), delta=1)

    def test_a_notice_in_a_step_that_takes_long_is_answered_within_it_and_costs_no_bits(self):
        whole = self.uninterrupted()
        for step, batch in ((4, 2), (7, 1)):
            with self.subTest(step=step):
                trainer = self.trainer(At(step, batch, self.notice))
                self.assertEqual(self.train(trainer), "stopped")
                self.assertEqual(trainer.state.global_step, step)
                self.assertIn(step, self.steps())
                self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP")[-1], str(step))
                self.life_is_over()
        self.assert_same(self.train(self.trainer()), whole)

    def test_where_there_is_time_the_step_is_finished(self):
        slow = [At(step, 0, lambda: time.sleep(0.5)) for step in range(6, STEPS)]
        trainer = self.trainer(At(4, 2, lambda: self.notice(stop_by=3)), *slow)
        self.assertEqual(self.train(trainer), "stopped")
        self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP")[0], "5")

    def test_after_a_notice_training_goes_on_to_a_last_checkpoint(self):
        whole = self.uninterrupted()
        slow = [At(step, 0, lambda: time.sleep(0.5)) for step in range(3, STEPS)]
        trainer = self.trainer(At(2, 0, lambda: self.notice(stop_by=4)), *slow)
        self.assertEqual(self.train(trainer), "stopped")
        reported = [int(step) for step in self.said("X_SPOTTER_CHECKPOINT_STEP")]
        self.assertEqual(reported[0], 2, "at once")
        self.assertGreater(reported[-1], 3, "and at the end")
        self.assertEqual(reported[-1], trainer.state.global_step)
        self.life_is_over()
        self.assert_same(self.train(self.trainer()), whole)

    def test_a_limit_of_one_with_a_best_one_keeps_what_a_notice_saved(self):
        best = {"eval_strategy": "epoch", "save_strategy": "epoch", "save_total_limit": 1,
                "load_best_model_at_end": True, "metric_for_best_model": "loss"}
        for exits in (True, False):
            with self.subTest(exits=exits):
                callback = spotter.transformers.Callback(exit=exits)
                trainer = self.trainer(At(8, 1, self.notice), ours=callback, **best)
                self.assertEqual(self.train(trainer) == "stopped", exits)
                self.assertTrue(callback.stopped)
                self.assertEqual(max(self.steps()), 8)
                self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP")[-1], "8")
                self.life_is_over()
                shutil.rmtree(self.checkpoints)

    def test_a_notice_during_an_evaluation_is_answered_then(self):
        evaluates = {"eval_strategy": "epoch", "per_device_eval_batch_size": 1}
        whole = self.uninterrupted(**evaluates)
        evaluation = InEvaluation(lambda batch: self.notice() if batch == 1 else time.sleep(0.1))
        trainer = self.trainer(evaluation, **evaluates)
        self.assertEqual(self.train(trainer), "stopped")
        self.assertLess(evaluation.batches, 4)
        self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP"), ["6"])
        self.life_is_over()
        self.assert_same(self.train(self.trainer(**evaluates)), whole)

    def test_the_step_of_a_save_by_the_arguments_is_not_written_twice(self):
        def watched():
            self.notice()
            stamp.append((self.checkpoints / "checkpoint-6/model.safetensors").stat().st_mtime_ns)

        stamp = []
        trainer = self.trainer(At(6, 1, watched))
        self.assertEqual(self.train(trainer), "stopped")
        after = (self.checkpoints / "checkpoint-6/model.safetensors").stat().st_mtime_ns
        self.assertEqual(([after], self.steps()), (stamp, [6]))

    def test_a_notice_on_the_step_that_is_saved_anyway_costs_one_save(self):
        trainer = self.trainer(At(6, 0, self.notice), save_strategy="steps", save_steps=3,
                               eval_strategy="steps", eval_steps=3)
        self.assertEqual(self.train(trainer), "stopped")
        self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP"), ["3", "6"])
        self.assertEqual(self.steps(), [3, 6])

    def test_the_last_step_of_an_epoch_is_not_written_again_at_the_epoch_s_end(self):
        slow = [At(step, 0, lambda: time.sleep(0.5)) for step in range(7, STEPS)]
        trainer = self.trainer(At(6, 0, lambda: self.notice(stop_by=4)), *slow)
        written, save = [], trainer._save_checkpoint

        def recorded(*arguments, **options):
            written.append(trainer.state.global_step)
            save(*arguments, **options)
        trainer._save_checkpoint = recorded
        self.train(trainer)
        self.assertEqual(written[0], 6)
        self.assertEqual(sorted(set(written)), written)

    def test_a_script_that_wants_to_go_on_gets_its_trainer_back(self):
        ours = spotter.transformers.Callback(exit=False)
        trainer = self.trainer(At(3, 0, self.notice), ours=ours)
        self.assertIsInstance(self.train(trainer), dict)
        self.assertTrue(ours.stopped)
        self.assertEqual((trainer.state.global_step, self.steps()), (3, [3]))

    def test_a_signal_alone_means_now_and_afterwards_it_ends_the_process_again(self):
        trainer = self.trainer(At(3, 2, lambda: (os.kill(os.getpid(), signal.SIGTERM),
                                                 time.sleep(0.1))))
        self.assertEqual(self.train(trainer), "stopped")
        self.assertEqual((self.steps(), self.said("X_SPOTTER_CHECKPOINT_STEP")), ([3], ["3"]))
        child = self.child(lambda: os.kill(os.getpid(), signal.SIGTERM))
        self.assertEqual(self.end(child), -signal.SIGTERM)

    def test_the_agent_s_pace_is_followed_where_it_is_asked_for(self):
        os.environ["SPOTTER_PACE_FILE"] = str(self.folder / "pace")
        (self.folder / "pace").write_text(json.dumps({"checkpoint_every_seconds": 1e-6}))
        ours = spotter.transformers.Callback(every=None)
        self.train(self.trainer(ours=ours, save_strategy="no", save_total_limit=2))
        self.assertEqual(self.steps(), [11, 12])

    def test_two_ranks_stop_at_the_same_step_and_resume(self):
        def life(rank, at):
            late = [At(*at, self.notice)] if rank == 0 and at else []
            trainer = self.trainer(*late, ddp_backend="gloo", gradient_accumulation_steps=2)
            weights = self.train(trainer)
            if weights != "stopped":
                torch.save(weights, self.folder / f"end-{rank}")
            torch.distributed.destroy_process_group()
            raise SystemExit(spotter.STOPPED if weights == "stopped" else 0)

        self.assertEqual(self.ranks(2, lambda rank: life(rank, None)), [0, 0])
        whole = torch.load(self.folder / "end-0")
        self.checkpoints = self.folder / "again"
        for at in ((3, 1), (8, 0)):
            self.assertEqual(self.ranks(2, lambda rank, at=at: life(rank, at)),
                             [spotter.STOPPED] * 2)
            self.assertEqual(self.said("X_SPOTTER_CHECKPOINT_STEP")[-1], str(at[0]))
            self.assertEqual(
                sorted(path.name for path in
                       (self.checkpoints / f"checkpoint-{at[0]}").glob("rng*")),
                ["rng_state_0.pth", "rng_state_1.pth"])
            self.life_is_over()
        self.assertEqual(self.ranks(2, lambda rank: life(rank, None)), [0, 0])
        for rank in range(2):
            self.assert_same(torch.load(self.folder / f"end-{rank}"), whole)


if __name__ == "__main__":
    unittest.main()
