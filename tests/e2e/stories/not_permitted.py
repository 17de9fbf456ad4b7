"""The role lacks one permission: the journal names it, and work goes on when it is there."""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import life


class NotPermitted(life.Life):
    def deny(self, action, on):
        self.fault("deny", action=action, on=str(on).lower())

    def _lacks(self, instance, action):
        self.wait_stage(instance, "blocked")
        self.wait_console(instance, f"blocked: .*permission.*{action}")
        self.assert_fleet_untouched()
        self.deny(action, False)

    def test_attach(self):
        self.deny("AttachVolume", True)
        self._lacks(self.begin(), "AttachVolume")
        self.assert_ended_well()

    def test_snapshot_in_the_move(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.deny("CreateSnapshot", True)
        self.world.interrupt(one, 10)
        self._lacks(self.successor(one), "CreateSnapshot")
        self.assert_ended_well()

    def test_a_statement_that_is_missing_is_named(self):
        one = self.begin()
        self.wait_training(one, 5)
        whole = (self.world.workplace / "policies-1" /
                 f"{ec2.ROLE}.spotter-{self.job_name}.json")
        lacking = self.world.workplace / "lacking.json"
        document = json.loads(whole.read_text())
        document["Statement"] = [each for each in document["Statement"]
                                 if each["Sid"] != "MakeSnapshots"]
        lacking.write_text(json.dumps(document))
        self.world.control("policy", "instance", lacking)
        self.world.interrupt(one, 10)
        two = self.successor(one)
        self.wait_stage(two, "blocked")
        self.wait_console(two, r"needs ec2:CreateSnapshot on snapshot/\* "
                               r"\(scripts/iam/agent.json: .*MakeSnapshots")
        self.world.control("policy", "instance", whole)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
