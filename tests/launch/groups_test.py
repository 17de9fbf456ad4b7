"""`spotter launch`, `stop` and `list` of an Auto Scaling group."""

import unittest

import launching
import served

setUpModule = launching.setUpModule
GROUP = "  type: auto-scaling-group\n"


class Groups(launching.LaunchTest):
    def test_what_is_printed_is_sent_for_a_group(self):
        for more, share in (("", 0), ("  max_price: 0.75\n", 0), ("  on_demand: always\n", 100)):
            printed = self.assert_printed_is_sent(GROUP + more + "  tags: {project: speech}\n")
            self.assertEqual(list(printed)[-2:], ["CreateAutoScalingGroup", "SuspendProcesses"])
            suspended = [it["ProcessName"] for it in self.group()["SuspendedProcesses"]]
            self.assertEqual(suspended, ["AZRebalance"])
            group = printed["CreateAutoScalingGroup"][1]
            self.assertEqual((group["MinSize"], group["MaxSize"], group["DesiredCapacity"]),
                             (0, 1, 1))
            shares = group["MixedInstancesPolicy"]["InstancesDistribution"]
            self.assertEqual(shares["OnDemandPercentageAboveBaseCapacity"], share)
            hook, = group["LifecycleHookSpecificationList"]
            self.assertEqual((hook["LifecycleHookName"], hook["DefaultResult"]),
                             ("spotter-checkpoint", "CONTINUE"))
            self.name += "-other"

    def group(self):
        name = f"spotter-{self.name}"
        return self.scaling.describe_auto_scaling_groups(
            AutoScalingGroupNames=[name])["AutoScalingGroups"][0]

    def test_a_group_is_changed_and_stays(self):
        name = self.launch(GROUP)
        self.assertEqual(name, f"spotter-{self.name}")
        one = self.one_instance()
        self.assertIn("is at work already", self.spotter("launch", self.job(GROUP)).stderr)
        self.assertEqual(self.launch(GROUP + "  max_price: 0.9\n"), name)
        two = self.one_instance()
        self.assertNotEqual(one, two)
        policy = self.group()["MixedInstancesPolicy"]
        self.assertEqual(policy["InstancesDistribution"]["SpotMaxPrice"], "0.9")
        specification = policy["LaunchTemplate"]["LaunchTemplateSpecification"]
        self.assertEqual(specification["Version"], "2")
        self.assertIn("is at work already",
                      self.spotter("launch", self.job(GROUP + "  max_price: 0.9\n")).stderr)
        self.launch(GROUP)
        self.one_instance()
        distribution = self.group()["MixedInstancesPolicy"]["InstancesDistribution"]
        self.assertEqual(distribution.get("SpotMaxPrice", ""), "")
        fleet = self.launch()
        self.assertEqual(self.active(), [fleet])
        self.assertEqual(self.group()["DesiredCapacity"], 0)
        self.launch(GROUP)
        self.assertEqual((self.active(), self.group()["DesiredCapacity"]), ([], 1))

    def test_a_group_at_zero_gets_its_target_back(self):
        self.launch(GROUP)
        self.one_instance()
        self.scaling.set_desired_capacity(AutoScalingGroupName=f"spotter-{self.name}",
                                          DesiredCapacity=0)
        self.assertTrue(served.eventually(lambda: not self.group()["Instances"]))
        self.launch(GROUP)
        self.assertTrue(self.one_instance())

    def test_a_group_of_somebody_else_is_left_alone(self):
        self.ec2.create_launch_template(LaunchTemplateName="theirs",
                                        LaunchTemplateData={"ImageId": "ami-1"})
        self.scaling.create_auto_scaling_group(
            AutoScalingGroupName=f"spotter-{self.name}", MinSize=0, MaxSize=1,
            LaunchTemplate={"LaunchTemplateName": "theirs"}, AvailabilityZones=["us-west-2a"])
        self.assertIn("it is not this job's", self.refused(GROUP))
        self.assertEqual(self.group()["DesiredCapacity"], 0)

    # Who may

    def test_the_launchers_policy_is_all_that_it_takes(self):
        self.limit(self.job(GROUP), drop="LaunchInstancesByTemplate")
        self.assertRegex(self.refused(GROUP), "CreateAutoScalingGroup.*ec2:RunInstances")
        self.limit(self.job(GROUP))
        for more in (GROUP, GROUP + "  max_price: 0.9\n"):
            self.spotter("launch", self.job(more))
        self.spotter("stop", self.name, "--keep-instances")
        self.spotter("launch", self.job(GROUP))
        self.spotter("stop", self.name, "--wait")
        self.assertEqual(self.listed()[self.name]["instances"], [])

    def test_stop_of_a_group(self):
        name = self.launch(GROUP)
        one = self.one_instance()
        self.spotter("stop", self.name, "--keep-instances")
        self.assertEqual(self.instances(), [one])
        fleet, = self.listed()[self.name]["fleets"]
        self.assertEqual(fleet["state"], "cancelled, its instances run on")
        self.ec2.terminate_instances(InstanceIds=[one])
        self.assertTrue(served.eventually(lambda: not self.group()["Instances"]))
        self.assertEqual(self.launch(GROUP), name)  # and it launches again
        self.one_instance()
        self.spotter("stop", self.name, "--keep-instances")
        self.served.command("fault", "fail-next", "action=UpdateAutoScalingGroup", "count=2",
                            "code=ResourceContention")
        done = self.spotter("stop", self.name, "--wait")
        self.assertIn(f"{name} could not be ended: ResourceContention", done.stderr)
        self.assertEqual((self.instances("running", "shutting-down"),
                          self.group()["DesiredCapacity"]), ([], 0))
        self.assertEqual(len(self.volumes()), 1, "the volume stays")
        # Of a group at capacity 0 nobody sees that it may not launch.
        self.assertEqual(self.launch(GROUP), name)
        self.one_instance()


if __name__ == "__main__":
    unittest.main()
