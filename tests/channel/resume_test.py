#!/usr/bin/python3
"""A trainer that is killed again and again in the middle of its epochs, with `spotter pipe` and the
emulator's S3: what its checkpoints say it has consumed is, over all lives, each record once.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH, SPOTTER_LIBRARY.
"""

import gzip
import pathlib
import random
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "trainer/library/python"
sys.path[:0] = [str(ROOT / "tests/data"), str(PYTHON)]
import pipe_test  # noqa: E402
import spotter  # noqa: E402

EPOCHS, KILLED = 3, 137

# The state is what it has consumed. It saves after some batches, goes on, and is killed at a batch
# that its caller chose.
TRAINER = """
import itertools, os, signal, sys
import spotter
options, workers, last = eval(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
run = spotter.open(every=0)
old = run.restore()
seen = old["seen"] if old else []
first = len(seen)
train = run.channel("train", **options)
def batches():
    rest = iter(train)
    while batch := list(itertools.islice(rest, 7)):
        yield batch
if workers:
    import spotter.data
    loader = spotter.data.DataLoader(spotter.data.Records(train), batch_size=7,
                                     num_workers=workers, collate_fn=list)
    batches = lambda: loader
done = 0
for epoch in range(train.epoch, %d):
    for batch in batches():
        seen += [(epoch, record) for record in batch]
        done += 1
        if done %% 5 == 0:
            run.save(len(seen), seen=seen)
            run.flush()
        if done == last:
            os.kill(os.getpid(), signal.SIGKILL)
run.save(len(seen), seen=seen)
run.finished()
print("first", first)
""" % EPOCHS


class Resume(pipe_test.Pipe):
    def numbered(self, framing, pack=bytes):
        """Some objects of records, each with its number."""
        size = random.Random(1)
        for number in range(6):
            records = [b"%d.%03d." % (number, k) + b"x" * size.randrange(3000) for k in range(60)]
            if framing is bytes:
                records = [each.ljust(3010, b"_") for each in records]
            self.put(str(number), pack(b"".join(map(framing, records))))

    def life(self, source, options, workers, last):
        command = self.command(f"{source} --state {self.scratch}/state",
                               [sys.executable, "-c", TRAINER, repr(options), str(workers),
                                str(last)])
        return subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False,
            env=self.environment(SPOTTER_CHECKPOINTS=str(self.scratch / "checkpoints"),
                                 SPOTTER_LIBRARY=spotter._library.candidates()[0],
                                 PYTHONPATH=str(PYTHON), PYTHONDONTWRITEBYTECODE="1"))

    def all_lives(self, source, options, workers=0, ends=(18, 3, 52, 41, 13)):
        expected = [(number, record) for number, epoch in
                    enumerate(self.epochs(source, *range(EPOCHS)))
                    for record in self.records(epoch, options)]
        self.assertEqual(len(set(expected)), EPOCHS * 360)
        for last in ends:  # the second one dies before it has saved anything
            ended = self.life(source, options, workers, last)
            self.assertEqual(ended.returncode, KILLED, ended.stderr)
        ended = self.life(source, options, workers, -1)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertGreater(int(ended.stdout.split()[1]), 0)
        with spotter.open(self.scratch / "checkpoints") as run:
            self.assertEqual(run.restore()["seen"], expected)

    def records(self, epoch, options):
        path = self.scratch / "records_0"
        path.write_bytes(epoch)
        channel = spotter.Channel("records", folder=self.scratch, **options)
        self.addCleanup(channel.close)
        return list(channel)

    def test_recordio_shuffled(self):
        self.numbered(pipe_test.record)
        self.all_lives(",shuffle=3", {})

    def test_with_a_worker_that_reads_ahead(self):
        self.numbered(pipe_test.record)
        self.all_lives(",shuffle=4", {}, workers=1, ends=(18, 52))

    def test_lines_of_gzip(self):
        self.numbered(lambda line: line + b"\n", gzip.compress)
        self.all_lives(",gzip", {"lines": True})

    def test_a_fixed_size(self):
        self.numbered(bytes)
        self.all_lives("", {"record_bytes": 3010})

    def test_each_object_a_record(self):
        for number in range(360):
            self.put(f"{number:03}", b"%d" % number * (number + 1))
        self.all_lives(",recordio,shuffle=1", {})

    def test_a_torn_checkpoint_takes_its_position_along(self):
        self.numbered(pipe_test.record)
        for last in (12, 12):
            self.assertEqual(self.life("", {}, 0, last).returncode, KILLED)
        newest = sorted((self.scratch / "checkpoints").glob("step-*"))[-1]
        with open(newest / "seen.pickle", "r+b") as part:
            part.truncate(10)
        self.all_lives("", {}, ends=(19,))

    def test_data_that_has_changed_is_an_error_and_no_shift(self):
        self.numbered(pipe_test.record)
        self.assertEqual(self.life("", {}, 0, 12).returncode, KILLED)
        self.put("00", pipe_test.record(b"new"))
        ended = self.life("", {}, 0, -1)
        self.assertEqual(ended.returncode, pipe_test.NO_DATA, ended.stderr)
        self.assertIn("00 is not what it was", ended.stderr)


if __name__ == "__main__":
    unittest.main()
