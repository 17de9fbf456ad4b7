"""The Python API of spotter.h."""

import json
import math
import os
import signal
import sys

from . import _library, _state
from ._library import SpotterError
from ._positions import OF_RANKS, Positions
from ._ranks import Ranks

STOPPED = 75  # the exit status: "stopped on request, not finished; start me again"
_lib = None


class Stopped(SystemExit):
    """The run is asked to stop, and a channel waits for data that do not come. Who does not catch
    it to save() ends with the status STOPPED, behind what was saved."""

    def __init__(self):
        super().__init__(STOPPED)


def _library_of_all():
    global _lib
    _lib = _lib or _library.load()
    return _lib


def _check(status):
    if status < 0:
        raise SpotterError(_lib.spotter_error().decode(errors="replace"))
    return status


class Checkpoint(dict):
    """What was saved, by name; and `step`, `meta` and `path`."""

    def __init__(self, values, step, meta, path):
        super().__init__(values)
        self.step, self.meta, self.path = step, meta, path


def open(directory=None, *, faster=None, keep_last=2, keep_every=0, keep_best=0,
         lower_is_better=False, every=None, signals=(signal.SIGTERM,)):
    """Opens a directory of checkpoints, alone: a second trainer in it is an error.

    Of several processes that train one model (torchrun, DDP) each opens it, after or before
    torch.distributed.init_process_group(); only rank 0 writes. Then restore(), should_checkpoint(),
    save(), should_stop(), flush(), leave() and finished() are calls of all ranks, with rank 0's
    answer; the state that is saved is rank 0's.

    directory        default $SPOTTER_CHECKPOINTS
    faster           list of faster directories that die with the machine (NVMe, /dev/shm)
    keep_last, keep_every, keep_best, lower_is_better
                     the last so many; the first of each so many steps; the best of save(metric=)
    every            seconds between checkpoints; default: as the agent advises, else ten minutes;
                     0: only when the agent asks
    signals          which mean "checkpoint and stop", unless the program has handlers for them
    """
    library = _library_of_all()
    ranks = Ranks()
    for number in signals:
        if signal.getsignal(number) == signal.SIG_DFL:
            library.spotter_catch_signal(number)
    if not ranks.leads:
        return Run(None, ranks)
    options = _library.Options()
    options.size = _library.ctypes.sizeof(options)
    options.directory = os.fsencode(directory) if directory is not None else None
    options.faster = b":".join(map(os.fsencode, faster)) if faster is not None else None
    options.keep_last, options.keep_every, options.keep_best = keep_last, keep_every, keep_best
    options.lower_is_better = lower_is_better
    options.every_seconds = 0 if every is None else (every if every > 0 else -1)
    handle = library.spotter_open(_library.byref(options))
    if not handle:
        _check(-1)
    return Run(handle, ranks)


