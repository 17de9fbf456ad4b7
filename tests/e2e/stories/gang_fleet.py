"""A gang that `spotter launch` starts, on one fleet: one of its instances is noticed and replaced,
one that hangs twice is given back and replaced, and when the result is there the fleet is
cancelled. Each role may do what `spotter iam` prints for it, and nothing else."""

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import gangs
import harness
import job as jobs
import launched
from emulator import Emulator, wait


class GangFleet(launched.Launched, gangs.Journal):
    job_name = "gang"
    trainer = gangs.TRAINER
    size = 3

    def make_world(self):
        # With a network of its own none would reach another.
        return Emulator(harness.BINARIES, name="gang", mode="user")

    def setUp(self):
        if not gangs.has_torch():
            self.skipTest("python3-torch is not installed (scripts/setup)")
        if pathlib.Path(harness.BINARIES).parent.name == "asan":
            self.skipTest("the sanitizers' runtime would have to be preloaded into python3")
        super().setUp()
        self.folder, scratch = (self.world.workplace / name for name in ("shared", "scratch"))
        for folder, mode in ((self.folder, 0o755), (scratch, 0o777)):
            folder.mkdir()
            folder.chmod(mode)
        (self.world.directory / "s3/gangs").mkdir(parents=True)
        self.gate = self.world.workplace / "gate"
        self.variables = {**gangs.variables(self.journal, scratch),
                          "PACE": "0.1", "HOLD": "8", "GATE": str(self.gate)}
        self.hangs = self.world.workplace / "hangs"
        self.stall = {}
        self.near = {}
        self.failure = {}

    def words(self):
        return json.dumps(self.record()) + "\n" + self.world.logs(60)

    def record(self):
        try:
            return json.loads(
                (self.world.directory / f"s3/gangs/all/{self.job_name}/gang").read_text())
        except (OSError, ValueError):
            return {}

    def described(self):
        return jobs.yaml(jobs.document(
            self.job_name, self.repository, self.revision, gangs.command(harness.BINARIES),
            trainer={"env": self.variables, "result": "result/weights.txt"},
            storage={"folder": {"path": str(self.folder)}},
            gang={"size": self.size, "min": 1, "at": "s3://gangs/all", "lease": "20s",
                  "replace_after": "1s", **self.stall},
            on_failure=self.failure,
            launch={"type": self.kind, "image": "resolve:ssm:/aws/service/debian/12",
                    "instance_types": ["g5.xlarge"], "zones": self.world.zones,
                    "profile": "spotter-role", **self.near})) + "\n"

    def go(self, *_, **__):
        self.file = self.world.workplace / "job.yaml"
        text = self.described()
        self.file.write_text(text)
        self.world.allow_only(text)
        self.fleet = self.spotter("launch", self.file).stdout.strip()
        return self._wait(f"{self.size} instances", lambda: self.size == len(self.running()) and
                          self.running())

    def running(self):
        return [one.text("instanceId") for one in self.ec2.instances()
                if one.text("instanceState/name") == "running"]

    def assert_done(self):
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        wait("the instances to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        _, least, most, right = (
            self.folder / self.job_name / "result/weights.txt").read_text().split()
        self.assertEqual((least, most), ("4", "4"), "each sample once an epoch")
        self.assertGreater(float(right), 0.9)
        self.assertEqual(self.record()["phase"], "done")

    def test_one_is_noticed_and_replaced_and_the_end_cancels_the_fleet(self):
        first = self.go()
        self.wait_ranks(3, 0)
        self.assertEqual({member for _, _, _, member in self.notes()}, set(first),
                         "members are named after their instances")
        fleet, = self.listed()[self.job_name]["fleets"]
        self.assertEqual((fleet["id"], fleet["target"]), (self.fleet, 3))
        self.assertEqual({one["id"] for one in self.listed()[self.job_name]["instances"]},
                         set(first))
        self.wait_step(8)
        noticed = time.time()
        self.notice(first[0], 60)  # a gang trains on for as long as is safe
        self.wait_ranks(3, noticed)
        resumed = min(step for step, _, when, _ in self.notes("resumed") if when > noticed)
        self.assertGreaterEqual(resumed, 8, "what it was noticed in is not lost")
        self.assertNotIn(first[0], {member for _, _, when, member in self.notes("resumed")
                                    if when > noticed})
        self.assertFalse(self.fleet_is_cancelled())
        self.gate.touch()
        self.assert_done()

    def faults(self, instance):
        """Of a member that trains again, by the record; None: it is not there."""
        for one in self.record().get("members", []):
            if one["name"] == instance:
                return one.get("faults", 0)
        return None

    def hang_twice(self):
        """The gang has a machine that hangs wherever it is started; it and the others."""
        self.stall = {"stall": "30s"}
        self.variables["HANGS"] = str(self.hangs)
        bad, *others = self.go()
        self.wait_ranks(3, 0)
        self.wait_step(8)
        self.hangs.write_text(bad)
        self._wait("the first fault", lambda: self.faults(bad) == 1)
        return bad, others

    def assert_replaced(self, bad, others):
        went = time.time()
        self._wait("it to be gone", lambda: bad not in self.running())
        self.assertFalse(self.fleet_is_cancelled())
        self._wait("another instance", lambda: len(self.running()) == 3)
        self.wait_ranks(3, went)
        trains = {member for _, ranks, when, member in self.notes() if when > went}
        self.assertEqual(trains, set(self.running()))
        self.assertLess(set(others), trains, "nobody else was given back")
        self.assertEqual(self.record()["given_back"], 1)
        self.gate.touch()
        self.assert_done()

    def test_one_that_hangs_twice_is_given_back_and_replaced(self):
        bad, others = self.hang_twice()
        self.wait_console(bad, f"giving back {bad}")
        self.assert_replaced(bad, others)

    def test_it_is_given_back_also_where_its_agent_did_not_see_that(self):
        bad, others = self.hang_twice()
        agents = self.agents(bad)
        for pid in agents:
            os.kill(pid, signal.SIGSTOP)
        ended = self.world.instance(bad) / "run/ended.json"
        self._wait("its gang to say so", lambda: ended.exists() and
                   json.loads(ended.read_text()).get("exit_code") == 69)
        for pid in agents:
            os.kill(pid, signal.SIGKILL)
        self.wait_console(bad, f"giving back {bad}")
        self.assert_replaced(bad, others)

    def test_one_that_stays_blocked_ends_with_its_place_and_the_others_train_on(self):
        self.failure = {"blocked": "1s"}
        gone, *others = self.go()
        self.wait_ranks(3, 0)
        self.wait_step(8)
        away = self.repository.rename(self.repository.with_name("away"))
        self.world.interrupt(gone, 15)
        last, = self._wait("another instance", lambda: set(self.running()) - {gone, *others})
        self.wait_console(last, f"the target capacity of {self.fleet} goes down by one")
        self._wait("it to be gone", lambda: set(self.running()) == set(others))
        went = time.time()
        self.assertEqual(self.listed()[self.job_name]["fleets"][0]["target"], 2)
        away.rename(self.repository)
        self.wait_ranks(2, went - 60)
        self.gate.touch()
        self.assert_done()
        self.assertEqual(set(self.running()), set())

    def placed(self):
        return {one.text("placement/groupName") for one in self.ec2.instances()
                if one.text("instanceState/name") == "running"}

    def test_stopped_and_launched_again_it_goes_on(self):
        self.near = {"zones": self.world.zones[:1], "placement_group": "own"}
        first = self.go()
        self.assertEqual(self.placed(), {f"spotter-{self.job_name}"})
        self.wait_ranks(3, 0)
        self.wait_step(8)
        done = self.spotter("stop", self.job_name, "--wait")
        self.assertIn(f"placement group spotter-{self.job_name} is deleted", done.stderr)
        self.assertTrue(self.fleet_is_cancelled())
        self.assertNotIn(self.record()["phase"], ("done", "failed"))
        stopped, before = time.time(), self.step()
        second = self.go()
        self.assertFalse(set(first) & set(second))
        self.wait_ranks(3, stopped)
        resumed = min(step for step, _, when, _ in self.notes("resumed") if when > stopped)
        self.assertGreaterEqual(resumed, before, "what it was stopped in is not lost")
        self.gate.touch()
        self.assert_done()


if __name__ == "__main__":
    harness.main()
