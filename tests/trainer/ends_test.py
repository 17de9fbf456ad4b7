#!/usr/bin/python3
"""Why the ranks of a gang ended: real ranks with gloo, of which one goes, fails or is cut off."""

import array
import fcntl
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import termios
import textwrap
import time
import unittest

LIBRARY = pathlib.Path(__file__).resolve().parents[2] / "trainer/library/python"
sys.path.insert(0, str(LIBRARY))
try:
    import torch.distributed
except ImportError:
    print("python3-torch is not installed (scripts/setup)")
    sys.exit(77)
from spotter import _ends, _watchdog

# `last`: what rank 1 does once all have trained a step.
SCRIPT = """
import os, signal, socket, sys, time
from datetime import timedelta
import spotter
import torch
import torch.distributed as dist

def cut():
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as each:
                each.getpeername()
                each.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT))
rank = dist.get_rank()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
def step():
    model(torch.ones(2, 4)).sum().backward()
step()
if rank == 1:
    LAST
WORK
"""


class Ends(unittest.TestCase):
    def run_ranks(self, last, work="while True: step()", timeout=600):
        """Their exit statuses, and the verdict of each: as if on a machine of its own."""
        script = SCRIPT.replace("TIMEOUT", str(timeout)).replace("LAST", last)
        script = textwrap.dedent(script).replace("WORK", work)
        with socket.socket() as free, tempfile.TemporaryDirectory() as folder:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            free.close()
            ranks = []
            for rank in range(2):
                machine = pathlib.Path(folder) / str(rank)
                machine.mkdir()
                ranks.append(subprocess.Popen(
                    [sys.executable, "-c", script], stderr=subprocess.PIPE, text=True, env={
                        **os.environ, "RANK": str(rank), "LOCAL_RANK": "0", "WORLD_SIZE": "2",
                        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                        "SPOTTER_GANG_RANKS": str(machine), "PYTHONPATH": str(LIBRARY),
                        "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1", "USE_LIBUV": "0",
                        "PYTHONDONTWRITEBYTECODE": "1"}))
            try:
                said = [each.communicate(timeout=120)[1] for each in ranks]
            finally:
                for each in ranks:
                    each.kill()
                    each.wait()
            verdicts = []
            for rank, each in enumerate(ranks):
                os.environ["SPOTTER_GANG_RANKS"] = f"{folder}/{rank}"
                verdicts.append(_ends.verdict([(0, each.pid, each.returncode)]))
            return verdicts, "\n".join(said)

    def tearDown(self):
        os.environ.pop("SPOTTER_GANG_RANKS", None)

    def test_who_loses_one_that_was_killed_has_not_failed(self):
        verdicts, said = self.run_ranks("os.kill(os.getpid(), signal.SIGKILL)")
        self.assertEqual(verdicts, ["torn", "failed"], said)

    def test_a_script_that_ends_by_itself_has_failed(self):
        verdicts, said = self.run_ranks("sys.exit(9)")
        self.assertEqual(verdicts, ["torn", "failed"], said)

    def test_a_script_that_raises_has_failed(self):
        verdicts, said = self.run_ranks("raise ConnectionResetError('Connection reset by peer')")
        self.assertEqual(verdicts, ["torn", "failed"], said)

    def test_a_script_whose_error_is_its_own_cause_ends(self):
        verdicts, said = self.run_ranks("error = ValueError('no'); raise error from error")
        self.assertEqual(verdicts, ["torn", "failed"], said)

    def test_where_the_connection_between_them_breaks_none_has_failed(self):
        verdicts, said = self.run_ranks("cut()")
        self.assertEqual(verdicts, ["torn", "torn"], said)

    def test_nor_where_a_collective_times_out(self):
        # Within it the ranks also have to find one another, on a busy machine, too.
        verdicts, said = self.run_ranks("time.sleep(18); sys.exit(75)", timeout=6)
        self.assertEqual(verdicts, ["torn", ""], said)

    def test_collectives_that_do_not_fit_are_the_scripts_fault(self):
        verdicts, said = self.run_ranks(
            "pass", work="dist.all_reduce(torch.ones(4 + 1000 * rank)); time.sleep(1); sys.exit(1)")
        self.assertIn("failed", verdicts, said)  # gloo ends the one that gets too much


