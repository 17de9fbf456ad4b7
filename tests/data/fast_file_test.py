#!/usr/bin/python3
"""Channels in mode `fast_file`: the objects are files that are fetched while they are read.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH.
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from pipe_test import SPOTTER, Pipe, noise  # noqa: E402

NOBODY = 65534


def no_fuse():
    """Why there can be no mount here; empty: there can."""
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as error:
        return f"no FUSE here: {error}"
    return "" if os.geteuid() == 0 or shutil.which("fusermount3") else "no fusermount3 here"


class Views(Pipe):
    def setUp(self):
        super().setUp()
        self.view = self.folder / "train"
        self.addCleanup(self.unmount)

    def unmount(self):
        """Nothing is left, also when a test has failed."""
        if self.is_mounted():
            subprocess.run(["umount", "-l", self.view], check=False)
            self.fail("a view was left behind")

    def is_mounted(self):
        return f" {self.view} " in pathlib.Path("/proc/self/mountinfo").read_text()

    def see(self, *command, options="", status=0, **more):
        return self.run_pipe(",mode=fast_file" + options, *command, status=status, **more)

    def run_python(self, text, options="", status=0, **more):
        """In the view, where `V` is."""
        program = f"import os, sys\nV = {str(self.view)!r}\nos.chdir(V)\n{text}"
        return self.see(sys.executable, "-c", program, options=options, status=status, **more)

    def many(self):
        sizes = (0, 1, 4096, 100_000, 8 << 20, 9_000_000, 17_000_003)
        whole = {f"{i}/a +\u00fc%/{i}": noise(size, i) for i, size in enumerate(sizes)}
        for name, data in whole.items():
            self.put(name, data)
        return whole

    def read_all(self, options="", **more):
        """Every file as the trainer sees it: size and digest by name."""
        out, _ = self.run_python("""
import hashlib, json
print(json.dumps({os.path.relpath(os.path.join(top, name), V):
                  [os.stat(os.path.join(top, name)).st_size,
                   hashlib.sha256(open(os.path.join(top, name), "rb").read()).hexdigest()]
                  for top, _, names in os.walk(V) for name in names}))
""", options, **more)
        return json.loads(out)

    @staticmethod
    def described(whole):
        return {name: [len(data), hashlib.sha256(data).hexdigest()]
                for name, data in whole.items()}


class Contents(Views):
    def test_each_object_is_a_file_below_its_channel(self):
        whole = self.many()
        self.assertEqual(self.read_all(), self.described(whole))
        self.assertEqual(os.listdir(self.view), [], "nothing is left there")

    def test_names_are_those_of_mode_file(self):
        for name in ("data/x/a", "data/b", "data/c", "part-1", "part-2/x"):
            self.put(name, name.encode())
        self.put("m", json.dumps([{"prefix": f"s3://bucket/{self.prefix}/data/"}, "x/a", "b",
                                  "x/a"]).encode())
        for source in ("m,type=manifest", "part-", "data", "data/,sharded"):
            seen = []
            for mode in ("file", "fast_file"):
                folder = self.scratch / mode
                done = subprocess.run(
                    [SPOTTER, "pipe", "--channel",
                     f"train=s3://bucket/{self.prefix}/{source},mode={mode}", "--shard", "0/1",
                     "--directory", folder, "--", "sh", "-c", 'cd "$0/train"; grep -r "" . | sort',
                     folder], env=self.environment(), timeout=600, capture_output=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                shutil.rmtree(folder)
                seen.append(done.stdout)
            self.assertEqual(seen[0], seen[1], source)
            self.assertTrue(seen[0], source)

    def test_a_shard_has_its_part(self):
        for i in range(5):
            self.put(str(i), b"%d" % i)
        out, _ = self.see("ls", str(self.view), options=",sharded --shard 1/2")
        self.assertEqual(out.split(), [b"1", b"3"])

    def test_times_are_s3s_also_of_a_frozen_listing(self):
        self.put("a", b"x")
        os.utime(self.bucket / self.prefix / "a", (1_600_000_000, 1_600_000_000))
        for _ in range(2):
            out, _ = self.see("stat", "-c", "%Y %s %A", str(self.view / "a"),
                              options=f" --state {self.scratch}/state")
            self.assertEqual(out, b"1600000000 1 -r--r--r--\n")

    def test_nothing_can_be_written(self):
        self.put("a/b", b"x")
        out, _ = self.run_python("""
for what in (lambda: open("a/b", "r+"), lambda: open("new", "w"), lambda: os.unlink("a/b"),
             lambda: os.mkdir("d"), lambda: os.chmod("a/b", 0o777)):
    try: what()
    except OSError as error: print(error.errno)
