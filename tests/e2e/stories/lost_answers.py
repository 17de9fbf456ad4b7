"""EC2 did, or did not do, what was asked; either way its answer is lost."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life


MOVE = ("AttachVolume", "CreateTags", "CreateSnapshot", "CreateVolume", "DeleteVolume",
        "DeleteSnapshot")
END = ("DetachVolume", "CreateTags", "CancelSpotFleetRequests")


class LostAnswers(life.Life):
    def lose(self, code, actions):
        for action in actions:
            self.fault("fail-next", action=action, count=1, code=code)

    def _live(self, code):
        one = self.begin()
        self.lose(code, ("AttachVolume", "CreateTags", "DetachVolume"))
        self.wait_training(one, 5)
        self.lose(code, MOVE)
        self.world.interrupt(one, 12)
        two = self.successor(one)
        self.wait_training(two, 15)
        self.lose(code, END)
        self.assert_ended_well()
        log = (self.world.directory / "emulator.log").read_text()
        for action in {*MOVE, *END}:
            self.assertIn(f"{action} -> no answer", log, "the story lost no such answer")

    def test_it_was_carried_out_all_the_same(self):
        self._live("timeout-carried-out")

    def test_it_was_not_carried_out(self):
        self._live("timeout-lost")


if __name__ == "__main__":
    life.harness.main()
