#!/usr/bin/python3
"""The Python API of channels, on plain files: records, positions in checkpoints, PyTorch's loader.

Environment: SPOTTER_LIBRARY.
"""

import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "trainer/library/python"
sys.path[:0] = [str(ROOT / "tests/data"), str(PYTHON)]
import spotter  # noqa: E402
from recordio import record  # noqa: E402

try:
    import torch
    import spotter.data
except ImportError:
    torch = None


class Api(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="spotter-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.checkpoints = self.folder / "checkpoints"

    def epoch(self, number, records, framing=record):
        (self.folder / f"train_{number}").write_bytes(b"".join(map(framing, records)))
        return records

    def numbered(self, epochs, count):
        return [self.epoch(i, [b"%d.%d" % (i, k) for k in range(count)]) for i in range(epochs)]

    def channel(self, **options):
        channel = spotter.Channel("train", folder=self.folder, **options)
        self.addCleanup(channel.close)
        return channel

    def open(self):
        run = spotter.open(self.checkpoints, every=0)
        self.addCleanup(run.close)
        return run


class Channels(Api):
    def test_each_iteration_is_an_epoch(self):
        epochs = self.numbered(3, 100)
        channel = self.channel()
        self.assertEqual([list(channel) for _ in range(3)], epochs)
        self.assertEqual(channel.position, (3, 0, 0))

    def test_one_that_was_left_goes_on(self):
        epochs = self.numbered(2, 10)
        channel = self.channel()
        for each in channel:
            if each == b"0.3":
                break
        self.assertEqual(channel.position, (0, 4 * 12, 4))
        self.assertEqual(list(channel), epochs[0][4:])
        self.assertEqual(list(channel), epochs[1])

    def test_the_formats(self):
        self.epoch(0, [b"a", b"", b"b c"], lambda line: line + b"\n")
        self.assertEqual(list(self.channel(lines=True)), [b"a", b"", b"b c"])
        self.epoch(0, [b"\0ab", b"cde"], bytes)
        self.assertEqual(list(self.channel(record_bytes=3)), [b"\0ab", b"cde"])
        with self.assertRaises(ValueError):
            self.channel(record_bytes=3, lines=True)
        with self.assertRaisesRegex(spotter.SpotterError, "fixed size"):
            self.channel(record_bytes=0)

    def test_a_record_that_is_cut_off_is_an_error_and_no_end(self):
        (self.folder / "train_0").write_bytes(record(b"whole") + record(b"cut off")[:-1])
        channel, got = self.channel(), []
        with self.assertRaisesRegex(spotter.SpotterError, "the last record is cut off"):
            got.extend(channel)
        with self.assertRaises(spotter.SpotterError):
            got.extend(channel)
        self.assertEqual(self.channel().__iter__().__next__(), b"whole")

    def test_a_closed_one_says_so(self):
        self.numbered(1, 3)
        channel = self.channel()
        channel.close()
        with self.assertRaisesRegex(spotter.SpotterError, "closed"):
            next(iter(channel))


class OfARun(Api):
    def life(self, records, more=None):
        """Reads so many records, saves, and reads some more; all that it got."""
        with self.open() as run:
            old = run.restore()
            self.assertEqual(old.meta["mine"] if old else 1, 1)
            channel = run.channel("train", folder=self.folder)
            got = []
            while len(got) < records:
                for each in channel:
                    got.append(each)
                    if len(got) == records:
                        break
            run.save(old.step + 1 if old else 1, meta={"mine": 1}, value=len(got))
            for _ in range(more or 0):  # they do not count
                next(iter(channel))
            channel.close()
            return got

    def test_the_next_life_goes_on_behind_the_last_saved_record(self):
        epochs = self.numbered(4, 10)
        got = []
        for count, more in ((3, 2), (7, 0), (12, 5), (1, 1), (17, 0)):
            got += self.life(count, more)
        self.assertEqual(got, sum(epochs, []))

    def test_the_position_is_that_of_the_checkpoint_that_is_restored(self):
        epochs = self.numbered(1, 10)
        self.life(3)
        self.life(2)
        (self.checkpoints / "step-000000000002/value.pickle").write_bytes(b"torn")
        self.assertEqual(self.life(4), epochs[0][3:7])

    def test_meta_given_back_is_no_stale_position(self):
        epochs = self.numbered(1, 10)
        self.life(3)
        with self.open() as run:
            old = run.restore()
            self.assertEqual(old.meta["spotter_channels"]["train"],
                             {"epoch": 0, "bytes": 36, "records": 3})
            channel = run.channel("train", folder=self.folder)
            next(iter(channel))
            channel.close()
            run.save(9, meta=old.meta | {"mine": 2}, value=1)
        with self.open() as run:
            self.assertEqual(run.restore().meta, {"mine": 2, "spotter_channels": {
                "train": {"epoch": 0, "bytes": 48, "records": 4}}})
            self.assertEqual(list(run.channel("train", folder=self.folder)), epochs[0][4:])

    def test_one_that_is_not_open_stays_where_it_was(self):
        """Two of them, one after the other, and a save wherever one may be."""
        for i in range(3):
            for name in ("train", "test"):
                (self.folder / f"{name}_{i}").write_bytes(
                    b"".join(record(b"%s %d.%d" % (name.encode(), i, k)) for k in range(4)))
        expected = [b"%s %d.%d" % (name, i, k)
                    for i in range(3) for name in (b"train", b"test") for k in range(4)]

        def life(until):
            """Reads as far as that, saving behind each record, and forgets to save the last one."""
            with self.open() as run:
                old = run.restore()
                got = old["got"] if old else []
                while len(got) < len(expected):
                    name = ("train", "test")[len(got) // 4 % 2]
                    channel = run.channel(name, folder=self.folder)
                    for each in channel:
                        got.append(each)
                        if len(got) == until:
                            channel.close()
                            return got
                        run.save(len(got), got=got)
                    channel.close()
                    run.save(len(got), got=got)
                return got
        for until in range(2, len(expected), 3):
            self.assertEqual(life(until), expected[:until])
        self.assertEqual(life(-1), expected)

    def test_one_that_is_opened_again_goes_on(self):
        epochs = self.numbered(2, 3)
        with self.open() as run:
            run.restore()
            for count, expected in ((1, epochs[0][:1]), (9, epochs[0][1:]), (9, epochs[1])):
                channel = run.channel("train", folder=self.folder)
                self.assertEqual([each for _, each in zip(range(count), channel)], expected)
                channel.close()

    def test_it_is_opened_once_and_after_the_restore(self):
        self.numbered(1, 1)
        with self.open() as run:
            with self.assertRaisesRegex(spotter.SpotterError, "after spotter_restore"):
                run.channel("train", folder=self.folder)
            run.restore()
            channel = run.channel("train", folder=self.folder)
            with self.assertRaisesRegex(spotter.SpotterError, "open already"):
                run.channel("train", folder=self.folder)
            channel.close()
            run.channel("train", folder=self.folder).close()
            late = run.channel("train", folder=self.folder)
        late.close()  # after its run

    def test_another_process_gets_one_that_goes_on(self):
        epochs = self.numbered(1, 10)
        with self.open() as run:
            run.restore()
            channel = run.channel("train", folder=self.folder)
            self.assertEqual(next(iter(channel)), b"0.0")
            copy = pickle.loads(pickle.dumps(channel))
            self.assertEqual(list(copy), epochs[0][1:])
            self.assertEqual(channel.position[2], 1)
            copy.close()


class Waits(Api):
    """A stream in which nothing comes."""

    PROGRAM = """
        import signal, sys
        import spotter
        folder, mode, workers = sys.argv[1], sys.argv[2], int(sys.argv[3])
        if mode == "handler":
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        run = spotter.open(folder + "/checkpoints", every=0)
        run.restore()
        channel = run.channel("train", folder=folder)
        batches = channel
        if workers:
            import spotter.data
            batches = spotter.data.DataLoader(spotter.data.Records(channel), batch_size=None,
                                              num_workers=workers)
        try:
            for each in batches:
                print(each, flush=True)
        except spotter.Stopped:
            if mode == "saves":
                run.save(1, value=channel.position)
            raise
        """

    def signalled(self, mode, number, workers=0):
        """The exit status of one that gets that signal while it waits."""
        os.mkfifo(self.folder / "train_0")
        self.addCleanup(os.remove, self.folder / "train_0")
        writer = os.open(self.folder / "train_0", os.O_RDWR)
        self.addCleanup(os.close, writer)
        os.write(writer, record(b"one"))
        waiting = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(self.PROGRAM), self.folder, mode, str(workers)],
            env=dict(os.environ, PYTHONPATH=str(PYTHON)), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)
        self.addCleanup(waiting.stdout.close)
        self.addCleanup(waiting.stderr.close)
        self.addCleanup(waiting.wait)
        self.addCleanup(waiting.kill)
        self.assertEqual(waiting.stdout.readline(), b"b'one'\n")
        waiting.send_signal(number)
        _, errors = waiting.communicate(timeout=600)
        self.errors = errors.decode()
        return waiting.returncode

    def test_pythons_own_handlers_run(self):
        self.assertEqual(self.signalled("handler", signal.SIGTERM), 7, self.errors)

    def test_an_interrupt_ends_it(self):
        self.assertEqual(self.signalled("plain", signal.SIGINT), -signal.SIGINT, self.errors)

    def test_a_run_that_has_to_stop_does_not_wait(self):
        self.assertEqual(self.signalled("plain", signal.SIGTERM), spotter.STOPPED, self.errors)
        self.assertFalse(list(self.checkpoints.glob("step-*")))

    def test_who_catches_that_may_save(self):
        self.assertEqual(self.signalled("saves", signal.SIGTERM), spotter.STOPPED, self.errors)
        with self.open() as run:
            self.assertEqual(run.restore()["value"], (0, 12, 1))

    @unittest.skipUnless(torch, "without PyTorch")
    def test_nor_does_it_wait_for_a_worker(self):
        self.assertEqual(self.signalled("plain", signal.SIGTERM, 1), spotter.STOPPED, self.errors)


