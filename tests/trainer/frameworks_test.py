#!/usr/bin/python3
"""The Python module within frameworks: Keras and Lightning, and several processes of PyTorch.

Keras and Lightning are no Debian packages: stand-ins with the parts of them that we use.
Environment: as for api_test.py.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import textwrap
import unittest
import unittest.mock

from api_test import PYTHON, Api, boot_ms, spotter, torch
from spotter._folders import Folders


class Stubbed(Api):
    def setUp(self):
        super().setUp()
        for name in ("keras.callbacks", "lightning.pytorch"):
            module = self.folder / "stub" / pathlib.Path(*name.split("."))
            module.mkdir(parents=True)
            (module.parent / "__init__.py").touch()
            (module / "__init__.py").write_text(
                "class Callback:\n    model = params = None\n")
        sys.path.insert(0, str(self.folder / "stub"))
        self.addCleanup(sys.path.remove, str(self.folder / "stub"))

    def notice(self):
        """The machine goes in two minutes, and there is nothing to win by going on."""
        os.environ["SPOTTER_NOTICE_FILE"] = str(self.folder / "notice")
        (self.folder / "notice").write_text(json.dumps(
            {"action": "terminate", "deadline_boottime_ms": boot_ms() + 120_000}))

    @staticmethod
    def reported(callback):
        """What it reports of evaluations from now on: step, epoch, metrics."""
        reported = []

        def progress(step, *, epoch, metrics=None, **_):
            if metrics is not None:
                reported.append((step, epoch, metrics))

        callback.run.progress = progress
        return reported


class OwnFormat(Api):
    """As the callbacks of frameworks with checkpoints of their own use it."""

    def test_a_format_of_its_own_is_there_whole_or_not_at_all(self):
        ear = self.ear()
        with spotter.open(self.checkpoints) as run:
            run.resumed(4)
            made, path = self.checkpoints / ".new", self.checkpoints / "own-5"
            for content in ("first", "again"):
                made.mkdir()
                (made / "model").write_text(content)
                self.assertTrue(run.has_time(1e6) and run.can_save())
                run.begin_save()
                run.saved(5, path, made_as=made)
                self.assertEqual((path / "model").read_text(), content)
                self.assertFalse(made.exists())
            self.assertEqual(run.durable_step, 5)
            with self.assertRaisesRegex(spotter.SpotterError, "own-6"):
                run.saved(6, self.checkpoints / "own-6")
        ready, resumed, saved = (ear.recv(4096).decode() for _ in range(3))
        self.assertEqual(ready + resumed, "READY=1\nX_SPOTTER_RESUMED_STEP=4\n")
        self.assertRegex(saved, f"X_SPOTTER_CHECKPOINT={path}\nX_SPOTTER_CHECKPOINT_STEP=5\n"
                                "(.*\n)*X_SPOTTER_CHECKPOINT_BYTES=5\n")

    def test_in_a_gang_nothing_is_committed_once_another_machine_writes(self):
        with unittest.mock.patch.dict(os.environ, SPOTTER_GANG_MEMBER="m1"):
            run = spotter.open(self.checkpoints)
        made, path = self.checkpoints / ".own-5", self.checkpoints / "own-5"
        made.mkdir()
        (self.checkpoints / ".writer-of-gang").write_text("m2 17-4\n")
        with self.assertRaisesRegex(spotter.SpotterError, r"another machine .*\(m2\)"):
            run.saved(5, path, made_as=made)
        self.assertFalse(path.exists())
        run.close()

    def test_the_one_just_written_stays_whatever_lies_there(self):
        folders = Folders(self.checkpoints, 1)
        for step in (1, 2, 9):  # the last one is torn, or of another run
            folders.path(step).mkdir(parents=True)
            (folders.path(step) / "model").touch()
        folders.rotate(2)
        self.assertEqual(folders.steps(), [2, 9])
        self.assertEqual(folders.newest(lambda path: path.name == "checkpoint-9" and "torn"), 2)
        with self.assertRaisesRegex(spotter.SpotterError, "all checkpoints in .* are torn"):
            folders.newest(str)


class Model:
    """A Keras model, and its fit()."""

    def __init__(self):
        self.weights, self.stop_training, self.optimizer = [[0.0]], False, None
        self.while_evaluated = lambda: None

    def evaluate(self, callback):
        self.while_evaluated()
        callback.on_test_batch_end(0)

    def get_weights(self):
        return [list(one) for one in self.weights]

    def set_weights(self, weights):
        self.weights = weights

    def fit(self, callback, epochs, steps=3, known=True):
        callback.model, callback.params = self, {"steps": steps if known else None}
        first = callback.restore(self)
        callback.on_train_begin()
        for epoch in range(first, epochs):
            callback.on_epoch_begin(epoch)
            for batch in range(steps):
                self.weights = [[self.weights[0][0] + 1]]
                callback.on_train_batch_end(batch, {"loss": 0.1})
                if self.stop_training:
                    break
            self.evaluate(callback)  # Keras does, also when it was asked to stop
            callback.on_epoch_end(epoch, {"loss": 0.1, "val_loss": 0.25, "val_my metric": 2,
                                          "val_odd": "x", "lr": 0.1})
            if self.stop_training:
                break
        callback.on_train_end()


class Keras(Stubbed):
    def callback(self, **options):
        import spotter.keras

        callback = spotter.keras.Callback(self.checkpoints, **options)
        self.addCleanup(callback.run.close)
        return callback

    def test_a_whole_epoch_is_not_repeated(self):
        for known in (True, False):  # Keras may not know how many steps an epoch has
            with self.subTest(known=known):
                callback = self.callback(every=1e-6)
                Model().fit(callback, 2, known=known)
                callback.run.close()
                model = Model()
                callback = self.callback()
                self.assertEqual(callback.restore(model), 2)
                self.assertEqual(model.weights, [[6.0]])
                callback.run.close()

    def test_within_an_epoch_its_first_batches_are_repeated_on_the_newest_weights(self):
        callback = self.callback(every=0)
        model = Model()
        callback.model, callback.params = model, {"steps": 3}
        callback.on_epoch_begin(1)
        model.weights = [[4.0]]
        self.notice()
        callback.run.close()
        callback = self.callback()
        callback.model, callback.params = model, {"steps": 3}
        callback.on_epoch_begin(1)
        callback.on_train_batch_end(0)
        self.assertTrue(callback.stopped)
        callback.run.close()
        os.environ.pop("SPOTTER_NOTICE_FILE")
        again = Model()
        self.assertEqual(self.callback().restore(again), 1)
        self.assertEqual(again.weights, [[4.0]])

    def test_a_notice_while_an_epoch_is_evaluated_is_answered_then(self):
        model = Model()

        def notice():
            self.notice()
            while not callback.stopped:
                callback.on_test_batch_end(0)

        os.environ["SPOTTER_NOTICE_FILE"] = str(self.folder / "notice")
        callback = self.callback(every=0)
        model.while_evaluated = notice
        model.fit(callback, 100)
        self.assertEqual((model.weights, callback.run.durable_step), ([[3.0]], 3))
        callback.run.close()
        (self.folder / "notice").unlink()
        self.assertEqual(self.callback().restore(Model()), 1, "the epoch was whole")

    def test_on_notice_training_stops_behind_a_durable_checkpoint(self):
        self.notice()
        callback = self.callback()
        model = Model()
        model.fit(callback, 100)
        self.assertTrue(model.stop_training)
        self.assertEqual((model.weights, callback.run.durable_step), ([[1.0]], 1))
        with self.assertRaises(SystemExit) as end:
            callback.exit_if_stopped()
        self.assertEqual(end.exception.code, spotter.STOPPED)

    def test_what_an_epochs_evaluation_found_is_reported(self):
        callback = self.callback()
        reported = self.reported(callback)
        Model().fit(callback, 2)
        self.assertEqual(reported, [(3 * epoch, epoch, {"val_loss": 0.25, "val_my_metric": 2})
                                for epoch in (1, 2)], "each by a name that Spotter takes")


@unittest.skipUnless(torch, "python3-torch is not installed")
class Lightning(Stubbed):
    class Trainer:
        """Lightning's, with one step an epoch."""

        world_size, global_step, current_epoch, should_stop = 1, 0, 0, False
        sanity_checking, sigterm_at, accumulate_grad_batches = False, None, 1
        callback_metrics = {"val/loss": torch.tensor(0.25) if torch else 0.25, "lr": 0.1}

        def __init__(self):
            self._checkpoint_connector = self

        def dump_checkpoint(self, weights_only):
            return {"state_dict": {"w": torch.full((3,), float(self.global_step))},
                    "weights_only": weights_only}

        def _get_loops_state_dict(self):
            return {}

        def fit(self, callback, steps, ckpt_path=None):
            if ckpt_path:
                self.global_step = int(torch.load(ckpt_path)["state_dict"]["w"][0])
            self.received_sigterm = False
            before = signal.signal(signal.SIGTERM, self.on_sigterm)
            callback.on_train_start(self, None)
            while self.global_step < steps and not self.should_stop:
                if self.received_sigterm:  # as the real one does: it ends here
                    return
                self.global_step += 1
                if self.global_step == self.sigterm_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                callback.on_train_batch_end(self, None, {"loss": torch.tensor(0.5)}, None, 0)
                callback.on_validation_end(self, None)
            callback.on_train_end(self, None)
            signal.signal(signal.SIGTERM, before)

        def on_sigterm(self, *_):
            self.received_sigterm = True

    def callback(self, **options):
        import spotter.lightning

        self.addCleanup(os.environ.pop, spotter.lightning.FILE, None)
        callback = spotter.lightning.Callback(self.checkpoints, **options)
        self.addCleanup(callback.run.close)
        return callback

    def test_what_a_validation_found_is_reported(self):
        callback = self.callback()
        reported = self.reported(callback)
        trainer = self.Trainer()
        trainer.sanity_checking = True
        trainer.fit(callback, 1)
        self.assertEqual(reported, [], "of two batches, before the first step")
        trainer.sanity_checking = False
        trainer.fit(callback, 2)
        self.assertEqual(reported, [(2, 1, {"val/loss": 0.25})])

    def test_a_run_goes_on_from_a_file_of_lightnings_own(self):
        callback = self.callback(every=1e-6)
        self.assertIsNone(callback.ckpt_path())
        self.Trainer().fit(callback, 4)
        callback.run.close()
        callback = self.callback()
        path = callback.ckpt_path()
        state = torch.load(path)
        self.assertTrue(torch.equal(state["state_dict"]["w"], torch.full((3,), 4.0)))
        self.assertFalse(state["weights_only"])
        trainer = self.Trainer()
        trainer.fit(callback, 6, path)
        self.assertEqual(trainer.global_step, 6)
        self.assertFalse(os.path.exists(path), "read, and gone")

    def test_on_notice_training_stops_behind_a_durable_checkpoint(self):
        self.notice()
        callback = self.callback()
        trainer = self.Trainer()
        trainer.fit(callback, 100, callback.ckpt_path())
        self.assertTrue(trainer.should_stop)
        self.assertEqual((trainer.global_step, callback.run.durable_step), (1, 1))
        with self.assertRaises(SystemExit) as end:
            callback.exit_if_stopped()
        self.assertEqual(end.exception.code, spotter.STOPPED)

    def test_the_sigterm_that_lightning_takes_for_itself_is_ours(self):
        child = os.fork()  # a process that was asked to stop stays so
        if child == 0:
            callback = self.callback()
            trainer = self.Trainer()
            trainer.sigterm_at = 3
            trainer.fit(callback, 100, callback.ckpt_path())
            is_durable = (trainer.global_step, callback.run.durable_step) == (3, 3)
            os._exit(spotter.STOPPED if is_durable and callback.stopped else 1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), spotter.STOPPED)

    def test_the_processes_of_the_other_devices_find_the_same_file(self):
        callback = self.callback(every=1e-6)
        self.assertIsNone(callback.ckpt_path())
        os.environ["LOCAL_RANK"] = "1"
        self.addCleanup(os.environ.pop, "LOCAL_RANK", None)
        self.assertIsNone(self.callback().ckpt_path())
        os.environ.pop("LOCAL_RANK")
        self.Trainer().fit(callback, 4)
        callback.run.close()
        callback = self.callback()
        path = callback.ckpt_path()
        self.addCleanup(callback._folder.cleanup)
        os.environ["LOCAL_RANK"] = "1"
        self.assertEqual(self.callback().ckpt_path(), path)


