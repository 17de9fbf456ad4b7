"""`spotter doctor` against the emulator: each kind of finding, and what it makes of a policy."""

import json
import os
import pathlib
import subprocess
import unittest

from served import REGION, ServedTest

SPOTTER = os.environ["SPOTTER_PATH"]
ACCOUNT = "123456789012"


class DoctorTest(ServedTest):
    def setUp(self):
        self.folder = pathlib.Path(self.served.folder)
        self.bucket = self.folder / "s3" / "bucket"
        self.bucket.mkdir(parents=True, exist_ok=True)
        self.addCleanup(self.served.command, "policy", "user")

    @property
    def environment(self):
        return self.served.environment

    def spotter(self, *words, environment=None):
        environment = {**os.environ, "AWS_EC2_METADATA_DISABLED": "true",
                       **(environment or self.environment), "AWS_REGION": REGION,
                       "AWS_ENDPOINT_URL": self.served.api, "HOME": str(self.folder),
                       "AWS_MAX_ATTEMPTS": "1"}
        return subprocess.run([SPOTTER, *map(str, words)], env=environment, text=True,
                              capture_output=True, check=False, timeout=100,
                              stdin=subprocess.DEVNULL)

    def job(self, *lines, storage="storage: {folder: {path: /data}}"):
        file = self.folder / "job.yaml"
        file.write_text("\n".join(("job: mine", "trainer: {command: ./t.sh}", storage, *lines)))
        return file

    def findings(self, job, *options, environment=None):
        """{check: [(verdict, what, advice)]}; the exit status is that of the worst."""
        done = self.spotter("doctor", job, "--json", *options, environment=environment)
        found = {}
        for one in json.loads(done.stdout):
            found.setdefault(one["check"], []).append((one["verdict"], one["what"], one["advice"]))
            self.assertEqual(one["advice"] == "", one["verdict"] == "ok", one)
        worst = max(("ok", "warn", "fail").index(each[0]) for all in found.values() for each in all)
        self.assertEqual(done.returncode, worst, done.stdout)
        return found

    def expect(self, found, check, verdict, word):
        self.assertTrue(any(each[0] == verdict and word in each[1] + " " + each[2]
                            for each in found.get(check, [])), f"{check} {verdict} {word}: {found}")


