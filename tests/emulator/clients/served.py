"""The real spotter-emulator in a folder of its own, for clients that know nothing of it."""

import configparser
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.request

EMULATOR = os.environ.get("SPOTTER_EMULATOR_PATH", "build/release/bin/spotter-emulator")
REGION = "us-west-2"
ACCESS_KEY = "AKIAEMULATOR00000000"


def eventually(true, seconds=60):
    """Waits until true() holds; its value, or the last false one after `seconds`."""
    limit = time.monotonic() + seconds
    while not (value := true()) and time.monotonic() < limit:
        time.sleep(0.05)
    return value


def secret_of(folder):
    """The secret of the keys for people: another at each start."""
    keys = configparser.ConfigParser(interpolation=None)
    with open(os.path.join(folder, "credentials"), encoding="utf-8") as file:
        keys.read_file(file)
    return keys["default"]["aws_secret_access_key"]


class Served:
    """An emulator twenty times faster than AWS, in user mode, on any free port. `options`: more of
    its own."""

    def __init__(self, *options):
        if not os.access(EMULATOR, os.X_OK):
            raise RuntimeError(f"{EMULATOR} is not there; see SPOTTER_EMULATOR_PATH")
        self.folder = tempfile.mkdtemp(prefix="spotter-clients-")
        self.process = subprocess.Popen(
            [EMULATOR, "serve", "--directory", self.folder, "--api", "127.0.0.1:0",
             "--metadata", "127.0.0.1:0", "--mode", "user", "--time-scale", "20", *options],
            stdout=subprocess.PIPE, text=True)
        ready = self.process.stdout.readline().split()
        if not ready or ready[0] != "READY":
            self.stop()
            raise RuntimeError("the emulator did not start")
        self.api = dict(word.split("=", 1) for word in ready[1:])["api"]
        self.secret = secret_of(self.folder)
        # For boto3, and for a program's environment.
        self.keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": self.secret}
        self.environment = {name.upper(): value for name, value in self.keys.items()}

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
        self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def control(self, what, body=None):
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(f"{self.api}/_spotter/{what}", data, timeout=20) as answer:
            return json.load(answer)

    def command(self, *words):
        return subprocess.run([EMULATOR, "--api", self.api, *words], text=True,
                              capture_output=True, timeout=30, check=False)


class ServedTest(unittest.TestCase):
    """One emulator for the tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.addClassCleanup(cls.served.stop)


def fleet_configuration(zones="us-west-2a, us-west-2b", user_data="", **more):
    """The example "launch Spot Instances using the lowest-priced Availability Zone in a list" of
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-fleet-examples.html"""
    import base64
    return {
        "SpotPrice": "1.70",
        "TargetCapacity": 1,
        "IamFleetRole": "arn:aws:iam::123456789012:role/aws-ec2-spot-fleet-tagging-role",
        "LaunchSpecifications": [{
            "ImageId": "ami-1a2b3c4d",
            "KeyName": "my-key-pair",
            "SecurityGroups": [{"GroupId": "sg-1a2b3c4d"}],
            "InstanceType": "p3.2xlarge",
            "Placement": {"AvailabilityZone": zones},
            "UserData": base64.b64encode(user_data.encode()).decode(),
            "IamInstanceProfile": {"Arn": "arn:aws:iam::123456789012:instance-profile/my-role"},
        }],
        **more,
    }
