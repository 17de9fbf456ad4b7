"""The instance profile of a launch, in an account that has none yet."""

import json
import shlex
import unittest

import boto3

import launching
import served

setUpModule = launching.setUpModule


class Profile(launching.LaunchTest):
    @classmethod
    def setUpClass(cls):
        cls.served = served.Served("--empty-account")
        cls.addClassCleanup(cls.served.stop)

    def setUp(self):
        super().setUp()
        self.iam = boto3.client("iam", region_name="us-east-1", endpoint_url=self.served.api,
                                **self.served.keys)
        self.addCleanup(self.iam.close)

    def make_roles(self, job):
        """By what `spotter iam roles` prints; what is there already is well."""
        printed = self.spotter("iam", "roles", job, "--account", "123456789012", "--role",
                               "spotter-role").stdout
        words = shlex.split(printed, comments=True)
        there = ("EntityAlreadyExists", "InvalidInput", "LimitExceeded")
        for _, service, action, _, value in zip(*[iter(words)] * 5):
            self.assertEqual(service, "iam")
            try:
                getattr(self.iam, action.replace("-", "_"))(**json.loads(value))
            except self.iam.exceptions.ClientError as error:
                self.assertIn(error.response["Error"]["Code"], there, error)

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
                         "(?m)^warn  profile .*GetInstanceProfile.* is open: give who launches")


if __name__ == "__main__":
    unittest.main()
