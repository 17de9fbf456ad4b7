"""What the tests of S3 with foreign clients share: a bucket for each test, and short words."""

import hashlib
import os
import unittest
import warnings

from served import ACCESS_KEY, REGION, ServedTest

try:
    import boto3
    import botocore.config
    import botocore.exceptions
except ImportError:
    boto3 = botocore = None

MEBIBYTE = 1024 * 1024


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class S3Test(ServedTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # botocore leaves the closing of its kept connections to the collector.
        warnings.simplefilter("ignore", ResourceWarning)
        cls.s3 = cls.client()

    @classmethod
    def client(cls, secret=None, region=REGION, attempts=0, config=None, **more):
        more = {"aws_access_key_id": ACCESS_KEY, **more}
        return boto3.client(
            "s3", region_name=region, endpoint_url=cls.served.api,
            aws_secret_access_key=secret or cls.served.secret,
            config=botocore.config.Config(retries={"max_attempts": attempts},
                                          signature_version="s3v4", **(config or {})), **more)

    def setUp(self):
        name = self.id().rsplit(".", 1)[1].replace("_", "-")[:40].strip("-")
        self.bucket = f"{name}-{hashlib.sha1(self.id().encode()).hexdigest()[:8]}"
        self.make_bucket(self.bucket)
        self.addCleanup(self.served.control, "fault", {"name": "clear"})

    def make_bucket(self, name, client=None, region=REGION):
        (client or self.s3).create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": region})

    def refused(self, call, **arguments):
        with self.assertRaises(botocore.exceptions.ClientError) as raised:
            call(**arguments)
        answer = raised.exception.response
        return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]

    def put(self, key, body=b"content", **more):
        return self.s3.put_object(Bucket=self.bucket, Key=key, Body=body, **more)

    def put_with(self, headers, key, body=b"content", call="PutObject"):
        """With headers that this botocore's model does not know yet, signed with the others."""
        client = self.client()
        client.meta.events.register(
            f"before-sign.s3.{call}",
            lambda request, **_: [request.headers.__setitem__(*pair) for pair in headers.items()])
        return client.put_object(Bucket=self.bucket, Key=key, Body=body)

    def get(self, key, **more):
        return self.s3.get_object(Bucket=self.bucket, Key=key, **more)["Body"].read()

    def keys(self, **more):
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, **more)
        return [item["Key"] for page in pages for item in page.get("Contents", [])]

    def fault(self, name, **arguments):
        self.served.control("fault", {"name": name, "arguments": {
            key: str(value) for key, value in arguments.items()}})

    def folder(self, *names):
        return os.path.join(self.served.folder, "s3", self.bucket, *names)

    def drop(self, key, content):
        """A file that a user puts into the bucket's folder."""
        path = self.folder(*key.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
        return path
