"""boto3 against the emulator: what it sends is signed by botocore, what it reads is parsed by
botocore's own model of EC2."""

import datetime
import json
import pathlib
import tempfile
import unittest
import warnings

from served import REGION, ServedTest, eventually, fleet_configuration

try:
    import boto3
    import botocore.auth
    import botocore.awsrequest
    import botocore.config
    import botocore.credentials
    import botocore.exceptions
except ImportError:
    boto3 = None


@unittest.skipUnless(boto3, "boto3 is not installed for this interpreter (apt: python3-boto3)")
class Boto3Test(ServedTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        # botocore leaves the closing of its kept connections to the collector.
        warnings.simplefilter("ignore", ResourceWarning)
        cls.ec2 = cls.client()

    @classmethod
    def client(cls, **more):
        more = {**cls.served.keys, **more}
        return boto3.client(
            "ec2", region_name=REGION, endpoint_url=cls.served.api,
            config=botocore.config.Config(retries={"max_attempts": 0}), **more)

    def code(self, call, **arguments):
        with self.assertRaises(botocore.exceptions.ClientError) as raised:
            call(**arguments)
        return raised.exception.response["Error"]["Code"]

    def make_volume(self, **more):
        volume = self.ec2.create_volume(AvailabilityZone="us-west-2a", Size=1, **more)["VolumeId"]
        self.wait("volume_available", VolumeIds=[volume])
        return volume

    def wait(self, name, **arguments):
        waiter = self.ec2.get_waiter(name)
        waiter.wait(WaiterConfig={"Delay": 0.1, "MaxAttempts": 300}, **arguments)

    def run_instance(self):
        reservation = self.ec2.run_instances(
            ImageId="ami-1a2b3c4d", InstanceType="p3.2xlarge", MinCount=1, MaxCount=1,
            Placement={"AvailabilityZone": "us-west-2a"}, UserData="#!/bin/sh\nexit 0\n")
        instance = reservation["Instances"][0]["InstanceId"]
        self.wait("instance_running", InstanceIds=[instance])
        return instance


class Identity(Boto3Test):
    def test_who_asks(self):
        sts = boto3.client("sts", region_name=REGION, endpoint_url=self.served.api,
                           **self.served.keys)
        who = sts.get_caller_identity()
        self.assertEqual((who["Account"], who["Arn"]),
                         ("123456789012", "arn:aws:iam::123456789012:user/user"))
        with self.assertRaises(botocore.exceptions.ClientError) as raised:
            sts.get_session_token()
        self.assertEqual(raised.exception.response["Error"]["Code"], "InvalidAction")


class Policies(Boto3Test):
    def test_a_user_may_do_what_its_policy_allows(self):
        policy = pathlib.Path(self.served.folder) / "policy.json"
        policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "ec2:Describe*", "Resource": "*"},
            {"Effect": "Allow", "Action": "ec2:DeleteVolume", "Resource": "*",
             "Condition": {"StringEquals": {"aws:ResourceTag/mine": "yes"}}}]}))
        self.assertEqual(self.served.command("policy", "alice", str(policy)).returncode, 0)
        alice = self.client(aws_access_key_id="AKIAALICE00000000000")
        volume = self.make_volume()
        self.assertEqual(len(alice.describe_volumes(VolumeIds=[volume])["Volumes"]), 1)
        for dry_run in (True, False):
            self.assertEqual(self.code(alice.delete_volume, VolumeId=volume, DryRun=dry_run),
                             "UnauthorizedOperation")
        self.ec2.create_tags(Resources=[volume], Tags=[{"Key": "mine", "Value": "yes"}])
        self.assertEqual(self.code(alice.delete_volume, VolumeId=volume, DryRun=True),
                         "DryRunOperation")
        alice.delete_volume(VolumeId=volume)
        bucket = boto3.client("s3", region_name=REGION, endpoint_url=self.served.api,
                              aws_access_key_id="AKIAALICE00000000000",
                              aws_secret_access_key=self.served.secret)
        with self.assertRaises(botocore.exceptions.ClientError) as raised:
            bucket.list_buckets()
        self.assertEqual(raised.exception.response["Error"]["Code"], "AccessDenied")


