#!/usr/bin/python3
"""The judge itself: what a model does not know is found in each place, and nothing else is.

Environment: SPOTTER_EMULATOR_PATH.
"""

import json
import pathlib
import sys
import tempfile
import unittest
import urllib.parse

import boto3
import judge

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "emulator/clients"))
import served

VOLUMES = """<DescribeVolumesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/">
<requestId>r</requestId><volumeSet><item><volumeId>vol-1</volumeId>%s</item></volumeSet>
</DescribeVolumesResponse>"""


def query(service, answer="", status=200, **parameters):
    return {"service": service, "method": "POST", "target": "/", "action": "", "status": status,
            "body": urllib.parse.urlencode(parameters), "answer": answer}


def ec2(action, answer=VOLUMES % "", **parameters):
    return query("ec2", answer, Action=action, Version="2016-11-15", **parameters)


def described(what="", **parameters):
    return ec2("DescribeVolumes", VOLUMES % what, **parameters)


def batch(body, answer=None):
    return {"service": "batch", "method": "POST", "target": "/v1/submitjob", "action": "",
            "status": 200, "body": json.dumps(body),
            "answer": json.dumps(answer or {"jobName": "a", "jobId": "b"})}


def efs(asked):
    return {"service": "elasticfilesystem", "method": "GET", "action": "", "status": 200,
            "target": f"/2015-02-01/mount-targets?{asked}", "body": "",
            "answer": json.dumps({"MountTargets": []})}


def ssm(action, **body):
    return {"service": "ssm", "method": "POST", "target": "/", "action": f"AmazonSSM.{action}",
            "status": 400, "body": json.dumps(body), "answer": "{}"}


DELETED = """<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
<Deleted><Key>a</Key>%s</Deleted></DeleteResult>"""
KEYS = "<Delete><Object><Key>a</Key>%s</Object></Delete>"


def s3(method, target, answer="", body="", headers=(), answer_headers=()):
    return {"service": "s3", "method": method, "target": target, "host": "127.0.0.1:1",
            "body": body, "action": "", "status": 200, "headers": dict(headers), "answer": answer,
            "answer_headers": dict(answer_headers)}


GOOD = [
    s3("POST", "/bucket?delete", DELETED % "", KEYS % ""),
    s3("GET", "/bucket?list-type=2&prefix=a&max-keys=2", "<ListBucketResult><Name>b</Name>"
       "<Contents><Key>a</Key><Size>1</Size></Contents></ListBucketResult>"),
    s3("GET", "/bucket/a/b?partNumber=2", headers={"x-amz-checksum-mode": "ENABLED"},
       answer_headers={"x-amz-meta-mine": "1", "x-amz-checksum-crc32": "a"}),
    s3("PUT", "/bucket/a?partNumber=1&uploadId=u", headers={"x-amz-date": "1"}),
    described("<size>8</size>", **{"Filter.1.Name": "tag:a", "Filter.1.Value.1": "b",
                                   "MaxResults": "5", "DryRun": "false"}),
    query("autoscaling", status=400, Action="CreateOrUpdateTags", Version="2011-01-01",
          **{"Tags.member.1.Key": "a", "Tags.member.1.PropagateAtLaunch": "true"}),
    batch({"jobName": "a", "jobQueue": "b", "jobDefinition": "c", "arrayProperties": {"size": 2}}),
    efs("FileSystemId=fs-1&MaxItems=2"), ssm("GetParameter", Name="a")]
