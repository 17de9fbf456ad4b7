"""On a whole machine the trainer has a unit of its own; what takes rights, process 1 does."""

import json
import pathlib
import re
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import job as jobs
import whole_machines
from emulator import Failed, wait

TRAINER = "spotter-trainer-story.service"
VERBS = "spotter-host-*.service"
# Of linux/capability.h: CHOWN, DAC_READ_SEARCH, KILL.
AGENTS_RIGHTS = 1 << 0 | 1 << 2 | 1 << 5
NOBODYS = "vol-0123456789abcdef0"


class StoppedByOthers(whole_machines.WholeLife):
    steps = 300

    # It saves and leaves with 0, as other people's scripts do, and declares no result.
    OTHER = {"trainer": {"command": "./train.py; it=$?; [ $it != 75 ] || exit 0; exit $it"}}

    def test_a_trainer_that_others_stop_is_not_finished_and_goes_on(self):
        one = self.begin(**self.OTHER)
        for words in (("systemctl", "restart", TRAINER), ("systemctl", "stop", TRAINER),
                      ("systemctl", "restart", TRAINER, "spotter"), ("systemctl", "kill", TRAINER)):
            self.wait_more_steps(one)
            before = self.trainers(one)
            self.world.run(one, *words, check=False)  # a restart's start finds no job: it fails
            wait("another trainer", lambda before=before: self.trainers(one)
                 and self.trainers(one) != before)
        self.wait_journal(one, "as process 1 .* stopped it: it starts again")
        self.assertNotRegex(self.world.journal(one, "-u", "spotter", "-o", "cat"),
                            "the trainer (finished|failed)")
        self.assert_ended_well()

    def test_needrestart_restarts_the_agent_and_no_trainer(self):
        one = self.begin(**self.OTHER)
        self.wait_training(one, 3)
        trainers, agent = self.trainers(one), self.agent(one)
        library = self.world.run(one, "readlink", "-f", "/lib/x86_64-linux-gnu/libz.so.1").strip()
        self.world.run(one, "cp", "-p", library, library + ".new")
        self.world.run(one, "mv", library + ".new", library)  # as dpkg upgrades it
        said = self.world.run(one, "needrestart", "-r", "a")
        wait("another agent", lambda: self.agent(one) not in ("0", agent))
        self.wait_more_steps(one)
        self.assertEqual(self.trainers(one), trainers)
        self.assertIn(TRAINER, said, "it is named, as left to a person")

    # As if each file were old enough.
    CLEANS_ALL = "q /tmp 1777 root root 0\\nq /var/tmp 1777 root root 0\\n"

    def test_what_a_system_does_by_itself_in_days_leaves_the_trainer_alone(self):
        one = self.begin(trainer={"command": "touch /tmp/kept /var/tmp/kept; ./train.py; exit $?"})
        self.wait_training(one, 3)
        trainer, = self.trainers(one)
        self.world.run(one, "sh", "-c", f"touch /tmp/gone; printf '{self.CLEANS_ALL}' "
                       ">/etc/tmpfiles.d/tmp.conf; systemd-tmpfiles --clean")
        self.assertEqual(self.world.run(one, "sh", "-c", "ls /tmp/gone || true").strip(), "")
        for place in ("/tmp/kept", "/var/tmp/kept"):
            self.world.run(one, "test", "-e", f"/proc/{trainer}/root{place}")
        for words in (("journalctl", "--rotate", "--vacuum-time=1s"),  # as logrotate does
                      ("systemctl", "restart", "systemd-journald", "systemd-logind", "dbus"),
                      ("systemctl", "daemon-reexec"),
                      ("loginctl", "terminate-user", "root"),
                      ("/var/lib/cloud/scripts/per-boot/spotter",)):  # cloud-init, at each boot
            self.world.run(one, *words, check=words[0] != "loginctl")
            self.wait_more_steps(one)
            self.assertEqual(self.trainers(one), [trainer], words)
        self.assert_ended_well()


class OnDebian13(StoppedByOthers):
    suite = "trixie"


