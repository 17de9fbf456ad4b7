"""Several processes that train one model (torchrun, DDP): rank 0 saves and decides, the others
follow. They communicate by CPU, in a process group of their own, so that no GPU is waited for.

Whoever reaches a rank's port may speak as another rank: words are sent as JSON, and a state as
tensors that a skeleton of plain classes describes (_state.py). Nothing that comes is executed."""

import ctypes
import faulthandler
import functools
import json
import os
import signal
import socket
import sys
import time

from . import _state
from ._library import SpotterError
from ._staging import Staging

LONGEST = 64 << 20  # bytes of a word: a copy's header has the meta, with all ranks' positions
_BYTES = "a tensor of uint8"  # no channel has this name


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
        """Returns rank 0's result, which JSON has, or raises its exception, on all ranks (on the
        others a SpotterError of its words); all must call it."""
        if self._alone():
            return ask()
        return self._send(*self.attempt(ask))

    def share_of(self, source, ask):
        """Returns that rank's result on all ranks; all must call it, and it must not fail."""
        if self._alone():
            return ask()
        return self._broadcast(ask() if self.rank == source else None, source)

    def share_state(self, source, state, device_of=lambda device: "cpu", stored=None):
        """Returns that rank's {name: value} on all ranks; all must call it. `device_of`: of
        _state.unpack(). `stored()`: it as this rank reads it by itself, where it has objects in it
        that no rank takes from another."""
        if self._alone():
            return state
        sends = self.rank == source
        staging, lent, sent = Staging(), [], {}

        def lend(size):
            lent.append(ctypes.create_string_buffer(size))
            return ctypes.addressof(lent[0])
        packed = _state.pack(state, staging) if sends else []
        staging.fetch(packed, lend)
        for number, (name, size) in enumerate(self._broadcast(
                [(name, sum(piece.size for piece in pieces)) for name, pieces in packed], source)):
            sent[name] = send_bytes(packed[number][1] if sends else None, size, self._group, source)
        if sends:
            return state
        try:
            return _state.unpack(sent, lambda name: memory_of(sent[name]), device_of, plain=True)
        except _state.NotPlain:
            if stored is None:
                raise
            return stored()

    def agree(self, ask):
        """The same as share() for a yes or no at each step: sends only one byte."""
        if self._alone():
            return ask()
        answer, error = self.attempt(ask)
        word = sys.modules["torch"].tensor([2 if error else int(bool(answer))])
        _distributed().broadcast(word, src=0, group=self._group)
        return bool(word) if word < 2 else self._send(None, error)

    def gather(self, value):
        """Returns all ranks' values, as JSON has them, to rank 0, by rank; None to the others."""
        if self._alone():
            return [value]
        mine = _words(value)
        sizes = self._everybodys(mine.numel())
        mine.resize_(_allowed(max(sizes)))  # gloo takes the same number from all
        all_words = [mine.new_empty(mine.numel()) for _ in sizes] if self.leads else None
        _distributed().gather(mine, all_words, dst=0, group=self._group)
        return all_words and [_value(words, size) for words, size in zip(all_words, sizes)]

    def group_of(self, takes_part):
        """A process group of the ranks that say so; all must call it."""
        chosen = [rank for rank, said in enumerate(self._everybodys(int(takes_part))) if said]
        return _distributed().new_group(ranks=chosen, backend="gloo")

    def _everybodys(self, number):
        mine = sys.modules["torch"].tensor([number])
        numbers = [mine.clone() for _ in range(self.count)]
        _distributed().all_gather(numbers, mine, group=self._group)
        return [int(each) for each in numbers]

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
        """What its exception says, or None: for gather(), which all must reach."""
        try:
            work()
        except Exception as error:
            return str(error)
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
        answer, words = self._broadcast(
            (answer, None if error is None else f"{type(error).__name__}: {error}"), 0)
        if error is not None:
            raise error
        if words is not None:
            raise SpotterError(f"rank 0: {words}")
        return answer

    def _broadcast(self, value, source):
        words = _words(value if self.rank == source else None)
        size = sys.modules["torch"].tensor([words.numel()])
        _distributed().broadcast(size, src=source, group=self._group)
        words.resize_(_allowed(int(size)))
        _distributed().broadcast(words, src=source, group=self._group)
        return _value(words, words.numel())


def known(result, error):
    """Of Ranks.attempt()."""
    if error is not None:
        raise error
    return result


def send_bytes(pieces, size, group, source=0):
    """A tensor of so many bytes on all of a process group: that rank's pieces (_state.py), end to
    end. No group: there is nobody else."""
    whole, at = sys.modules["torch"].empty(size, dtype=sys.modules["torch"].uint8), 0
    for piece in pieces or ():
        ctypes.memmove(whole.data_ptr() + at, piece.address, piece.size)
        at += piece.size
    if group is not None and size:
        _distributed().broadcast(whole, src=source, group=group)
    return whole


def memory_of(tensor):
    """A part, as _state.unpack() takes it."""
    memory = (ctypes.c_char * tensor.numel()).from_address(tensor.data_ptr())
    memory.owner = tensor  # keeps it alive
    return memory


def _words(value):
    """The value as JSON, in a tensor; generators have tensors of bytes in them."""
    text = json.dumps(value, default=lambda tensor: {_BYTES: tensor.tolist()})
    return sys.modules["torch"].frombuffer(bytearray(text.encode()),
                                           dtype=sys.modules["torch"].uint8).clone()


def _value(words, size):
    def tensor_of(found):
        return (sys.modules["torch"].tensor(found[_BYTES], dtype=sys.modules["torch"].uint8)
                if set(found) == {_BYTES} else found)
    return json.loads(ctypes.string_at(words.data_ptr(), min(size, words.numel())),
                      object_hook=tensor_of)


def _allowed(size):
    if not 0 < size <= LONGEST:
        raise SpotterError(f"a rank says that it sends {size} bytes")
    return size
