"""One model on several machines, any of which may go: real torchrun, gloo, DDP."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import gang_lives
import gangs
import harness
from emulator import Emulator, wait

EPOCHS, STEPS = 4, 40


class GangStory(unittest.TestCase):
    def setUp(self):
        if not gangs.has_torch():
            self.skipTest("python3-torch is not installed (scripts/setup)")
        self.world = Emulator(harness.BINARIES, name="gang", mode="user")
        self.gangs = []
        self.addCleanup(self.end)

    def end(self):
        for each in self.gangs:
            each.close()
        self.assertEqual(self.world.close(), [], "left behind")

    def gang(self, **options):
        self.gangs.append(gangs.Gang(self.world, **options))
        return self.gangs[-1]

    def wait_report(self, gang, member, condition):
        """What the member's agent says of the gang, once it fulfils that."""
        def fulfilled():
            report = gang.status(member).get("gang")
            return report if report and condition(report) else None
        return wait(f"{member} to report the gang", fulfilled)

    def assert_ended_well(self, gang, *members):
        self.assertEqual([gang.end(member) for member in members], [0] * len(members), gang.words())
        self.assertEqual(gang.record()["phase"], "done")
        digest, least, most, right = gang.result()
        self.assertEqual((least, most), (EPOCHS, EPOCHS), "each sample once an epoch")
        self.assertGreater(right, 0.9)
        return digest


