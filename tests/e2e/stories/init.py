"""`spotter init`: the job.yaml that it writes is launched as it is; at a terminal it asks; without
credentials it says what it could not look up; broken off, it leaves nothing."""

import pathlib
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import harness
import job as jobs
import terminal
from emulator import NOTHING, wait

NO_PACKAGE = ("spotter init: change in job.yaml: launch.package: the image has no Spotter "
              "(--bucket)\n")


class Init(harness.Story):
    def setUp(self):
        super().setUp()
        self.folder = self.world.workplace / "checkout"
        self.folder.mkdir()
        self.file = self.folder / "job.yaml"

    def git(self, *words, folder=None):
        who = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
               for what, value in (("NAME", "me"), ("EMAIL", "me@example.com"))}
        return subprocess.run(["git", "-C", folder or self.folder, *words], check=True, text=True,
                              env={**self.environment(), "GIT_CONFIG_NOSYSTEM": "1", **who},
                              capture_output=True).stdout.strip()

    def checkout(self):
        """A checkout whose remote is on GitHub and has its commit; gives back that commit's id."""
        self.git("init", "-q", "-b", "main")
        (self.folder / "train.py").write_text("print()\n")
        self.git("add", ".")
        self.git("commit", "-q", "-m", "The trainer")
        commit = self.git("rev-parse", "HEAD")
        self.git("remote", "add", "origin", "git@github.com:me/My_Net.git")
        self.git("update-ref", "refs/remotes/origin/main", commit)
        return commit

    def environment(self):
        return {**self.world.launcher(), "AWS_EC2_METADATA_DISABLED": "true"}

    def spotter(self, *words, code=0, **environment):
        done = subprocess.run([self.world.bin / "spotter", *words], cwd=self.folder, text=True,
                              env={**self.environment(), **environment}, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def checked(self):
        self.spotter("agent", "--check", "--job", self.file)
        return self.file.read_text()

    def let_launch(self):
        """Somebody who may do what `spotter iam launcher` prints for a job."""
        launch = {"image": "ami-0123", "instance_types": ["g5.xlarge"], "zones": self.world.zones,
                  "profile": ec2.ROLE}
        self.world.allow_only(jobs.yaml(self.job(launch=launch)) + "\n")

    def fleet_works(self, done):
        fleet = done.stdout.strip()
        return self.ec2.call("DescribeFleets", FleetId=[fleet]).items("fleetSet")

    def test_what_flags_say_is_launched_as_it_was_written(self):
        self.let_launch()
        done = self.spotter(
            "init", "--name", "first", "--repository", str(self.repository), "--revision",
            self.revision, "--command", "./train.py", "--user", jobs.trainer_user(), "--result",
            "result/weights.bin", "--volume-size", "1")
        self.assertEqual(done.stderr, NO_PACKAGE, "nothing else is to be changed")
        self.assertIn(f"spotter iam roles job.yaml --account {ec2.ACCOUNT} --region {ec2.REGION}",
                      done.stdout)
        for command in ("doctor", "launch", "status --job", "stop"):
            self.assertIn(f"\n  spotter {command} job.yaml ", done.stdout)
        text = self.checked()
        self.assertIn(f"zones: [{', '.join(self.world.zones)}]", text)
        self.world.allow_only(text)
        policy = self.world.workplace / "launcher.json"  # of the role that the file names
        policy.write_text(self.spotter("iam", "launcher", "job.yaml", "--account",
                                       ec2.ACCOUNT).stdout)
        self.world.control("policy", "launcher", policy)
        launched = self.spotter("launch", "job.yaml")
        self.assertEqual(len(self.fleet_works(launched)), 1)
        volume, = self.ec2.volumes()
        self.assertEqual(volume.tags()["Name"], "first")
        wait("an instance", self.ec2.instances)
        self.spotter("stop", "first", "--wait")

    def test_it_takes_what_checkout_and_account_have(self):
        commit = self.checkout()
        self.let_launch()
        self.assertEqual(self.spotter("init", "--bucket", "mine").stderr, "")
        self.assertIn('  package: {s3: "s3://mine/packages/"}', self.checked())
        self.file.unlink()
        self.assertEqual(self.spotter("init").stderr, NO_PACKAGE)
        text = self.checked()
        for line in ("job: my-net ", "  repository: https://github.com/me/My_Net.git\n",
                     f"  revision: {commit}\n", "  command: python3 train.py ", "  gpus: 1 ",
                     "  instance_types: [g5.xlarge, g6.xlarge, g4dn.xlarge]\n"):
            self.assertIn(line, text)
        self.assertEqual(self.spotter("init", code=2).stderr,
                         "spotter init: job.yaml is there already: remove it, or name another "
                         "file\n")
        self.assertEqual(self.file.read_text(), text)
        (self.folder / "train.py").write_text("print(1)\n")
        changed = self.spotter("init", "second.yaml").stderr
        self.assertIn("changes that are not committed", changed)
        self.git("commit", "-q", "-a", "-m", "More")
        self.assertIn("push it before", self.spotter("init", "third.yaml").stderr)

    def test_it_says_what_is_amiss_in_the_account(self):
        self.let_launch()
        quota = self.world.directory / "quotas/L-3819A6DF"
        quota.parent.mkdir(exist_ok=True)
        quota.write_text("0")
        said = self.spotter("init", "--zones", "us-west-2a,us-west-2z").stderr
        self.assertRegex(said, r"fail  quota +.*L-3819A6DF\) is 0 vCPUs")
        self.assertRegex(said, "fail  zones +this account has no us-west-2z")
        self.assertIn("change in job.yaml: code.repository", said)
        self.assertIn("change in job.yaml: code.revision", said)
        self.checked()

    def test_without_permission_it_writes_what_it_knows(self):
        nothing = self.world.workplace / "none.json"
        nothing.write_text(NOTHING)
        self.world.control("policy", "launcher", nothing)
        said = self.spotter("init").stderr
        self.assertRegex(said, "fail  zones +DescribeAvailabilityZones: .*UnauthorizedOperation")
        self.assertIn("zones: [us-west-2a, us-west-2b]", self.checked())

    def test_without_credentials_or_region_it_writes_and_says_what_it_does_not_know(self):
        done = self.spotter("init", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY="", AWS_REGION="")
        self.assertRegex(done.stderr, "(?m)^spotter init: zones, default subnets, instance types "
                                      "and quotas were not looked up: .+$")
        self.assertIn("no region is configured: us-west-2 is taken", done.stderr)
        self.assertIn("change in job.yaml: trainer.command, unless the checkout has train.py",
                      done.stderr)
        self.assertIn("export AWS_REGION=us-west-2\n", done.stdout)
        self.assertIn("--account $(aws sts get-caller-identity ", done.stdout)
        self.checked()

    def test_without_a_network_too(self):
        said = self.spotter("init", AWS_ENDPOINT_URL="http://127.0.0.1:9").stderr
        self.assertIn("were not looked up: GetCallerIdentity", said)
        self.checked()

    def test_a_wrong_flag_writes_nothing(self):
        for flag, value, word in (("--name", "My Job", "Name of the job"),
                                  ("--revision", "main", "Commit, its full id"),
                                  ("--types", "m7g.large", "no image is known here"),
                                  ("--types", ",", "Instance types"),
                                  ("--region", "x/y", "such as us-west-2"),
                                  ("--volume-size", "large", "Volume's size")):
            with self.subTest(flag=flag, value=value):
                self.assertIn(word, self.spotter("init", flag, value, code=2).stderr)
                self.assertEqual(list(self.folder.iterdir()), [])

    # At a terminal

    def at_terminal(self, *words):
        return terminal.Terminal(self, [self.world.bin / "spotter", *words], cwd=self.folder,
                                 env=self.environment())

    def test_at_a_terminal_it_asks_for_what_no_flag_gave(self):
        self.let_launch()
        me = self.at_terminal("init", "--user", "me", "--bucket", "none")
        me.answer("Name of the job [checkout]:", "Not A Name")
        me.answer("Name of the job [checkout]:", "net")
        me.answer("Code: . for the files here, or a git repository "
                  "[https://github.com/me/train.git]:", "https://example.com/net.git")
        me.answer("Commit, its full id "
                  "[0123456789abcdef0123456789abcdef01234567]:", "1" * 40)
        me.answer("Command that trains [python3 train.py]:", "./go: fast")
        me.answer("File that is there when it has finished [none]:", "out.pt")  # the volume's root
        me.answer("File that is there when it has finished [none]:", "result/out.pt")
        me.answer(f"Region [{ec2.REGION}]:", "")
        me.answer("Instance types [g5.xlarge,g6.xlarge,g4dn.xlarge]:", "m5.large")
        me.answer("Zones [us-west-2a,us-west-2b]:", "us-west-2b")
        me.until("hvm/ebs-gp3/ami-id]:")
        me.type("\n")
        me.answer("Volume's size in GiB, or none: only the bucket [100]:", "many")
        me.answer("Volume's size in GiB, or none: only the bucket [100]:", "8")
        self.assertIn("is written", me.rest())
        self.assertEqual(me.process.wait(60), 0)
        text = self.checked()
        for line in ("job: net ", "  repository: https://example.com/net.git ",
                     f"  revision: {'1' * 40}\n", "  command: \"./go: fast\" ", "  user: me ",
                     "  gpus: 0 ", "  result: result/out.pt ", "  instance_types: [m5.large] ",
                     "  zones: [us-west-2b] ", "  volume: {size: 8} "):
            self.assertIn(line, text)

    def test_interrupted_in_the_middle_it_leaves_nothing(self):
        me = self.at_terminal("init")
        me.answer("Name of the job [checkout]:", "net")
        me.until("Code: . for the files here, or a git repository [.]:")
        me.type(terminal.INTERRUPT)
        self.assertEqual(me.process.wait(60), -signal.SIGINT)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_where_the_input_ends_it_leaves_nothing(self):
        me = self.at_terminal("init")
        me.until("Name of the job [checkout]:")
        me.type(terminal.END)
        self.assertIn("the input ended; nothing was written", me.rest())
        self.assertEqual(me.process.wait(60), 2)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_yes_asks_nothing_at_a_terminal(self):
        self.let_launch()
        me = self.at_terminal("init", "--yes")
        self.assertIn("is written", me.rest())
        self.assertEqual(me.process.wait(60), 0)
        self.checked()


if __name__ == "__main__":
    harness.main()
