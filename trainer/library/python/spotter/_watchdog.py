"""What NCCL's watchdog says before it aborts a worker, of which Python sees nothing: torchrun's
process hands on its workers' standard error, and keeps these lines."""

import array
import fcntl
import os
import re
import select
import termios
import threading
import time

# As torch 1.13 and later ones print it, also in the middle of a line: ranks print at once. Later
# ones say first which rank of all it is; the other number is that in its group.
_SAYS = re.compile(rb"(?:\[rank(\d{1,6})\]:(?:(?!\[rank)[^\r\n])*?)?"
                   rb"Rank (\d{1,6})\] ((?:(?:NCCL|Process group) watchdog thread terminated with "
                   rb"exception: |Watchdog caught )[^\r\n]*)")
_LONGEST = 1 << 12  # a line
_before = _pipe = _thread = None
_rest = b""
_lock = threading.Lock()
_said = []


def begin():
    """From now on. A terminal is left to the workers: some print otherwise into anything else."""
    global _before, _pipe, _thread
    if _thread or os.isatty(2):
        return
    _pipe, end = os.pipe()
    _before = os.dup(2)
    os.dup2(end, 2)
    os.close(end)
    _thread = threading.Thread(target=_copy, daemon=True)
    _thread.start()


def end():
    """The standard error is again what it was. What a worker left behind may keep it open."""
    global _thread
    if _thread:
        os.dup2(_before, 2)
        _thread.join(2)
        _thread = None


def said():
    """(rank, text) of each line since forget(): of those that have ended all that they printed."""
    until = time.monotonic() + 2
    waiting = array.array("i", [1])
    while _thread and waiting[0] and time.monotonic() < until:
        fcntl.ioctl(_pipe, termios.FIONREAD, waiting)
        time.sleep(0.05)  # the thread looks through what it has read
    with _lock:
        return list(_said)


def forget():
    """Also a line that a worker has begun and that nothing can end any more."""
    global _rest
    with _lock:
        _rest = b""
        _said.clear()


def _copy():
    while True:
        try:
            piece = os.read(_pipe, 1 << 16)
        except OSError:
            return
        if not piece:
            return
        _look(piece)
        while piece:
            try:
                piece = piece[os.write(_before, piece):]
            except BlockingIOError:  # a parent has made it so: it is read later
                select.select([], [_before], [], 1)
            except OSError:
                break  # nobody reads it; the workers must not wait for that


def _look(piece):
    global _rest
    with _lock:
        piece = _rest + piece
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1  # a bar of progress has the second
        lines, _rest = piece[:end], piece[end:][-_LONGEST:]
        _said.extend((int(of_all or rank), text.decode(errors="replace"))
                     for of_all, rank, text in _SAYS.findall(lines))
        del _said[:-1000]
