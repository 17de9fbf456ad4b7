"""A job whose storage is at EFS: what `spotter doctor` finds of the file system, and that a launch
is refused before anything costs where an instance could not mount it. EFS is spotter-emulator's;
what makes file systems and mount targets there is boto3, and the command that doctor prints."""

import json
import pathlib
import shlex
import sys
import unittest

import boto3
import botocore.exceptions
import botocore.session

import launching
import served

sys.path.insert(0, str(launching.ROOT / "tests/shapes"))
import judge

setUpModule = launching.setUpModule

JOB = """job: {name}
storage: {{efs: {{{efs}}}}}
claims: {{at: s3://bucket/claims}}
trainer: {{command: ./train.sh}}
launch:
  image: resolve:ssm:/aws/service/debian/12
  instance_types: [g5.xlarge]
  profile: spotter-role
  package: apt
"""
ZONES = "  zones: [us-west-2a, us-west-2b]\n"


class EfsTest(launching.LaunchTest):
    def setUp(self):
        super().setUp()
        (pathlib.Path(self.served.folder) / "s3/bucket").mkdir(parents=True, exist_ok=True)
        self.efs = boto3.client("efs", region_name=served.REGION, endpoint_url=self.served.api,
                                **self.served.keys)
        self.addCleanup(self.efs.close)

    def subnet(self, zone):
        return self.ec2.describe_subnets(Filters=[
            {"Name": "availability-zone", "Values": [zone]}])["Subnets"][0]["SubnetId"]

    def until_available(self, describe, **which):
        def available():
            found = next(it for it in describe(**which).values() if isinstance(it, list))
            return all(it["LifeCycleState"] == "available" for it in found)
        self.assertTrue(served.eventually(available))

    def make(self, *zones, wait=True, **more):
        """A file system with mount targets in these zones; its id."""
        made = self.efs.create_file_system(CreationToken=self.name, **more)["FileSystemId"]
        self.until_available(self.efs.describe_file_systems, FileSystemId=made)
        for zone in zones:
            self.efs.create_mount_target(FileSystemId=made, SubnetId=self.subnet(zone))
        if wait:
            self.until_available(self.efs.describe_mount_targets, FileSystemId=made)
        return made

    def job_on(self, efs, more=ZONES):
        return self.job(text=JOB.replace("{efs}", efs.replace("{", "{{").replace("}", "}}"))
                        + more)

    def found(self, efs, more=ZONES, **options):
        """[(verdict, what, advice)] of the check."""
        done = self.spotter("doctor", self.job_on(efs, more), "--json", **options)
        return [(it["verdict"], it["what"], it["advice"]) for it in json.loads(done.stdout)
                if it["check"] == "efs"]