class Signatures(Boto3Test):
    def test_a_wrong_secret_an_unknown_key_and_a_token_of_nobody_are_refused(self):
        guessing = self.client(aws_secret_access_key="guess")
        self.assertEqual(self.code(guessing.describe_volumes), "SignatureDoesNotMatch")
        unknown = self.client(aws_access_key_id="AKIAUNKNOWN")
        self.assertEqual(self.code(unknown.describe_volumes), "AuthFailure")
        token = self.client(aws_session_token="nobody")
        self.assertEqual(self.code(token.describe_volumes), "InvalidClientTokenId")

    def test_each_protocol_names_an_unknown_key_in_its_own_way(self):
        def client(service, region=REGION, **more):
            return boto3.client(service, region_name=region, endpoint_url=self.served.api,
                                **{**self.served.keys, **more})
        for service, call, code in (
                ("sts", "get_caller_identity", "InvalidClientTokenId"),
                ("iam", "list_roles", "InvalidClientTokenId"),
                ("batch", "describe_job_queues", "UnrecognizedClientException")):
            unknown = client(service, aws_access_key_id="AKIAUNKNOWN")
            self.assertEqual(self.code(getattr(unknown, call)), code)
        client("iam", "us-east-1").create_user(UserName="somebody")

    def test_odd_text_comes_through_signed(self):
        volume = self.make_volume()
        odd = "a b+c%d&e=f/g?h~ü€;:@'\"\\*()"
        self.ec2.create_tags(Resources=[volume], Tags=[{"Key": "odd", "Value": odd}])
        tags = self.ec2.describe_volumes(
            Filters=[{"Name": "volume-id", "Values": [volume]}])["Volumes"][0]["Tags"]
        self.assertEqual(tags, [{"Key": "odd", "Value": odd}])

    def test_a_get_with_a_query_is_verified_like_a_post(self):
        import urllib.error
        import urllib.request
        query = ("/?Version=2016-11-15&Action=DescribeVolumes&Filter.1.Value.1=a%20b"
                 "&Filter.1.Name=tag%3Ajob")
        request = botocore.awsrequest.AWSRequest("GET", self.served.api + query)
        credentials = botocore.credentials.Credentials(*self.served.keys.values())
        botocore.auth.SigV4Auth(credentials, "ec2", REGION).add_auth(request)

        def get(url):
            sent = urllib.request.Request(url, headers=dict(request.headers.items()))
            with urllib.request.urlopen(sent, timeout=20) as answer:
                return answer.status, answer.headers["Date"]
        status, date = get(request.url)
        self.assertEqual(status, 200)
        self.assertTrue(date.endswith("GMT"))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            get(request.url + "c")
        self.assertEqual(refused.exception.code, 403)
        refused.exception.close()

    def test_an_old_signature_is_refused(self):
        import urllib.error
        import urllib.request
        body = b"Action=DescribeVolumes&Version=2016-11-15"
        request = botocore.awsrequest.AWSRequest("POST", self.served.api + "/", data=body)
        credentials = botocore.credentials.Credentials(*self.served.keys.values())
        real = botocore.auth.datetime
        past = datetime.datetime.utcnow() - datetime.timedelta(minutes=6)

        class Past:
            datetime = type("Clock", (), {"utcnow": staticmethod(lambda: past)})
        botocore.auth.datetime = Past
        try:
            botocore.auth.SigV4Auth(credentials, "ec2", REGION).add_auth(request)
        finally:
            botocore.auth.datetime = real
        sent = urllib.request.Request(request.url, body, dict(request.headers.items()))
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(sent, timeout=20)
        self.assertIn(b"RequestExpired", refused.exception.read())
        refused.exception.close()


