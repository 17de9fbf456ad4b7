#!/usr/bin/python3
"""`spotter pipe` against the emulator's S3: what a reader of the FIFOs sees, and never sees.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH; SPOTTER_KILLS: how often each process is killed.
"""

import base64
import gzip
import hashlib
import http.server
import json
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import zlib

import boto3

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/emulator/clients"))
from recordio import record  # noqa: E402
from served import Served, eventually  # noqa: E402

SPOTTER = os.environ.get("SPOTTER_PATH", str(ROOT / "build/release/bin/spotter"))
KILLS = int(os.environ.get("SPOTTER_KILLS", "8"))
NO_DATA = 74

# Reads an epoch to its end; a short one is what must never be seen.
READER = """
import os, sys
folder, size, mark = sys.argv[1], int(sys.argv[2]), sys.argv[3]
for epoch in range(10**6):
    got = 0
    with open(f"{folder}/train_{epoch}", "rb", buffering=0) as fifo:
        while block := fifo.read(1 << 16):
            got += len(block)
            open(mark + ".begun", "a").close()
    if got != size:
        open(mark + ".short", "w").write(f"{epoch}: {got}")
"""


def noise(size, seed):
    return random.Random(seed).randbytes(size)


def children(pid):
    try:
        return [int(each) for each in
                pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


class Pipe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.addClassCleanup(cls.served.stop)
        cls.bucket = pathlib.Path(cls.served.folder) / "s3/bucket"
        cls.bucket.mkdir(parents=True)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="spotter-pipe-")
        self.addCleanup(scratch.cleanup)
        self.scratch = pathlib.Path(scratch.name)
        self.folder = self.scratch / "data"
        self.prefix = self.id().rsplit(".", 1)[1]

    def put(self, name, data):
        path = self.bucket / self.prefix / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return data

    def upload(self, name, data):
        """As clients do today: with a checksum, which S3 keeps."""
        crc = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()
        environment = self.environment()
        file = self.scratch / "upload"
        file.write_bytes(data)
        subprocess.run(
            ["curl", "-sSf", "--aws-sigv4", "aws:amz:us-west-2:s3", "--user",
             f"{environment['AWS_ACCESS_KEY_ID']}:{environment['AWS_SECRET_ACCESS_KEY']}",
             "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD", "-H", f"x-amz-checksum-crc32: {crc}",
             "-T", str(file), f"{self.served.api}/bucket/{self.prefix}/{name}"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=600)
        return data

    def upload_parts(self, name, parts):
        """With a checksum of the parts' checksums, as SHA-256 has them."""
        environment = self.environment()
        client = boto3.client(
            "s3", endpoint_url=self.served.api, region_name="us-west-2",
            aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"])
        where = {"Bucket": "bucket", "Key": f"{self.prefix}/{name}"}
        upload = client.create_multipart_upload(**where, ChecksumAlgorithm="SHA256")["UploadId"]
        done = []
        for number, part in enumerate(parts, 1):
            sum_ = base64.b64encode(hashlib.sha256(part).digest()).decode()
            answer = client.upload_part(**where, UploadId=upload, PartNumber=number, Body=part,
                                        ChecksumSHA256=sum_)
            done.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumSHA256": sum_})
        client.complete_multipart_upload(**where, UploadId=upload, MultipartUpload={"Parts": done})
        client.close()

    def some(self, sizes=(0, 1, 4096, 100_000, 9_000_000, 17_000_003)):
        return [self.put(f"{i:02} +\u00fc", noise(size, i)) for i, size in enumerate(sizes)]

    def fault(self, *words):
        self.assertEqual(self.served.command("fault", *words).returncode, 0, words)
        self.addCleanup(self.served.command, "fault", "clear")

    def environment(self, **more):
        return {"PATH": os.environ["PATH"], "HOME": str(self.scratch),
                "AWS_ENDPOINT_URL_S3": self.served.api, "AWS_REGION": "us-west-2",
                **self.served.environment, "F": str(self.folder), **more}

    def command(self, options, command, channel="train"):
        source = f"{channel}=s3://bucket/{self.prefix}/"
        return [SPOTTER, "pipe", "--channel", source + options.split(" ")[0], "--directory",
                str(self.folder), *options.split(" ")[1:], "--", *command]

    def run_pipe(self, options, *command, status=0, **more):
        done = subprocess.run(self.command(options, command), env=self.environment(**more),
                              capture_output=True, timeout=600, check=False)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        return done.stdout, done.stderr.decode()

    def epochs(self, options, *numbers):
        out, _ = self.run_pipe(options, "sh", "-c", " ".join(
            f"cat $F/train_{n} >{self.scratch}/out_{n};" for n in numbers))
        self.assertEqual(out, b"")
        return [(self.scratch / f"out_{n}").read_bytes() for n in numbers]

    def python(self, text, options=""):
        return self.run_pipe(options, sys.executable, "-c", "import os, sys\nF = os.environ['F']\n"
                             + text)[0]

    def assert_same(self, one, other):
        self.assertEqual(len(one), len(other))
        self.assertEqual(hashlib.sha256(one).digest(), hashlib.sha256(other).digest())


class Streams(Pipe):
    def test_every_epoch_is_the_objects_in_the_order_of_their_keys(self):
        whole = b"".join(self.some())
        for options in ("", " --copy"):
            for epoch in self.epochs(options, 0, 1, 2):
                self.assert_same(epoch, whole)

    def test_as_records(self):
        whole = b"".join(map(record, self.some()))
        for epoch in self.epochs(",recordio", 0, 1):
            self.assert_same(epoch, whole)

    def test_gzip_is_unpacked_also_of_several_members(self):
        parts = [noise(3_000_000, 1), b"", b"x" * 20_000_000, noise(10, 2)]
        for i, part in enumerate(parts):
            half = len(part) // 2
            self.put(str(i), gzip.compress(part[:half]) + gzip.compress(part[half:]))
        self.assert_same(self.epochs(",gzip", 0)[0], b"".join(parts))
        self.assert_same(self.epochs(",gzip,recordio", 0)[0], b"".join(map(record, parts)))

    def test_a_shuffle_is_another_each_epoch_and_the_same_each_time(self):
        parts = [self.put(f"{i:03}", b"%03d," % i) for i in range(100)]
        first, second = self.epochs(",shuffle=7", 0, 1)
        self.assertEqual(sorted(first.split(b",")), sorted(b"".join(parts).split(b",")))
        self.assertEqual(sorted(second), sorted(first))
        self.assertNotEqual(first, b"".join(parts))
        self.assertNotEqual(first, second)
        self.assertEqual(self.epochs(",shuffle=7", 0, 1), [first, second])
        self.assertNotEqual(self.epochs(",shuffle=8", 0)[0], first)

    def test_the_shards_are_all_and_share_nothing(self):
        for i in range(10):
            self.put(f"{i}", b"%d" % i)
        shards = [self.epochs(f",sharded --shard {i}/3", 0)[0] for i in range(3)]
        self.assertEqual(shards, [b"0369", b"147", b"258"])

    def test_a_manifest_has_its_own_order(self):
        self.put("b", b"bbb")
        self.put("a a", b"aa")
        self.put("list/m", json.dumps([{"prefix": f"s3://bucket/{self.prefix}/"}, "b", "a a",
                                       "b"]).encode())
        self.assertEqual(self.epochs("list/m,type=manifest", 0), [b"bbbaabbb"])

    def test_a_thousand_and_more_objects(self):
        parts = [self.put(f"{i:05}", b"%05d" % i) for i in range(2500)]
        self.assertEqual(self.epochs("", 0, 1), [b"".join(parts)] * 2)

    def test_several_channels_one_of_them_never_read(self):
        whole = b"".join(self.some())
        out, _ = self.run_pipe(f" --channel other=s3://bucket/{self.prefix}/ --budget 64", "sh",
                               "-c", "cat $F/train_0 $F/train_1 | sha256sum")
        self.assertEqual(out.split()[0].decode(), hashlib.sha256(whole * 2).hexdigest())

    def test_sage_makers_document(self):
        whole = b"".join(map(record, self.some()))
        config = self.scratch / "config.json"
        config.write_text(json.dumps([{
            "ChannelName": "train", "RecordWrapperType": "RecordIO", "InputMode": "Pipe",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix",
                                            "S3Uri": f"s3://bucket/{self.prefix}/"}}}]))
        done = subprocess.run([SPOTTER, "pipe", "--input-data-config", config, "--directory",
                               self.folder, "--", "sha256sum", self.folder / "train_0"],
                              env=self.environment(), capture_output=True, timeout=600, check=True)
        self.assertEqual(done.stdout.split()[0].decode(), hashlib.sha256(whole).hexdigest())


