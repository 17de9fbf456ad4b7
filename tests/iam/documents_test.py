"""`spotter iam`: complete JSON for each kind of job, and nothing in it that it has no use of."""

import base64
import email
import json
import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

import botocore.session
import botocore.validate

SPOTTER = os.environ["SPOTTER_PATH"]
ROOT = pathlib.Path(__file__).resolve().parents[2]
IAM = ROOT / "scripts/iam"
ACCOUNT = "123456789012"
VOLUME = "storage: {ebs: {tag: {Name: 'my*volume'}}}"
SHARE = "storage: {folder: {path: /data}}"
LONGEST_POLICY = 6144  # of a managed one; white space does not count
KEY = f"arn:aws:kms:us-west-2:{ACCOUNT}:key/1"


class Documents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "job.yaml"

    def run_it(self, name, *lines, region="us-west-2", options=(),
               trainer="{command: ./t.sh}"):
        self.file.write_text("\n".join(("job: mine", f"trainer: {trainer}", *lines)))
        return subprocess.run(
            [SPOTTER, "iam", name, self.file, "--account", ACCOUNT,
             *(["--region", region] if region else []), *options],
            env={**os.environ, "AWS_REGION": "eu-west-1"},
            capture_output=True, text=True, check=False, timeout=600)

    def document(self, name, *lines, **more):
        done = self.run_it(name, *lines, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stdout, r"(^|[^$]){[a-z]", "a place that was not filled in")
        return json.loads(done.stdout)

    @staticmethod
    def statement(document, sid):
        return next((one for one in document["Statement"] if one["Sid"] == sid), None)

    @staticmethod
    def allowing(document, *actions):
        """The one with all of these and no other, or with this one among others."""
        all_of = [(it, [it["Action"]] if isinstance(it["Action"], str) else it["Action"])
                  for it in document["Statement"]]
        exact = [it for it, its in all_of if sorted(its) == sorted(actions)]
        return (exact or [it for it, its in all_of if actions[0] in its])[0]

    def test_all_for_a_volume(self):
        for path in IAM.glob("*.json"):
            document = self.document(path.stem, VOLUME, "channels: {train: 's3://data/mnist/'}",
                                     "claims: {at: s3://data/claims}", "sweep: {grid: {lr: [1]}}")
            for statement in document["Statement"]:
                self.assertNotEqual(statement.get("Resource"), [], statement)

    def test_the_fullest_fits_into_a_policy(self):
        document = self.document(
            "agent", VOLUME, "sweep: {parameters: s3://data/list.yml}",
            "claims: {at: s3://data/claims}", "publish: s3://data/seen",
            options=["--volume-key", KEY],
            trainer="{command: ./t.sh, role: trainer}")
        self.assertLess(len("".join(json.dumps(document).split())), LONGEST_POLICY)
        self.assertEqual(self.statement(document, "ClaimExperiments")["Resource"],
                         ["arn:aws:s3:::data/claims/mine/*"])
        publish = self.statement(document, "Publish")
        self.assertEqual([publish["Action"], publish["Resource"]],
                         [["s3:AbortMultipartUpload", "s3:PutObject"],
                          ["arn:aws:s3:::data/seen/mine/*"]])
        for sid in ("ClaimExperiments", "UseEncryptedVolumes", "LeaveTheFleet"):
            self.assertIsNotNone(self.statement(document, sid), sid)

    def test_what_is_prepared_is_read_by_the_instance(self):
        document = self.document("agent", VOLUME, "prepare: [{from: s3://sets/mnist/, to: data}, "
                                 "{from: 'https://host/file', to: data}]")
        self.assertEqual(self.statement(document, "ReadWhatIsPrepared")["Resource"],
                         ["arn:aws:s3:::sets/mnist/*"])
        listing = self.statement(document, "ListWhatIsPrepared")
        self.assertEqual(listing["Resource"], ["arn:aws:s3:::sets"])
        self.assertEqual(listing["Condition"], {"StringLike": {"s3:prefix": ["mnist/*"]}})
        self.assertIsNone(self.statement(self.document("agent", VOLUME), "ReadWhatIsPrepared"))
        way = "prepare: [{from: /set, to: data, via: s3://way/to}]"
        for name, sid in (("agent", "ReadWhatIsPrepared"), ("launcher", "SendWhatIsPrepared")):
            self.assertEqual(self.statement(self.document(name, VOLUME, way), sid)["Resource"],
                             ["arn:aws:s3:::way/to/*"], name)

    def test_a_share_has_no_volumes(self):
        text = json.dumps(self.document("agent", SHARE))
        for word in ("AttachVolume", "CreateTags", "kms:", "s3:", "TerminateInstances\""):
            self.assertNotIn(word, text)
        self.assertIn("CancelSpotFleetRequests", text)

    def test_volumes_of_data_are_made_of_their_snapshots_alone(self):
        data = ("storage: [{state: {ebs: {tag: {Name: v}}}}, "
                "{data: {snapshot: snap-0d, mount: /mnt/d}}]")
        one = self.statement(self.document("agent", data), "MakeVolumesOfData")
        self.assertEqual(one["Resource"], ["arn:aws:ec2:us-west-2::snapshot/snap-0d"])
        self.assertIsNone(self.statement(self.document("agent", VOLUME), "MakeVolumesOfData"))

    def test_a_machine_without_its_gpus_may_go(self):
        self.assertIsNone(self.statement(self.document("agent", VOLUME), "LeaveTheFleet"))
        document = self.document("agent", VOLUME, trainer="{command: ./train, gpus: 8}")
        self.assertIsNotNone(self.statement(document, "LeaveTheFleet"))

    def test_the_trainers_role(self):
        usual = self.statement(self.document("agent", VOLUME, options=["--role", "mine"]),
                               "TakeTheTrainersRole")
        self.assertEqual(usual["Resource"], [f"arn:aws:iam::{ACCOUNT}:role/mine-trainer"])
        own = self.document("agent", VOLUME, trainer="{command: ./train, role: instance}")
        self.assertIsNone(self.statement(own, "TakeTheTrainersRole"))
        arn = "arn:aws:iam::210987654321:role/of/trainers"
        for role, resource in (("trainer", f"arn:aws:iam::{ACCOUNT}:role/trainer"), (arn, arn)):
            document = self.document("agent", VOLUME,
                                     trainer=f"{{command: ./train, role: '{role}'}}")
            one = self.statement(document, "TakeTheTrainersRole")
            self.assertEqual(one["Resource"], [resource])

    def test_a_tags_value_is_no_pattern_and_a_sweep_has_many(self):
        one = self.statement(self.document("agent", VOLUME), "UseTheVolumeThatTheTagNames")
        self.assertEqual(one["Condition"]["StringLike"], {"ec2:ResourceTag/Name": ["my${*}volume"]})
        many = self.statement(self.document("agent", VOLUME, "sweep: {grid: {lr: [1, 2]}}"),
                              "UseTheJobsVolumes")
        self.assertEqual(many["Condition"]["StringLike"],
                         {"ec2:ResourceTag/spotter:job": ["mine", "mine:*"]})

    def test_a_gangs_record_is_the_trainers_to_write(self):
        gang = "gang: {size: 4, min: 2, at: s3://data/gangs}"
        document = self.document("trainer", SHARE, gang)
        self.assertEqual(self.statement(document, "WriteTheGangsRecord")["Resource"],
                         ["arn:aws:s3:::data/gangs/mine/*"])
        seen = self.statement(document, "SeeThatThereIsNoGang")
        self.assertEqual(seen["Condition"], {"StringLike": {"s3:prefix": ["gangs/mine/*"]}})
        agent = self.document("agent", SHARE, gang)
        self.assertNotIn("s3:", json.dumps(agent))
        self.assertIsNotNone(self.statement(agent, "LeaveTheFleet"))

    def test_secrets(self):
        code = "code: {repository: /r, revision: " + "0" * 40 + ", token: 'ssm:/a/b'}"
        one = self.statement(self.document("agent", VOLUME, code), "ReadSecrets")
        self.assertEqual(one["Resource"], [f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/a/b"])

    def test_code_in_codecommit(self):
        at = "repository: 'codecommit::us-east-1://train', revision: " + "0" * 40
        one = self.statement(self.document("agent", VOLUME, f"code: {{{at}}}"), "ReadCode")
        self.assertEqual(one["Resource"], [f"arn:aws:codecommit:us-east-1:{ACCOUNT}:train"])
        token = self.document("agent", VOLUME, f"code: {{{at}, token: 'env:TOKEN'}}")
        self.assertIsNone(self.statement(token, "ReadCode"))

    def test_notifications(self):
        self.assertIsNone(self.statement(self.document("agent", VOLUME), "TellATopic"))
        topic = f"arn:aws:sns:us-west-2:{ACCOUNT}:training"
        notify = f"notify: {{webhook: 'ssm:/hook', topic: '{topic}'}}"
        document = self.document("agent", VOLUME, notify)
        self.assertEqual(self.statement(document, "TellATopic")["Resource"], [topic])
        self.assertEqual(self.statement(document, "ReadSecrets")["Resource"],
                         [f"arn:aws:ssm:us-west-2:{ACCOUNT}:parameter/hook"])

    def test_channels_and_checkpoints(self):
        document = self.document("trainer", VOLUME, "channels: {train: 's3://data/mnist/'}",
                                 trainer="{command: ./t, writes: 's3://kept/mine'}")
        self.assertEqual(self.statement(document, "ReadChannels")["Resource"],
                         ["arn:aws:s3:::data/mnist/*"])
        self.assertEqual(self.statement(document, "KeepCheckpoints")["Resource"],
                         ["arn:aws:s3:::kept/mine/*"])
        folders = self.document("trainer", VOLUME,
                                "checkpoints: {folders: 'c-*', s3: 's3://kept/run'}")
        self.assertEqual(self.statement(folders, "KeepCheckpoints")["Resource"],
                         ["arn:aws:s3:::kept/run/*"])
        self.assertEqual(self.statement(folders, "ListCheckpoints")["Condition"],
                         {"StringLike": {"s3:prefix": ["run/*"]}})
        own = self.document("trainer", VOLUME, "channels: {train: 's3://data/list,type=manifest'}",
                            trainer="{command: ./t, env: {SPOTTER_CHECKPOINTS_S3: s3://own/run}, "
                                    "reads: ['s3://data/images/']}")
        self.assertEqual(self.statement(own, "KeepCheckpoints")["Resource"],
                         ["arn:aws:s3:::own/run/*"])
        self.assertEqual(self.statement(own, "ReadChannels")["Resource"],
                         ["arn:aws:s3:::data/images/*", "arn:aws:s3:::data/list"])
        for name in ("trainer", "roles"):
            listed = self.run_it(name, VOLUME, "channels: {train: 's3://data/list,type=manifest'}")
            self.assertIn("name their places in trainer.reads", listed.stderr)
        nothing = self.run_it("trainer", VOLUME)
        self.assertEqual((nothing.returncode, nothing.stdout), (1, ""))
        self.assertIn("needs no such policy", nothing.stderr)

    def test_another_partition(self):
        for partition, region in (("aws-cn", "cn-north-1"), ("aws-us-gov", "us-gov-west-1"),
                                  ("aws-eusc", "eusc-de-east-1"), ("aws-iso-b", "us-isob-east-1")):
            text = json.dumps(self.document("agent", VOLUME, region=region))
            self.assertIn(f"arn:{partition}:ec2:{region}:", text)
            self.assertNotIn("arn:aws:", text)

    def roles(self, *lines, **more):
        """[(operation, input)] of what is printed, each as the API has it."""
        done = self.run_it("roles", *lines, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        found = []
        words = shlex.split(re.sub(r"(?m)^#.*$", "", done.stdout))
        self.assertEqual(len(words) % 5, 0)
        for at in range(0, len(words), 5):
            aws, service, name, option, document = words[at:at + 5]
            self.assertEqual((aws, option), ("aws", "--cli-input-json"))
            self.assertEqual(service, "ec2" if name == "create-launch-template" else "iam")
            model = botocore.session.get_session().get_service_model(service)
            operation = "".join(part.capitalize() for part in name.split("-"))
            value = json.loads(document)
            report = botocore.validate.ParamValidator().validate(
                value, model.operation_model(operation).input_shape)
            self.assertFalse(report.has_errors(), report.generate_report())
            found.append((operation, value))
        return found

    def test_the_roles_of_a_volumes_job(self):
        made = self.roles(VOLUME)
        self.assertEqual([it[0] for it in made], ["CreateRole", "PutRolePolicy",
                                                  "CreateInstanceProfile",
                                                  "AddRoleToInstanceProfile", "CreateRole"])
        self.assertEqual([it["RoleName"] for action, it in made if action == "CreateRole"],
                         ["spotter", "spotter-trainer"])
        self.assertEqual(json.loads(made[4][1]["AssumeRolePolicyDocument"]),
                         self.document("trust-trainer", VOLUME))
        own = self.roles(VOLUME, trainer="{command: ./train, role: instance}")
        self.assertEqual(len(own), 4)
        both = self.roles(VOLUME, "channels: {train: 's3://data/mnist/'}",
                          trainer="{command: ./train, role: instance}")
        policies = [it for action, it in both if action == "PutRolePolicy"]
        self.assertEqual([(it["RoleName"], it["PolicyName"]) for it in policies],
                         [("spotter", "spotter-mine"), ("spotter", "spotter-mine.trainer")])
        self.assertIn("s3:GetObject", policies[1]["PolicyDocument"])
        self.assertEqual(json.loads(made[1][1]["PolicyDocument"]), self.document("agent", VOLUME))
        self.assertEqual(json.loads(made[0][1]["AssumeRolePolicyDocument"]),
                         self.document("trust-instance", VOLUME))

    def test_the_roles_of_each_kind_of_fleet(self):
        launch = ("launch: {{image: ami-1, instance_types: [g5.xlarge], zones: [us-west-2a], "
                  "profile: spotter{}}}")
        fleet_role = f"arn:aws:iam::{ACCOUNT}:role/service/their-fleet"
        for more, services, roles in (
                ("", ["ec2fleet", "spot"], ["spotter", "narrow"]),
                (", type: auto-scaling-group", ["autoscaling", "spot"], ["spotter", "narrow"]),
                (f", type: spot-fleet, fleet_role: '{fleet_role}'", ["spot", "spotfleet"],
                 ["spotter", "narrow", "their-fleet"])):
            made = self.roles(VOLUME, "channels: {train: 's3://data/mnist/'}", launch.format(more),
                              trainer="{command: ./t.sh, role: narrow}")
            self.assertEqual([it["AWSServiceName"] for action, it in made
                              if action == "CreateServiceLinkedRole"],
                             [f"{one}.amazonaws.com" for one in services])
            for wanted in ("CreateRole", "PutRolePolicy"):
                self.assertEqual([it["RoleName"] for action, it in made if action == wanted], roles)

    def test_roles_are_made_where_the_job_looks_for_them(self):
        """By launch.profile, with its path; none in an account that is not ours."""
        launch = ("launch: {{image: ami-1, instance_types: [g5.xlarge], zones: [us-west-2a], "
                  "profile: '{}'}}")
        mine = self.roles(VOLUME, launch.format("mine"))
        self.assertEqual([it["RoleName"] for action, it in mine if action == "CreateRole"],
                         ["mine", "mine-trainer"])
        profile = f"arn:aws:iam::{ACCOUNT}:instance-profile/team/mine"
        made = self.roles(VOLUME, launch.format(profile),
                          trainer=f"{{command: ./t, role: 'arn:aws:iam::{ACCOUNT}:role/of/us'}}")
        paths = [(action, it.get("RoleName") or it["InstanceProfileName"], it.get("Path"))
                 for action, it in made if action in ("CreateRole", "CreateInstanceProfile")]
        self.assertEqual(paths, [("CreateRole", "mine", "/team/"),
                                 ("CreateInstanceProfile", "mine", "/team/"),
                                 ("CreateRole", "us", "/of/")])
        agent = self.document("agent", VOLUME, launch.format(profile))
        attach = self.statement(agent, "AttachToInstancesOfThisRole")["Condition"]
        self.assertEqual(attach["ArnEquals"], {"ec2:InstanceProfile": profile})
        trust = self.document("trust-trainer", VOLUME, launch.format(profile))
        self.assertIn(f"arn:aws:iam::{ACCOUNT}:role/team/mine", json.dumps(trust))
        other = self.run_it("roles", VOLUME, trainer="{command: ./t, role: "
                            "'arn:aws:iam::210987654321:role/theirs'}")
        self.assertIn("# The trainer's role is of the account 210987654321", other.stdout)
        self.assertNotIn('"theirs"', other.stdout)

    def test_no_jobs_policy_has_the_name_of_another_jobs(self):
        own = "{command: ./train, role: instance}"
        both = self.roles(VOLUME, "channels: {train: 's3://data/mnist/'}", trainer=own)
        names = [it["PolicyName"] for action, it in both if action == "PutRolePolicy"]
        self.assertEqual(names, ["spotter-mine", "spotter-mine.trainer"])
        self.assertNotEqual(self.run_it("roles", VOLUME, "job: mine.trainer").returncode, 0)

    def test_each_pools_image_is_found(self):
        pools = ("launch: {profile: mine, image: 'resolve:ssm:/aws/service/shared', "
                 "on_demand: when-needed, work: 1h, pools: [{types: [g5.xlarge], image: "
                 "'resolve:ssm:/team/first'}, {region: us-east-2, types: [g5.xlarge]}]}")
        launcher = self.document("launcher", "storage: {s3: s3://data/homes}", "within: 3h",
                                 "publish: s3://data/seen", pools)
        self.assertEqual(self.allowing(launcher, "ssm:GetParameter")["Resource"],
                         [f"arn:aws:ssm:*:{ACCOUNT}:parameter/team/first",
                          "arn:aws:ssm:*::parameter/aws/service/shared"])

    def test_letters_that_iam_does_not_take_are_said(self):
        korean = "storage: {ebs: {tag: {Name: 학습}}}"
        for name in ("agent", "roles"):
            done = self.run_it(name, korean)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("no letter beyond U+00FF in a policy, and '학습'", done.stderr)
        self.assertIn("é", json.dumps(self.document("agent", VOLUME.replace("my", "é")),
                                      ensure_ascii=False))

    def test_names_that_iam_does_not_take_are_said(self):
        for role in ("r" * 65, "a role", "team/role"):
            done = self.run_it("roles", VOLUME, options=["--role", role])
            self.assertEqual(done.returncode, 0 if role == "team/role" else 2, done.stderr)
        long = self.run_it("roles", VOLUME, trainer=f"{{command: ./t, role: {'r' * 65}}}")
        self.assertEqual(long.returncode, 2)
        self.assertIn("no name that IAM takes: 1 to 64", long.stderr)

    def test_keys_of_secrets_objects_and_topics(self):
        for name in ("agent", "trainer", "launcher"):
            one = self.document(name, VOLUME, options=["--key", KEY])
            its = self.statement(one, "UseEncryptedThings")
            self.assertEqual([its["Action"], its["Resource"]],
                             [["kms:Decrypt", "kms:GenerateDataKey"], [KEY]])
            self.assertEqual(its["Condition"]["StringLike"]["kms:ViaService"],
                             [f"{it}.us-west-2.amazonaws.com" for it in ("ssm", "s3", "sns")])
        launch = ("launch: {image: ami-1, instance_types: [g5.xlarge], zones: [us-west-2a], "
                  "profile: spotter}")
        printed = self.run_it("roles", VOLUME, launch, options=["--volume-key", KEY]).stdout
        words = shlex.split(printed, comments=True)
        grant = json.loads(words[words.index("create-grant") + 2])
        self.assertEqual(grant["GranteePrincipal"],
                         f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/ec2fleet.amazonaws.com/"
                         "AWSServiceRoleForEC2Fleet")
        shape = botocore.session.get_session().get_service_model("kms").operation_model(
            "CreateGrant").input_shape
        report = botocore.validate.ParamValidator().validate(grant, shape)
        self.assertFalse(report.has_errors(), report.generate_report())

    def test_pools_in_two_regions(self):
        launch = ("launch: {image: 'resolve:ssm:/aws/service/debian/12', profile: mine, "
                  "on_demand: when-needed, work: 1h, pools: [{types: [g5.xlarge], "
                  "subnets: [subnet-1], security_groups: [sg-1]}, {region: us-east-2, "
                  "types: [g5.xlarge], security_groups: [sg-2]}]}")
        lines = ("storage: {s3: s3://data/homes}", "within: 3h", "publish: s3://data/seen", launch)
        agent = self.document("agent", *lines)
        self.assertIn(f"arn:aws:ec2:*:{ACCOUNT}:fleet/*",
                      self.statement(agent, "EndTheFleet")["Resource"])
        launcher = self.document("launcher", *lines)
        used = self.allowing(launcher, "ec2:RequestSpotFleet", "ec2:CreateFleet")["Resource"]
        for thing in ("subnet/subnet-1", "subnet/*", "security-group/sg-1", "security-group/sg-2"):
            self.assertIn(f"arn:aws:ec2:*:{ACCOUNT}:{thing}", used)
        self.assertIn("arn:aws:ec2:*::image/*", used)
        self.assertNotIn("us-west-2", json.dumps(launcher))
        for name in ("agent", "launcher"):
            document = self.document(name, *lines, options=["--volume-key", KEY])
            for action in ("kms:ReEncryptFrom", "kms:CreateGrant"):
                self.assertEqual(self.allowing(document, action)["Condition"]["StringLike"],
                                 {"kms:ViaService": ["ec2.*.amazonaws.com"]}, f"{name} {action}")

    def test_a_pool_in_one_region_is_of_that_region(self):
        launch = ("launch: {image: 'resolve:ssm:/aws/service/debian/12', profile: mine, "
                  "pools: [{region: us-east-2, types: [g5.xlarge]}]}")
        agent = self.document("agent", VOLUME, launch, region=None)
        self.assertEqual(self.statement(agent, "EndTheFleet")["Resource"][0].split(":")[3],
                         "us-east-2")

    def test_the_roles_of_a_sweep_on_batch(self):
        batch = ("sweep:\n  grid: {lr: [1, 2]}\n  batch: {image: 'i:1', vcpus: 4, memory: 1000, "
                 "max_vcpus: 8, subnets: [subnet-1], security_groups: [sg-1]")
        channels = "channels: {train: 's3://data/mnist/'}"
        ecs = "arn:aws:iam::aws:policy/service-role/AmazonEC2ContainerServiceforEC2Role"
        made = self.roles(SHARE, channels, batch + "}")
        self.assertEqual([it[0] for it in made], [
            "CreateRole", "PutRolePolicy", "PutRolePolicy", "AttachRolePolicy",
            "CreateInstanceProfile", "AddRoleToInstanceProfile", "CreateServiceLinkedRole",
            "CreateServiceLinkedRole", "CreateLaunchTemplate"])
        self.assertEqual(made[0][1]["RoleName"], "ecsInstanceRole")
        self.assertEqual(made[3][1]["PolicyArn"], ecs)
        self.assertEqual([it[1]["AWSServiceName"] for it in made[6:8]],
                         ["batch.amazonaws.com", "spot.amazonaws.com"])
        data = made[8][1]["LaunchTemplateData"]
        self.assertEqual(data["MetadataOptions"]["HttpPutResponseHopLimit"], 2)
        mail = email.message_from_bytes(base64.b64decode(data["UserData"]))
        part, = mail.get_payload()
        self.assertEqual(part.get_content_type(), "text/x-shellscript")
        self.assertIn("ECS_ENABLE_SPOT_INSTANCE_DRAINING=true", part.get_payload())
        self.assertIn("ECS_CONTAINER_STOP_TIMEOUT=100s", part.get_payload())
        role = f"arn:aws:iam::{ACCOUNT}:role/job"
        own = self.roles(SHARE, channels, batch + f", job_role: '{role}'}}")
        policies = [it["RoleName"] for action, it in own if action == "PutRolePolicy"]
        self.assertEqual(policies, ["job", "job"])
        trust = next(json.loads(it["AssumeRolePolicyDocument"]) for action, it in own
                     if action == "CreateRole" and it["RoleName"] == "job")
        self.assertEqual(trust["Statement"][0]["Principal"],
                         {"Service": "ecs-tasks.amazonaws.com"})
        profile = f"arn:aws:iam::{ACCOUNT}:instance-profile/hosts"
        person = self.document("launcher", SHARE, batch + (
            f", job_role: '{role}', instance_role: '{profile}'}}"))
        self.assertEqual(self.statement(person, "GiveRolesToBatch")["Resource"],
                         [f"arn:aws:iam::{ACCOUNT}:role/hosts", role])
        for sid, tag in (("SubmitTheSweep", "Request"), ("StopTheSweep", "Resource")):
            self.assertEqual(self.statement(person, sid)["Condition"],
                             {"StringLike": {f"aws:{tag}Tag/spotter:job": ["mine", "mine:*"]}})
        agent = self.document("agent", SHARE, batch + ", volumes: [{efs: fs-0123, mount: /mnt/e, "
                              "access_point: fsap-0123}]}")
        self.assertEqual(self.statement(agent, "MountTheFileSystem")["Resource"],
                         [f"arn:aws:elasticfilesystem:us-west-2:{ACCOUNT}:file-system/fs-0123"])
        self.assertIsNotNone(self.statement(person, "MakeBatchsOwnRole"))

    def test_what_is_too_long_for_iam_is_said(self):
        """2,048 characters in a user, 10,240 in a role, 6,144 in a managed policy."""
        def channels(count):
            return ("channels: {" + ", ".join(
                f"c{number}: 's3://data/a-rather-long-prefix-of-a-channel/{number}/'"
                for number in range(count)) + "}")
        few = self.run_it("roles", VOLUME)
        self.assertEqual((few.returncode, few.stderr), (0, ""))
        size = re.search(r"# The instances' role: ([0-9],[0-9]{3}) of the 10,240", few.stdout)[1]
        agent = "".join(self.run_it("agent", VOLUME).stdout.split())
        self.assertEqual(int(size.replace(",", "")), len(agent))
        for name in ("roles", "trainer"):
            many = self.run_it(name, VOLUME, channels(150))
            self.assertEqual(many.returncode, 1)
            self.assertRegex(many.stderr, "1[0-9],[0-9]{3} characters, and all policies in a role "
                                          "have at most 10,240 together: .*managed policies")
        below = self.document("trainer", VOLUME, channels(150),
                              trainer="{command: ./t, reads: 's3://data'}")
        self.assertEqual(self.statement(below, "ReadChannels")["Resource"],
                         ["arn:aws:s3:::data/*"])
        launch = ("launch: {image: ami-1, instance_types: [g5.xlarge], zones: [us-west-2a], "
                  "profile: spotter}")
        person = self.run_it("launcher", VOLUME, launch)
        self.assertEqual(person.returncode, 0, person.stderr)
        self.assertRegex(person.stderr, "in a user have at most 2,048.*create-policy.*6,144")
        self.assertLess(len("".join(person.stdout.split())), LONGEST_POLICY)
        self.assertEqual(self.run_it("launcher", SHARE).stderr, "")
        tight = self.run_it("launcher", VOLUME, launch, channels(10))
        self.assertEqual(tight.returncode, 0, tight.stderr)
        self.assertNotIn('"Sid"', tight.stdout, "there is no room for the statements' names")
        longer = self.run_it("launcher", VOLUME, launch, channels(40))
        self.assertEqual(longer.returncode, 1)
        self.assertRegex(longer.stderr, "a managed policy has at most 6,144: make several of it, "
                                        "each with some of the statements")
        self.assertEqual({it["Effect"] for it in json.loads(longer.stdout)["Statement"]}, {"Allow"},
                         "or several do not allow the same")

    def test_each_name_in_a_document_has_its_values(self):
        """A list to which nothing is given is empty: one whose name is mistyped would be, too."""
        code = (ROOT / "agent/commands/iam.cpp").read_text()
        given = set(re.findall(r'\.(?:one|many)(?:\[|\.at\()"([a-z0-9-]+)"', code))
        given |= set(re.findall(r'^ +(?:values\.one = \{)?\{"([a-z]+)", [^"]+\}', code, re.M))
        places = "|".join(re.findall(r' add\("(\w+)", ', code))
        named = set(re.findall(r"(?<!\$)\{([a-z0-9-]+)\}",
                               "".join(path.read_text() for path in IAM.glob("*.json"))))
        of_places = {it for it in named
                     if re.fullmatch(rf"({places})-(objects|buckets|prefixes)", it)}
        self.assertIn("channel-prefixes", of_places)
        self.assertEqual(named - of_places, given)

    def test_wrong_use(self):
        for name, options, word in (("agnet", (), "agnet"),
                                    ("agent", ("--volume-keys", "x"), "--volume-keys"),
                                    ("trainer", ("--checkpoints", "kept"), "--checkpoints"),
                                    ("trainer", ("--read", "s4://kept"), "--read")):
            done = self.run_it(name, VOLUME, options=options)
            self.assertEqual(done.returncode, 2, done.stdout)
            self.assertIn(word, done.stderr)


if __name__ == "__main__":
    unittest.main()
