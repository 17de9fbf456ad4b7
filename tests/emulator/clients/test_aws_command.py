"""The `aws` command, unmodified, and the subcommands of spotter-emulator itself."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from served import REGION, Served, ServedTest, eventually, fleet_configuration

AWS = "/usr/bin/aws" if os.path.exists("/usr/bin/aws") else shutil.which("aws")


@unittest.skipUnless(AWS, "the aws command is not installed (apt: awscli)")
class AwsCommand(ServedTest):
    def aws(self, *words, service="ec2"):
        environment = {
            "PATH": os.environ["PATH"], "HOME": self.served.folder, "AWS_PAGER": "",
            **self.served.environment, "AWS_MAX_ATTEMPTS": "1", "AWS_DEFAULT_REGION": REGION}
        return subprocess.run([AWS, "--endpoint-url", self.served.api, "--output", "json", service,
                               *words], env=environment, capture_output=True, text=True,
                              timeout=60, check=False)

    def ok(self, *words, **more):
        done = self.aws(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else {}

    def test_a_volume_from_its_creation_to_its_end(self):
        volume = self.ok("create-volume", "--size", "1", "--availability-zone", "us-west-2b",
                         "--tag-specifications",
                         "ResourceType=volume,Tags=[{Key=Name,Value=by hand}]")["VolumeId"]
        self.ok("wait", "volume-available", "--volume-ids", volume)
        found = self.ok("describe-volumes", "--filters", "Name=tag:Name,Values=by hand")
        self.assertEqual([it["VolumeId"] for it in found["Volumes"]], [volume])
        refused = self.aws("delete-volume", "--volume-id", volume, "--dry-run")
        self.assertIn("(DryRunOperation)", refused.stderr)
        self.ok("delete-volume", "--volume-id", volume)

    def test_iam_with_the_readmes_exports(self):
        """At another endpoint than AWS's own it is signed for the region of the exports."""
        made = self.ok("create-user", "--user-name", "somebody", service="iam")
        self.assertEqual(made["User"]["UserName"], "somebody")

    def test_a_spot_fleet_from_a_configuration_file(self):
        script = "#!/bin/sh\npwd > here.partial && mv here.partial here\n"
        path = os.path.join(self.served.folder, "config.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(fleet_configuration(user_data=script), file)
        request = self.ok("request-spot-fleet", "--spot-fleet-request-config",
                          "file://" + path)["SpotFleetRequestId"]

        def active():
            return self.ok("describe-spot-fleet-instances", "--spot-fleet-request-id",
                           request)["ActiveInstances"]
        instance = eventually(active)[0]["InstanceId"]
        here = os.path.join(self.served.folder, "instances", instance, "here")
        self.assertTrue(eventually(lambda: os.path.exists(here)), "its user data has run")
        with open(here, encoding="utf-8") as file:
            self.assertEqual(file.read().strip(), os.path.dirname(here))
        self.ok("cancel-spot-fleet-requests", "--spot-fleet-request-ids", request,
                "--terminate-instances")


class ControlCommand(ServedTest):
    def test_an_identity_can_be_added_seen_and_interrupted(self):
        added = self.served.command("instance", "add", "--zone", "us-west-2a")
        instance, endpoint = added.stdout.split()
        self.assertTrue(endpoint.startswith("http://127."))
        state = json.loads(self.served.command("state", "--json").stdout)
        self.assertIn(instance, [it["id"] for it in state["instances"]])
        self.assertIn(instance, self.served.command("state").stdout)
        for words in (["rebalance", instance], ["interrupt", instance, "--in", "2m"],
                      ["withdraw", instance], ["kill", instance]):
            done = self.served.command(*words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), words)

    def test_misuse_is_2_and_a_refusal_is_1_and_both_say_why(self):
        for words, status, why in (
                (["interrupt", "i-0", "--in", "soon"], 2, "'soon' is not a duration"),
                (["fault", "latency", "A", "1s", "what"], 2, "what is 'what'"),
                (["no-such"], 2, "subcommand"), (["kill"], 1, "which instance?"),
                (["kill", "i-0123456789abcdef0"], 1, "i-0123456789abcdef0"),
                (["fault", "no-such"], 1, "no-such")):
            done = self.served.command(*words)
            self.assertEqual(done.returncode, status, words)
            self.assertIn(why, done.stderr)

    def test_stop_ends_it_and_returns_when_it_is_gone(self):
        served = Served()
        try:
            self.assertEqual(served.command("stop").returncode, 0)
            self.assertEqual(served.process.wait(1), 0)
            self.assertFalse(os.path.exists(os.path.join(served.folder, "emulator.json")))
            self.assertEqual(served.command("state").returncode, 1)
        finally:
            served.stop()

    def test_where_volumes_cannot_be_cold_it_says_why_and_ends(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(self.served.process.args[0], folder)
            for mode, why in (("user", "only loop devices can be slow"),
                              ("root", f"{folder}/spotter-emulator-cold is missing")):
                if mode == "root" and os.geteuid() != 0:
                    continue
                done = subprocess.run(
                    [alone, "serve", "--directory", f"{folder}/world", "--api", "127.0.0.1:0",
                     "--metadata", "127.0.0.1:0", "--mode", mode, "--cold-volumes"],
                    capture_output=True, text=True, timeout=20, check=False)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"--cold-volumes: {why}", done.stderr)

    def test_without_an_emulator_it_says_how_to_name_one(self):
        with tempfile.TemporaryDirectory() as folder:
            environment = {k: v for k, v in os.environ.items() if k != "SPOTTER_EMULATOR"}
            done = subprocess.run([os.path.abspath(self.served.process.args[0]), "state"],
                                  cwd=folder, env=environment, capture_output=True, text=True,
                                  timeout=20, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--api URL", done.stderr)


if __name__ == "__main__":
    unittest.main()
