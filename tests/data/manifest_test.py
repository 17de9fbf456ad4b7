#!/usr/bin/python3
"""Channels that a manifest describes, and how what is shuffled is shared out.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH.
"""

import json
import pathlib
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from between import Between  # noqa: E402
from pipe_test import NO_DATA, Pipe, noise, record  # noqa: E402

AUGMENTED = "m.jsonl,type=augmented,attributes=image-ref:label"


class Manifests(Pipe):
    def setUp(self):
        super().setUp()
        self.other = self.bucket.parent / "other"

    def images(self, count=6):
        """Objects, in two buckets, and the manifest's lines that name them."""
        lines, pairs = [], []
        for i in range(count):
            size = (0, 5, 4096, 9_000_000, 17)[i % 5]
            data = noise(size, i)
            bucket = "other" if i % 2 else "bucket"
            path = self.bucket.parent / bucket / self.prefix / f"images/{i}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            lines.append(json.dumps({"image-ref": f"s3://{bucket}/{self.prefix}/images/{i}.jpg",
                                     "label": i, "unused": {"x": [1]}}))
            pairs.append((data, str(i).encode()))
        return lines, pairs

    def manifest(self, lines):
        self.put("m.jsonl", "\n".join(lines).encode() + b"\n")

    def fails(self, options):
        _, words = self.run_pipe(options, "sh", "-c", "cat $F/train_0; sleep 30", status=NO_DATA)
        self.assertIn("channel train: ", words)
        return words


class Augmented(Manifests):
    def test_its_attributes_alternate_as_records(self):
        lines, pairs = self.images()
        self.manifest(lines)
        whole = b"".join(record(each) for pair in pairs for each in pair)
        for epoch in self.epochs(AUGMENTED + ",recordio", 0, 1):
            self.assert_same(epoch, whole)

    def test_a_large_object_may_stand_in_several_lines(self):
        """Each time its checksum is asked for, and compared."""
        data = self.upload("image", noise(9_000_000, 1))
        line = json.dumps({"image-ref": f"s3://bucket/{self.prefix}/image", "label": 1})
        self.manifest([line] * 5)
        for epoch in self.epochs(AUGMENTED, 0, 1):
            self.assert_same(epoch, (data + b"1") * 5)

    def test_without_a_wrapper_they_follow_one_another(self):
        lines, pairs = self.images()
        self.manifest(lines)
        self.assert_same(self.epochs(AUGMENTED, 0)[0], b"".join(map(b"".join, pairs)))

    def test_lines_are_shuffled_whole_and_shared_out(self):
        lines = [json.dumps({"a": f"{i:03}", "b": f"<{i:03}>"}) for i in range(60)]
        self.manifest(lines)
        options = "m.jsonl,type=augmented,attributes=a:b,shuffle=3"
        first, second = self.epochs(options, 0, 1)
        expected = sorted(f"{i:03}<{i:03}>".encode() for i in range(60))

        def cut(stream):
            return [stream[at:at + 8] for at in range(0, len(stream), 8)]
        self.assertEqual(sorted(cut(first)), expected)
        self.assertEqual(sorted(cut(second)), expected)
        self.assertNotEqual(first, second)
        self.assertNotEqual(cut(first), expected)
        shards = [self.epochs(f"{options},sharded --shard {i}/4", 0, 1) for i in range(4)]
        for epoch in (0, 1):
            self.assertEqual(sorted(sum((cut(shard[epoch]) for shard in shards), [])), expected)
        self.assertNotEqual(sorted(cut(shards[0][0])), sorted(cut(shards[0][1])),
                            "an instance sees another part in the next epoch")

    def test_one_that_is_longer_than_an_answer(self):
        lines = [json.dumps({"v": f"{i:05}" + "x" * 1000}) for i in range(20_000)]
        self.manifest(lines)
        whole = b"".join(record(f"{i:05}".encode() + b"x" * 1000) for i in range(20_000))
        self.assert_same(
            self.epochs("m.jsonl,type=augmented,attributes=v,recordio", 0)[0], whole)

    def test_it_begins_in_the_middle(self):
        lines, pairs = self.images()
        self.manifest(lines)
        for wrapped in (False, True):
            each = [one for pair in pairs for one in pair]
            whole = b"".join(map(record, each) if wrapped else each)
            for at in (0, 3, 8, 5000, 9_004_110, len(whole) - 1, len(whole)):
                got = self.epochs(AUGMENTED + (",recordio" if wrapped else "") +
                                  f" --start train=1:{at}", 1)[0]
                self.assert_same(got, whole[at:])

    def test_what_was_listed_stays_so(self):
        lines, pairs = self.images()
        self.manifest(lines)
        options = f"{AUGMENTED} --state {self.scratch}/state"
        whole = b"".join(map(b"".join, pairs))
        for _ in range(2):
            self.assert_same(self.epochs(options, 0)[0], whole)
        self.manifest([lines[0].replace('"label": 0', '"label": 9'), *lines[1:]])
        self.assertIn("the data has changed", self.fails(options))

    def test_a_bad_line_is_named(self):
        lines, _ = self.images()
        for bad, why in (("{", ""), ('{"label": 1}', "there is no attribute 'image-ref'"),
                         ('{"image-ref": "x", "label": 1}', "'image-ref' names no object")):
            self.manifest([*lines[:2], "", bad, *lines[2:]])
            words = self.fails(AUGMENTED)
            self.assertIn(f"s3://bucket/{self.prefix}/m.jsonl: line 4: ", words)
            self.assertIn(why, words)

    def test_an_object_that_is_not_there_is_named(self):
        lines, _ = self.images()
        self.manifest(lines)
        (self.other / self.prefix / "images/1.jpg").unlink()
        self.assertIn(f"s3://other/{self.prefix}/images/1.jpg: there is no such object",
                      self.fails(AUGMENTED))


