"""Why the ranks of one machine of a gang ended: their own failure, or the loss of another machine,
which is none. A rank writes down what ended it, and torchrun, its parent, says it with its next
question to `spotter gang` (rendezvous.py). What nobody has written down is the rank's own, but
for what NCCL's watchdog has said of it (_watchdog.py)."""

import os
import re
import signal
import sys

STOPPED = 75  # as _run.py has it: it was asked to
# Of gloo's texts, NCCL's and the store's those of a connection, and of what did not come over one.
_LOST = re.compile(
    r"closed by (remote )?peer|reset by (remote )?peer|broken pipe|timed ?out|time-?out"
    r"|no route to host|network is (unreachable|down)|host is (unreachable|down)"
    r"|connection refused|connection (was |has been )?(closed|aborted|lost)"
    r"|read error|software caused|got 0 bytes|remote process exited|ncclremoteerror", re.IGNORECASE)
# Whose texts they are, and in which of torch's folders a collective is waited for.
_OF_TORCH = re.compile(r"\bgloo/|gloo::|\bnccl|(ProcessGroup|Work)(Gloo|NCCL)|TCPStore"
                       r"|Watchdog caught", re.IGNORECASE)
_WAIT_HERE = [os.path.join(*each, "") for each in (
    ("distributed",), ("autograd",), ("nn", "parallel"))]
# What torch hands on of the script ("Caught TimeoutError in DataLoader worker process 0."), of its
# GPU, or of collectives that do not fit.
_OF_SCRIPT = re.compile(r"\ACaught |\ADataLoader|CUDA (error|failure)|unhandled cuda error"
                        r"|Detected mismatch between collectives", re.IGNORECASE)


def watch():
    """In a worker of a gang: from now on it writes down what ends it."""
    folder, rank = os.environ.get("SPOTTER_GANG_RANKS"), os.environ.get("LOCAL_RANK")
    if not folder or not rank or getattr(sys.excepthook, "of_spotter", False):
        return
    before, process = sys.excepthook, os.getpid()

    def hook(kind, error, trace):
        if os.getpid() == process:
            _write(_file(folder, rank), f"{process} {'torn' if lost_another(error) else 'failed'}")
        before(kind, error, trace)
    hook.of_spotter = True
    sys.excepthook = hook


def _file(folder, rank):
    return os.path.join(folder, f"{rank}.end")


def _write(path, text):
    try:
        with open(path, "w") as file:
            file.write(text)
    except OSError:
        pass  # then it counts as a failure


def lost_another(error):
    """Whether the first of these exceptions says that a connection to another rank was lost. One
    of the script's own connections, to S3 say, is the script's own."""
    error = _first_of(error)
    text = _own_words(str(error))
    if not isinstance(error, (RuntimeError, TimeoutError)) or not _speaks_of_loss(text):
        return False
    return bool(_OF_TORCH.search(text)) or _is_of_torch(_raised_in(error))


def _speaks_of_loss(text):
    return bool(_LOST.search(text)) and not _OF_SCRIPT.search(text)


def _first_of(error):
    seen = set()  # `raise error from error` is allowed, and longer circles are
    while id(error) not in seen:
        seen.add(id(error))
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        error = before or error
    return error


def _own_words(text):
    """Without what a text quotes below its first line: source, a stack. NCCL says why in its last
    lines, before the stack."""
    first = text.split("\n", 1)[0]
    return text.split("\nException raised from", 1)[0] if "NCCL error" in first else first


def _raised_in(error):
    trace, file = error.__traceback__, ""
    while trace:
        file, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return file


def _is_of_torch(file):
    torch = getattr(sys.modules.get("torch"), "__file__", None)
    return bool(torch) and any(
        file.startswith(os.path.join(os.path.dirname(torch), each)) for each in _WAIT_HERE)


def verdict(failures, watchdogs=(), ranks={}):
    """Of a machine's ranks, as torchrun has them (local rank, process, exit status): torn, failed,
    or nothing: they ended as they were asked to. `watchdogs`: what those of its ranks have said,
    (rank of all, text): they abort a process that says nothing itself. `ranks`: those of all, by
    the local ones."""
    folder = os.environ.get("SPOTTER_GANG_RANKS", "")
    failures = [each for each in failures if each[2] != STOPPED]
    if not failures:
        return ""
    # Beside those that ended first there may be one that is the reason, and was ended by torchrun.
    said = {(rank, process): word for rank, process, word in _said(folder)}
    aborted = [(rank, process) for rank, process, status in failures
               if status == -signal.SIGABRT and (rank, process) not in said]
    if {ranks.get(rank, rank) for rank, _ in aborted} <= {rank for rank, _ in watchdogs} and all(
            _speaks_of_loss(text.split("exception: ")[-1]) and _OF_TORCH.search(text)
            for _, text in watchdogs):
        said.update(dict.fromkeys(aborted, "torn"))
    torn = all(said.get((rank, process)) == "torn" for rank, process, _ in failures)
    return "torn" if torn and "failed" not in said.values() else "failed"


def _said(folder):
    try:
        names = [name for name in os.listdir(folder) if re.fullmatch(r"\d{1,6}\.end", name)]
    except OSError:
        return
    for name in names:
        try:
            with open(os.path.join(folder, name)) as file:
                process, word = file.read(64).split()
            yield int(name[:-4]), int(process), word
        except (OSError, ValueError):
            continue
