"""On a whole machine the metadata service refuses the trainer, and answers everybody else."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import job as jobs
import whole_machines
from emulator import wait

# As a trainer would that polls by itself: what it got, and whether it had to wait for that.
ASK = """
import sys, time, urllib.error, urllib.request
begin = time.monotonic()
try:
    urllib.request.urlopen(sys.argv[1], timeout=20)
    got = "answer"
except urllib.error.HTTPError:
    got = "answer"
except OSError as error:
    got = str(error)
print(got, "at once" if time.monotonic() - begin < 5 else "late", sep=", ")
"""
METADATA = "http://169.254.169.254/latest/meta-data/"


class WholeMetadata(whole_machines.WholeLife):
    steps = 600

    def ask(self, instance, user):
        return self.world.run(instance, "setpriv", f"--reuid={user}", "--clear-groups",
                              "/usr/bin/python3", "-c", ASK, METADATA).strip()

    def rules(self, instance):
        return self.world.run(instance, "ip", "rule", "show", "pref", "169").splitlines()

    def test_the_trainers_user_is_refused_at_once_for_as_long_as_it_trains(self):
        one = self.begin()
        self.wait_training(one, 3)
        self.assertRegex(self.ask(one, jobs.trainer_user()), "Permission denied.*at once")
        self.assertEqual(self.ask(one, "root"), "answer, at once")
        self.assertEqual(self.ask(one, "daemon"), "answer, at once")
        for service in ("systemd-networkd", "spotter"):  # the former may remove rules
            self.world.run(one, "systemctl", "restart", service)
            self.wait_more_steps(one)
            self.assertEqual(len(self.rules(one)), 1, service)
        self.world.run(one, "systemctl", "stop", "spotter")
        self.assertRegex(self.ask(one, jobs.trainer_user()), "Permission denied.*at once")
        for pid in self.trainers(one):
            self.world.run(one, "kill", "-9", pid)
        wait("its end", lambda: not self.trainers(one), 30)
        self.world.run(one, "systemctl", "start", "spotter")
        self.world.run(one, "systemctl", "stop", "spotter")
        self.assertEqual(self.rules(one), [])

    def test_who_may_ask_is_answered(self):
        one = self.begin(trainer={"imds": "allow"})
        self.wait_training(one, 3)
        self.assertEqual(self.ask(one, jobs.trainer_user()), "answer, at once")
        self.assertEqual(self.rules(one), [])

    def test_where_it_cannot_be_refused_that_is_said_once_and_it_trains(self):
        one = self.begin()
        self.wait_training(one, 3)
        self.world.run(one, "mv", "/usr/bin/ip", "/usr/bin/no-ip")
        self.world.run(one, "systemctl", "restart", "spotter")
        self.wait_more_steps(one)
        said = self.wait_journal(one, "metadata service cannot be kept from .*iproute2")
        self.assertEqual(len(re.findall(said[0], self.world.journal(one, "-u", "spotter"))), 1)


if __name__ == "__main__":
    harness.main()
