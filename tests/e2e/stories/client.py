"""The client's program in an ordinary user's hands: it launches a job, sees it, brings its result
and takes it away. The machines run the package's, as always."""

import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import fake_trainer
import harness
import job as jobs
import launched
from emulator import ROOT, wait

CLIENT, ME, PLACE = ROOT / "build/client/bin/spotter", 1234, "s3://seen/jobs"
LAPTOPS = ("init", "launch", "status", "logs", "fetch", "stop", "report", "delete")


class Client(launched.Launched):
    def setUp(self):
        super().setUp()
        self.root_only("it becomes another user")
        self.me = self.world.workplace / "me"
        self.me.mkdir()
        os.chown(self.me, ME, ME)
        (self.world.directory / "s3/seen").mkdir(parents=True)

    def job(self, **more):
        return super().job(publish=PLACE, trainer={"result": "result/weights.bin"}, **more)

    def words(self, *words):
        return ["setpriv", f"--reuid={ME}", f"--regid={ME}", "--clear-groups", "--no-new-privs",
                "--bounding-set=-all", "--inh-caps=-all", CLIENT, *map(str, words)]

    def spotter(self, *words, code=0, **more):
        done = subprocess.run(self.words(*words), cwd=self.me, text=True, timeout=300, check=False,
                              capture_output=True, stdin=subprocess.DEVNULL,
                              env={**self.world.launcher(), "HOME": str(self.me),
                                   "TMPDIR": str(self.me), "SPOTTER_RUN": str(self.me / "none"),
                                   "SPOTTER_MOUNT": "/mnt/spotter",
                                   "AWS_EC2_METADATA_DISABLED": "true", **more})
        if code is not None:
            self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def logs(self, **more):
        return self.spotter("logs", self.job_name, "--publish", PLACE, **more).stdout

    def administrator(self):
        return {"AWS_ACCESS_KEY_ID": ec2.USER, "AWS_SECRET_ACCESS_KEY": self.world.secret}

    def test_what_is_a_machines_is_said_to_be_not_there(self):
        listed = self.spotter("--help").stdout
        for name in LAPTOPS:
            self.assertRegex(listed, rf"(?m)^  {name} ")
        for name in ("agent", "run", "checkpoints", "supervise", "host"):
            self.assertNotRegex(listed, rf"(?m)^  {name} ")
            self.assertEqual(self.spotter(name, code=2).stderr,
                             f"spotter {name}: only a machine that trains has this: it is not in "
                             "the client's build\n")
        self.assertIn("--serve is not in the client's build",
                      self.spotter("status", "--serve", "--job", "none", code=2).stderr)

    def test_keys_come_from_a_program_too(self):
        keys = json.dumps({"Version": 1, "AccessKeyId": ec2.USER,
                           "SecretAccessKey": self.world.secret})
        secret = self.me / "keys.json"
        secret.touch(0o600)
        os.chown(secret, ME, ME)
        secret.write_text(keys)
        self.addCleanup(secret.unlink)
        for seconds, code in ((0, 0), (600, 1)):
            config = self.me / "config"
            config.write_text("[default]\ncredential_process = sh -c 'sleep "
                              f"{seconds}; cat {self.me}/keys.json'\n")
            said = self.spotter("list", code=code, AWS_CONFIG_FILE=str(config),
                                AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="")
        self.assertIn("it did not end within a minute", said.stderr)

    def test_a_job_from_its_description_until_nothing_is_left(self):
        made = self.spotter("init", "--yes", **self.administrator())
        self.assertIn("job.yaml", made.stdout + made.stderr)
        self.assertRegex((self.me / "job.yaml").read_text(), "(?m)^launch:")
        one = self.go([self.zone], env=self.held(20))
        self.wait_training(one, 3)
        wait("its output to be seen", lambda: "\nstep 3 of " in self.logs(code=None))
        seen = json.loads(self.spotter("status", "--job", self.file, "--json").stdout)
        self.assertIn(one, json.dumps(seen))
        self.spotter("stop", self.file)
        wait("the instance to be gone", lambda: all(
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()))
        self.gate.touch()
        self.fleet = self.spotter("launch", self.file).stdout.strip()
        self.wait_end()
        self.assertIn(f"\nstep {self.steps} of {self.steps}\n", self.logs())
        self.spotter("fetch", self.file, "out")
        self.assertEqual((self.me / "out/result/weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.spotter("report", "--job", self.file, "--output", "report.html")
        self.assertIn("<html", (self.me / "report.html").read_text())
        self.spotter("delete", self.file, "--yes", **self.administrator())
        self.assertEqual(self.ec2.volumes(), [])


if __name__ == "__main__":
    harness.main()
