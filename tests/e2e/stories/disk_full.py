"""The volume is full: no checkpoint, no account, no loss; it goes on when there is room."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life
from emulator import wait


def stuff(path):
    """Takes all the room that there is, in large pieces and then in small ones."""
    with open(path, "ab") as file:
        piece = 1 << 28
        while piece >= 4096:
            try:
                os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, piece)
            except OSError:
                piece //= 2


def stuff_until(path, there):
    """Stuffed again and again: what the trainer or the file system gives back (an old checkpoint
    that was just being removed) is room enough to go on with."""
    def stuffed():
        stuff(path)
        return there()
    wait("the agent to say that there is no room", stuffed)


class DiskFull(life.Life):
    steps = 150

    def test_full_and_then_not(self):
        self.root_only("a folder has no size of its own")
        one = self.begin(zones=[self.zone])
        self.wait_training(one, 5)
        mounted = self.world.instance(one) / "mnt"  # as the instance sees it, in its own namespace
        stuffing = pathlib.Path(f"/proc/{self.agents(one)[0]}/root{mounted}/stuffing")
        stuff_until(stuffing, lambda: self.world.status(one).get("stage") == "blocked")
        self.assert_fleet_untouched()
        stuffing.unlink()
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
