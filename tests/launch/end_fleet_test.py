"""How scripts/user-data ends the fleet of a machine that cannot work: its tags come late, AWS has
faults, and a refusal is final. The metadata service and AWS are one small server of this test."""

import json
import pathlib
import subprocess
import tempfile
import time
import unittest
import urllib.parse

from user_data_test import ROOT, web

METADATA = {
    "/latest/api/token": b"token",
    "/latest/meta-data/iam/security-credentials/": b"role",
    "/latest/meta-data/iam/security-credentials/role": json.dumps(
        {"AccessKeyId": "a", "SecretAccessKey": "s", "Token": "t"}).encode(),
    "/latest/dynamic/instance-identity/document": b'{"region": "us-west-2"}'}
TAGS = "/latest/meta-data/tags/instance"
GROUP, SPOT = "aws:autoscaling:groupName", "aws:ec2spot:fleet-request-id"
FLEET = "aws:ec2:fleet-id"  # of an EC2 Fleet, or the group's own
ALL_TRIES = 8


class EndFleet(unittest.TestCase):
    def boot(self, *tries, aws=None):
        """A machine without spotter. Each try to end its fleet: the tags shown (none: 404), and the
        status that AWS answers; the last one repeats. What AWS was asked for."""
        self.asked, self.pauses, seen = [], 0, []

        def answer(question):
            if question.path == "/latest/api/token":
                seen.append(tries[min(len(seen), len(tries) - 1)])
            tags, status = seen[-1]
            if question.command == "POST":
                form = question.rfile.read(int(question.headers["Content-Length"])).decode()
                self.asked.append(dict(urllib.parse.parse_qsl(form)))
                return status, {}, b""
            if question.path == TAGS:
                return 200 if tags else 404, {}, "\n".join(tags).encode()
            if question.path.startswith(TAGS):
                return 200, {}, question.path.rpartition(":")[2].encode()
            return 200, {}, METADATA[question.path]

        server = web(self, answer)
        with tempfile.TemporaryDirectory(prefix="spotter-end-fleet-") as folder:
            root = pathlib.Path(folder)
            text = (ROOT / "scripts/user-data").read_text()
            (root / "user-data").write_text(
                text.replace("@PACKAGES@", "baked").replace("@FAILING@", "end-fleet")
                .replace("@HOLD@", "0").replace("@LAUNCHED@", str(int(time.time()))))
            (root / "sleep").write_text('#!/bin/sh\necho "$1" >>"$SPOTTER_ROOT/slept"\n')
            (root / "sleep").chmod(0o755)
            done = subprocess.run(
                ["sh", root / "user-data"], capture_output=True, text=True, timeout=120,
                check=False, stdin=subprocess.DEVNULL,
                env={"PATH": f"{root}:/usr/bin:/bin", "SPOTTER_ROOT": folder,
                     "AWS_EC2_METADATA_SERVICE_ENDPOINT": server.url,
                     "AWS_ENDPOINT_URL": aws or server.url})
            if (root / "slept").exists():
                self.pauses = len((root / "slept").read_text().splitlines())
        self.assertEqual(done.returncode, 1, done.stderr)
        self.words = done.stderr
        return [it["Action"] for it in self.asked]

    def assert_ended(self):
        self.assertIn("the fleet's target is 0 now", self.words.splitlines()[-1], self.words)

    def assert_given_up(self):
        self.assertIn("ends in an hour", self.words.splitlines()[-1], self.words)

    def test_a_fault_passes(self):
        for status in (400, 429, 500, 503):
            with self.subTest(status):
                asked = self.boot(([GROUP], status), ([GROUP], 200))
                self.assertEqual(asked, ["SetDesiredCapacity"] * 2, self.words)
                self.assertEqual(self.asked[1]["DesiredCapacity"], "0")
                self.assertEqual(self.asked[1]["AutoScalingGroupName"], "groupName")
                self.assertEqual(self.pauses, 1)
                self.assert_ended()

    def test_a_fault_that_stays_ends_the_tries(self):
        self.assertEqual(len(self.boot(([SPOT], 503))), ALL_TRIES)
        self.assertEqual(self.pauses, ALL_TRIES)
        self.assert_given_up()
        self.boot(([SPOT], 200), aws="http://127.0.0.1:9")  # nobody listens there
        self.assertEqual(self.pauses, ALL_TRIES, self.words)
        self.assert_given_up()

    def test_a_tag_comes_late(self):
        self.assertEqual(self.boot(([], 200), (["Name"], 200), (["Name", SPOT], 200)),
                         ["ModifySpotFleetRequest"], self.words)
        self.assertEqual(self.pauses, 2)
        self.assert_ended()

    def test_the_fleet_of_a_group_is_shown_before_the_group(self):
        for refusal in (400, 401, 403):
            with self.subTest(refusal):
                asked = self.boot(([FLEET], refusal), ([FLEET, GROUP], 200))
                self.assertEqual(asked, ["ModifyFleet", "SetDesiredCapacity"], self.words)
                self.assert_ended()

    def test_a_refusal_is_final(self):
        for tag in (GROUP, SPOT):
            for refusal in (401, 403):
                with self.subTest(tag, refusal=refusal):
                    self.assertEqual(len(self.boot(([FLEET, tag], refusal))), 1, self.words)
                    self.assertIn(f"end-fleet {tag}: HTTP Error {refusal}", self.words)
                    self.assertEqual(self.pauses, 0)
                    self.assert_given_up()


if __name__ == "__main__":
    unittest.main()
