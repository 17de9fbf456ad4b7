#!/usr/bin/python3
"""The placement group of a gang's fleet: made, used, left alone, deleted."""

import pathlib
import unittest

from botocore.exceptions import ClientError
from launching import GANG, JOB, LaunchTest, Recorder, SPOT_FLEET, served, setUpModule  # noqa: F401

ONE_ZONE = GANG.replace("zones: [us-west-2a, us-west-2b]", "zones: [us-west-2b]")
OWN = "  placement_group: own\n"


class Placement(LaunchTest):
    text = ONE_ZONE

    def setUp(self):
        super().setUp()
        (pathlib.Path(self.served.folder) / "s3/bucket").mkdir(parents=True, exist_ok=True)

    def tearDown(self):
        self.spotter("stop", self.job(OWN), "--wait", code=None)

    def groups(self):
        return {it["GroupName"]: {each["Key"]: each["Value"] for each in it.get("Tags", [])}
                for it in self.ec2.describe_placement_groups()["PlacementGroups"]
                if self.name in it["GroupName"]}

    def placed(self, many=3):
        """Group and zone of each instance, once there are so many."""
        self.wait_for(many)
        found = self.ec2.describe_instances(InstanceIds=self.instances("running"))
        return {(it["Placement"]["GroupName"], it["Placement"]["AvailabilityZone"])
                for one in found["Reservations"] for it in one["Instances"]}

    def wait_for(self, many):
        served.eventually(lambda: len(self.instances("running")) == many)

    def make_own(self, tags):
        self.ec2.create_placement_group(
            GroupName=f"spotter-{self.name}", Strategy="cluster",
            TagSpecifications=[{"ResourceType": "placement-group", "Tags": [
                {"Key": key, "Value": value} for key, value in tags.items()]}])
        self.addCleanup(self.delete_own)
        served.eventually(lambda: self.state() == "available")

    def state(self):
        """Of the group of the job's name."""
        found = self.ec2.describe_placement_groups(
            Filters=[{"Name": "group-name", "Values": [f"spotter-{self.name}"]}])
        return "".join(it["State"] for it in found["PlacementGroups"])

    def delete_own(self):
        if self.state() in ("pending", "available"):
            self.ec2.delete_placement_group(GroupName=f"spotter-{self.name}")

    def in_use(self, times):
        """So often, whether or not its instances have ended by then."""
        self.fault("fail", "DeletePlacementGroup", f"count={times}",
                   "code=InvalidPlacementGroup.InUse")

    def test_what_is_printed_is_sent(self):
        printed = self.assert_printed_is_sent(OWN)
        self.assertEqual(printed["CreatePlacementGroup"][1]["Strategy"], "cluster")
        data = printed["CreateLaunchTemplate"][1]["LaunchTemplateData"]
        self.assertEqual(data["Placement"], {"GroupName": f"spotter-{self.name}"})
        for each in printed["CreateFleet"][1]["LaunchTemplateConfigs"][0]["Overrides"]:
            self.assertEqual(each["Placement"], {"GroupName": f"spotter-{self.name}"})
            self.assertEqual(each["AvailabilityZone"], "us-west-2b")

    def test_its_own_is_made_and_goes_with_the_fleet(self):
        done = self.spotter("launch", self.job(OWN))
        group = f"spotter-{self.name}"
        self.assertIn(f"the placement group {group} is made", done.stderr)
        self.assertEqual(self.groups(), {group: {
            "spotter:job": self.name, "spotter:storage": "folder:/data"}})
        self.assertEqual(self.placed(), {(group, "us-west-2b")})
        self.launch(OWN)  # it is there already
        self.in_use(1)
        self.assertNotIn("is deleted", self.spotter("stop", self.job(OWN)).stderr)
        done = self.spotter("stop", self.job(OWN), "--wait")
        self.assertIn(f"the placement group {group} is deleted", done.stderr)
        self.assertEqual(self.groups(), {})

    def test_of_instances_that_still_end_it_stays(self):
        self.launch(OWN)
        self.wait_for(3)
        self.in_use(1)
        done = self.spotter("stop", self.job(OWN))
        self.assertIn("stays, as its instances still end", done.stderr)
        self.assertEqual(len(self.groups()), 1)

    def test_by_its_name_alone_it_goes_too(self):
        self.launch(OWN)
        self.assertIn("is deleted", self.spotter("stop", self.name, "--wait").stderr)

    def test_by_its_name_alone_a_namesakes_stays(self):
        theirs = {"spotter:job": self.name, "spotter:storage": "folder:/other"}
        self.make_own(theirs)
        self.spotter("launch", self.job())
        self.wait_for(3)
        self.assertNotIn("placement", self.spotter("stop", self.name, "--wait").stderr)
        self.assertEqual(self.groups(), {f"spotter-{self.name}": theirs})
        done = self.spotter("stop", self.name)  # nothing runs that says whose it is
        self.assertIn("`spotter stop job.yaml` deletes it", done.stderr)
        self.assertEqual(self.groups(), {f"spotter-{self.name}": theirs})

    def test_one_that_is_deleted_during_a_launch_is_made_again(self):
        def before(call):
            if call["Action"] == "CreateFleet" and call.get("DryRun") == "true":  # the last check
                self.delete_own()
        with Recorder(self.served.api, before) as recorder:
            self.launch(OWN, api=recorder.api)
        self.assertEqual(self.placed(), {(f"spotter-{self.name}", "us-west-2b")})

    def test_on_which_a_fleet_relies_it_stays(self):
        self.launch(OWN)
        self.wait_for(3)
        launched = []

        def before(call):
            if call["Action"] == "DescribePlacementGroups" and not launched:
                launched.append("")
                launched[0] = self.launch(OWN)
        with Recorder(self.served.api, before) as recorder:
            done = self.spotter("stop", self.job(OWN), "--wait", api=recorder.api)
        self.assertIn(f"stays, as {launched[0]} is at work", done.stderr)
        self.assertEqual(self.placed(), {(f"spotter-{self.name}", "us-west-2b")})

    def test_another_launch_is_waited_for_whose_group_is_not_shown_yet(self):
        self.fault("fail", "CreatePlacementGroup", "count=1",
                   "code=InvalidPlacementGroup.Duplicate")
        self.spotter("launch", self.job(OWN), "--skip-checks")
        self.assertEqual(len(self.groups()), 1)

    def test_what_is_in_it_for_a_while_is_waited_for(self):
        self.launch(OWN)
        self.wait_for(3)
        self.in_use(2)
        self.assertIn("is deleted", self.spotter("stop", self.job(OWN), "--wait").stderr)
        self.assertEqual(self.groups(), {})

    def test_a_named_one_that_is_called_like_its_own_is_left(self):
        self.launch(OWN)
        named = f"  placement_group: spotter-{self.name}\n"
        self.launch(named)
        self.wait_for(3)
        self.assertNotIn("placement", self.spotter("stop", self.job(named), "--wait").stderr)
        self.assertEqual(len(self.groups()), 1)

    def test_a_spot_fleet_has_one_too(self):
        self.launch(OWN + SPOT_FLEET)
        self.assertEqual(self.placed(), {(f"spotter-{self.name}", "us-west-2b")})

    def test_an_auto_scaling_group_has_one_too(self):
        self.launch(OWN + "  type: auto-scaling-group\n")
        self.assertEqual(self.placed(), {(f"spotter-{self.name}", "us-west-2b")})

    def test_one_of_its_name_that_is_not_its_own_is_left_alone(self):
        for tags in ({}, {"spotter:job": self.name, "spotter:storage": "folder:/other"}):
            with self.subTest(tags):
                self.make_own({"a": "b", **tags})
                self.assertIn("is not this job's", self.refused(OWN, code=2))
                self.assertIn("is not this job's", self.spotter(
                    "launch", self.job(OWN), "--skip-checks", code=1).stderr)
                self.assertNotIn("is deleted", self.spotter("stop", self.job(OWN)).stderr)
                self.assertEqual(len(self.groups()), 1)
                self.delete_own()
                served.eventually(lambda: not self.state())

    def test_a_named_one_is_used_and_left(self):
        named = f"  placement_group: {self.name}\n"
        self.assertIn(f"there is no placement group {self.name}", self.refused(named, code=2))
        self.ec2.create_placement_group(GroupName=self.name, Strategy="cluster")
        self.launch(named)
        self.assertEqual(self.placed(), {(self.name, "us-west-2b")})
        self.spotter("stop", self.job(named), "--wait")
        self.assertEqual(list(self.groups()), [self.name])
        self.ec2.delete_placement_group(GroupName=self.name)

    def test_a_named_one_that_spreads_takes_no_more_than_seven(self):
        self.ec2.create_placement_group(GroupName=self.name, Strategy="spread")
        self.addCleanup(self.ec2.delete_placement_group, GroupName=self.name)
        named = f"  placement_group: {self.name}\n"
        large = ONE_ZONE.replace("size: 3", "size: 8")
        self.assertIn("takes 7 instances in a zone", self.refused(named, large, code=2))
        self.launch(named)
        self.spotter("stop", self.job(named), "--wait")

    def test_types_that_it_does_not_take_are_named(self):
        text = ONE_ZONE.replace("g5.xlarge, g4dn.xlarge", "g5.xlarge, t3.micro")
        self.assertIn("a cluster placement group does not take t3.micro",
                      self.refused(OWN, text, code=2))
        self.assertEqual(self.groups(), {})

    def test_types_that_a_named_one_does_not_take_are_named_before_anything_is_made(self):
        text = ONE_ZONE.replace("g5.xlarge, g4dn.xlarge", "g5.xlarge, t3.micro")
        named = f"  placement_group: {self.name}\n"
        self.ec2.create_placement_group(GroupName=self.name, Strategy="cluster")
        self.addCleanup(self.ec2.delete_placement_group, GroupName=self.name)
        said = self.refused(named, text, code=2)
        self.assertIn("a cluster placement group does not take t3.micro", said)
        self.assertIn("remove t3.micro from launch.instance_types", said)
        with self.assertRaisesRegex(ClientError, "InvalidLaunchTemplateName.NotFound"):
            self.ec2.describe_launch_templates(LaunchTemplateNames=[f"spotter-{self.name}"])
        for types in ("t3.micro", "t3.micro, g5.xlarge"):  # EC2 is asked of the first alone
            said = self.refused(named, ONE_ZONE.replace("g5.xlarge, g4dn.xlarge", types), code=2)
            self.assertIn("a cluster placement group does not take t3.micro", said)

    def test_a_named_one_that_spreads_takes_any_type(self):
        self.ec2.create_placement_group(GroupName=self.name, Strategy="spread")
        self.addCleanup(self.ec2.delete_placement_group, GroupName=self.name)
        named = f"  placement_group: {self.name}\n"
        text = ONE_ZONE.replace("g5.xlarge, g4dn.xlarge", "g5.xlarge, t3.micro")
        self.spotter("launch", self.job(named, text))
        self.spotter("stop", self.job(named, text), "--wait")

    def test_who_launches_may_do_what_iam_prints(self):
        job = self.job(OWN)
        self.limit(job)
        self.launch(OWN)
        self.wait_for(3)
        self.assertIn("is deleted", self.spotter("stop", job, "--wait").stderr)

    def test_one_of_an_earlier_launch_goes_by_what_iam_prints_now(self):
        self.launch(OWN)
        self.wait_for(3)
        job = self.job()
        self.limit(job)
        self.assertIn("is deleted", self.spotter("stop", job, "--wait").stderr)
        self.assertNotIn("placement", self.spotter("stop", job).stderr)

    def test_a_name_is_no_pattern_in_a_policy(self):
        job = self.job("  placement_group: team*\n")
        printed = self.spotter("iam", "launcher", job, "--account", "123456789012",
                               code=None).stdout
        self.assertNotIn("placement-group/team*", printed)
        self.assertIn("placement-group/team${*}", printed)

    def test_who_may_not_look_sees_that_it_stays(self):
        self.launch(OWN)
        self.limit(self.job(OWN), drop="LookAtPlacementGroups")
        done = self.spotter("stop", self.job(OWN), code=1)
        self.assertIn("ec2:DescribePlacementGroups", done.stderr)
        self.served.command("policy", "user")

    def test_only_of_a_gang_a_stop_looks_for_one(self):
        other = self.job(text=JOB)
        self.limit(other)
        self.assertNotIn("placement", self.spotter("stop", other).stderr)
        done = self.spotter("stop", self.name)
        self.assertIn("whether the job has a placement group is open", done.stderr)
        self.assertIn("ec2:DescribePlacementGroups", done.stderr)
        self.served.command("policy", "user")

    def test_doctor_names_what_is_not_allowed(self):
        self.limit(self.job(OWN), drop="MakeTheJobsPlacementGroup")
        done = self.spotter("doctor", self.job(OWN), code=None)
        self.assertIn("ec2:CreatePlacementGroup", done.stdout)
        self.limit(self.job(OWN), drop="LookAtPlacementGroups")
        done = self.spotter("doctor", self.job(OWN), code=None)
        self.assertIn("ec2:DescribePlacementGroups", done.stdout)


if __name__ == "__main__":
    unittest.main()
