"""boto3 against the emulator's S3: buckets, who may do what, listings."""

import hashlib
import os
import re
import unittest
import urllib.error
import urllib.request

from s3 import MEBIBYTE, S3Test, boto3, botocore
from served import REGION, eventually


class Buckets(S3Test):
    def test_buckets_are_listed_and_have_a_place(self):
        os.mkdir(os.path.join(self.served.folder, "s3", "made-by-hand"))
        names = [it["Name"] for it in self.s3.list_buckets()["Buckets"]]
        self.assertIn(self.bucket, names)
        self.assertIn("made-by-hand", names)
        self.assertEqual(names, sorted(names))
        location = self.s3.get_bucket_location(Bucket=self.bucket)["LocationConstraint"]
        self.assertEqual(location, REGION)
        head = self.s3.head_bucket(Bucket=self.bucket)["ResponseMetadata"]["HTTPHeaders"]
        self.assertEqual(head["x-amz-bucket-region"], REGION)
        self.assertEqual(self.refused(self.make_bucket, name=self.bucket),
                         ("BucketAlreadyOwnedByYou", 409))
        self.assertEqual(self.refused(self.s3.create_bucket, Bucket="without-a-place"),
                         ("IllegalLocationConstraintException", 400))
        self.assertEqual(self.refused(self.s3.head_bucket, Bucket="nobody-has-it"), ("404", 404))

    def test_a_bucket_elsewhere_redirects_and_botocore_follows(self):
        away = self.client(region="eu-west-1")
        self.make_bucket("far-away", away, "eu-west-1")
        away.put_object(Bucket="far-away", Key="k", Body=b"there")
        followed = self.client().get_object(Bucket="far-away", Key="k")
        self.assertEqual(followed["Body"].read(), b"there")
        self.put("here")
        # Signed for another region than the bucket's, and than the endpoint's.
        lost = self.client(region="ap-south-1").get_object(Bucket=self.bucket, Key="here")
        self.assertEqual(lost["Body"].read(), b"content")

    def test_signatures(self):
        self.put("k")
        for client, code in ((self.client("guess"), "SignatureDoesNotMatch"),
                             (self.client(aws_access_key_id="AKIAUNKNOWN"), "InvalidAccessKeyId"),
                             (self.client(aws_session_token="nobody"), "InvalidToken")):
            status = 400 if code == "InvalidToken" else 403
            self.assertEqual(self.refused(client.get_object, Bucket=self.bucket, Key="k"),
                             (code, status))
            self.assertEqual(self.refused(client.put_object, Bucket=self.bucket, Key="k",
                                          Body=b"x" * MEBIBYTE), (code, status))

    def refused_url(self, url):
        """The error document, or nothing when there is an answer."""
        try:
            urllib.request.urlopen(url).close()
            return ""
        except urllib.error.HTTPError as error:
            with error:
                self.assertEqual(error.code, 403)
                return error.read().decode()

    def test_presigned_urls(self):
        self.put("a b+ü/k", b"for all who have the link")
        arguments = {"Bucket": self.bucket, "Key": "a b+ü/k"}
        url = self.s3.generate_presigned_url("get_object", arguments)
        with urllib.request.urlopen(url) as answer:
            self.assertEqual(answer.read(), b"for all who have the link")
        for wrong in (url.replace("X-Amz-Expires=3600", "X-Amz-Expires=3601"),
                      url.replace("/k?", "/other?")):
            self.assertIn("SignatureDoesNotMatch", self.refused_url(wrong))
        expired = self.s3.generate_presigned_url("get_object", arguments, ExpiresIn=1)
        self.assertTrue(eventually(lambda: "Request has expired" in self.refused_url(expired)))
        upload = self.s3.generate_presigned_url("put_object", arguments)
        urllib.request.urlopen(urllib.request.Request(upload, b"by link", method="PUT")).close()
        self.assertEqual(self.get("a b+ü/k"), b"by link")

    def test_anonymous_readers_only_where_the_policy_says_so(self):
        anonymous = boto3.client(
            "s3", region_name=REGION, endpoint_url=self.served.api,
            config=botocore.config.Config(signature_version=botocore.UNSIGNED,
                                          retries={"max_attempts": 0}))
        self.put("k")
        arguments = {"Bucket": self.bucket, "Key": "k"}
        self.assertEqual(self.refused(anonymous.get_object, **arguments), ("AccessDenied", 403))
        self.fault("s3-public", bucket=self.bucket)
        self.assertEqual(anonymous.get_object(**arguments)["Body"].read(), b"content")
        self.assertEqual(len(anonymous.list_objects_v2(Bucket=self.bucket)["Contents"]), 1)
        self.assertEqual(self.refused(anonymous.put_object, Body=b"", **arguments),
                         ("AccessDenied", 403))
        self.assertEqual(self.refused(anonymous.list_buckets), ("AccessDenied", 403))

    def test_virtual_host_style(self):
        port = self.served.api.rsplit(":", 1)[1]
        virtual = boto3.client(
            "s3", region_name=REGION, endpoint_url=f"http://localhost:{port}",
            **self.served.keys,
            config=botocore.config.Config(signature_version="s3v4",
                                          s3={"addressing_style": "virtual"}))
        url = virtual.generate_presigned_url("get_object", {"Bucket": self.bucket, "Key": "v h"})
        self.assertIn(f"http://{self.bucket}.localhost:{port}/v%20h?", url)
        self.put("v h", b"by its host")
        request = urllib.request.Request(url.replace(f"{self.bucket}.localhost", "127.0.0.1"))
        request.add_header("Host", f"{self.bucket}.localhost:{port}")
        with urllib.request.urlopen(request) as answer:
            self.assertEqual(answer.read(), b"by its host")


