"""What boto3 sees when the emulator's S3 breaks on request."""

import os
import unittest

from s3 import MEBIBYTE, S3Test, botocore


class Faults(S3Test):
    def test_a_connection_is_reset_after_so_many_bytes(self):
        content = os.urandom(4 * MEBIBYTE)
        self.put("k", content)
        self.fault("s3-reset", after=MEBIBYTE)
        body = self.s3.get_object(Bucket=self.bucket, Key="k")["Body"]
        with self.assertRaises(Exception) as raised:
            body.read()
        self.assertRegex(str(raised.exception), "[Rr]eset|IncompleteRead|[Bb]roken")
        self.assertEqual(self.get("k"), content)

    def test_refusals_by_name(self):
        self.put("k")
        for name, arguments, expected in (
                ("s3-slow-down", {"percent": 100}, ("SlowDown", 503)),
                ("s3-errors", {"percent": 100}, ("InternalError", 500)),
                ("throttle", {"action": "GetObject"}, ("SlowDown", 503)),
                ("fail-next", {"action": "GetObject", "code": "SlowDown"}, ("SlowDown", 503)),
                ("deny", {"action": "GetObject"}, ("AccessDenied", 403)),
                ("s3-replaced", {"key": f"{self.bucket}/k"}, None)):
            self.fault(name, **arguments)
            if expected:
                self.assertEqual(self.refused(self.get, key="k"), expected, name)
            else:
                etag = self.s3.head_object(Bucket=self.bucket, Key="k")["ETag"]
                self.assertEqual(self.refused(self.get, key="k", IfMatch=etag),
                                 ("PreconditionFailed", 412))
            self.fault("clear")
            self.assertEqual(self.get("k"), b"content")

    def test_more_requests_a_second_than_allowed_are_slowed_down(self):
        self.put("k")
        self.fault("s3-slow-down", above=1)  # of the emulator's seconds, twenty in a real one
        codes = set()
        for _ in range(200):
            try:
                self.get("k")
                codes.add(200)
            except botocore.exceptions.ClientError as error:
                codes.add(error.response["Error"]["Code"])
        self.assertEqual(codes, {200, "SlowDown"})

    def test_a_missing_key_is_hidden_from_who_may_not_list(self):
        self.fault("deny", action="ListBucket")
        self.assertEqual(self.refused(self.get, key="none"), ("AccessDenied", 403))
        self.assertEqual(self.refused(self.s3.list_objects_v2, Bucket=self.bucket),
                         ("AccessDenied", 403))

    def test_an_answer_is_lost_although_the_write_was_carried_out(self):
        self.fault("fail-next", action="PutObject", code="timeout-carried-out")
        with self.assertRaises(botocore.exceptions.BotoCoreError):
            self.put("k", b"written")
        self.assertEqual(self.get("k"), b"written")
        self.fault("fail-next", action="PutObject", code="timeout-lost")
        with self.assertRaises(botocore.exceptions.BotoCoreError):
            self.put("k", b"never")
        self.assertEqual(self.get("k"), b"written")

    def test_a_wrong_byte_is_found_by_its_checksum(self):
        self.put("k", b"x" * 1000, ChecksumAlgorithm="SHA256")
        self.fault("s3-spoiled")
        got = self.s3.get_object(Bucket=self.bucket, Key="k", ChecksumMode="ENABLED")
        with self.assertRaises(Exception) as raised:
            got["Body"].read()
        self.assertIn("checksum", str(raised.exception).lower())

    def test_botocore_gets_through_with_its_retries(self):
        self.put("k")
        self.fault("s3-errors", percent=50)
        patient = self.client(attempts=20)
        for _ in range(5):
            got = patient.get_object(Bucket=self.bucket, Key="k")
            self.assertEqual(got["Body"].read(), b"content")

    def test_a_slow_answer_is_whole(self):
        content = os.urandom(300_000)
        self.put("k", content)
        self.fault("s3-slow", rate=1_000_000, total=900_000)
        self.assertEqual(self.get("k"), content)

    def test_the_list_of_faults_names_them_and_the_command_takes_them(self):
        listed = self.served.command("fault", "--list").stdout
        for name in ("s3-slow", "s3-reset", "s3-slow-down", "s3-errors", "s3-replaced",
                     "s3-spoiled", "s3-conflict", "s3-endless", "s3-public", "s3-requester-pays",
                     "fail-next"):
            self.assertIn(f"{name} ", listed)
        self.assertEqual(self.served.command("fault", "s3-slow", "rate=1000000").returncode, 0)
        self.assertEqual(self.served.command("fault", "s3-reset", "after=x").returncode, 1)
        state = self.served.control("state")
        self.assertIn(self.bucket, [bucket["id"] for bucket in state["buckets"]])


if __name__ == "__main__":
    unittest.main()
