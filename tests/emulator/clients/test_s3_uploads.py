"""boto3 and `aws s3` against the emulator's S3: uploads in parts, whole folders."""

import base64
import hashlib
import io
import os
import subprocess
import unittest

from s3 import MEBIBYTE, S3Test
from served import REGION

try:
    from boto3.s3.transfer import TransferConfig
except ImportError:
    TransferConfig = None


class Multipart(S3Test):
    def begin(self, key="big", **more):
        return self.s3.create_multipart_upload(Bucket=self.bucket, Key=key, **more)["UploadId"]

    def part(self, upload, number, body, key="big", **more):
        done = self.s3.upload_part(Bucket=self.bucket, Key=key, UploadId=upload,
                                   PartNumber=number, Body=body, **more)
        return {"PartNumber": number, "ETag": done["ETag"],
                **{name: done[name] for name in done if name.startswith("Checksum")}}

    def complete(self, upload, parts, key="big"):
        return self.s3.complete_multipart_upload(
            Bucket=self.bucket, Key=key, UploadId=upload, MultipartUpload={"Parts": parts})

    def test_parts_become_one_object(self):
        upload = self.begin(ContentType="text/x", Metadata={"a": "b"})
        bodies = [os.urandom(5 * MEBIBYTE), os.urandom(5 * MEBIBYTE), b"the end"]
        parts = [self.part(upload, number, body) for number, body in zip((1, 2, 9), bodies)]
        listed = self.s3.list_parts(Bucket=self.bucket, Key="big", UploadId=upload)["Parts"]
        self.assertEqual([it["PartNumber"] for it in listed], [1, 2, 9])
        self.assertEqual(listed[2]["Size"], 7)
        uploads = self.s3.list_multipart_uploads(Bucket=self.bucket)["Uploads"]
        self.assertEqual([(it["Key"], it["UploadId"]) for it in uploads], [("big", upload)])
        self.assertEqual(self.keys(), [])
        md5 = hashlib.md5(b"".join(hashlib.md5(body).digest() for body in bodies)).hexdigest()
        self.assertEqual(self.complete(upload, parts)["ETag"], f'"{md5}-3"')
        got = self.s3.get_object(Bucket=self.bucket, Key="big")
        self.assertEqual(got["Body"].read(), b"".join(bodies))
        self.assertEqual((got["ETag"], got["ContentType"], got["Metadata"]),
                         (f'"{md5}-3"', "text/x", {"a": "b"}))
        second = self.s3.get_object(Bucket=self.bucket, Key="big", PartNumber=2)
        self.assertEqual((second["Body"].read(), second["PartsCount"]), (bodies[1], 3))
        self.assertNotIn("Uploads", self.s3.list_multipart_uploads(Bucket=self.bucket))
        self.assertEqual(self.refused(self.complete, upload=upload, parts=parts),
                         ("NoSuchUpload", 404))

    def test_a_wrong_completion_changes_nothing(self):
        upload = self.begin()
        first, second = self.part(upload, 1, b"small"), self.part(upload, 2, b"end")
        other = {**second, "ETag": first["ETag"]}
        for parts, code in (([second, first], "InvalidPartOrder"), ([first, other], "InvalidPart"),
                            ([{**second, "PartNumber": 3}], "InvalidPart"),
                            ([first, second], "EntityTooSmall")):
            self.assertEqual(self.refused(self.complete, upload=upload, parts=parts), (code, 400))
        self.assertEqual(self.keys(), [])
        self.s3.abort_multipart_upload(Bucket=self.bucket, Key="big", UploadId=upload)
        for call in (self.s3.abort_multipart_upload, self.s3.list_parts):
            self.assertEqual(self.refused(call, Bucket=self.bucket, Key="big", UploadId=upload),
                             ("NoSuchUpload", 404))
        self.assertEqual(self.refused(self.part, upload="../../..", number=1, body=b""),
                         ("NoSuchUpload", 404))

    def test_a_completion_may_be_conditional(self):
        self.put("big", b"there already")
        upload = self.begin()
        parts = [self.part(upload, 1, b"new")]
        client = self.client()
        client.meta.events.register(
            "before-sign.s3.CompleteMultipartUpload",
            lambda request, **_: request.headers.__setitem__("If-None-Match", "*"))
        arguments = {"Bucket": self.bucket, "Key": "big", "UploadId": upload,
                     "MultipartUpload": {"Parts": parts}}
        self.assertEqual(self.refused(client.complete_multipart_upload, **arguments),
                         ("PreconditionFailed", 412))
        self.assertEqual(self.get("big"), b"there already")
        self.s3.delete_object(Bucket=self.bucket, Key="big")
        client.complete_multipart_upload(**arguments)
        self.assertEqual(self.get("big"), b"new")

    def test_checksums_of_parts_make_one_of_the_object(self):
        upload = self.begin(ChecksumAlgorithm="SHA256")
        bodies = [os.urandom(5 * MEBIBYTE), b"end"]
        parts = [self.part(upload, number + 1, body, ChecksumAlgorithm="SHA256")
                 for number, body in enumerate(bodies)]
        raw = hashlib.sha256(b"".join(hashlib.sha256(body).digest() for body in bodies)).digest()
        without = [{key: part[key] for key in ("PartNumber", "ETag")} for part in parts]
        self.assertEqual(self.refused(self.part, upload=upload, number=3, body=b"none"),
                         ("InvalidRequest", 400))
        self.assertEqual(self.refused(self.complete, upload=upload, parts=without),
                         ("InvalidRequest", 400))
        self.complete(upload, parts)
        head = self.s3.head_object(Bucket=self.bucket, Key="big", ChecksumMode="ENABLED")
        self.assertEqual(head["ChecksumSHA256"], base64.b64encode(raw).decode() + "-2")

    def test_a_copied_part_has_the_checksum_that_its_upload_wants(self):
        self.put("from", b"12345")
        upload = self.begin(ChecksumAlgorithm="SHA256")
        source = {"Bucket": self.bucket, "Key": "from", "VersionId": "null"}
        part = self.s3.upload_part_copy(Bucket=self.bucket, Key="big", UploadId=upload,
                                        PartNumber=1, CopySource=source)["CopyPartResult"]
        self.assertEqual(part["ChecksumSHA256"],
                         base64.b64encode(hashlib.sha256(b"12345").digest()).decode())
        listed = self.s3.list_parts(Bucket=self.bucket, Key="big", UploadId=upload)
        self.assertEqual(listed["ChecksumAlgorithm"], "SHA256")
        self.complete(upload, [{"PartNumber": 1, "ETag": part["ETag"],
                                "ChecksumSHA256": part["ChecksumSHA256"]}])
        self.assertEqual(self.refused(self.s3.copy_object, Bucket=self.bucket, Key="other",
                                      CopySource={**source, "VersionId": "banana"}),
                         ("InvalidArgument", 400))

    def test_a_part_can_be_a_copy(self):
        content = os.urandom(6 * MEBIBYTE)
        self.put("from", content)
        upload = self.begin()
        done = self.s3.upload_part_copy(
            Bucket=self.bucket, Key="big", UploadId=upload, PartNumber=1,
            CopySource={"Bucket": self.bucket, "Key": "from"}, CopySourceRange="bytes=10-1009")
        self.complete(upload, [{"PartNumber": 1, "ETag": done["CopyPartResult"]["ETag"]}])
        self.assertEqual(self.get("big"), content[10:1010])

    def test_s3transfer_uploads_and_downloads_in_parallel(self):
        content = os.urandom(21 * MEBIBYTE + 1)
        config = TransferConfig(multipart_threshold=8 * MEBIBYTE, max_concurrency=4)
        self.s3.upload_fileobj(io.BytesIO(content), self.bucket, "t", Config=config)
        got = io.BytesIO()
        self.s3.download_fileobj(self.bucket, "t", got, Config=config)
        self.assertEqual(hashlib.sha256(got.getvalue()).digest(),
                         hashlib.sha256(content).digest())


