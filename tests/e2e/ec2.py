"""A small client of EC2's Query API, standard library only: SigV4, flat parameters, XML answers.

It is written from AWS's documents and not from the product's client, so that one misunderstanding
is not in both.
"""

import base64
import configparser
import datetime
import time
import urllib.error
import urllib.parse
import urllib.request
import xml.etree.ElementTree

from sigv4 import REGION, signature

USER = "AKIAEMULATOR00000000"  # the emulator's key for people; its secret is each start's own
LAUNCHER = "AKIALAUNCHER00000000"  # of the user `launcher` (tests/emulator/README.md)
ACCOUNT, ROLE = "123456789012", "spotter-role"
TRAINERS_ROLE = f"{ROLE}-trainer"
VERSIONS = {"ec2": "2016-11-15", "autoscaling": "2011-01-01", "iam": "2010-05-08"}
PATIENCE_SECONDS = 400


def secret_of(world):
    """Of the keys for people and their users, as the emulator hands it to whoever started it."""
    keys = configparser.ConfigParser(interpolation=None)
    with open(f"{world}/credentials", encoding="utf-8") as file:
        keys.read_file(file)
    return keys["default"]["aws_secret_access_key"]


class Refused(Exception):
    """EC2 answered with an error; `code` is EC2's own name for it."""

    def __init__(self, action, code, message):
        super().__init__(f"{action}: {code}: {message}")
        self.code = code


def flatten(value, prefix=""):
    """{"Filter": [{"Name": "x"}]} -> [("Filter.1.Name", "x")]"""
    if isinstance(value, dict):
        pairs = [(f"{prefix}.{key}" if prefix else key, item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        pairs = [(f"{prefix}.{index}", item) for index, item in enumerate(value, 1)]
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return [(prefix, text)]
    return [flat for key, item in pairs for flat in flatten(item, key)]


class Answer:
    """An XML answer, read by paths of element names: text("volumeId"), items("volumeSet")."""

    def __init__(self, element):
        self.element = element

    def text(self, path, default=""):
        return self.element.findtext(path, default)

    def items(self, path):
        return [Answer(item) for item in self.element.findall(f"{path}/item")]

    def members(self, path):
        """The items of a list as Auto Scaling writes it."""
        return [Answer(item) for item in self.element.findall(f"{path}/member")]

    def tags(self):
        return {tag.text("key"): tag.text("value") for tag in self.items("tagSet")}


class Client:
    def __init__(self, endpoint, secret, region=REGION):
        self.endpoint = endpoint if "://" in endpoint else "http://" + endpoint
        self.secret, self.region = secret, region

    def call(self, action, service="ec2", **parameters):
        """The answer. A person whose call is throttled tries it again."""
        end = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                return self._call(service, action, parameters)
            except Refused as refused:
                if refused.code != "RequestLimitExceeded" or time.monotonic() > end:
                    raise
            time.sleep(0.2)

    def _call(self, service, action, parameters):
        body = urllib.parse.urlencode(flatten(
            {"Action": action, "Version": VERSIONS[service], **parameters})).encode()
        url = self.endpoint.rstrip("/") + "/"
        now = datetime.datetime.now(datetime.timezone.utc)
        headers = signature("POST", url, body, USER, self.secret, now, service, region=self.region)
        request = urllib.request.Request(url, data=body, method="POST", headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
                text = response.read()
        except urllib.error.HTTPError as error:
            tree = plain(error.read())
            raise Refused(action, tree.findtext(".//Code", str(error.code)),
                          tree.findtext(".//Message", "")) from None
        return Answer(plain(text))

    def volumes(self):
        return self.call("DescribeVolumes").items("volumeSet")

    def snapshots(self):
        return self.call("DescribeSnapshots", Owner=["self"]).items("snapshotSet")

    def instances(self):
        reservations = self.call("DescribeInstances").items("reservationSet")
        return [instance for one in reservations for instance in one.items("instancesSet")]

    def group(self, name):
        """An Auto Scaling group."""
        answer = self.call("DescribeAutoScalingGroups", "autoscaling",
                           **{"AutoScalingGroupNames.member": [name]})
        return answer.members("DescribeAutoScalingGroupsResult/AutoScalingGroups")[0]

    def fleet_state(self, fleet):
        answer = self.call("DescribeSpotFleetRequests", SpotFleetRequestId=[fleet])
        return answer.items("spotFleetRequestConfigSet")[0].text("spotFleetRequestState")

    def fleet_target(self, fleet):
        answer = self.call("DescribeSpotFleetRequests", SpotFleetRequestId=[fleet])
        first = answer.items("spotFleetRequestConfigSet")[0]
        return int(first.text("spotFleetRequestConfig/targetCapacity", "-1"))

    def create_volume(self, zone, tags, gibibytes=1, **more):
        answer = self.call("CreateVolume", AvailabilityZone=zone, Size=gibibytes,
                           VolumeType="gp3", TagSpecification=[specification("volume", tags)],
                           **more)
        return answer.text("volumeId")

    def create_template(self, name, user_data, instance_type="p3.2xlarge"):
        data = {"ImageId": "ami-0123456789abcdef0", "InstanceType": instance_type,
                "UserData": base64.b64encode(user_data.encode()).decode(),
                "IamInstanceProfile": {"Name": ROLE}}
        answer = self.call("CreateLaunchTemplate", LaunchTemplateName=name,
                           LaunchTemplateData=data)
        return answer.text("launchTemplate/launchTemplateId")

    def request_spot_fleet(self, template, zones, capacity=1, tags=()):
        configuration = {
            "IamFleetRole": "arn:aws:iam::123456789012:role/aws-ec2-spot-fleet-tagging-role",
            "TargetCapacity": capacity, "Type": "maintain", "AllocationStrategy": "lowestPrice",
            "ReplaceUnhealthyInstances": True, "TerminateInstancesWithExpiration": True,
            "LaunchTemplateConfigs": [{
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [{"AvailabilityZone": zone} for zone in zones]}]}
        if tags:
            configuration["TagSpecification"] = [specification("spot-fleet-request", tags)]
        answer = self.call("RequestSpotFleet", SpotFleetRequestConfig=configuration)
        return answer.text("spotFleetRequestId")


def specification(resource, tags):
    return {"ResourceType": resource,
            "Tag": [{"Key": key, "Value": value} for key, value in tags.items()]}


def plain(text):
    """The tree without the namespace, which says nothing but the API's version."""
    tree = xml.etree.ElementTree.fromstring(text)
    for element in tree.iter():
        element.tag = element.tag.split("}")[-1]
    return tree
