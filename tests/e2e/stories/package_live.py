"""The package on a machine that runs: there without a job, upgraded in training, removed."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import packages
import whole
from emulator import wait

JOB = """\
job: story
storage: {folder: {path: /data}}
trainer: {command: "i=0; while sleep 0.1; do i=$((i + 1)); echo $i $$ >>/data/story/steps; done"}
"""


class Live(unittest.TestCase):
    def setUp(self):
        if why := whole.missing():
            self.skipTest(why)
        package = whole.package()
        self.world = whole.Machines(harness.BINARIES, name="package", package=package)
        self.addCleanup(self._end)
        packages.newer(package, self.world.shared / "newer.deb")
        self.world.allow_only(JOB)
        template = self.world.ec2.create_template("bare", "")
        self.world.ec2.request_spot_fleet(template, [self.world.zones[0]])
        self.instance = wait("an instance to run", lambda: next(
            (one.text("instanceId") for one in self.world.ec2.instances()
             if one.text("instanceState/name") == "running"), None))
        self.world.wait_booted(self.instance)

    def _end(self):
        outcome = self._outcome.result
        if outcome and outcome.failures + outcome.errors:
            print(self.world.logs(), file=sys.stderr)
        self.assertEqual(self.world.close(), [], "left behind")

    def do(self, *words, check=True):
        return self.world.run(self.instance, *words, check=check).strip()

    def steps(self):
        """(step, process) of each so far."""
        lines = self.do("cat", "/data/story/steps", check=False).splitlines()
        return [tuple(map(int, line.split())) for line in lines if len(line.split()) == 2]

    def wait_steps(self, number):
        wait(f"step {number}", lambda: len(self.steps()) >= number)

    def agent(self):
        return self.do("systemctl", "show", "--property=MainPID", "--value", "spotter")

    def test_an_upgrade_while_it_trains_loses_no_step(self):
        self.assertEqual(self.do("systemctl", "is-enabled", "spotter"), "enabled")
        self.assertEqual(self.do("systemctl", "is-active", "spotter", check=False), "inactive")
        self.assertEqual(self.do("systemctl", "--failed", "--plain", "--no-legend"), "")
        self.do("install", "-d", "-o", "spotter", "/data")
        (self.world.shared / "job.yaml").write_text(JOB)
        self.do("cp", self.world.shared / "job.yaml", "/etc/spotter/job.yaml")
        self.do("systemctl", "start", "spotter")
        self.wait_steps(5)

        before = self.agent()
        self.do("dpkg", "-i", self.world.shared / "newer.deb")
        self.assertIn("1000:", self.do("dpkg-query", "-W", "-f", "${Version}", "spotter"))
        self.assertNotIn(self.agent(), ("0", before), "another agent")
        self.wait_steps(len(self.steps()) + 10)
        steps = self.steps()
        self.assertEqual([step for step, _ in steps], list(range(1, len(steps) + 1)))
        self.assertEqual(len({process for _, process in steps}), 1, "the trainer did not notice")
        wait("the new agent to have it in its care", lambda: '"training"' in
             self.do("spotter", "status", "--json", check=False))

        said = self.do("dpkg", "--remove", "spotter")
        self.assertIn("spotter: done; the next agent", said)
        self.assertEqual(self.do("pgrep", "-f", "sleep 0.1", check=False), "", "the trainer ended")
        self.assertEqual(self.do("pgrep", "-x", "spotter", "-a", check=False).count("agent"), 0)
        self.assertEqual(self.do("cat", "/data/story/steps").splitlines()[0].split()[0], "1")


if __name__ == "__main__":
    harness.main()