class Efs(EfsTest):
    def test_a_zone_without_a_mount_target_is_named_and_mended(self):
        made = self.make("us-west-2a")
        (first, what, advice), (second, good, _) = self.found(f"id: {made}", code=2)
        self.assertEqual((first, second), ("fail", "ok"))
        self.assertIn(f"{made} has no mount target in us-west-2b", what)
        self.assertIn("us-west-2a (fsmt-", good)
        self.assertIn("was not looked at", good)
        refusal = self.spotter("launch", self.folder / "job.yaml", code=1).stderr
        self.assertIn(what, refusal)
        self.assertIn("nothing was launched", refusal)
        self.assertEqual(self.active(), [])
        self.assertEqual(self.ec2.describe_launch_templates()["LaunchTemplates"], [])
        # What it prints is what `aws` would take.
        words = shlex.split(advice[advice.index("aws efs"):])
        self.assertEqual(words[:3], ["aws", "efs", "create-mount-target"])
        asked = {name[2:].title().replace("-", ""): value
                 for name, value in zip(words[3::2], words[4::2])}
        self.assert_valid("efs", "CreateMountTarget", asked)
        self.efs.create_mount_target(**asked)
        (verdict, what, advice), _ = self.found(f"id: {made}", code=2)
        self.assertIn("in us-west-2b, fsmt-", what)
        self.assertIn("is creating", what)
        self.assertIn("wait", advice)
        self.until_available(self.efs.describe_mount_targets, FileSystemId=made)
        self.assertEqual([it[0] for it in self.found(f"id: {made}", code=0)], ["ok"])
        fleet = self.spotter("launch", self.folder / "job.yaml").stdout.strip()
        self.assertEqual(self.active(), [fleet])
        script = pathlib.Path(self.served.folder, "instances", self.one_instance(), "user-data")
        self.assertIn("\ntool='mount.nfs' ", script.read_text())

    def test_the_printed_command_has_the_instances_groups(self):
        made = self.make()
        found = self.found(f"id: {made}", "  zones: [us-west-2b]\n  security_groups: [sg-0123]\n",
                           code=2)
        self.assertEqual(len(found), 1)
        self.assertIn(f"--subnet-id {self.subnet('us-west-2b')} --security-groups GROUP, of a "
                      "group that lets TCP port 2049 in from sg-0123", found[0][2])

    def test_zones_are_those_of_the_subnets_or_all(self):
        made = self.make("us-west-2a")
        inside, outside = self.subnet("us-west-2a"), self.subnet("us-west-2b")
        self.assertEqual([it[0] for it in self.found(
            f"id: {made}", f"  subnets: [{inside}]\n", code=1)], ["ok"])
        self.assertIn("us-west-2b", self.found(
            f"id: {made}", f"  subnets: [{outside}]\n", code=2)[0][1])
        self.assertEqual([it[0] for it in self.found(f"id: {made}", "", code=2)], ["fail", "ok"])

    def test_there_is_no_such_file_system(self):
        (verdict, what, advice), = self.found("id: fs-0123456789abcdef0", code=2)
        self.assertEqual((verdict, what), ("fail", "there is no fs-0123456789abcdef0 in us-west-2"))
        self.assertIn("correct storage.efs.id", advice)

    def test_one_zone_is_not_two(self):
        made = self.make("us-west-2a", AvailabilityZoneName="us-west-2a")
        (verdict, what, advice), good = self.found(f"id: {made}", code=2)
        self.assertEqual((verdict, good[0]), ("fail", "ok"))
        self.assertIn("is of one zone, us-west-2a, and the job may run in us-west-2b", what)
        self.assertIn("launch.zones: [us-west-2a]", advice)
        self.assertEqual([it[0] for it in self.found(
            f"id: {made}", "  zones: [us-west-2a]\n", code=0)], ["ok"])
        self.assertEqual([it[0] for it in self.found(
            f"id: {made}, tls: true, options: \"iam,az=us-west-2a\"", code=0)], ["ok"])

    def test_a_dns_name_is_looked_at_where_it_says_which_it_is(self):
        made = self.make("us-west-2a", "us-west-2b")
        here = f"id: {made}.efs.us-west-2.amazonaws.com"
        self.assertEqual([it[0] for it in self.found(here, code=0)], ["ok"])
        for name in (f"{made}.efs.eu-west-1.amazonaws.com", "files.example.com"):
            (verdict, _, advice), = self.found(f"id: {name}", code=1)
            self.assertEqual(verdict, "warn")
            self.assertIn("was not looked at", advice)

    def test_what_the_launchers_policy_is_for(self):
        made = self.make("us-west-2a", "us-west-2b")
        job = self.job_on(f"id: {made}")
        self.limit(job)
        self.assertEqual([it[0] for it in self.found(f"id: {made}", code=0)], ["ok"])
        # Who has the policy of an earlier version can launch, and is warned.
        self.limit(job, drop="LookAtTheFileSystem")
        (verdict, what, advice), = self.found(f"id: {made}", code=1)
        self.assertEqual(verdict, "warn")
        self.assertIn("elasticfilesystem:DescribeFileSystems", what)
        self.assertIn("spotter iam launcher", advice)

    def test_the_instances_policy_has_what_mounting_by_iam_needs(self):
        def statement(efs):
            done = self.spotter("iam", "agent", self.job_on(efs), "--account", "123456789012")
            return [it for it in json.loads(done.stdout)["Statement"]
                    if it["Sid"] == "MountTheFileSystem"]
        self.assertEqual(statement("id: fs-01ab, tls: true"), [])
        made, = statement("id: fs-01ab, tls: true, options: iam")
        self.assertEqual(made["Resource"],
                         ["arn:aws:elasticfilesystem:us-west-2:123456789012:file-system/fs-01ab"])
        self.assertEqual(made["Action"], ["elasticfilesystem:ClientMount",
                                          "elasticfilesystem:ClientRootAccess",
                                          "elasticfilesystem:ClientWrite"])


