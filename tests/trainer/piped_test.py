#!/usr/bin/python3
"""spotter-train on channels: the same bits as from files, also when it is cut in mid-epoch.

Environment: SPOTTER_PATH, SPOTTER_EMULATOR_PATH, SPOTTER_TRAIN.
"""

import os
import pathlib
import signal
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/data"))
import pipe_test  # noqa: E402
from pipe_test import alive, children, eventually  # noqa: E402
from small_mnist import write_small_mnist  # noqa: E402

TRAIN = os.environ.get("SPOTTER_TRAIN", str(ROOT / "build/release/bin/spotter-train"))
EXAMPLES, TESTS = 300, 100
STOPPED, FAILED = 75, 1


class Piped(pipe_test.Pipe):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        files = pathlib.Path(cls.served.folder) / "files"
        write_small_mnist(files, EXAMPLES, TESTS)
        subprocess.run([ROOT / "scripts/pack-records", files, cls.bucket, "--records", "70"],
                       check=True, capture_output=True)
        cls.files = str(files)

    def arguments(self, name, data, *more):
        return [TRAIN, "--data", data, "--checkpoints", str(self.scratch / name / "c"), "--result",
                str(self.scratch / name / "result"), "--batch-size", "32", "--epochs", "4",
                "--hidden", "32,16", "--checkpoint-every", "3", *more]

    def from_files(self, name, *more, status=0):
        # In the environment of the piped ones: OPENBLAS_CORETYPE, say, changes the last bits.
        done = subprocess.run(self.arguments(name, self.files, *more), env=self.environment(),
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout + done.stderr

    def piped(self, name, *more, examples=EXAMPLES):
        channels = []
        for channel in ("train", "test"):
            channels += ["--channel", f"{channel}=s3://bucket/{channel}/"]
        return subprocess.Popen(
            [pipe_test.SPOTTER, "pipe", *channels, "--directory", self.folder, "--state",
             self.scratch / "state", "--",
             *self.arguments(name, "pipe:train", "--examples", str(examples), *more)],
            env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end_of(self, process, status=0):
        words = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, status, words)
        return words

    def assert_same_result(self, one, other):
        for file in ("model.safetensors", "model.pt", "metrics.json", "training.csv"):
            self.assertEqual((self.scratch / one / "result" / file).read_bytes(),
                             (self.scratch / other / "result" / file).read_bytes(), file)

    def interrupted(self, name, steps, number, status):
        """A life that is asked to stop, or killed, when all lives have done so many steps."""
        log = self.scratch / f"{name}.steps"
        process = self.piped(name, "--steps-log", str(log), "--slow-down", "300")
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        self.assertTrue(eventually(lambda: log.exists() and len(log.read_text().split()) >= steps,
                                   60), "it does not train")
        trainer = next(pid for pid in children(process.pid) if pathlib.Path(
            f"/proc/{pid}/cmdline").read_bytes().startswith(os.fsencode(TRAIN)))
        os.kill(trainer, number)
        words = self.end_of(process, status)
        self.assertFalse(alive(trainer))
        return words

    def test_the_same_bits_as_from_files(self):
        self.from_files("files", "--unshuffled")
        self.end_of(self.piped("pipe"))
        self.assert_same_result("files", "pipe")
        self.from_files("shuffled")
        self.assertNotEqual((self.scratch / "shuffled/result/model.safetensors").read_bytes(),
                            (self.scratch / "files/result/model.safetensors").read_bytes())

    def test_cut_in_the_middle_of_epochs_it_ends_with_the_same_bits(self):
        self.from_files("files", "--unshuffled")
        words = self.interrupted("cut", 5, signal.SIGTERM, STOPPED)
        self.assertIn("the checkpoint is durable", words)
        self.interrupted("cut", 14, signal.SIGKILL, 128 + signal.SIGKILL)
        self.interrupted("cut", 20, signal.SIGTERM, STOPPED)
        words = self.end_of(self.piped("cut"))
        self.assertIn("resuming at step", words)
        self.assert_same_result("files", "cut")

    def test_a_number_of_examples_that_is_wrong_is_reported(self):
        words = self.end_of(self.piped("more", examples=EXAMPLES + 1), FAILED)
        self.assertIn("had only 300 examples, not 301", words)
        words = self.end_of(self.piped("fewer", examples=EXAMPLES - 1), FAILED)
        self.assertIn("it has more examples than 299", words)

    def test_a_run_is_not_continued_on_other_data(self):
        self.from_files("run", "--unshuffled")
        self.assertIn("belongs to a run on other data", self.end_of(self.piped("run"), FAILED))
        self.assertIn("belongs to a run on other data", self.from_files("run", status=FAILED))

    def test_asked_to_stop_while_no_data_comes_it_loses_no_step(self):
        """Files and a FIFO of this test's own, in the place of `spotter pipe`."""
        self.from_files("files", "--unshuffled")
        self.folder.mkdir()
        stream = b"".join(path.read_bytes() for path in sorted((self.bucket / "train").iterdir()))
        tests = b"".join(path.read_bytes() for path in sorted((self.bucket / "test").iterdir()))
        (self.folder / "test_0").write_bytes(tests)
        fifo, log = self.folder / "train_0", self.scratch / "steps"
        os.mkfifo(fifo)
        command = self.arguments("run", "pipe:train,test", "--examples", str(EXAMPLES),
                                 "--steps-log", str(log))
        environment = self.environment(SM_CHANNEL_TRAIN=str(self.folder / "train"),
                                       SM_CHANNEL_TEST=str(self.folder / "test"))
        trainer = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(trainer.stdout.close)
        self.addCleanup(trainer.kill)
        # Read-write: it does not wait for a trainer that never opens it.
        with open(os.open(fifo, os.O_RDWR), "wb", buffering=0) as writer:
            writer.write(stream[:796 * 40])  # a batch of 32, and a part of the next one
            self.assertTrue(eventually(lambda: log.exists() and log.read_text() == "1\n", 600))
            trainer.terminate()
            self.assertIn("at step 1;", self.end_of(trainer, STOPPED))
        fifo.unlink()
        for epoch in range(4):
            (self.folder / f"train_{epoch}").write_bytes(stream)
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
        self.assert_same_result("files", "run")


if __name__ == "__main__":
    unittest.main()
