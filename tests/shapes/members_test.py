#!/usr/bin/python3
"""Honoured or refused, never ignored: each member that botocore's models have of each operation's
request is sent to the emulator, which either has it in its table (`spotter-emulator members`) or
refuses it by name.

Environment: SPOTTER_EMULATOR_PATH.
"""

import datetime
import json
import pathlib
import sys
import unittest

import boto3
import botocore.config
import botocore.exceptions

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "emulator/clients"))
import served

REFUSALS = {"ec2": "UnsupportedOperation", "autoscaling": "ValidationError",
            "s3": "NotImplemented", "batch": "ClientException", "iam": "ValidationError",
            "sts": "ValidationError", "sns": "InvalidParameter", "efs": "BadRequest",
            "ssm": "ValidationException", "service-quotas": "IllegalArgumentException",
            "pricing": "InvalidParameterException"}
# Values that more operations get through with than with any text.
TEXTS = {"AvailabilityZone": "us-west-2a", "AvailabilityZoneId": "usw2-az1", "ZoneId": "usw2-az1",
         "ZoneName": "us-west-2a", "RegionName": "us-west-2", "VolumeType": "gp2",
         "SourceRegion": "us-west-2", "DestinationRegion": "us-west-2", "SpotPrice": "0.5",
         "MaxPrice": "0.5", "VpcId": "vpc-00000000000000000", "UserData": "aGk=",
         "AllocationStrategy": "diversified", "DeviceName": "/dev/xvda", "SourceVersion": "1",
         "InstanceType": "g5.xlarge", "LocationType": "region", "Owner": "self",
         "ProductDescription": "Linux/UNIX", "ExcessCapacityTerminationPolicy": "termination",
         "encoding-type": "url", "x-amz-expected-bucket-owner": "123456789012"}
INTEGERS = {"Iops": 3000, "Throughput": 125, "MaxResults": 10, "Size": 8, "VolumeSize": 8,
            "TerminationDelay": 120, "partNumber": 1}
CONTENT = "Body", "ContentLength"  # are not a member among others
AGAIN = datetime.datetime(2030, 1, 1, tzinfo=datetime.timezone.utc)


def wire_name(service, name, member):
    known = member.serialization
    own = known.get("name", name)
    if service == "ec2":
        return known.get("queryName") or own[0].upper() + own[1:]
    if known.get("location") == "headers":
        return own.lower() + "*"
    return own.lower() if known.get("location") == "header" else own


def value_of(shape, name, wanted=None):
    """Of the type; `wanted`: as the table writes it."""
    kind = shape.type_name
    if kind == "boolean":
        return wanted != "false"
    if kind in ("integer", "long", "float", "double"):
        return int(wanted or INTEGERS.get(name, 1))
    if kind == "timestamp":
        return AGAIN
    if kind == "blob":
        return b"aGk="
    if kind == "map":
        return {"some": {} if shape.value.type_name == "structure" else "value"}
    enum = list(getattr(shape, "enum", None) or [])
    if wanted is not None:
        return next((one for one in enum if one.lower() == wanted.lower()), wanted)
    return TEXTS.get(name) or (enum[0] if enum else "some-value")


def other_than(shape, values):
    """A value that is none of those; None: there is no other."""
    if shape.type_name == "boolean":
        return next((one for one in (True, False) if str(one).lower() not in values), None)
    if shape.type_name in ("integer", "long"):
        return 7
    enum = getattr(shape, "enum", None)
    return next((one for one in enum if one.lower() not in values and one not in values), None) \
        if enum else "some-other-value"


def leaves(service, shape, path=(), seen=()):
    """(wire path, names on the way, shape) of each member that has none below it."""
    if shape.type_name == "list":
        yield from leaves(service, shape.member, path, seen)
    elif shape.type_name == "structure" and shape.members and shape.name not in seen:
        for name, member in shape.members.items():
            if member.serialization.get("location") == "uri" or name in CONTENT:
                continue
            step = (name, wire_name(service, name, member))
            yield from leaves(service, member, path + (step,), seen + (shape.name,))
    elif path:
        yield ".".join(wire for _, wire in path), [name for name, _ in path], shape


def put(into, shape, way, value):
    """The value at the way, with the structures and lists that it lies in."""
    while shape.type_name == "list":
        if not into:
            into.append({} if shape.member.type_name == "structure" else None)
        if shape.member.type_name not in ("structure", "list"):
            into[0] = value
            return
        into, shape = into[0], shape.member
    name, *rest = way
    below = shape.members[name]
    if not rest and below.type_name != "list":
        into[name] = value
        return
    inner = into.setdefault(name, [] if below.type_name == "list" else {})
    put(inner, below, rest, value)


class MembersTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = served.Served()
        cls.addClassCleanup(cls.served.stop)
        cls.table = json.loads(cls.served.command("members").stdout)
        cls.clients = {}
        for service in REFUSALS:
            client = boto3.client(
                service, region_name="us-east-1" if service == "pricing" else served.REGION,
                endpoint_url=cls.served.api,
                config=botocore.config.Config(retries={"max_attempts": 0}, connect_timeout=20,
                                              read_timeout=20, parameter_validation=False),
                **cls.served.keys)
            cls.addClassCleanup(client.close)
            cls.clients[service] = client

    def base(self, service, operation, shape):
        """A request that is as complete as the model asks for, or as stands in bases()."""
        given = self.bases.get(service, {}).get(operation)
        if given is not None:
            return json.loads(json.dumps(given))
        wanted = {}
        for name in shape.required_members:
            for _, way, leaf in leaves(service, shape):
                if way == [name]:
                    put(wanted, shape, way, value_of(leaf, name))
            if shape.members[name].serialization.get("location") == "uri":
                wanted[name] = "some-name"
        return wanted

    def send(self, service, operation, parameters):
        """The refusal's code and message, and what the emulator says that it ignored."""
        try:
            done = self.clients[service]._make_api_call(operation, parameters)
        except botocore.exceptions.ClientError as why:
            error = why.response["Error"]
            code = "NotImplemented" if error["Code"] == "501" else error["Code"]  # of HEAD
            return code, error["Message"], ""
        headers = done["ResponseMetadata"]["HTTPHeaders"]
        return "", "", headers.get("x-spotter-ignored", "")

    def check(self, service, operation, shape, leaf, value, honoured):
        path, way, _ = leaf
        parameters = self.base(service, operation, shape)
        put(parameters, shape, way, value)
        code, message, ignored = self.send(service, operation, parameters)
        refused = code == REFUSALS[service] and "does not honour" in message
        refused = refused or (service == "s3" and code == "NotImplemented")
        where = f"{service} {operation} {path}={value}: {code} {message}"
        self.assertEqual(ignored, "", where)
        if honoured:
            self.assertFalse(refused, where)
            return
        self.assertTrue(refused, where)
        # Or what it lies in, or is sent as; HEAD has no message.
        names = {path.rstrip("*"), path.rpartition(".")[0], str(value).lower()} - {""}
        self.assertTrue(operation.startswith("Head") or any(it in message for it in names), where)

    def check_leaf(self, service, operation, shape, leaf):
        honoured = self.table[service][operation]
        path, way, of = leaf
        whole = path + ".*" if of.type_name == "map" and service == "batch" else path
        above = [".".join(path.split(".")[:i]) + ".*" for i in range(1, path.count(".") + 1)]
        values = honoured.get(whole, [] if set(above) & set(honoured) else None)
        if values is None:
            self.check(service, operation, shape, leaf, value_of(of, path.split(".")[-1]), False)
            return
        wanted = values[0] if values else None
        self.check(service, operation, shape, leaf, value_of(of, path.split(".")[-1], wanted), True)
        other = other_than(of, values) if values else None
        if other is not None:
            self.check(service, operation, shape, leaf, other, False)

    def check_service(self, service, least=80):
        model = self.clients[service].meta.service_model
        count = 0
        for operation in self.table[service]:
            if operation not in model.operation_names:
                continue  # newer than this botocore
            shape = model.operation_model(operation).input_shape
            found = list(leaves(service, shape)) if shape else []
            for leaf in found:
                with self.subTest(operation=operation, member=leaf[0]):
                    self.check_leaf(service, operation, shape, leaf)
                count += 1
        self.assertGreaterEqual(count, least)

    def make_bases(self):
        ec2 = self.clients["ec2"]
        image = {"ImageId": "ami-0123456789abcdef0", "InstanceType": "g5.xlarge"}
        template = ec2.create_launch_template(
            LaunchTemplateName="members", LaunchTemplateData=image)["LaunchTemplate"]
        by_template = [{"LaunchTemplateSpecification": {
            "LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"}}]
        capacity = {"TotalTargetCapacity": 0}
        return {"ec2": {
            "RunInstances": {**image, "MinCount": 1, "MaxCount": 1},
            "CreateVolume": {"AvailabilityZone": "us-west-2a", "Size": 8},
            "CreateLaunchTemplateVersion": {
                "LaunchTemplateId": template["LaunchTemplateId"], "LaunchTemplateData": image},
            "DescribeLaunchTemplateVersions": {"LaunchTemplateId": template["LaunchTemplateId"]},
            "CreateFleet": {"LaunchTemplateConfigs": by_template,
                            "TargetCapacitySpecification": capacity},
            "RequestSpotFleet": {"SpotFleetRequestConfig": {
                "IamFleetRole": "arn:aws:iam::123456789012:role/fleet", "TargetCapacity": 0,
                "LaunchTemplateConfigs": by_template}},
            "RequestSpotInstances": {"LaunchSpecification": image},
        }}

    def test_ec2(self):
        self.bases = self.make_bases()
        self.check_service("ec2")

    def test_auto_scaling(self):
        self.bases = {}
        self.check_service("autoscaling")

    def test_s3(self):
        self.bases = {"s3": {"DeleteBucket": {"Bucket": "not-there"}}}
        self.clients["s3"].create_bucket(
            Bucket="some-name", CreateBucketConfiguration={"LocationConstraint": served.REGION})
        self.check_service("s3")

    def test_services_of_few_operations(self):
        self.bases = {"pricing": {"GetProducts": {"ServiceCode": "AmazonEC2"}},
                      "service-quotas": {"GetServiceQuota": {"ServiceCode": "ec2",
                                                             "QuotaCode": "L-3819A6DF"}}}
        for service, least in (("iam", 40), ("sts", 12), ("sns", 8), ("efs", 15), ("ssm", 2),
                               ("service-quotas", 2), ("pricing", 6)):
            self.check_service(service, least)

    def test_batch(self):
        self.bases = {}
        self.check_service("batch")


if __name__ == "__main__":
    unittest.main()