class FakeEfs(EfsTest):
    """The fake by boto3, which knows EFS's model."""

    def code(self, call, **arguments):
        with self.assertRaises(botocore.exceptions.ClientError) as raised:
            call(**arguments)
        answer = raised.exception.response
        return answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]

    def test_it_is_described_as_the_model_has_it(self):
        seen = {}

        def look(http_response, model, **_):
            answer = json.loads(http_response.content)
            seen[model.name] = list(judge.of_json(answer, model.output_shape, model.name, False))
        self.efs.meta.events.register("after-call.efs", look)
        made = self.make("us-west-2a", "us-west-2b")
        self.assertEqual(seen, {action: [] for action in (
            "CreateFileSystem", "CreateMountTarget", "DescribeFileSystems",
            "DescribeMountTargets")})
        model = botocore.session.get_session().get_service_model("efs")
        shapes = ((self.efs.describe_file_systems, "FileSystems", "FileSystemDescription"),
                  (self.efs.describe_mount_targets, "MountTargets", "MountTargetDescription"))
        for call, name, shape in shapes:
            for one in call(FileSystemId=made)[name]:
                self.assertLessEqual(set(model.shape_for(shape).required_members), one.keys())
                self.assertEqual(one["LifeCycleState"], "available")
        self.assertEqual(self.efs.describe_file_systems(FileSystemId=made)["FileSystems"][0]
                         ["NumberOfMountTargets"], 2)

    def test_pages(self):
        made = self.make("us-west-2a", "us-west-2b")
        first = self.efs.describe_mount_targets(FileSystemId=made, MaxItems=1)
        second = self.efs.describe_mount_targets(FileSystemId=made, MaxItems=1,
                                                 Marker=first["NextMarker"])
        self.assertNotIn("NextMarker", second)
        self.assertEqual({it["AvailabilityZoneName"] for page in (first, second)
                          for it in page["MountTargets"]}, {"us-west-2a", "us-west-2b"})

    def test_what_is_refused(self):
        nothing = "fs-0123456789abcdef0"
        made = self.make("us-west-2a")
        one = self.efs.create_file_system(CreationToken=self.name + "1",
                                          AvailabilityZoneName="us-west-2a")["FileSystemId"]
        target = {"FileSystemId": one, "SubnetId": self.subnet("us-west-2b")}
        self.assertEqual(self.code(self.efs.create_mount_target, **target),
                         ("IncorrectFileSystemLifeCycleState", 409))
        self.until_available(self.efs.describe_file_systems, FileSystemId=one)
        self.assertEqual(self.code(self.efs.create_mount_target, **target),
                         ("AvailabilityZonesMismatch", 400))
        self.assertEqual(self.code(self.efs.create_mount_target, FileSystemId=made,
                                   SubnetId=self.subnet("us-west-2a")),
                         ("MountTargetConflict", 409))
        for call in (self.efs.describe_file_systems, self.efs.describe_mount_targets):
            self.assertEqual(self.code(call, FileSystemId=nothing), ("FileSystemNotFound", 404))
            self.assertEqual(self.code(call, FileSystemId=made, Marker="x"), ("BadRequest", 400))
        self.assertEqual(self.code(self.efs.describe_mount_targets), ("BadRequest", 400))
        self.assertEqual(self.code(self.efs.create_file_system, CreationToken=self.name),
                         ("FileSystemAlreadyExists", 409))


if __name__ == "__main__":
    unittest.main()
