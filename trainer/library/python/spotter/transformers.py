"""Transformers:

    args = TrainingArguments(os.environ.get("SPOTTER_CHECKPOINTS", "checkpoints"), ...)
    ...
    trainer.add_callback(spotter.transformers.Callback())
    trainer.train(resume_from_checkpoint=get_last_checkpoint(trainer.args.output_dir))

(get_last_checkpoint of transformers.trainer_utils: the newest checkpoint's folder, or None.)

In a job of Spotter's an output_dir outside the job's storage is refused, as by spotter.open().
Each evaluation's metrics are reported, eval_loss as val_loss.

Checkpoints stay Transformers' own folders, made when the arguments say so. Each is made durable and
reported. On a notice one is made at the end of the step, whatever save_strategy says; training goes
on while there is time, and then stops behind a last one: train() exits with the status 75. Where
the rest of a step (gradient accumulation) or of an evaluation would take too long, the checkpoint
is made before that. `checkpoints: {folders: "checkpoint-*"}` in job.yaml sets those aside that a
killed process left torn.

An evaluation that a stop leaves out is not made up for, and what one finds behind a checkpoint of
the same step (at an epoch's end) is in the next checkpoint's log, not in that one's.
"""

import math
import os
import signal
import threading

import transformers as _transformers

from . import _run
from ._accumulation import Accumulation, Once, Randomness

LONG = 1e8  # seconds; there is so much time only where nobody asks to stop


class Callback(_transformers.TrainerCallback):
    """every   seconds between checkpoints beside those of the arguments; None: as the agent
               advises, which needs a save_total_limit; 0: only when the agent asks
    signals    as for spotter.open()
    exit       False: train() returns, and `stopped` is true
    """

    def __init__(self, *, every=0, signals=(signal.SIGTERM,), exit=True):  # noqa: A002
        self.stopped, self.run = False, None
        self._every, self._signals, self._exit = every, signals, exit
        self._step, self._random, self._durable = Accumulation(), Randomness(), None
        self._loss = math.nan

    def on_train_begin(self, args, state, control, **_):
        if state.is_hyper_param_search:  # its trials have folders of their own
            return
        if self.run:  # a training before, which has failed
            self.run.close()
        self._trainer, self.stopped = _trainer(), False
        self.run = _run.open(args.output_dir, every=self._every, signals=self._signals)
        step = state.global_step
        there = self.run._ranks.agree(lambda: os.path.isdir(_folder(args, step)))
        self._durable = step if there else None
        self.run.resumed(step)

    def on_step_begin(self, args, state, control, **_):
        self._step.begins(args.gradient_accumulation_steps)

    def on_substep_end(self, args, state, control, **_):
        if self.run and not self.run.has_time(self._step.rest()):
            self._random.go_back()
            self._save(args, state, control)
            self._stop(control)

    def on_step_end(self, args, state, control, **_):
        if not self.run:
            return
        # State has no loss, only the log, which is written after this.
        self._report(state, loss=self._loss)
        self._save_if_due(args, state, control)
        self._begin_usual_save(state, control)
        if args.gradient_accumulation_steps > 1:
            self._random.remember()

    def on_log(self, args, state, control, logs=None, **_):
        if "loss" in (logs or {}):
            self._loss = Once(logs["loss"])

    def on_prediction_step(self, args, state, control, **_):
        # An evaluation's batches are no steps, whose length says when the last save has to begin:
        # they count only once the run is asked to stop.
        if self.run and not self.stopped and not self.run.has_time(LONG):
            self._save_if_due(args, state, control)
            if self.stopped and self._exit:
                self.on_train_end(args, state, control)  # for this callback the last event

    def on_evaluate(self, args, state, control, metrics=None, **_):
        if self.run:
            self._report(state, metrics=_validation(metrics or {}))
            self._begin_usual_save(state, control)
            if args.gradient_accumulation_steps > 1:
                self._random.remember()  # it has drawn some, and a resumed run does not repeat it

    def on_epoch_end(self, args, state, control, **_):
        if not self.run:
            return
        if self.stopped:
            control.should_evaluate = control.should_save = False
        self._begin_usual_save(state, control)

    def on_save(self, args, state, control, **_):
        if self.run:
            self.run.saved(state.global_step, _folder(args, state.global_step))
            self._durable = state.global_step

    def on_train_end(self, args, state, control, **_):
        run, self.run = self.run, None
        if run:
            run.close()
            main = threading.current_thread() is threading.main_thread()
            for number in self._signals if main else ():  # elsewhere Python forbids it
                if signal.getsignal(number) == signal.SIG_DFL:
                    signal.signal(number, signal.SIG_DFL)  # nobody looks for it any more
        if self.stopped and self._exit:
            raise _run.Stopped

    def _report(self, state, **what):
        self.run.progress(state.global_step, steps_total=state.max_steps,
                          epoch=math.ceil(state.epoch), epochs_total=state.num_train_epochs, **what)

    def _save_if_due(self, args, state, control):
        # A checkpoint knows what an evaluation of its step has found if it is made after it.
        evaluates = control.should_evaluate and not self.stopped and self.run.has_time(LONG)
        if not evaluates and self.run.should_checkpoint():
            self._save(args, state, control)
        if self.run.should_stop():
            self._stop(control)

    def _save(self, args, state, control):
        step = state.global_step
        if step == self._durable:
            self.run.saved(step, _folder(args, step))
        elif self.run.can_save():
            self._begin_save()
            # As Transformers' own enable_jit_checkpoint does: control.should_save would wait for
            # the end of a step, and of an evaluation.
            self._trainer._save_checkpoint(self._trainer.model, trial=None)
            self._trainer.callback_handler.on_save(args, state, control)

    def _stop(self, control):
        self.stopped = control.should_training_stop = True
        control.should_evaluate = control.should_save = False
        # At its end a training removes all but the best checkpoint if the limit is one, and loads
        # the best. This one is not finished, and goes on from the newest.
        self._trainer.args.save_total_limit = None
        if self._exit:
            self._trainer.args.load_best_model_at_end = False
        self.run.leave()

    def _begin_usual_save(self, state, control):
        """Before one by save_strategy. A step that was saved just now is not written again, over
        what may be the only whole checkpoint."""
        if self._durable == state.global_step:
            control.should_save = False
        if control.should_save and not control.should_evaluate:
            self._begin_save()

    def _begin_save(self):
        """Transformers writes under the final name, and removes older ones: not where another
        machine of a gang saves since."""
        self.run._ranks.share(self.run._check_writer)
        self.run.begin_save()


def _validation(metrics):
    """eval_loss is called val_loss, as by everybody else; how fast it was is none of them."""
    return _run.evaluated({
        "val_" + name.removeprefix("eval_"): value for name, value in metrics.items()
        if name.startswith("eval_") and not name.endswith(("_runtime", "_per_second", "_time"))})


def _folder(args, step):
    return os.path.join(args.output_dir, f"checkpoint-{step}")


def _trainer():
    """The Trainer that called the callback, which it does not pass."""
    import sys

    frame = sys._getframe(1)
    while frame and not isinstance(frame.f_locals.get("self"), _transformers.Trainer):
        frame = frame.f_back
    if frame is None:
        raise TypeError("spotter.transformers.Callback is for a transformers.Trainer")
    return frame.f_locals["self"]
