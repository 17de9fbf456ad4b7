#!/usr/bin/python3
"""Listings that do not end.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH.
"""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pipe_test import NO_DATA, Pipe  # noqa: E402


class Endless(Pipe):
    """Before there was a limit, such a listing took gigabytes in seconds."""

    def refused(self, pages, *says, options=""):
        self.some((1, 2, 3))
        self.fault("s3-endless", f"pages={pages}")
        _, words = self.run_pipe(options, "sh", "-c", "exec cat $F/train_0", status=NO_DATA)
        for each in ("channel train: ", *says):
            self.assertIn(each, words)

    def test_a_token_that_comes_again(self):
        for options in ("", ",mode=file"):
            with self.subTest(options):
                self.refused("again", "a page's token came a second time", options=options)

    def test_pages_that_are_empty(self):
        for options in ("", ",mode=file"):
            with self.subTest(options):
                self.refused("empty", "pages without an entry followed", options=options)


if __name__ == "__main__":
    unittest.main()
