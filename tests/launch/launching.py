"""For the tests of `spotter launch`: a job, an emulator, and what is there at AWS."""

import base64
import gzip
import http.client
import http.server
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.parse

import botocore.serialize
import botocore.session
import botocore.validate
import boto3

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/emulator/clients"))
import served

SPOTTER = os.environ["SPOTTER_PATH"]
JOB = """job: {name}
storage: {{ebs: {{tag: {{Name: {name}}}}}}}
trainer: {{command: ./train.sh}}
launch:
  image: resolve:ssm:/aws/service/debian/12
  instance_types: [g5.xlarge, g4dn.xlarge]
  zones: [us-west-2a, us-west-2b]
  profile: spotter-role
  volume: {{size: 8, iops: 4000, throughput: 200}}
"""
GANG = """job: {name}
storage: {{folder: {{path: /data}}}}
trainer: {{command: python train.py}}
gang: {{size: 3, min: 2, at: 's3://bucket/gangs'}}
launch:
  image: resolve:ssm:/aws/service/debian/12
  instance_types: [g5.xlarge, g4dn.xlarge]
  zones: [us-west-2a, us-west-2b]
  profile: spotter-role
"""
SPOT_FLEET = ("  type: spot-fleet\n"
              "  fleet_role: arn:aws:iam::123456789012:role/aws-ec2-spot-fleet-tagging-role\n")


def setUpModule():
    """An emulated instance finds no program here that its user data could reach."""
    folder = tempfile.mkdtemp(prefix="spotter-launch-")
    unittest.addModuleCleanup(shutil.rmtree, folder)
    for name in ("systemctl", "spotter"):
        program = pathlib.Path(folder) / name
        program.write_text("#!/bin/sh\nexit 0\n")
        program.chmod(0o755)
    before = os.environ["PATH"]
    unittest.addModuleCleanup(os.environ.__setitem__, "PATH", before)
    os.environ["PATH"] = f"{folder}:/usr/bin:/bin"

LAUNCHER = pathlib.Path(__file__).resolve().parents[2] / "scripts/iam/launcher.json"


def without(statements, name):
    """All but the one of that name, which a long policy is printed without."""
    actions = [it["Action"] for it in json.loads(LAUNCHER.read_text())["Statement"]
               if it["Sid"] == name]
    assert name is None or actions, name
    return [it for it in statements if it["Action"] not in actions]


