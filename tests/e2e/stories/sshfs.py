"""Storage over sshfs, with a real server: first light on it, its death, and a cut network."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import shares
import sshd
from emulator import wait


@unittest.skipIf(sshd.why_not(), sshd.why_not())
class Sshfs(shares.SshfsLife):
    def test_first_light_with_a_notice_and_a_kill(self):
        first = self.begin(env=self.held(15))
        self.wait_training(first, 5)
        self.notice(first)
        second = self.successor(first)
        self.wait_status(second, "training", lambda one: one.get("resumed_step"))
        self.wait_more_steps(second)
        self.world.kill(second)
        third = self.successor(first, second)
        self.wait_status(third, "training", lambda one: one.get("resumed_step"))
        self.gate.touch()
        self.assert_ended_well(kills=1)

    def test_a_server_that_dies_in_mid_checkpoint_and_comes_back(self):
        instance = self.begin(**self.patient)
        self.wait_training(instance, 5)
        for _ in range(2):
            before = len([step for run in self.trainer_runs() for _, step in run])
            self.server.kill()
            self.wait_console(instance, "trainer failed")
            self.server.start()
            wait("more steps", lambda: len([step for run in self.trainer_runs() for _, step in run])
                 > before + 3)
        self.assert_ended_well(kills=4)

    def test_a_network_that_is_cut_is_named_and_comes_back(self):
        # Longer than the next look at the server, which says that all is well again.
        instance = self.begin(env={"PACE": "0.7"}, **self.patient)
        self.wait_training(instance, 5)
        self.server.switch.cut()
        status = self.wait_status(instance, "to say what hangs",
                                  lambda one: one.get("storage_says"))
        self.assertIn(f"{self.server.user}@127.0.0.1:{self.folder}", status["storage_says"])
        self.assertEqual(len(self.agents(instance)), 1)
        self.server.switch.mend()
        self.wait_status(instance, "to say that it is well",
                         lambda one: not one.get("storage_says"))
        self.assert_ended_well(kills=4)

    def test_a_notice_while_the_server_is_away_is_seen_and_kept(self):
        instance = self.begin(**self.patient)
        self.wait_training(instance, 5)
        self.server.switch.cut()
        self.world.interrupt(instance, 60)
        self.wait_status(instance, "released", lambda status: status.get("released"))
        self.server.switch.mend()
        other = self.successor(instance)
        self.wait_status(other, "training", lambda one: one.get("resumed_step"))
        self.assert_ended_well(kills=2)

    def test_a_server_that_nobody_vouched_for_is_not_believed(self):
        known = self.server.known_hosts.read_text()
        self.server.known_hosts.write_text("")
        instance = self.begin()
        self.wait_console(instance, f"nobody vouched for the key of .*ssh-keyscan -p "
                                    f"{self.server.port} 127.0.0.1")
        self.assertEqual(list(self.folder.iterdir()), [])
        self.server.known_hosts.write_text(known)
        self.assert_ended_well()

    def test_a_key_that_the_server_does_not_know_is_named(self):
        (self.server.place / "authorized").write_text("")
        instance = self.begin()
        self.wait_console(instance, "authorized_keys")
        (self.server.place / "authorized").write_text((self.server.place / "user.pub").read_text())
        self.assert_ended_well()


if __name__ == "__main__":
    harness.main()
