#!/usr/bin/python3
"""Channels in mode `file`: all is there before the trainer starts, whole, and is fetched once.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH; SPOTTER_KILLS: how often a download is killed.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from between import Between  # noqa: E402
from pipe_test import (  # noqa: E402
    KILLS, NO_DATA, SPOTTER, Pipe, alive, children, eventually, noise)

FETCHED = re.compile(r"channel train: (\d+) files, (\d+) of them fetched now")
NOWHERE = "http://127.0.0.1:9"


class Files(Pipe):
    def fetch(self, options="", *command, status=0, **more):
        _, words = self.run_pipe(",mode=file" + options, *(command or ("true",)), status=status,
                                 **more)
        return words

    def fetched(self, options="", **more):
        found = FETCHED.search(self.fetch(options, **more))
        return int(found[1]), int(found[2])

    @property
    def state(self):
        return f" --state {self.scratch}/state"

    def here(self):
        top = self.folder / "train"
        return {str(path.relative_to(top)): path.read_bytes()
                for path in top.rglob("*") if path.is_file()}

    def many(self):
        sizes = (0, 1, 4096, 8 << 20, 9_000_000, 17_000_003)
        whole = {f"{i}/a +\u00fc%/{i}": noise(size, i) for i, size in enumerate(sizes)}
        for name, data in whole.items():
            self.put(name, data)
        return whole


class Layout(Files):
    def test_each_object_is_a_file_below_its_channel(self):
        whole = self.many()
        self.assertEqual(self.fetched(), (6, 6))
        self.assertEqual(self.here(), whole)
        self.assertEqual(sorted(os.listdir(self.folder)), [".spotter-train.files", "train"],
                         "nothing else is left there")

    def test_the_trainer_finds_all_of_it_when_it_starts(self):
        self.put("a/b", b"some data")
        out, _ = self.run_pipe(",mode=file", "sh", "-c",
                               'cat "$SM_CHANNEL_TRAIN/a/b"; echo "$SM_CHANNELS"')
        self.assertEqual(out, b'some data["train"]\n')

    def test_a_prefix_that_ends_inside_a_name(self):
        self.put("part-1", b"1")
        self.put("part-2/x", b"2")
        self.put("other", b"3")
        done = subprocess.run(
            [SPOTTER, "pipe", "--channel", f"train=s3://bucket/{self.prefix}/part-,mode=file",
             "--directory", self.folder, "--", "true"], env=self.environment(), timeout=600,
            capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.here(), {"part-1": b"1", "part-2/x": b"2"})

    def test_a_manifest_names_some(self):
        for name in ("data/x/a", "data/b", "data/c"):
            self.put(name, name.encode())
        self.put("m", json.dumps([{"prefix": f"s3://bucket/{self.prefix}/data/"}, "x/a", "b",
                                  "x/a"]).encode())
        _, words = self.run_pipe("m,mode=file,type=manifest", "true")
        self.assertEqual(FETCHED.search(words).groups(), ("2", "2"))
        self.assertEqual(self.here(), {"x/a": b"data/x/a", "b": b"data/b"})

    def test_a_shard_has_its_part(self):
        for i in range(5):
            self.put(str(i), b"%d" % i)
        self.fetch(",sharded --shard 1/2")
        self.assertEqual(sorted(self.here()), ["1", "3"])

    def test_beside_a_stream(self):
        self.put("a", b"abc")
        out, _ = self.run_pipe(f",mode=file --channel flow=s3://bucket/{self.prefix}/", "sh", "-c",
                               "cat $F/train/a $F/flow_0")
        self.assertEqual(out, b"abcabc")


class Several(Files):
    """Channels whose objects are one queue."""

    def two(self, other, status=0, **more):
        _, words = self.run_pipe(
            f"one/,mode=file,anonymous --channel other=s3://bucket/{self.prefix}/{other},"
            "mode=file,anonymous", "true", status=status, **more)
        return words

    def test_one_does_not_wait_for_the_other(self):
        self.put("one/a", b"of the first")
        self.put("two/b", b"of the second")
        self.fault("s3-public", "bucket=bucket", "on=true")
        asked = threading.Event()

        def say(method, path):
            if method == "GET" and path.endswith("/two/b"):
                asked.set()
            return not (method == "GET" and path.endswith("/one/a")) or asked.wait(60)
        server = Between(self.served, say)
        self.addCleanup(server.stop)
        words = self.two("two/", AWS_ENDPOINT_URL_S3=server.api)
        self.assertEqual(self.here(), {"a": b"of the first"})
        self.assertEqual((self.folder / "other/b").read_bytes(), b"of the second")
        for name in ("train", "other"):
            self.assertIn(f"channel {name}: 1 files, 1 of them fetched now", words)

    def test_trouble_names_its_channel_and_is_reported_before_anything_is_fetched(self):
        self.put("one/a", b"of the first")
        self.put("two/b", b"of the second")
        self.put("two/b,c", b"that cannot be")
        self.fault("s3-public", "bucket=bucket", "on=true")
        server = Between(self.served, lambda *_: True,
                         lambda body: body.replace(b"two/b%2Cc<", b"two/b/c<"))
        self.addCleanup(server.stop)
        words = self.two("two/", status=NO_DATA, AWS_ENDPOINT_URL_S3=server.api)
        self.assertIn(f"channel other: {self.prefix}/two/b and {self.prefix}/two/b/c cannot both "
                      "be files", words)
        self.assertEqual(self.here(), {})
        self.assertIn("channel other: there is nothing", self.two("three/", status=NO_DATA))
        self.assertEqual(self.here(), {})

    # Also RestoreStatus, which says what can be read again, is S3's own.
    def test_what_is_archived_is_named_and_what_only_sounds_like_it_is_read(self):
        self.put("a/1", b"some data")
        self.put("a/2", b"")
        self.fault("s3-public", "bucket=bucket", "on=true")

        def archived(method, path):
            refused = method == "GET" and path.endswith("/a/1")
            return (403, b"<Error><Code>InvalidObjectState</Code></Error>") if refused else True
        for pass_on, status in ((archived, NO_DATA), (lambda *_: True, 0)):
            server = Between(self.served, pass_on,
                             lambda body: body.replace(b">STANDARD<", b">GLACIER<"))
            self.addCleanup(server.stop)
            words = self.fetch(",anonymous", status=status, AWS_ENDPOINT_URL_S3=server.api)
            self.assertEqual("a/1 is archived: restore it" in words, status == NO_DATA, words)
        self.assertEqual(self.here(), {"a/1": b"some data", "a/2": b""})


class Again(Files):
    def test_what_is_there_is_not_fetched_again_and_s3_is_not_needed(self):
        whole = self.many()
        self.assertEqual(self.fetched(self.state), (6, 6))
        self.assertEqual(self.fetched(self.state, AWS_ENDPOINT_URL_S3=NOWHERE), (6, 0))
        self.assertEqual(self.here(), whole)

    def test_what_was_touched_or_removed_is(self):
        whole = self.many()
        self.fetch(self.state)
        names = sorted(whole)
        os.utime(self.folder / "train" / names[3], ns=(1, 1))
        (self.folder / "train" / names[4]).unlink()
        (self.folder / "train" / names[5]).write_bytes(b"shorter")
        self.assertEqual(self.fetched(self.state), (6, 3))
        self.assertEqual(self.here(), whole)

    def test_without_a_state_data_may_change(self):
        """What an earlier run had and S3 has no more goes; what is somebody's stays."""
        self.put("a/b/c", b"old")
        self.put("d", b"old")
        self.put("e", b"stays")
        self.put("f", b"touched")
        self.assertEqual(self.fetched(), (4, 4))
        (self.folder / "train/mine").write_bytes(b"mine")
        (self.folder / "train/f").write_bytes(b"mine now")
        shutil.rmtree(self.bucket / self.prefix / "a")
        for name in ("d", "f"):
            (self.bucket / self.prefix / name).unlink()
        self.put("a", b"a folder before")
        self.put("d/x", b"a file before")
        self.assertEqual(self.fetched(), (3, 2))
        self.assertEqual(self.here(), {"a": b"a folder before", "d/x": b"a file before",
                                       "e": b"stays", "mine": b"mine", "f": b"mine now"})
        self.assertEqual(self.fetched(), (3, 0))

    def test_data_that_has_changed_is_an_error_until_one_starts_over(self):
        self.put("a", b"old")
        self.put("b", b"stays")
        self.put("gone", b"not for long")
        self.fetch(self.state)
        (self.folder / "train/a").unlink()
        self.put("a", b"new")
        (self.bucket / self.prefix / "gone").unlink()
        # By its ETag or by the listing, whichever is seen first.
        self.assertRegex(self.fetch(self.state, status=NO_DATA),
                         "channel train: .*(the data has changed|the object was replaced)")
        (self.scratch / "state/train.listing").unlink()
        self.assertEqual(self.fetched(self.state), (2, 1))
        self.assertEqual(self.here(), {"a": b"new", "b": b"stays"})

    def test_a_download_that_is_killed_goes_on(self):
        """Also inside a large object; what has a name is whole at any moment."""
        whole = {"a": noise(20_000_000, 1), "b": noise(150_000_000, 2), "c": noise(5, 3)}
        for name, data in whole.items():
            self.put(name, data)
        self.fault("s3-slow", "rate=4000000")
        ledger = self.scratch / "state/train.files"
        lines = 0
        for _ in range(KILLS):
            process = subprocess.Popen(self.command(",mode=file" + self.state, ["true"]),
                                       env=self.environment(), stderr=subprocess.DEVNULL)
            eventually(lambda: process.poll() is not None or
                       ledger.exists() and ledger.read_bytes().count(b"\n") > lines)
            if process.poll() is not None:
                break
            planes = children(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            for plane in planes:
                try:
                    os.kill(plane, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            process.wait(30)
            self.assertTrue(eventually(lambda: not any(map(alive, planes))))
            for name, data in self.here().items():
                self.assert_same(data, whole[name])
            lines = ledger.read_bytes().count(b"\n")
        self.assertGreater(ledger.read_bytes().count(b"\n"), 0)
        self.served.command("fault", "clear")
        words = self.fetch(self.state)
        fetched = float(re.search(r"([0-9.]+) GB", words)[1])
        self.assertLess(fetched, 0.169, "of 0.170 GB, some was there")
        self.assertEqual(sorted(self.here()), sorted(whole))
        for name, data in self.here().items():
            self.assert_same(data, whole[name])

    def test_it_is_left_soon_after_it_is_asked(self):
        self.put("a", noise(150_000_000, 1))
        self.fault("s3-slow", "rate=4000000")
        process = subprocess.Popen(self.command(",mode=file" + self.state, ["true"]),
                                   env=self.environment(), stderr=subprocess.PIPE)
        partial = self.folder / ".spotter-train"
        self.assertTrue(eventually(lambda: any(
            file.stat().st_size > 0 for file in partial.glob("*"))))
        process.send_signal(signal.SIGTERM)
        _, words = process.communicate(timeout=40)
        self.assertEqual(process.returncode, NO_DATA, words)
        self.served.command("fault", "clear")
        fetched = re.search(r"([0-9.]+) GB", self.fetch(self.state))
        self.assertLess(float(fetched[1]), 0.15, "what it had was kept")


class Troubles(Files):
    def test_broken_connections_and_refusals_are_not_seen(self):
        whole = self.many()
        self.fault("s3-reset", "after=300000", "count=20")
        self.fault("s3-errors", "percent=20")
        self.fault("s3-slow-down", "percent=20")
        self.fetch()
        self.assertEqual(self.here(), whole)

    def test_what_was_spoiled_is_not_gone_on_with(self):
        data = self.upload("a", noise(9_000_000, 1))
        self.fault("s3-spoiled")
        self.assertIn("bucket/", self.fetch(self.state, status=NO_DATA))
        self.assertEqual(self.fetched(self.state), (1, 1))
        self.assertEqual(self.here(), {"a": data})

    def begin(self, name):
        """A download that is ended inside that object."""
        (self.scratch / "state/train.listing").unlink(missing_ok=True)
        process = subprocess.Popen(self.command(",mode=file" + self.state, ["true"]),
                                   env=self.environment(), stderr=subprocess.DEVNULL)
        ledger = self.scratch / "state/train.files"
        self.assertTrue(eventually(lambda: ledger.exists() and any(
            line.startswith(f'["{name}",') for line in ledger.read_text().splitlines())))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(40), NO_DATA)

    def test_the_begin_of_another_object_is_never_that_of_a_file(self):
        self.fault("s3-slow", "rate=1000000")
        self.put("a", b"small")
        self.put("c", noise(100_000_000, 1))
        self.begin("c")
        (self.bucket / self.prefix / "a").unlink()
        self.put("b1", b"small")
        self.put("b2", noise(100_000_000, 2))
        self.begin("b2")
        (self.bucket / self.prefix / "b1").unlink()
        self.served.command("fault", "clear")
        (self.scratch / "state/train.listing").unlink()
        self.fetch(self.state)
        self.assertEqual(sorted(self.here()), ["b2", "c"])
        for name, data in self.here().items():
            self.assert_same(data, (self.bucket / self.prefix / name).read_bytes())

    def failed(self, options="", *words, **more):
        mark = self.scratch / "started"
        errors = self.fetch(options, "touch", str(mark), status=NO_DATA, **more)
        self.assertFalse(mark.exists(), "the trainer was started")
        for word in ("channel train: ", *words):
            self.assertIn(word, errors)

    def test_an_object_that_is_replaced_is_an_error(self):
        self.put("a", b"x")
        self.put("b", noise(20_000_000, 1))
        self.fault("s3-replaced", "count=100", f"key=bucket/{self.prefix}/b")
        self.failed("", f"s3://bucket/{self.prefix}/b: the object was replaced")

    def test_what_is_not_there_is_said_with_channel_and_key(self):
        self.failed("", "there is nothing at s3://bucket/")
        self.put("a", b"x")
        self.failed("", "permission is denied", AWS_SECRET_ACCESS_KEY="wrong")
        self.put("..%2f/b", b"fine, however it looks")
        self.put("c", b"x")
        os.makedirs(self.folder / "train/c")
        (self.folder / "train/c/d").write_bytes(b"in its way")
        self.failed("", f"s3://bucket/{self.prefix}/c: ", "train/c")

    def test_what_cannot_be_gone_on_with_takes_no_room(self):
        self.put("a", noise(20_000_000, 1))
        partials = self.folder / ".spotter-train"
        partials.mkdir(parents=True)
        (partials / "of an older listing").write_bytes(bytes(1000))
        self.fault("s3-replaced", "count=100", f"key=bucket/{self.prefix}/a")
        self.failed("", "the object was replaced")
        self.assertFalse((partials / "of an older listing").exists())

    def test_no_room_is_said_before_anything_is_fetched(self):
        path = self.bucket / self.prefix / "huge"
        path.parent.mkdir(parents=True)
        with open(path, "wb") as file:
            file.truncate(min(shutil.disk_usage(self.scratch).free * 2, 15 << 40))
        self.failed("", "has room for")

    def test_a_full_disk_names_the_key(self):
        """The room goes away while it is fetched: a limit on a file's size does that here."""
        self.put("a", noise(20_000_000, 1))
        done = subprocess.run(
            ["sh", "-c", 'trap "" XFSZ; ulimit -f 4096; exec "$@"', "sh",
             *self.command(",mode=file", ["true"])],
            env=self.environment(), capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, NO_DATA, done.stderr)
        self.assertIn(f"channel train: s3://bucket/{self.prefix}/a: ", done.stderr)
        self.assertIn("File too large", done.stderr)


if __name__ == "__main__":
    unittest.main()
