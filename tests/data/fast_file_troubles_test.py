#!/usr/bin/python3
"""Channels in mode `fast_file`: what cannot be read is an error, whoever dies, and nothing is left.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH; SPOTTER_KILLS: how often each process is killed.
"""

import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from fast_file_test import Views, main  # noqa: E402
from pipe_test import KILLS, NO_DATA, SPOTTER, alive, children, eventually, noise  # noqa: E402


class Troubles(Views):
    READER = """
import signal
signals = []
signal.signal(signal.SIGTERM, lambda *_: signals.append(1))
try:
    got = open({name!r}, "rb").read()
    open({mark!r}, "w").write(str(len(got)))
except OSError as error:
    print(error.errno, flush=True)
while not signals: time.sleep(0.05)
"""

    def reads(self, name, *words, options="", **more):
        """The reader gets EIO, and is stopped; the words of the failure are returned."""
        mark = self.scratch / "read"
        out, error = self.run_python("import time" + self.READER.format(name=name, mark=str(mark)),
                                    options, status=NO_DATA, **more)
        self.assertFalse(mark.exists(), "it was taken for a whole file")
        self.assertEqual(out, b"5\n", "EIO")
        for word in ("channel train: ", *words):
            self.assertIn(word, error)

    def test_broken_connections_and_refusals_are_not_seen(self):
        whole = self.many()
        self.fault("s3-reset", "after=300000", "count=20")
        self.fault("s3-errors", "percent=20")
        self.fault("s3-slow-down", "percent=20")
        self.assertEqual(self.read_all(), self.described(whole))

    def test_an_object_that_is_replaced_is_an_error_and_no_mixture(self):
        self.put("a", noise(20_000_000, 1))
        path = self.bucket / self.prefix / "a"
        other = self.scratch / "other"
        other.write_bytes(noise(20_000_000, 2))
        mark = self.scratch / "read"
        out, error = self.run_python(f"""
import time
file = open("a", "rb")
begin = file.read(100)
os.replace({str(other)!r}, {str(path)!r})
""" + self.READER.format(name="a", mark=str(mark)), status=NO_DATA)
        self.assertFalse(mark.exists())
        self.assertEqual(out, b"5\n")
        self.assertIn(f"channel train: s3://bucket/{self.prefix}/a: the object was replaced", error)

    def test_a_wrong_byte_is_an_error(self):
        self.upload("a", noise(100_000, 1))
        self.fault("s3-spoiled", "count=100")
        self.reads("a", "/a: the bytes are not those of its checksum")

    def test_no_permission_to_read(self):
        self.put("a", b"x")
        self.fault("deny", "action=GetObject")
        self.reads("a", f"s3://bucket/{self.prefix}/a: permission is denied")

    def failed(self, *words, options="", status=NO_DATA, **more):
        mark = self.scratch / "started"
        _, error = self.see("touch", str(mark), options=options, status=status, **more)
        self.assertFalse(mark.exists(), "the trainer was started")
        for word in ("channel train: ", *words):
            self.assertIn(word, error)

    def test_what_is_not_there_is_said_before_the_trainer_starts(self):
        self.failed("there is nothing at s3://bucket/")
        self.put("a", b"x")
        self.failed("permission is denied", AWS_SECRET_ACCESS_KEY="wrong")
        self.failed("32 MiB", options=" --budget 20")

    def test_what_files_cannot_be_is_refused(self):
        for option in ("gzip", "recordio", "type=augmented,attributes=a-ref"):
            self.failed(options="," + option, status=2)

    def test_data_that_has_changed_is_an_error(self):
        self.put("a", b"old")
        state = f" --state {self.scratch}/state"
        self.see("true", options=state)
        self.put("a", b"new one")
        _, error = self.run_python("import time; time.sleep(60)", state, status=NO_DATA)
        self.assertRegex(error, "channel train: .*/a.*the data has changed")

    def test_without_the_program_that_mounts_it_says_so(self):
        self.put("a", b"x")
        alone = self.scratch / "bin"
        alone.mkdir()
        shutil.copy(SPOTTER, alone / "spotter")
        words = self.command(",mode=fast_file", ["true"])[1:]
        done = subprocess.run([alone / "spotter", *words], env=self.environment(),
                              capture_output=True, text=True, timeout=600, check=False)
        self.assertEqual(done.returncode, NO_DATA)
        self.assertIn("channel train: mode fast_file needs", done.stderr)


