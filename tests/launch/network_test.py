"""`spotter launch` and `doctor` look at the subnets before a machine costs that reaches nothing.
The network is spotter-emulator's, which shows it as a fault has set it."""

import json
import unittest

import launching

PACKAGE = "  package: {s3: s3://bucket/spotter.deb, sha256: " + 64 * "a" + "}\n"


class Network(launching.LaunchTest):
    def setUp(self):
        super().setUp()
        self.near, self.far = (self.subnet(zone) for zone in ("us-west-2a", "us-west-2b"))

    def subnet(self, zone):
        return self.ec2.describe_subnets(Filters=[
            {"Name": "availability-zone", "Values": [zone]}])["Subnets"][0]["SubnetId"]

    def far_has(self, *words):
        self.fault("subnet", f"subnet={self.far}", *words)

    def found(self, code, more=PACKAGE):
        """What doctor says of the network."""
        done = self.spotter("doctor", self.job(more), "--json", code=code)
        return [f"{it['verdict']} {it['what']}: {it['advice']}" for it in json.loads(done.stdout)
                if it["check"] == "network"]

    def test_a_subnet_without_a_way_out_is_named_and_nothing_is_launched(self):
        self.far_has("way=none")
        said = self.refused(PACKAGE, code=2)
        self.assertRegex(said, f"fail  network +a machine in {self.far} .us-west-2b. does not "
                               "reach S3, EC2 or STS: rtb-0000000000000000b has no route to the")
        self.assertIn("aws ec2 create-vpc-endpoint --vpc-id vpc-00000000000000000 --service-name "
                      "com.amazonaws.us-west-2.s3 --route-table-ids rtb-0000000000000000b", said)
        self.assertEqual((self.active(), self.volumes()), ([], []))
        bad, good = self.found(2)
        self.assertIn(f"fail a machine in {self.far}", bad)
        self.assertIn(f"ok by its routes a machine in {self.near} reaches", good)

    def test_endpoints_are_ways_out(self):
        self.far_has("way=none")
        self.fault("endpoint", "service=s3", "kind=gateway")
        shown, = self.ec2.describe_vpc_endpoints()["VpcEndpoints"]
        self.assertEqual((shown["VpcEndpointType"], len(shown["RouteTableIds"])), ("Gateway", 2))
        self.assertIn("does not reach EC2 or STS", self.found(2)[0])
        self.fault("endpoint", "service=ec2")
        self.assertIn("warn a machine", self.found(None)[0])
        self.fault("endpoint", "service=sts", 'policy={"Statement": []}')
        self.assertIn("the endpoint of STS, has a policy of its own", self.found(None)[0])
        self.fault("endpoint", "service=ec2", "private-names=false")
        self.assertIn("fail", self.found(2)[0])

    def test_an_endpoint_lets_the_machines_in(self):
        group = self.ec2.create_security_group(GroupName=self.name, Description="x")["GroupId"]
        self.addCleanup(self.ec2.delete_security_group, GroupId=group)
        self.fault("endpoint", "service=ec2")
        self.assertTrue(all(it.startswith("ok") for it in self.found(None)), "the machines' own")
        self.fault("endpoint", "service=ec2", f"group={group}")
        self.assertIn(f"lets no machine of this job in by HTTPS: aws ec2 authorize-security-group-"
                      f"ingress --group-id {group}", self.found(2)[0])
        self.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
            {"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443,
             "IpRanges": [{"CidrIp": "172.31.0.0/16"}]}])
        self.assertTrue(all(it.startswith("ok") for it in self.found(None)))

    def test_an_address_is_needed_beside_a_route(self):
        self.far_has("public=false")
        self.assertIn(f"--subnet-id {self.far} --map-public-ip-on-launch", self.found(2)[0])
        self.far_has("public=false", "way=nat")
        shown, = self.ec2.describe_nat_gateways()["NatGateways"]
        self.assertEqual((shown["SubnetId"], shown["State"]), (self.far, "available"))
        self.assertTrue(all(it.startswith("ok") for it in self.found(None)))
        for way in ("failed-nat", "gone-nat", "ipv6"):
            self.far_has("public=false", f"way={way}")
            self.assertIn("fail", self.found(2)[0], way)
        self.far_has("ipv6-only=true")
        self.assertIn("addresses of IPv6 alone", self.found(2)[0])
        for way in ("private-nat", "transit"):
            self.far_has(f"way={way}")
            self.assertIn("warn", self.found(None)[0], way)

    def test_firewalls_are_looked_at(self):
        self.far_has("acl=closed")
        self.assertRegex("\n".join(self.found(2)),
                         f"fail acl-0000000000000000b, the network ACL of {self.far}")
        self.served.command("fault", "clear")
        group = self.ec2.create_security_group(GroupName="closed", Description="it")["GroupId"]
        self.addCleanup(self.ec2.delete_security_group, GroupId=group)
        rule = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        more = PACKAGE + f"  security_groups: [{group}]\n"
        self.assertTrue(all(it.startswith("ok") for it in self.found(None, more)))
        self.ec2.revoke_security_group_egress(GroupId=group, IpPermissions=[rule])
        self.assertIn(f"fail {group} lets no machine ask anything by HTTPS", self.found(2, more)[0])
        self.assertIn("does not exist",
                      self.found(2, PACKAGE + "  security_groups: [sg-0123456789abcdef9]\n")[0])

    def test_a_subnet_that_the_fleet_does_not_use_is_not_judged(self):
        self.far_has("way=none")
        self.spotter("launch", self.job(text=launching.JOB.replace(", us-west-2b]", "]")))
        self.spotter("stop", self.name, "--wait")

    def test_what_may_not_be_looked_at_is_open(self):
        self.far_has("way=none")
        for action in ("RouteTables", "VpcEndpoints", "NatGateways", "NetworkAcls",
                       "SecurityGroups"):
            self.fault("deny", f"action=Describe{action}")
        found = self.found(None)
        self.assertEqual([it[:4] for it in found], 7 * ["warn"], found)
        self.assertRegex(found[0], "whether the subnets have a way to AWS is open; give who "
                                   "launches what `spotter iam launcher` prints")
        self.assertRegex(found[-1], "whether a machine there reaches EC2 and STS is open|S3, EC2")
        self.launch()
        self.spotter("stop", self.name, "--wait")


if __name__ == "__main__":
    unittest.main()
