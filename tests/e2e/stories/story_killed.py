"""A story that is killed, as CTest does it when time is up: its world ends by itself."""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
from emulator import leftovers, wait

STORY = pathlib.Path(__file__).with_name("agent_killed.py")


class StoryKilled(harness.Apart):
    def test_nothing_of_it_stays(self):
        with tempfile.TemporaryFile("a+") as output:
            story = subprocess.Popen(
                [sys.executable, STORY, "-k", "test_the_trainer_goes_on"], start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                env={**os.environ, "SPOTTER_TEST_DIRECTORY": self.place})
            try:
                wait("its trainer", lambda: story.poll() is not None or self.runs("train.py"))
                output.seek(0)
                self.assertIsNone(story.poll(), output.read())
            finally:
                story.send_signal(signal.SIGKILL)
                story.wait()
        wait("its world to end", lambda: not leftovers(self.place))


if __name__ == "__main__":
    harness.main()