class Readers(Pipe):
    def test_one_that_closes_early_goes_on_where_it_was(self):
        whole = b"".join(self.some())
        out = self.python("""
import hashlib
with open(F + "/train_0", "rb", buffering=0) as fifo: got = fifo.read(1000)
with open(F + "/train_0", "rb") as fifo: got += fifo.read()
print(hashlib.sha256(got).hexdigest())
""")
        self.assertEqual(out.decode().strip(), hashlib.sha256(whole).hexdigest())

    def test_one_that_wants_the_next_epoch_gets_it_from_its_begin(self):
        whole = b"".join(self.some())
        for options in ("", ",gzip"):
            if options:
                for path in (self.bucket / self.prefix).iterdir():
                    path.write_bytes(gzip.compress(path.read_bytes(), 1))
            out = self.python("""
import hashlib
for epoch in range(6):
    with open(f"{F}/train_{epoch}", "rb", buffering=0) as fifo:
        if epoch % 3 == 2:
            whole = b"".join(iter(lambda: fifo.read(1 << 20), b""))
            print(hashlib.sha256(whole).hexdigest())
        else:
            fifo.read(10 ** (epoch + 1))
""", options)
            self.assertEqual(out.decode().split(), [hashlib.sha256(whole).hexdigest()] * 2)

    def test_the_trainers_status_is_ours(self):
        self.some((10,))
        self.run_pipe("", "sh", "-c", "exit 7", status=7)
        self.run_pipe("", "sh", "-c", "kill -USR1 $$", status=128 + signal.SIGUSR1)
        self.run_pipe("", "/nonexistent/trainer", status=127)

    @unittest.skipIf("asan" in SPOTTER, "a sanitizer takes memory of its own")
    def test_memory_stays_inside_the_budget_however_slow_the_reader(self):
        for i in range(20):
            self.put(f"{i}", bytes(8 << 20))
        out = self.python("""
import time, pathlib
fifo = open(F + "/train_0", "rb", buffering=0)
fifo.read(1)
def peak():
    return max(int(next(l for l in open(f"/proc/{p}/status") if l.startswith("VmHWM")).split()[1])
               for p in open(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read().split()
               if int(p) != os.getpid())
while peak() < 22 * 1024:  # KiB: until it has read ahead
    time.sleep(0.1)
time.sleep(1.5)
print(peak())
""", " --budget 40")
        self.assertLess(int(out), 40 * 1024 + 40 * 1024)  # KiB; the program takes some 20 MiB


