"""What befalls the service on a whole machine: restarted, killed, the machine booted again."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import whole_machines
from emulator import wait


class WholeService(whole_machines.WholeLife):
    steps = 200  # it has to train on while all this is done and looked at

    def assert_adopted(self, one, *systemctl):
        """The trainer goes on under the next agent, and never noticed."""
        self.wait_training(one, 5)
        trainers, agent = self.trainers(one), self.agent(one)
        self.assertEqual(len(trainers), 1)
        self.world.run(one, "systemctl", *systemctl)
        wait("another agent", lambda: self.agent(one) not in ("0", agent))
        self.wait_more_steps(one)
        self.assertEqual(self.trainers(one), trainers)

    def assert_one_life(self):
        self.assert_ended_well()
        self.assertEqual(len(self.trainer_runs()), 1)

    def test_systemctl_restart_while_it_trains(self):
        one = self.begin()
        self.assert_adopted(one, "restart", "spotter")
        self.wait_journal(one, "Stopped spotter.service(?s:.*)Started spotter.service(?s:.*)"
                               "training on vol-")
        self.assert_one_life()

    def test_the_agent_is_killed_while_it_trains(self):
        one = self.begin()
        self.assert_adopted(one, "kill", "--kill-who=main", "--signal=KILL", "spotter")
        self.wait_journal(one, "code=killed, status=9/KILL(?s:.*)Started spotter.service(?s:.*)"
                               "training on vol-")
        self.assert_one_life()

    def test_all_of_the_agents_unit_is_killed_while_it_trains(self):
        one = self.begin()
        self.assert_adopted(one, "kill", "--kill-who=all", "--signal=KILL", "spotter")
        self.assert_one_life()

    def test_out_of_memory_the_kernel_kills_the_agent(self):
        one = self.begin()
        self.wait_training(one, 5)
        trainers, agent = self.trainers(one), self.agent(one)
        self.starve(one, agent)
        wait("another agent", lambda: self.agent(one) not in ("0", agent))
        self.wait_more_steps(one)
        self.assertEqual(self.trainers(one), trainers)
        self.wait_journal(one, "code=killed, status=9/KILL(?s:.*)training on vol-")
        self.assert_one_life()

    def test_out_of_memory_the_kernel_kills_the_trainer(self):
        one = self.begin()
        self.wait_training(one, 5)
        trainer, = self.trainers(one)
        self.starve(one, trainer)
        self.wait_journal(one, "the trainer failed.*: killed;.*want of memory")
        self.assert_ended_well(kills=1)
        self.assertEqual(len(self.trainer_runs()), 2, "it went on from its checkpoint, here")

    def test_reboot_while_it_trains(self):
        one = self.begin()
        self.wait_training(one, 5)
        before = self.world.leader(one)
        self.world.run(one, "systemctl", "reboot")
        wait("another boot", lambda: self.world.inside(one) not in (None, before))
        self.wait_training(one, 8)
        self.assertEqual(len(self.world.journal(one, "--list-boots").splitlines()), 2)
        self.wait_journal(one, "Stopp(ed|ing) spotter.service(?s:.*)Started spotter.service")
        self.assertEqual(len(self.ec2.instances()), 1)
        self.assert_ended_well(kills=1)
        self.assertEqual(len(self.trainer_runs()), 2, "it went on, on the same machine")


if __name__ == "__main__":
    harness.main()
