"""Day one: an empty account, and the README's commands as they stand, to the weights on one's disk.

A person's machine is a fresh root of Debian with the checkout in which `scripts/package` was run,
and a folder with a training script; an instance is a machine with what the image of README's
job.yaml has. No command is typed that the README does not name.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import harness
import job as jobs
import root as roots
import whole
import whole_machines
from emulator import ROOT, Failed, wait

PERSON = ("awscli", "ca-certificates", "git", "libblkid1", "libcurl4", "libssl3", "libsystemd0",
          "libxxhash0", "zlib1g")
BUCKET, UBUNTU = "bucket-of-day-one", 1000
# The network of a person: AWS is the emulator, also for the `aws` of Debian 12, which does not know
# AWS_ENDPOINT_URL yet. At its own endpoint IAM is signed for us-east-1, at another one it is not.
AWS = """\
#!/bin/sh
case $1 in iam) set -- "$@" --region us-east-1 ;; esac
exec /usr/bin/aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"
"""
# What the image has: a GPU with its driver, and an environment that holds a Python.
DRIVER = {
    "nvidia-smi": "#!/bin/sh\n[ \"$1\" = -L ] || exit 0\necho 'GPU 0: Fake (UUID: GPU-0)'\n",
    "nvidia-modprobe": "#!/bin/sh\ncd /dev && touch nvidiactl nvidia-uvm nvidia0\n"}
TRAINER = """\
import argparse, os, sys, time
import spotter
options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=5)
epochs = options.parse_args().epochs
run = spotter.open()
old = run.restore()
weight = old["weight"] if old else 0
for step in range(old.step + 1 if old else 1, epochs * 8 + 1):
    time.sleep(0.3)
    weight += step
    run.progress(step)
    if run.should_checkpoint():
        run.save(step, weight=weight)
    run.stop_if_asked()
with open(os.environ["SPOTTER_STORAGE"] + "/result/weights.pt", "w") as result:
    result.write(f"{weight} {sys.prefix}")