def has_open(pid, ending):
    """Whether this process has a file of that name open: it may close others meanwhile, and end."""
    try:
        for file in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            try:
                if os.readlink(file).endswith(ending):
                    return True
            except FileNotFoundError:
                pass
    except (FileNotFoundError, ProcessLookupError):
        pass
    return False


class Crashes(Views):
    """Whoever is killed: no reader takes what it has got for a whole file, and nothing is left."""

    READER = """
for round in range(10 ** 6):
    with open("a", "rb", buffering=0) as file:
        got = 0
        try:
            while block := os.pread(file.fileno(), 1 << 16, got):
                got += len(block)
                open(sys.argv[2] + ".begun", "a").close()
        except OSError as error:
            sys.exit(3)
    if got != int(sys.argv[1]):
        open(sys.argv[2] + ".short", "w").write(str(got))
    os.posix_fadvise(os.open("a", os.O_RDONLY), 0, 0, os.POSIX_FADV_DONTNEED)
"""

    def start(self, text, options=""):
        program = f"import os, sys, time\nos.chdir({str(self.view)!r})\n{text}"
        return subprocess.Popen(self.command(",mode=fast_file" + options,
                                             [sys.executable, "-c", program]),
                                env=self.environment(), stderr=subprocess.PIPE, text=True)

    def view_process(self, pid):
        return next(child for child in children(pid) if pathlib.Path(
            f"/proc/{child}/cmdline").read_bytes().split(b"\0")[0].endswith(b"/spotter-fastfile"))

    def begin(self, mark):
        program = f"import os, sys\nos.chdir({str(self.view)!r})\n" + self.READER
        process = subprocess.Popen(
            self.command(",mode=fast_file", [sys.executable, "-c", program, str(self.size),
                                             str(mark)]),
            env=self.environment(), stderr=subprocess.DEVNULL)
        self.assertTrue(eventually(lambda: mark.with_suffix(".begun").exists()))
        below = children(process.pid)
        view = self.view_process(process.pid)
        trainer = next(pid for pid in below if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
                       .startswith(os.fsencode(sys.executable)))
        return process, view, trainer

    def killed(self, number, *whom):
        mark = self.scratch / f"{'-'.join(whom)}-{number}"
        process, view, trainer = self.begin(mark)
        time.sleep(random.Random(number).uniform(0, 0.15))
        for each in whom:
            os.kill({"view": view, "holder": process.pid, "trainer": trainer}[each],
                    signal.SIGKILL)
        process.wait(30)
        self.assertTrue(eventually(lambda: not alive(trainer) and not alive(view)))
        self.assertFalse(mark.with_suffix(".short").exists(),
                         f"{whom} killed: the trainer saw a short file")
        return process.returncode

    def test_at_random_instants(self):
        self.size = len(self.put("a", noise(30_000_000, 1)))
        for number in range(KILLS):
            self.assertEqual(self.killed(number, "view"), NO_DATA)
            self.assertFalse(self.is_mounted())
            self.assertEqual(self.killed(number, "holder"), -signal.SIGKILL)
            self.assertFalse(self.is_mounted())
            self.assertEqual(self.killed(number, "trainer"), 128 + signal.SIGKILL)
            self.assertFalse(self.is_mounted())

    def test_what_two_kills_leave_the_next_start_heals(self):
        self.size = len(self.put("a", noise(3_000_000, 1)))
        self.killed(0, "view", "holder")
        self.assertTrue(self.is_mounted(), "or there was nothing to heal")
        with self.assertRaises(OSError):
            os.listdir(self.view)
        out, _ = self.see("sha256sum", str(self.view / "a"))
        self.assertEqual(out.split()[0].decode(),
                         hashlib.sha256(noise(3_000_000, 1)).hexdigest())
        self.assertFalse(self.is_mounted())

    def test_what_they_leave_on_a_volume_goes_with_it(self):
        self.size = len(self.put("a", noise(3_000_000, 1)))
        self.killed(0, "view", "holder")
        request = json.dumps({"verb": "unmount", "mount_point": str(self.scratch)})
        done = subprocess.run([SPOTTER, "host"], input=request.encode(), env=self.environment(),
                              capture_output=True, timeout=600, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertFalse(self.is_mounted())

    def test_a_reader_that_waits_for_the_network_can_be_killed(self):
        self.put("a", noise(9_000_000, 1))
        self.fault("s3-slow", "rate=1000")
        process = self.start("print(len(open('a', 'rb').read()))")
        self.assertTrue(eventually(lambda: any(
            has_open(pid, "/train/a") for pid in children(process.pid))))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=40)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)
        self.assertFalse(self.is_mounted())


if __name__ == "__main__":
    main()