class Storage(Boto3Test):
    def test_a_volume_is_attached_detached_copied_and_deleted(self):
        volume = self.make_volume(TagSpecifications=[
            {"ResourceType": "volume", "Tags": [{"Key": "Name", "Value": "mnist-volume"}]}])
        instance = self.run_instance()
        self.ec2.attach_volume(VolumeId=volume, InstanceId=instance, Device="/dev/sdf")
        self.wait("volume_in_use", VolumeIds=[volume])
        self.assertEqual(self.code(self.ec2.delete_volume, VolumeId=volume), "VolumeInUse")
        eventually(lambda: self.volume(volume)["Attachments"][0]["State"] == "attached")
        self.ec2.detach_volume(VolumeId=volume)
        self.wait("volume_available", VolumeIds=[volume])
        snapshot = self.ec2.create_snapshot(VolumeId=volume, Description="copy")["SnapshotId"]
        self.wait("snapshot_completed", SnapshotIds=[snapshot])
        found = self.ec2.describe_snapshots(
            OwnerIds=["self"], Filters=[{"Name": "volume-id", "Values": [volume]}])["Snapshots"]
        self.assertEqual([it["SnapshotId"] for it in found], [snapshot])
        copy = self.make_volume(SnapshotId=snapshot)
        self.assertEqual(self.volume(copy)["SnapshotId"], snapshot)
        self.ec2.delete_snapshot(SnapshotId=snapshot)
        self.ec2.delete_volume(VolumeId=volume)
        self.wait("volume_deleted", VolumeIds=[volume])

    def volume(self, volume):
        return self.ec2.describe_volumes(VolumeIds=[volume])["Volumes"][0]

    def test_volumes_are_found_by_tag_and_page_by_page(self):
        tags = [{"Key": "job", "Value": "pages"}]
        made = {self.make_volume(TagSpecifications=[{"ResourceType": "volume", "Tags": tags}])
                for _ in range(7)}
        pages = list(self.ec2.get_paginator("describe_volumes").paginate(
            Filters=[{"Name": "tag:job", "Values": ["pages"]}],
            PaginationConfig={"PageSize": 5}))
        self.assertEqual([len(page["Volumes"]) for page in pages], [5, 2])
        self.assertEqual({it["VolumeId"] for page in pages for it in page["Volumes"]}, made)

    def test_a_dry_run_does_nothing(self):
        before = len(self.ec2.describe_volumes()["Volumes"])
        self.assertEqual(self.code(self.ec2.create_volume, AvailabilityZone="us-west-2a", Size=1,
                                   DryRun=True), "DryRunOperation")
        self.assertEqual(len(self.ec2.describe_volumes()["Volumes"]), before)

    def test_what_does_not_exist_has_the_error_code_of_ec2(self):
        none = "0123456789abcdef0"
        self.assertEqual(self.code(self.ec2.describe_volumes, VolumeIds=["vol-" + none]),
                         "InvalidVolume.NotFound")
        self.assertEqual(self.code(self.ec2.describe_snapshots, SnapshotIds=["snap-" + none]),
                         "InvalidSnapshot.NotFound")
        self.assertEqual(self.code(self.ec2.describe_instances, InstanceIds=["i-" + none]),
                         "InvalidInstanceID.NotFound")


class Instances(Boto3Test):
    def test_an_instance_runs_and_is_terminated(self):
        instance = self.run_instance()
        found = self.ec2.describe_instances(Filters=[
            {"Name": "instance-id", "Values": [instance]},
            {"Name": "instance-state-name", "Values": ["running"]}])["Reservations"]
        self.assertEqual(found[0]["Instances"][0]["InstanceId"], instance)
        self.ec2.terminate_instances(InstanceIds=[instance])
        self.wait("instance_terminated", InstanceIds=[instance])


class Fleets(Boto3Test):
    def active(self, request):
        found = self.ec2.describe_spot_fleet_instances(SpotFleetRequestId=request)
        return [it["InstanceId"] for it in found["ActiveInstances"]]

    def test_a_spot_fleet_of_the_documented_form_replaces_what_is_interrupted(self):
        request = self.ec2.request_spot_fleet(SpotFleetRequestConfig=fleet_configuration(
            user_data="#!/bin/sh\nexit 0\n"))["SpotFleetRequestId"]
        self.assertTrue(eventually(lambda: self.active(request)))
        first = self.active(request)[0]
        eventually(lambda: first in str(self.ec2.describe_spot_instance_requests()))
        self.assertEqual(self.served.command("interrupt", first, "--in", "2s").returncode, 0)
        self.assertTrue(eventually(lambda: self.active(request) not in ([], [first])))
        self.ec2.modify_spot_fleet_request(SpotFleetRequestId=request, TargetCapacity=2)
        self.assertTrue(eventually(lambda: len(self.active(request)) == 2))
        cancelled = self.ec2.cancel_spot_fleet_requests(
            SpotFleetRequestIds=[request], TerminateInstances=True)
        self.assertEqual(cancelled["UnsuccessfulFleetRequests"], [])
        self.assertTrue(eventually(lambda: self.state(request) == "cancelled"))

    def state(self, request):
        found = self.ec2.describe_spot_fleet_requests(SpotFleetRequestIds=[request])
        return found["SpotFleetRequestConfigs"][0]["SpotFleetRequestState"]

    def test_an_ec2_fleet_launches_from_a_template(self):
        self.ec2.create_launch_template(LaunchTemplateName="trainer", LaunchTemplateData={
            "ImageId": "ami-1a2b3c4d", "InstanceType": "p3.2xlarge"})
        fleet = self.ec2.create_fleet(
            Type="maintain",
            LaunchTemplateConfigs=[{
                "LaunchTemplateSpecification": {"LaunchTemplateName": "trainer", "Version": "1"},
                "Overrides": [{"AvailabilityZone": "us-west-2a"},
                              {"AvailabilityZone": "us-west-2b"}]}],
            TargetCapacitySpecification={"TotalTargetCapacity": 1,
                                         "DefaultTargetCapacityType": "spot"})["FleetId"]

        def active():
            return self.ec2.describe_fleet_instances(FleetId=fleet)["ActiveInstances"]
        self.assertTrue(eventually(active))
        self.ec2.modify_fleet(FleetId=fleet,
                              TargetCapacitySpecification={"TotalTargetCapacity": 2})
        self.assertTrue(eventually(lambda: len(active()) == 2))
        deleted = self.ec2.delete_fleets(FleetIds=[fleet], TerminateInstances=True)
        self.assertEqual(deleted["SuccessfulFleetDeletions"][0]["FleetId"], fleet)
        self.assertTrue(eventually(lambda: self.ec2.describe_fleets(FleetIds=[fleet])["Fleets"][0][
            "FleetState"] == "deleted"))