class Troubles(Pipe):
    def test_broken_connections_and_refusals_are_not_seen(self):
        whole = b"".join(self.some())
        self.fault("s3-reset", "after=300000", "count=20")
        self.fault("s3-errors", "percent=20")
        self.fault("s3-slow-down", "percent=20")
        for epoch in self.epochs("", 0, 1):
            self.assert_same(epoch, whole)

    def reads(self, options, channel_path="", status=NO_DATA, **more):
        """The words of a failure; the reader must not have come to an end."""
        mark = self.scratch / "ended"
        reader = ("import sys, time; open(sys.argv[1], 'rb').read(); open(sys.argv[2], 'w'); "
                  "time.sleep(30)")
        _, words = self.run_pipe(channel_path + options, sys.executable, "-c", reader,
                                 str(self.folder / "train_0"), str(mark), status=status, **more)
        self.assertFalse(mark.exists(), "it was taken for the end of an epoch")
        self.assertIn("channel train", words)
        return words

    def test_an_object_that_is_replaced_is_an_error(self):
        self.some((100, 20_000_000))
        self.fault("s3-replaced", "count=100", f"key=bucket/{self.prefix}/01 +\u00fc")
        self.assertIn("01 +\u00fc: the object was replaced", self.reads(""))

    def test_a_wrong_byte_is_an_error(self):
        for size in (100, 9_000_000):
            self.upload("a", noise(size, 1))
            self.fault("s3-spoiled", "count=100")  # the next epoch's is asked for beside
            self.assertIn("/a: the bytes are not those of its checksum", self.reads(""))

    def test_the_checksum_of_an_upload_in_parts_is_compared(self):
        parts = [noise(6_000_000, 1), noise(6_000_000, 2), noise(100, 3)]
        self.upload_parts("a", parts)
        for mode in ("", ",mode=file"):
            out, _ = self.run_pipe(mode, "sh", "-c", "cat $F/train_0 $F/train/a 2>/dev/null; true")
            self.assert_same(out, b"".join(parts))
        self.fault("s3-spoiled", "count=100")
        self.assertIn("/a: the bytes are not those of its checksum", self.reads(""))

    def test_what_is_not_there_is_said_with_channel_and_key(self):
        self.assertIn("there is nothing at s3://bucket/", self.reads(""))
        self.put("m", json.dumps([{"prefix": f"s3://bucket/{self.prefix}/"}, "gone"]).encode())
        self.assertIn("/gone: there is no such object", self.reads(",type=manifest", "m"))
        self.put("m", b"[1")
        self.assertIn("/m: ", self.reads(",type=manifest", "m"))
        self.put("z", b"no gzip at all, this")
        self.assertIn("no good gzip", self.reads(",gzip"))
        self.put("z", gzip.compress(noise(10_000, 1))[:5000])
        self.assertIn("gzip", self.reads(",gzip"))

    def test_no_permission(self):
        self.some((10,))
        self.assertIn("permission is denied", self.reads("", AWS_SECRET_ACCESS_KEY="wrong"))
        self.assertIn("no AWS credentials", self.reads("", AWS_ACCESS_KEY_ID="",
                                                       AWS_EC2_METADATA_DISABLED="true"))

    def test_a_command_that_ends_before_the_answer_hears_of_it(self):
        self.some((10,))
        quick = self.command("", ["true"])
        for times, words, more in (
                (8, "no AWS credentials", {"AWS_ACCESS_KEY_ID": "",
                                           "AWS_EC2_METADATA_DISABLED": "true"}),
                (8, "permission is denied", {"AWS_SECRET_ACCESS_KEY": "wrong"}),
                (1, "the command has ended before S3 answered at all",
                 {"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"})):
            for _ in range(times):
                done = subprocess.run(quick, env=self.environment(**more), capture_output=True,
                                      text=True, timeout=600, check=False)
                self.assertIn(done.returncode, (0, NO_DATA))  # the refusal may be the quicker one
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
                self.assertIn(words, done.stderr)
        self.assertEqual(self.run_pipe("", "true"), (b"", ""))

    def test_a_bucket_whose_requester_pays_gives_data_to_who_says_so(self):
        data = self.put("a", noise(9_000_000, 1))
        self.fault("s3-requester-pays", "bucket=bucket", "on=true")
        self.addCleanup(self.served.command, "fault", "s3-requester-pays", "bucket=bucket",
                        "on=false")
        self.assertIn("permission is denied", self.reads(""))
        self.assert_same(self.epochs(",requester_pays", 0)[0], data)
        out, _ = self.run_pipe(",mode=file,requester_pays", "sh", "-c", "cat $F/train/a")
        self.assert_same(out, data)

    def test_data_that_has_changed_since_the_job_began_is_an_error_and_no_shift(self):
        self.some((10, 20, 30))
        state = f" --state {self.scratch}/state"
        self.epochs(state, 0)
        self.epochs(state, 0)
        self.put("00a", b"new")
        self.assertIn("00a is not what it was", self.reads(state))
        (self.bucket / self.prefix / "00a").unlink()
        self.epochs(state, 0)
        self.put("01 +\u00fc", b"replaced")
        self.assertIn("01 +\u00fc", self.reads(state))

    def test_usage(self):
        for words in (["--channel", "x"], [], ["--channel", "t=s3://bucket/p,mode=tube"],
                      ["--channel", "t=s3://bucket/p", "--shard", "3/3"]):
            done = subprocess.run([SPOTTER, "pipe", *words, "--", "true"], capture_output=True,
                                  env=self.environment(), timeout=20, check=False)
            self.assertEqual(done.returncode, 2, words)
            self.assertTrue(done.stderr, words)