class Doctor(DoctorTest):
    def test_who_one_is(self):
        self.expect(self.findings(self.job()), "credentials", "ok",
                    f"arn:aws:iam::{ACCOUNT}:user/user, account {ACCOUNT}, region {REGION}")

    def test_without_credentials(self):
        found = self.findings(self.job(), environment={"AWS_ACCESS_KEY_ID": ""})
        self.expect(found, "credentials", "fail", "aws configure")
        self.assertNotIn("zones", found)

    def test_the_trainers_role_is_taken_for_a_try(self):
        """By the role of an instance; what the policies are not asked for here is not its."""
        done = self.served.command("instance", "add", "--zone", "us-west-2a")
        instance = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": done.stdout.split()[1],
                    "AWS_EC2_METADATA_DISABLED": "false", "AWS_ACCESS_KEY_ID": ""}

        def found(trainer):
            file = self.job()
            file.write_text(file.read_text().replace("./t.sh", f"./t.sh{trainer}"))
            return json.loads(self.spotter("doctor", file, "--json", environment=instance).stdout)

        def verdict(trainer=""):
            one, = (each for each in found(trainer) if each["check"] == "trainer's role")
            return one["verdict"], one["what"], one["advice"]
        who = next(each["what"] for each in found("") if each["check"] == "credentials")
        role = f"arn:aws:iam::{ACCOUNT}:role/{who.split('/')[1]}-trainer"
        said = verdict()
        self.assertEqual(said[0], "warn")
        self.assertIn(role, said[1])
        self.assertIn("spotter iam roles", said[2])
        self.assertEqual(verdict(", role: narrow")[0], "fail")
        self.assertEqual(verdict(", role: instance")[0], "warn")
        policy = self.folder / "policy.json"
        policy.write_text(json.dumps({"Version": "2012-10-17", "Statement": [
            {"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}))
        self.served.command("policy", f"role/{role.rpartition('/')[2]}", policy)
        self.assertEqual(verdict(), ("ok", f"{role} can be taken", ""))

    def test_places(self):
        found = self.findings(self.job(), "--types", "g5.xlarge,p3.2xlarge")
        for check in ("zones", "subnets", "types"):
            self.assertEqual([each[0] for each in found[check]], ["ok"], found)
        found = self.findings(self.job(), "--types", "x9.huge", "--zones", "us-west-2a,us-west-2z",
                              "--subnets", "subnet-of-nobody")
        self.expect(found, "zones", "fail", "us-west-2z")
        self.expect(found, "subnets", "fail", "subnet-of-nobody")
        self.expect(found, "types", "fail", "x9.huge")

    def test_a_type_that_a_zone_does_not_have(self):
        self.served.command("fault", "not-offered", "type=g6.xlarge", "zone=us-west-2b")
        self.expect(self.findings(self.job(), "--types", "g6.xlarge"), "types", "warn",
                    "us-west-2b")
        self.expect(self.findings(self.job(), "--types", "g6.xlarge", "--zones", "us-west-2b"),
                    "types", "fail", "none of these zones")

    def test_how_likely_capacity_is(self):
        """By EC2's scores, which are of no use for fewer than three types."""
        types = "g5.xlarge,g6.xlarge,p3.2xlarge"
        self.assertNotIn("capacity", self.findings(self.job(), "--types", "g5.xlarge,g6.xlarge"))
        self.served.command("fault", "capacity", "zone=us-west-2b", "instances=0")
        self.addCleanup(self.served.command, "fault", "capacity", "zone=us-west-2b",
                        "instances=any")
        self.expect(self.findings(self.job(), "--types", types), "capacity", "ok",
                    "us-west-2a 9, us-west-2b 1")
        self.expect(self.findings(self.job(), "--types", types, "--zones", "us-west-2b"),
                    "capacity", "warn", "us-west-2b 1 it may wait: name more instance types")

    def test_a_share_without_claims(self):
        self.expect(self.findings(self.job()), "storage", "warn", "claims")
        found = self.findings(self.job("claims: {at: s3://bucket/claims}"))
        self.expect(found, "storage", "ok", "/data")

    def test_a_gangs_record_needs_conditional_writes(self):
        job = self.job("gang: {size: 4, at: s3://bucket/gangs}")
        found = self.findings(job)
        self.expect(found, "storage", "ok", "/data")
        self.expect(found, "bucket", "ok",
                    "gang: s3://bucket/gangs/mine/ takes conditional writes alone")

    def test_a_volume_of_data_needs_its_snapshot(self):
        found = self.findings(self.job(storage=(
            "storage: [{state: {ebs: {tag: {Name: v}}}}, "
            "{data: {snapshot: snap-0d, mount: /mnt/d}}]")))
        self.expect(found, "data", "warn", "snap-0d for /mnt/d: this account has no such snapshot")

    def test_buckets(self):
        (self.bucket / "data").mkdir(exist_ok=True)
        (self.bucket / "data" / "one").write_text("1")
        found = self.findings(self.job(
            "channels: {train: 's3://bucket/data/', empty: 's3://bucket/nothing/'}",
            "claims: {at: s3://bucket/claims}", "publish: s3://bucket/seen"))
        self.expect(found, "bucket", "ok", "publish: s3://bucket/seen/mine/ can be written")
        self.expect(found, "bucket", "ok", "channel train")
        self.expect(found, "bucket", "fail", "channel empty: there is nothing")
        self.expect(found, "bucket", "ok", "s3://bucket/claims/mine/ can be written")
        self.assertEqual([path for path in self.bucket.rglob("doctor-*")], [], "left behind")
        found = self.findings(self.job("claims: {at: s3://no-such-bucket-here/claims}"))
        self.expect(found, "bucket", "fail", "no-such-bucket-here")

    def test_how_long_policies_are(self):
        found = self.findings(self.job())
        self.expect(found, "policies", "ok", "of 10,240 characters")
        many = "channels: {" + ", ".join(f"c{number}: 's3://bucket/{'long/' * 12}{number}/'"
                                         for number in range(80)) + "}"
        found = self.findings(self.job(many))
        self.expect(found, "policies", "warn", "spotter-trainer gets 1")
        self.expect(found, "policies", "warn", "name in trainer.reads a prefix")

    def test_a_sweep_on_batch_without_a_launch_template(self):
        batch = ("sweep:\n  grid: {lr: [1, 2]}\n  batch: {image: 'i:1', vcpus: 4, memory: 1000, "
                 "max_vcpus: 8, subnets: [subnet-1], security_groups: [sg-1]")
        self.expect(self.findings(self.job(batch + "}")), "batch", "warn", "no SIGTERM at a notice")
        self.assertNotIn("batch", self.findings(self.job(batch + ", launch_template: drains}")))

    def test_code(self):
        repository = self.folder / "repository"
        commit = "f" * 40
        code = f"code: {{repository: 'file://{repository}', revision: {commit}}}"
        self.expect(self.findings(self.job(code)), "code", "warn", str(repository))
        where = dict(cwd=repository, check=True, capture_output=True, text=True)
        repository.mkdir()
        for words in (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q",
                                       "--allow-empty", "-m", "one"]):
            subprocess.run(["git", *words], **where)
        self.expect(self.findings(self.job(code)), "code", "fail", commit[:12])
        commit = subprocess.run(["git", "rev-parse", "HEAD"], **where).stdout.strip()
        code = f"code: {{repository: 'file://{repository}', revision: {commit}}}"
        self.expect(self.findings(self.job(code)), "code", "ok", commit[:12])

    def test_what_belongs_into_the_secrets(self):
        job = self.job()
        text = job.read_text()
        secret = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET", "DB_PASSWORD_FILE_X", "db_password",
                  "TOKEN", "OPENAI_APIKEY")
        plain = ("TOKENIZERS_PARALLELISM", "MONKEY", "KEYS", "MAX_TOKENS", "SECRETARY")
        env = ", ".join(f"{name}: hunter2" for name in (*secret, *plain))
        job.write_text(text.replace("./t.sh", f"./t.sh, env: {{{env}, EMPTY_TOKEN: ''}}"))
        found = self.findings(job)
        self.assertNotIn("hunter2", str(found))
        self.assertEqual({what.split()[0] for _, what, _ in found["secrets"]},
                         {f"trainer.env.{name}" for name in secret})
        self.expect(found, "secrets", "warn", "trainer.secrets")
        batch = ("sweep:\n  grid: {lr: [1, 2]}\n  batch: {image: 'i:1', vcpus: 4, memory: 1000, "
                 "max_vcpus: 8, subnets: [subnet-1], security_groups: [sg-1], "
                 "environment: {HF_TOKEN: hunter2}}")
        self.expect(self.findings(self.job(batch)), "secrets", "warn",
                    "sweep.batch.environment.HF_TOKEN")
        job.write_text(text.replace("./t.sh", "./t.sh, secrets: {HF_TOKEN: 'ssm:/hf'}"))
        self.assertNotIn("secrets", self.findings(job))

    @unittest.skipIf(os.geteuid(), "needs root: it mounts a /dev/shm of its own")
    def test_a_containers_shared_memory_is_small(self):
        """As Docker and Kubernetes give it, where nobody asks for more."""
        def said(size):
            done = subprocess.run(
                ["unshare", "--mount", "--propagation", "private", "sh", "-c",
                 f"mount -t tmpfs -o size={size} none /dev/shm && exec \"$@\"", "sh", SPOTTER,
                 "doctor", self.job(), "--json"], text=True, capture_output=True, check=False,
                env={**os.environ, **self.environment, "AWS_ENDPOINT_URL": self.served.api})
            return [it["what"] for it in json.loads(done.stdout) if it["check"] == "shared memory"]
        self.assertRegex(said("64m")[0], "/dev/shm has 64 MiB here")
        self.assertEqual(said("1g"), [])

    def test_a_wrong_job(self):
        done = self.spotter("doctor", self.job("nonsense: 1"))
        self.assertEqual(done.returncode, 2)
        self.assertIn("nonsense", done.stderr)

    def test_lines_for_a_person(self):
        done = self.spotter("doctor", self.job())
        self.assertRegex(done.stdout, r"(?m)^ok    credentials  arn:aws")
        self.assertRegex(done.stdout, r"(?m)^warn  storage      .*: launch one")


class Volumes(DoctorTest):
    def aws(self, *words):
        environment = {**os.environ, **self.environment, "AWS_DEFAULT_REGION": REGION}
        done = subprocess.run(["aws", "--endpoint-url", self.served.api, "--output", "json", "ec2",
                               *words], env=environment, text=True, capture_output=True,
                              check=True)
        return json.loads(done.stdout or "{}")

    def volume(self, **tags):
        text = ",".join(f"{{Key={key.replace('_', ':')},Value={value}}}"
                        for key, value in tags.items())
        made = self.aws("create-volume", "--availability-zone", f"{REGION}a", "--size", "1",
                        "--tag-specifications", f"ResourceType=volume,Tags=[{text}]")
        return made["VolumeId"]

    def look(self, name):
        return self.findings(self.job(storage=f"storage: {{ebs: {{tag: {{Name: {name}}}}}}}"))

    def test_none_one_and_several(self):
        self.expect(self.look("none"), "volume", "fail", "no volume in this region")
        one = self.volume(Name="v", spotter_format="blank")
        self.expect(self.look("v"), "volume", "ok", one)
        self.expect(self.look("v"), "move", "ok", "behind the trainer in 51 s at most")
        other = self.volume(Name="v")
        self.expect(self.look("v"), "volume", "fail", "2 volumes carry")
        self.expect(self.look("v"), "volume", "fail", other)

    def test_one_that_will_be_in_the_way(self):
        self.volume(Name="theirs", spotter_job="other")
        self.expect(self.look("theirs"), "volume", "fail", "of the job other")
        self.volume(Name="finished", spotter_job="mine", spotter_done="true")
        self.expect(self.look("finished"), "volume", "warn", "spotter:done")
        self.volume(Name="new")
        self.expect(self.look("new"), "volume", "warn", "spotter:format=blank")


class Permissions(DoctorTest):
    """Under the launcher's own policy, and under one that lacks something."""

    def limit(self, job, *drop):
        done = self.spotter("iam", "launcher", job, "--account", ACCOUNT, "--region", REGION)
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        document["Statement"] = [one for one in document["Statement"] if one["Sid"] not in drop]
        file = self.folder / "launcher.json"
        file.write_text(json.dumps(document))
        limited = self.served.command("policy", "user", str(file))
        self.assertEqual(limited.returncode, 0, limited.stderr)

    def test_the_launchers_policy_is_enough_and_nothing_in_it_too_much(self):
        (self.bucket / "data").mkdir(exist_ok=True)
        (self.bucket / "data" / "one").write_text("1")
        job = self.job("channels: {train: 's3://bucket/data/'}", "claims: {at: s3://bucket/claims}")
        self.limit(job)
        self.assertEqual({each[0] for all in self.findings(job, "--types", "g5.xlarge").values()
                          for each in all}, {"ok"})
        three = self.findings(job, "--types", "g5.xlarge,g6.xlarge,p3.2xlarge")
        self.expect(three, "capacity", "ok", "us-west-2a 9")
        for drop, check in (("LookAround", "zones"), ("ReadChannels", None),
                            ("ListChannels", "bucket"), ("ReadResultsAndProbe", "bucket")):
            self.limit(job, drop)
            if check:
                self.expect(self.findings(job), check, "fail", drop)

    def test_who_launches_a_gang_may_try_its_record(self):
        job = self.job("gang: {size: 4, at: s3://bucket/gangs}")
        self.limit(job)
        self.expect(self.findings(job), "bucket", "ok", "gang: s3://bucket/gangs/mine/ takes")
        self.limit(job, "TryAndRemoveTheGangsRecord")
        self.expect(self.findings(job), "bucket", "fail", "gangs/mine/doctor")

    def test_who_launches_may_read_the_results_in_the_homes(self):
        job = self.job("sweep: {grid: {lr: [1, 2]}}", storage="storage: {s3: s3://bucket/kept}")
        head = self.bucket / "kept" / "heads" / "mine" / "1" / "head.json"
        head.parent.mkdir(parents=True)
        head.write_text(json.dumps({
            "version": 1, "epoch": 1, "state": "released", "holder": "i-1", "job": "mine:1",
            "commits": 1, "bytes": 0, "attempt": 7,
            "manifest": f"manifests/1-{'0' * 32}.json"}))
        heads = ("ReadAndDeleteHomes", "TryToWriteAndDeleteEpochs")
        for drop, status, seen in (((), 0, True), (heads[:1], 0, True), (heads, 1, False),
                                   (("ListHomesAndEpochs",), 1, False)):
            self.limit(job, *drop)
            done = self.spotter("sweep", "results", job, "--csv", "-")
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            self.assertEqual(",stopped," in done.stdout, seen, done.stdout)
            for word in ("AccessDenied", "`spotter iam launcher`"):
                self.assertEqual(word in done.stderr, bool(drop), done.stderr)

    def test_what_is_no_policy_is_refused(self):
        file = self.folder / "wrong.json"
        file.write_text('{"Version": "2012-10-17", "Statement": [{"Effect": "Perhaps"}]}')
        refused = self.served.command("policy", "user", str(file))
        self.assertEqual(refused.returncode, 1)
        self.assertIn("Effect", refused.stderr)


if __name__ == "__main__":
    unittest.main()