""")
        self.assertEqual(out.split(), [b"30"] * 5, "EROFS")

    def test_five_thousand_keys_in_deep_folders(self):
        names = [f"{i % 7}/{i % 11}/deep/er/{i:05}" for i in range(5000)]
        for name in names:
            self.put(name, name.encode())
        out, _ = self.see("sh", "-c", 'cd "$0"; find . -type f | wc -l; find . -type f -size -1 | '
                          'wc -l; cat 3/5/deep/er/00038', str(self.view))
        self.assertEqual(out.split(), [b"5000", b"0", b"3/5/deep/er/00038"])

    def test_beside_a_stream_and_files(self):
        self.put("a", b"abc")
        source = f"s3://bucket/{self.prefix}/"
        out, _ = self.see("sh", "-c", "cat $F/train/a $F/flow_0 $F/files/a; echo $SM_CHANNELS",
                          options=f" --channel flow={source} --channel files={source},mode=file")
        self.assertEqual(out, b'abcabcabc["files","flow","train"]\n')

    def test_sage_makers_document_says_it(self):
        self.put("a", b"abc")
        config = self.scratch / "config.json"
        config.write_text(json.dumps([{
            "ChannelName": "train", "InputMode": "FastFile",
            "DataSource": {"S3DataSource": {"S3DataType": "S3Prefix",
                                            "S3Uri": f"s3://bucket/{self.prefix}/"}}}]))
        root = self.scratch / "ml"
        done = subprocess.run(
            [SPOTTER, "pipe", "--input-data-config", config, "--root", root, "--", "sh", "-c",
             f'cat "$SM_CHANNEL_TRAIN/a" {root}/input/config/inputdataconfig.json'],
            env=self.environment(), capture_output=True, timeout=600, text=True, check=True)
        self.assertTrue(done.stdout.startswith("abc{"))
        self.assertEqual(json.loads(done.stdout[3:])["train"]["TrainingInputMode"], "FastFile")


class Readers(Views):
    def test_any_part_in_any_order(self):
        data = self.put("a", noise(30_000_000, 1))
        out, _ = self.run_python("""
import mmap, random
file = open("a", "rb", buffering=0)
chance = random.Random(1)
for _ in range(200):
    at = chance.randrange(30_000_000)
    file.seek(at)
    got = file.read(chance.choice((1, 4096, 300_000)))
    sys.stdout.buffer.write(got[:1] + got[-1:])
whole = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sys.stdout.buffer.write(whole[29_999_990:] + whole[:10] + whole[12_345_678:12_345_700])
""")
        expected, chance = b"", random.Random(1)
        for _ in range(200):
            at = chance.randrange(30_000_000)
            got = data[at:at + chance.choice((1, 4096, 300_000))]
            expected += got[:1] + got[-1:]
        self.assertEqual(out, expected + data[29_999_990:] + data[:10] +
                         data[12_345_678:12_345_700])

    def test_formats_that_jump(self):
        self.put("x", b"")
        path = self.bucket / self.prefix
        subprocess.run([sys.executable, "-c", """
import sys, zipfile
import numpy
numpy.save(sys.argv[1] + "/a.npy", numpy.arange(3_000_000))
with zipfile.ZipFile(sys.argv[1] + "/z.zip", "w", zipfile.ZIP_DEFLATED) as file:
    for i in range(50): file.writestr(str(i), str(i) * 50_000)
""", path], check=True)
        out, _ = self.run_python("""
import zipfile
import numpy
array = numpy.load("a.npy", mmap_mode="r")
print(array[2_999_999], array[::100_000].sum())
with zipfile.ZipFile("z.zip") as file:
    print(all(file.read(str(i)) == str(i).encode() * 50_000 for i in (49, 3, 17, 0)))
""")
        self.assertEqual(out.split(), [b"2999999", b"43500000", b"True"])

    def test_several_at_once(self):
        whole = {str(i): self.put(str(i), noise(6_000_000, i)) for i in range(4)}
        out, _ = self.run_python("""
import concurrent.futures, hashlib
def digest(name): return hashlib.sha256(open(name, "rb").read()).hexdigest()
with concurrent.futures.ThreadPoolExecutor(12) as pool:
    print(*pool.map(digest, [str(i % 4) for i in range(12)]))
""", " --budget 32")
        self.assertEqual(out.decode().split(),
                         [hashlib.sha256(whole[str(i % 4)]).hexdigest() for i in range(12)])

    @unittest.skipIf("asan" in SPOTTER, "a sanitizer takes memory of its own")
    def test_memory_stays_inside_the_budget(self):
        self.put("a", bytes(120 << 20))
        out, _ = self.run_python("""
with open("a", "rb") as file:
    while file.read(1 << 20): pass
def peak(pid):
    return int(next(l for l in open(f"/proc/{pid}/status") if l.startswith("VmHWM")).split()[1])
print(max(peak(pid) for pid in
          open(f"/proc/{os.getppid()}/task/{os.getppid()}/children").read().split()
          if int(pid) != os.getpid()))
""", " --budget 40")
        self.assertLess(int(out), 40 * 1024 + 40 * 1024)  # KiB; the program takes some 20 MiB

    @unittest.skipIf(os.geteuid(), "only root becomes somebody else")
    def test_a_trainer_without_rights_reads_it(self):
        self.put("a/b", b"abc")
        for folder in (self.scratch, self.folder):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        out, _ = self.see("setpriv", "--reuid", str(NOBODY), "--clear-groups", "cat",
                          str(self.view / "a/b"))
        self.assertEqual(out, b"abc")

    @unittest.skipIf(os.geteuid(), "only root becomes somebody else")
    def test_a_user_without_rights_mounts_it(self):
        if os.stat("/dev/fuse").st_mode & 0o006 != 0o006:
            self.skipTest("/dev/fuse is for root only here")
        whole = self.many()
        self.folder.mkdir()
        for folder in (self.scratch, self.folder):
            os.chown(folder, NOBODY, NOBODY)
        program = 'cd "$0" && find . -type f | sort | xargs -d "\\n" sha256sum'
        done = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups",
                               *self.command(",mode=fast_file", ["sh", "-c", program, self.view])],
                              env=self.environment(), capture_output=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        for data in whole.values():
            self.assertIn(hashlib.sha256(data).hexdigest().encode(), done.stdout)
        self.assertFalse(self.is_mounted())


def main():
    """Exit status 77 when nothing could be tested, with the reason."""
    if no_fuse():
        print("skipped: " + no_fuse())
        sys.exit(77)
    unittest.main()


if __name__ == "__main__":
    main()