class Run:
    """One training run's checkpoints, progress, and what it hears from the agent."""

    def __init__(self, handle, ranks):
        self._handle, self._ranks, self._lib, self._owner = handle, ranks, _lib, os.getpid()
        self._positions = Positions(ranks)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self):
        """Waits until what was saved is durable."""
        handle, self._handle = self._handle, None
        if handle and self._owner == os.getpid():  # a forked child's copy is not its own
            self._lib.spotter_close(handle)

    def _open_handle(self):
        if self._owner != os.getpid():
            raise SpotterError("this run is of the process that opened it, not of a forked child")
        if not self._handle:
            raise SpotterError("this run is closed")
        return self._handle

    def restore(self):
        """The newest Checkpoint that verifies, or None. Torn ones are moved aside, and told; where
        all are torn it is an error."""
        found = self._ranks.share(self._restore)
        self._positions.restore(found.meta if found else {})
        return found

    def _restore(self):
        lib, found = self._lib, _library.c_void_p()
        _check(lib.spotter_restore(self._open_handle(), _library.byref(found)))
        for line in lib.spotter_torn(self._handle).decode(errors="replace").splitlines():
            print(f"spotter: torn checkpoint {line}", file=sys.stderr)
        if not found.value:
            return None
        try:
            names = [lib.spotter_checkpoint_name(found, i).decode()
                     for i in range(lib.spotter_checkpoint_count(found))]
            values = _state.unpack(names, lambda name: self._part(found, name))
            return Checkpoint(values, lib.spotter_checkpoint_step(found),
                              json.loads(lib.spotter_checkpoint_meta(found)),
                              os.fsdecode(lib.spotter_checkpoint_path(found)))
        finally:
            lib.spotter_checkpoint_free(found)

    def _part(self, found, name):
        data, size = _library.c_void_p(), _library.c_size_t()
        _check(self._lib.spotter_checkpoint_part(found, name.encode(), _library.byref(data),
                                                 _library.byref(size)))
        return data.value, size.value

    def channel(self, name, **options):
        """A Channel, see there, that goes on where restore() says, which comes first. Each save()
        records how much of it was consumed; closed, it stays where it was. Of several ranks each
        reads its own part: what one has consumed comes back to the same rank, of as many."""
        from ._channel import Channel

        self._positions.check(name)
        return Channel(name, _run=self, **options)

    def save(self, step, /, *, meta=None, metric=None, **state):
        """Copies `state` and returns; it becomes durable behind. False: skipped, as it could not be
        durable before the machine is gone. Raises also when an earlier one could not be written."""
        positions = self._ranks.gather(self._positions.now())
        return self._ranks.share(lambda: self._save(step, meta, metric, state, positions))

    def _save(self, step, meta, metric, state, positions):
        self._lib.spotter_begin_save(self._open_handle())
        parts = _state.pack(state)  # keeps the memory alive until the copy is made
        flat = [(name.encode(), piece) for name, pieces in parts for piece in pieces]
        array = (_library.Part * len(flat))(
            *((name, piece.address, piece.size) for name, piece in flat))
        meta = {name: value for name, value in (meta or {}).items() if name != OF_RANKS}
        text = json.dumps(meta | self._positions.document(positions)).encode()
        judged = math.nan if metric is None else float(metric)
        return _check(self._lib.spotter_save(self._open_handle(), step, array, len(flat), text,
                                             judged)) == 0

    def flush(self):
        """Waits until all that was saved is durable."""
        self._ranks.share(lambda: _check(self._lib.spotter_flush(self._open_handle())))

    def should_checkpoint(self):
        """Ask after each step."""
        return self._ranks.agree(
            lambda: self._lib.spotter_should_checkpoint(self._open_handle()) == 1)

    def should_stop(self):
        """Ask after that. True: leave() and exit with STOPPED."""
        return self._ranks.agree(lambda: self._lib.spotter_should_stop(self._open_handle()) == 1)

    def deadline(self):
        """Seconds until the machine is gone; infinity without a notice. Of rank 0."""
        return self._lib.spotter_deadline(self._open_handle())

    @property
    def leads(self):
        """This process is rank 0, or the only one."""
        return self._ranks.leads

    @property
    def durable_step(self):
        """The newest durable step of this run, or None. Of rank 0."""
        step = self._lib.spotter_durable_step(self._open_handle())
        return None if step < 0 else step

    def progress(self, step, *, steps_total=0, epoch=0, epochs_total=0, loss=math.nan,
                 accuracy=math.nan):
        """`loss` and `accuracy` may be tensors: they are fetched from the GPU, which makes it wait,
        only where they are told (some 10 times a second, where an agent listens)."""
        if not self._ranks.leads or \
                not self._lib.spotter_progress_due(self._open_handle(), step, steps_total):
            return
        report = _library.Progress(step, steps_total, epoch, epochs_total, float(loss),
                                   float(accuracy))
        self._lib.spotter_progress(self._open_handle(), _library.byref(report))

    def status(self, text):
        if not self._ranks.leads:
            return
        self._lib.spotter_status(self._open_handle(), text.encode())

    def leave(self):
        """Makes all durable; then exit with STOPPED."""
        self._ranks.share(lambda: _check(self._lib.spotter_leave(self._open_handle())))

    def stop_if_asked(self):
        if self.should_stop():
            self.leave()
            sys.exit(STOPPED)

    def finished(self):
        """Makes all durable and tells the agent that the job may end."""
        self._ranks.share(lambda: _check(self._lib.spotter_finished(self._open_handle())))
