"""The Python API of spotter.h."""

import ctypes
import errno
import functools
import json
import math
import os
import re
import shutil
import signal
import sys
import time
import weakref

from . import _library, _state
from ._copies import GENERATION, Copies
from ._library import SpotterError
from ._positions import OF_RANKS, Positions
from ._ranks import Ranks, known
from ._staging import Staging

OWN_FORMAT = "the trainer's checkpoints are of a format of its own"
STOPPED = 75  # the exit status: "stopped on request, not finished; start me again"
_lib = None


class Stopped(SystemExit):
    """Raised when the run is asked to stop while a channel waits for data. Catch it to save();
    otherwise the process exits with the status STOPPED once all that was saved is durable."""

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
    """The saved values, by name; and `step`, `meta` and `path`."""

    def __init__(self, values, step, meta, path):
        super().__init__(values)
        self.step, self.meta, self.path = step, meta, path


def open(directory=None, *, faster=None, keep_last=2, keep_every=0, keep_best=0,
         lower_is_better=False, every=None, copies=False, signals=(signal.SIGTERM,)):
    """Opens a directory of checkpoints, alone: a second trainer in it is an error.

    Of several processes that train one model (torchrun, DDP) each opens it, after or before
    torch.distributed.init_process_group(); only rank 0 writes. Then restore(), should_checkpoint(),
    save(), should_stop(), flush(), leave() and finished() are calls of all ranks, with rank 0's
    answer; the state that is saved is rank 0's.

    directory        default $SPOTTER_CHECKPOINTS; in a job of Spotter's, where that is set, one
                     outside the job's storage is refused: it would be lost with the machine
    faster           list of faster directories that die with the machine (NVMe, /dev/shm)
    keep_last, keep_every, keep_best, lower_is_better
                     the last so many; the first of each so many steps; the best of save(metric=)
    every            seconds between checkpoints; default: as the agent advises, else ten minutes;
                     0: only when the agent asks
    copies           in a gang with copy_every (job.yaml), should_checkpoint() may also ask for a
                     copy in memory, which save() then makes in the place of a checkpoint: for a
                     script that saves where should_checkpoint() says so, or with durable=True
    signals          which mean "checkpoint and stop", unless the program has handlers for them
    """
    library = _library_of_all()
    ranks = Ranks()
    caught = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in caught:
        library.spotter_catch_signal(number)
    directory = directory if directory is not None else os.environ.get("SPOTTER_CHECKPOINTS")
    if not ranks.leads:
        return Run(None, ranks, directory, keep_last, caught, copies)
    options = _library.Options()
    options.size = _library.ctypes.sizeof(options)
    options.directory = os.fsencode(directory) if directory is not None else None
    options.faster = b":".join(map(os.fsencode, faster)) if faster is not None else None
    options.keep_last, options.keep_every, options.keep_best = keep_last, keep_every, keep_best
    options.lower_is_better = lower_is_better
    options.every_seconds = 0 if every is None else (every if every > 0 else -1)
    options.resumed_later = 1
    handle = _open_alone(library, options)
    return Run(handle, ranks, directory, keep_last, caught, copies)


def _open_alone(library, options):
    """In a gang the leader of the round before may still be ending, on this machine or another;
    a server of NFS keeps the lock of one that died for its lease, 90 s."""
    until = time.monotonic() + (120 if os.environ.get("SPOTTER_GANG_MEMBER") else 0)
    while True:
        handle = library.spotter_open(_library.byref(options))
        if handle:
            return handle
        taken = b"another trainer saves into" in library.spotter_error()
        if not taken or time.monotonic() > until:
            _check(-1)
        time.sleep(0.2)


def evaluated(values):
    """Of a framework's metrics those of an evaluation, under names that Spotter takes."""
    found = {}
    for name, value in values.items():
        fitting = re.sub(r"[^A-Za-z0-9_./-]", "_", str(name))[:64]
        if fitting.startswith("val") and len(found) < 16:
            try:
                found[fitting] = float(value)
            except (TypeError, ValueError, RuntimeError):  # no number: an array, for example
                continue
    return found


