"""`spotter launch` from nothing: the volume, the fleet, an instance that runs scripts/user-data,
the job; launched again elsewhere it goes on; `spotter stop` and `spotter list`."""

import hashlib
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import job as jobs
import launched
import life
from emulator import wait


class Launch(launched.Launched):
    def test_machines_that_cannot_run_it_are_refused_before_they_cost(self):
        """One GPU where eight are wanted, an image of another architecture: nothing is made."""
        launch = {"image": "resolve:ssm:/aws/service/debian/12", "instance_types": ["g5.xlarge"],
                  "zones": self.world.zones, "profile": "spotter-role", "volume": {"size": 1}}
        file = self.world.workplace / "job.yaml"
        before = len(self.ec2.call("DescribeVolumes").items("volumeSet"))
        for more, code, says in (
                ({"trainer": {"gpus": 8}, "launch": launch}, 2,
                 "trainer.gpus is 8, and g5.xlarge has 1: name instance types with 8 GPUs"),
                ({"launch": {**launch, "image": "ami-0a640000000000000"}}, 2,
                 "ami-0a640000000000000 is of arm64, and g5.xlarge is of x86_64")):
            text = jobs.yaml(self.job(**more)) + "\n"
            file.write_text(text)
            self.world.allow_only(text)
            self.assertIn(says, self.spotter("launch", file, code=code).stderr)
            self.assertIn(says, self.spotter("doctor", file, code=code).stdout)
        self.assertEqual(self.ec2.instances(), [])
        self.assertEqual(len(self.ec2.call("DescribeVolumes").items("volumeSet")), before)
        self.assertEqual(self.listed().get(self.job_name, {}).get("fleets", []), [])
        self.assertEqual(self.ec2.call("DescribeLaunchTemplates").items("launchTemplates"), [])

    def _from_nothing_to_the_result(self):
        one = self.go(self.world.zones, by_id=True, env=self.held(20))
        self.wait_training(one, 3)
        row = self.listed()[self.job_name]
        self.assertEqual([it["id"] for it in row["instances"]], [one])
        self.assertEqual([it["state"] for it in row["volumes"]], ["in-use"])
        self.gate.touch()
        self.wait_end()
        self.assertEqual([it["role"] for it in self.listed()[self.job_name]["volumes"]], ["done"])
        self.assertIn("is done already", self.spotter("launch", self.file, code=1).stderr)
        self.assert_ended_well()

    def test_from_nothing_to_the_result(self):
        self._from_nothing_to_the_result()

    def test_the_same_by_a_spot_fleet(self):
        self.kind = "spot-fleet"
        self._from_nothing_to_the_result()

    def test_where_there_is_no_capacity_any_more_it_is_launched_elsewhere(self):
        one = self.go(self.world.zones[:1])
        self.wait_training(one, 5)
        self.room()
        self.world.interrupt(one, 10)
        wait("the instance to be gone", lambda: not self.listed()[self.job_name]["instances"])
        wait("the fleet's history to say why", lambda: "InsufficientInstanceCapacity" in
             self.listed()[self.job_name]["fleets"][0].get("launches_nothing", ""))
        two = self.go(self.world.zones[1:], besides=[one], instance_types=["g4dn.xlarge"])
        self.wait_training(two, 5)
        self.assertEqual(self.listed()[self.job_name]["instances"][0]["type"], "g4dn.xlarge")
        self.assert_ended_well()

    def test_stopped_and_launched_again_at_another_price_it_goes_on(self):
        one = self.go(self.world.zones[:1])
        self.wait_training(one, 5)
        self.spotter("stop", self.job_name, "--wait")
        self.assertTrue(self.fleet_is_cancelled())
        two = self.go(self.world.zones[:1], besides=[one])
        self.wait_more_steps(two)
        # While it is at work: the fleet is replaced, and there are never two.
        three = self.go(self.world.zones[:1], besides=[one, two], max_price=0.9)
        self.wait_training(three, 5)
        self.assert_ended_well()

    def offer_another(self):
        """launch.package, and in its place an object that is not the one."""
        bucket = self.world.directory / "s3/packages"
        bucket.mkdir(parents=True)
        (bucket / "spotter.deb").write_bytes(b"somebody else's")
        return {"s3": "s3://packages/spotter.deb", "sha256": "0" * 64}

    def test_the_package_that_lies_beside_the_job_reaches_the_instance(self):
        (self.world.directory / "s3/packages").mkdir(parents=True)
        archive = self.world.workplace / "spotter-1.0-linux-x86_64.tar.gz"
        for name in ("systemd-sysusers", "systemd-tmpfiles"):
            program = self.world.bin / name
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
        empty = self.world.workplace / "nothing"
        empty.mkdir()
        subprocess.run(["tar", "-czf", archive, "-C", empty, "."], check=True, timeout=60)
        self.addCleanup(archive.unlink)
        one = self.go(self.world.zones, package={"s3": "s3://packages/all/"})
        sent, = (self.world.directory / "s3/packages").rglob(archive.name)
        self.assertEqual(sent.parent.name, hashlib.sha256(archive.read_bytes()).hexdigest())
        installed = f"instances/{one}/root/var/lib/spotter-launch/installed"
        wait("it to be installed", (self.world.directory / installed).exists)
        self.wait_training(one, 3)
        self.wait_end()
        self.assert_ended_well()

    def test_delete_takes_all_that_is_the_jobs_and_nothing_else(self):
        one = self.go(self.world.zones[:1], env=self.held(20))
        self.wait_training(one, 20)
        namesakes = self.volume({"Name": "other", "spotter:job": self.job_name,
                                 "spotter:storage": "Name=other"})
        strangers = self.volume({"Name": jobs.TAG + "-2"})
        claimed = self.volume({"Name": "data", "spotter:job": self.job_name})  # a person made it
        asked = self.spotter("delete", self.file, code=2)
        self.assertIn("nothing was deleted; --yes asks nothing", asked.stderr)
        self.assertIn(one, asked.stdout)
        self.assertIn(self.fleet, asked.stdout)
        self.assertNotIn(namesakes, asked.stdout)
        self.gate.touch()
        self.wait_more_steps(one)
        self.spotter("delete", self.file, "--yes")
        self.assertTrue(self.fleet_is_cancelled())
        self.assertEqual({it.text("volumeId") for it in self.ec2.volumes()},
                         {namesakes, strangers, claimed})
        self.assertEqual(self.ec2.call("DescribeLaunchTemplates").items("launchTemplates"), [])
        self.assertIn("nothing is left of story", self.spotter("delete", self.file).stdout)

    def target(self):
        return self.listed()[self.job_name]["fleets"][0]["target"]

    def test_a_package_that_is_another_one_costs_one_boot(self):
        one = self.go(self.world.zones, package=self.offer_another())
        self.wait_console(one, "could not be fetched; the fleet's target is 0 now")
        wait("the instance to be gone", lambda: not self.listed()[self.job_name]["instances"])
        self.assertEqual(self.target(), 0)
        self.assertEqual(len(self.ec2.instances()), 1, "no other was started in vain")


if __name__ == "__main__":
    life.harness.main()
