#!/usr/bin/python3
"""libspotter's other APIs: the C program, the Python module, a shell's one line.

Environment: SPOTTER_LIBRARY (libspotter.so), C_API_TEST (the C program).
"""

import base64
import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "trainer/library/python"
sys.path[:0] = [str(PYTHON), str(ROOT / "tests/e2e")]
import newer_formats  # noqa: E402
import spotter  # noqa: E402
from spotter import _state  # noqa: E402

try:
    import numpy
    import torch
except ImportError:
    torch = None

NAMES = ("NOTIFY_SOCKET", "SPOTTER_NOTICE_FILE", "SPOTTER_PACE_FILE", "SPOTTER_CHECKPOINTS",
         "SPOTTER_CHECKPOINT_EVERY", "SPOTTER_CHECKPOINTS_FASTER", "SPOTTER_CHECKPOINTS_S3",
         "SPOTTER_STORAGE")


def boot_ms():
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * 1000)


class Api(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="spotter-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.checkpoints = self.folder / "checkpoints"
        for name in NAMES:
            os.environ.pop(name, None)
            self.addCleanup(os.environ.pop, name, None)

    def ear(self):
        """The agent's end."""
        ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(ear.close)
        ear.bind(str(self.folder / "sock"))
        ear.settimeout(30)
        os.environ["NOTIFY_SOCKET"] = str(self.folder / "sock")
        return ear

    def program(self, text):
        """A trainer of its own, asked to stop by its caller."""
        environment = dict(os.environ, PYTHONPATH=str(PYTHON))
        trainer = subprocess.Popen(["/usr/bin/python3", "-c", textwrap.dedent(text)],
                                   env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(trainer.stdout.close)
        self.addCleanup(trainer.wait)
        self.addCleanup(trainer.kill)
        return trainer


class CProgram(Api):
    def test_a_program_in_c99(self):
        subprocess.run([os.environ["C_API_TEST"], self.checkpoints], check=True, timeout=120)


class Plain(Api):
    def test_what_was_saved_comes_back_as_it_was(self):
        state = {"a": [1, 2.5, None, ("x", b"small")], "large": b"l" * 200_000,
                 "mutable": bytearray(b"m" * 200_000), 3: {"deep": set("abc")}}
        with spotter.open(self.checkpoints) as run:
            self.assertIsNone(run.restore())
            self.assertTrue(run.save(5, state=state, note="text", meta={"epoch": 1}))
            run.flush()
            self.assertEqual(run.durable_step, 5)
        with spotter.open(self.checkpoints) as run:
            old = run.restore()
        self.assertEqual((old.step, old.meta, dict(old)),
                         (5, {"epoch": 1}, {"state": state, "note": "text"}))
        self.assertIsInstance(old["state"]["mutable"], bytearray)

    def test_a_torn_checkpoint_is_passed_over(self):
        with spotter.open(self.checkpoints) as run:
            run.save(1, value=b"1" * 100_000)
            run.save(2, value=b"2" * 100_000)
        (self.checkpoints / "step-000000000002/value.0").write_bytes(b"2" * 99_999)
        with spotter.open(self.checkpoints) as run:
            old = run.restore()
        self.assertEqual((old.step, old["value"]), (1, b"1" * 100_000))
        self.assertTrue((self.checkpoints / "torn-step-000000000002").is_dir())

    def test_what_a_newer_spotter_wrote_is_refused_and_stays(self):
        with spotter.open(self.checkpoints) as run:
            run.save(1, value=1)
            run.save(2, value=2)
        path = self.checkpoints / "step-000000000002/manifest.json"
        path.write_text(newer_formats.sealed(path.read_text()))
        before = newer_formats.seen(self.checkpoints)
        with spotter.open(self.checkpoints) as run:
            with self.assertRaisesRegex(spotter.SpotterError, r"a newer Spotter \(format 2"):
                run.restore()
        self.assertEqual(newer_formats.seen(self.checkpoints), before)
        with spotter.open(self.checkpoints) as run:  # a trainer that does not ask what is there
            for step in range(3, 7):
                run.save(step, value=step)
        self.assertTrue(path.exists())
        self.assertFalse(path.parents[1].joinpath("step-000000000001").exists())

    def test_errors_are_exceptions_with_a_reason(self):
        with spotter.open(self.checkpoints) as run:
            with self.assertRaisesRegex(spotter.SpotterError, "another trainer"):
                spotter.open(self.checkpoints)
            with self.assertRaisesRegex(spotter.SpotterError, "usable name"):
                run.save(1, **{"a/b": 1})
        with self.assertRaisesRegex(spotter.SpotterError, "closed"):
            run.save(1, a=1)
        with self.assertRaisesRegex(spotter.SpotterError, "SPOTTER_CHECKPOINTS"):
            spotter.open()

    def test_a_copy_in_s3_is_a_module_of_its_own(self):
        """It is there, was loaded, and says what it does not understand."""
        os.environ["SPOTTER_CHECKPOINTS_S3"] = "s4://bucket/run"
        with self.assertRaisesRegex(spotter.SpotterError, "no S3 URL"):
            spotter.open(self.checkpoints)

    def test_the_best_is_kept(self):
        with spotter.open(self.checkpoints, keep_last=1, keep_best=1, lower_is_better=True) as run:
            for step, loss in enumerate([0.5, 0.1, 0.3, 0.4], 1):
                run.save(step, metric=loss, value=step)
        self.assertEqual(sorted(path.name for path in self.checkpoints.glob("step-*")),
                         ["step-000000000002", "step-000000000004"])

    def test_a_forked_child_leaves_its_parents_run_alone(self):
        with spotter.open(self.checkpoints) as run:
            run.save(1, value=1)
            child = os.fork()
            if child == 0:
                try:
                    run.save(2, value=2)
                except spotter.SpotterError:
                    run.close()
                    os._exit(0)
                os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            run.flush()
            self.assertEqual(run.durable_step, 1)


class Agent(Api):
    def test_the_agent_hears_of_progress_and_of_what_is_durable(self):
        ear = self.ear()
        with spotter.open(self.checkpoints) as run:
            run.restore()
            run.progress(3, loss=0.5)
            run.save(3, value=3)
            run.finished()
        words = [ear.recv(4096).decode() for _ in range(5)]
        self.assertEqual(words[:2], ["READY=1\n", "X_SPOTTER_RESUMED_STEP=0\n"])
        self.assertEqual(words[2], "WATCHDOG=1\nX_SPOTTER_STEP=3\nX_SPOTTER_LOSS=0.5\n")
        lines = dict(line.split("=", 1) for line in words[3].splitlines())
        self.assertEqual(lines["X_SPOTTER_CHECKPOINT"],
                         str(self.checkpoints / "step-000000000003"))
        self.assertEqual(lines["X_SPOTTER_CHECKPOINT_STEP"], "3")
        self.assertGreater(float(lines["X_SPOTTER_CHECKPOINT_SECONDS"]), 0)
        self.assertEqual(words[4], "X_SPOTTER_FINISHED=1\n")

    def test_the_agent_is_sent_each_evaluation(self):
        ear = self.ear()
        with spotter.open(self.checkpoints) as run:
            run.progress(3, loss=0.5)
            run.progress(3, val_loss=0.25, metrics={"val/acc": 0.5})
            run.progress(4, val_loss=0.125)  # too soon: it waits for the end
            for wrong, metrics in (("'val loss': a name has a letter", {"val loss": 1}),
                                   ("'time': the name has another", {"time": 1}),
                                   ("16 metrics at most", {f"val_{i}": i for i in range(17)})):
                with self.assertRaisesRegex(spotter.SpotterError, wrong):
                    run.progress(5, metrics=metrics)
            run.finished()
        self.assertEqual([ear.recv(4096).decode() for _ in range(4)], [
            "WATCHDOG=1\nX_SPOTTER_STEP=3\nX_SPOTTER_LOSS=0.5\n",
            "WATCHDOG=1\nX_SPOTTER_STEP=3\nX_SPOTTER_METRIC=val/acc 0.5\n"
            "X_SPOTTER_METRIC=val_loss 0.25\n",
            "WATCHDOG=1\nX_SPOTTER_STEP=4\nX_SPOTTER_METRIC=val_loss 0.125\n",
            "X_SPOTTER_FINISHED=1\n"])

    def test_the_agents_advice_is_followed_and_its_request_answered_once(self):
        pace = self.folder / "pace"
        os.environ["SPOTTER_PACE_FILE"] = str(pace)
        os.environ["SPOTTER_CHECKPOINT_EVERY"] = "3600"

        def tell(text):  # as the agent does: the file is there whole, or not
            (self.folder / "new").write_text(text)
            os.rename(self.folder / "new", pace)

        with spotter.open(self.checkpoints) as run:
            self.assertFalse(run.should_checkpoint())
            time.sleep(0.01)  # asked for after the beginning, in whole milliseconds, too
            asked = boot_ms()
            while boot_ms() == asked:  # one of the same millisecond may have been made before it
                time.sleep(0.001)
            tell(json.dumps({"checkpoint_every_seconds": 3600, "asked_boottime_ms": asked}))
            while not run.should_checkpoint():
                time.sleep(0.01)
            run.save(1, value=1)
            for _ in range(20):
                self.assertFalse(run.should_checkpoint())
                time.sleep(0.01)
            tell(json.dumps({"checkpoint_every_seconds": 0.05}))
            while not run.should_checkpoint():
                time.sleep(0.01)

    def test_a_loss_is_fetched_only_where_it_is_reported(self):
        fetched = []

        class Loss:
            def __float__(self):
                fetched.append(1)
                return 0.5

        with spotter.open(self.checkpoints) as run:
            for step in range(1000):
                run.progress(step, loss=Loss())
        self.assertEqual(fetched, [], "nobody listens")
        ear = self.ear()
        ear.settimeout(0)
        words = []
        with spotter.open(self.checkpoints) as run:
            for step in range(1, 1001):
                run.progress(step, steps_total=1000, loss=Loss())
                with contextlib.suppress(BlockingIOError):
                    words.append(ear.recv(4096).decode())
        self.assertEqual(len(fetched), len(words))
        self.assertLess(len(fetched), 500)
        self.assertIn("X_SPOTTER_STEP=1000\n", words[-1])

    TRAINER = """
        import spotter, sys, time
        run = spotter.open({directory!r}, every=0)
        old = run.restore()
        step = old.step if old else 0
        print("trains", flush=True)
        while True:
            time.sleep(0.02)
            step += 1
            if run.should_checkpoint():
                run.save(step, step=step)
                print(f"saved {{step}}", flush=True)
            if run.should_stop():
                print(f"stops {{step}}", flush=True)
                run.stop_if_asked()
        """

    def test_a_signal_without_a_notice_is_a_checkpoint_and_out(self):
        trainer = self.program(self.TRAINER.format(directory=str(self.checkpoints)))
        self.assertEqual(trainer.stdout.readline(), "trains\n")
        trainer.send_signal(signal.SIGTERM)
        self.assertEqual(trainer.wait(60), spotter.STOPPED)
        saved, stops = trainer.stdout.read().splitlines()
        self.assertEqual(saved.split()[1], stops.split()[1])

    def test_after_a_notice_the_window_is_trained_in_and_no_step_is_lost(self):
        ear = self.ear()
        notice = self.folder / "notice"
        os.environ["SPOTTER_NOTICE_FILE"] = str(notice)
        trainer = self.program(self.TRAINER.format(directory=str(self.checkpoints)))
        self.assertEqual(trainer.stdout.readline(), "trains\n")
        gone = boot_ms() + 5000
        (self.folder / "new").write_text(json.dumps(
            {"action": "terminate", "deadline_boottime_ms": gone + 2000,
             "stop_by_boottime_ms": gone}))
        os.rename(self.folder / "new", notice)
        trainer.send_signal(signal.SIGTERM)
        self.assertEqual(trainer.wait(60), spotter.STOPPED)
        *saved, stops = (int(line.split()[1]) for line in trainer.stdout.read().splitlines())
        self.assertEqual(len(saved), 2, "at once, and at the last moment")
        self.assertEqual(saved[-1], stops, "no step is lost")
        self.assertGreater(saved[1], saved[0] + 10)
        with spotter.open(self.checkpoints) as run:
            self.assertEqual(run.restore()["step"], stops)
        words = ""
        while "X_SPOTTER_WINDOW_TRAINED_SECONDS" not in words:
            words = ear.recv(4096).decode()
        self.assertGreater(float(words.split("=")[1]), 1)

    def test_a_shell_script_says_it_in_one_line(self):
        ear = self.ear()
        if not shutil.which("systemd-notify"):
            self.skipTest("no systemd-notify here")
        subprocess.run(["systemd-notify", "--no-block", "X_SPOTTER_STEP=12", "X_SPOTTER_EPOCH=1"],
                       check=True, timeout=600)
        words = ear.recv(4096).decode().split("\n")
        self.assertIn("X_SPOTTER_STEP=12", words)
        self.assertIn("X_SPOTTER_EPOCH=1", words)


@unittest.skipUnless(torch, "python3-torch is not installed")
class PyTorch(Api):
    def train(self, run, steps):
        """Six lines of a user's; returns the final weights."""
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Dropout(),
                                    torch.nn.Linear(30, 1))
        optimizer = torch.optim.Adam(model.parameters())
        old = run.restore()
        if old:
            model.load_state_dict(old["model"])
            optimizer.load_state_dict(old["optimizer"])
            torch.set_rng_state(old["random"])
        for step in range(old.step + 1 if old else 1, steps + 1):
            loss = model(torch.randn(8, 20)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 5 == 0:
                run.save(step, model=model.state_dict(), optimizer=optimizer.state_dict(),
                         random=torch.get_rng_state())
        return model.state_dict()

    def test_a_resumed_run_ends_with_the_same_bits(self):
        with spotter.open(self.folder / "whole") as run:
            whole = self.train(run, 20)
        with spotter.open(self.checkpoints) as run:
            self.train(run, 13)  # three steps of it are lost
        with spotter.open(self.checkpoints) as run:
            resumed = self.train(run, 20)
        for name, tensor in whole.items():
            self.assertTrue(torch.equal(tensor, resumed[name]), name)

    def test_every_kind_of_tensor_and_array(self):
        shared = torch.arange(6.0)
        state = {"types": [torch.ones(3, 2, dtype=one) for one in
                           (torch.float16, torch.bfloat16, torch.int8, torch.bool,
                            torch.complex64)],
                 "strided": torch.arange(24).reshape(2, 3, 4).transpose(0, 2),
                 "scalar": torch.tensor(3.5), "empty": torch.empty(0, 4), "tied": [shared, shared],
                 "parameter": torch.nn.Parameter(torch.ones(2), requires_grad=False),
                 "array": numpy.arange(12, dtype=">i4").reshape(3, 4)[:, ::2],
                 "none": numpy.empty((0, 3)), "sparse": torch.eye(3).to_sparse(),
                 "conjugate": torch.tensor([1 + 2j, 3 - 4j]).conj(),
                 "negative": torch.tensor([1 + 2j, 3 - 4j]).conj().imag}
        with spotter.open(self.checkpoints) as run:
            run.save(1, state=state)
            back = run.restore() if run.flush() else run.restore()
        new = back["state"]
        for one, other in zip(state["types"], new["types"]):
            self.assertEqual(one.dtype, other.dtype)
            self.assertTrue(torch.equal(one, other))
        self.assertTrue(state["conjugate"].is_conj() and state["negative"].is_neg())
        for name in ("strided", "scalar", "empty", "parameter", "conjugate", "negative"):
            self.assertTrue(torch.equal(state[name], new[name]), name)
        self.assertIsInstance(new["parameter"], torch.nn.Parameter)
        self.assertIs(new["tied"][0], new["tied"][1])
        self.assertTrue(torch.equal(new["tied"][0], shared))
        numpy.testing.assert_array_equal(state["array"], new["array"])
        self.assertEqual(new["array"].dtype, state["array"].dtype)
        self.assertEqual(new["none"].shape, (0, 3))
        self.assertTrue(torch.equal(new["sparse"].to_dense(), torch.eye(3)))

    def test_memory_that_tensors_share_is_written_once_and_shared_again(self):
        weight, flat = torch.randn(300, 500), torch.arange(300_000.0)
        array = numpy.arange(90_000.0).reshape(300, 300)
        state = {"embedding": torch.nn.Parameter(weight), "head": weight, "again": weight.detach(),
                 "turned": weight.t(), "rows": flat[1000:3000].view(20, 100)[::2], "flat": flat,
                 "array": array, "same array": array[:]}
        apart = {"few": torch.arange(100_000.0).view(1000, 100)[:, 3], "other": weight.clone()}
        with spotter.open(self.checkpoints) as run:
            run.save(1, model=state, decoder=[weight.view(500, 300)], apart=apart)
            run.flush()
            step = self.checkpoints / "step-000000000001"
            written = sum(file.stat().st_size for file in step.iterdir())
            self.assertLess(written, 4 * (2 * 150_000 + 300_000) + 8 * 90_000 + 20_000)
            old = run.restore()
        new = old["model"]
        for name, one in state.items():
            self.assertEqual(type(one), type(new[name]))
            self.assertTrue((one == new[name]).all(), name)
        for name, one in apart.items():
            self.assertTrue(torch.equal(one, old["apart"][name]))
        for one in (new["head"], new["again"], new["turned"], old["decoder"][0]):
            self.assertEqual(one.data_ptr(), new["embedding"].data_ptr())
        new["flat"][1002] = -1
        self.assertEqual(new["rows"][0, 2], -1)
        self.assertIs(new["array"], new["same array"])

    def test_a_checkpoint_of_an_older_version_is_read(self):
        """Of one that wrote no views."""
        pickled = base64.b64decode(
            "gASV0gAAAAAAAAB9lCiMAWGUKIwFdG9yY2iUjAdzdGF0ZS4wlEsASxiMDXRvcmNoLmZsb2F0MzKUSwJL"
            "A4aUiYl0lFGMAWKUKGgCjAdzdGF0ZS4wlEtASxiMDXRvcmNoLmZsb2F0MzKUSwNLAoaUiIl0lFGMBHRp"
            "ZWSUXZQoaAZRaAZRZYwFYXJyYXmUKIwFbnVtcHmUjAdzdGF0ZS4wlEuASxBoD4wFZHR5cGWUk5SMAmk0"
            "lImIh5RSlChLA4wBPpROTk5K/////0r/////SwB0lGJLBIWUdJRRdS4=")
        whole = torch.arange(6.0).reshape(2, 3)
        parts = {"state.pickle": pickled,
                 "state.0": b"".join(each.tobytes().ljust(64, b"\0") for each in (
                     whole.numpy(), 2 * whole.t().numpy(), numpy.arange(4, dtype=">i4")))}
        memory = {name: (ctypes.c_char * len(part)).from_buffer_copy(part)
                  for name, part in parts.items()}
        new = _state.unpack(parts, memory.__getitem__)["state"]
        self.assertTrue(torch.equal(new["a"], whole) and torch.equal(new["b"], 2 * whole.t()))
        self.assertIsInstance(new["b"], torch.nn.Parameter)
        self.assertIs(new["tied"][0], new["tied"][1])
        self.assertTrue(torch.equal(new["tied"][0], whole))
        numpy.testing.assert_array_equal(new["array"], range(4))

    def test_what_is_restored_is_the_runs_own(self):
        """On a disk, and in memory, where the file's own pages are used."""
        for place in (None, "/dev/shm"):
            with tempfile.TemporaryDirectory(dir=place) as folder, spotter.open(folder) as run:
                for step in (1, 2):
                    run.save(step, weights=torch.full((1 << 20,), step), few=numpy.ones(3))
                run.flush()
                first = run.restore()
                first["weights"] += 5
                first["few"] += 5
                second = run.restore()
                self.assertTrue((second["weights"] == 2).all() and (second["few"] == 1).all())
                with open(f"{folder}/step-000000000002/weights.0", "r+b") as file:
                    file.write(b"rot")
                self.assertEqual(run.restore().step, 1)
                run.save(3, weights=first["weights"])
                run.save(4, weights=first["weights"])
            self.assertTrue((first["weights"] == 7).all(), "its files are gone")

    def test_a_tensor_of_another_class_stays_one(self):
        class Named(torch.Tensor):
            pass
        globals()["Named"] = Named
        Named.__qualname__ = "Named"
        with spotter.open(self.checkpoints) as run:
            named = torch.ones(3).as_subclass(Named)
            named.title = "ones"
            run.save(1, named=named)
            run.flush()
            old = run.restore()
        self.assertIs(type(old["named"]), Named)
        self.assertEqual((old["named"].title, old["named"].tolist()), ("ones", [1.0] * 3))

    def test_a_tensor_of_several_ranks_is_refused(self):
        class Sharded(torch.Tensor):
            def to_local(self):
                return self
        with spotter.open(self.checkpoints) as run:
            with self.assertRaisesRegex(spotter.SpotterError, "spotter.dcp"):
                run.save(1, model={"w": torch.ones(3).as_subclass(Sharded)})
            run.save(2, model={"w": torch.ones(3)})
            run.flush()
            self.assertEqual(run.restore().step, 2)

    def test_what_is_there_is_filled(self):
        state = {"model": {"a": torch.ones(3), "b": torch.ones(4), "c": 1}, "rest": [torch.ones(2)]}
        with spotter.open(self.checkpoints) as run:
            run.save(1, **state)
            run.flush()
            there = {"model": {"a": torch.zeros(3), "b": torch.zeros(5), "d": torch.zeros(2)},
                     "rest": [torch.zeros(2)]}
            old = run.restore(into=there)
        self.assertEqual(old.step, 1)
        self.assertIs(old["model"]["a"], there["model"]["a"])
        self.assertIs(old["rest"][0], there["rest"][0])
        self.assertTrue((there["model"]["a"] == 1).all() and (there["rest"][0] == 1).all())
        self.assertTrue(torch.equal(old["model"]["b"], torch.ones(4)), "of another size")
        self.assertTrue((there["model"]["d"] == 0).all())
        self.assertEqual(old["model"]["c"], 1)

    def test_frozen_layers_are_linked(self):
        frozen = [torch.randn(4 << 20) for _ in range(5)]  # 80 MiB: one part full, another begun
        head = torch.randn(1 << 20)
        with spotter.open(self.checkpoints, keep_last=3) as run:
            for step in (1, 2, 3):
                head += 1
                run.save(step, backbone=frozen, head=head)
            run.flush()
        one, two, three = (self.checkpoints / f"step-00000000000{step}" for step in (1, 2, 3))
        for name in ("backbone.0", "backbone.1"):
            self.assertTrue(os.path.samefile(one / name, three / name), name)
            self.assertFalse(os.path.samefile(two / name, three / name), "neighbours share none")
        self.assertFalse(os.path.samefile(one / "head.0", three / "head.0"))


if __name__ == "__main__":
    unittest.main()
