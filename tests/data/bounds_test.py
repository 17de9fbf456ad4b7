#!/usr/bin/python3
"""Listings that do not end, and as many channels as a job may have.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH.
"""

import gzip
import hashlib
import pathlib
import resource
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pipe_test import NO_DATA, SPOTTER, Pipe, noise, record  # noqa: E402

CHANNELS = 1000
FILES = 1024  # that a process may have open, as a rule

# Prints how much memory the largest of a command's processes had, in KiB.
PEAK = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], check=False, timeout=100).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


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


class Many(Pipe):
    def list_of(self, mode):
        for i in range(CHANNELS):
            self.put(f"{i:04}/object", b"%04d" % i)
        file = self.scratch / "channels"
        file.write_text("".join(f"c{i:04}=s3://bucket/{self.prefix}/{i:04}/,mode={mode}\n"
                                for i in range(CHANNELS)))
        return file

    def run_many(self, mode, command):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        done = subprocess.run(
            [SPOTTER, "pipe", "--root", self.scratch / "ml", "--channels", self.list_of(mode),
             "--", "sh", "-c", f"ulimit -n; {command}"], env=self.environment(),
            capture_output=True, timeout=300, check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, hard)))
        self.assertEqual(done.returncode, 0, done.stderr.decode()[-2000:])
        limit, out = done.stdout.decode().split("\n", 1)
        self.assertEqual(int(limit), FILES, "the trainer's limit is not the one that was given")
        return out

    def test_are_fetched(self):
        out = self.run_many("file", f"cat {self.scratch}/ml/input/data/c*/object; env | "
                                    "grep -c ^SM_CHANNEL_C")
        self.assertEqual(out, "".join(f"{i:04}" for i in range(CHANNELS)) + f"{CHANNELS}\n")

    def test_are_streamed(self):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        if hard != resource.RLIM_INFINITY and hard < 3 * CHANNELS:
            self.skipTest(f"this machine lets a process open {hard} files only")
        out = self.run_many("pipe", f"cat {self.scratch}/ml/input/data/c*_0")
        self.assertEqual(out, "".join(f"{i:04}" for i in range(CHANNELS)))

    def test_share_their_memory(self):
        """Each of a hundred could be ahead of its reader by 8 MB: they have 1 MiB each."""
        channels, size = 100, 8_000_000
        self.put("object", noise(size, 1))
        file = self.scratch / "channels"
        file.write_text("".join(f"c{i:03}=s3://bucket/{self.prefix}/\n" for i in range(channels)))
        done = subprocess.run(
            [sys.executable, "-c", PEAK, SPOTTER, "pipe", "--channels", file, "--directory",
             self.folder, "--budget", str(channels), "--", "sh", "-c",
             "for fifo in $F/c*_0; do head -c 1 $fifo >/dev/null; done; cat $F/c*_0 | wc -c"],
            env=self.environment(), capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        read, peak = map(int, done.stdout.split())
        self.assertEqual(read, channels * (size - 1))
        self.assertLess(peak, 2 * channels << 10)

    def test_one_more_is_refused(self):
        file = self.list_of("file")
        with open(file, "a", encoding="ascii") as more:
            more.write("d=s3://bucket/d\n")
        done = subprocess.run([SPOTTER, "pipe", "--channels", file, "--directory", self.folder,
                               "--", "true"], env=self.environment(), capture_output=True,
                              timeout=600, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("more than 1000 channels", done.stderr.decode())


class Little(Pipe):
    """As much memory as each of a thousand channels has."""

    def read_all(self, options, *parts):
        """Two epochs of one channel while another one, of the same data, is not read."""
        out, _ = self.run_pipe(
            f"{options} --channel other=s3://bucket/{self.prefix}/ --budget 2", "sh", "-c",
            "cat $F/train_0 $F/train_1 | sha256sum; cat $F/other_0 | sha256sum")
        one, other = (line.split()[0] for line in out.decode().splitlines())
        self.assertEqual(one, hashlib.sha256(b"".join(parts) * 2).hexdigest())
        return other

    def test_is_enough(self):
        parts = self.some()
        whole = hashlib.sha256(b"".join(parts)).hexdigest()
        for options in ("", " --copy"):
            with self.subTest(options):
                self.assertEqual(self.read_all(options, *parts), whole)
        with self.subTest("recordio"):
            self.assertEqual(self.read_all(",recordio", *map(record, parts)), whole)

    def test_is_enough_for_what_is_packed(self):
        parts = [noise(3_000_000, 1), b"x" * 20_000_000, noise(10, 2)]
        for i, part in enumerate(parts):
            self.put(str(i), gzip.compress(part, 1))
        self.read_all(",gzip", *parts)

    def test_is_enough_for_checksums(self):
        parts = [self.upload(f"{i}", noise(5_000_000, i)) for i in range(3)]
        self.read_all("", *parts)

    def test_less_is_refused(self):
        self.some((1,))
        _, words = self.run_pipe(f" --channel other=s3://bucket/{self.prefix}/ --budget 1",
                                 "true", status=NO_DATA)
        self.assertIn("1 MiB for each", words)


if __name__ == "__main__":
    unittest.main()
