"""Ctrl-C of the demo in the middle of its story: nothing is left of its world."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import ROOT, leftovers, processes, sweep, wait


class DemoBrokenOff(unittest.TestCase):
    def setUp(self):
        parent = os.environ.get("SPOTTER_TEST_DIRECTORY") or "/var/tmp"
        self.place = tempfile.TemporaryDirectory(prefix="spotter-broken-", dir=parent)
        os.chmod(self.place.name, 0o755)  # the unprivileged trainer has to reach it
        self.addCleanup(self.place.cleanup)
        self.addCleanup(sweep, self.place.name)

    def test_nothing_is_left(self):
        command = [ROOT / "scripts/demo", "--no-build", "--no-verify", "--bin", harness.BINARIES]
        demo = subprocess.Popen(command, cwd=ROOT, start_new_session=True, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT,
                                env={**os.environ, "SPOTTER_TEST_DIRECTORY": self.place.name})
        try:
            wait("a trainer at work", lambda: any(
                "spotter-train" in words for _, words in processes(self.place.name)), 300)
            os.killpg(demo.pid, signal.SIGINT)  # as a terminal does it: to everybody in front
            said, _ = demo.communicate(timeout=180)
        finally:
            if demo.poll() is None:
                os.killpg(demo.pid, signal.SIGKILL)
                demo.communicate()
        self.assertEqual(demo.returncode, 130, said)
        self.assertEqual(leftovers(self.place.name), [])
        self.assertEqual(os.listdir(self.place.name), [], "its world was not removed")


if __name__ == "__main__":
    harness.main()
