"""boto3 against the emulator's S3: objects, conditions, checksums, copies."""

import base64
import binascii
import datetime
import hashlib
import os
import struct
import unittest

from s3 import S3Test, boto3

ODD_KEYS = ["plain", "a b+c", "ü/€/日本", "a/../b", "..", "../../etc/passwd", ".", "/leading",
            "two//slashes", "folder/", "a/./b", "x" * 300, "quote\"'&<>", "percent%2Fhere",
            "plain/below-an-object", "tab\tand\nnewline", "?question=#hash", "plus+plus"]


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
        self.drop("data/train.csv", b"1,2,34\n")
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


if __name__ == "__main__":
    unittest.main()
