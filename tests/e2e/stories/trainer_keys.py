"""The trainer's credentials come from the agent: of a role of its own, or of the instance's."""

import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import job as jobs
from ec2 import ACCOUNT, ROLE, TRAINERS_ROLE
from emulator import wait

HAS_BOTO3 = not subprocess.run(["/usr/bin/python3", "-c", "import boto3"], check=False,
                               capture_output=True).returncode
TOKEN = "AWS_CONTAINER_AUTHORIZATION_TOKEN"


def may_read(*objects):
    return json.dumps({"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:GetObject",
         "Resource": [f"arn:aws:s3:::{name}" for name in objects]}]})


@unittest.skipUnless(HAS_BOTO3, "boto3 is not installed (apt: python3-boto3)")
class TrainerKeys(harness.Story):
    trainer = harness.TRAINERS / "asks_aws.py"

    def given(self, trainer=None, env=None, reads=None, not_made=(), **more):
        """A bucket of two objects, and a job that has one of them as a channel, or none."""
        bucket = self.world.directory / "s3" / "data"
        bucket.mkdir(parents=True)
        for name in ("one", "two"):
            (bucket / name).write_text(f"this is {name}")
        folder = self.world.shared / "seen"
        folder.mkdir()
        folder.chmod(0o777)
        self.lines = folder / "lines"
        self.volume()
        env = {"STEPS": "500", "WANTS": "data/one data/two", "LINES": str(self.lines),
               **(env or {})}
        self.world.roles_not_made = not_made
        if reads:
            more["channels"] = {"all": f"s3://data/{reads}"}
        return self.launch(self.job(env=env, trainer=trainer, **more))

    def seen(self):
        text = self.lines.read_text() if self.lines.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def wait_seen(self, count=2):
        return wait(f"{count} steps", lambda: len(self.seen()) >= count and self.seen())

    def variables(self, instance):
        text = self.environment(self.trainers(instance)[0]).decode()
        return dict(each.split("=", 1) for each in text.split("\0") if "=" in each)

    def test_the_default_is_a_role_that_may_nothing_of_the_instances(self):
        self.given()
        line = self.wait_seen()[-1]
        self.assertEqual(line["method"], "container-role")
        self.assertEqual(line["kept"], ["AccessDenied", "AccessDenied"])
        self.assertEqual(
            line["who"],
            f"arn:aws:sts::{ACCOUNT}:assumed-role/{TRAINERS_ROLE}/spotter-{self.job_name}")

    def test_the_default_reads_the_jobs_channels(self):
        """With what `spotter iam roles` prints, as in every story."""
        self.given(reads="two")
        self.assertEqual(self.wait_seen()[-1]["kept"], ["AccessDenied", "this is two"])

    def test_of_the_role_that_all_jobs_have_it_gets_what_its_own_job_names(self):
        self.given(reads="two")
        self.wait_seen()
        document = self.world.workplace / "role.json"
        document.write_text(may_read("data/*"))  # of another job, too
        self.world.control("policy", f"role/{TRAINERS_ROLE}", document)
        line = self.wait_seen(len(self.seen()) + 3)[-1]
        self.assertEqual((line["kept"], line["fresh"]),
                         (["AccessDenied", "this is two"], "AccessDenied"))

    def test_a_default_role_that_is_not_there_is_said_and_the_instances_is_not_given(self):
        one = self.given(not_made=[TRAINERS_ROLE])
        line = self.wait_seen()[-1]
        self.assertNotIn("this is one", [*line["kept"], line["fresh"]])
        self.assertNotIn(f"assumed-role/{ROLE}/", line["who"])
        self.wait_console(one, f"no credentials at AWS while.*role/{TRAINERS_ROLE}"
                               ".*spotter iam roles.*trainer.role")
        document = self.world.workplace / "role.json"
        document.write_text(may_read("data/two"))
        self.world.control("policy", f"role/{TRAINERS_ROLE}", document)
        wait("credentials of the role that is there now",
             lambda: self.seen()[-1]["fresh"] == "AccessDenied")

    def test_boto3_reads_with_the_instances_own(self):
        one = self.given({"role": "instance"}, reads="one")
        line = self.wait_seen()[-1]
        self.assertEqual(line["method"], "container-role")
        self.assertEqual(line["kept"], ["this is one", "AccessDenied"])
        self.assertEqual(line["fresh"], "this is one")
        self.assertEqual(line["who"], f"arn:aws:sts::{ACCOUNT}:assumed-role/{ROLE}/{one}")
        self.assertEqual(line["strangers"],
                         [[401, ["code", "message"]], [403, ["code", "message"]]])
        variables = self.variables(one)
        self.assertEqual(variables["AWS_EC2_METADATA_DISABLED"], "true")
        self.assertNotIn("AWS_EC2_METADATA_SERVICE_ENDPOINT", variables)
        token = pathlib.Path(variables[TOKEN + "_FILE"])
        kept = self.world.instance(one) / "run" / token.name
        self.assertEqual(kept.read_text(), variables[TOKEN])
        self.assertEqual((kept.stat().st_mode & 0o777, kept.owner()), (0o400, jobs.trainer_user()))
        for file in (path for path in self.world.directory.rglob("*") if path.is_file()):
            if file.stat().st_size < 1 << 24 and file.name != token.name:
                self.assertNotIn(variables[TOKEN].encode(), file.read_bytes(), f"in {file}")

    def test_a_role_of_its_own_may_what_it_may_and_no_more(self):
        self.given({"role": "reader"}, reads="two")
        line = self.wait_seen()[-1]
        self.assertEqual(line["kept"], ["AccessDenied", "this is two"])
        self.assertEqual(line["who"],
                         f"arn:aws:sts::{ACCOUNT}:assumed-role/reader/spotter-{self.job_name}")

    def test_a_role_that_cannot_be_had_is_said_and_nothing_starts(self):
        one = self.given({"role": f"arn:aws:iam::{ACCOUNT}:role/reader"}, not_made=["reader"])
        self.wait_stage(one, "blocked")
        self.wait_console(one, "blocked: .*needs sts:AssumeRole on role/reader.*"
                               "TakeTheTrainersRole")
        self.assertEqual(self.trainers(one), [])
        document = self.world.workplace / "role.json"
        document.write_text(may_read("data/two"))
        self.world.control("policy", "role/reader", document)
        self.assertEqual(self.wait_seen()[-1]["kept"], ["AccessDenied", "this is two"])

    def test_a_killed_agent_is_not_missed(self):
        one = self.given({"role": "instance"}, reads="one")
        before = self.wait_seen()[-1]
        agents = self.agents(one)
        self.kill_agent(one)
        wait("another agent", lambda: self.agents(one) and self.agents(one) != agents)
        wait("keys from it", lambda: self.seen()[-1]["step"] > before["step"] + 5
             and self.seen()[-1]["fresh"] == "this is one")
        for line in self.seen():
            self.assertEqual(line["pid"], before["pid"])
            self.assertEqual(line["kept"], ["this is one", "AccessDenied"])

    def test_who_may_ask_the_metadata_service_is_led_there(self):
        one = self.given({"imds": "allow"})
        self.assertEqual(self.wait_seen()[-1]["method"], "container-role")
        self.assertNotIn("AWS_EC2_METADATA_DISABLED", self.variables(one))


class LedElsewhere(harness.Story):
    def test_where_the_job_says_who_it_is_nothing_is_added(self):
        self.volume()
        one = self.launch(self.job(env={"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/mine"}))
        self.wait_training(one, 1)
        variables = self.environment(self.trainers(one)[0])
        self.assertIn(b"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/mine", variables)
        for name in (TOKEN, "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_EC2_METADATA_DISABLED"):
            self.assertNotIn(name.encode(), variables)


if __name__ == "__main__":
    harness.main()
