#!/usr/bin/python3
"""`spotter pipe` that begins in the middle: as its caller says, or as its trainer asks.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH.
"""

import gzip
import hashlib
import os
import unittest

import pipe_test
from pipe_test import NO_DATA, noise, record


class Begins(pipe_test.Pipe):
    def test_it_begins_in_the_middle(self):
        parts = self.some((5000, 9_000_000, 0, 17_000_003, 1))
        whole = b"".join(parts)
        records = b"".join(map(record, parts))
        for at in (0, 1, 5000, 9_004_999, 9_005_000, len(whole) - 1, len(whole)):
            self.assert_same(self.epochs(f" --start train=3:{at}", 3)[0], whole[at:])
            self.assert_same(self.epochs(f",recordio --start train=0:{at}", 0)[0], records[at:])
        shuffled = self.epochs(",shuffle=5", 0, 1)[1]
        begun, after = self.epochs(",shuffle=5 --start train=1:9000000", 1, 2)
        self.assert_same(begun, shuffled[9_000_000:])
        self.assertEqual(len(after), len(whole))

    def test_gzip_begins_in_the_middle_too(self):
        parts = [noise(1_000_000, i) for i in range(4)]
        for i, part in enumerate(parts):
            self.put(str(i), gzip.compress(part, 1))
        whole = b"".join(parts)
        self.assert_same(self.epochs(",gzip --start train=0:2500000", 0)[0], whole[2_500_000:])

    def test_gzip_objects_that_were_unpacked_before_are_not_fetched_again(self):
        parts = [noise(300_000 + i, i) for i in range(6)]
        for framing, options in ((bytes, ",gzip"), (record, ",gzip,recordio")):
            for i, part in enumerate(parts):
                self.put(str(i), gzip.compress(part, 1))
            whole = b"".join(map(framing, parts))
            state = f" --state {self.scratch}/state{options}"
            self.assert_same(self.epochs(options + state, 0)[0], whole)
            at = len(framing(parts[0])) + len(framing(parts[1])) + 100
            start = f"{options}{state} --start train=0:{at}"
            self.assert_same(self.epochs(start, 0)[0], whole[at:])
            # That they are passed over is seen where they seem to be longer, by 8 bytes.
            lengths = self.scratch / f"state{options}/train.unpacked"
            lengths.write_text(lengths.read_text().replace(",300000,", ",300008,", 1))
            self.assert_same(self.epochs(start, 0)[0], whole[at - 8:])
            # Half a line of a lost machine is none.
            lengths.write_text("half a line 3" + lengths.read_text().replace(",300008,", ",3000"))
            self.assert_same(self.epochs(start, 0)[0], whole[at:])

    def test_no_epoch_is_so_long(self):
        for options, store in (("", bytes), (",recordio", bytes), (",gzip", gzip.compress)):
            self.put("x", store(b"12345"))
            _, words = self.run_pipe(f"{options} --start train=0:100", "sleep", "30",
                                     status=NO_DATA)
            self.assertIn("bytes behind the end of train_0", words)

    # What libspotter's readers do when they go on from a checkpoint.
    ASK = """
import hashlib, time
def ask(text):
    with open(F + "/.start/.mine", "w") as file: file.write(text)
    os.rename(F + "/.start/.mine", F + "/.start/train")
    while os.path.exists(F + "/.start/train"): time.sleep(0.002)
def read(epoch):
    with open(f"{F}/train_{epoch}", "rb") as fifo: print(hashlib.sha256(fifo.read()).hexdigest())
"""

    def test_a_trainer_asks_for_another_begin(self):
        self.some((5000, 9_000_000, 0, 17_000_003, 1))
        epochs = self.epochs(",shuffle=5", *range(5))
        expected = [epochs[3][9_000_000:], epochs[4], epochs[0][7:], epochs[1], epochs[1]]
        out = self.python(self.ASK + """
ask("3:9000000\\n"); read(3); read(4)
ask("0:7\\n")
ask("0:7\\n"); read(0); read(1)
ask("0:0\\n")
ask("1:0\\n"); read(1)
""", ",shuffle=5")
        self.assertEqual(out.decode().split(),
                         [hashlib.sha256(each).hexdigest() for each in expected])
        self.assertEqual(os.listdir(self.folder), [])

    def test_a_begin_waits_until_nobody_reads(self):
        whole = b"".join(self.some())
        out = self.python(self.ASK + """
import threading
fifo = open(F + "/train_0", "rb", buffering=0)
fifo.read(1)
asking = threading.Thread(target=ask, args=("0:5\\n",))
asking.start()
while not os.path.exists(F + "/.start/train"): time.sleep(0.002)
got = b"".join(iter(lambda: fifo.read(1 << 20), b""))
print(hashlib.sha256(got).hexdigest())
fifo.close()
asking.join()
read(0)
""")
        self.assertEqual(out.decode().split(), [hashlib.sha256(each).hexdigest()
                                                for each in (whole[1:], whole[5:])])

    def test_what_is_asked_has_to_be_a_position(self):
        self.some((10,))
        _, words = self.run_pipe("", "sh", "-c", "echo nonsense >$F/.start/train; sleep 30",
                                 status=NO_DATA)
        self.assertIn("/.start/train is not EPOCH:BYTES", words)


if __name__ == "__main__":
    unittest.main()
