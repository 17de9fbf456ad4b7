"""Copies of a gang's state in the memory of its machines. A machine that is killed without a notice
takes the steps since the newest checkpoint with it; with `gang.copy_every`, and a script that opens
its run with copies=True, only those since the newest copy.

Each so many steps rank 0's state goes to every machine of the round, by gloo, while training waits,
and lies there in a file in memory:

    $SPOTTER_GANG_COPIES/copy    a line of JSON {"generation", "step", "meta", "parts": [[name,
                                 bytes], ...]}, then the parts end to end
    $SPOTTER_GANG_COPIES/newest  its step, and how many machines have it

The next round goes on from the newest copy that any of its machines has, if it is newer than the
newest checkpoint. That alone is durable: a copy is lost with the last machine that has it.

Of a round's generation are its checkpoints and its copies: the gang's number of the round, and more
than all generations that it finds. Where a checkpoint is of a later one, a copy is of a history
that was left: a machine that was paused may come back with it.

Rank 0 decides whether copies are made; the others, whatever is true of their machines, follow.
"""

import contextlib
import ctypes
import json
import mmap
import os
import sys

from . import _ranks, _state

GENERATION = "spotter_generation"  # in a checkpoint's meta
LONGEST_LINE = 64 << 20  # a generous limit: the meta is in it


