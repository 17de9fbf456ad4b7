"""Where Lightning's fit() is in its loaders, so that a training goes on with the very next batch.

Where Lightning goes on within an epoch it begins the epoch's loaders again, and takes their first
batches for the next ones. So that they are the next ones, the loaders are begun with the generators
with which they had begun, and what was trained on is taken from them and dropped. A loader with
state (its state_dict()) is Lightning's matter.
"""

import sys

from . import generators


class Data:
    """Watches the loops of a trainer, from before its fit() begins any loader."""

    def __init__(self):
        self._loop = self._resumed = None
        # The generators as an epoch's loaders were begun; as its first batch was taken, since hooks
        # may have drawn in between; and as the newest one was, where it is taken ahead.
        self.begun = None

    def watch(self, trainer):
        loop = getattr(trainer, "fit_loop", None)
        if loop is self._loop or not hasattr(loop, "setup_data"):
            return
        self._loop, epoch = loop, loop.epoch_loop
        loop.setup_data = self._seeing(loop.setup_data)
        begin, fetch = self._seeing(epoch.on_run_start), epoch._on_before_fetch

        def on_run_start(fetcher):
            begin(fetcher)
            old, self._resumed = self._resumed, None
            if old:
                self._go_on(fetcher, *old)

        def on_before_fetch():
            self._fetches()
            fetch()

        epoch.on_run_start, epoch._on_before_fetch = on_run_start, on_before_fetch
        for name in ("run", "increment_progress_to_evaluation_end"):
            if hasattr(epoch.val_loop, name):
                setattr(epoch.val_loop, name, _kept(getattr(epoch.val_loop, name)))

    def now(self, loops):
        """Where this process is, and Lightning's loops (their states), at the end of a batch."""
        whole = self._loop is not None and self._epoch_is_whole()
        if whole:
            _end_epoch(loops["fit_loop"])
        return loops, {"now": generators.capture(), "begun": list(self.begun or ()), "whole": whole}

    def _epoch_is_whole(self):
        # Where it counts steps alone Lightning goes on from the last batch, whatever is said.
        return (self._loop.epoch_loop._num_ready_batches_reached() and
                not self._loop._iteration_based_training())

    def resumes(self, now, begun, whole):
        """The next fit() goes on with these generators, in loaders that had begun with those, or
        in the next epoch's."""
        self._resumed = now, begun, whole

    def epoch_starts(self):
        """Before its hooks draw."""
        if self._resumed and self._resumed[-1]:
            generators.restore(self._resumed[0])

    def accumulates(self):
        """The gradients of this batch wait for others of the same step."""
        return self._loop is not None and self._loop._should_accumulate()

    def _fetches(self):
        if not self.begun:
            return
        if len(self.begun) == 1:
            self.begun.append(generators.capture())
        elif self._loop._data_fetcher.length is None:
            # Without a length a batch is taken one ahead of the training: with these.
            self.begun[2:] = [generators.capture()]

    def _seeing(self, call):
        """`call`, which may begin the loaders."""
        def seeing(*arguments):
            before, states = self._iterator(), generators.capture()
            result = call(*arguments)
            if self._iterator() is not before:
                self.begun = [states]
            return result
        return seeing

    def _iterator(self):
        return getattr(self._loop._combined_loader, "_iterator", None)

    def _go_on(self, fetcher, now, begun, whole):
        loaders = fetcher.combined_loader
        done = self._loop.epoch_loop.batch_progress.current.ready
        theirs = any(hasattr(each, "load_state_dict") for each in loaders.flattened)
        takes_itself = hasattr(fetcher, "iterator_wrapper")  # training_step(dataloader_iter)
        again = done and len(begun) > 1
        if not whole:  # else they go on since the epoch's hooks
            generators.restore(begun[0] if again else now)
        if theirs or takes_itself or (done and not again):
            return generators.restore(now) if done else None
        self.begun = [generators.capture()]
        loaders.reset()  # ends its workers, which have other seeds
        iter(fetcher)
        if again:
            self.begun = list(begun)
            self._take_again(fetcher, done, *begun[1:])
            generators.restore(now)
        return None

    @staticmethod
    def _take_again(fetcher, done, first, last=None):
        print(f"spotter: takes {done} batches of this epoch again, which were trained on",
              file=sys.stderr, flush=True)
        generators.restore(first)
        for batch in range(done):
            if last and batch + 1 == done:
                generators.restore(last)
            next(fetcher)


def _end_epoch(fit):
    """Lightning's own state of the end of an epoch's last batch is wrong in the epoch after it:
    what is saved there goes on at its beginning. That of the end of the epoch is right."""
    for count in ("current", "total"):
        fit["epoch_progress"][count]["processed"] += 1
        fit["epoch_loop.batch_progress"][count]["completed"] += 1
    fit["epoch_loop.state_dict"]["_batches_that_stepped"] += 1


def _kept(evaluate):
    """A resumed run may leave an evaluation out: what it draws is no part of the training."""
    def keeping(*arguments):
        with generators.Kept():
            return evaluate(*arguments)
    return keeping
