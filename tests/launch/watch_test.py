"""`spotter watch` against spotter-emulator: what it asks AWS for, with what a launcher may do and
no more, and what it writes down between two looks."""

import datetime
import email.utils
import json
import pathlib
import re
import time
import unittest

import launching
import served
from launching import SPOT_FLEET

setUpModule = launching.setUpModule

AFTER = "  on_demand: after 1s\n"
GROUP = "  type: auto-scaling-group\n"
DEADLINE = ("  on_demand: when-needed\n  work: 1h\n  start: 1s\n"
            "within: 3h\npublish: s3://watched/jobs\n")


class Watch(launching.LaunchTest):
    def setUp(self):
        super().setUp()
        (pathlib.Path(self.served.folder) / "s3/watched").mkdir(parents=True, exist_ok=True)
        self.addCleanup(self.room, "any")
        self.addCleanup(self.spotter, "stop", self.name, "--wait", code=None)

    def room(self, count):
        """So many spot instances fit into each zone."""
        for zone in ("us-west-2a", "us-west-2b", "us-west-2c"):
            self.served.command("fault", "capacity", zone, str(count))

    def watch(self, *words, **options):
        return self.spotter("watch", self.folder / "job.yaml", "--once", *words, **options).stdout

    def launch_limited(self, more=AFTER):
        path = self.job(more)
        self.limit(path)
        return self.launch(more)

    def on_demand_fleets(self):
        role = {"Key": "spotter:role", "Value": "on-demand"}
        return [it for it in self.fleets() if role in it.get("Tags", [])
                and it["State"] in ("submitted", "active", "modifying")]

    def to_on_demand(self, more=AFTER):
        """There is no spot capacity, and the watcher has asked for an on-demand instance."""
        self.room(0)
        own = self.launch_limited(more)
        self.assertIn(": on demand from ", self.watch())
        time.sleep(1.1)
        self.assertIn("an on-demand instance is asked for", self.watch())
        return own

    def lifecycle(self):
        found = self.ec2.describe_instances(Filters=[
            {"Name": "tag:spotter:job", "Values": [self.name]},
            {"Name": "instance-state-name", "Values": ["pending", "running"]}])
        return [it.get("InstanceLifecycle") for one in found["Reservations"]
                for it in one["Instances"]]

    def time_of_aws(self):
        headers = self.ec2.describe_fleets()["ResponseMetadata"]["HTTPHeaders"]
        return email.utils.parsedate_to_datetime(headers["date"])

    def mark(self, fleet):
        return next((tag["Value"] for it in self.fleets() if it["Id"] == fleet
                     for tag in it["Tags"] if tag["Key"] == "spotter:watched"), None)

    def test_what_is_printed_is_what_it_asks_for(self):
        self.room(0)
        said = self.spotter("launch", self.job(AFTER), "--dry-run", api="http://127.0.0.1:9").stdout
        self.assertIn("# By `spotter watch`, for as long as there is no spot capacity:", said)
        service, printed = self.printed(AFTER)["CreateFleet"]  # the last of the two
        self.assertEqual(printed["TargetCapacitySpecification"],
                         {"TotalTargetCapacity": 1, "OnDemandTargetCapacity": 1,
                          "DefaultTargetCapacityType": "on-demand"})
        self.assert_valid(service, "CreateFleet", printed)
        self.launch_limited()
        self.watch()
        time.sleep(1.1)
        before = len(self.fleets())
        self.assertIn("aws ec2 create-fleet", self.watch("--dry-run"))
        self.assertEqual(len(self.fleets()), before, "a dry run makes nothing")
        with launching.Recorder(self.served.api) as recorder:
            self.watch(api=recorder.api)
        sent, = [it for it in recorder.calls if it["Action"] == "CreateFleet"]
        expected = self.serialized(service, "CreateFleet", printed)
        self.assertEqual(expected.keys(), sent.keys())
        for name in expected:
            if expected[name] != sent[name]:
                self.assertRegex(expected[name], "TOKEN|OF-THE")

    def test_an_on_demand_instance_comes_once(self):
        own = self.to_on_demand()
        self.assertTrue(served.eventually(lambda: self.lifecycle() == [None]), "on demand")
        extra, = self.on_demand_fleets()
        tags = {it["Key"]: it["Value"] for it in extra["Tags"]}
        self.assertEqual(tags["spotter:beside"], own)
        self.assertIn(f"on demand, by {extra['Id']}, until there is spot capacity", self.watch())
        self.assertEqual(len(self.on_demand_fleets()), 1)
        # Launched again, the job's own fleet is the one that is kept.
        again = self.spotter("launch", self.folder / "job.yaml")
        self.assertEqual(again.stdout.strip(), own)
        self.assertIn("is at work already", again.stderr)
        self.assertIn(f"comes only while `spotter watch {self.folder / 'job.yaml'}` runs",
                      again.stderr)
        row = self.listed()[self.name]
        self.assertEqual([it["on_demand"] for it in row["instances"]], [True])
        # The on-demand instance does not hide that the job's own fleet lacks one.
        self.assertEqual({it["id"]: "launches_nothing" in it for it in row["fleets"]},
                         {own: True, extra["Id"]: False})
        self.spotter("stop", self.folder / "job.yaml", "--wait")
        self.assertEqual(self.active(), [])
        self.assertIn("the job has no fleet", self.watch())

    def _it_ends_when_a_spot_instance_is_there(self, more):
        own = self.to_on_demand(more)
        extra, = self.on_demand_fleets()
        self.room("any")
        self.assertTrue(served.eventually(lambda: "spot" in self.lifecycle()))
        self.assertTrue(served.eventually(lambda: f"{extra['Id']} is ended" in self.watch()))
        self.assertEqual(self.on_demand_fleets(), [])
        self.assertTrue(served.eventually(lambda: self.lifecycle() == ["spot"]))
        self.assertIn("the job has the spot instance", self.watch())
        return own

    def test_it_ends_when_a_spot_instance_is_there(self):
        own = self._it_ends_when_a_spot_instance_is_there(AFTER)
        self.assertEqual(self.active(), [own])
        self.assertRegex(self.mark(own), r"^\S+Z spot runs since \S+Z i-\w+$")

    def test_beside_a_spot_fleet(self):
        own = self._it_ends_when_a_spot_instance_is_there(AFTER + SPOT_FLEET)
        self.assertEqual(self.active(), [own])
        self.assertRegex(self.mark(own), r"^\S+Z spot runs since \S+Z i-\w+$")

    def test_beside_a_group(self):
        own = self._it_ends_when_a_spot_instance_is_there(AFTER + GROUP)
        group, = self.scaling.describe_auto_scaling_groups(
            AutoScalingGroupNames=[own])["AutoScalingGroups"]
        tags = {it["Key"]: (it["Value"], it["PropagateAtLaunch"]) for it in group["Tags"]}
        self.assertRegex(tags["spotter:watched"][0], r"^\S+Z spot runs since \S+Z i-\w+$")
        self.assertFalse(tags["spotter:watched"][1], "no instance has to show it")
        self.assertEqual(tags["spotter:job"], (self.name, True))

    def test_it_writes_down_what_the_next_look_needs_and_no_more(self):
        self.room(0)
        own = self.launch_limited("  on_demand: after 1h\n")
        self.watch()
        first = self.mark(own)
        self.assertRegex(first, r"^\S+Z no spot since \S+Z$")
        time.sleep(1.1)
        said = self.watch()
        self.assertEqual(self.mark(own), first, "nothing new within five minutes")
        self.assertIn(first.split()[-1], said, "it counts from the first look")

    def _by_the_version_of_its_own_fleet(self, more):
        """A launch that failed after it had made a version of the template leaves the fleet."""
        self.room(0)
        self.launch_limited(more)
        template, = self.ec2.describe_launch_templates(
            LaunchTemplateNames=[f"spotter-{self.name}"])["LaunchTemplates"]
        its = str(template["LatestVersionNumber"])
        self.served.command("policy", "user")
        self.ec2.create_launch_template_version(
            LaunchTemplateId=template["LaunchTemplateId"], SourceVersion=its,
            LaunchTemplateData={"KeyName": "newer"})
        self.watch()
        time.sleep(1.1)
        self.assertIn("asks for it", self.watch())
        config, = self.on_demand_fleets()[0]["LaunchTemplateConfigs"]
        self.assertEqual(config["LaunchTemplateSpecification"]["Version"], its)

    def test_the_on_demand_instance_is_of_the_fleets_version_of_the_template(self):
        self._by_the_version_of_its_own_fleet(AFTER)

    def test_it_is_so_beside_a_spot_fleet_and_a_group(self):
        for more in (SPOT_FLEET, GROUP):
            with self.subTest(more):
                self._by_the_version_of_its_own_fleet(AFTER + more)
                self.spotter("stop", self.folder / "job.yaml", "--wait")

    def test_of_two_that_were_asked_for_at_once_one_stays(self):
        self.to_on_demand()
        extra, = self.on_demand_fleets()
        template, = self.ec2.describe_launch_templates(
            LaunchTemplateNames=[f"spotter-{self.name}"])["LaunchTemplates"]
        self.served.command("policy", "user")
        time.sleep(1.1)  # a fleet's time is of whole seconds, and the later one has to be later
        later = self.ec2.create_fleet(
            Type="maintain", TargetCapacitySpecification={
                "TotalTargetCapacity": 1, "OnDemandTargetCapacity": 1,
                "DefaultTargetCapacityType": "on-demand"},
            LaunchTemplateConfigs=[{"LaunchTemplateSpecification": {
                "LaunchTemplateId": template["LaunchTemplateId"], "Version": "1"}}],
            TagSpecifications=[{"ResourceType": "fleet", "Tags": [
                it for it in extra["Tags"] if it["Key"].startswith("spotter:")]}])["FleetId"]
        self.assertIn(f"{later} is ended", self.watch())
        self.assertEqual([it["Id"] for it in self.on_demand_fleets()], [extra["Id"]])

    def test_for_a_deadline_an_on_demand_instance_comes_at_once(self):
        self.room(0)
        # An hour of work in 80 minutes: after a look of ten minutes more a start would be too late.
        # By the emulator's clock, which is ahead of this machine's, and faster.
        due = self.time_of_aws() + datetime.timedelta(minutes=80)
        own = self.launch_limited(
            DEADLINE.replace("within: 3h", due.strftime("finish_by: %Y-%m-%dT%H:%M:%SZ")))
        said = self.watch()
        self.assertIn("for the deadline an on-demand instance is asked for; 100 % left", said)
        self.assertRegex(said, r"spot in us-west-2[ab] is \d+ % cheaper and lasted 4.0 h on")
        self.assertTrue(served.eventually(lambda: self.lifecycle() == [None]), "on demand")
        self.assertRegex(self.mark(own), r"^\S+Z no spot since \S+Z use=on-demand trouble=none "
                                         r"left=1.00/1.000 latest=\S+Z ")
        self.assertIn("100 % left", str(self.listed()[self.name]))
        shown = self.spotter("status", "--job", self.folder / "job.yaml", code=None).stdout
        self.assertRegex(shown, r"(?m)^deadline +by \S+Z; 100 % left")

    def test_a_time_within_counts_from_the_first_launch(self):
        own = self.launch_limited(DEADLINE)

        def due():
            self.watch()
            shown = self.spotter("status", "--job", self.folder / "job.yaml", code=None).stdout
            return re.search(r"(?m)^deadline +by (\S+Z); 100 % left", shown)[1]
        made = next(it["CreateTime"] for it in self.fleets() if it["Id"] == own)
        first = due()
        self.assertEqual(first, (made + datetime.timedelta(hours=3)).strftime("%Y-%m-%dT%H:%M:%SZ"))
        time.sleep(1.1)  # a fleet's time is of whole seconds
        changed = DEADLINE + "limits: {hours: 100}\n"
        self.assertNotEqual(self.launch(changed), own)
        self.assertEqual(due(), first, "and not from the second")

    def test_a_time_within_outlives_the_fleet_of_the_first_launch(self):
        """EC2 shows a fleet for two days after its end: the next one has its time as a tag."""
        own = self.launch_limited(DEADLINE)
        made = next(it["CreateTime"] for it in self.fleets() if it["Id"] == own)
        self.assertNotIn("spotter:first-launch", self.tags(own))
        second = self.launch(DEADLINE + "limits: {hours: 100}\n")
        self.assertEqual(self.tags(second)["spotter:first-launch"],
                         made.strftime("%Y-%m-%dT%H:%M:%SZ"))
        # As if the first one were forgotten, and older than all that is shown.
        first = (made - datetime.timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.served.command("policy", "user")
        self.ec2.create_tags(Resources=[second],
                             Tags=[{"Key": "spotter:first-launch", "Value": first}])
        third = self.launch(DEADLINE + "limits: {hours: 200}\n")
        self.assertEqual(self.tags(third)["spotter:first-launch"], first)
        self.watch()
        shown = self.spotter("status", "--job", self.folder / "job.yaml", code=None).stdout
        due = (made + datetime.timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M:%SZ")
        self.assertRegex(shown, rf"(?m)^deadline +by {due}; 100 % left")

    def tags(self, fleet):
        return {tag["Key"]: tag["Value"] for it in self.fleets() if it["Id"] == fleet
                for tag in it["Tags"]}

    def test_the_time_is_that_of_aws(self):
        """Whose clock is twenty times faster here, and has been for as long as this takes."""
        own = self.launch_limited("  on_demand: after 1h\n")
        before = self.time_of_aws() - datetime.timedelta(seconds=6)  # so much is the network's
        printed, written = self.watch().split()[0], self.mark(own).split()[0]
        after = self.time_of_aws()
        for said in (printed, written):
            looked = datetime.datetime.fromisoformat(said.replace("Z", "+00:00"))
            self.assertLessEqual(before, looked)
            self.assertLessEqual(looked, after)

    def test_a_deadline_that_is_past_is_refused(self):
        past = "finish_by: 2020-01-01T00:00Z\n"
        self.assertIn("the job was to finish by 2020-01-01T00:00:00Z, which is past",
                      self.refused(past, code=2))

    def test_the_plan_says_before_what_it_costs(self):
        job = self.job(DEADLINE)
        words = ("plan", job, "--on-demand", "1", "--spot", "0.3")
        said = json.loads(self.spotter(*words, "--json", api="http://127.0.0.1:9").stdout)
        its, = said["regions"]
        self.assertAlmostEqual(its["dollars_on_demand"],
                               said["hours_of_work"] + said["hours_of_a_start"])
        self.assertLess(its["dollars_expected"], its["dollars_on_demand"])
        self.assertGreater(its["dollars_expected"], 0.3 * said["hours_of_work"])
        self.assertLess(its["on_demand_from"], said["finish_by"])
        text = self.spotter(*words, api="http://127.0.0.1:9").stdout
        self.assertRegex(text, r"\$1\.0\d on demand alone, \$0\.\d\d as `spotter watch` decides; "
                         r"on demand from 20\S+Z at the latest")
        self.assertIn("it lasts 4 h and is gone for 3 h at a time", text)
        self.assertIn("too few for 1.0 h", self.spotter(
            "plan", self.job(DEADLINE.replace("3h", "30m")), code=2).stderr)
        self.assertIn("has no deadline", self.spotter("plan", self.job(AFTER), code=2).stderr)

    def test_doctor_misses_the_watcher(self):
        self.room(0)
        own = self.launch_limited("  on_demand: after 1h\n")

        def said():
            return self.spotter("doctor", self.folder / "job.yaml", code=None).stdout
        self.assertRegex(said(), rf"(?m)^warn  watcher +nobody watches {own}: no on-demand")
        self.watch()
        self.assertRegex(said(), rf"(?m)^ok +watcher +{own} was watched at ")

    def test_without_the_permission_it_says_which(self):
        self.room(0)
        path = self.job(AFTER)
        self.launch(AFTER)
        self.limit(path, drop="MarkTheFleetAsWatched")
        done = self.spotter("watch", path, "--once", code=1)
        self.assertRegex(done.stderr, "ec2:CreateTags")

    def test_what_is_no_job_for_it(self):
        self.assertIn("--interval 1h: a duration of 1s to 10m",
                      self.spotter("watch", self.job(AFTER), "--interval", "1h", code=2).stderr)
        self.launch()
        self.assertIn("job.yaml asks for no on-demand instance", self.watch())
        self.assertFalse(re.search("watch", self.spotter("launch", self.job()).stderr))


if __name__ == "__main__":
    unittest.main()