class Old(http.server.BaseHTTPRequestHandler):
    """A server whose listings name no token: whoever asks says after which key they go on."""

    def do_GET(self):  # noqa: N802
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        body = self.path[-1]
        if "list-type" in asked:
            left = [each for each in "abcde" if each > asked.get("start-after", "")]
            body = "".join(f"<Contents><Key>{each}</Key><ETag>e</ETag><Size>1</Size></Contents>"
                           for each in left[:2])
            body = (f"<ListBucketResult><IsTruncated>{len(left) > 2}</IsTruncated>{body}"
                    "</ListBucketResult>")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"e"')
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_):
        pass


class OldServers(Pipe):
    def test_their_listings_are_read_to_the_end(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Old)
        server.handle_error = lambda *_: None  # a connection that was left
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = subprocess.run(
            [SPOTTER, "pipe", "--channel", "train=s3://bucket/", "--directory", str(self.folder),
             "--", "cat", str(self.folder / "train_0")], capture_output=True, timeout=60,
            check=False, env=self.environment(
                AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{server.server_port}"))
        self.assertEqual(done.stdout, b"abcde", done.stderr)


class Crashes(Pipe):
    """A crash is not an end: whoever is killed, the trainer never sees a short epoch."""

    def killed(self, whom, number):
        mark = self.scratch / f"{whom}-{number}"
        process = subprocess.Popen(
            self.command("", [sys.executable, "-c", READER, str(self.folder), str(self.size),
                              str(mark)]),
            env=self.environment(), stderr=subprocess.DEVNULL)
        self.assertTrue(eventually(lambda: (mark.with_suffix(".begun")).exists()))
        time.sleep(random.Random(number).uniform(0, 0.15))
        below = children(process.pid)
        trainer = next(pid for pid in below if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                       .startswith(os.fsencode(sys.executable)))
        plane = next(pid for pid in below if pid != trainer)
        os.kill({"plane": plane, "holder": process.pid, "trainer": trainer}[whom], signal.SIGKILL)
        process.wait(30)
        self.assertTrue(eventually(lambda: not alive(trainer) and not alive(plane)))
        self.assertFalse(mark.with_suffix(".short").exists(),
                         f"{whom} killed: the trainer saw a short epoch")
        return process.returncode

    def test_at_random_instants(self):
        self.size = sum(map(len, self.some((1_000_000, 20_000_000, 9_000_000))))
        for number in range(KILLS):
            self.assertEqual(self.killed("plane", number), NO_DATA)
            self.assertEqual(self.killed("holder", number), -signal.SIGKILL)
            self.assertEqual(self.killed("trainer", number), 128 + signal.SIGKILL)


if __name__ == "__main__":
    unittest.main()
