"""Checkpoints that are folders of a framework's own format, `checkpoint-N` after N steps. Each is
written under another name and renamed once it is durable: it is there whole, or not at all."""

import os
import pathlib
import re
import shutil
import sys

from ._library import SpotterError

UNFINISHED = ".spotter-unfinished-"


def _of_round():
    """In a gang a machine that was paused may wake in a later round: what it still writes is in a
    folder of its own round's."""
    number = os.environ.get("SPOTTER_GANG_ROUND")
    return f"round-{number}-" if number else ""


class Folders:
    """For rank 0, but for the names."""

    def __init__(self, directory, keep):
        self._directory, self._keep = pathlib.Path(directory), keep or 2  # 0 means two, as in C

    def path(self, step):
        return self._directory / f"checkpoint-{step}"

    def unfinished(self, step):
        return self._directory / f"{UNFINISHED}{_of_round()}{step}"

    def steps(self):
        names = (re.fullmatch(r"checkpoint-(\d+)", path.name) for path in self._directory.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def clean(self):
        """Removes what a killed process has left."""
        for left in self._directory.glob(f"{UNFINISHED}*"):
            shutil.rmtree(left, ignore_errors=True)  # NFS keeps what is still open

    def rotate(self, written):
        """The one `written` last stays. Higher numbers do not count: torn, or of another run."""
        for step in [step for step in self.steps() if step <= written][:-self._keep]:
            # Never half of one by its name.
            gone = self._directory / f"{UNFINISHED}old-{step}-{os.getpid()}"
            self.path(step).rename(gone)
            shutil.rmtree(gone, ignore_errors=True)

    def newest(self, trouble_of):
        """The newest step whose folder has no trouble; None where there is no folder."""
        steps = self.steps()
        for step in reversed(steps):
            if not (trouble := trouble_of(self.path(step))):
                return step
            print(f"spotter: torn checkpoint {trouble}", file=sys.stderr)
        if steps:
            raise SpotterError(f"all checkpoints in {self._directory} are torn: to start from "
                               "scratch, remove them")
        return None