BAD = [
    ("s3: no such operation", s3("PATCH", "/bucket/a")),
    ("prefx is no parameter", s3("GET", "/bucket?list-type=2&prefx=a", "<ListBucketResult/>")),
    ("'many' is no integer", s3("GET", "/bucket?list-type=2&max-keys=many",
                                "<ListBucketResult/>")),
    ("the header x-amz-colour is not known", s3("GET", "/bucket/a", headers={"x-amz-colour": "1"})),
    ("answer: the header x-amz-colour", s3("GET", "/bucket/a",
                                           answer_headers={"x-amz-colour": "1"})),
    ("DeleteObjects: /Object/Colour is not known", s3("POST", "/bucket?delete", DELETED % "",
                                                      KEYS % "<Colour/>")),
    ("answer: /Deleted/Colour is not known", s3("POST", "/bucket?delete", DELETED % "<Colour/>",
                                                KEYS % "")),
    ("cannot be read", s3("GET", "/bucket?list-type=2", "<ListBucketResult><MaxKeys>many</MaxKeys>"
                          "</ListBucketResult>")),
    ("DescribeMountTargets: FileSystem is no parameter", efs("FileSystem=fs-1")),
    ("no such service", query("nowhere", Action="A")),
    ("no such operation", ec2("DescribeVolume")),
    ("version", query("ec2", VOLUMES % "", Action="DescribeVolumes", Version="2011-01-01")),
    ("Filters is no parameter", described(**{"Filters.1.Name": "a"})),
    ("no number in a list", described(**{"Filter.member.1.Name": "a"})),
    ("is no integer", described(MaxResults="many")),
    ("is no boolean", described(DryRun="True")),
    ("is none of", query("ec2", "", 400, Action="CreateVolume", Version="2016-11-15",
                         VolumeType="gp9", AvailabilityZone="a")),
    ("VolumeId is required", query("ec2", "", 400, Action="DeleteVolume", Version="2016-11-15")),
    ("/colour of the answer is not known", described("<colour>red</colour>")),
    ("cannot be read", described("<size>large</size>")),
    ("in the place of member", query("autoscaling", status=400, Action="CreateOrUpdateTags",
                                     Version="2011-01-01", **{"Tags.1.Key": "a"})),
    ("jobqueue is no parameter", batch({"jobName": "a", "jobqueue": "b", "jobDefinition": "c",
                                        "jobQueue": "b"})),
    ("SubmitJob.jobQueue is required", batch({"jobName": "a", "jobDefinition": "c"})),
    ("is no integer", batch({"jobName": "a", "jobQueue": "b", "jobDefinition": "c",
                             "arrayProperties": {"size": "2"}})),
    ("answer.id is not known", batch({"jobName": "a", "jobQueue": "b", "jobDefinition": "c"},
                                     {"jobName": "a", "id": "b"})),
    ("no such operation", ssm("GetParam", Name="a"))]


class Judged(unittest.TestCase):
    def test_what_the_models_know_is_no_fault(self):
        for line in GOOD:
            self.assertEqual(judge.Judge().problems(line), [], line)

    def test_each_fault_is_found(self):
        for words, line in BAD:
            found = judge.Judge().problems(line)
            self.assertTrue(any(words in each for each in found), f"{words}: {found}")

    def test_the_emulators_own_record(self):
        with tempfile.TemporaryDirectory(prefix="spotter-judge-") as place:
            record = pathlib.Path(place) / "record"
            server = served.Served("--record", str(record))
            self.addCleanup(server.stop)
            more = {"endpoint_url": server.api, "region_name": served.REGION, **server.keys}
            ec2_client = boto3.client("ec2", **more)
            ec2_client.create_volume(AvailabilityZone="us-west-2a", Size=8)
            ec2_client.describe_volumes(Filters=[{"Name": "status", "Values": ["available"]}])
            group_client = boto3.client("autoscaling", **more)
            group_client.describe_auto_scaling_groups()
            s3_client = boto3.client("s3", **more)
            s3_client.create_bucket(Bucket="bucket", CreateBucketConfiguration={
                "LocationConstraint": served.REGION})
            s3_client.put_object(Bucket="bucket", Key="a/b", Body=b"these are its bytes")
            self.assertEqual(s3_client.get_object(Bucket="bucket", Key="a/b")["Body"].read(),
                             b"these are its bytes")
            s3_client.list_objects_v2(Bucket="bucket", Prefix="a")
            s3_client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "a/b"}]})
            for client in (ec2_client, group_client, s3_client):
                client.close()
            lines = [json.loads(line) for line in record.read_text().splitlines()]
            self.assertEqual([(line["service"], line["status"]) for line in lines],
                             [("ec2", 200), ("ec2", 200), ("autoscaling", 200)]
                             + [("s3", 200)] * 5)
            self.assertNotIn("these are its bytes", record.read_text())
            self.assertEqual(judge.main([record]), 0)


if __name__ == "__main__":
    unittest.main()
