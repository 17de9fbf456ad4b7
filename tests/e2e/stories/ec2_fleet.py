"""A whole life in an EC2 Fleet instead of a Spot Fleet."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import life


class Ec2Fleet(life.Life):
    def request_fleet(self, template, zones):
        self.room(*zones)
        answer = self.ec2.call(
            "CreateFleet", Type="maintain",
            TagSpecification=[ec2.specification("fleet", self.fleet_tags())],
            TargetCapacitySpecification={"TotalTargetCapacity": 1, "SpotTargetCapacity": 1,
                                         "DefaultTargetCapacityType": "spot"},
            LaunchTemplateConfigs=[{
                "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                "Overrides": [{"AvailabilityZone": zone} for zone in zones]}])
        return answer.text("fleetId")

    def fleet_is_cancelled(self):
        fleets = self.ec2.call("DescribeFleets", FleetId=[self.fleet]).items("fleetSet")
        return all(one.text("fleetState").startswith("deleted") for one in fleets)

    def test_a_notice_then_another_zone(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 8)
        self.successor(one)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
