#!/usr/bin/python3
"""EFA of a gang's fleet: its network interfaces, and the security group that it needs."""

import pathlib
import unittest

import launching
import served
from launching import GANG, SPOT_FLEET

setUpModule = launching.setUpModule

ON_EFA = GANG.replace("zones: [us-west-2a, us-west-2b]", "zones: [us-west-2b]").replace(
    "g5.xlarge, g4dn.xlarge", "p4d.24xlarge")
LAYOUT = [(0, 0, "efa"), (1, 0, "efa-only"), (2, 0, "efa-only"), (3, 0, "efa-only")]


class Efa(launching.LaunchTest):
    text = ON_EFA

    def setUp(self):
        super().setUp()
        (pathlib.Path(self.served.folder) / "s3/bucket").mkdir(parents=True, exist_ok=True)
        self.group = self.ec2.create_security_group(
            GroupName=self.name, Description="of a test")["GroupId"]
        for it in self.ec2.describe_subnets()["Subnets"]:  # several interfaces: no public address
            self.fault("subnet", f"subnet={it['SubnetId']}", "way=nat", "public=false")

    def tearDown(self):
        self.spotter("stop", self.name, "--wait", code=None)
        self.ec2.delete_security_group(GroupId=self.group)

    def let(self, *directions):
        for it in directions:
            getattr(self.ec2, f"authorize_security_group_{it}")(
                GroupId=self.group, IpPermissions=[
                    {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": self.group}]}])

    def efa(self):
        return f"  efa: true\n  security_groups: [{self.group}]\n"

    def interfaces(self):
        """Of each instance, once all three are there."""
        served.eventually(lambda: len(self.instances("running")) == 3)
        found = self.ec2.describe_instances(InstanceIds=self.instances("running"))
        for one in found["Reservations"]:
            for instance in one["Instances"]:
                for it in instance["NetworkInterfaces"]:
                    self.assertEqual(it["Groups"], [{"GroupId": self.group}])
                yield [(it["Attachment"]["NetworkCardIndex"], it["Attachment"]["DeviceIndex"],
                        it["InterfaceType"]) for it in instance["NetworkInterfaces"]]

    def test_each_instance_has_an_interface_on_each_card(self):
        self.let("ingress", "egress")
        self.launch(self.efa())
        self.assertEqual(list(self.interfaces()), 3 * [LAYOUT])

    def test_other_fleets_have_them_too(self):
        self.let("ingress", "egress")
        for kind in (SPOT_FLEET, "  type: auto-scaling-group\n"):
            with self.subTest(kind):
                self.launch(self.efa() + kind)
                self.assertEqual(list(self.interfaces()), 3 * [LAYOUT])

    def test_in_a_subnet_it_is_the_same(self):
        self.let("ingress", "egress")
        subnet = self.ec2.describe_subnets(Filters=[
            {"Name": "availability-zone", "Values": ["us-west-2b"]}])["Subnets"][0]["SubnetId"]
        text = ON_EFA.replace("zones: [us-west-2b]", f"subnets: [{subnet}]")
        self.spotter("launch", self.job(self.efa(), text))
        self.assertEqual(list(self.interfaces()), 3 * [LAYOUT])

    def test_what_is_printed_is_valid(self):
        data = self.printed(self.efa())["CreateLaunchTemplate"][1]
        self.assert_valid("ec2", "CreateLaunchTemplate", data)
        self.assertNotIn("SecurityGroupIds", data["LaunchTemplateData"])
        first, = data["LaunchTemplateData"]["NetworkInterfaces"]
        self.assertEqual((first["InterfaceType"], first["Groups"]), ("efa", [self.group]))

    def test_a_group_that_drops_its_traffic_is_refused_with_what_mends_it(self):
        for direction in ("ingress", "egress"):
            said = self.refused(self.efa(), code=2)
            self.assertIn("lets all traffic in from itself and out to itself", said)
            self.assertIn(f"aws ec2 authorize-security-group-egress --group-id {self.group}", said)
            self.let(direction)
        self.assertEqual(self.active(), [])
        self.launch(self.efa())

    def test_a_group_that_is_not_there_is_refused(self):
        more = "  efa: true\n  security_groups: [sg-0123456789abcdef0]\n"
        self.assertIn("'sg-0123456789abcdef0' does not exist", self.refused(more, code=2))

    def test_types_without_it_are_named(self):
        self.let("ingress", "egress")
        text = ON_EFA.replace("p4d.24xlarge", "p4d.24xlarge, g5.xlarge")
        self.assertIn("there is no EFA on g5.xlarge", self.refused(self.efa(), text, code=2))
        self.assertEqual(self.active(), [])

    def test_who_launches_may_do_what_iam_prints(self):
        self.let("ingress", "egress")
        self.limit(self.job(self.efa()))
        self.launch(self.efa())
        self.assertEqual(list(self.interfaces()), 3 * [LAYOUT])
        self.limit(self.job(self.efa()), drop="LookAround")
        done = self.spotter("doctor", self.job(self.efa()), code=None)
        self.assertIn("ec2:DescribeSecurityGroups", done.stdout)
        self.assertIn("whether the security groups let EFA through is open", done.stdout)
        self.served.command("policy", "user")


class Groups(launching.LaunchTest):
    """Of a gang: PyTorch's ports ask for no secret."""

    text = GANG

    def said(self, group):
        done = self.spotter("doctor", self.job(f"  security_groups: [{group}]\n"), code=None)
        return "\n".join(line for line in done.stdout.splitlines() if "gang" in line)

    def test_who_else_reaches_its_machines_is_named(self):
        (pathlib.Path(self.served.folder) / "s3/bucket").mkdir(parents=True, exist_ok=True)
        group = self.ec2.create_security_group(GroupName=self.name, Description="x")["GroupId"]
        self.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
            {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]},
            {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22,
             "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}])
        self.assertNotIn("ask for no secret", self.said(group))
        self.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
            {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535,
             "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}])
        self.assertIn(f"{group} lets in 10.0.0.0/8: a gang's ports ask for no secret",
                      self.said(group))
        image = self.ec2.describe_images(Owners=["self", "amazon"])["Images"][0]["ImageId"]
        one = self.ec2.run_instances(
            ImageId=image, InstanceType="g5.xlarge", MinCount=1, MaxCount=1,
            SecurityGroupIds=[group])["Instances"][0]["InstanceId"]
        self.assertIn(f"; {one} of another job is in it, too", self.said(group))
        self.ec2.terminate_instances(InstanceIds=[one])
        served.eventually(lambda: one not in self.said(group))


if __name__ == "__main__":
    unittest.main()
