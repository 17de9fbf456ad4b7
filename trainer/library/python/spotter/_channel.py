"""The records of a channel: SageMaker's Pipe mode, resumable in the middle of an epoch."""

import os

from . import _library
from ._run import SpotterError, Stopped, _check, _library_of_all

WAIT_MS = 200  # after it Python handles signals
PATIENCE_MS = 2000


class Channel:
    """An iterable of the records, as bytes, of the rest of one epoch; then of the next one:

        for epoch in range(channel.epoch, epochs):
            for record in channel: ...

    recordio (MXNet's and SageMaker's framing) unless `lines` or `record_bytes`, a fixed size, is
    given. A last record that is cut off is an error. Where none come, a run that is asked to stop
    ends the waiting with Stopped.

    run.channel() gives one that goes on where the checkpoint of run.restore() left it, and whose
    position each run.save() records. One without a run begins at epoch 0. A process that this one
    forks has a copy of its own.
    """

    def __init__(self, name, *, lines=False, record_bytes=None, folder=None, _run=None):
        self._lib, self._channel = _library_of_all(), None
        if lines and record_bytes is not None:
            raise ValueError("records are lines, or have a fixed size")
        self.name, self._run, self._owner = name, _run, os.getpid()
        self._settings = dict(lines=lines, record_bytes=record_bytes, folder=folder)
        options = _library.ChannelOptions()
        options.size = _library.ctypes.sizeof(options)
        options.name = name.encode()
        options.folder = os.fsencode(folder) if folder is not None else None
        options.format = 1 if lines else 2 if record_bytes is not None else 0
        options.record_bytes = record_bytes or 0
        handle = _run._open_handle() if _run and _run.leads else None
        self._channel = self._lib.spotter_channel_open(handle, _library.byref(options))
        if not self._channel:
            _check(-1)
        if _run and not _run.leads:
            self.position = _run._positions.open(self)

    def __del__(self):
        self.close()

    def close(self):
        """From now on saves record the position that was reached."""
        if self._channel and self._run and not self._run.leads:
            self._run._positions.close(self)
        channel, self._channel = self._channel, None
        if channel:
            self._lib.spotter_channel_close(channel)

    def __reduce__(self):  # for a process that was not forked; it records nothing
        return _again, (self.name, self._settings, self.position)

    def _open_channel(self):
        if not self._channel:
            raise SpotterError(f"channel {self.name} is closed")
        return self._channel

    @property
    def position(self):
        """(epoch, bytes, records) consumed: what the iteration has returned."""
        position = _library.Position()
        self._lib.spotter_channel_position(self._open_channel(), _library.byref(position))
        return position.epoch, position.bytes, position.records

    @position.setter
    def position(self, position):
        """Continues there; also records what another process consumed for this one."""
        _check(self._lib.spotter_channel_move(self._open_channel(),
                                              _library.byref(_library.Position(*position))))

    @property
    def epoch(self):
        return self.position[0]

    def __iter__(self):
        data, size = _library.c_void_p(), _library.c_size_t()
        data_at, size_at = _library.byref(data), _library.byref(size)
        step, content = self._lib.spotter_channel_next, _library.ctypes.string_at
        waited = 0
        while True:
            got = step(self._open_channel(), WAIT_MS, data_at, size_at)
            if got == 1:
                waited = 0
                yield content(data.value, size.value) if size.value else b""
            elif got == 2:
                waited += WAIT_MS
                self._wait(waited)
            else:
                _check(got)
                return

    def _wait(self, waited):
        """Data may be late for a moment; a run that has to stop does not wait for longer. A forked
        child leaves that to whom it reads for."""
        if waited < PATIENCE_MS or self._owner != os.getpid():
            return
        handle = self._run._handle if self._run else None
        if not self._lib.spotter_has_time(handle, PATIENCE_MS / 1000):
            raise Stopped


def _again(name, settings, position):
    channel = Channel(name, **settings)
    channel.position = position
    return channel
