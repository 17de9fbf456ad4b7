"""What the tests share that run in the root: the agent's end, and processes that train together."""

import json
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import threading
import time
import unittest

import torch

torch.set_num_threads(1)  # the threads do not outlive a fork, and other sums are other bits
NAMES = ("NOTIFY_SOCKET", "SPOTTER_NOTICE_FILE", "SPOTTER_PACE_FILE", "SPOTTER_CHECKPOINTS",
         "SPOTTER_CHECKPOINT_EVERY", "SPOTTER_CHECKPOINTS_FASTER", "SPOTTER_CHECKPOINTS_S3",
         "SPOTTER_STORAGE")


class Inside(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="test-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.checkpoints = self.folder / "checkpoints"
        for name in NAMES:
            os.environ.pop(name, None)
            self.addCleanup(os.environ.pop, name, None)
        self.ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.ear.close)
        self.ear.bind(str(self.folder / "sock"))
        self.messages = []
        os.environ["NOTIFY_SOCKET"] = str(self.folder / "sock")
        os.environ["SPOTTER_NOTICE_FILE"] = str(self.folder / "notice")

    def _callTestMethod(self, method):
        """In a process of its own: a signal that asked to stop stays asked for, and PyTorch forks
        none that has computed a gradient."""
        def listening():
            threading.Thread(target=self.listen, daemon=True).start()
            method()
            if not self._outcome.success:  # a subtest has failed: only this process knows of it
                result = self._outcome.result
                print(*(text for _, text in result.failures + result.errors), sep="\n",
                      file=sys.stderr)
                raise AssertionError("a subtest failed")
        self.assertEqual(self.end(self.child(listening)), 0, "the error is above")

    def child(self, life):
        child = os.fork()
        if child == 0:
            os._exit(_status_of(life))
        return child

    def listen(self):
        """The kernel keeps only ten datagrams that nobody reads."""
        while True:
            text = self.ear.recv(65536).decode()
            self.messages.append(dict(line.split("=", 1) for line in text.splitlines()))

    def end(self, child):
        """Its exit status."""
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    def said(self, key):
        """What the agent was sent of it, in its order, since life_is_over()."""
        time.sleep(0.05)
        return [message[key] for message in self.messages if key in message]

    def notice(self, stop_by=None):
        """The machine goes in two minutes; one may train for `stop_by` seconds, or not at all."""
        write_notice(self.folder / "notice", stop_by)
        time.sleep(0.06)  # it is looked for 20 times a second

    def life_is_over(self):
        """The next life is on another machine."""
        (self.folder / "notice").unlink(missing_ok=True)
        time.sleep(0.05)
        self.messages.clear()

    def ranks(self, count, life):
        """The exit statuses of processes that train together: `life(rank)` in each."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]

        def one(rank):
            os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(count),
                              MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
            life(rank)
        children = [self.child(lambda rank=rank: one(rank)) for rank in range(count)]
        return [self.end(child) for child in children]


def write_notice(path, stop_by=None):
    now = int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)
    text = {"action": "terminate", "deadline_boottime_ms": now + 120_000}
    if stop_by is not None:
        text["stop_by_boottime_ms"] = now + int(stop_by * 1000)
    path.with_suffix(".new").write_text(json.dumps(text))
    path.with_suffix(".new").rename(path)


def _status_of(life):
    import traceback

    try:
        life()
    except SystemExit as end:
        return end.code
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