class Words(unittest.TestCase):
    """What other versions and NCCL say."""

    def judge(self, kind, words, cause=None):
        try:
            try:
                if cause:
                    raise cause
            finally:
                raise kind(words)
        except Exception as error:
            return _ends.lost_another(error)

    def test_of_nccl_and_gloo(self):
        for words in (
                "[../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by peer "
                "[10.0.0.2]:4711",
                "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out "
                "waiting 1800000ms for recv operation to complete",
                "NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1331, remote "
                "process exited or there was a network error, NCCL version 2.21.5",
                "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
                "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600012 milliseconds"):
            self.assertTrue(self.judge(RuntimeError, words), words)

    def test_of_the_script(self):
        for kind, words in (
                (RuntimeError, "Connection reset by peer"), (TimeoutError, "timed out"),
                (ValueError, "gloo/ timed out"), (RuntimeError, "CUDA out of memory"),
                (RuntimeError, "NCCL error: invalid usage"),
                (RuntimeError, "[enforce fail at gloo/transport/tcp/pair.cc:446] "
                               "op.preamble.length <= op.nbytes. 12000 vs 4"),
                # As torch/_utils.py raises it again, with the whole traceback as text.
                (RuntimeError, "Caught RuntimeError in DataLoader worker process 0.\n"
                               "  s3 = Client(nccl, timeout=30)\nRuntimeError: no such key"),
                (TimeoutError, "Caught TimeoutError in DataLoader worker process 0.\ngloo/"),
                (RuntimeError, "DataLoader timed out after 30 seconds; TCPStore"),
                (RuntimeError, "cannot read\n  TCPStore(host, timeout=30)"),
                (RuntimeError, "NCCL error in: ../ProcessGroupNCCL.cpp:1331, unhandled cuda error\n"
                               "Last error:\nCuda failure 'the launch timed out'"),
                (RuntimeError, "CUDA error: the launch timed out and was terminated; gloo::"),
                (RuntimeError, "Detected mismatch between collectives on ranks. Rank 0 is running "
                               "collective: CollectiveFingerPrint(ProcessGroupGloo, Timeout=1)"),
                (RuntimeError, "NCCL error in: ../ProcessGroupNCCL.cpp:1331, invalid usage\n"
                               "Exception raised from WorkNCCL::checkTimeout")):
            self.assertFalse(self.judge(kind, words), words)

    def raised_by(self, file, words):
        """As if the source of that name in torch's folder raised it."""
        path = os.path.join(os.path.dirname(torch.__file__), file)
        try:
            exec(compile("raise TimeoutError(words)", path, "exec"), {"words": words})
        except TimeoutError as error:
            return _ends.lost_another(error)

    def test_where_torch_waits_for_other_ranks(self):
        for file in ("distributed/distributed_c10d.py", "autograd/__init__.py",
                     "nn/parallel/distributed.py"):
            self.assertTrue(self.raised_by(file, "Timed out waiting 1800000ms"), file)
            self.assertFalse(self.raised_by(file, "CUDA error: the launch timed out"), file)
            self.assertFalse(self.raised_by(file, "no such key\n  get(timeout=30)"), file)
        for file in ("_utils.py", "utils/data/dataloader.py", "distributed_data.py", "hub.py"):
            self.assertFalse(self.raised_by(file, "The read operation timed out"), file)

    def test_of_nccls_last_lines(self):
        self.assertTrue(self.judge(
            RuntimeError, "NCCL error in: /pytorch/NCCLUtils.hpp:275, unhandled system error, NCCL "
            "version 2.20.5\nncclSystemError: System call failed or device error.\nLast error:\n"
            "socketStartConnect: Connect to 10.0.0.2<4711> failed : Connection refused"))

    def test_errors_in_a_circle_have_a_first(self):
        lost = "gloo/transport/tcp/pair.cc:598] Connection closed by peer"
        one, other = RuntimeError(lost), ValueError("cannot save")
        one.__cause__ = one
        self.assertTrue(_ends.lost_another(one))
        one.__cause__, other.__cause__ = other, one
        self.assertTrue(_ends.lost_another(one), "as where it is raised again from the other")
        self.assertFalse(_ends.lost_another(other))

    def test_the_first_counts(self):
        lost = "gloo/transport/tcp/pair.cc:598] Connection closed by peer"
        self.assertTrue(self.judge(ValueError, "cannot save", RuntimeError(lost)))
        self.assertFalse(self.judge(RuntimeError, lost, ValueError("cannot save")))


