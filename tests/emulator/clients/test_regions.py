"""Two regions on one endpoint: EC2 and SSM are of one, keys and policies of both."""

import json
import tempfile
import unittest
import warnings

import boto3
import botocore.exceptions

from served import Served, eventually

HERE, THERE = "us-west-2", "us-east-2"


class Regions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        warnings.simplefilter("ignore", ResourceWarning)
        cls.served = Served("--zones", "us-west-2a,us-west-2b,us-east-2a")
        cls.addClassCleanup(cls.served.stop)

    def client(self, region, service="ec2"):
        client = boto3.client(service, region_name=region, endpoint_url=self.served.api,
                              **self.served.keys)
        self.addCleanup(client.close)
        return client

    def refused(self, call, **arguments):
        with self.assertRaises(botocore.exceptions.ClientError) as raised:
            call(**arguments)
        return raised.exception.response["Error"]["Code"]

    def fleet(self, ec2, zone, image):
        template = ec2.create_launch_template(
            LaunchTemplateName="one", LaunchTemplateData={"ImageId": image})["LaunchTemplate"]
        return ec2.create_fleet(
            Type="maintain",
            TargetCapacitySpecification={"TotalTargetCapacity": 1,
                                         "DefaultTargetCapacityType": "spot"},
            LaunchTemplateConfigs=[{
                "LaunchTemplateSpecification": {"LaunchTemplateId": template["LaunchTemplateId"],
                                                "Version": "1"},
                "Overrides": [{"InstanceType": "g5.xlarge", "AvailabilityZone": zone}]}])["FleetId"]

    def instances(self, ec2):
        found = ec2.describe_instances(Filters=[
            {"Name": "instance-state-name", "Values": ["pending", "running"]}])
        return [it for one in found["Reservations"] for it in one["Instances"]]

    def test_what_is_made_in_one_is_not_there_in_the_other(self):
        here, there = self.client(HERE), self.client(THERE)
        zones = [it["ZoneName"] for it in there.describe_availability_zones()["AvailabilityZones"]]
        self.assertEqual(zones, ["us-east-2a"])
        image = self.client(THERE, "ssm").get_parameter(
            Name="/aws/service/debian/12")["Parameter"]["Value"]
        fleet = self.fleet(there, "us-east-2a", image)
        self.assertTrue(eventually(lambda: len(self.instances(there)) == 1))
        self.assertEqual(self.instances(here), [])
        self.assertEqual(here.describe_fleets()["Fleets"], [])
        self.assertEqual(here.describe_launch_templates()["LaunchTemplates"], [])
        self.assertEqual(self.refused(here.describe_fleets, FleetIds=[fleet]),
                         "InvalidFleetId.NotFound")
        self.assertEqual(self.refused(here.modify_fleet, FleetId=fleet,
                                      TargetCapacitySpecification={"TotalTargetCapacity": 0}),
                         "InvalidFleetId.NotFound")
        instance = self.instances(there)[0]["InstanceId"]
        self.assertEqual(self.refused(here.terminate_instances, InstanceIds=[instance]),
                         "InvalidInstanceID.NotFound")
        self.assertEqual(self.served.command("interrupt", instance, "--in", "1s").stderr, "")
        self.assertTrue(eventually(
            lambda: [it["InstanceId"] for it in self.instances(there)] not in ([instance], [])))
        there.delete_fleets(FleetIds=[fleet], TerminateInstances=True)

    def test_an_image_is_of_one_region(self):
        here, there = self.client(HERE), self.client(THERE)
        image = here.describe_images()["Images"][0]["ImageId"]
        self.assertNotIn(image, [it["ImageId"] for it in there.describe_images()["Images"]])
        self.assertEqual(self.refused(there.describe_images, ImageIds=[image]),
                         "InvalidAMIID.NotFound")
        self.assertEqual(self.refused(
            there.run_instances, ImageId=image, InstanceType="g5.xlarge", MinCount=1, MaxCount=1,
            Placement={"AvailabilityZone": "us-east-2a"}), "InvalidAMIID.NotFound")

    def test_a_region_that_is_not_served_is_refused(self):
        self.assertIn(self.refused(self.client("eu-west-1").describe_fleets),
                      ("AuthFailure", "SignatureDoesNotMatch"))

    def test_a_policy_and_its_regions(self):
        policy = {"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "ec2:DescribeFleets", "Resource": "*",
             "Condition": {"StringEquals": {"aws:RequestedRegion": THERE}}}]}
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(policy, file)
            file.flush()
            self.assertEqual(self.served.command("policy", "user", file.name).stderr, "")
        self.addCleanup(self.served.command, "policy", "user")
        self.assertEqual(self.client(THERE).describe_fleets()["Fleets"], [])
        self.assertEqual(self.refused(self.client(HERE).describe_fleets), "UnauthorizedOperation")

    def test_capacity_and_prices_are_of_a_zone(self):
        here, there = self.client(HERE), self.client(THERE)
        self.addCleanup(self.served.command, "fault", "capacity", "us-east-2a", "any")
        self.assertEqual(self.served.command("fault", "capacity", "us-east-2a", "0").stderr, "")

        def score(ec2, region):
            return ec2.get_spot_placement_scores(
                InstanceTypes=["g5.xlarge", "g6.xlarge", "g4dn.xlarge"], TargetCapacity=1,
                RegionNames=[region])["SpotPlacementScores"][0]["Score"]
        self.assertEqual((score(here, HERE), score(there, THERE)), (9, 1))
        pages = there.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=["g5.xlarge"])
        self.assertEqual({it["AvailabilityZone"] for page in pages
                          for it in page["SpotPriceHistory"]}, {"us-east-2a"})


if __name__ == "__main__":
    unittest.main()
