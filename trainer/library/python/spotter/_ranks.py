"""Several processes that train one model (torchrun, DDP): rank 0 saves and decides, the others
follow. They communicate by CPU, in a process group of their own, so that no GPU is waited for."""

import ctypes
import faulthandler
import functools
import os
import signal
import socket
import sys
import time


def rank():
    """This process's rank, by PyTorch, else by the launcher; 0 if there is only one process."""
    distributed = _distributed()
    if distributed and distributed.is_initialized():
        return distributed.get_rank()
    # torchrun's, 0 too: in a gang of Slurm's rank 0 may be in any task.
    if torchruns := os.environ.get("RANK"):
        return int(torchruns)
    said = (os.environ.get(name) for name in ("SLURM_PROCID", "NODE_RANK", "LOCAL_RANK"))
    return next((int(number) for number in said if number and int(number)), 0)


def _distributed():
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    return distributed if distributed and distributed.is_available() else None


def end_with_parent():
    """In a gang: when torchrun is killed with `spotter gang`, for want of memory, say, no worker
    stays behind on the GPU."""
    if os.environ.get("SPOTTER_GANG_MEMBER") and os.environ.get("LOCAL_RANK"):
        set_death_signal = 1  # PR_SET_PDEATHSIG of prctl(2)
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGKILL)


@functools.cache
def _steps():
    return Steps()


class Steps:
    """One a process: another would begin its files again.

    In a gang each rank writes its newest step down, and, when `spotter gang` asks it by a
    signal, where it is: if none does a step for long, that shows which one hangs."""

    def __init__(self):
        folder, rank = os.environ.get("SPOTTER_GANG_RANKS"), os.environ.get("LOCAL_RANK")
        self._file, self._written = None, 0.0
        number = signal.SIGRTMIN + 7
        if not folder or not rank or signal.getsignal(number) is not signal.SIG_DFL:
            return
        try:
            Steps._stack = open(f"{folder}/{rank}.stack", "w")
            faulthandler.register(number, Steps._stack, all_threads=False)
            self._file = os.open(f"{folder}/{rank}.step", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC,
                                 0o644)
            self._write(-1)
            self._written = 0.0  # or a rank that hangs right after its first step is not seen
        except (OSError, ValueError):
            pass  # it is not watched

    def say(self, step):
        if self._file is not None and time.monotonic() - self._written >= 0.5:
            self._write(step)

    def _write(self, step):
        self._written = time.monotonic()
        os.pwrite(self._file, f"{os.getpid()} {step}".ljust(48).encode(), 0)


class Ranks:
    def __init__(self):
        self.rank, self._group = rank(), None
        self.leads = self.rank == 0
        end_with_parent()
        self._steps = _steps()
        self._reported = 0.0

    def report(self, step):
        """In a gang each machine's agent gets the step; rank 0's gets more."""
        self._steps.say(step)
        now = time.monotonic()
        here = os.environ.get("SPOTTER_GANG_MEMBER") and os.environ.get("NOTIFY_SOCKET")
        if not here or self.leads or now - self._reported < 1 or \
                os.environ.get("LOCAL_RANK", "0") != "0":
            return
        self._reported = now
        address = os.environ["NOTIFY_SOCKET"]
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as link:
                link.sendto(f"WATCHDOG=1\nX_SPOTTER_STEP={step}\n".encode(),
                            "\0" + address[1:] if address[0] == "@" else address)
        except OSError:
            pass  # the agent starts again: the next step says more

    def share(self, ask):
        """Returns rank 0's result, or raises its exception, on all ranks; all must call it."""
        if self._alone():
            return ask()
        return self._send(*self.attempt(ask))

    def share_of(self, source, ask):
        """Returns that rank's result on all ranks; all must call it, and it must not fail."""
        if self._alone():
            return ask()
        return send(ask() if self.rank == source else None, self._group, source)

    def agree(self, ask):
        """The same for a yes or no at each step: sends only one byte."""
        if self._alone():
            return ask()
        answer, error = self.attempt(ask)
        word = sys.modules["torch"].tensor([2 if error else int(bool(answer))])
        _distributed().broadcast(word, src=0, group=self._group)
        return bool(word) if word < 2 else self._send(None, error)

    def gather(self, value):
        """Returns all ranks' values to rank 0, by rank; None to the others."""
        if self._alone():
            return [value]
        everybodys = [None] * self.count if self.leads else None
        _distributed().gather_object(value, everybodys, dst=0, group=self._group)
        return everybodys

    def group_of(self, takes_part):
        """A process group of the ranks that say so; all must call it."""
        everybody = [None] * self.count
        _distributed().all_gather_object(everybody, bool(takes_part), group=self._group)
        chosen = [rank for rank, said in enumerate(everybody) if said]
        return _distributed().new_group(ranks=chosen, backend="gloo")

    @property
    def count(self):
        distributed = _distributed()
        if distributed and distributed.is_initialized():
            return distributed.get_world_size()
        return int(os.environ.get("WORLD_SIZE") or 1)

    def several(self):
        return not self._alone()

    @staticmethod
    def failure_of(work):
        """The exception that it raises, or None: for gather(), which all must reach."""
        try:
            work()
        except Exception as error:
            return error
        return None

    def _alone(self):
        distributed = _distributed()
        if not (distributed and distributed.is_initialized()) or distributed.get_world_size() == 1:
            if self.leads:
                return True
            raise RuntimeError("this is not rank 0: first torch.distributed.init_process_group()")
        if self._group is None:
            self._group = distributed.new_group(backend="gloo")
        return False

    def attempt(self, ask):
        """(result, exception), one of them None; on the other ranks both."""
        try:
            return (ask() if self.leads else None), None
        except Exception as error:  # raised on all ranks: the others would wait for ever
            return None, error

    def _send(self, answer, error):
        answer, error = send((answer, error), self._group)
        if error is not None:
            raise error
        return answer


def known(result, error):
    """Of Ranks.attempt()."""
    if error is not None:
        raise error
    return result


def send(value, group, source=0):
    """Returns that rank's value on all of a process group; no group: there is nobody else."""
    box = [value]
    if group is not None:
        _distributed().broadcast_object_list(box, src=source, group=group)
    return box[0]


def send_bytes(pieces, size, group):
    """The same of memory, as a tensor of so many bytes: rank 0's pieces (_state.py), end to end."""
    whole, at = sys.modules["torch"].empty(size, dtype=sys.modules["torch"].uint8), 0
    for piece in pieces or ():
        ctypes.memmove(whole.data_ptr() + at, piece.address, piece.size)
        at += piece.size
    if group is not None and size:
        _distributed().broadcast(whole, src=0, group=group)
    return whole