class Listings(S3Test):
    def test_prefix_delimiter_start_after_and_small_pages(self):
        keys = ["a", "a.b", "a/1", "a/2/x", "a/2/y", "a0", "b/1", "c d+ü/1"]
        for key in keys[1:]:
            self.drop(key, b"")
        self.put("a", b"")  # beside the folder of the same name
        for page in (1, 2, 1000):
            self.assertEqual(self.keys(PaginationConfig={"PageSize": page}),
                             sorted(keys, key=str.encode))
            self.assertEqual(self.keys(Prefix="a/", PaginationConfig={"PageSize": page}),
                             ["a/1", "a/2/x", "a/2/y"])
            pages = list(self.s3.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Delimiter="/", PaginationConfig={"PageSize": page}))
            prefixes = [it["Prefix"] for one in pages for it in one.get("CommonPrefixes", [])]
            self.assertEqual(prefixes, ["a/", "b/", "c d+ü/"])
            found = [it["Key"] for one in pages for it in one.get("Contents", [])]
            self.assertEqual(found, ["a", "a.b", "a0"])
            v1 = self.s3.get_paginator("list_objects").paginate(
                Bucket=self.bucket, Delimiter="/", PaginationConfig={"PageSize": page})
            self.assertEqual([it["Prefix"] for one in v1 for it in one.get("CommonPrefixes", [])],
                             prefixes)
        self.assertEqual(self.keys(StartAfter="a/2/x"), ["a/2/y", "a0", "b/1", "c d+ü/1"])
        self.assertEqual(self.keys(Prefix="none"), [])

    def test_a_page_says_what_it_is(self):
        for key in ("k1", "k2", "k3"):
            self.put(key, b"12345")
        page = self.s3.list_objects_v2(Bucket=self.bucket, MaxKeys=2)
        self.assertEqual((page["KeyCount"], page["IsTruncated"], page["MaxKeys"]), (2, True, 2))
        self.assertEqual(page["Contents"][0]["Size"], 5)
        self.assertEqual(page["Contents"][0]["ETag"], f'"{hashlib.md5(b"12345").hexdigest()}"')
        empty = self.s3.list_objects_v2(Bucket=self.bucket, MaxKeys=0)
        self.assertEqual((empty["KeyCount"], empty["IsTruncated"]), (0, False))
        self.assertEqual(self.refused(self.s3.list_objects_v2, Bucket=self.bucket,
                                      ContinuationToken="guess"), ("InvalidArgument", 400))

    def test_who_reads_where_the_requester_pays_has_to_say_so(self):
        self.put("a")
        self.fault("s3-requester-pays", bucket=self.bucket)
        for call, more in ((self.s3.get_object, {"Key": "a"}), (self.s3.list_objects_v2, {})):
            self.assertEqual(self.refused(call, Bucket=self.bucket, **more),
                             ("AccessDenied", 403))
            call(Bucket=self.bucket, RequestPayer="requester", **more)

    def test_a_hundred_thousand_keys_of_ten_megabytes(self):
        for folder in range(10):  # of one sparse file each, under ten thousand names
            path = self.folder("train", str(folder))
            first = os.path.join(path, f"{folder}00000")
            os.makedirs(path)
            with open(first, "wb") as file:
                file.truncate(10_000_000)
            for number in range(1, 10_000):
                os.link(first, os.path.join(path, f"{folder}{number:05}"))
        self.fault("s3-public", bucket=self.bucket)
        found, token = [], ""
        while True:  # by hand: botocore takes longer to read a page than the emulator to write it
            with urllib.request.urlopen(
                    f"{self.served.api}/{self.bucket}?list-type=2&prefix=train/{token}") as answer:
                page = answer.read().decode()
            found += re.findall("<Key>(.*?)</Key>", page)
            if not (more := re.search("<NextContinuationToken>(.*?)<", page)):
                break
            token = "&continuation-token=" + more[1]
        self.assertEqual(len(found), 100_000)
        self.assertEqual(found, sorted(found))
        self.assertEqual(self.get("train/5/504321", Range="bytes=5000000-5000009"), bytes(10))

    def test_the_next_page_goes_on_although_keys_come_and_go(self):
        for key in ("a", "c", "e"):
            self.put(key)
        first = self.s3.list_objects_v2(Bucket=self.bucket, MaxKeys=1)
        self.put("b")
        self.s3.delete_object(Bucket=self.bucket, Key="a")
        self.s3.delete_object(Bucket=self.bucket, Key="c")
        rest = self.s3.list_objects_v2(Bucket=self.bucket,
                                       ContinuationToken=first["NextContinuationToken"])
        self.assertEqual([it["Key"] for it in rest["Contents"]], ["b", "e"])


if __name__ == "__main__":
    unittest.main()
