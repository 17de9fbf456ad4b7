"""From a laptop to a trained model on its disk: README's commands as they stand, in an empty
account.

The laptop is a fresh root of Debian without systemd, the repository or libcurl: an ordinary user
with a terminal, the wheel, and a folder with a training script. An administrator runs `setup` for
that user, who from then on may do what `spotter iam launcher` prints. An instance is a machine with
what the image of README's job.yaml has. No command is typed that the README does not name.
"""

import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import harness
import root as roots
import terminal
import whole
import whole_machines
from emulator import ROOT, Failed, wait

LAPTOP = ("awscli", "git", "python3-venv")
BUCKET, UBUNTU, ME = "bucket-of-the-lab", 1000, 1234
# AWS is the emulator, also for the `aws` of Debian 12, which does not know AWS_ENDPOINT_URL yet.
AWS = """\
#!/bin/sh
exec /usr/bin/aws --endpoint-url "$AWS_ENDPOINT_URL" "$@"
"""
# What the image has: a GPU with its driver, and an environment that holds a Python.
DRIVER = {
    "nvidia-smi": "#!/bin/sh\n[ \"$1\" = -L ] || exit 0\necho 'GPU 0: Fake (UUID: GPU-0)'\n",
    "nvidia-modprobe": "#!/bin/sh\ncd /dev && touch nvidiactl nvidia-uvm nvidia0\n"}
TRAINER = """\
import argparse, hashlib, os, sys, time
import spotter
options = argparse.ArgumentParser()
options.add_argument("--epochs", type=int, default=5)
epochs = options.parse_args().epochs
run = spotter.open()
old = run.restore()
weight = old["weight"] if old else 0
for step in range(old.step + 1 if old else 1, epochs * 8 + 1):
    weight += step
    run.progress(step)
    print(f"step {step}", flush=True)
    run.save(step, weight=weight)
    while step == 12:  # until its machine is taken away
        run.stop_if_asked()
        time.sleep(0.1)
    run.stop_if_asked()
with open(os.environ["SPOTTER_STORAGE"] + "/result/weights.pt", "wb") as result:
    result.write(hashlib.shake_256(f"{weight} {sys.prefix}".encode()).digest(3_000_000))
run.finished()
"""
STEPS = list(range(1, 41))
WEIGHTS = hashlib.shake_256(f"{sum(STEPS)} /opt/pytorch".encode()).digest(3_000_000)


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


class Laptop:
    """Its user's home is /home/me; commands are typed in one of its folders."""

    def __init__(self, place, api):
        self.root = roots.Root(roots.made("laptop", LAPTOP), place)
        layer, self.api = place / "upper", api
        for name, line in (("passwd", f"me:x:{ME}:{ME}::/home/me:/bin/bash"),
                           ("group", f"me:x:{ME}:")):
            whole.write(layer / "etc" / name, (self.root.base / "etc" / name).read_text()
                        + line + "\n")
        whole.write(layer / "usr/local/bin/aws", AWS, 0o755)
        self.home = layer / "home/me"
        for folder in ("mnist", "administrator/mnist"):
            whole.write(self.home / folder / "train.py", TRAINER)
        wheel = whole.package("spotter-*.whl")
        shutil.copy(wheel, self.home)
        self.own(self.home)
        self.run("python3 -m venv ~/venv", (), "")
        self.before = self.files()

    @staticmethod
    def own(folder):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, ME, ME, follow_symlinks=False)

    def files(self):
        """All that was written there, by name, without what Python compiled."""
        layer = self.root.place / "upper"
        return {str(path.relative_to(layer)) for path in layer.rglob("*")
                if "__pycache__" not in str(path)}

    def words(self, command, keys, folder):
        user = ["setpriv", f"--reuid={ME}", f"--regid={ME}", "--clear-groups", "--no-new-privs",
                "--bounding-set=-all", "--inh-caps=-all"]
        return self.root.enter(
            [*user, "bash", "-c", f'cd ~/{folder} && PATH=~/venv/bin:$PATH && eval "$1"', "bash",
             command], {"HOME": "/home/me", "USER": "me", "TERM": "xterm",
                        "AWS_REGION": "us-west-2", "AWS_ENDPOINT_URL": self.api,
                        **(dict(zip(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), keys)))})

    def run(self, command, keys, folder="mnist", code=0, shown=True):
        """What it says on both streams; it ends with this status, or with any (None)."""
        done = subprocess.run(self.words(command, keys, folder), check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=roots.PATIENCE)
        print(f"$ {command}\n{done.stdout if shown else '...'}", flush=True)
        if code is not None and done.returncode != code:
            raise Failed(f"{command}: {done.returncode}\n{done.stdout[-4000:]}")
        return done.stdout