run.finished()
"""


def readme():
    """Its commands, in their order."""
    text = (ROOT / "README.md").read_text().partition("\n## On AWS\n")[2].partition("```")[0]
    return [line.partition("  #")[0].strip() for line in text.splitlines()
            if line.startswith("    ")]


def manual():
    """The commands of spotter-aws(7) that give a user what `spotter iam launcher` prints."""
    text = (ROOT / "scripts/packaging/manual/spotter-aws.7").read_text()
    block = text.partition("\nspotter iam launcher ")
    lines = (block[1] + block[2].partition("\n.Ed\n")[0]).strip().replace("\\e\n", " ")
    return [" ".join(line.split()) for line in lines.splitlines()]


class Person:
    """Somebody at a machine of their own, with the checkout as their folder."""

    def __init__(self, place, api, keys):
        self.root = roots.Root(roots.made("person", PERSON), place)
        self.api, self.keys = api, keys
        self.checkout = self.root.shared / "spotter"
        built = self.checkout / "build/release/bin"
        built.mkdir(parents=True)
        shutil.copy(f"{harness.BINARIES}/spotter", built)
        shutil.copytree(whole.MADE, self.checkout / "build/packages")
        self.code = self.root.shared / "mnist"
        self.code.mkdir()
        (self.code / "train.py").write_text(TRAINER)
        programs = self.root.shared / "network"
        programs.mkdir()
        whole.write(programs / "aws", AWS, 0o755)

    def types(self, command, code=0, shown=True):
        """What it says on both streams; it ends with this status, or with any (None)."""
        done = self.root.run(
            "bash", "-c", 'cd /srv/mnist && PATH=/srv/spotter/build/release/bin:$PATH && eval "$1"',
            "bash", command, environment={
                "PATH": f"/srv/network:{roots.PATH}", "HOME": "/root", "AWS_REGION": "us-west-2",
                "AWS_ACCESS_KEY_ID": self.keys[0], "AWS_SECRET_ACCESS_KEY": self.keys[1],
                "AWS_ENDPOINT_URL": self.api, "AWS_EC2_METADATA_DISABLED": "true"})
        print(f"$ {command}\n{done.stdout if shown else '...'}", flush=True)
        if code is not None and done.returncode != code:
            raise Failed(f"{command}: {done.returncode}\n{done.stdout[-4000:]}")
        return done.stdout


class DayOne(whole_machines.WholeLife):
    emulator_options = ("--empty-account",)

    def setUp(self):
        super().setUp()
        self.make_image(self.world.workplace / "cloud")

    def make_image(self, layer):
        """What the instances have beside Debian: Ubuntu's user, PyTorch's environment, a GPU."""
        base = roots.made("boots", whole.PACKAGES)
        for name, line in (("passwd", f"ubuntu:x:{UBUNTU}:{UBUNTU}::/home/ubuntu:/bin/bash"),
                           ("group", f"ubuntu:x:{UBUNTU}:"), ("shadow", "ubuntu:*:20000::::::")):
            whole.write(layer / "etc" / name, (base / "etc" / name).read_text() + line + "\n")
        home = layer / "home/ubuntu"
        home.mkdir(parents=True)
        os.chown(home, UBUNTU, UBUNTU)
        environment = layer / "opt/pytorch"
        subprocess.run(["/usr/bin/python3", "-m", "venv", "--without-pip", environment], check=True,
                       timeout=120)
        for script in (environment / "bin").glob("*ctivate*"):
            script.write_text(script.read_text().replace(str(environment), "/opt/pytorch"))
        for name, text in DRIVER.items():
            whole.write(layer / "usr/bin" / name, text, 0o755)

    def person(self, name, keys):
        place = self.world.workplace / name
        place.mkdir()
        try:
            return Person(place, self.world.ec2.endpoint, keys)
        except roots.NoPackages as why:
            return self.skipTest(f"Debian's packages were not to be had: {why}")

    def fleets(self):
        return [one for one in self.world.state()["fleets"] if one["state"] != "deleted"]

    def commands(self):
        """README's, with the bucket's name in them; none waits for an answer."""
        commands = readme()
        self.assertEqual([line.split()[1] for line in commands],
                         ["setup", "init", "launch", "logs", "status", "fetch", "delete"])
        return [command.replace("my-lab", BUCKET) + (" --yes" if number in (0, 1, 6) else "")
                for number, command in enumerate(commands)]

    def test_an_administrator_types_what_the_readme_says(self):
        me = self.person("me", (ec2.USER, self.world.secret))  # who may everything
        setup, init, launch, *others = self.commands()
        me.types(setup)
        me.types(init)
        me.types(launch)  # IAM's changes may not have reached EC2 yet: it waits
        self.assertNotIn("fail ", me.types("spotter doctor job.yaml", code=None))
        self.assertIn("is there", me.types(setup), "a second time changes nothing")
        self.train(me, *others)

    def test_and_somebody_who_may_do_what_the_launchers_policy_says(self):
        """The manual's commands give it to a user; the roles are the administrator's to make."""
        me = self.person("me", (ec2.USER, self.world.secret))  # who may everything
        setup, init, launch, *others = self.commands()
        for command in (setup, init, "aws iam create-user --user-name me", *manual()):
            self.assertNotIn("error", me.types(command.replace("NAME", "me")))
        made = json.loads(me.types("aws iam create-access-key --user-name me", shown=False))
        me.keys = (made["AccessKey"]["AccessKeyId"], made["AccessKey"]["SecretAccessKey"])
        # IAM's changes may not have reached everybody: it is tried again, as the manual says.
        wait("nothing to fail",
             lambda: "fail " not in me.types("spotter doctor job.yaml", code=None), every=3)
        me.types(launch)
        self.train(me, *others)

    def train(self, person, logs, status, fetch, delete):
        one = self.wait_instance()
        self.wait_training(one, 3)
        said = person.types(status)
        self.assertIn("mnist", said)
        self.assertIn(one, said)
        self.assertIn("--- the trainer on " + one, person.types(logs))  # until the job ends
        wait("the fleet to be cancelled", lambda: not self.fleets())
        wait("the instances to be gone", lambda: all(
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()))
        volume, = self.ec2.volumes()
        self.assertEqual(volume.tags().get("spotter:done"), "true")
        person.types(fetch)
        weights = person.code / "out/result/weights.pt"
        self.assertEqual(weights.read_text(), f"{sum(range(1, 41))} /opt/pytorch")
        self.assertIn(volume.text("volumeId"), person.types(delete))
        self.assertEqual(self.ec2.volumes(), [])
        left = [path for path in (self.world.directory / "s3" / BUCKET).rglob("*")
                if path.is_file() and "/packages/" not in str(path)]
        self.assertEqual(left, [])
        self.assertIn("nothing is left of mnist", person.types(delete))


if __name__ == "__main__":
    harness.main()
