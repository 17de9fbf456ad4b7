"""`launch.pools` in two regions at the emulator: what `launch`, `watch`, `status` and `stop` do in
each, with what a launcher may do and no more."""

import json
import pathlib
import re
import time
import unittest

import boto3
import botocore.exceptions

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
        self.there = boto3.client("ec2", region_name=THERE, endpoint_url=self.served.api,
                                  **self.served.keys)
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

    def target(self, ec2, fleet, count):
        """As somebody else sets it, who has waited until EC2 is no longer changing the fleet."""
        def changed():
            try:
                return ec2.modify_fleet(
                    FleetId=fleet, TargetCapacitySpecification={"TotalTargetCapacity": count})
            except botocore.exceptions.ClientError as refused:
                self.assertEqual(refused.response["Error"]["Code"], "InvalidFleetState")
                return None
        self.assertTrue(served.eventually(changed))

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
        self.assertRegex(shown, f"{here}, active, target 1, ends at [^;]*; {there}, active, "
                                "target 0, ends at ")
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

    def limit_to(self, region, sid):
        """One statement of the launcher's policy allows something in that region only."""
        file = self.limit(self.folder / "job.yaml")
        document = json.loads(file.read_text())
        left = launching.without(document["Statement"], sid)
        one, = (it for it in document["Statement"] if it not in left)
        one.setdefault("Condition", {})["StringEquals"] = {"aws:RequestedRegion": region}
        file.write_text(json.dumps(document))
        self.assertEqual(self.served.command("policy", "user", str(file)).stderr, "")

    def test_while_a_region_does_not_answer_nothing_is_moved(self):
        self.room(0, "any")
        self.launch_both()
        self.watch()
        self.limit_to(HERE, "LookAround")
        time.sleep(1.1)
        done = self.spotter("watch", self.folder / "job.yaml", "--once")
        self.assertIn(f"{THERE}: ", done.stderr)
        self.assertNotIn("the job goes to", done.stdout)
        self.limit(self.folder / "job.yaml")
        self.assertEqual(self.targets(), [1, 0])
        self.assertIn(f"the job goes to {THERE}", self.watch())
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_where_the_target_is_refused_the_job_does_not_go(self):
        self.room(0, "any")
        self.launch_both()
        self.watch()
        self.limit_to(HERE, "ChangeAndEndTheJobsThings")
        time.sleep(1.1)
        said = self.spotter("watch", self.folder / "job.yaml", "--once", code=1)
        self.assertIn(f"the job goes to {THERE}", said.stdout)
        self.assertIn("ModifyFleet", said.stderr)
        self.assertEqual(self.targets(), [1, 0])
        tags = {it["Key"]: it["Value"] for it in self.fleet(self.there)["Tags"]}
        self.assertRegex(tags["spotter:rests"], r"^\d{4}-")
        self.assertRegex(tags["spotter:watched"], r"^\S+Z no spot since ")
        self.limit(self.folder / "job.yaml")
        self.assertTrue(served.eventually(lambda: self.spotter(
            "watch", self.folder / "job.yaml", "--once", code=None) and self.targets() == [0, 1]))
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_a_launch_that_failed_half_way_is_finished_by_the_next_one(self):
        self.job()
        self.limit_to(THERE, "UseWhatAFleetNeeds")
        said = self.spotter("launch", self.folder / "job.yaml", code=1)
        self.assertIn("CreateFleet", said.stderr)
        self.assertEqual(self.targets(), [None, 0])
        there = self.fleet(self.there)["FleetId"]
        self.assertEqual(self.running(self.there), [])
        self.assertEqual(self.launch_both()[1], there)
        self.assertEqual(self.targets(), [0, 1], "the job is where its fleet was")
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def on_demand_room(self, here, there):
        for zone, count in (("us-west-2a", here), ("us-west-2b", here), ("us-east-2a", there)):
            self.assertEqual(self.served.command(
                "fault", "capacity", f"zone={zone}", f"on-demand={count}").stderr, "")

    def beside(self, ec2):
        mine = {"Key": "spotter:job", "Value": self.name}
        return [{it["Key"]: it["Value"] for it in one["Tags"]} | {"state": one["FleetState"]}
                for one in ec2.describe_fleets()["Fleets"] if mine in one["Tags"]
                and {"Key": "spotter:role", "Value": "on-demand"} in one["Tags"]]

    def test_on_demand_it_asks_in_the_next_region(self):
        self.text = self.text.replace("within: 3h", "within: 61m")
        self.addCleanup(self.on_demand_room, "any", "any")
        self.room(0, 0)
        self.on_demand_room("any", 0)
        self.launch_both()
        self.assertIn("an on-demand instance is asked for", self.watch())
        one, = self.beside(self.there)
        # The instance reads what the watcher does there, where its own fleet rests.
        self.assertRegex(one["spotter:watched"], r"^\S+Z no spot since \S+Z use=on-demand ")
        time.sleep(1.1)
        said = self.watch()
        self.assertRegex(said, rf"no on-demand instance came of fleet-\S+ since \S+: one is asked "
                               rf"for in {HERE}")
        self.assertTrue(served.eventually(lambda: self.running(self.ec2)))
        one, = self.beside(self.there)
        self.assertTrue(one["state"].startswith("deleted"), one)
        self.assertRegex(one["spotter:rests"], r"^lacks \d{4}-")
        self.assertEqual(len(self.beside(self.ec2)), 1)
        time.sleep(1.1)
        self.watch()
        self.assertEqual(len(self.running(self.ec2)), 1, "it stays there")
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_the_jobs_of_each_region_are_listed(self):
        here, there = self.launch_both()
        only = self.spotter("list")
        self.assertIn(here, only.stdout)
        self.assertNotIn(there, only.stdout)
        self.assertIn(f"{self.name} may have fleets in {THERE}, too, which was not asked",
                      only.stderr)
        for ec2 in (self.ec2, self.there):
            self.assertTrue(served.eventually(lambda: self.fleet(ec2)["FleetState"] == "active"))
        for words in (["--job", self.folder / "job.yaml"], ["--region", HERE, "--region", THERE]):
            both = self.spotter("list", *words)
            self.assertEqual(both.stderr, "")
            self.assertRegex(both.stdout, rf"(?m)^  fleet +{here} +active, target 1, in {HERE}$")
            self.assertRegex(both.stdout, rf"(?m)^  fleet +{there} +active, target 0, in {THERE}$")
            self.assertIn(f"asked: {HERE}, {THERE}\n", both.stdout)
        shown = json.loads(self.spotter("list", "--json", "--region", THERE).stdout)
        mine, = (it for it in shown if it["job"] == self.name)
        self.assertEqual([(it["id"], it["region"]) for it in mine["fleets"]], [(there, THERE)])
        self.assertIn("--region", self.spotter("list", "--region", "x" * 40, code=1).stderr)
        self.ec2.delete_fleets(FleetIds=[here], TerminateInstances=True)
        served.eventually(lambda: not self.running(self.ec2))
        only = self.spotter("list").stderr
        self.assertIn(f"{self.name} may have fleets in {THERE}, too", only)
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
        self.target(self.there, there, 1)
        # EC2 changes no fleet that it is still changing.
        said = served.eventually(lambda: re.search(
            f"{there} gets the target 0", self.spotter(
                "watch", self.folder / "job.yaml", "--once", code=None).stdout)
            and self.targets() == [1, 0])
        self.assertTrue(said)
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
        said = self.spotter("stop", self.name).stderr
        self.assertIn(f"{self.name} may have fleets in {THERE}: end all", said)

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

    def test_doctor_warns_of_a_move_that_nobody_finishes(self):
        here, there = self.launch_both()

        def said():
            return self.spotter("doctor", self.folder / "job.yaml", code=None).stdout
        self.assertNotIn("both are paid", said())
        self.target(self.there, there, 1)
        self.assertRegex(said(), rf"(?m)^warn +watcher +{here} and {there} both ask for an "
                                 r"instance: both are paid as long as nobody watches: "
                                 r"`spotter watch job.yaml` has one of them rest")
        self.assertRegex(said(), r"(?m)^warn +watcher +nobody watches ")
        self.watch()
        self.assertNotIn("both are paid", said(), "it is watched again")
        self.assertEqual(self.targets(), [1, 0])
        self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_doctor_looks_at_each_region(self):
        path = self.job()
        said = self.spotter("doctor", path, code=None).stdout
        self.assertRegex(said, r"(?m)^ok +image in us-east-2 ")


if __name__ == "__main__":
    unittest.main()
