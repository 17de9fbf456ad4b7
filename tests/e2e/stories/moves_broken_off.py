"""A move between zones, its instance killed again and again; its agent, too."""

import os
import pathlib
import random
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import emulator
import life
from emulator import wait


class MovesBrokenOff(life.Life):
    steps = 40

    def _chance(self):
        seed = int(os.environ.get("SPOTTER_SEED", time.time_ns() % 10**6))
        print(f"SPOTTER_SEED={seed}", flush=True)
        return random.Random(seed)

    def test_instances_killed_at_any_instant_in_one_zone_then_the_other(self):
        chance = self._chance()
        instance = self.begin()
        self.wait_training(instance, 5)
        seen = [instance]
        for turn in range(4):
            self.room(self.world.zones[(turn + 1) % 2])
            try:
                self.world.kill(instance)
            except emulator.Failed:
                # It was given the time to end it all, and the fleet has ended it.
                self.assertNotEqual(self.ec2.fleet_state(self.fleet), "active")
                break
            if self.ec2.fleet_state(self.fleet) != "active":
                break
            instance = self.successor(*seen)
            seen.append(instance)
            time.sleep(chance.uniform(0.5, 12))
        self.assert_ended_well(kills=5)

    def test_the_agent_killed_again_and_again(self):
        chance = self._chance()
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 8)
        two = self.successor(one)
        for _ in range(14):
            self.kill_agent(two)
            time.sleep(chance.uniform(0.6, 2.5))
        self.assert_ended_well()

    def test_the_copy_is_there_and_its_instance_is_not(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 8)
        two = self.successor(one)
        wait("a copy", lambda: len(self.ec2.volumes()) > 1, every=0.05)
        self.room(self.world.zones[0])
        self.world.kill(two)
        self.assert_ended_well()


if __name__ == "__main__":
    life.harness.main()
