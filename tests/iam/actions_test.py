"""Every action that a policy of scripts/iam allows is called by the code, and none is missing.

What a role's code calls is read from its sources: a request of aws/formats/ec2_query.hpp or of
aws/formats/batch.hpp that it makes, an operation of agent/aws/s3, a parameter of SSM. What AWS
asks for besides is in IMPLIED.
"""

import json
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
IAM = ROOT / "scripts/iam"

# What the service on an instance and its units run of what a person calls.
ON_THE_INSTANCE = ("doctor_permissions.cpp", "prepare_here.cpp", "zone_names.cpp")
# What a person calls, what the units run, and what runs as the trainer's user, with its role.
COMMANDS, UNITS, THE_TRAINERS = "agent/commands", "agent/commands/machine", "agent/commands/gang"
# What commands and the service share fetches the sweep's list, and asks AWS.
FOR_BOTH = ("agent/sweep",)
SENDER = [ROOT / "trainer/library/transfer.cpp"]  # of results, and of folders of `prepare:`

# agent/aws/s3/objects.hpp, upload.hpp -> actions. HeadObject is GetObject's; the parts of an upload
# are PutObject's: docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
S3_CALLS = {"list": {"s3:ListBucket"}, "read": {"s3:GetObject"}, "head": {"s3:GetObject"},
            "put": {"s3:PutObject", "s3:GetObject"},
            "remove": {"s3:DeleteObject"},
            "upload": {"s3:PutObject", "s3:AbortMultipartUpload", "s3:GetObject"}}

# What a call needs besides its own action, by the Service Authorization Reference
# (docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2.html and relatives):
# tags made with a resource, keys of encrypted volumes, roles that a service is given.
USE_OF_A_KEY = {"kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey",
                "kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"}
USE_OF_OTHER_KEYS = {"kms:Decrypt", "kms:GenerateDataKey"}
IMPLIED = {"s3:GetObject": USE_OF_OTHER_KEYS,
           "ssm:GetParameter": USE_OF_OTHER_KEYS,
           "ec2:CreateVolume": {"ec2:CreateTags", *USE_OF_A_KEY},
           "ec2:CreateSnapshot": {"ec2:CreateTags"},
           "ec2:AttachVolume": {"kms:CreateGrant", "kms:Decrypt"},
           "ec2:CreateLaunchTemplate": {"ec2:CreateTags"},
           "ec2:CreatePlacementGroup": {"ec2:CreateTags"},
           "ec2:CreateFleet": {"ec2:CreateTags", "ec2:RunInstances", "iam:PassRole",
                               "iam:CreateServiceLinkedRole"},
           "autoscaling:CreateAutoScalingGroup": {"autoscaling:CreateOrUpdateTags",
                                                  "ec2:RunInstances", "iam:PassRole",
                                                  "iam:CreateServiceLinkedRole"},
           "ec2:RequestSpotFleet": {"ec2:CreateTags", "iam:PassRole"},
           "batch:CreateComputeEnvironment": {"batch:TagResource", "iam:PassRole",
                                            "iam:CreateServiceLinkedRole"},
           "batch:CreateJobQueue": {"batch:TagResource"},
           "batch:RegisterJobDefinition": {"batch:TagResource", "iam:PassRole"},
           "batch:SubmitJob": {"batch:TagResource"}}


def text(path):
    """A source without its comments."""
    return re.sub(r"//[^\n]*", "", path.read_text())


def encoders():
    """Names of the code -> actions: "DescribeVolumes" -> ec2:DescribeVolumes, "create" -> ..."""
    ec2 = {}
    requests = "".join(text(path)
                       for path in sorted((ROOT / "agent/aws/formats").glob("ec2_*.hpp")))
    for request, body in re.findall(r"struct (\w+) \{\s*\n(.*?)\n\}", requests, re.S):
        if api := re.search(r'Api api\{[^"]*"(\w+)"(?:[^;]*\.service = "(\w+)")?', body):
            if api[2] != "sts":  # who one is, everybody may ask
                ec2[request] = f"{api[2] or 'ec2'}:{api[1]}"
    services = text(ROOT / "agent/aws/formats/services.cpp")
    for request, body in re.findall(r"Query encode\(const (\w+)&[^)]*\) \{(.*?)\n\}", services,
                                    re.S):
        service = re.search(r'\.service = "(sts|sns)"', body)[1]
        ec2[request] = f"{service}:" + re.search(r'\.action = "(\w+)"', body)[1]
    for request, body in re.findall(r"HttpCall encode\(const (\w+)&[^)]*\) \{(.*?)\n\}", services,
                                    re.S):
        if action := re.search(r'efs_call\("(\w+)"', body):
            ec2[request] = f"elasticfilesystem:{action[1]}"
        else:
            ec2[request] = ":".join(re.search(r'json_call\("(\w+)", "\w+\.(\w+)"', body).groups())
    assert len(ec2) > 20, ec2
    return ec2


def batch_encoders():
    """Functions of aws/formats/batch.hpp by name and kind of argument -> actions."""
    source = text(ROOT / "agent/aws/formats/batch.cpp")
    made = {}
    for name, body in re.findall(r"^AwsCommand (\w+)\([^)]*\) \{(.*?)\n\}", source, re.S | re.M):
        made.setdefault(name, set()).update(
            f"batch:{action}" for action in re.findall(r'call\("(\w+)"', body))
    assert len(made) >= 8, made
    return made


