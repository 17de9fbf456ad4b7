"""boto3 and `aws s3` against the emulator's S3: signed by botocore, parsed by its model of S3."""

import base64
import binascii
import datetime
import hashlib
import io
import os
import re
import struct
import subprocess
import unittest
import urllib.error
import urllib.request
import warnings

from served import REGION, ServedTest, eventually

try:
    import boto3
    import botocore.config
    import botocore.exceptions
    from boto3.s3.transfer import TransferConfig
except ImportError:
    boto3 = None

MEBIBYTE = 1024 * 1024
ODD_KEYS = ["plain", "a b+c", "ü/€/日本", "a/../b", "..", "../../etc/passwd", ".", "/leading",
            "two//slashes", "folder/", "a/./b", "x" * 300, "quote\"'&<>", "percent%2Fhere",
            "plain/below-an-object", "tab\tand\nnewline", "?question=#hash", "plus+plus"]


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class S3Test(ServedTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # botocore leaves the closing of its kept connections to the collector.
        warnings.simplefilter("ignore", ResourceWarning)
        cls.s3 = cls.client()

    @classmethod
    def client(cls, secret="emulator-secret", region=REGION, attempts=0, config=None, **more):
        more = {"aws_access_key_id": "AKIAEMULATOR00000000", **more}
        return boto3.client(
            "s3", region_name=region, endpoint_url=cls.served.api, aws_secret_access_key=secret,
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


class Objects(S3Test):
    def test_an_object_comes_back_with_all_that_was_said_of_it(self):
        put = self.put("a/b.txt", b"hello", ContentType="text/plain", CacheControl="max-age=5",
                       ContentEncoding="identity", Metadata={"Job": "mnist"})
        self.assertEqual(put["ETag"], f'"{hashlib.md5(b"hello").hexdigest()}"')
        got = self.s3.get_object(Bucket=self.bucket, Key="a/b.txt")
        self.assertEqual(got["Body"].read(), b"hello")
        head = self.s3.head_object(Bucket=self.bucket, Key="a/b.txt")
        for answer in (got, head):
            self.assertEqual(answer["ETag"], put["ETag"])
            self.assertEqual(answer["ContentLength"], 5)
            self.assertEqual(answer["ContentType"], "text/plain")
            self.assertEqual(answer["CacheControl"], "max-age=5")
            self.assertEqual(answer["ContentEncoding"], "identity")
            self.assertEqual(answer["Metadata"], {"job": "mnist"})
            age = datetime.datetime.now(datetime.timezone.utc) - answer["LastModified"]
            self.assertLess(abs(age.total_seconds()), 600)
        with open(self.folder("a", "b.txt"), "rb") as file:
            self.assertEqual(file.read(), b"hello")

    def test_every_key_is_an_object_and_none_leaves_the_folder(self):
        before = {key: f"content of {key}".encode() for key in ODD_KEYS}
        for key, content in before.items():
            self.put(key, content)
        for key, content in before.items():
            self.assertEqual(self.get(key), content)
        self.assertEqual(self.keys(), sorted(ODD_KEYS, key=lambda key: key.encode()))
        self.assertFalse(os.path.exists(os.path.join(self.served.folder, "s3", "b")))
        self.s3.delete_object(Bucket=self.bucket, Key="plain")
        self.assertEqual(self.get("plain/below-an-object"), before["plain/below-an-object"])
        for key in ODD_KEYS:
            self.s3.delete_object(Bucket=self.bucket, Key=key)
        self.assertEqual(self.keys(), [])
        self.assertEqual(os.listdir(self.folder()), [])

    def test_a_symbolic_link_is_not_followed(self):
        with open(os.path.join(self.served.folder, "secret"), "w", encoding="ascii") as file:
            file.write("secret")
        os.symlink(os.path.join(self.served.folder, "secret"), self.folder("link"))
        os.symlink(self.served.folder, self.folder("folder"))
        for key in ("link", "folder/secret"):
            self.assertEqual(self.refused(self.get, key=key), ("NoSuchKey", 404))
        self.assertEqual(self.keys(), [])

    def test_a_file_that_a_user_drops_is_an_object_and_a_new_one_has_a_new_etag(self):
        self.drop("data/train.csv", b"1,2,3\n")
        self.assertEqual(self.get("data/train.csv"), b"1,2,3\n")
        head = self.s3.head_object(Bucket=self.bucket, Key="data/train.csv")
        self.assertEqual(head["ETag"], f'"{hashlib.md5(b"1,2,3" + bytes([10])).hexdigest()}"')
        self.drop("data/train.csv", b"1,2,4\n")
        again = self.s3.head_object(Bucket=self.bucket, Key="data/train.csv")
        self.assertNotEqual(again["ETag"], head["ETag"])
        self.assertEqual(self.refused(self.get, key="data/train.csv", IfMatch=head["ETag"]),
                         ("PreconditionFailed", 412))

    def test_what_was_uploaded_and_then_replaced_by_hand_is_what_lies_there(self):
        put = self.put("a", b"first", Metadata={"by": "boto3"})
        self.drop("a", b"second")
        got = self.s3.get_object(Bucket=self.bucket, Key="a")
        self.assertEqual((got["Body"].read(), got["Metadata"]), (b"second", {}))
        self.assertNotEqual(got["ETag"], put["ETag"])

    def test_ranges(self):
        content = bytes(range(256)) * 4
        self.put("r", content)
        for header, first, last in (("bytes=0-0", 0, 0), ("bytes=10-19", 10, 19),
                                    ("bytes=1000-", 1000, 1023), ("bytes=1000-5000", 1000, 1023),
                                    ("bytes=-24", 1000, 1023), ("bytes=-5000", 0, 1023)):
            got = self.s3.get_object(Bucket=self.bucket, Key="r", Range=header)
            self.assertEqual(got["Body"].read(), content[first:last + 1], header)
            self.assertEqual(got["ContentRange"], f"bytes {first}-{last}/1024")
            self.assertEqual(got["ResponseMetadata"]["HTTPStatusCode"], 206)
        for header in ("bytes=1024-", "bytes=-0"):
            self.assertEqual(self.refused(self.get, key="r", Range=header), ("InvalidRange", 416))
        for header in ("bytes=9-3", "bytes=a-b", "lines=1-2"):
            self.assertEqual(self.get("r", Range=header), content)

    def test_conditional_reads(self):
        etag = self.put("c")["ETag"]
        modified = self.s3.head_object(Bucket=self.bucket, Key="c")["LastModified"]
        hour = datetime.timedelta(hours=1)
        for arguments in ({"IfMatch": etag}, {"IfNoneMatch": '"other"'},
                          {"IfModifiedSince": modified - hour},
                          {"IfUnmodifiedSince": modified + hour},
                          {"IfMatch": etag, "IfUnmodifiedSince": modified - hour}):
            self.assertEqual(self.get("c", **arguments), b"content")
        for arguments in ({"IfMatch": '"other"'}, {"IfUnmodifiedSince": modified - hour}):
            self.assertEqual(self.refused(self.get, key="c", **arguments),
                             ("PreconditionFailed", 412))
        for arguments in ({"IfNoneMatch": etag}, {"IfModifiedSince": modified},
                          {"IfNoneMatch": etag, "IfModifiedSince": modified - hour}):
            self.assertEqual(self.refused(self.get, key="c", **arguments), ("304", 304))

    def test_conditional_writes(self):
        etag = self.put_with({"If-None-Match": "*"}, "w")["ETag"]
        write = self.put_with
        self.assertEqual(self.refused(write, headers={"If-None-Match": "*"}, key="w"),
                         ("PreconditionFailed", 412))
        self.assertEqual(self.refused(write, headers={"If-Match": '"other"'}, key="w"),
                         ("PreconditionFailed", 412))
        self.assertEqual(self.refused(write, headers={"If-Match": etag}, key="none"),
                         ("NoSuchKey", 404))
        self.put_with({"If-Match": etag}, "w", b"next")
        self.assertEqual(self.get("w"), b"next")
        self.fault("s3-conflict")
        self.assertEqual(self.refused(write, headers={"If-None-Match": "*"}, key="new"),
                         ("ConditionalRequestConflict", 409))
        self.put_with({"If-None-Match": "*"}, "new")

    def test_checksums_are_verified_kept_and_given_back(self):
        body = b"123456789"
        sums = {"CRC32": struct.pack(">I", binascii.crc32(body)),
                "CRC32C": struct.pack(">I", 0xE3069283),  # the published check value
                "SHA1": hashlib.sha1(body).digest(), "SHA256": hashlib.sha256(body).digest()}
        for name, raw in sums.items():
            given = {f"Checksum{name}": base64.b64encode(raw).decode()}
            self.put(name, body, **given)
            head = self.s3.head_object(Bucket=self.bucket, Key=name, ChecksumMode="ENABLED")
            self.assertEqual(head[f"Checksum{name}"], given[f"Checksum{name}"])
            wrong = {f"Checksum{name}": base64.b64encode(bytes(len(raw))).decode()}
            self.assertEqual(self.refused(self.put, key="wrong", body=body, **wrong),
                             ("BadDigest", 400))
        self.assertEqual(self.put_with({"x-amz-checksum-crc64nvme": "rosUhgp5mIg="}, "64", body)
                         ["ResponseMetadata"]["HTTPStatusCode"], 200)  # of "123456789", published
        md5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()
        self.assertEqual(self.refused(self.put, key="wrong", ContentMD5=md5), ("BadDigest", 400))
        self.assertEqual(self.refused(self.put, key="wrong", ContentMD5="short"),
                         ("InvalidDigest", 400))
        self.assertNotIn("wrong", self.keys())

    def test_deletions(self):
        for key in ("a/b/c", "a/d", "e&<>"):
            self.put(key)
        self.s3.delete_object(Bucket=self.bucket, Key="never-there")
        done = self.s3.delete_objects(Bucket=self.bucket, Delete={
            "Objects": [{"Key": key} for key in ("a/b/c", "e&<>", "never-there")]})
        self.assertEqual([it["Key"] for it in done["Deleted"]], ["a/b/c", "e&<>", "never-there"])
        self.assertEqual(self.keys(), ["a/d"])
        self.assertFalse(os.path.exists(self.folder("a", "b")))
        self.assertEqual(self.refused(self.s3.delete_bucket, Bucket=self.bucket),
                         ("BucketNotEmpty", 409))
        self.s3.delete_object(Bucket=self.bucket, Key="a/d")
        self.s3.delete_bucket(Bucket=self.bucket)
        self.assertEqual(self.refused(self.get, key="a"), ("NoSuchBucket", 404))

    def test_copies(self):
        self.put("from me+ü", b"copied", ContentType="text/x", Metadata={"a": "b"})
        source = {"Bucket": self.bucket, "Key": "from me+ü"}
        self.s3.copy_object(Bucket=self.bucket, Key="to", CopySource=source)
        got = self.s3.get_object(Bucket=self.bucket, Key="to")
        self.assertEqual((got["Body"].read(), got["ContentType"], got["Metadata"]),
                         (b"copied", "text/x", {"a": "b"}))
        self.s3.copy_object(Bucket=self.bucket, Key="to", CopySource=source,
                            MetadataDirective="REPLACE", Metadata={"c": "d"})
        self.assertEqual(self.s3.head_object(Bucket=self.bucket, Key="to")["Metadata"],
                         {"c": "d"})
        self.assertEqual(self.refused(self.s3.copy_object, Bucket=self.bucket, Key="to",
                                      CopySource={"Bucket": self.bucket, "Key": "none"}),
                         ("NoSuchKey", 404))


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
            aws_access_key_id="AKIAEMULATOR00000000", aws_secret_access_key="emulator-secret",
            config=botocore.config.Config(signature_version="s3v4",
                                          s3={"addressing_style": "virtual"}))
        url = virtual.generate_presigned_url("get_object", {"Bucket": self.bucket, "Key": "v h"})
        self.assertIn(f"http://{self.bucket}.localhost:{port}/v%20h?", url)
        self.put("v h", b"by its host")
        request = urllib.request.Request(url.replace(f"{self.bucket}.localhost", "127.0.0.1"))
        request.add_header("Host", f"{self.bucket}.localhost:{port}")
        with urllib.request.urlopen(request) as answer:
            self.assertEqual(answer.read(), b"by its host")


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
        self.complete(upload, parts)
        head = self.s3.head_object(Bucket=self.bucket, Key="big", ChecksumMode="ENABLED")
        self.assertEqual(head["ChecksumSHA256"], base64.b64encode(raw).decode() + "-2")

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
                     "s3-spoiled", "s3-conflict", "s3-public", "fail-next"):
            self.assertIn(f"{name} ", listed)
        self.assertEqual(self.served.command("fault", "s3-slow", "rate=1000000").returncode, 0)
        self.assertEqual(self.served.command("fault", "s3-reset", "after=x").returncode, 1)
        state = self.served.control("state")
        self.assertIn(self.bucket, [bucket["id"] for bucket in state["buckets"]])


class AwsCommand(S3Test):
    def aws(self, *words):
        environment = {**os.environ, "AWS_ACCESS_KEY_ID": "AKIAEMULATOR00000000",
                       "AWS_SECRET_ACCESS_KEY": "emulator-secret", "AWS_DEFAULT_REGION": REGION,
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
