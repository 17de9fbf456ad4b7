"""The instance profile of a launch, in an account that has none yet."""

import json
import shlex
import unittest

import boto3

import launching
import served

setUpModule = launching.setUpModule


class AnEmptyAccount(launching.LaunchTest):
    @classmethod
    def setUpClass(cls):
        cls.served = served.Served("--empty-account")
        cls.addClassCleanup(cls.served.stop)

    def setUp(self):
        super().setUp()
        self.iam = boto3.client("iam", region_name="us-west-2", endpoint_url=self.served.api,
                                **self.served.keys)
        self.addCleanup(self.iam.close)

    def make_roles(self, job, drop=None):
        """By what `spotter iam roles` prints, less a statement; what is there already is well."""
        printed = self.spotter("iam", "roles", job, "--account", "123456789012", "--role",
                               "spotter-role").stdout
        words = shlex.split(printed, comments=True)
        there = ("EntityAlreadyExists", "InvalidInput", "LimitExceeded")
        for _, service, action, _, value in zip(*[iter(words)] * 5):
            self.assertEqual(service, "iam")
            asked = json.loads(value)
            if "PolicyDocument" in asked:
                policy = json.loads(asked["PolicyDocument"])
                policy["Statement"] = [it for it in policy["Statement"] if it.get("Sid") != drop]
                asked["PolicyDocument"] = json.dumps(policy)
            try:
                getattr(self.iam, action.replace("-", "_"))(**asked)
            except self.iam.exceptions.ClientError as error:
                self.assertIn(error.response["Error"]["Code"], there, error)


class Profile(AnEmptyAccount):
    def test_that_is_not_there_is_refused_and_then_it_is_made_and_waited_for(self):
        job = self.job()
        missing = "(?m)^fail  profile .*no instance profile spotter-role: make it: `spotter iam"
        self.assertRegex(self.spotter("doctor", job, code=2).stdout, missing)
        self.assertRegex(self.refused(), missing)
        self.assertEqual((self.fleets(), self.volumes()), ([], []))
        self.make_roles(job)
        self.make_roles(job)  # a second time changes nothing
        fleet = self.launch()
        self.assertEqual(self.active(), [fleet])
        self.assertRegex(self.spotter("doctor", job, code=None).stdout,
                         "(?m)^ok    profile .*spotter-role gives instances the role spotter-role")
        self.assertTrue(self.one_instance())
        self.limit(job, drop="LookAtTheProfile")
        self.assertRegex(self.spotter("doctor", job, code=None).stdout,
                         "(?m)^warn  profile .*GetInstanceProfile.* is open; give who launches")


class Rights(AnEmptyAccount):
    def test_a_role_that_lacks_a_right_is_refused_by_the_actions_name(self):
        """A machine with it would be blocked, and cost until a person looks."""
        job = self.job("  tags: {project: speech}\n")
        self.make_roles(job, drop="UseTheJobsVolumes")
        said = self.refused("  tags: {project: speech}\n")
        self.assertRegex(said, r"(?m)^fail  role +spotter-role may not: ec2:AttachVolume, "
                               r"ec2:CreateSnapshot, ec2:DeleteVolume, ec2:DetachVolume: give it "
                               r"what `spotter iam roles` prints \(UseTheJobsVolumes\)")
        self.assertEqual((self.fleets(), self.volumes()), ([], []))
        self.make_roles(job)
        file = self.limit(job)
        file.write_text(file.read_text().replace("iam:SimulatePrincipalPolicy", "iam:GetRole"))
        self.assertEqual(self.served.command("policy", "user", str(file)).stderr, "")
        done = self.spotter("launch", job)
        self.assertRegex(done.stderr, "(?m)^warn  role +whether spotter-role may do what the job "
                                      "needs is not proven: SimulatePrincipalPolicy: needs iam:Sim")
        self.assertEqual(done.stderr.count("not proven"), 1)
        self.limit(job)
        self.spotter("stop", self.name, "--wait")
        done = self.spotter("launch", job)
        self.assertNotIn("role ", done.stderr)
        self.assertRegex(self.spotter("doctor", job, code=None).stdout,
                         r"(?m)^ok    role +spotter-role may do what the job needs \(\d+ actions\)")
        self.spotter("stop", self.name, "--wait")


if __name__ == "__main__":
    unittest.main()
