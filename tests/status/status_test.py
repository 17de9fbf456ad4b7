"""`spotter status`: what it shows of a status.json, once and followed, and of what is none."""

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

SPOTTER = os.environ["SPOTTER_PATH"]
STATUS = {"version": 1, "job": "speech", "stage": "training", "says": "training on vol-0b",
          "step": 2550, "steps_total": 5000,
          "epoch": 3, "epochs_total": 6, "loss": 0.3125, "accuracy": 0.91,
          "metrics": {"val_loss": 0.5, "val_accuracy": 0.75, "a b": 1},
          "steps_per_second": 2.0, "checkpoint_step": 2500, "instance": "i-0a", "type": "g5.xlarge",
          "zone": "us-west-2a", "volume": "vol-0b", "spent_seconds": 36000, "spent_dollars": 4.5,
          "interruptions": 2, "problems": []}


def boot_ms():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


class StatusTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, **changes):
        status = {**STATUS, "updated_boottime_ms": boot_ms(), **changes}
        other = self.folder / "new"
        other.write_text(json.dumps({name: it for name, it in status.items() if it is not None}))
        other.rename(self.folder / "status.json")

    def environment(self):
        return {**os.environ, "SPOTTER_RUN": str(self.folder)}

    def show(self, *options, code=0):
        done = subprocess.run([SPOTTER, "status", *options], env=self.environment(), text=True,
                              capture_output=True, check=False, timeout=600)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout if code == 0 else done.stderr


class Once(StatusTest):
    def test_what_is_none_is_a_failure_as_json_too(self):
        for text in ("", '{"version": 1, "jo', "\0" * 100, "[" * 60000):
            (self.folder / "status.json").write_text(text)
            self.assertIn("is half-written or damaged", self.show("--json", code=1))
        (self.folder / "status.json").unlink()
        (self.folder / "status.json").mkdir()
        self.assertIn("cannot be read: ", self.show(code=1))

    def test_nobody_can_write_to_a_full_disk(self):
        self.write()
        with open("/dev/full", "w") as full:
            for options in ([], ["--json"]):
                done = subprocess.run([SPOTTER, "status", *options], env=self.environment(),
                                      stdout=full, stderr=subprocess.PIPE, check=False, timeout=600)
                self.assertEqual(done.returncode, 1)
                self.assertIn(b"cannot write", done.stderr)

    def test_all_of_it(self):
        now = boot_ms()
        self.write(checkpoint_boottime_ms=now - 42_000, notice_deadline_ms=now + 87_000,
                   wake_boottime_ms=now + 300_000,
                   problems=[{"boottime_ms": now - 200_000, "event": "call-failed", "words": "lo"}])
        shown = self.show()
        for line in ("job         speech", "stage       training on vol-0b", "progress    [####",
                     "step        step 2550 of 5000, epoch 3 of 6, 2.00 a second, 20 min left",
                     "loss        0.3125, accuracy 0.91",
                     "metrics     val_accuracy 0.75, val_loss 0.5",
                     "checkpoint  step 2500, 42 s ago",
                     "instance    i-0a, g5.xlarge in us-west-2a", "volume      vol-0b",
                     "spent       10 h of instances, $4.50, 2 interruptions",
                     "lately      3 min ago: lo"):
            self.assertIn(line + ("\n" if "####" not in line else ""), shown)
        self.assertRegex(shown, r"progress    \[#{15}\.{15}\] 51 %\n")
        self.assertRegex(shown, r"notice      the instance ends in 8[67] s\n")
        self.assertRegex(shown, r"next        looks again in 5 min\n")
        self.assertEqual(json.loads(self.show("--json"))["loss"], 0.3125)

    def test_a_cold_volume_shows_how_much_of_it_was_read(self):
        self.write(volume_read_bytes=13_400_000_000, volume_total_bytes=40_000_000_000)
        self.assertIn("volume      vol-0b, 33 % of its 40.0 GB read\n", self.show())
        self.write(volume_read_bytes=1, volume_total_bytes=0)
        self.assertIn("volume      vol-0b\n", self.show())

    def test_what_is_not_known_is_left_out(self):
        (self.folder / "status.json").write_text('{"version": 1, "job": "speech"}')
        self.assertEqual(self.show(), "job         speech\n")

    def test_a_terminal_is_not_led_astray(self):
        self.write(says="\x1b]0;mine\x07\x1b[2J", job="a\nb")
        shown = self.show()
        self.assertNotIn("\x1b", shown)
        self.assertIn("job         a b\n", shown)

    def test_no_status_and_others(self):
        self.assertIn("no agent has run here", self.show(code=1))
        newer = "written by a newer Spotter (%sformat 2, this one reads 1): install that version"
        for text, words in (('{"version": 2}', newer % ""),
                            ('{"version": 2, "spotter": "9.9"}', newer % "spotter 9.9, "),
                            ('{"version": 0, "spotter": "0.1"}', "written by spotter 0.1"),
                            ('{"version": 1', "half-written"), ("", "half-written"),
                            ("[]", "half-written"), ("{}", "no status of Spotter's")):
            (self.folder / "status.json").write_text(text)
            self.assertIn(words, self.show(code=1))
        self.write()
        self.assertIn("excludes", self.show("--json", "--watch", code=2))