class Roles(Boto3Test):
    ROLE = "arn:aws:iam::123456789012:role/of/reader"

    def sts(self, **more):
        return boto3.client("sts", region_name=REGION, endpoint_url=self.served.api,
                            **{**self.served.keys, **more})

    def give(self, who, action, resource):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"Version": "2012-10-17", "Statement": [
                {"Effect": "Allow", "Action": action, "Resource": resource}]}, file)
            file.flush()
            self.assertEqual(self.served.command("policy", who, file.name).returncode, 0)

    def test_one_that_is_there_is_taken_by_whom_his_policy_allows_it(self):
        take = {"RoleArn": self.ROLE, "RoleSessionName": "me"}
        self.assertEqual(self.code(self.sts().assume_role, **take), "AccessDenied")
        self.give("role/reader", "ec2:DescribeVolumes", "*")
        taken = self.sts().assume_role(**take)["Credentials"]
        keys = {"aws_access_key_id": taken["AccessKeyId"],
                "aws_session_token": taken["SessionToken"]}
        role = self.client(aws_secret_access_key=taken["SecretAccessKey"], **keys)
        self.assertIn("Volumes", role.describe_volumes())
        self.assertEqual(self.code(role.describe_snapshots), "UnauthorizedOperation")
        who = self.sts(aws_secret_access_key=taken["SecretAccessKey"], **keys)
        self.assertEqual(who.get_caller_identity()["Arn"],
                         "arn:aws:sts::123456789012:assumed-role/reader/me")
        self.give("user", "sts:AssumeRole", self.ROLE + "s")
        self.assertEqual(self.code(self.sts().assume_role, **take), "AccessDenied")
        self.give("user", "sts:AssumeRole", self.ROLE)
        self.sts().assume_role(**take)
        self.served.command("policy", "user")

    def test_what_is_no_question(self):
        self.give("role/reader", "ec2:DescribeVolumes", "*")
        for more in ({"RoleSessionName": "a b"}, {"DurationSeconds": 43201}):
            self.assertEqual(self.code(self.sts().assume_role, **{
                "RoleArn": self.ROLE, "RoleSessionName": "me", **more}), "ValidationError")


class Faults(Boto3Test):
    def test_a_throttled_action_says_so_until_the_fault_is_cleared(self):
        throttled = self.served.command("fault", "throttle", "DescribeVolumes", "1h")
        self.assertEqual(throttled.returncode, 0)
        self.assertEqual(self.code(self.ec2.describe_volumes), "RequestLimitExceeded")
        self.assertEqual(self.served.command("fault", "clear").returncode, 0)
        self.assertIn("Volumes", self.ec2.describe_volumes())

    def test_the_next_calls_fail_as_asked(self):
        self.served.command("fault", "fail", "DescribeSnapshots", "2", "InternalError")
        for _ in range(2):
            self.assertEqual(self.code(self.ec2.describe_snapshots), "InternalError")
        self.assertIn("Snapshots", self.ec2.describe_snapshots())


if __name__ == "__main__":
    unittest.main()