class FromALaptop(whole_machines.WholeLife):
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

    def make_laptop(self):
        place = self.world.workplace / "laptop"
        place.mkdir()
        try:
            return Laptop(place, self.world.ec2.endpoint)
        except roots.NoPackages as why:
            return self.skipTest(f"Debian's packages were not to be had: {why}")

    def types(self, command, keys, folder="mnist"):
        """At a terminal, where all that is asked gets the answer that stands there, or yes."""
        me = terminal.Terminal(self, self.laptop.words(command, keys, folder))
        while me.process.poll() is None and me.read(0.1):
            fresh = me.shown[me.answered:].rstrip(" ")
            if fresh.endswith("[y/N]"):
                me.type("y\n")
            elif fresh.endswith("when it has finished [none]:"):
                me.type("result/weights.pt\n")
            elif fresh.endswith("]:"):
                me.type("\n")
            elif "\nstep 3\n" in fresh and "--logs" in command:
                me.type(terminal.INTERRUPT)  # it has been seen to train
        print(f"$ {command}\n{me.rest()}", flush=True)
        return me

    def ends_well(self, command, keys, folder="mnist"):
        me = self.types(command, keys, folder)
        self.assertEqual(me.ended(), 0, me.shown)
        return me.shown

    def fleets(self):
        return [one for one in self.world.state()["fleets"] if one["state"] != "deleted"]

    def launcher(self, administrator):
        """The keys of a user who may do what `spotter iam launcher` prints for such a job."""
        folder = "administrator/mnist"
        self.laptop.run("spotter init --yes", administrator, folder)
        for command in ("aws iam create-user --user-name me", *manual()):
            self.assertNotIn("error", self.laptop.run(command.replace("NAME", "me"),
                                                      administrator, folder))
        made = json.loads(self.laptop.run("aws iam create-access-key --user-name me",
                                          administrator, folder, shown=False))["AccessKey"]
        keys = made["AccessKeyId"], made["SecretAccessKey"]
        # IAM's changes may not have reached everybody: it is tried again, as the manual says.
        wait("nothing to fail", lambda: "fail " not in self.laptop.run(
            "spotter doctor job.yaml", keys, folder, code=None), every=3)
        return keys

    def test_the_commands_of_the_readme_bring_the_weights_and_leave_nothing(self):
        self.laptop = self.make_laptop()
        pip, setup, launch, logs, fetch, delete = [
            line.replace("my-lab", BUCKET) for line in readme()]
        administrator = (ec2.USER, self.world.secret)  # who may everything
        self.ends_well(pip, (), "")
        self.assertIn("made", self.ends_well(setup, administrator))
        keys = self.launcher(administrator)
        me = self.types(launch, keys)
        self.assertEqual(steps_in(me.shown)[:3], STEPS[:3])
        one = self.wait_instance()
        me = terminal.Terminal(self, self.laptop.words(logs, keys, "mnist"))
        me.until(lambda shown: "\nstep 12\n" in shown)
        self.notice(one, 40)
        two = self.wait_instance([one])
        self.assertEqual(me.ended(), 0, me.shown)
        print(f"$ {logs}\n{me.shown}", flush=True)
        self.assertEqual(steps_in(me.shown), STEPS, "none twice, none missing")
        for machine in (one, two):
            self.assertEqual(me.shown.count(f"--- the trainer on {machine}, "), 1)
        self.ended_well()
        self.assertIn(" into ./out", self.ends_well(fetch, keys))
        weights = self.laptop.home / "mnist/out/result/weights.pt"
        self.assertEqual(weights.read_bytes(), WEIGHTS)
        self.check_deleted(delete, keys)
        self.check_removed()

    def ended_well(self):
        wait("the fleet to be cancelled", lambda: not self.fleets())
        wait("the instances to be gone", lambda: all(
            it.text("instanceState/name") == "terminated" for it in self.ec2.instances()))
        volume, = self.ec2.volumes()
        self.assertEqual(volume.tags().get("spotter:done"), "true")

    def check_deleted(self, delete, keys):
        volume, = self.ec2.volumes()
        self.assertIn(volume.text("volumeId"), self.ends_well(delete, keys))
        self.assertEqual(self.ec2.volumes(), [])
        left = [path for path in (self.world.directory / "s3" / BUCKET).rglob("*")
                if path.is_file() and "/packages/" not in str(path)]
        self.assertEqual(left, [])
        self.assertIn("nothing is left of mnist", self.ends_well(delete, keys))

    def check_removed(self):
        """Pip takes away all that it brought; a person's own files are all that is left."""
        self.laptop.run("pip uninstall --yes spotter", (), "")
        more = self.laptop.files() - self.laptop.before
        allowed = ("home/me/mnist/", "home/me/administrator/", "home/me/.config", "home/me/.aws",
                   "home/me/.cache")
        self.assertEqual([name for name in sorted(more) if not name.startswith(allowed)], [])


def steps_in(text):
    return list(map(int, re.findall(r"^step (\d+)$", text, re.M)))


if __name__ == "__main__":
    harness.main()