class Copies:
    def __init__(self, ranks, wanted):
        self._ranks = ranks
        # The same on all ranks of a gang, which run one script.
        self.possible = wanted and "SPOTTER_GANG_MEMBER" in os.environ
        self._folder = os.environ.get("SPOTTER_GANG_COPIES", "")  # empty: this machine keeps none
        self._every = int(os.environ.get("SPOTTER_GANG_COPY_EVERY") or 0) if self.possible else 0
        self._first = os.environ.get("LOCAL_RANK", "0") == "0"  # of its machine
        self._steps, self._generation, self._group, self._said = 0, 0, None, False

    def stop(self, why):
        """For rank 0: no more are made."""
        if self._every:
            self._say(f"no copies of the state in memory: {why}")
        self._every = 0

    def step_due(self):
        """For rank 0, once a step."""
        self._steps += 1
        if not self._every or self._steps < self._every:
            return False
        self._steps = 0
        return True

    def document(self):
        """For the meta of a checkpoint."""
        return {GENERATION: self._generation} if self._generation else {}

    def newer(self, found, error, device_of):
        """For all ranks; rank 0 gives the newest checkpoint, None, or why that is not known.
        Returns (values, step, meta) of a copy that is newer; None: there is none."""
        offers = self._ranks.gather(self._offer() if self._first else None)
        sources, self._generation = self._ranks.share(
            lambda: ([], 0) if error else _choose(offers, found))
        for source in sources:  # the newest may turn out not to be readable
            mine = self._load(device_of) if self._ranks.rank == source else None
            if about := self._ranks.share_of(source, lambda: mine and mine[1:]):
                return self._ranks.share_state(source, mine and mine[0], device_of), *about
        return None

    def make(self, step, meta, pack):
        """For all ranks; what pack() and meta() return are rank 0's. Fails on all of them if these
        do."""
        packed, error = self._ranks.attempt(lambda: self._packed(step, meta, pack))
        header = self._ranks.share(lambda: _ranks.known(packed and packed[0], error))
        if not header:
            return
        pieces = packed[1] if packed else None
        machines = self._machines()
        kept = self._take(header, pieces, machines) if self._first else None
        everybody = self._ranks.gather(kept)
        machines = self._ranks.share(lambda: sum(map(bool, everybody)))
        if machines and self._first:
            self._note(step, machines)
        elif not machines and self._ranks.leads:
            self.stop("no machine of this gang has room for one")

    def _packed(self, step, meta, pack):
        packed = pack()
        try:
            _state.check_plain(packed)
        except _state.NotPlain as error:
            self.stop(f"the state has {error}")
            return None
        parts = [[name, sum(piece.size for piece in pieces)] for name, pieces in packed]
        header = json.dumps({"generation": self._generation, "step": step, "meta": meta(),
                             "parts": parts}) + "\n"
        return (header, parts), [pieces for _, pieces in packed]

    def _take(self, header, pieces, machines):
        """True: this machine has the copy now. It takes part in any case: all others wait."""
        line, parts = header[0].encode(), header[1]
        with self._file(len(line) + sum(size for _, size in parts)) as file:
            file.write(line)
            for number, (_, size) in enumerate(parts):
                part = _ranks.send_bytes(pieces[number] if pieces else None, size, machines)
                if size:
                    file.write(_ranks.memory_of(part))
        return file.kept

    def _machines(self):
        """The group of the first rank of each machine; None: there is only one rank."""
        if self._group is None and self._ranks.several():
            self._group = self._ranks.group_of(self._first)
        return self._group

    @contextlib.contextmanager
    def _file(self, size):
        """That becomes this machine's copy. Where there is no room it has none, nor an old one that
        takes the room of the next, and goes on: the others have it."""
        file = _File()
        try:
            if self._folder:
                file.open(self._folder, size)
            yield file
            file.keep()
        finally:
            if file.trouble:
                self._say(f"no copy of the state on this machine: {file.trouble}")
            file.close()

    def _note(self, step, machines):
        """For `spotter gang`, which reports it."""
        if not self._folder:
            return
        with contextlib.suppress(OSError), _Folder(self._folder) as folder:
            with folder.open("newest.new", "w") as file:
                file.write(f"{step} {machines}")
            folder.rename("newest.new", "newest")

    def _say(self, words):
        if not self._said:
            print(f"spotter: {words}", file=sys.stderr, flush=True)
        self._said = True

    def _offer(self):
        """(generation, step), or None."""
        try:
            with _Folder(self._folder) as folder, folder.open("copy", "rb") as file:
                header = json.loads(file.readline(LONGEST_LINE))
            return int(header["generation"]), int(header["step"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            self._say(f"the copy of the state on this machine cannot be read: {error}")
            return None

    def _load(self, device_of):
        """None where it cannot be read: all the ranks wait for an answer."""
        try:
            with _Folder(self._folder) as folder, folder.open("copy", "rb") as file:
                header = json.loads(file.readline(LONGEST_LINE))
                at = file.tell()
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                    parts = _parts(content, at, header["parts"])
            values = _state.unpack(parts, parts.__getitem__, device_of,
                                   plain=True)  # most machines have it from another
            return values, header["step"], header["meta"]
        except Exception as error:
            self._say(f"the copy of the state on this machine cannot be read: {error}")
            return None


class _Folder:
    """Opened once. All users may make names in /dev/shm: where ours was lost, what has its name is
    used only if it is no link, our user's, and nobody else's to write to."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(self._path, flags)
        found = os.fstat(self._descriptor)
        if found.st_uid != os.geteuid() or found.st_mode & 0o022:
            self.__exit__()
            raise PermissionError(f"{self._path} is another user's, or others may write to it: "
                                  "remove it")
        return self

    def __exit__(self, *_):
        os.close(self._descriptor)

    def descriptor_of(self, name, flags):
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW
        return os.open(name, flags, 0o600, dir_fd=self._descriptor)

    def open(self, name, mode):
        return open(name, mode, opener=self.descriptor_of)

    def rename(self, name, to):
        os.replace(name, to, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def remove(self, name):
        os.unlink(name, dir_fd=self._descriptor)


class _File:
    """Written beside the copy, whose name it takes when it is whole. What fails is `trouble`."""

    def __init__(self):
        self.trouble, self.kept, self._descriptor, self._folder = None, False, None, None

    def open(self, folder, size):
        self._folder = folder
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)  # who logs out may have lost it (logind.conf, RemoveIPC)
            with _Folder(folder) as opened:
                self._descriptor = opened.descriptor_of(
                    "unfinished", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.posix_fallocate(self._descriptor, 0, size)
        except OSError as error:
            self._give_up(error)

    def write(self, data):
        view = memoryview(data).cast("B")
        try:
            while self._descriptor is not None and len(view):
                view = view[os.write(self._descriptor, view):]
        except OSError as error:
            self._give_up(error)

    def keep(self):
        if self._descriptor is None:
            return
        try:
            with _Folder(self._folder) as folder:
                folder.rename("unfinished", "copy")
            self.kept = True
        except OSError as error:
            self._give_up(error)

    def close(self):
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _give_up(self, error):
        """At once: others of this machine may need the memory."""
        self.trouble = error
        self.close()
        for name in ("unfinished", "copy"):
            with contextlib.suppress(OSError), _Folder(self._folder) as folder:
                folder.remove(name)


def _parts(content, at, parts):
    """Each part by its name, copied: here they begin at any address."""
    found, whole = {}, at + sum(size for _, size in parts)
    if whole != len(content):
        raise ValueError(f"it has {len(content)} bytes, not {whole}")
    for name, size in parts:
        found[name] = (ctypes.c_char * size).from_buffer_copy(content, at)
        at += size
    return found


def _choose(offers, found):
    """(the ranks that have a newer state than the checkpoint, the newest first; the new
    generation)"""
    durable = (0, -1) if found is None else (found.meta.get(GENERATION, 0), found.step)
    there = [(*offer, -rank) for rank, offer in enumerate(offers) if offer]
    newer = sorted((offer for offer in there if offer[:2] > durable), reverse=True)
    generation = 1 + max([durable[0]] + [offer[0] for offer in there])
    of_gang = int(os.environ.get("SPOTTER_GANG_ROUND") or 0)
    return [-offer[2] for offer in newer], max(generation, of_gang)