@unittest.skipUnless(torch, "without PyTorch")
class Loaders(Api):
    def loader(self, channel, workers, **options):
        records = spotter.data.Records(channel, lambda each: int(each.split(b".")[1]))
        return spotter.data.DataLoader(records, num_workers=workers, **options)

    def test_the_batches_are_the_records_however_many_workers(self):
        self.numbered(2, 25)
        for workers in (0, 1, 2):
            loader = self.loader(self.channel(), workers, batch_size=10)
            for _ in range(2):
                self.assertEqual([each.tolist() for each in loader],
                                 [list(range(10)), list(range(10, 20)), list(range(20, 25))])

    def test_without_batches(self):
        self.numbered(1, 5)
        for workers in (0, 1):
            loader = self.loader(self.channel(), workers, batch_size=None)
            self.assertEqual(list(loader), [0, 1, 2, 3, 4])

    def life(self, workers, got):
        """Ends after a save, or when all is read."""
        with spotter.open(self.folder / f"of-{workers}", every=0) as run:
            run.restore()
            channel = run.channel("train", folder=self.folder)
            loader = self.loader(channel, workers, batch_size=4)
            for _ in range(channel.epoch, 2):
                for batch in loader:
                    got += batch.tolist()
                    if len(got) % 25 in (8, 16, 0):
                        run.save(len(got), n=len(got))
                        channel.close()
                        return

    def test_what_a_worker_has_read_ahead_does_not_count(self):
        self.numbered(2, 25)
        for workers in (0, 1):
            got = []
            for _ in range(7):
                self.life(workers, got)
            self.assertEqual(got, [*range(25)] * 2, f"{workers} workers")

    def test_one_that_was_left_goes_on_behind_what_was_consumed(self):
        self.numbered(1, 25)
        for workers in (0, 1):
            channel = self.channel()
            loader = self.loader(channel, workers, batch_size=4)
            first = next(iter(loader)).tolist()
            self.assertEqual(sum((each.tolist() for each in loader), first), [*range(25)])
            self.assertEqual(channel.epoch, 1)

    def test_pytorchs_own_with_workers_is_refused(self):
        self.numbered(1, 5)
        records = spotter.data.Records(self.channel())
        self.assertEqual(len(list(torch.utils.data.DataLoader(records, batch_size=2))), 3)
        with self.assertRaisesRegex(spotter.SpotterError, "spotter.data.DataLoader"):
            list(torch.utils.data.DataLoader(records, batch_size=2, num_workers=1))
        with self.assertRaisesRegex(spotter.SpotterError, "persistent_workers"):
            spotter.data.DataLoader(records, num_workers=1, persistent_workers=True)

    def test_a_workers_error_arrives(self):
        (self.folder / "train_0").write_bytes(record(b"1.1") + b"no record")
        with self.assertRaisesRegex(spotter.SpotterError, "no RecordIO record begins here"):
            list(self.loader(self.channel(), 1, batch_size=1))


if __name__ == "__main__":
    unittest.main()
