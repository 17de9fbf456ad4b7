"""Ctrl-C of the demo in the middle of its story: nothing is left of its world."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import LIMIT, ROOT, leftovers


class DemoBrokenOff(harness.Apart):
    def test_nothing_is_left(self):
        command = [ROOT / "scripts/demo", "--no-build", "--no-verify", "--bin", harness.BINARIES]
        with tempfile.TemporaryFile("a+") as output:
            demo = subprocess.Popen(command, cwd=ROOT, start_new_session=True,
                                    stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                    env={**os.environ, "SPOTTER_TEST_DIRECTORY": self.place})
            try:
                # When the trainer does not come, the demo gives up by itself, and says why.
                while demo.poll() is None and not self.runs("spotter-train"):
                    time.sleep(0.1)
                if demo.poll() is None:
                    os.killpg(demo.pid, signal.SIGINT)  # as a terminal does it: to all in front
                demo.wait(LIMIT)
            finally:
                if demo.poll() is None:
                    os.killpg(demo.pid, signal.SIGKILL)
                    demo.wait()
            output.seek(0)
            self.assertEqual(demo.returncode, 130, output.read())
        self.assertEqual(leftovers(self.place), [])
        self.assertEqual(os.listdir(self.place), [], "its world was not removed")


if __name__ == "__main__":
    harness.main()
