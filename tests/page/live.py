#!/usr/bin/python3
"""The page against a real emulator with a real small job: whoever presses *interrupt* sees the
notice, then the job going on elsewhere. tests/page/live.mjs holds the browser's side."""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

from emulator import Failed  # noqa: E402
from harness import Story, main  # noqa: E402

BUCKET = "histories"


class Page(Story):
    job_name = "digits"

    def browser(self, *arguments, seconds=240):
        done = subprocess.run(["node", HERE / "live.mjs", self.world.api, *arguments], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                              timeout=seconds, env={**os.environ, "SPOTTER_BIN": str(self.bin)})
        if done.returncode == 77:
            self.skipTest(done.stdout.strip().splitlines()[-1])
        if done.returncode:
            raise Failed(f"the browser's side ended with {done.returncode}:\n{done.stdout}")

    @property
    def bin(self):
        return pathlib.Path(os.environ.get("SPOTTER_BIN") or HERE.parents[1] / "build/release/bin")

    def setUp(self):
        super().setUp()
        (self.world.directory / "s3" / BUCKET).mkdir(parents=True, exist_ok=True)

    def test_of_the_world_alone(self):
        self.browser("world")


if __name__ == "__main__":
    main()