class Watchdog(unittest.TestCase):
    """torchrun's process, and a worker that is aborted."""
    PROGRAM = """
import subprocess, sys
sys.path.insert(0, sys.argv[1])
from spotter import _ends, _watchdog
_watchdog.begin()
_watchdog.begin()
worker = subprocess.Popen([sys.executable, "-c", sys.argv[2]])
worker.wait()
said = _watchdog.said()
print(_ends.verdict([(0, worker.pid, worker.returncode)], said, {0: 3}), len(said))
_watchdog.forget()
print(_watchdog.said())
_watchdog.end()
print("after it", file=sys.stderr)
"""
    WHAT = ("  what():  [PG 0 Rank 3] Process group watchdog thread terminated with exception: "
            "[Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, "
            "Timeout(ms)=1800000) ran for 1800011 milliseconds before timing out.\\n"
            "Exception raised from checkTimeout at ProcessGroupNCCL.cpp:632\\n")

    def run_worker(self, program):
        program = "import os, sys, time\n" + program + "\nos.abort()"
        done = subprocess.run(
            [sys.executable, "-c", self.PROGRAM, str(LIBRARY), program], text=True,
            capture_output=True, timeout=600, check=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        return done.stdout.splitlines(), done.stderr

    def test_says_why_and_its_words_are_handed_on(self):
        said, errors = self.run_worker(f"os.write(2, b'x' * 200000 + b'{self.WHAT}')")
        self.assertEqual(said, ["torn 1", "[]"])
        self.assertTrue(errors.startswith("x" * 200000 + self.WHAT.replace("\\n", "\n")))
        self.assertTrue(errors.endswith("after it\n"))

    def test_may_come_in_pieces(self):
        said, _ = self.run_worker(f"for each in b'{self.WHAT}': os.write(2, bytes([each]))")
        self.assertEqual(said[0], "torn 1")

    def test_words_reach_also_one_that_reads_late_without_blocking_the_writer(self):
        ours, theirs = os.pipe()
        os.set_blocking(theirs, False)
        with open(ours, "rb") as reader:
            with subprocess.Popen(
                    [sys.executable, "-c", self.PROGRAM, str(LIBRARY),
                     "import os; os.write(2, b'x' * 400000)"],
                    stdout=subprocess.DEVNULL, stderr=theirs) as program:
                os.close(theirs)
                waiting = array.array("i", [0])
                while waiting[0] < 1 << 16 and program.poll() is None:  # the pipe is full
                    fcntl.ioctl(ours, termios.FIONREAD, waiting)
                    time.sleep(0.05)
                self.assertEqual(reader.read().count(b"x"), 400000)
            self.assertEqual(program.returncode, 0)

    def test_did_not_say_what_a_worker_of_an_earlier_round_began(self):
        words = f"[Rank 3] {Verdict.TIMEOUT}".encode()
        _watchdog._look(words)
        _watchdog.forget()
        _watchdog._look(b" and more\n")
        self.assertEqual(_watchdog.said(), [])
        _watchdog._look(b"half of it\r" + words + b"\rmore")
        self.assertEqual(_watchdog.said(), [(3, Verdict.TIMEOUT)])
        _watchdog.forget()

    def test_speaks_of_its_rank_of_all_where_it_knows_it(self):
        _watchdog._look(
            f"[rank7]:[E1126 c.cpp:1] [rank11]:[E1126 P.cpp:632] [Rank 3] {Verdict.TIMEOUT}\n"
            f"[rank7]: x\n[PG 0 Rank 2] {Verdict.TIMEOUT}\n".encode())
        self.assertEqual(_watchdog.said(), [(11, Verdict.TIMEOUT), (2, Verdict.TIMEOUT)])
        _watchdog.forget()

    def test_has_not_spoken_where_a_script_aborts(self):
        self.assertEqual(self.run_worker("print('timed out', file=sys.stderr)")[0][0], "failed 0")


class Verdict(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(os.environ.pop, "SPOTTER_GANG_RANKS", None)
        self.folder = os.environ["SPOTTER_GANG_RANKS"] = folder.name

    def say(self, rank, text):
        (pathlib.Path(self.folder) / f"{rank}.end").write_text(text)

    def test_one_that_failed_is_the_reason_though_torchrun_ended_it(self):
        self.say(0, "17 torn")
        self.assertEqual(_ends.verdict([(0, 17, 1)]), "torn")
        self.say(1, "18 failed")
        self.assertEqual(_ends.verdict([(0, 17, 1)]), "failed")

    TIMEOUT = ("Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
               "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.")

    def test_one_that_nccls_watchdog_aborts_for_the_network_has_not_failed(self):
        ended = "Process group watchdog thread terminated with exception: "
        remote = ("NCCL watchdog thread terminated with exception: NCCL error: remote process "
                  "exited or there was a network error, NCCL version 2.18.1")
        def judge(*failures):
            return _ends.verdict(failures, [(3, text)], {0: 3, 1: 4})
        for text in (self.TIMEOUT, ended + "[Rank 3] " + self.TIMEOUT, remote):
            self.assertEqual(judge((0, 17, -6)), "torn", text)
            self.assertEqual(judge((0, 17, 1)), "failed", text)
            self.assertEqual(judge((0, 17, -6), (1, 18, -6)), "failed", text)
            self.assertEqual(judge((1, 18, -6)), "failed", "the words are another rank's")
            self.say(1, "18 torn")
            self.assertEqual(judge((0, 17, -6), (1, 18, 1)), "torn", text)
            self.say(1, "18 failed")
            self.assertEqual(judge((0, 17, -6)), "failed", text)
            os.remove(f"{self.folder}/1.end")
        for text in (ended + "CUDA error: an illegal memory access was encountered",
                     ended + "CUDA error: the launch timed out and was terminated",
                     ended + "NCCL error: unhandled cuda error, NCCL version 2.18.1",
                     ended + "Detected mismatch between collectives on ranks; timeout"):
            said = [(3, self.TIMEOUT), (3, text)]
            self.assertEqual(_ends.verdict([(0, 17, -6)], said, {0: 3}), "failed", text)

    def test_who_says_nothing_has_failed(self):
        self.say(0, "17 torn")
        self.assertEqual(_ends.verdict([(0, 17, 1), (1, 18, -9)]), "failed")
        self.assertEqual(_ends.verdict([(0, 19, 1)]), "failed", "another process said it")
        for text in ("", "17", "x y", "17 torn torn"):
            self.say(0, text)
            self.assertEqual(_ends.verdict([(0, 17, 1)]), "failed", text)

    def test_who_ends_as_asked_has_not(self):
        self.say(0, "17 torn")
        self.assertEqual(_ends.verdict([(0, 17, 1), (1, 18, 75)]), "torn")
        self.assertEqual(_ends.verdict([(0, 17, 75)]), "")


if __name__ == "__main__":
    unittest.main()
