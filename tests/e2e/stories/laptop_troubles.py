"""What goes wrong at a laptop: no right, no bucket, no network, Ctrl-C after each request of
`setup` and `fetch`. Each is said, by `doctor` too, and nothing is left behind or costs."""

import json
import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import between
import ec2
import harness
from emulator import NOTHING

FILES = {"result/weights.pt": b"weights" * 100_000, "result/more.txt": b"more\n"}
NO_NETWORK = "http://127.0.0.1:9"


class LaptopTroubles(harness.Story):
    job_name = "mnist"

    def setUp(self):
        super().setUp()
        self.home = self.world.workplace / "home"
        self.home.mkdir()
        self.bucket = self.world.directory / "s3/lab"

    def environment(self, **more):
        return {"PATH": "/usr/bin:/bin", "HOME": str(self.home), "TMPDIR": str(self.home),
                "AWS_ACCESS_KEY_ID": ec2.USER, "AWS_SECRET_ACCESS_KEY": self.world.secret,
                "AWS_REGION": ec2.REGION, "AWS_ENDPOINT_URL": self.world.ec2.endpoint,
                "AWS_EC2_METADATA_DISABLED": "true", "SPOTTER_RUN": str(self.world.workplace / "r"),
                **more}

    def spotter(self, *words, code=0, **more):
        done = subprocess.run([self.world.bin / "spotter", *map(str, words)], text=True,
                              env=self.environment(**more), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                              check=False, cwd=self.home)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def at_home(self):
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*"))

    def interrupted_after(self, count, *words):
        """False: it has ended by itself before that, well."""
        code, said, reached = between.interrupted(
            self.world.api, count, [self.world.bin / "spotter", *map(str, words)],
            self.environment(), cwd=self.home)
        # fetch takes away what it has begun, and says then how it was ended
        ended = (-signal.SIGINT, 128 + signal.SIGINT) if reached else (0,)
        self.assertIn(code, ended, said)
        return reached

    def assert_costs_nothing(self):
        self.assertEqual(self.ec2.instances() + self.ec2.volumes() + self.ec2.snapshots(), [])
        self.assertEqual([one for one in self.world.state()["fleets"]
                          if one["state"] != "deleted"], [])

    def test_ctrl_c_after_each_request_of_setup(self):
        count, setup = 1, ("setup", "--bucket", "lab", "--yes")
        while self.interrupted_after(count, *setup):
            self.assertEqual(self.at_home(), [], f"left after request {count}")
            count += 1
        self.assertGreater(count, 8)
        self.assertEqual((self.home / ".config/spotter/bucket").read_text(), "lab\n")
        again = self.spotter(*setup).replace("PutRolePolicy spotter-setup: done", "")
        self.assertNotIn(": done", again, "the whole of it was there")
        self.assertNotIn(": made", again)
        self.assert_costs_nothing()

    def test_a_role_that_is_full_is_named(self):
        iam = ec2.Client(self.world.ec2.endpoint, self.world.secret)
        iam.region = "us-east-1"  # IAM's own
        setup = ("setup", "--bucket", "lab", "--yes")

        def others_take(places):
            allow = {"Effect": "Allow", "Action": "s3:GetObject",
                     "Resource": [f"arn:aws:s3:::of-others-{number}/*" for number in range(places)]}
            iam.call("PutRolePolicy", "iam", RoleName="spotter", PolicyName="others",
                     PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))

        iam.call("CreateRole", "iam", RoleName="spotter", AssumeRolePolicyDocument=json.dumps(
            {"Version": "2012-10-17", "Statement": [
                {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"},
                 "Action": "sts:AssumeRole"}]}))
        others_take(300)
        self.assertRegex(self.spotter(*setup, code=1),
                         "for role spotter .LimitExceeded.: its other policies leave no room; .*"
                         "aws iam list-role-policies --role-name spotter")
        others_take(1)
        self.spotter(*setup)

    def finish_a_job(self):
        """Its home and description, in the bucket and here."""
        self.bucket.mkdir(parents=True)
        script = "".join(f"mkdir -p {pathlib.Path(name).parent}; cp {self.home}/{index} {name};"
                         for index, name in enumerate(FILES))
        for index, content in enumerate(FILES.values()):
            (self.home / str(index)).write_bytes(content)
        self.spotter("run", "--storage", "s3://lab/jobs", "--name", self.job_name, "--", "sh", "-c",
                     f"cd $SPOTTER_STORAGE; {script}", XDG_CACHE_HOME=str(self.home / "cache"))
        subprocess.run(["rm", "-r", self.home], check=True)
        self.home.mkdir()
        self.describe("lab")

    def describe(self, bucket):
        (self.home / "mnist.yaml").write_text(json.dumps({
            "job": self.job_name, "storage": {"s3": f"s3://{bucket}/jobs"},
            "trainer": {"command": "true"}, "publish": f"s3://{bucket}/spotter/"}) + "\n")

    def test_ctrl_c_after_each_request_of_fetch(self):
        self.finish_a_job()
        count = 1
        while self.interrupted_after(count, "fetch", "mnist.yaml", "result", f"out{count}"):
            self.check(f"out{count}", whole=False)
            self.spotter("fetch", "mnist.yaml", "result", f"out{count}")
            self.check(f"out{count}", whole=True)
            count += 1
        self.check(f"out{count}", whole=True)
        self.assertGreater(count, 3)
        self.assertEqual([name for name in self.at_home() if not name.startswith("out")],
                         ["mnist.yaml"])
        self.assert_costs_nothing()

    def check(self, folder, whole):
        """What is there is right, and has its own name."""
        folder = self.home / folder
        there = {str(path.relative_to(folder)): path.read_bytes()
                 for path in folder.rglob("*") if path.is_file()}
        self.assertEqual({name: FILES.get(name) for name in there}, there)
        if whole:
            self.assertEqual(there, FILES)

    def test_what_is_amiss_is_said_and_doctor_names_it(self):
        self.finish_a_job()
        nothing = self.world.workplace / "nothing-at-all.json"
        nothing.write_text(NOTHING)
        self.world.control("policy", "launcher", nothing)
        no_right = {"AWS_ACCESS_KEY_ID": ec2.LAUNCHER}
        no_network = {"AWS_ENDPOINT_URL": NO_NETWORK}
        table = [
            ("setup", ("setup", "--bucket", "other", "--yes"), no_right, "s3:CreateBucket"),
            ("setup", ("setup", "--bucket", "other", "--yes"), no_network, "127.0.0.1"),
            ("fetch", ("fetch", "mnist.yaml", "out"), no_right, "spotter iam launcher"),
            ("fetch", ("fetch", "mnist.yaml", "out"), no_network, "127.0.0.1"),
            ("logs", ("logs", "mnist.yaml"), no_right, "s3:ListBucket"),
            ("logs", ("logs", "mnist.yaml"), no_network, "127.0.0.1"),
            ("doctor", ("doctor", "mnist.yaml"), no_right, "fail "),
            ("doctor", ("doctor", "mnist.yaml"), no_network, "fail  credentials"),
        ]
        for what, words, trouble, expected in table:
            with self.subTest(what=what, trouble=trouble):
                self.refused(words, expected, **trouble)
        self.describe("gone")
        for words, expected in ((("fetch", "mnist.yaml", "out"), "there is no such bucket"),
                                (("logs", "mnist.yaml"), "there is no such bucket"),
                                (("doctor", "mnist.yaml"), "there is no such bucket")):
            with self.subTest(words=words):
                self.refused(words, expected)
        self.assert_costs_nothing()

    def test_files_of_a_job_go_into_no_folder_that_programs_obey(self):
        """A trainer names them as it likes: .profile, .git/config."""
        (self.home / "project/.git").mkdir(parents=True)
        for folder in (".", self.home, self.home.parent, "/", "project"):
            said = self.spotter("fetch", "nowhere", folder, code=2)
            self.assertIn("do not go into", said)
        for folder in ("out", "results/new", "project/out", "./out"):
            self.assertIn("there is no such file", self.spotter("fetch", "nowhere", folder, code=2))

    def refused(self, words, expected, **trouble):
        before = self.at_home()
        code = 2 if words[0] == "doctor" else 1
        said = self.spotter(*words, code=code, **trouble)
        self.assertIn(expected, said)
        self.assertEqual(self.at_home(), before, "nothing is left behind")
        self.assertNotIn("other", [path.name for path in self.bucket.parent.iterdir()])


if __name__ == "__main__":
    harness.main()