class Gang(GangStory):
    def test_one_leaves_one_is_killed_and_others_come(self):
        # It does not end before all of this has happened, however slow the machine is.
        gate = self.world.workplace / "gate"
        gang = self.gang(size=4, least=2, PACE="0.4", HOLD="30", GATE=str(gate))
        gang.start_all()
        gang.wait_ranks(4, 0)
        noticed = time.time()
        gang.notice("m2")
        self.assertEqual(gang.end("m2"), 75)
        gang.wait_ranks(3, noticed)
        resumed = [step for step, ranks, when, _ in gang.notes("resumed") if when > noticed]
        before = max(step for step, _, when, _ in gang.notes() if when < noticed)
        self.assertGreaterEqual(min(resumed), before, "what it was noticed in is not lost")
        leader = gang.record()["ranks"][0].rsplit("-", 1)[0]
        killed = time.time()
        gang.kill(leader)
        gang.wait_ranks(2, killed)
        came = time.time()
        gang.start("m5")
        gang.wait_ranks(3, came)
        gate.touch()
        staying = {"m1", "m3", "m4", "m5"} - {leader}
        self.assert_ended_well(gang, *staying)
        # Who comes after the end has nothing to do.
        self.assertEqual(gang.end(gang.start("m6")), 0)

    def test_a_kill_costs_no_more_than_what_is_newer_than_the_copies_in_memory(self):
        gate, memory = (self.world.workplace / name for name in ("gate", "memory"))
        memory.mkdir()
        reports = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self.addCleanup(reports.close)
        agent = str(self.world.workplace / "agent.sock")
        reports.bind(agent)

        def says_so():
            with contextlib.suppress(BlockingIOError):
                while b'"copy_machines":3,' not in reports.recv(1 << 16):
                    continue
                return True
            return False
        gang = self.gang(size=3, least=2, every=1_000_000, PACE="0.4", HOLD="14", GATE=str(gate),
                         SPOTTER_GANG_COPY_EVERY="1", SPOTTER_GANG_MEMORY=str(memory),
                         NOTIFY_SOCKET=agent)
        gang.start_all()
        gang.wait_ranks(3, 0)
        gang.wait_step(6)
        wait("all three to have the newest copy", says_so)
        leader = gang.record()["ranks"][0].rsplit("-", 1)[0]
        killed = time.time()
        gang.kill(leader)
        before = max(step for step, *_ in gang.notes())
        self.assertEqual(list((gang.storage / gang.name / "checkpoints").glob("step-*")), [])
        gang.wait_ranks(2, killed)
        resumed = {step for step, _, when, _ in gang.notes("resumed") if when > killed}
        self.assertLessEqual(resumed, {before - 1, before})
        came = time.time()
        gang.start("m4")
        gang.wait_ranks(3, came)
        gate.touch()
        self.assert_ended_well(gang, *({"m1", "m2", "m3", "m4"} - {leader}))
        left = [folder.name for folder in memory.iterdir()]
        self.assertEqual(left, [f"spotter-gang-gang-{leader}"],
                         "who is killed leaves its copy to the machine's end")

    def test_of_one_size_it_ends_with_the_bits_of_an_undisturbed_one(self):
        quiet = self.gang(size=3, least=3, name="quiet", PACE="0")
        quiet.start_all()
        digest = self.assert_ended_well(quiet, "m1", "m2", "m3")
        gang = self.gang(size=3, least=3, PACE="0.3")
        gang.start_all()
        gang.wait_step(8)
        gang.kill("m3")
        gang.start("m4")
        gang.wait_step(20)
        gang.notice("m1")
        self.assertEqual(gang.end("m1"), 75)
        self.assertEqual(gang.end(gang.start("m1")), 0)
        self.assertEqual(self.assert_ended_well(gang, "m2", "m4"), digest)

    def test_s3_is_silent_for_a_while(self):
        gang = self.gang(size=2, least=2, PACE="0.4")
        gang.start_all()
        gang.wait_ranks(2, 0)
        before = gang.record()["round"]
        self.world.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(8)
        finally:
            self.world.process.send_signal(signal.SIGCONT)
        self.assert_ended_well(gang, "m1", "m2")
        self.assertEqual(gang.record()["round"], before, "a lease is longer than that")
        for member in ("m1", "m2"):
            log = (gang.place / f"{member}.log").read_text()
            self.assertIn("no answer within 5000 ms", log, "a beat has to fit into a lease")
            self.assertIn("S3 answers again", log)

    def test_a_trainer_that_fails_again_and_again_is_given_up(self):
        gang = self.gang(size=2, least=2, PACE="0", FAIL_AT="3", every=1000)
        gang.start_all()
        self.assertEqual([gang.end("m1"), gang.end("m2")], [1, 1], gang.words())
        self.assertIn("again and again", (gang.place / "m1.log").read_text())
        self.assertEqual(len({when for step, _, when, member in gang.notes("resumed")
                              if member == "m1"}), 3, "two more tries than one")

    def test_a_network_that_breaks_while_they_train_is_no_failure(self):
        gang = self.gang(size=2, least=2, PACE="0", TEAR="m2:3:4", every=1000)
        gang.start_all()
        self.assert_ended_well(gang, "m1", "m2")
        self.assertEqual((gang.place / "torn").read_text(), "xxxx", "more often than it may fail")
        self.assertEqual((gang.record()["torn"], gang.record()["failures"]), (4, 0))

    def test_machines_that_do_not_reach_one_another_do_not_fail(self):
        gang = self.gang(size=2, least=2, PACE="0")
        gang.start("m1")
        gang.start("m2", SPOTTER_GANG_ADDRESS="224.0.0.1")  # nobody can connect to that
        wait("several tries", lambda: gang.record().get("apart", 0) >= 4)
        self.assertEqual((gang.record()["failures"], gang.notes("resumed")), (0, []))
        self.assertRegex((gang.place / "m1.log").read_text(),
                         r"cannot reach m2 at 224\.0\.0\.1:\d+")
        gang.kill("m2")
        gang.start("m3")
        self.assert_ended_well(gang, "m1", "m3")

    def test_a_rank_that_hangs_is_named_and_the_round_is_made_again(self):
        gang = self.gang(size=2, least=2, PACE="0.1", HANG="m2:9", stall=8)
        gang.start_all()
        self.assert_ended_well(gang, "m1", "m2")
        hung, other = ((gang.place / f"{member}.log").read_text() for member in ("m2", "m1"))
        self.assertRegex(hung, r"hangs: local rank 0 in gang_digits\.py:\d+ in hang_once")
        self.assertNotIn("hangs: local rank", other)
        self.assertEqual(gang.record()["round"], 2)

    def test_it_is_not_done_without_its_result(self):
        gang = self.gang(size=1, least=1, PACE="0", result="result/no-such-file")
        gang.start_all()
        self.assertEqual(gang.end("m1"), 1, gang.words())
        self.assertEqual(gang.record()["phase"], "failed")
        self.assertIn("ended well without", (gang.place / "m1.log").read_text())

    def test_no_worker_outlives_its_torchrun_or_its_spotter_gang(self):
        gate = self.world.workplace / "gate"  # until then no worker ends by itself
        gang = self.gang(size=1, least=1, PACE="0", HOLD="3", GATE=str(gate))
        gang.start_all()
        for what, without in (("-m spotter.torchrun", "spotter gang"), ("spotter gang", "\0")):
            gang.wait_ranks(1, time.time())
            workers = gang.processes_of("m1", "gang_digits.py", without="torchrun")
            self.assertEqual(len(workers), 1, gang.words())
            launcher, = gang.processes_of("m1", what, without)
            os.kill(launcher, signal.SIGKILL)
            wait(f"the worker to end with {what}", lambda: not self.alive(workers))
        gang.kill("m1")
        gate.touch()
        self.assertEqual(gang.end(gang.start("m1")), 0, gang.words())

    @staticmethod
    def alive(pids):
        states = []
        for pid in pids:
            try:
                states.append(pathlib.Path(f"/proc/{pid}/status").read_text())
            except OSError:
                continue
        return [state for state in states if "\nState:\tZ" not in state]

    def test_a_job_is_a_gang(self):
        gang = self.gang(size=2, least=1, PACE="0.4")
        gang.as_job()
        gang.start_all()
        gang.wait_ranks(2, 0)
        leader = gang.record()["ranks"][0].rsplit("-", 1)[0]
        report = self.wait_report(gang, "m2", lambda report: report["machines"] == 2)
        self.assertEqual(sorted((it["name"], it["does"]) for it in report["by_name"]),
                         [("m1", "trains"), ("m2", "trains")])
        page = gang.page("m2")
        self.assertIn(f"round 1: 2 of 2 machines train, led by {leader}\n", page)
        self.assertRegex(page, r"\nlast round +in [\d.]+ s, \d+ s ago: the first\n")
        self.assertRegex(page, r"\ngoodput +\d+ %: ")
        wait("Prometheus to see it", lambda: {
            "spotter_gang_members 2", f'spotter_gang_info{{leader="{leader}",waits_for=""}} 1',
            'spotter_gang_member_info{member="m1",does="trains"} 1'}.issubset(
                gang.exported().splitlines()))
        checked = subprocess.run(["promtool", "check", "metrics"], input=gang.exported(), text=True,
                                 capture_output=True, check=False, timeout=60)
        self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
        noticed = time.time()
        gang.notice("m1")
        self.assertEqual(gang.end("m1"), 75)
        gang.wait_ranks(1, noticed)
        report = self.wait_report(gang, "m2", lambda report: report.get("why") == "left")
        self.assertEqual((report["who"], report["machines"], report["rounds"]), ("m1", 1, 2))
        self.assertRegex(gang.page("m2"), r"last round +in [\d.]+ s, \d+ s ago: m1 left\n")
        before = max(step for step, _, when, _ in gang.notes() if when < noticed)
        resumed = min(step for step, _, when, _ in gang.notes("resumed") if when > noticed)
        self.assertGreaterEqual(resumed, before, "what it was noticed in is not lost")
        self.assertEqual(gang.end(gang.start("m1")), 0)
        self.assert_ended_well(gang, "m2")
        home = gang.storage / "gang"
        for member in ("m1", "m2"):
            self.assertTrue((home / "members" / member / "DONE").exists())
            self.assertIn("round", (home / "members" / member / "log/trainer.log").read_text())
        agent = subprocess.run([f"{harness.BINARIES}/spotter", "agent", "--job",
                                str(gang.job_file)], env=gang.environment, capture_output=True,
                               text=True, timeout=90, check=False)
        self.assertEqual(agent.returncode, 75, "it does not know whose member it is")
        self.assertIn("`spotter run --job job.yaml --gang NAME` joins", agent.stderr)

    def test_a_life_drawn_from_a_seed(self):
        gang_lives.live(3, events=2)

    def test_a_namesake_is_refused(self):
        gang = self.gang(size=1, least=1, PACE="0")
        gang.start_all()
        self.assert_ended_well(gang, "m1")
        other = self.gang(size=1, least=1, PACE="0", name="other")
        other.job = gang.job
        other.start_all()
        self.assertNotIn(other.end("m1"), (0, 75))
        self.assertIn("another job's of the name gang", (other.place / "m1.log").read_text())

    def test_a_command_that_cannot_be_started_is_a_failure(self):
        gang = self.gang(size=1, least=1)
        gang.trainer = gang.place / "not_there.py"
        gang.start_all()
        self.assertNotIn(gang.end("m1"), (0, 75))


if __name__ == "__main__":
    unittest.main()
