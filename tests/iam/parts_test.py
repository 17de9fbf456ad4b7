"""`spotter iam ... --part N`: a policy that is too long for IAM, as several that are not."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

SPOTTER = os.environ["SPOTTER_PATH"]
SHARE = "storage: {folder: {path: /data}}"
LONGEST_POLICY = 6144  # of a managed one; white space does not count
KEY = "arn:aws:kms:us-west-2:123456789012:key/1"


class Parts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "job.yaml"

    def run_it(self, name, *lines, options=()):
        self.file.write_text("\n".join((f"job: {'m' * 60}", "trainer: {command: ./t.sh}", *lines)))
        return subprocess.run(
            [SPOTTER, "iam", name, self.file, "--account", "123456789012", *options],
            env={**os.environ, "AWS_REGION": "us-west-2"},
            capture_output=True, text=True, check=False, timeout=600)

    def test_what_is_long_is_printed_in_parts(self):
        """Two regions, and names as long as they may be."""
        name = "n" * 60
        ssm = "ssm:/" + name
        launch = (f"launch: {{image: 'resolve:ssm:/aws/service/debian/12', profile: {name}, "
                  f"on_demand: when-needed, work: 1h, package: {{s3: s3://{name}/{name}/}}, "
                  f"pools: [{{types: [g5.xlarge], key: {name}, security_groups: "
                  "[sg-0123456789abcdef0]}, {region: us-east-2, types: [g5.xlarge], "
                  f"key: {name}e, security_groups: [sg-0123456789abcdef1], "
                  "subnets: [subnet-0123456789abcdef0, subnet-0123456789abcdef1]}]}")
        lines = (f"storage: {{s3: s3://{name}/{name}}}", "within: 3h",
                 f"publish: s3://{name}p/{name}", f"notify: {{webhook: '{ssm}'}}", launch)
        whole = self.run_it("launcher", *lines, options=["--volume-key", KEY])
        self.assertEqual(whole.returncode, 1)
        count = int(re.search(r"--part 1 to --part ([0-9])", whole.stderr)[1])
        parts = [self.run_it("launcher", *lines, options=["--volume-key", KEY, "--part", str(one)])
                 for one in range(1, count + 1)]
        for one in parts:
            self.assertEqual((one.returncode, one.stderr), (0, ""))
            self.assertLessEqual(len("".join(one.stdout.split())), LONGEST_POLICY)
        statements = [it for one in parts for it in json.loads(one.stdout)["Statement"]]
        self.assertEqual(statements, json.loads(whole.stdout)["Statement"])
        self.assertEqual({it["Effect"] for it in statements}, {"Allow"}, "or no order is the same")
        few = self.run_it("launcher", SHARE)
        self.assertEqual(json.loads(self.run_it("launcher", SHARE, options=["--part", "1"]).stdout),
                         json.loads(few.stdout))


if __name__ == "__main__":
    unittest.main(verbosity=2)