class AwsCommand(S3Test):
    def aws(self, *words):
        environment = {**os.environ, **self.served.environment, "AWS_DEFAULT_REGION": REGION,
                       "AWS_CONFIG_FILE": os.devnull}
        return subprocess.run(
            ["aws", "--endpoint-url", self.served.api, *words], env=environment, timeout=120,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def test_aws_s3_copies_lists_syncs_and_removes(self):
        local = os.path.join(self.served.folder, "local")
        os.makedirs(os.path.join(local, "sub"))
        with open(os.path.join(local, "big.bin"), "wb") as file:
            file.write(os.urandom(20 * MEBIBYTE))
        with open(os.path.join(local, "sub", "a b+ü.txt"), "w", encoding="utf-8") as file:
            file.write("hello")
        there = f"s3://{self.bucket}/x"
        for words in (("s3", "sync", local, there), ("s3", "sync", there, local + "-back")):
            done = self.aws(*words)
            self.assertEqual(done.returncode, 0, done.stdout)
        for name in ("big.bin", os.path.join("sub", "a b+ü.txt")):
            with open(os.path.join(local, name), "rb") as one, \
                    open(os.path.join(local + "-back", name), "rb") as other:
                self.assertEqual(one.read(), other.read())
        self.assertIn("PRE sub/", self.aws("s3", "ls", there + "/").stdout)
        self.assertNotIn("upload", self.aws("s3", "sync", local, there).stdout)
        self.assertEqual(self.aws("s3", "rm", "--recursive", there).returncode, 0)
        self.assertEqual(self.keys(), [])
        self.assertEqual(self.aws("s3", "rb", f"s3://{self.bucket}").returncode, 0)


if __name__ == "__main__":
    unittest.main()
