"""A sweep on AWS Batch from `spotter sweep submit` to its results: hosts are taken away, a script
fails, people cancel and try again, and each set is trained once, each step of it once."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import fake_trainer
import harness
import job as jobs
from emulator import Emulator, wait

try:
    import boto3
except ImportError:
    boto3 = None

AWS = pathlib.Path("/usr/bin/aws")
HOST = "p3.2xlarge"  # has 8 vCPUs: as many as one set wants
TEMPLATE = "spotter-tuning.batch"  # what `spotter iam roles` calls it
PART = b"some data " * 300_000

# What is in the image: it reads its channel, trains, and leaves a model. It fails while `fails` has
# its set's number, and is slow while there is `slow`: who wants to take its host away, or to cancel
# it, is not late.
TRAINER = """\
import os, pathlib, sys, time
sys.path.insert(0, {here!r})
import fake_trainer
place = pathlib.Path({place!r})
index = os.environ["SPOTTER_EXPERIMENT"]
if (place / "fails" / index).exists():
    sys.exit(3)
with open(os.environ["SM_CHANNEL_TRAIN"] + "_0", "rb") as channel:
    if channel.read() != {part!r} * 2:
        sys.exit("these are not the bytes")
os.environ["JOURNAL"] = str(place / "journal" / index)
sleep = time.sleep
time.sleep = lambda seconds: sleep(2 if (place / "slow").exists() else seconds)
fake_trainer.main()
(pathlib.Path(os.environ["SPOTTER_MODEL"]) / "set").write_text(" ".join(sys.argv[1:]))
"""


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class SweepBatch(unittest.TestCase):
    steps = 40
    sets = 4

    def setUp(self):
        self.world = Emulator(harness.BINARIES, name="batch", mode=harness.MODE)
        self.addCleanup(self._end)
        self.place = self.world.workplace
        for each in ("storage", "journal", "fails"):
            (self.place / each).mkdir()
        self.slow = self.place / "slow"
        self.slow.touch()
        for index in range(self.sets):
            (self.place / "journal" / str(index)).mkdir()
        bucket = self.world.directory / "s3/sweeps"
        (bucket / "data").mkdir(parents=True)
        for name in ("a", "b"):
            (bucket / "data" / name).write_bytes(PART)
        (bucket / "sets.yml").write_text(
            "".join(f"- {{lr: 0.{index + 1}}}\n" for index in range(self.sets)))
        (self.place / "train.py").write_text(TRAINER.format(
            here=str(pathlib.Path(fake_trainer.__file__).parent), place=str(self.place),
            part=PART))
        for name, value in (("resource-change", "100ms"), ("entry", "100ms"), ("start", "100ms"),
                            ("registration", "100ms"), ("capacity-retry", "500ms")):
            self.world.control("fault", f"batch-{name}", f"of={value}")
        self.environment = {
            **self.world.launcher(), "HOME": str(self.place), "AWS_PAGER": "",
            "AWS_DEFAULT_REGION": ec2.REGION}
        self.batch = boto3.client(
            "batch", region_name=ec2.REGION, endpoint_url=self.world.ec2.endpoint,
            aws_access_key_id=ec2.USER, aws_secret_access_key=self.world.secret)
        self.addCleanup(self.batch.close)
        self.world.allow_nothing()

    def _end(self):
        result = self._outcome.result
        if result and result.failures + result.errors:
            print(self.world.logs(), *(f"--- {path}\n{path.read_text(errors='replace')}" for path
                  in sorted(self.world.directory.glob("batch/**/*.log"))), file=sys.stderr)
        self.assertEqual(self.world.close(keep=bool(os.environ.get("SPOTTER_KEEP"))), [],
                         "left behind")

    # Given

    def describe(self, machines=2):
        """job.yaml as it lies in the image, and with it the user."""
        self.job = self.place / "job.yaml"
        command = [f"{self.world.bin}/spotter", "run", "--job", str(self.job), "--",
                   "/usr/bin/python3", str(self.place / "train.py"), "--lr", "{lr}"]
        self.job.write_text(jobs.yaml({
            "job": "tuning",
            "storage": {"folder": {"path": str(self.place / "storage")}},
            "channels": {"train": "s3://sweeps/data/"},
            "trainer": {"command": "true"},
            "sweep": {"parameters": "s3://sweeps/sets.yml"}}) + (
                "\n  batch:\n" + "".join(f"    {key}: {json.dumps(value)}\n" for key, value in {
                    "image": "trainer:1", "vcpus": 8, "memory": 1000, "max_vcpus": 8 * machines,
                    "instance_types": [HOST], "subnets": ["subnet-1a", "subnet-1b"],
                    "security_groups": ["sg-1"], "command": command,
                    "instance_role": ec2.ROLE, "launch_template": TEMPLATE,
                    "environment": {"STEPS": str(self.steps), "PACE": "0.1",
                                    "FORMAT": "spotter"}}.items())))
        printed = self.world.allow_only(self.job.read_text())
        template, = (value for name, value in printed if name == "create-launch-template")
        self.assertEqual(template["LaunchTemplateName"], TEMPLATE)
        self.world.ec2.call("CreateLaunchTemplate", **template)

    def sweep(self, *words, status=0):
        done = subprocess.run([self.world.bin / "spotter", "sweep", *words, self.job], text=True,
                              env=self.environment, capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout.strip()

    # When

    def one(self, job):
        return self.batch.describe_jobs(jobs=[job])["jobs"][0]

    def attempts(self, job):
        """(exit code, reason) of each attempt that is over."""
        return [(it["container"].get("exitCode"), it["statusReason"])
                for it in self.one(job)["attempts"]]

    def wait_training(self, *sets):
        for index in sets:
            wait(f"set {index} to do a step", lambda index=index: self.steps_of(index))

    def wait_attempt(self, job):
        wait(f"an attempt of {job} to be over", lambda: self.attempts(job))

    def host_of(self, job):
        """The one that it runs on."""
        return self.one(job)["container"]["containerInstanceArn"].rpartition("/")[2]

    def wait_counts(self, **counts):
        def are_these():
            done = subprocess.run([self.world.bin / "spotter", "sweep", "status", "--json",
                                   self.job], env=self.environment, capture_output=True,
                                  text=True, timeout=60, check=False)
            return done.returncode in (0, 1) and json.loads(done.stdout)["counts"] == counts
        wait(f"the sets to be {counts}", are_these, every=0.5)

    # Then

    def steps_of(self, index):
        return [int(line.split()[1])
                for path in sorted((self.place / "journal" / str(index)).iterdir())
                for line in path.read_text().splitlines()]

    def assert_trained_once(self, index, kills=0):
        """`kills`: so many trainers died between making a step durable and writing it down."""
        done = self.steps_of(index)
        self.assertEqual(done, sorted(set(done)), "a durable step was done again")
        self.assertGreaterEqual(len(done), self.steps - kills)
        home = self.place / "storage" / "tuning" / str(index)
        self.assertEqual((home / "model" / "set").read_text(), f"--lr 0.{index + 1}")
        self.assertEqual((home / "result" / "weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertEqual(json.loads((home / "DONE").read_text())["job"], "tuning")

    def test_hosts_are_taken_away_and_a_script_fails(self):
        (self.place / "fails" / "2").touch()
        self.describe()
        array = self.sweep("submit")
        self.wait_training(0, 1)
        self.world.interrupt(self.host_of(f"{array}:0"), 120)
        self.world.kill(self.host_of(f"{array}:1"))
        self.wait_attempt(f"{array}:0")
        self.wait_attempt(f"{array}:1")
        self.slow.unlink()
        self.wait_counts(SUCCEEDED=3, FAILED=1)
        (code, reason), last = self.attempts(f"{array}:0")
        self.assertEqual((code, last[0]), (75, 0))
        self.assertRegex(reason, r"^Host EC2 \(instance i-")
        (code, reason), last = self.attempts(f"{array}:1")
        self.assertEqual((code, last[0]), (None, 0))
        self.assertRegex(reason, r"^Host EC2 \(instance i-")
        self.assertEqual([code for code, _ in self.attempts(f"{array}:2")], [3],
                         "a script that fails is not tried again")
        self.assertIn("failed: 2 (exit 3,", self.sweep("status", status=1))

        (self.place / "fails" / "2").unlink()
        again = self.sweep("retry", "--failed")
        self.wait_counts(SUCCEEDED=4)
        self.assertEqual([code for code, _ in self.attempts(again)], [0])
        for index in range(self.sets):
            self.assert_trained_once(index, kills=index == 1)
        self.assertEqual(sorted(path.name for path in (self.place / "storage/tuning").iterdir()),
                         [str(index) for index in range(self.sets)])

    def test_a_notice_that_only_the_metadata_service_tells_of(self):
        self.world.control("fault", "batch-drain", "on=false")
        self.describe(machines=1)
        array = self.sweep("submit")
        self.wait_training(0)
        self.world.interrupt(self.host_of(f"{array}:0"), 30)
        self.wait_attempt(f"{array}:0")
        self.slow.unlink()
        self.wait_counts(SUCCEEDED=4)
        attempts = self.attempts(f"{array}:0")
        self.assertEqual((attempts[0][0], attempts[-1][0]), (75, 0), attempts)
        # Batch does not know that this host is going, and starts the next attempt there.
        self.assertLess(len(attempts), 6, attempts)
        for index in range(self.sets):
            self.assert_trained_once(index)

    def test_what_is_cancelled_saves_and_goes_on_when_it_is_tried_again(self):
        self.describe()
        array = self.sweep("submit")
        self.wait_training(0, 1)
        self.assertEqual(self.sweep("cancel", "--reason", "enough"), array)
        self.wait_counts(FAILED=4)
        self.assertEqual(self.attempts(f"{array}:0"), [(75, "enough")])
        self.slow.unlink()
        self.sweep("retry", "--failed")
        self.wait_counts(SUCCEEDED=4)
        for index in range(self.sets):
            self.assert_trained_once(index)

    @unittest.skipUnless(AWS.exists(), "the aws command is not installed (apt: awscli)")
    def test_submitted_by_hand_with_the_printed_commands(self):
        self.describe()
        self.slow.unlink()
        printed = self.sweep("submit", "--dry-run")
        self.assertEqual(self.batch.describe_job_queues()["jobQueues"], [], "nothing is done")
        for command in ["aws batch " + it for it in printed.split("aws batch ")[1:]]:
            done = subprocess.run(
                ["/bin/sh", "-c", command.replace("aws", f"{AWS} --endpoint-url "
                                                  f"{self.world.ec2.endpoint}", 1)],
                env=self.environment, capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            wait("it to be VALID", lambda: all(
                it["status"] == "VALID" for it in
                self.batch.describe_compute_environments()["computeEnvironments"]
                + self.batch.describe_job_queues()["jobQueues"]))
        self.wait_counts(SUCCEEDED=4)
        for index in range(self.sets):
            self.assert_trained_once(index)


if __name__ == "__main__":
    harness.main()
