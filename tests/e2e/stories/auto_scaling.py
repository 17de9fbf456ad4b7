"""A job in an Auto Scaling group: launched, interrupted, scaled in by somebody, stopped, and at the
end at capacity 0. The group's hook holds an instance that goes until its agent released all."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import launch
from emulator import wait


class AutoScaling(launch.Launch):
    kind = "auto-scaling-group"

    def setUp(self):
        super().setUp()
        # Who is taken out before its group's tag is shown completes no hook: late_fleet.py has late
        # tags, and here a hook waits for nobody, whatever the seed.
        self.fault("fleet-tags-late", most="0s")

    def fleet_is_cancelled(self):
        return self.ec2.group(self.fleet).text("DesiredCapacity") == "0"

    def wait_end(self):
        wait("the group to be at 0", self.fleet_is_cancelled)
        wait("the group to be empty",
             lambda: self.ec2.group(self.fleet).members("Instances") == [])
        super().wait_end()

    def scale_in(self, instance):
        self.ec2.call("TerminateInstanceInAutoScalingGroup", "autoscaling", InstanceId=instance,
                      ShouldDecrementDesiredCapacity=False)

    def events(self, kind):
        return [one["subject"] for one in self.world.state()["events"] if one["kind"] == kind]

    def assert_nobody_was_waited_for(self, *completed):
        self.assertEqual(self.events("lifecycle-completed"), list(completed))
        self.assertEqual(self.events("lifecycle-timed-out"), [])

    def test_interrupted_it_goes_on_and_ends_at_capacity_0(self):
        one = self.go(self.world.zones)
        self.wait_training(one, 5)
        row = self.listed()[self.job_name]
        self.assertEqual([(it["type"], it["state"], it["target"]) for it in row["fleets"]],
                         [("auto-scaling-group", "active", 1)])
        self.world.interrupt(one, 8)
        two = self.successor(one)
        self.wait_end()
        self.assert_nobody_was_waited_for(two)
        row = self.listed()[self.job_name]
        self.assertEqual((row["instances"], [it["target"] for it in row["fleets"]]), ([], [0]))
        self.assertEqual([it["role"] for it in row["volumes"]], ["done"])
        self.assert_ended_well()

    def test_an_instance_without_its_package_takes_the_group_to_0(self):
        one = self.go(self.world.zones, package=self.offer_another())
        self.wait_console(one, "could not be fetched; the fleet's target is 0 now")
        self.assertEqual(self.target(), 0)

    def test_taken_out_by_its_group_it_checkpoints_and_lets_the_hook_go(self):
        self.steps = 300
        one = self.go(self.world.zones[:1])
        self.wait_training(one, 5)
        self.scale_in(one)
        self.wait_console(one, "Auto Scaling group takes it out")
        two = self.successor(one)
        self.wait_training(two, 5)
        self.assert_nobody_was_waited_for(one)
        self.assert_ended_well()

    def test_a_stopped_group_is_changed_and_goes_on(self):
        self.steps = 300
        one = self.go(self.world.zones[:1])
        self.wait_training(one, 5)
        self.spotter("stop", self.job_name, "--wait")
        self.assertTrue(self.fleet_is_cancelled())
        self.assert_nobody_was_waited_for(one)
        group = self.fleet
        two = self.go(self.world.zones[:1], besides=[one], instance_types=["g4dn.xlarge"],
                      max_price=0.9)
        self.assertEqual(self.fleet, group)
        self.wait_more_steps(two)
        self.assertEqual(self.listed()[self.job_name]["instances"][0]["type"], "g4dn.xlarge")
        self.assert_ended_well()


if __name__ == "__main__":
    launch.life.harness.main()
