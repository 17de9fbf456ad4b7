"""`spotter launch`, `stop` and `list` against spotter-emulator, and against botocore: what is
printed is what `aws` would take, and what is sent is what botocore would send."""

import base64
import concurrent.futures
import datetime
import gzip
import os
import pathlib
import random
import subprocess
import unittest

import launching
import served
from launching import GANG, JOB, SPOT_FLEET, SPOTTER

setUpModule = launching.setUpModule


class Launch(launching.LaunchTest):
    def test_the_root_volume_is_as_large_as_wanted_and_never_smaller_than_the_images(self):
        printed = self.assert_printed_is_sent("  disk: {size: 200, throughput: 500}\n")
        disk, = printed["CreateLaunchTemplate"][1]["LaunchTemplateData"]["BlockDeviceMappings"]
        self.assertEqual(disk["Ebs"], {"VolumeSize": 200, "VolumeType": "gp3",
                                       "DeleteOnTermination": True, "Throughput": 500})
        self.spotter("stop", self.name)
        self.launch("  disk: {size: 1}\n")
        version = self.ec2.describe_launch_template_versions(
            LaunchTemplateName=f"spotter-{self.name}", Versions=["$Latest"])
        disk, = version["LaunchTemplateVersions"][0]["LaunchTemplateData"]["BlockDeviceMappings"]
        self.assertEqual((disk["DeviceName"], disk["Ebs"]["VolumeSize"]), ("/dev/xvda", 8))

    def security_group(self, name):
        made = self.ec2.create_security_group(GroupName=name, Description=name)["GroupId"]
        self.addCleanup(self.ec2.delete_security_group, GroupId=made)
        return made

    def test_what_is_printed_is_sent_for_a_fleet(self):
        groups = self.security_group("near"), self.security_group("far")
        printed = self.assert_printed_is_sent(
            f"  max_price: 0.75\n  key: mine\n  security_groups: [{', '.join(groups)}]\n"
            "  tags: {project: speech}\n")
        self.assertEqual(list(printed), ["CreateVolume", "CreateLaunchTemplate", "CreateFleet"])
        data = printed["CreateLaunchTemplate"][1]["LaunchTemplateData"]
        self.assertEqual(data["MetadataOptions"]["HttpTokens"], "required")
        self.assertEqual(data["MetadataOptions"]["InstanceMetadataTags"], "enabled")
        self.assertEqual(data["MetadataOptions"]["HttpPutResponseHopLimit"], 1,
                         "a container of the trainer's would have the instance's role")
        overrides = printed["CreateFleet"][1]["LaunchTemplateConfigs"][0]["Overrides"]
        self.assertEqual([(it["InstanceType"], it["AvailabilityZone"]) for it in overrides],
                         [(kind, zone) for kind in ("g5.xlarge", "g4dn.xlarge")
                          for zone in ("us-west-2a", "us-west-2b")])
        self.assertEqual({it["MaxPrice"] for it in overrides}, {"0.75"})

    def test_a_fleet_ends_by_itself_with_its_machines(self):
        """Whatever becomes of its agents: three times limits.hours, 30 days without."""
        def days(text, operation="CreateFleet", of=lambda it: it):
            fleet = of(self.printed(text=text)[operation][1])
            self.assertTrue(fleet["TerminateInstancesWithExpiration"])
            until = datetime.datetime.fromisoformat(fleet["ValidUntil"].replace("Z", "+00:00"))
            return (until - datetime.datetime.now(datetime.timezone.utc)).total_seconds() / 86400
        for text, least in ((JOB, 30), ("limits: {{hours: 72}}\n" + JOB, 9),
                            ("limits: {{hours: 1}}\n" + JOB, 7)):
            self.assertTrue(least <= days(text) <= least + 1, text)
        self.assertTrue(30 <= days(JOB + SPOT_FLEET, "RequestSpotFleet",
                                   lambda it: it["SpotFleetRequestConfig"]) <= 31)
        done = self.spotter("launch", self.job())
        until = self.fleets()[0]["ValidUntil"].strftime("%Y-%m-%dT%H:%M:%SZ")
        self.assertIn(f"{done.stdout.strip()} ends by itself, with its machines, at {until}",
                      done.stderr)
        self.assertIn(f"ends by itself, with its machines, at {until}, as before",
                      self.spotter("launch", self.job()).stderr)
        self.assertIn(f", ends at {until}", self.spotter("status", "--job", self.job()).stdout)

    def test_again_begins_from_scratch_after_a_question(self):
        job = self.job()
        first = self.spotter("launch", job).stdout.strip()
        old = {it["VolumeId"] for it in self.volumes()}
        refused = self.spotter("launch", job, "--again", code=2)
        self.assertIn("nothing was deleted", refused.stderr)
        self.assertEqual(self.active(), [first])
        second = self.spotter("launch", job, "--again", "--yes").stdout.splitlines()[-1]
        self.assertEqual(self.active(), [second])
        self.assertNotEqual(second, first)
        new = {it["VolumeId"] for it in self.volumes()}
        self.assertTrue(old and new)
        self.assertFalse(old & new)

    def test_a_machine_that_fails_is_held_if_the_launch_says_so(self):
        done = self.spotter("launch", self.job(), "--hold-failed")
        self.assertIn("a machine that fails stays 24 h for a look at it, and costs", done.stderr)
        version = self.ec2.describe_launch_template_versions(
            LaunchTemplateName=f"spotter-{self.name}", Versions=["$Latest"])
        data = version["LaunchTemplateVersions"][0]["LaunchTemplateData"]
        script = gzip.decompress(base64.b64decode(data["UserData"])).decode()
        self.assertIn("\non_failure: {then: hold}\n", script)
        self.assertIn("failing='end-fleet'", script)
        self.assertIn("hold='1440'", script)
        text = self.refused(text="on_failure: {{blocked: 2h}}\n" + JOB, options=["--hold-failed"],
                            code=2)
        self.assertIn("has an `on_failure:` of its own: say `then: hold` there", text)

    def test_a_shell_is_a_session_on_the_machine_launched_last(self):
        job = self.job()
        nothing = self.spotter("shell", job, code=1).stderr
        self.assertIn("no machine of", nothing)
        self.launch()
        instance = self.one_instance()
        missing = self.spotter("shell", job, code=1).stderr
        self.assertIn("is not installed", missing)
        programs = self.folder / "programs"
        programs.mkdir()
        for name in ("aws", "session-manager-plugin"):
            (programs / name).write_text('#!/bin/sh\necho "$@"\n')
            (programs / name).chmod(0o755)
        path = os.environ["PATH"]
        os.environ["PATH"] = f"{programs}:{path}"
        self.addCleanup(os.environ.__setitem__, "PATH", path)
        expected = f"ssm start-session --region {served.REGION} --target {instance}\n"
        for whose in (job, self.name):
            done = self.spotter("shell", whose)
            self.assertEqual(done.stdout, expected)
        self.assertIn("is no running machine of",
                      self.spotter("shell", job, "--instance", "i-0", code=1).stderr)

    def test_containers_reach_the_metadata_service_only_where_the_trainer_may(self):
        text = JOB.replace("./train.sh", "./train.sh, imds: allow")
        data = self.printed(text=text)["CreateLaunchTemplate"][1]["LaunchTemplateData"]
        self.assertEqual(data["MetadataOptions"]["HttpPutResponseHopLimit"], 2)

    def test_what_is_printed_is_sent_for_a_spot_fleet(self):
        printed = self.assert_printed_is_sent(
            SPOT_FLEET + "  allocation: lowestPrice\n  max_price: 0.75\n")
        config = printed["RequestSpotFleet"][1]["SpotFleetRequestConfig"]
        self.assertEqual(config["AllocationStrategy"], "lowestPrice")
        self.assertEqual(config["LaunchTemplateConfigs"][0]["Overrides"][0]["SpotPrice"], "0.75")

    def of_a_gang(self, more):
        """What `aws` would take for its fleet."""
        self.text = GANG
        printed = self.printed(more)
        for operation, (service, value) in printed.items():
            self.assert_valid(service, operation, value)
        return list(printed.values())[-1][1]

    def test_a_gang_is_one_fleet_in_the_first_zone_where_that_can_be_had(self):
        for more, allocation in (("", "capacity-optimized-prioritized"),
                                 (SPOT_FLEET, "capacityOptimizedPrioritized")):
            fleet = self.of_a_gang(more)
            fleet = fleet.get("SpotFleetRequestConfig", fleet)
            capacity = fleet.get("TargetCapacitySpecification", {}).get("TotalTargetCapacity")
            self.assertEqual(capacity or fleet["TargetCapacity"], 3)
            self.assertEqual(fleet.get("SpotOptions", fleet)["AllocationStrategy"], allocation)
            self.assertEqual([(it["AvailabilityZone"], it["Priority"])
                              for it in fleet["LaunchTemplateConfigs"][0]["Overrides"]],
                             [("us-west-2a", 0), ("us-west-2b", 1)] * 2)

    def test_a_gang_always_on_demand_prefers_a_zone_too(self):
        fleet = self.of_a_gang("  on_demand: always\n")
        self.assertEqual(fleet["OnDemandOptions"], {"AllocationStrategy": "prioritized"})
        self.assertEqual(fleet["TargetCapacitySpecification"]["OnDemandTargetCapacity"], 3)

    def test_what_is_printed_is_sent_always_on_demand(self):
        printed = self.assert_printed_is_sent("  on_demand: always\n")
        self.assertEqual(printed["CreateFleet"][1]["TargetCapacitySpecification"],
                         {"TotalTargetCapacity": 1, "OnDemandTargetCapacity": 1,
                          "DefaultTargetCapacityType": "on-demand"})
        self.assert_on_demand()

    def test_what_is_printed_is_sent_for_a_spot_fleet_on_demand(self):
        printed = self.assert_printed_is_sent("  on_demand: always\n" + SPOT_FLEET)
        config = printed["RequestSpotFleet"][1]["SpotFleetRequestConfig"]
        self.assertEqual((config["TargetCapacity"], config["OnDemandTargetCapacity"]), (1, 1))
        self.assert_on_demand()

    def assert_on_demand(self):
        found = self.ec2.describe_instances(InstanceIds=[self.one_instance()])["Reservations"]
        self.assertNotIn("InstanceLifecycle", found[0]["Instances"][0])

    # Launching

    def test_makes_what_it_takes(self):
        fleet = self.launch()
        self.assertEqual(self.active(), [fleet])
        volume, = self.volumes()
        tags = {it["Key"]: it["Value"] for it in volume["Tags"]}
        self.assertEqual(tags, {"Name": self.name, "spotter:job": self.name,
                                "spotter:role": "state", "spotter:format": "blank",
                                "spotter:storage": f"Name={self.name}"})
        self.assertEqual((volume["AvailabilityZone"], volume["Size"], volume["Iops"]),
                         ("us-west-2a", 8, 4000))
        instance = self.one_instance()
        script = pathlib.Path(self.served.folder) / "instances" / instance / "user-data"
        self.assertIn((self.folder / "job.yaml").read_text(), script.read_text())
        row = self.listed()[self.name]
        self.assertEqual([it["id"] for it in row["fleets"]], [fleet])
        self.assertEqual([it["id"] for it in row["instances"]], [instance])
        self.assertEqual(row["volumes"][0]["zone"], "us-west-2a")
        self.assertIn(f"  instance  {instance}", self.spotter("list").stdout)

    def test_again_changes_nothing(self):
        fleet = self.launch()
        again = self.spotter("launch", self.folder / "job.yaml")
        self.assertEqual(again.stdout.strip(), fleet)
        self.assertIn("is at work already", again.stderr)
        self.assertEqual((self.active(), len(self.volumes())), ([fleet], 1))

    def test_a_changed_price_type_or_kind_replaces_the_fleet(self):
        fleets = [self.launch()]
        changes = ("  max_price: 0.9\n", "  allocation: diversified\n", SPOT_FLEET)
        for more in changes:
            instance = self.one_instance()
            fleets.append(self.launch(more))
            self.assertEqual(self.active(), fleets[-1:])
            self.assertNotIn(instance, self.instances("running", "pending", "shutting-down"))
        self.assertEqual(len(set(fleets)), 4)
        self.assertEqual(len(self.volumes()), 1)
        template, = self.ec2.describe_launch_templates(
            LaunchTemplateNames=[f"spotter-{self.name}"])["LaunchTemplates"]
        self.assertEqual(template["LatestVersionNumber"], 4)

    def test_a_fleet_at_zero_gets_its_target_back(self):
        for more, modify in (
                ("", lambda fleet: self.ec2.modify_fleet(
                    FleetId=fleet, TargetCapacitySpecification={"TotalTargetCapacity": 0})),
                ("  on_demand: always\n", lambda fleet: self.ec2.modify_fleet(
                    FleetId=fleet, TargetCapacitySpecification={
                        "TotalTargetCapacity": 0, "OnDemandTargetCapacity": 0})),
                (SPOT_FLEET, lambda fleet: self.ec2.modify_spot_fleet_request(
                    SpotFleetRequestId=fleet, TargetCapacity=0))):
            fleet = self.launch(more)
            served.eventually(lambda: self.one_instance())
            modify(fleet)
            self.assertTrue(served.eventually(lambda: not self.instances()))
            self.assertEqual(self.launch(more), fleet)
            self.assertTrue(self.one_instance())

    def test_of_two_at_once_one_makes_the_fleet(self):
        job = self.job()
        environment = {**os.environ, **self.served.environment, "AWS_REGION": served.REGION,
                       "AWS_ENDPOINT_URL": self.served.api}

        def run(_):
            return subprocess.run([SPOTTER, "launch", job], env=environment, text=True,
                                  capture_output=True, timeout=200, check=False)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            done = list(pool.map(run, range(4)))
        self.assertLessEqual(len(self.active()), 1, [it.stderr for it in done])
        self.assertEqual(len(self.volumes()), 1)
        self.assertTrue(self.launch())
        self.assertEqual(len(self.active()), 1)

    def test_files_beside_the_job_come_along(self):
        (self.folder / "list.yml").write_text("- {lr: 0.1}\n- {lr: 0.2}\n")
        (pathlib.Path(self.served.folder) / "s3/bucket").mkdir(parents=True, exist_ok=True)
        text = JOB.replace("ebs: {{tag: {{Name: {name}}}}}", "folder: {{path: /data}}").replace(
            "  volume: {{size: 8, iops: 4000, throughput: 200}}\n", "")
        path = self.job("  capacity: 2\nsweep: {parameters: ./list.yml}\n"
                        "claims: {at: s3://bucket/claims}\n", text)
        self.spotter("launch", path)
        self.assertTrue(served.eventually(lambda: len(self.instances("running")) == 2))
        script = (pathlib.Path(self.served.folder) / "instances" / self.instances("running")[0]
                  / "user-data").read_text()
        self.assertIn("write 'list.yml'", script)
        self.assertIn("- {lr: 0.2}\n", script)

    # What would not start is not launched

    def test_a_quota_of_nothing(self):
        fleet = self.launch()
        instance = self.one_instance()
        self.quota("L-3819A6DF", 0)
        said = self.refused("  max_price: 0.9\n")
        self.assertRegex(said, r"(?m)^fail  quota .*G and VT .* is 0 vCPUs in us-west-2, too few "
                               r"for g4dn.xlarge, g5.xlarge: .*--desired-value 4$")
        self.assertIn("what runs goes on", said)
        self.assertEqual((self.active(), self.instances()), ([fleet], [instance]))
        more = "  max_price: 0.9\n"
        other = self.spotter("launch", self.job(more), "--skip-checks").stdout.strip()
        self.assertEqual(self.active(), [other])

    def test_a_quota_that_one_of_the_types_fits(self):
        self.quota("L-7212CCBC", 8)
        self.quota("L-C4BD4855", 8)
        text = JOB.replace("g5.xlarge, g4dn.xlarge", "p3.2xlarge, p5.48xlarge")
        done = self.spotter("launch", self.job(text=text))
        self.assertRegex(done.stderr, "(?m)^warn  quota .*P5 .*too few for p5.48xlarge: ")
        self.assertEqual(self.active(), [done.stdout.strip()])

    def test_what_its_machines_cannot_do_is_refused_before_anything_is_made(self):
        types = "g5.xlarge, g4dn.xlarge"
        eight = JOB.replace("train.sh}}", "train.sh, gpus: 8}}")
        arm = JOB.replace("resolve:ssm:/aws/service/debian/12", "ami-0a640000000000000")
        image = JOB.replace("resolve:ssm:/aws/service/debian/12", "ami-{image}")
        for text, said in (
                (eight, "gpus .*is 8, and g4dn.xlarge has 1, g5.xlarge has 1: name .*8 GPUs"),
                (eight.replace(types, "g5.xlarge, p4d.24xlarge"),
                 "gpus .*g5.xlarge has 1: remove g5.xlarge from launch.instance_types"),
                (arm, "architecture .*is of arm64, and g4dn.xlarge is of x86_64, g5.xlarge"),
                (JOB.replace("profile:", "package: {{s3: 's3://packages/s_arm64.deb', sha256: "
                             + "0" * 64 + "}}\n  profile:"),
                 "architecture .*launch.package is of arm64"),
                (image.replace("{image}", "0f000000000000000"), "image .*pending: launch when"),
                (image.replace("{image}", "0d150000000000000"), "image .*disabled: name another"),
                (image.replace("{image}", "0dead"), "image .*sees no image ami-0dead")):
            with self.subTest(said):
                self.assertRegex(self.refused(text=text, code=2), f"(?m)^fail  {said}")
        self.assertEqual((self.fleets(), self.volumes()), ([], []))
        self.assertEqual(self.ec2.describe_launch_templates(Filters=[
            {"Name": "launch-template-name", "Values": [f"spotter-{self.name}"]}
        ])["LaunchTemplates"], [])
        self.assertIn("architecture", self.spotter("doctor", self.job(text=arm), code=2).stdout)

    def test_a_zone_is_named_by_its_id_too_but_not_twice(self):
        both = JOB.replace("us-west-2b", "usw2-az1")
        self.assertIn("launch.zones: us-west-2a is there twice, once by its id",
                      self.refused(text=both))
        self.assertEqual((self.fleets(), self.volumes()), ([], []))
        self.spotter("launch", self.job(text=JOB.replace("us-west-2a, us-west-2b", "usw2-az2")))
        self.assertEqual([it["AvailabilityZone"] for it in self.volumes()], ["us-west-2b"])

    def test_what_may_not_be_looked_at_is_said_and_stops_nothing(self):
        for action in ("DescribeInstanceTypes", "DescribeImages"):
            self.fault("deny", f"action={action}")
        done = self.spotter("launch", self.job(text=JOB.replace("train.sh}}",
                                                                "train.sh, gpus: 8}}")))
        self.assertRegex(done.stderr, "(?m)^warn  gpus .*whether the instance types fit .* is open")
        self.assertRegex(done.stderr, "(?m)^warn  image .* is open; give who launches")
        self.assertEqual(self.active(), [done.stdout.strip()])

    def test_a_deprecated_image_is_a_warning(self):
        done = self.spotter("launch", self.job(text=JOB.replace(
            "resolve:ssm:/aws/service/debian/12", "ami-0d000000000000000")))
        self.assertRegex(done.stderr, "(?m)^warn  image .*is deprecated since .*: name a newer one")
        self.assertEqual(self.active(), [done.stdout.strip()])

    def test_what_ec2_would_refuse_leaves_the_old_fleet(self):
        fleet = self.launch()
        instance = self.one_instance()
        self.fault("deny", "action=CreateFleet")
        said = self.refused("  max_price: 0.9\n")
        self.assertRegex(said, "(?m)^fail  permissions  CreateFleet: .*`spotter iam launcher`")
        self.assertEqual((self.active(), self.instances()), ([fleet], [instance]))
        self.served.command("fault", "deny", "action=CreateFleet", "on=false")
        self.fault("deny", "action=RunInstances")  # which is for EC2's own role to be allowed
        done = self.spotter("launch", self.job("  max_price: 0.9\n"))
        self.assertRegex(done.stderr, "(?m)^warn  permissions  RunInstances: ")
        self.assertEqual(self.active(), [done.stdout.strip()])

    def test_the_doctor_reads_launch(self):
        self.quota("L-3819A6DF", 3)
        path = self.job(text=JOB.replace("us-west-2b", "us-west-2z"))
        done = self.spotter("doctor", path, code=2)
        for line in ("fail  zones .*us-west-2z", "ok    volume .*one will be made",
                     "fail  quota .*is 3 vCPUs",
                     "ok    permissions +allowed: CreateLaunchTemplate, CreateVolume"):
            self.assertRegex(done.stdout, f"(?m)^{line}")

    # Who may

    def test_the_launchers_policy_is_enough_for_a_fleet_in_named_subnets(self):
        """CreateFleet is judged on each subnet, image, security group and key, too."""
        subnet = self.ec2.describe_subnets()["Subnets"][0]["SubnetId"]
        group = self.security_group("mine")
        text = JOB.replace("zones: [us-west-2a, us-west-2b]",
                           f"subnets: [{subnet}]\n  security_groups: [{group}]\n  key: mine"
                           ).replace("launch:", "launch:\n  tags: {{project: speech}}")
        text = text.replace("throughput: 200", "throughput: 200, zone: us-west-2a")
        for more, lacking in (("", "CreateFleet"), (SPOT_FLEET, "RequestSpotFleet")):
            self.limit(self.job(more, text), drop="UseWhatAFleetNeeds")
            self.assertRegex(self.refused(more, text),
                             f"{lacking}: needs ec2:{lacking} on image/.*UseWhatAFleetNeeds")
            self.limit(self.job(more, text))
            done = self.spotter("launch", self.job(more, text))
            self.assertEqual(self.active(), [done.stdout.strip()])
            self.assertNotIn("permissions", done.stderr)
            self.spotter("stop", self.name, "--wait")

    # Stopping

    def test_stop_ends_fleets_and_instances(self):
        for more in ("", SPOT_FLEET):
            self.launch(more)
            self.one_instance()
            self.spotter("stop", self.name, "--wait")
            self.assertEqual((self.active(), self.instances("running", "shutting-down")), ([], []))
        self.assertEqual(len(self.volumes()), 1, "the volume stays")
        self.spotter("stop", self.folder / "job.yaml")

    def test_stop_can_keep_the_instances_and_a_launch_takes_over(self):
        fleet = self.launch()
        instance = self.one_instance()
        self.spotter("stop", self.name, "--keep-instances")
        self.assertEqual((self.active(), self.instances()), ([], [instance]))
        self.assertNotEqual(self.launch(), fleet)
        self.assertNotIn(instance, self.instances())
        self.one_instance()
        self.spotter("stop", self.name, "--keep-instances")
        self.assertNotIn("nothing", self.spotter("stop", self.name, "--wait").stderr)
        self.assertEqual(self.instances(), [])
        self.assertIn(f"nothing of {self.name} runs in", self.spotter("stop", self.name).stderr)

    def test_a_refused_cancellation_is_reported_and_tried_again(self):
        for more in ("", SPOT_FLEET):
            fleet = self.launch(more)
            self.served.command("fault", "cancel-fails", "count=2")
            done = self.spotter("stop", self.name)
            self.assertIn(f"{fleet} could not be ended: unexpectedError", done.stderr)
            self.assertIn("tried again", done.stderr)
            self.assertEqual(self.active(), [])

    def test_a_cancellation_that_always_fails_is_an_error(self):
        fleet = self.launch()
        self.served.command("fault", "cancel-fails", "count=100")
        self.addCleanup(self.served.command, "fault", "clear")
        done = self.spotter("stop", self.name, code=1)
        self.assertIn(f"{fleet} goes on and costs money", done.stderr)

    # What is wrong is said

    def test_wrong_jobs(self):
        self.assertIn("has no `launch:`", self.refused(text=JOB.split("launch:")[0], code=2))
        self.assertIn("user data would have", self.refused(
            "# " + random.Random(1).randbytes(10000).hex() + "\n", code=2))
        (self.folder / "lists").mkdir()
        (self.folder / "lists/one.yml").write_text("- {lr: 0.1}\n")
        self.assertIn("would not be on the instances", self.refused(
            "sweep: {parameters: lists/one.yml}\n", code=2))
        self.assertEqual(self.fleets(), [])

    def test_no_volume_and_none_to_be_made(self):
        text = JOB.replace("  volume: {{size: 8, iops: 4000, throughput: 200}}\n", "")
        self.assertIn("no volume has the tag", self.refused(text=text))
        self.assertEqual(self.fleets(), [])

    def test_a_job_that_is_done(self):
        self.launch()
        self.spotter("stop", self.name, "--wait")
        volume = self.volumes()[0]["VolumeId"]
        self.ec2.create_tags(Resources=[volume], Tags=[{"Key": "spotter:done", "Value": "true"}])
        self.assertIn("is done already", self.refused())
        self.assertEqual(self.active(), [])

    def test_an_image_that_is_not_there(self):
        text = JOB.replace("/aws/service/debian/12", "/mine/none")
        self.assertIn("ParameterNotFound", self.refused(text=text))
        self.assertEqual(self.fleets(), [])

    def test_a_missing_permission_is_named(self):
        self.served.command("fault", "deny", "action=CreateFleet", "on=true")
        self.addCleanup(self.served.command, "fault", "clear")
        self.assertIn("CreateFleet: ", self.refused())


if __name__ == "__main__":
    unittest.main()