class Plain(Manifests):
    def test_one_of_another_bucket(self):
        lines, pairs = self.images()
        self.put("m", json.dumps([{"prefix": f"s3://other/{self.prefix}/"}, "images/3.jpg",
                                  "images/1.jpg"]).encode())
        self.assert_same(self.epochs("m,type=manifest", 0)[0], pairs[3][0] + pairs[1][0])
        self.run_pipe("m,type=manifest,mode=file", "true")
        self.assert_same((self.folder / "train/images/3.jpg").read_bytes(), pairs[3][0])

    def test_a_shuffled_prefix_is_shared_out_again_each_epoch(self):
        for i in range(40):
            self.put(f"{i:02}", b"%02d" % i)

        def cut(stream):
            return {stream[at:at + 2] for at in range(0, len(stream), 2)}
        shards = [self.epochs(f",shuffle=1,sharded --shard {i}/2", 0, 1) for i in range(2)]
        for epoch in (0, 1):
            one, other = cut(shards[0][epoch]), cut(shards[1][epoch])
            self.assertEqual((len(one), len(other), len(one | other)), (20, 20, 40))
        self.assertNotEqual(cut(shards[0][0]), cut(shards[0][1]))


class Many(Manifests):
    """What an epoch begins with is read while S3 has not said yet what the rest is."""

    COUNT, FIRST = 400, 20

    def setUp(self):
        super().setUp()
        for i in range(self.COUNT):
            self.put(f"{i:03}", b"%03d" % i)
        self.put("m", json.dumps([{"prefix": f"s3://bucket/{self.prefix}/"},
                                  *(f"{i:03}" for i in range(self.COUNT))]).encode())
        self.put("other/x", b"of another channel")
        self.fault("s3-public", "bucket=bucket", "on=true")

    def begins(self, options, epoch, expected):
        """What comes first, and the other channel, are fetched when few of the rest were asked
        for."""
        awaited = {expected[at:at + 3].decode() for at in range(0, len(expected), 3)} | {"x"}
        first, lock, others, before = set(awaited), threading.Lock(), set(), []

        def count(method, path):
            name = path.rsplit("/", 1)[1]
            with lock:
                if method == "HEAD" and name.isdigit() and name not in first:
                    others.add(name)
                elif method == "GET" and name in awaited:
                    awaited.remove(name)
                    before.append(len(others))
            return True
        server = Between(self.served, count)
        self.addCleanup(server.stop)
        out, _ = self.run_pipe(
            f"m,type=manifest,anonymous{options} --channel other=s3://bucket/{self.prefix}/other/,"
            "anonymous", "sh", "-c",
            f"cat $F/other_0; head -c {len(expected)} $F/train_{epoch}",
            AWS_ENDPOINT_URL_S3=server.api)
        self.assertEqual(out, b"of another channel" + expected)
        self.assertFalse(awaited)
        self.assertLess(before[-1], self.COUNT / 2)

    def test_in_their_order(self):
        self.begins("", 0, b"".join(b"%03d" % i for i in range(self.FIRST)))

    def test_shuffled(self):
        for epoch, options in ((0, ""), (3, " --start train=3:0")):
            whole = self.epochs(f"m,type=manifest,shuffle=5{options}", epoch)[0]
            self.begins(f",shuffle=5{options}", epoch, whole[:3 * self.FIRST])

    def test_a_part_of_them(self):
        self.begins(",sharded --shard 1/8", 0, b"".join(b"%03d" % i for i in range(
            1, 8 * self.FIRST, 8)))


if __name__ == "__main__":
    unittest.main()