class LaunchTest(served.ServedTest):
    text = JOB

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="spotter-launch-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.name = self.id().split(".test_")[-1].replace("_", "-")[:60]
        self.ec2 = boto3.client("ec2", region_name=served.REGION, endpoint_url=self.served.api,
                                **self.served.keys)
        self.addCleanup(self.ec2.close)
        self.scaling = boto3.client(
            "autoscaling", region_name=served.REGION, endpoint_url=self.served.api,
            **self.served.keys)
        self.addCleanup(self.scaling.close)

    def job(self, more="", text=None):
        path = self.folder / "job.yaml"
        path.write_text((text or self.text).format(name=self.name) + more)
        return path

    def spotter(self, *words, api=None, code=0, program=SPOTTER):
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder),
                       **self.served.environment, "AWS_REGION": served.REGION,
                       "AWS_ENDPOINT_URL": api or self.served.api}
        done = subprocess.run([program, *map(str, words)], env=environment, text=True,
                              capture_output=True, timeout=200, check=False)
        if code is not None:
            self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def fault(self, *words):
        self.served.command("fault", *words)
        self.addCleanup(self.served.command, "fault", "clear")

    def quota(self, code, value):
        """What the account has of a quota, in vCPUs."""
        file = pathlib.Path(self.served.folder) / "quotas" / code
        file.parent.mkdir(exist_ok=True)
        file.write_text(str(value))
        self.addCleanup(file.unlink)

    def launch(self, more="", **options):
        return self.spotter("launch", self.job(more), **options).stdout.strip()

    def refused(self, more="", text=None, code=1, options=()):
        return self.spotter("launch", self.job(more, text), *options, code=code).stderr

    def limit(self, job, drop=None):
        """Who launches may do what `spotter iam launcher` prints, less one statement. Its file."""
        document = json.loads(self.spotter("iam", "launcher", job, "--account", "123456789012",
                                           "--role", "spotter-role", code=None).stdout)
        document["Statement"] = without(document["Statement"], drop)
        file = self.folder / "launcher.json"
        file.write_text(json.dumps(document))
        self.addCleanup(self.served.command, "policy", "user")
        self.assertEqual(self.served.command("policy", "user", str(file)).stderr, "")
        return file

    # What is there at AWS

    def volumes(self):
        return self.ec2.describe_volumes(
            Filters=[{"Name": "tag:Name", "Values": [self.name]}])["Volumes"]

    def fleets(self):
        found = [{**it, "Id": it["FleetId"], "State": it["FleetState"]}
                 for it in self.ec2.describe_fleets()["Fleets"]]
        found += [{**it, "Id": it["SpotFleetRequestId"], "State": it["SpotFleetRequestState"]}
                  for it in self.ec2.describe_spot_fleet_requests()["SpotFleetRequestConfigs"]]
        mine = {"Key": "spotter:job", "Value": self.name}
        return [it for it in found if mine in it.get("Tags", [])]

    def active(self):
        return [it["Id"] for it in self.fleets()
                if it["State"] in ("submitted", "active", "modifying")]

    def instances(self, *states):
        found = self.ec2.describe_instances(Filters=[
            {"Name": "tag:spotter:job", "Values": [self.name]},
            {"Name": "instance-state-name", "Values": list(states or ("pending", "running"))}])
        return [it["InstanceId"] for one in found["Reservations"] for it in one["Instances"]]

    def one_instance(self):
        return served.eventually(lambda: len(self.instances("running")) == 1
                                 and self.instances("running")[0])

    def listed(self):
        return {it["job"]: it for it in json.loads(self.spotter("list", "--json").stdout)}

    # Printed and sent

    def printed(self, more="", text=None):
        """{operation: input} of what --dry-run prints, with no AWS that could be reached."""
        text = self.spotter("launch", self.job(more, text), "--dry-run",
                            api="http://127.0.0.1:9").stdout
        lines = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
        words, found = shlex.split(lines), {}
        for index, word in enumerate(words):
            if word == "--cli-input-json":
                name = "".join(part.capitalize() for part in words[index - 1].split("-"))
                found[name] = (words[index - 2], json.loads(words[index + 1]))
        return found

    def assert_valid(self, service, operation, value):
        model = botocore.session.get_session().get_service_model(service)
        shape = model.operation_model(operation).input_shape
        report = botocore.validate.ParamValidator().validate(value, shape)
        self.assertFalse(report.has_errors(), report.generate_report())

    def serialized(self, service, operation, value):
        model = botocore.session.get_session().get_service_model(service)
        serializer = botocore.serialize.create_serializer(model.metadata["protocol"], False)
        body = serializer.serialize_to_request(value, model.operation_model(operation))["body"]
        return {name: str(item) for name, item in body.items()}

    def assert_printed_is_sent(self, more=""):
        printed = self.printed(more)
        with Recorder(self.served.api) as recorder:
            self.launch(more, api=recorder.api)
        for operation, (service, value) in printed.items():
            with self.subTest(operation):
                self.assert_valid(service, operation, value)
                sent = [it for it in recorder.calls
                        if it["Action"] == operation and it.get("DryRun") != "true"]
                self.assertEqual(len(sent), 1, [it["Action"] for it in recorder.calls])
                expected = self.serialized(service, operation, value)
                changed = {name for name in expected if expected[name] != sent[0].get(name)}
                self.assertEqual(expected.keys() - sent[0].keys(), set())
                self.assertEqual(sent[0].keys() - expected.keys(), set())
                for name in changed:  # the places for what only AWS knows, and the time
                    if name.endswith("UserData"):
                        self.assertEqual(unstamped(expected[name]), unstamped(sent[0][name]))
                    else:
                        self.assertRegex(expected[name], "TOKEN|OF-THE")
        return printed


def unstamped(user_data):
    script = gzip.decompress(base64.b64decode(user_data)).decode()
    return re.sub(r"(?m)^launched='\d+'", "", script, count=1)


class Recorder:
    """A proxy that writes down what is asked of AWS; `before` sees each call before AWS does."""

    def __init__(self, api, before=None):
        recorder, self.calls = self, []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if "urlencoded" in self.headers.get("Content-Type", ""):
                    recorder.calls.append(dict(urllib.parse.parse_qsl(body.decode(), True)))
                    if before:
                        before(recorder.calls[-1])
                there = http.client.HTTPConnection(urllib.parse.urlsplit(api).netloc, timeout=60)
                there.request(self.command, self.path, body, dict(self.headers))
                answer = there.getresponse()
                text = answer.read()
                self.send_response_only(answer.status)  # without a Date of this machine's
                for name, value in answer.headers.items():
                    if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)
                there.close()

            do_GET = do_PUT = do_DELETE = do_POST  # what S3 is asked

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.api = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
