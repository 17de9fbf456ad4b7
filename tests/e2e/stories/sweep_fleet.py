"""A sweep on a spot fleet with nothing but a bucket to share it out: each experiment once."""

import contextlib
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fake_trainer
import harness
import job as jobs
import volumes
from emulator import wait


class Shared(harness.Story):
    """A fleet, a folder that all its instances see, and a bucket for the claims."""

    job_name = "tuning"
    steps = 40
    hosts = 3
    lease = "5s"  # of a claim: for so long is a machine waited for that is gone

    def setUp(self):
        super().setUp()
        self.folder = self.world.workplace / "shared"
        self.folder.mkdir()
        self.folder.chmod(0o755)
        self.journal = self.world.workplace / "journal"
        self.journal.mkdir()
        self.journal.chmod(0o777)
        self.bucket = self.world.directory / "s3" / "claims"
        self.bucket.mkdir(parents=True)

    def request_fleet(self, template, zones):
        return self.ec2.request_spot_fleet(template, zones, self.hosts, self.fleet_tags())

    def begin(self, experiments, *words, **more):
        return self.launch(self.sweep(experiments, *words, **more), zones=self.world.zones)

    def sweep(self, experiments, command="./train.py", env=None, **more):
        env = {"STEPS": str(self.steps), "JOURNAL": str(self.journal), "FORMAT": "spotter",
               "PACE": "0.1", **(env or {})}
        sets = [{"lr": index / 10} for index in range(experiments)]
        sweep = {"sweep": {"parameters": sets}} if experiments else {}
        storage = {"storage": {"folder": {"path": str(self.folder)}}, **more}
        return jobs.document(self.job_name, self.repository, self.revision, command,
                             trainer={"env": env}, **sweep, **storage,
                             claims={"at": "s3://claims/all", "lease": self.lease})

    def home(self, index):
        return self.folder / self.job_name / str(index)

    def running(self):
        return [one.text("instanceId") for one in self.ec2.instances()
                if one.text("instanceState/name") == "running"]

    def trainer_runs(self, index):
        """Of each start of this experiment's trainer, in their order: the steps."""
        return [[int(line.split()[1]) for line in path.read_text().splitlines()]
                for path in sorted(self.journal.glob(f"*-{index}"))]

    def busy(self, index, steps):
        """The instance that trains it, once it has come so far."""
        def found():
            paths = sorted(self.journal.glob(f"*-{index}"))
            if paths and len(paths[-1].read_text().splitlines()) >= steps:
                return "-".join(paths[-1].name.split("-")[1:-1])
            return None
        return wait(f"experiment {index} to do {steps} steps", found)

    def wait_end(self):
        wait("the fleet to be cancelled",
             lambda: self.ec2.fleet_state(self.fleet) == "cancelled")
        wait("the instances to be gone", lambda: not self.running())

    def assert_result(self, index, home=None):
        home = home or self.home(index)
        self.assertEqual((home / "result" / "weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertEqual(json.loads((home / "DONE").read_text())["job"], self.job_name)
        attempts = [path for path in home.iterdir() if path.name.startswith("attempt-")]
        self.assertEqual(len(attempts), 1, "only the one that counts is kept")
        self.assertEqual((home / "result").resolve().parent, attempts[0])

    def assert_done(self, index, home=None, kills=0):
        home = home or self.home(index)
        self.assert_result(index, home)
        done = [step for run in self.trainer_runs(index) for step in run]
        self.assertEqual(done, sorted(set(done)), "a durable step was done again")
        self.assertLessEqual(self.steps - len(done), kills, f"not done: {index}")

    def published(self, index):
        """What became of it, as it lies beside its claim."""
        return json.loads((self.bucket / f"all/{self.job_name}/{index:05d}.result").read_text())

    def claim(self, index):
        return json.loads((self.bucket / f"all/{self.job_name}/{index:05d}.claim").read_text())

    def first_begun(self):
        def found():
            paths = sorted(self.journal.iterdir())
            return paths[0].name.rsplit("-", 1)[1] if paths else None
        return wait("an experiment to begin", found)

    def begun_on(self, instance):
        paths = sorted(self.journal.glob(f"*-{instance}-*"))
        return paths[-1].name.rsplit("-", 1)[1] if paths else None


class SweepFleet(Shared):
    def test_interruptions_all_along_and_each_is_done_once(self):
        topic = self.world.directory / "sns" / "training"
        topic.parent.mkdir()
        topic.touch()
        self.begin(6, notify={"topic": "arn:aws:sns:us-west-2:123456789012:training"})
        lost = self.busy(self.first_begun(), 8)
        self.world.kill(lost)
        noticed = wait("another one to run", lambda: next(
            (one for one in self.running() if one != lost), None))
        self.world.interrupt(noticed, 120)
        self.wait_console(noticed, "releasing the work: the instance is about to end")
        self.world.kill(noticed)
        self.wait_end()
        for each in range(6):
            self.assert_done(each, kills=1)
            self.assertEqual(self.claim(each)["state"], "done")
            self.assertEqual(self.published(each)["parameters"], {"lr": each / 10})
            self.assertEqual((self.published(each)["state"], self.published(each)["step"]),
                             ("done", self.steps))
        self.assertGreaterEqual(sum(self.claim(each)["token"] for each in range(6)), 8)
        sent = [json.loads(line) for line in topic.read_text().splitlines()]
        # More than once where two machines see the end at the same moment.
        self.assertIn("spotter: tuning: finished", [one["Subject"] for one in sent])
        self.assertIn(f"tuning: interruption notice: {noticed} ends in ", sent[0]["Message"])

    def test_who_finds_nothing_to_do_leaves_the_fleet_smaller(self):
        self.hosts = 4
        self.steps = 300
        self.begin(2)
        wait("the two others to leave", lambda: self.ec2.fleet_target(self.fleet) == 2)
        wait("them to be gone", lambda: len(self.running()) == 2)
        self.assertNotIn("cancel", self.ec2.fleet_state(self.fleet))
        self.wait_end()
        for each in range(2):
            self.assert_done(each)
            self.assertEqual(len(self.trainer_runs(each)), 1, "whoever trained was left alone")

    def test_one_that_only_fails_is_given_up_and_the_others_are_done(self):
        self.begin(4, "test {lr} != 0.2 && exec ./train.py; echo broken; exit 2")
        self.wait_end()
        for each in (0, 1, 3):
            self.assert_done(each)
        self.assertEqual((self.claim(2)["state"], self.claim(2)["failures"]), ("failed", 2))
        self.assertFalse((self.home(2) / "DONE").exists())
        self.assertEqual(self.published(2)["state"], "failed")

    def test_a_namesakes_claims_are_neither_believed_nor_changed(self):
        self.hosts = 1
        self.begin(2)
        self.wait_end()
        prefix = self.bucket / "all" / self.job_name
        claims = {path.name: path.read_bytes() for path in prefix.iterdir()}
        others = self.world.workplace / "others"
        others.mkdir()
        others.chmod(0o755)
        text = jobs.yaml(self.sweep(2, storage={"folder": {"path": str(others)}}))
        template = self.ec2.create_template("namesake", self.user_data(text, True, ""))
        self.fleet = self.request_fleet(template, self.world.zones)
        instance = self.wait_instance()
        self.wait_console(instance, "two jobs have this name: these claims are of the one on "
                          f"folder:{self.folder}, and this one is on folder:{others}")
        wait("its agent to end", lambda: not self.agents(instance))
        self.assertEqual(claims, {path.name: path.read_bytes() for path in prefix.iterdir()})
        self.assertNotIn("cancel", self.ec2.fleet_state(self.fleet), "it took itself for done")
        self.assertEqual([path.name for path in (others / self.job_name).iterdir()], [".spotter"])

    def test_without_s3_the_trainer_ends_with_its_lease_and_goes_on_afterwards(self):
        self.hosts = 1
        self.steps = 200
        first = self.begin(1)
        self.busy(0, 5)
        self.world.control("fault", "deny", "PutObject")
        self.wait_console(first, "the claim is lost")
        wait("the trainer to be gone", lambda: not self.trainers(first))
        before = self.trainer_runs(0)
        self.world.control("fault", "clear")
        self.busy(0, 1)
        self.wait_end()
        self.assert_done(0, kills=1)
        self.assertEqual(self.trainer_runs(0)[:1], before)
        self.assertEqual(len(self.trainer_runs(0)), 2)


class Sleepers(Shared):
    """Machines and agents that stand still, or die."""

    hosts = 2

    def signal(self, instance, number):
        for pid, _ in self.everybody(instance):
            with contextlib.suppress(ProcessLookupError):  # who woke first ended it
                os.kill(pid, number)

    def test_a_machine_that_stood_still_wakes_up_to_stop(self):
        self.begin(2)
        first = self.busy(self.first_begun(), 5)
        index = self.begun_on(first)
        self.signal(first, signal.SIGSTOP)
        try:
            wait("another to take over", lambda: len(self.trainer_runs(index)) == 2)
        finally:
            self.signal(first, signal.SIGCONT)
        self.wait_console(first, "the claim is lost")
        self.wait_end()
        for each in range(2):
            self.assert_result(each)
        # What the sleeper did when it woke is in nobody's way.
        self.assertEqual(self.claim(int(index))["token"], 2)

    def test_a_killed_worker_is_followed_by_one_that_waits_for_what_it_left(self):
        self.hosts = 1
        self.steps = 100
        instance = self.begin(1)
        self.busy(0, 5)
        worker = self.agents(instance)[0]
        os.kill(worker, signal.SIGKILL)
        wait("it to be started again", lambda: [pid for pid in self.agents(instance)
                                                if pid != worker])
        self.wait_end()
        self.assert_done(0)
        self.assertEqual(self.claim(0)["token"], 2)


class Volumes(Shared):
    """A volume for each experiment, found by its index."""

    hosts = 2

    def test_each_experiment_has_a_volume_of_its_own(self):
        for index in range(3):
            self.volume(jobs.volume_tags(f"{jobs.TAG}:{index}", self.job_name),
                        zone=self.world.zones[index % 2])
        self.begin(3, storage={"ebs": {"tag": {"Name": jobs.TAG}, "mount": "${SPOTTER_MOUNT}",
                                       "filesystem": "xfs", "consistency_bound": "1s"}})
        index = int(self.first_begun())
        first = self.busy(index, 5)
        self.world.interrupt(first, 20)
        self.wait_end()
        left = {volume.tags()["Name"]: volume for volume in self.ec2.volumes()}
        self.assertEqual(sorted(left), [f"{jobs.TAG}:{index}" for index in range(3)])
        self.assertEqual(len(self.ec2.volumes()), 3)
        self.assertEqual(self.ec2.snapshots(), [])
        self.world.stop()
        for index in range(3):
            volume = left[f"{jobs.TAG}:{index}"]
            self.assertEqual(volume.tags()["spotter:done"], "true")
            result = volumes.copy_out(self.world, volume.text("volumeId"), "result")
            self.assertEqual((result / "weights.bin").read_text(),
                             fake_trainer.result_of(self.steps))
            done = [step for run in self.trainer_runs(index) for step in run]
            self.assertEqual(done, list(range(1, self.steps + 1)))


class OneJob(Shared):
    """One job on a share, and more than one machine that could train it."""

    hosts = 2
    steps = 80

    def test_one_machine_trains_and_another_takes_over(self):
        self.begin(0)
        first = self.busy(0, 5)
        self.world.kill(first)
        self.busy(0, 3)
        self.wait_end()
        self.assert_done(0, self.folder / self.job_name, kills=1)
        self.assertEqual(len(self.trainer_runs(0)), 2)


if __name__ == "__main__":
    harness.main()