class Watched(StatusTest):
    def setUp(self):
        super().setUp()
        self.write()
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execve(SPOTTER, [SPOTTER, "status", "--watch"], self.environment())
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(self.end, signal.SIGKILL)
        self.seen = ""

    def end(self, number):
        """The exit status; at the first call."""
        if self.pid == 0:
            return None
        os.kill(self.pid, number)
        self.read_until(lambda: False, patience=0.5)
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        return os.waitstatus_to_exitcode(status)

    def resize(self, rows, columns):
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read_until(self, is_there, patience=30.0):
        until = time.monotonic() + patience
        while not is_there():
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                return False
            try:
                self.seen += os.read(self.terminal, 65536).decode()
            except OSError:  # the other end is closed
                return is_there()
        return True

    def screen(self):
        """The last that was drawn whole: [line]."""
        drawn = self.seen.split("\x1b[H")
        whole = [it for it in drawn[1:] if it.endswith("\x1b[J") or "\x1b[J" in it]
        return whole[-1].split("\x1b[J")[0].replace("\x1b[K", "").split("\r\n") if whole else []

    def test_follows_and_gives_the_screen_back(self):
        self.assertTrue(self.read_until(lambda: "step 2550" in self.seen))
        self.assertTrue(self.seen.startswith("\x1b[?1049h\x1b[?25l"))
        self.write(step=2600)
        self.assertTrue(self.read_until(lambda: "step 2600" in "".join(self.screen())))
        self.assertNotIn("\x1b[2J", self.seen, "cleared, which flickers")
        self.assertEqual(self.end(signal.SIGINT), 0)
        self.assertTrue(self.seen.endswith("\x1b[?25h\x1b[?1049l"))

    def test_fits_any_window(self):
        for rows, columns in ((24, 80), (6, 30), (40, 132), (2, 1)):
            self.resize(rows, columns)
            widest = max(columns, 24)
            self.assertTrue(self.read_until(lambda: self.screen() and self.fits(rows, widest)))
        self.assertEqual(self.end(signal.SIGTERM), 0)

    def fits(self, rows, columns):
        lines = self.screen()
        bar = next((it for it in lines if it.startswith("progress")), "")
        widest = max(map(len, lines))
        return len(lines) <= rows and widest <= columns and (rows < 24 or len(bar) > 30)

    def test_an_agent_that_comes_later(self):
        (self.folder / "status.json").unlink()
        self.assertTrue(self.read_until(lambda: "no agent has run here" in self.seen))
        self.write(job="later")
        self.assertTrue(self.read_until(lambda: "later" in "".join(self.screen())))


class Piped(StatusTest):
    def test_says_each_change_and_ends_with_its_reader(self):
        self.write()
        watching = subprocess.Popen([SPOTTER, "status", "--watch"], env=self.environment(),
                                    stdout=subprocess.PIPE, text=True)
        self.addCleanup(watching.kill)
        self.assertEqual(watching.stdout.readline(), "job         speech\n")
        watching.stdout.close()
        self.write(job="other")
        self.assertIn(watching.wait(30), (0, -signal.SIGPIPE))


if __name__ == "__main__":
    unittest.main()