@unittest.skipUnless(torch, "python3-torch is not installed")
class Ranks(Api):
    """Two processes that train one model."""

    def test_torchrun_says_the_rank_and_not_the_engine_below_it(self):
        from spotter import _ranks

        for rank, task in (("0", "1"), ("1", "0")):
            with unittest.mock.patch.dict(os.environ, RANK=rank, SLURM_PROCID=task):
                self.assertEqual(_ranks.rank(), int(rank))
        with unittest.mock.patch.dict(os.environ, SLURM_PROCID="3"):
            self.assertEqual(_ranks.rank(), 3)

    PROGRAM = """
        import atexit, os, sys, torch, spotter
        rank, directory, steps = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
        os.environ.update(RANK=str(rank), WORLD_SIZE="2")
        run = spotter.open(directory, every=0)
        torch.distributed.init_process_group(
            "gloo", init_method="file://" + sys.argv[4], rank=rank, world_size=2)
        # Its threads may not outlive the interpreter: now and then they abort it.
        atexit.register(torch.distributed.destroy_process_group)
        old = run.restore()
        step, weight = (old.step, old["weight"]) if old else (0, torch.zeros(2))
        while step < steps:
            step += 1
            total = torch.ones(2) * (rank + 1)
            torch.distributed.all_reduce(total)
            weight = weight + total
            run.progress(step, loss=weight.sum())
            if step == 3 or run.should_checkpoint():
                run.save(step, weight=weight, by=rank)
            run.stop_if_asked()
        run.finished()
        print(step, weight.tolist(), old and old["by"], run.leads, flush=True)
        """

    def both(self, steps, expected=0):
        environment = dict(os.environ, PYTHONPATH=str(PYTHON))
        self.meetings = getattr(self, "meetings", 0) + 1
        both = [subprocess.Popen(
            ["/usr/bin/python3", "-c", textwrap.dedent(self.PROGRAM), str(rank), self.checkpoints,
             str(steps), self.folder / f"meeting-{self.meetings}"],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for rank in (0, 1)]
        for one in both:
            self.addCleanup(one.stdout.close)
            self.addCleanup(one.stderr.close)
            self.addCleanup(one.wait)
            self.addCleanup(one.kill)
        said = [one.communicate(timeout=120) for one in both]
        self.assertEqual([one.returncode for one in both], [expected, expected], said)
        return [words for words, _ in said] if expected != 1 else [errors for _, errors in said]

    def test_rank_0_writes_and_all_resume(self):
        self.assertEqual(self.both(4),
                         ["4 [12.0, 12.0] None True\n", "4 [12.0, 12.0] None False\n"])
        self.assertEqual([path.name for path in self.checkpoints.glob("step-*")],
                         ["step-000000000003"])
        self.assertEqual(self.both(5), ["5 [15.0, 15.0] 0 True\n", "5 [15.0, 15.0] 0 False\n"])

    def test_rank_0s_error_is_everybodys(self):
        with spotter.open(self.checkpoints) as run:
            run.save(1, weight=torch.zeros(2), by=0)
        for part in self.checkpoints.glob("step-*/weight.0"):
            part.write_bytes(b"torn")
        for errors in self.both(4, expected=1):
            self.assertIn("SpotterError: there are checkpoints in", errors)

    def test_all_stop_at_the_step_that_rank_0_says(self):
        os.environ["SPOTTER_NOTICE_FILE"] = str(self.folder / "notice")
        (self.folder / "notice").write_text('{"action": "terminate"}')
        self.assertEqual(self.both(1000, spotter.STOPPED), ["", ""])
        self.assertEqual([path.name for path in self.checkpoints.glob("step-*")],
                         ["step-000000000001"])


if __name__ == "__main__":
    unittest.main()