def _replace(made, path):
    """In one step, also where a folder of that name is there: it stays whole, or is the new one."""
    try:
        return os.replace(made, path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(here, os.fsencode(made), here, os.fsencode(path), exchange) == 0:
        old = made
    else:  # as on NFS: for a moment none has the name
        old = f"{os.fspath(made)}-old"
        os.rename(path, old)
        os.rename(made, path)
    shutil.rmtree(old, ignore_errors=True)


class _Loaded:
    """A checkpoint in memory, each part of which is freed when nothing of it is used any more."""

    def __init__(self, lib, handle):
        self._lib, self._handle = lib, handle

    def __del__(self):
        self._lib.spotter_checkpoint_free(self._handle)

    def part(self, name):
        """Its memory, a ctypes array. To be called once for each."""
        data, size = _library.c_void_p(), _library.c_size_t()
        _check(self._lib.spotter_checkpoint_part(self._handle, name.encode(), _library.byref(data),
                                                 _library.byref(size)))
        memory = (ctypes.c_char * size.value).from_address(data.value or 0)
        weakref.finalize(memory, self._drop, name.encode()).atexit = False
        return memory

    def _drop(self, name):
        self._lib.spotter_checkpoint_drop(self._handle, name)


class Run:
    """One training run: its checkpoints, its progress, and the agent's requests."""

    def __init__(self, handle, ranks, directory, keep_last, caught=(), copies=False):
        self.directory, self.keep_last, self._caught = directory, keep_last, caught
        self._handle, self._ranks, self._lib, self._owner = handle, ranks, _lib, os.getpid()
        self._positions = Positions(ranks)
        self._staging = Staging()
        self._copies, self._only_copy = Copies(ranks, copies), False

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self):
        """Waits until all saves are durable."""
        handle, self._handle, self._staging = self._handle, None, None
        if handle and self._owner == os.getpid():  # a forked child must not close its copy
            self._lib.spotter_close(handle)

    def _open_handle(self):
        if self._owner != os.getpid():
            raise SpotterError("this run is of the process that opened it, not of a forked child")
        if not self._handle:
            raise SpotterError("this run is closed")
        return self._handle

    def _check_writer(self):
        """In a gang: nobody else writes here since. This process may have been paused, and its lock
        of the directory be lost."""
        _check(self._lib.spotter_is_writer(self._open_handle()))

    def restore(self, *, map_location="cpu", into=None):
        """The newest Checkpoint that verifies, or None. Torn ones are moved aside and reported; if
        all are torn it raises. In a gang with copy_every (job.yaml) it may be a newer copy that a
        machine had in memory, which has no path.

        map_location     where tensors come to that were on a GPU: a device, or a function of the
                         device that each was on
        into             what there is of the state, such as {"model": model.state_dict()}: its
                         tensors get what was saved at the same place, and are then those of the
                         Checkpoint, so that no other memory is kept
        """
        device_of = map_location if callable(map_location) else lambda device: map_location
        found, error = self._ranks.attempt(lambda: self._restore(device_of))
        copy = self._copies.newer(found, error, device_of) if self._copies.possible else None
        if copy:
            if self._ranks.leads:
                print(f"spotter: goes on from step {copy[1]}, a copy in memory; the newest "
                      f"checkpoint is {'none yet' if found is None else f'of step {found.step}'}",
                      file=sys.stderr, flush=True)
            found = Checkpoint(*copy, None)
        else:
            found = self._share(found, error, device_of)
        if self._ranks.leads:
            self._lib.spotter_resumed(self._open_handle(), 0 if found is None else found.step)
        self._positions.restore({} if found is None else found.meta)
        return found if found is None or into is None else _state.fill(found, into)

    def _share(self, found, error, device_of):
        about = self._ranks.share(
            lambda: None if known(found, error) is None else (found.step, found.meta))
        if about is None:
            return None
        if self._ranks.leads:
            return self._ranks.share_state(0, found, device_of)
        path = os.path.join(self.directory, f"step-{about[0]:012}")
        values = self._ranks.share_state(0, None, device_of, lambda: _state.read(path, device_of))
        return Checkpoint(values, *about, path)

    def _restore(self, device_of):
        lib, found = self._lib, _library.c_void_p()
        _check(lib.spotter_restore(self._open_handle(), _library.byref(found)))
        for line in lib.spotter_torn(self._handle).decode(errors="replace").splitlines():
            print(f"spotter: torn checkpoint {line}", file=sys.stderr)
        if not found.value:
            return None
        part = functools.cache(_Loaded(lib, found).part)  # the cache ends with this call
        names = [lib.spotter_checkpoint_name(found, i).decode()
                 for i in range(lib.spotter_checkpoint_count(found))]
        return Checkpoint(_state.unpack(names, part, device_of),
                          lib.spotter_checkpoint_step(found),
                          json.loads(lib.spotter_checkpoint_meta(found)),
                          os.fsdecode(lib.spotter_checkpoint_path(found)))

    def channel(self, name, **options):
        """A Channel that resumes at the restored position; call restore() first. Each save()
        records how much was consumed; a closed channel keeps its position. Each rank reads its own
        part, and gets its own position back, which requires the same number of ranks."""
        from ._channel import Channel

        # Where rank 0 is in its channel only checkpoints know.
        self._copies.stop("the trainer reads a channel")
        self._positions.check(name)
        return Channel(name, _run=self, **options)

    def save(self, step, /, *, meta=None, metric=None, durable=False, **state):
        """Copies `state` and returns; it becomes durable in the background. False: skipped, as it
        could not be durable in time. Also raises when an earlier one could not be written. Where
        should_checkpoint() asked only for a copy in memory (open(copies=True)), and this is not to
        be `durable`, that is made."""
        positions = self._ranks.gather(self._positions.now())
        if self._copies.possible and self._ranks.agree(
                lambda: self._only_copy and not durable and self._never_stops()):
            self._only_copy = False
            self._copies.make(step, lambda: self._document(meta, positions),
                              lambda: self._pack(step, state))
            return True
        return self._ranks.share(lambda: self._save(step, meta, positions, metric, state))

    def _document(self, meta, positions):
        meta = {name: value for name, value in (meta or {}).items()
                if name not in (OF_RANKS, GENERATION)}
        return meta | self._positions.document(positions) | self._copies.document()

    def _save(self, step, meta, positions, metric, state):
        self._lib.spotter_begin_save(self._open_handle())
        parts = self._pack(step, state)  # keeps the memory alive until it is copied
        flat = [(name.encode(), piece) for name, pieces in parts for piece in pieces]
        array = (_library.Part * len(flat))(
            *((name, piece.address, piece.size) for name, piece in flat))
        text = json.dumps(self._document(meta, positions)).encode()
        judged = math.nan if metric is None else float(metric)
        return _check(self._lib.spotter_save(self._open_handle(), step, array, len(flat), text,
                                             judged)) == 0

    def _pack(self, step, state):
        def lend(size):
            memory = _library.c_void_p()
            nothing = _check(self._lib.spotter_place(self._open_handle(), step, size,
                                                     _library.byref(memory)))
            return None if nothing else memory.value
        parts = _state.pack(state, self._staging)
        return parts if self._staging.fetch(parts, lend) else []

    def flush(self):
        """Waits until all that was saved is durable."""
        self._ranks.share(lambda: _check(self._lib.spotter_flush(self._open_handle())))

    def resumed(self, step):
        """For checkpoints in a format of the program's own, in the place of restore(): reports
        where the run resumes; 0: from scratch."""
        self._copies.stop(OWN_FORMAT)
        if self._ranks.leads:
            self._lib.spotter_resumed(self._open_handle(), step)

    def begin_save(self):
        """For such checkpoints that are made without should_checkpoint(): training pauses from here
        on."""
        if self._ranks.leads:
            self._lib.spotter_begin_save(self._open_handle())

    def can_save(self):
        """For such checkpoints, after should_checkpoint(). False: it would not be durable in time:
        keep the last one; should_stop() is true."""
        return self._ranks.agree(lambda: self._lib.spotter_can_save(self._open_handle()) == 1)

    def saved(self, step, path, made_as=None):
        """For such checkpoints, in the place of save(): the file or folder is complete. Makes it
        durable with all that is in it, and reports it. It may have been `made_as` another name in
        the same folder: it is renamed once it is durable, so that `path` is there whole or not at
        all. Of several processes each calls it once it has written its part."""
        self._copies.stop(OWN_FORMAT)
        written, failure = os.fsencode(made_as or path), None
        if self._ranks.several():
            failure = self._ranks.failure_of(lambda: _check(self._lib.spotter_sync(written)))
        failures = self._ranks.gather(failure)
        self._ranks.share(lambda: self._saved(step, path, made_as, failures))

    def _saved(self, step, path, made_as, failures=()):
        for failure in filter(None, failures):
            raise SpotterError(failure)
        if made_as:
            _check(self._lib.spotter_sync(os.fsencode(made_as)))
            self._check_writer()
            _replace(made_as, path)
        _check(self._lib.spotter_saved(self._open_handle(), step, os.fsencode(path)))

    def has_time(self, seconds):
        """Nobody asks to stop, or so many seconds are left before the last save has to begin."""
        return self._ranks.agree(
            lambda: self._lib.spotter_has_time(self._open_handle(), seconds) == 1)

    def should_checkpoint(self):
        """Call it after each step. True: save() now; see open(copies=True)."""
        return self._ranks.agree(self._checkpoint_due)

    def _checkpoint_due(self):
        durable = self._lib.spotter_should_checkpoint(self._open_handle()) == 1
        asked = not durable and self._copies.step_due()
        self._only_copy = asked and self._never_stops()
        return durable or self._only_copy

    def _never_stops(self):
        """False: with a notice the time, and the memory, is for the last checkpoint."""
        return self._lib.spotter_has_time(self._open_handle(), 1e8) == 1

    def catch_signals(self):
        """Again those that open() caught: a framework has put its own handlers in their place.
        For the main thread, as all of Python's handlers."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, self._caught)
        for number in self._caught:
            signal.signal(number, signal.SIG_DFL)  # a program's own would be left
            self._lib.spotter_catch_signal(number)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def should_stop(self):
        """Call it after that. True: call leave() and exit with STOPPED."""
        return self._ranks.agree(lambda: self._lib.spotter_should_stop(self._open_handle()) == 1)

    def deadline(self):
        """Seconds until the machine is gone; infinity without a notice. On rank 0 only."""
        return self._lib.spotter_deadline(self._open_handle())

    @property
    def leads(self):
        """True: this process is rank 0, or the only one."""
        return self._ranks.leads

    @property
    def durable_step(self):
        """The newest durable step of this run, or None. On rank 0 only."""
        step = self._lib.spotter_durable_step(self._open_handle())
        return None if step < 0 else step

    def progress(self, step, *, steps_total=0, epoch=0, epochs_total=0, loss=math.nan,
                 accuracy=math.nan, metrics=None, **others):
        """`loss` and `accuracy` may be tensors: they are fetched from the GPU, which makes it wait,
        only when they are sent (with an agent, at most 10 times a second).

        Other metrics are given by name, 16 at most: progress(step, val_loss=..., val_accuracy=...)
        after an evaluation, or metrics={"val/loss": ...}. They are fetched each time, and none is
        left out."""
        named = {**(metrics or {}), **others}
        self._ranks.report(step)
        if not self._ranks.leads or not (named or self._lib.spotter_progress_due(
                self._open_handle(), step, steps_total)):
            return
        report = _library.Progress(step, steps_total, epoch, epochs_total, float(loss),
                                   float(accuracy))
        array = (_library.Metric * len(named))(
            *((name.encode(), float(value)) for name, value in named.items()))
        _check(self._lib.spotter_progress_with(self._open_handle(), _library.byref(report), array,
                                               len(named)))

    def status(self, text):
        if not self._ranks.leads:
            return
        self._lib.spotter_status(self._open_handle(), text.encode())

    def leave(self):
        """Waits until all saves are durable; then exit with STOPPED."""
        self._ranks.share(lambda: _check(self._lib.spotter_leave(self._open_handle())))

    def stop_if_asked(self):
        if self.should_stop():
            self.leave()
            sys.exit(STOPPED)

    def finished(self):
        """Waits until all saves are durable, and reports that the job may end."""
        self._ranks.share(lambda: _check(self._lib.spotter_finished(self._open_handle())))
