"""The newest checkpoint is torn by what no fsync helps against: the one before it serves."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import life
import volumes

TEAR = "newest=$(ls -d checkpoints/step-* | tail -n 1); truncate -s 5 $newest/count"


class TornCheckpoint(life.Life):
    def test_the_one_before_serves(self):
        one = self.begin(env={"FORMAT": "spotter"})
        self.wait_training(one, 8)
        volume = self.ec2.volumes()[0].text("volumeId")
        self.room()
        self.world.kill(one)
        self.wait_volume(volume, "available")
        last = self.trainer_runs()[0][-1][1]
        volumes.change(self.world, volume, TEAR)
        self.room(self.world.zones[1])  # and it moves to another zone, where the copy is verified
        two = self.successor(one)
        self.wait_training(two, last + 1)
        self.assertIn(self.world.status(two)["resumed_step"], (last - 1, last))
        self.wait_console(two, "torn")
        self.assert_ended_well(kills=1, torn=1)


if __name__ == "__main__":
    life.harness.main()
