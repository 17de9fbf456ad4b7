"""On a whole machine the metadata service refuses the trainer, and answers everybody else."""

import pathlib
import re
import shlex
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
# By each device, as `curl --interface` does.
ASK_BOUND = """
import socket
for _, name in socket.if_nameindex():
    asking = socket.socket()
    asking.settimeout(5)
    try:
        asking.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name.encode())
        asking.connect(("169.254.169.254", 80))
        print(name, "answer")
    except OSError as error:
        print(name, error)
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
        wait("its end", lambda: not self.trainers(one))
        self.world.run(one, "systemctl", "start", "spotter")
        self.world.run(one, "systemctl", "stop", "spotter")
        self.assertEqual(self.rules(one), [])

    def test_who_may_ask_is_answered(self):
        one = self.begin(trainer={"imds": "allow"})
        self.wait_training(one, 3)
        self.assertEqual(self.ask(one, jobs.trainer_user()), "answer, at once")
        self.assertEqual(self.rules(one), [])

    def test_a_socket_that_is_bound_to_a_device_is_refused_too(self):
        command = f"/usr/bin/python3 -c {shlex.quote(ASK_BOUND)} >$JOURNAL/bound; exec ./train.py"
        one = self.begin(trainer={"command": command})
        self.wait_training(one, 3)
        asked = (self.journal / "bound").read_text().splitlines()
        self.assertGreater(len(asked), 1, "there is a device besides lo")
        for line in asked:
            self.assertNotIn("answer", line)
        # Nor where a process of that user has left the unit.
        for user, answers in ((jobs.trainer_user(), False), ("daemon", True)):
            said = self.world.run(one, "setpriv", f"--reuid={user}", "--clear-groups",
                                  "/usr/bin/python3", "-c", ASK_BOUND)
            self.assertEqual("answer" in said, answers, said)
        denied = self.world.run(one, "systemctl", "show", "-P", "IPAddressDeny",
                                f"spotter-trainer-{self.job_name}.service").split()
        self.assertCountEqual(denied, ["169.254.169.254/32", "fd00:ec2::254/128"])

    def test_where_nothing_refuses_it_that_is_said_and_nothing_trains(self):
        one = self.begin()
        self.wait_training(one, 3)
        if self.world.run(one, "ls", "/sys/fs/cgroup/cgroup.controllers", check=False).strip():
            self.skipTest("the control group's filter holds where the rule is missing")
        self.world.run(one, "ip", "rule", "del", "pref", "169")
        self.world.run(one, "nft", "delete table inet spotter")
        self.world.run(one, "mv", "/usr/sbin/nft", "/usr/sbin/no-nft")
        self.world.run(one, "mv", "/usr/bin/ip", "/usr/bin/no-ip")
        for pid in self.trainers(one):
            self.world.run(one, "kill", "-9", pid)
        self.wait_journal(one, "metadata service answers user .*trainer.imds: allow")
        self.assertEqual(self.trainers(one), [])
        self.world.run(one, "systemctl", "restart", "spotter")
        said = self.wait_journal(one, "metadata service cannot be kept from .*iproute2")
        self.assertEqual(len(re.findall(said[0], self.world.journal(one, "-u", "spotter"))), 1)
        self.world.run(one, "mv", "/usr/bin/no-ip", "/usr/bin/ip")
        self.world.run(one, "systemctl", "restart", "spotter")
        wait("it trains again", lambda: self.trainers(one))


if __name__ == "__main__":
    harness.main()
