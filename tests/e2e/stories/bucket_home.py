"""A job whose home is in a bucket: no volume, any zone. After a notice and after a loss the next
instance brings the home from S3 and goes on; the result is there before the fleet goes."""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import fake_trainer
import job as jobs
import life
import shares
from emulator import wait

PLACE = "s3://homes/jobs"


class BucketHome(shares.ShareLife):
    steps = 60

    def setUp(self):
        super().setUp()
        self.bucket = self.world.directory / "s3/homes/jobs"
        (self.world.directory / "s3/homes").mkdir(parents=True)

    def storage(self):
        return {"s3": {"at": PLACE, "cache": "${SPOTTER_MOUNT}"}}

    def head(self):
        return json.loads((self.bucket / "heads" / self.job_name / "head.json").read_text())

    def manifest(self):
        home = self.bucket / "homes" / self.job_name
        return home, json.loads((home / self.head()["manifest"]).read_text())

    def kept(self, path):
        """What the bucket has of this file of the home."""
        home, manifest = self.manifest()
        [its] = [each for each in manifest["files"] if each["path"] == path]
        return (home / f"data/{its['group']}/{its['sum']}-{its['bytes']}").read_bytes()

    def wait_kept(self, step):
        return wait(f"a checkpoint of step {step} in the bucket",
                    lambda: self.bucket.exists() and self.head().get("newest", -1) >= step
                    and self.head()["newest"])

    def assert_ended_well(self, kills=0, torn=0):
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        head = self.head()
        self.assertEqual(head["state"], "done", "the fleet went before the head said so")
        wait("the instances to be gone", lambda: all(
            one.text("instanceState/name") == "terminated" for one in self.ec2.instances()))
        self.assert_steps(kills, torn)
        self.assertEqual(self.ec2.volumes(), [], "a bucket needs no volume")
        self.assertEqual(self.kept("result/weights.bin").decode(),
                         fake_trainer.result_of(self.steps))
        self.assertIn(f"step {self.steps} of {self.steps}", self.kept("log/trainer.log").decode())
        _, manifest = self.manifest()
        kept = {each["path"].split("/")[1] for each in manifest["files"]
                if each["path"].startswith("checkpoints/")}
        self.assertLessEqual(len(kept), 2, "older checkpoints are kept, too")
        objects = {path.name for path in (self.bucket / "homes").glob("*/data/*/*")}
        named = {f"{each['sum']}-{each['bytes']}" for each in manifest["files"]}
        self.assertLessEqual(len(objects - named), 12, "what no manifest names is not removed")

    def test_a_notice_and_another_zone(self):
        self.fault("capacity", zone=self.world.zones[1], instances=0)
        one = self.begin(env=self.held(20))
        self.wait_training(one, 5)
        self.wait_kept(1)
        self.assertEqual(self.head()["holder"], one)
        self.room(self.world.zones[1])
        self.notice(one)
        two = self.successor(one)
        self.wait_training(two, 6)
        self.assertIn("is released", self.world.console(one))
        self.assertEqual((self.head()["state"], self.head()["holder"]), ("using", two))
        early = self.fetch("checkpoints")
        self.assertTrue(list((early / "checkpoints").iterdir()), "while it trains")
        self.gate.touch()
        self.assert_ended_well()
        out = self.fetch()
        self.assertEqual((out / "result/weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertFalse((out / ".spotter").exists())

    def fetch(self, *paths):
        """As a person far away does: the folder."""
        description = self.world.workplace / "far.yaml"
        description.write_text(jobs.yaml(jobs.document(
            self.job_name, self.repository, self.revision, "./train.py", trainer={},
            storage=self.storage())))
        out = self.world.workplace / ("out" + "".join(paths))
        subprocess.run([self.world.bin / "spotter", "fetch", description, *paths, out], check=True,
                       timeout=120, stdout=subprocess.DEVNULL,
                       env={**self.world.launcher(), "SPOTTER_MOUNT": "/mnt/x"})
        return out

    def test_a_loss(self):
        one = self.begin()
        self.wait_training(one, 5)
        kept = self.wait_kept(3)
        self.world.kill(one)
        two = self.successor(one)
        self.wait_training(two, kept + 1)
        wait("its first step", lambda: len([run for run in self.trainer_runs() if run]) == 2)
        runs = self.trainer_runs()
        lost = runs[0][-1][1] - runs[1][0][1] + 1
        self.assert_ended_well(kills=1, torn=max(lost, 0) + 1)

    def test_a_script_that_knows_nothing(self):
        one = self.begin(env={"FORMAT": "file", "PACE": "0.4"},
                         checkpoints={"directory": "checkpoints", "files": "count"})
        kept = self.wait_kept(1)
        self.wait_more_lines(6)
        kept = self.wait_kept(kept + 1)
        self.world.kill(one)
        self.successor(one)
        wait("a second run", lambda: len([run for run in self.trainer_runs() if run]) == 2)
        self.assertGreater(self.trainer_runs()[1][0][1], 1, "it began from scratch")
        wait("the fleet to be cancelled", self.fleet_is_cancelled)
        self.assertEqual(self.head()["state"], "done")
        self.assertEqual(self.kept("result/weights.bin").decode(),
                         fake_trainer.result_of(self.steps))

    def wait_more_lines(self, count):
        wait(f"{count} steps", lambda: sum(map(len, self.trainer_runs())) >= count)


if __name__ == "__main__":
    life.harness.main()
