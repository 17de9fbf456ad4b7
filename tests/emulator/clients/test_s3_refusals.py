"""What S3 refuses and a kind fake would not, as raw requests: this botocore's models are older."""

import base64
import hashlib
import re
import unittest
import urllib.error
import urllib.request

from s3 import REGION, S3Test

try:
    import botocore.auth
    import botocore.awsrequest
    import botocore.credentials
except ImportError:
    botocore = None


class S3Refusals(S3Test):
    def ask(self, method, target, body=b"", **headers):
        """The status, and the error's code or else the whole answer."""
        request = botocore.awsrequest.AWSRequest(
            method, self.served.api + "/" + target, data=body,
            headers={name.replace("_", "-"): value for name, value in headers.items()})
        credentials = botocore.credentials.Credentials(*self.served.keys.values())
        botocore.auth.S3SigV4Auth(credentials, "s3", REGION).add_auth(request)
        sent = urllib.request.Request(request.url, body or None, dict(request.headers.items()),
                                      method=method)
        try:
            with urllib.request.urlopen(sent, timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            with refused:
                found = re.search("<Code>(.*?)</Code>", refused.read().decode())
                return refused.code, found[1] if found else ""

    def at(self, key=""):
        return f"{self.bucket}/{key}"

    def etag(self, key):
        return self.s3.head_object(Bucket=self.bucket, Key=key)["ETag"]

    def test_an_object_goes_only_with_the_etag_that_is_named(self):
        self.put("k")
        self.assertEqual(self.ask("DELETE", self.at("k"), If_Match='"wrong"'),
                         (412, "PreconditionFailed"))
        self.assertEqual(self.keys(), ["k"])
        self.assertEqual(self.ask("DELETE", self.at("none"), If_Match="*"), (404, "NoSuchKey"))
        self.assertEqual(self.ask("DELETE", self.at("k"), If_Match=self.etag("k"))[0], 204)
        self.assertEqual(self.keys(), [])

    def delete(self, items):
        body = f"<Delete>{items}</Delete>".encode()
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        return self.ask("POST", self.at("?delete"), body, Content_MD5=md5)[1]

    def test_each_of_several_objects_has_a_condition_of_its_own(self):
        self.put("a")
        self.put("b")
        answer = self.delete("<Object><Key>a</Key><ETag>wrong</ETag></Object>"
                             f"<Object><Key>b</Key><ETag>{self.etag('b')}</ETag></Object>")
        self.assertIn("<Error><Key>a</Key><Code>PreconditionFailed</Code>", answer)
        self.assertIn("<Deleted><Key>b</Key></Deleted>", answer)
        self.assertEqual(self.keys(), ["a"])

    def test_a_key_may_be_a_space(self):
        self.put(" ")
        self.assertIn("<Deleted><Key> </Key></Deleted>",
                      self.delete("<Object><Key> </Key></Object>"))
        self.assertEqual(self.keys(), [])

    def test_a_copy_is_made_under_the_conditions_of_its_source(self):
        self.put("from")
        source = {"CopySource": {"Bucket": self.bucket, "Key": "from"}}
        for more in ({"CopySourceIfNoneMatch": self.etag("from")},
                     {"CopySourceIfMatch": '"wrong"'}):
            self.assertEqual(self.refused(self.s3.copy_object, Bucket=self.bucket, Key="to",
                                          **source, **more), ("PreconditionFailed", 412))
        self.assertEqual(self.refused(self.s3.copy_object, Bucket=self.bucket, Key="from",
                                      **source), ("InvalidRequest", 400))
        self.s3.copy_object(Bucket=self.bucket, Key="from", **source,
                            MetadataDirective="REPLACE", Metadata={"a": "b"})
        self.assertEqual(self.keys(), ["from"])

    def test_an_upload_in_parts_has_the_size_that_is_said(self):
        upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key="k")["UploadId"]
        part = self.s3.upload_part(Bucket=self.bucket, Key="k", UploadId=upload, PartNumber=1,
                                   Body=b"12345")
        body = ("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
                f"<ETag>{part['ETag']}</ETag></Part></CompleteMultipartUpload>").encode()
        target = self.at(f"k?uploadId={upload}")
        self.assertEqual(self.ask("POST", target, body, x_amz_mp_object_size="4"),
                         (400, "InvalidRequest"))
        self.put("from", b"12345")
        for beyond in ("bytes=0-5", "bytes=2-", "bytes=4-3"):
            self.assertEqual(
                self.ask("PUT", self.at(f"k?partNumber=2&uploadId={upload}"),
                         x_amz_copy_source=self.at("from"), x_amz_copy_source_range=beyond),
                (400, "InvalidArgument"), beyond)
        self.assertEqual(self.ask("POST", target, body, x_amz_mp_object_size="5")[0], 200)

    def test_one_checksum_and_two_kilobytes_of_metadata_are_enough(self):
        def crc(name):
            return {f"x_amz_checksum_{name}": "AAAAAA=="}
        self.assertEqual(self.ask("PUT", self.at("k"), b"x", **crc("crc32"), **crc("crc32c")),
                         (400, "InvalidRequest"))
        self.assertEqual(self.ask("PUT", self.at("k"), b"x", x_amz_meta_a="v" * 2048),
                         (400, "MetadataTooLarge"))
        self.assertEqual(self.ask("PUT", self.at("k"), b"x", x_amz_meta_a="v" * 2047)[0], 200)

    def test_storage_classes_beyond_the_standard_one_are_refused_with_words(self):
        for storage_class in ("STANDARD_IA", "GLACIER", "EXPRESS_ONEZONE", "banana"):
            status, code = self.ask("PUT", self.at("k"), b"x", x_amz_storage_class=storage_class)
            self.assertGreaterEqual(status, 400, storage_class)
            self.assertIn(code, ("NotImplemented", "InvalidStorageClass"), storage_class)
            upload = self.ask("POST", self.at("k?uploads"), x_amz_storage_class=storage_class)
            self.assertEqual(upload, (status, code))
        self.assertEqual(self.keys(), [])
        self.assertEqual(self.ask("PUT", self.at("k"), b"x", x_amz_storage_class="STANDARD")[0],
                         200)

    def test_what_comes_without_a_checksum_gets_one(self):
        body = b"123456789"
        self.put("k", body)
        upload = self.s3.create_multipart_upload(Bucket=self.bucket, Key="parts")["UploadId"]
        etag = self.s3.upload_part(Bucket=self.bucket, Key="parts", UploadId=upload, PartNumber=1,
                                   Body=body)["ETag"]
        done = self.ask("POST", self.at(f"parts?uploadId={upload}"),
                        ("<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>"
                         f"<ETag>{etag}</ETag></Part></CompleteMultipartUpload>").encode(),
                        x_amz_checksum_type="FULL_OBJECT")[1]
        self.assertIn("<ChecksumCRC64NVME>rosUhgp5mIg=</ChecksumCRC64NVME>"
                      "<ChecksumType>FULL_OBJECT</ChecksumType>", done)  # published
        listed = self.ask("GET", self.at("?list-type=2"))[1]
        self.assertEqual(listed.count("<ChecksumAlgorithm>CRC64NVME</ChecksumAlgorithm>"), 2)

    def test_a_deletion_of_several_comes_with_a_checksum(self):
        body = b"<Delete><Object><Key>k</Key></Object></Delete>"
        for headers, expected in (({}, "InvalidRequest"),
                                  ({"x_amz_checksum_crc32": "AAAAAA=="}, "BadDigest")):
            self.assertEqual(self.ask("POST", self.at("?delete"), body, **headers),
                             (400, expected))

    def test_buckets_are_listed_by_prefix_and_page_by_page(self):
        names = sorted(f"page-{i}-{self.bucket}"[:63].rstrip("-") for i in range(3))
        for name in names:
            self.make_bucket(name)
        listed, token = [], ""
        while token is not None:
            answer = self.ask("GET", f"?continuation-token={token}&max-buckets=2&prefix=page-")[1]
            listed.append(re.findall("<Name>(.*?)</Name>", answer))
            self.assertIn(f"<BucketRegion>{REGION}</BucketRegion>", answer)
            found = re.search("<ContinuationToken>(.*?)</ContinuationToken>", answer)
            token = found[1] if found else None
        self.assertEqual(listed, [names[:2], names[2:]])

    def test_uploads_are_listed_page_by_page(self):
        for key in ("a/1", "a/2", "b", "c"):
            self.s3.create_multipart_upload(Bucket=self.bucket, Key=key)
        pages = self.s3.get_paginator("list_multipart_uploads").paginate(
            Bucket=self.bucket, Delimiter="/", PaginationConfig={"PageSize": 2})
        self.assertEqual(
            [([it["Key"] for it in page.get("Uploads", [])],
              [it["Prefix"] for it in page.get("CommonPrefixes", [])]) for page in pages],
            [(["b"], ["a/"]), (["c"], [])])

    def test_names_that_no_bucket_has(self):
        for name in ("192.168.5.4", "xn--data", "sthree-data", "amzn-s3-demo-data", "data-s3alias",
                     "data--ol-s3", "data.mrap", "data--x-s3", "da", "Data", "da..ta", "data-"):
            self.assertEqual(self.ask("PUT", name), (400, "InvalidBucketName"), name)

    def test_somebody_elses_bucket_is_not_meant(self):
        self.put("k")
        for owner, status in (("999999999999", 403), ("123456789012", 200)):
            self.assertEqual(
                self.ask("GET", self.at("k"), x_amz_expected_bucket_owner=owner)[0], status)


if __name__ == "__main__":
    unittest.main()
