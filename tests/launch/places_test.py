"""`launch.pools` in two regions at the emulator: what `launch`, `watch`, `status` and `stop` do in
each, with what a launcher may do and no more."""

import pathlib
import re
import time
import unittest

import boto3

import launching
import served

setUpModule = launching.setUpModule

HERE, THERE = "us-west-2", "us-east-2"
JOB = """job: {name}
storage: {{s3: 's3://watched/homes'}}
trainer: {{command: python train.py}}
within: 3h
publish: s3://watched/jobs
launch:
  image: resolve:ssm:/aws/service/debian/12
  profile: spotter-role
  on_demand: when-needed
  work: 1h
  start: 1s
  pools: [{{types: [g5.xlarge], zones: [us-west-2a, us-west-2b]}},
          {{region: us-east-2, types: [g5.xlarge, g4dn.xlarge]}}]
"""


class Places(launching.LaunchTest):
    text = JOB

    @classmethod
    def setUpClass(cls):
        cls.served = served.Served("--zones", "us-west-2a,us-west-2b,us-east-2a")
        cls.addClassCleanup(cls.served.stop)

    def setUp(self):
        super().setUp()
        (pathlib.Path(self.served.folder) / "s3/watched").mkdir(parents=True, exist_ok=True)
        keys = {"aws_access_key_id": launching.KEYS["AWS_ACCESS_KEY_ID"],
                "aws_secret_access_key": launching.KEYS["AWS_SECRET_ACCESS_KEY"]}
        self.there = boto3.client("ec2", region_name=THERE, endpoint_url=self.served.api, **keys)
        self.addCleanup(self.there.close)
        self.addCleanup(self.room, "any", "any")

    def room(self, here, there):
        for zone, count in (("us-west-2a", here), ("us-west-2b", here), ("us-east-2a", there)):
            self.assertEqual(
                self.served.command("fault", "capacity", zone, str(count)).stderr, "")

    def launch_both(self):
        path = self.job()
        self.limit(path)
        lines = [line.split() for line in self.spotter("launch", path).stdout.splitlines()]
        self.assertEqual([region for _, region in lines], [HERE, THERE])
        return [fleet for fleet, _ in lines]

    def fleet(self, ec2):
        mine = {"Key": "spotter:job", "Value": self.name}
        found = [it for it in ec2.describe_fleets()["Fleets"] if mine in it["Tags"]]
        return next((it for it in found if not it["FleetState"].startswith("deleted")), None)

    def targets(self):
        return [it and it["TargetCapacitySpecification"]["TotalTargetCapacity"]
                for it in (self.fleet(self.ec2), self.fleet(self.there))]

    def watch(self):
        return self.spotter("watch", self.folder / "job.yaml", "--once").stdout

    def running(self, ec2):
        found = ec2.describe_instances(Filters=[
            {"Name": "tag:spotter:job", "Values": [self.name]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]}])
        return [it["InstanceId"] for one in found["Reservations"] for it in one["Instances"]]

    def test_one_place_asks_and_the_other_rests(self):
        here, there = self.launch_both()
        self.assertEqual(self.targets(), [1, 0])
        self.assertTrue(served.eventually(lambda: self.running(self.ec2)))
        self.assertIn("the job has the spot instance", self.watch())
        configs = self.fleet(self.there)["LaunchTemplateConfigs"][0]
        self.assertEqual({it["InstanceType"] for it in configs["Overrides"]},
                         {"g5.xlarge", "g4dn.xlarge"})
        again = self.spotter("launch", self.folder / "job.yaml")
        self.assertEqual(again.stdout.split(), [here, HERE, there, THERE])
        self.assertEqual(again.stderr.count("is at work already"), 2)
        self.assertEqual(self.targets(), [1, 0])
        shown = self.spotter("status", "--job", self.folder / "job.yaml", code=None).stdout
        self.assertIn(f"{here}, active, target 1; {there}, active, target 0", shown)
        self.spotter("stop", self.folder / "job.yaml", "--wait")
        self.assertEqual(self.targets(), [None, None])

    def test_without_capacity_it_goes_to_the_other_region_and_back(self):
        self.room(0, "any")
        here, there = self.launch_both()
        self.assertIn("no spot instance since", self.watch())
        time.sleep(1.1)
        said = self.watch()
        self.assertRegex(said, rf"no spot instance in {HERE} since \S+: the job goes to {THERE}, "
                               r"at \$[\d.]+ an hour, where it was not yet; 100 % left")
        self.assertRegex(said, rf"{there} gets the target 1\n{here} gets the target 0")
        self.assertEqual(self.targets(), [0, 1])
        self.assertTrue(served.eventually(lambda: self.running(self.there)))
        self.assertTrue(served.eventually(
            lambda: re.search("the job has the spot instance", self.watch())))
        self.assertEqual(self.targets(), [0, 1])
        # Launched again it stays where it is.
        self.spotter("launch", self.folder / "job.yaml")
        self.assertEqual(self.targets(), [0, 1])
        self.room("any", 0)
        self.there.terminate_instances(InstanceIds=self.running(self.there))
        self.assertTrue(served.eventually(lambda: self.watch() and self.targets() == [1, 0]))
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_ended_in_one_region_it_is_woken_in_no_other(self):
        self.room(0, "any")
        here, there = self.launch_both()
        self.watch()
        time.sleep(1.1)
        self.assertRegex(self.watch(), rf"{there} gets the target 1\n{here} gets the target 0")
        self.there.delete_fleets(FleetIds=[there], TerminateInstances=True)
        said = self.watch()
        self.assertIn(f"{here} is not woken: the job has no fleet in {THERE}", said)
        self.assertEqual(self.targets(), [0, None])
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_what_is_quieted_by_mistake_can_be_woken(self):
        here, there = self.launch_both()
        self.watch()
        self.there.modify_fleet(FleetId=there, TargetCapacitySpecification={
            "TotalTargetCapacity": 1})
        self.assertIn(f"{there} gets the target 0", self.watch())
        tags = {it["Key"]: it["Value"] for it in self.fleet(self.there)["Tags"]}
        self.assertRegex(tags["spotter:rests"], r"^\d{4}-")
        self.assertEqual(tags["spotter:regions"], f"{HERE} {THERE}")
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_by_its_name_a_part_of_it_is_not_ended(self):
        self.launch_both()
        said = self.spotter("stop", self.name, code=1).stderr
        self.assertIn(f"{self.name} has fleets in {THERE}, too", said)
        self.assertEqual(self.targets(), [1, 0])
        self.spotter("stop", self.folder / "job.yaml", "--wait")
        self.spotter("stop", self.name)

    def test_a_region_with_a_fleet_is_not_forgotten(self):
        here, there = self.launch_both()
        path = self.folder / "job.yaml"
        text = path.read_text()
        path.write_text(re.sub(r",\s+\{region: us-east-2.*\]\}", "", text))
        said = self.spotter("launch", path, code=1).stderr
        self.assertIn(f"{here} is of a launch in {THERE}, too", said)
        self.assertEqual(self.targets(), [1, 0])
        path.write_text(text)
        self.spotter("stop", path, "--wait")
        self.assertEqual(self.targets(), [None, None])

    def test_what_a_later_region_refuses_is_said_with_what_was_launched(self):
        text = self.text.replace("{{region: us-east-2", "{{region: us-east-2, subnets: [subnet-0]")
        said = self.refused(text=text)
        self.assertIn(f"in {THERE}: ", said)
        self.assertEqual(self.targets(), [None, None], "each is examined before the first change")

    def test_stop_needs_no_names_of_zones(self):
        self.text = self.text.replace("[us-west-2a, us-west-2b]", "[usw2-az1]")
        self.launch_both()
        with launching.Recorder(self.served.api) as recorder:
            self.spotter("stop", self.folder / "job.yaml", api=recorder.api)
        asked = {it["Action"] for it in recorder.calls}
        self.assertIn("DeleteFleets", asked)
        self.assertNotIn("DescribeAvailabilityZones", asked)
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_what_is_printed_is_of_each_region(self):
        said = self.spotter("launch", self.job(), "--dry-run", api="http://127.0.0.1:9").stdout
        self.assertRegex(said, "(?s)# In the region that AWS_REGION names:.*create-fleet.*"
                               "# In us-east-2:.*create-fleet.*\"TotalTargetCapacity\": ?0")

    def test_a_region_named_twice_is_refused(self):
        text = self.text.replace("region: us-east-2", "region: us-west-2")
        self.assertIn("us-west-2 is there twice", self.refused(text=text))

    def test_doctor_looks_at_each_region(self):
        path = self.job()
        said = self.spotter("doctor", path, code=None).stdout
        self.assertRegex(said, r"(?m)^ok +image in us-east-2 ")


if __name__ == "__main__":
    unittest.main()