def launch_requests():
    """What agent/launch makes, sent by whoever asks for one of them."""
    source = "".join(text(path) for path in sorted((ROOT / "agent/launch").glob("*requests.cpp")))
    made = {f"{service}:{action}"
            for service, action in re.findall(r'command\(\s*"(\w+)", "(\w+)"', source)}
    assert len(made) >= 7, made
    return made


def histories():
    """What asks a fleet of each kind for its history."""
    source = text(ROOT / "agent/aws/formats/fleet_history.cpp")
    made = set(re.findall(r'return "(\w+)"', source))
    assert len(made) == 3, made
    return {("autoscaling:" if "Scaling" in action else "ec2:") + action for action in made}


def calls_of(files):
    """Actions that these sources call -> where."""
    found = {}
    ec2, batch = encoders(), batch_encoders()
    for path in files:
        source = text(path)

        def note(actions):
            for action in actions:
                found.setdefault(action, str(path.relative_to(ROOT)))
        note(ec2[name] for name in re.findall(r"\bwire::(\w+)\b", source)
             if name in ec2)
        for name in re.findall(r"\bwire::(\w+)\b", source):
            note(batch.get(name, ()))
        for name in re.findall(r"\bs3::(\w+)\(", source):
            note(S3_CALLS.get(name, ()))
        for name in re.findall(r"\bs3_\.(list)\(|\bs3::(list)_request\(", source):
            note(S3_CALLS["".join(name)])  # agent/aws/s3_client.hpp
        if 's3::Request request{.method = "DELETE"' in source:
            note(S3_CALLS["remove"])
        elif "s3::Request" in source:
            note({"s3:GetObject"})  # of the data plane, which only reads
        if re.search(r"\b(?:perform|ask|query_of)\(\s*launch::", source):
            note(launch_requests())
        if "wire::describe_history(" in source:
            note(histories())
        if '"-t", "efs"' in source:  # its option iam; root gives the job's folder to the user
            note({f"elasticfilesystem:Client{it}" for it in ("Mount", "RootAccess", "Write")})
        if "wire::git_password(" in source:
            note({"codecommit:GitPull"})
    return found


def with_implied(calls):
    needed = dict(calls)
    for action, where in calls.items():
        for implied in IMPLIED.get(action, ()):
            needed.setdefault(implied, f"{action} in {where}")
    return needed


def allowed(name):
    document = json.loads((IAM / f"{name}.json").read_text())
    actions = set()
    for statement in document["Statement"]:
        assert statement["Effect"] == "Allow", statement
        action = statement["Action"]
        actions.update([action] if isinstance(action, str) else action)
    return actions


def sources(folder, skip=()):
    return [path for path in sorted((ROOT / folder).glob("*.[ch]pp")) if path.name not in skip]


class Actions(unittest.TestCase):
    def judge(self, name, files):
        needed = with_implied(calls_of(files))
        actions = allowed(name)
        missing = {action: where for action, where in needed.items() if action not in actions}
        self.assertEqual(missing, {}, f"{name}.json lacks what the code calls")
        self.assertEqual(actions - needed.keys(), set(), f"{name}.json allows what nobody calls")

    def test_agent(self):
        commands = [ROOT / COMMANDS / file for file in ON_THE_INSTANCE]
        folders = ("agent/service", "agent/service/act", "agent/service/observe",
                   "agent/service/sense", "agent/service/sweep", "agent/host", UNITS, *FOR_BOTH)
        commands += SENDER
        self.judge("agent", [*commands, *(each for folder in folders for each in sources(folder))])

    def test_trainer(self):
        self.judge("trainer", [*sources("agent/data"), *sources("agent/data/fast_file"),
                               *sources("trainer/library"),
                               *sources(THE_TRAINERS)])

    def test_launcher(self):
        self.judge("launcher", [*SENDER, *(each for folder in (COMMANDS, *FOR_BOTH, "agent/aws")
                                           for each in sources(folder, ON_THE_INSTANCE))])

    def test_no_folder_is_forgotten(self):
        folders = {str(each.relative_to(ROOT)) for each in (ROOT / COMMANDS).iterdir()
                   if each.is_dir()}
        self.assertEqual(folders, {UNITS, THE_TRAINERS})
        for file in ON_THE_INSTANCE:
            self.assertTrue((ROOT / COMMANDS / file).exists(), file)

    def test_nothing_is_a_wildcard(self):
        for path in IAM.glob("*.json"):
            for statement in json.loads(path.read_text())["Statement"]:
                self.assertNotIn("*", json.dumps(statement["Action"]), path.name)

    def test_everything_but_looking_has_a_resource_or_a_condition(self):
        for path in IAM.glob("*.json"):
            for statement in json.loads(path.read_text())["Statement"]:
                actions = statement["Action"]
                actions = [actions] if isinstance(actions, str) else actions
                looks = all(re.match(r"\w+:(Describe|List)|pricing:Get", action)
                            for action in actions)
                launches = statement.get("Sid") == "LaunchInstances"  # its PassRole is narrow
                if statement.get("Resource") == "*" and not looks and not launches:
                    self.assertIn("Condition", statement, f"{path.name} {statement['Sid']}")


if __name__ == "__main__":
    unittest.main()