class WholeUnits(whole_machines.WholeLife):
    steps = 300

    def show(self, instance, unit, *names):
        shown = self.world.run(instance, "systemctl", "show", unit, "-p", ",".join(names))
        return dict(line.split("=", 1) for line in shown.splitlines())

    def units(self, instance, pattern):
        return self.world.run(instance, "systemctl", "list-units", "--all", "--plain",
                              "--no-legend", pattern).splitlines()

    def status_of(self, instance, pid):
        text = self.world.run(instance, "cat", f"/proc/{pid}/status", f"/proc/{pid}/cgroup")
        return dict(re.findall(r"^(\w+):+(?:\w*:)?\s*(.*)$", text, re.M))

    def ask(self, instance, **request):
        """A piece of local work as the agent has it done; the process that waits for its end."""
        asking = subprocess.Popen(
            self.world.words(instance, "/usr/bin/spotter", "unit", "host", "--run-directory",
                             "/run/spotter", "--limit", "60000"),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(asking.wait)
        self.addCleanup(asking.kill)
        asking.stdin.write(json.dumps(request))
        asking.stdin.close()
        asking.stdin = None
        return asking

    def wait_verb(self, instance, there):
        wait("the work to begin" if there else "nothing to be left of it",
             lambda: bool(self.units(instance, VERBS)) == there)

    def assert_settings(self, one):
        """systemd has each setting as `spotter unit print` spells it."""
        text = self.world.run(one, "/usr/bin/spotter", "unit", "print")
        printed = dict(re.findall(r"^(\w+)=([\w-]+)$", text, re.M))
        for name in ("TimeoutStartSec", "TimeoutStopSec", "TasksMax", "SystemCallErrorNumber"):
            del printed[name]  # the job's own, the machine's, or in another spelling there
        self.assertGreater(len(printed), 25)
        self.assertEqual(self.show(one, TRAINER, *printed), printed)
        for name in ("CapabilityBoundingSet", "RestrictAddressFamilies"):
            words = re.search(rf"(?m)^{name}=(.*)$", text)[1]
            self.assertCountEqual(self.show(one, TRAINER, name)[name].upper().split(),
                                  words.upper().split())
        self.assertIn("169.254.169.254/32", self.show(one, TRAINER, "IPAddressDeny")
                      ["IPAddressDeny"])

    def test_the_trainer_has_its_unit_and_the_agent_few_rights(self):
        one = self.begin(trainer={"memory_max": "256M", "cpu_quota": "150%", "cpu_weight": 50,
                                  "stop_grace": "4m"})
        self.wait_training(one, 3)
        self.assertEqual(
            self.show(one, TRAINER, "ActiveState", "MemoryMax", "CPUQuotaPerSecUSec", "CPUWeight",
                      "NoNewPrivileges", "ProtectSystem", "TimeoutStopUSec"),
            {"ActiveState": "active", "MemoryMax": str(256 << 20),
             "CPUQuotaPerSecUSec": "1.500000s", "CPUWeight": "50", "NoNewPrivileges": "yes",
             "ProtectSystem": "strict", "TimeoutStopUSec": "5min"})
        self.assert_settings(one)
        pid, = self.trainers(one)
        trainer, agent = self.status_of(one, pid), self.status_of(one, self.agent(one))
        self.assertEqual(trainer["0"], f"/system.slice/{TRAINER}")
        self.assertEqual(agent["0"], "/system.slice/spotter.service")
        self.assertEqual(self.world.run(one, "stat", "-c", "%U", f"/proc/{pid}").strip(),
                         jobs.trainer_user())
        self.assertEqual([trainer[one] for one in ("CapEff", "NoNewPrivs", "Seccomp")],
                         ["0" * 16, "1", "2"])
        self.assertEqual([int(agent[one], 16) for one in ("CapEff", "CapBnd")],
                         [AGENTS_RIGHTS] * 2)
        self.assertEqual([agent[one] for one in ("NoNewPrivs", "Seccomp")], ["1", "2"])
        # The storage is everybody's to see, and nothing of what was done is left.
        self.world.run(one, "test", "-e", "/mnt/spotter/code/train.py")
        self.wait_verb(one, there=False)

    def test_when_the_system_stops_the_agent_is_first_and_the_storage_last(self):
        one = self.begin(trainer={"command": "echo a shell begins; ./train.py; exit $?"})
        self.wait_training(one, 3)
        before = self.world.leader(one)
        anchor, = (line.split()[0] for line in self.units(one, "spotter-storage-*"))
        ahead = self.show(one, "spotter.service", "After")["After"].split()
        self.assertIn(TRAINER, ahead)
        self.assertIn(anchor, ahead)
        self.assertIn("mnt-spotter.mount", self.show(one, anchor, "After")["After"].split())
        self.world.run(one, "systemctl", "reboot")
        wait("another boot", lambda: self.world.inside(one) not in (None, before))
        shown = self.world.journal(one, "-b", "1", "-o", "cat")
        order = [shown.find(line) for line in
                 ("Stopping spotter.service", "(exit status 75)", "detaching vol-",
                  "Stopped spotter.service")]
        self.assertNotIn(-1, order, shown)
        self.assertEqual(order, sorted(order))
        self.assertNotRegex(shown, "Failed unmounting mnt-spotter|timed out")
        self.wait_training(one, 5)

    def test_when_the_system_stops_and_there_is_no_agent_the_trainer_is_asked_all_the_same(self):
        one = self.begin()
        self.wait_training(one, 3)
        self.world.run(one, "systemctl", "stop", "spotter")
        before = self.world.leader(one)
        self.world.run(one, "systemctl", "reboot")
        wait("another boot", lambda: self.world.inside(one) not in (None, before))
        shown = self.world.journal(one, "-b", "1", "-o", "cat")
        order = [shown.find(line) for line in
                 ("Stopped spotter.service", "the trainer ended: exit status 75",
                  f"Stopped {TRAINER}", "Unmounted mnt-spotter.mount")]
        self.assertNotIn(-1, order, shown)
        self.assertEqual(order, sorted(order))
        self.wait_training(one, 5)

    def test_when_the_system_stops_and_nobody_answers_it_stops_all_the_same(self):
        one = self.begin(trainer={"stop_grace": "2s"})
        self.wait_training(one, 3)
        before = self.world.leader(one)
        self.world.network(one, "down")
        self.world.run(one, "systemctl", "reboot")
        wait("another boot", lambda: self.world.inside(one) not in (None, before))
        shown = self.world.journal(one, "-b", "1", "-o", "cat")
        order = [shown.find(line) for line in
                 ("ended as asked", "detaching vol-", "time for releasing the job is over",
                  "Stopped spotter.service")]
        self.assertNotIn(-1, order, shown)
        self.assertEqual(order, sorted(order))
        self.world.network(one, "up")
        self.wait_training(one, 5)

    def test_the_package_is_removed_and_the_trainer_ends_as_asked(self):
        one = self.begin()
        self.wait_training(one, 3)
        self.world.run(one, "apt-get", "remove", "--yes", "spotter")
        self.assertEqual(self.trainers(one), [])
        self.assertEqual(self.units(one, "spotter-*"), [])
        self.wait_journal(one, "the trainer ended: exit status 75", unit=TRAINER)

    def test_work_that_is_given_up_is_ended(self):
        one = self.begin()
        self.wait_training(one, 3)
        self.world.run(one, "systemctl", "stop", "spotter")
        for number in ("TERM", "KILL"):
            asking = self.ask(one, verb="find-device", volume=NOBODYS, wait_ms=50_000)
            self.wait_verb(one, there=True)
            asker, = self.world.run(one, "pgrep", "-f", "spotter unit host").split()
            self.world.run(one, "kill", f"-{number}", asker)
            self.wait_verb(one, there=False)
            self.assertEqual(asking.communicate()[0], "")
            self.assertEqual(self.world.run(one, "pgrep", "-f", "host --request", check=False), "")

    def test_process_1_is_read_again_and_replaced_and_no_answer_is_lost(self):
        one = self.begin()
        self.wait_training(one, 3)
        trainers = self.trainers(one)
        for how in ("daemon-reload", "daemon-reexec"):
            asking = self.ask(one, verb="find-device", volume=NOBODYS, wait_ms=5_000)
            self.wait_verb(one, there=True)
            self.world.run(one, "systemctl", how)
            said = asking.communicate(timeout=60)[0]
            self.assertIn('"kind":"device-absent"', said, how)
            self.wait_more_steps(one)
        self.assertEqual(self.trainers(one), trainers)
        self.assertEqual(self.show(one, TRAINER, "ActiveState")["ActiveState"], "active")

    def test_a_second_trainer_of_that_name_is_refused(self):
        one = self.begin()
        self.wait_training(one, 3)
        began = time.monotonic()
        with self.assertRaisesRegex(Failed, f"{TRAINER}.*already"):
            self.world.run(one, "/usr/bin/spotter", "unit", "trainer", "--run-directory",
                           "/run/spotter", "--name", "story", "--home", "/mnt/spotter", "--user",
                           jobs.trainer_user())
        self.assertLess(time.monotonic() - began, 60)
        self.wait_more_steps(one)


if __name__ == "__main__":
    harness.main()
