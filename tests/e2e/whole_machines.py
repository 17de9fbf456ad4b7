"""A job's life on instances that are whole machines: systemd, a service, a journal."""

import pathlib
import re
import shutil
import subprocess
import unittest

import ec2
import harness
import job as jobs
import life
import root as roots
import volumes
import whole
from emulator import wait

MEMORY = pathlib.Path("/sys/fs/cgroup/memory")


def killed(group):
    """How many of a group the kernel has killed for want of memory."""
    return int(re.search(r"oom_kill (\d+)", (group / "memory.oom_control").read_text())[1])


@unittest.skipIf(whole.missing(), f"skipped: {whole.missing()}")
class WholeLife(life.Life):
    suite = ""  # of Debian: this machine's

    def make_world(self):
        linked = subprocess.run(["ldd", f"{harness.BINARIES}/spotter"], capture_output=True,
                                text=True, check=False)
        if "libasan" in linked.stdout:
            self.skipTest("the instances' root has no sanitizers")
        try:
            return whole.Machines(harness.BINARIES, name="whole", options=self.emulator_options,
                                  suite=self.suite)
        except roots.NoPackages as why:
            return self.skipTest(f"Debian's packages were not to be had: {why}")

    # As a user launches it, onto machines that know nothing of Spotter

    package = "spotter_*.deb"  # of those that scripts/package has made

    def offer(self):
        """The package in a bucket: launch.package."""
        file = whole.package(self.package)
        bucket = self.world.directory / "s3/packages"
        bucket.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, bucket)
        return {"s3": f"s3://packages/{file.name}", "sha256": volumes.sha256(file)}

    def spotter(self, *words, code=0):
        done = subprocess.run([self.world.bin / "spotter", *words], env=self.world.launcher(),
                              text=True, capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def launch(self, job, restart=True, zones=None, besides=(), before="", **more):
        job["launch"] = {
            "type": "spot-fleet", "image": "resolve:ssm:/aws/service/debian/12",
            "instance_types": ["g5.xlarge"], "zones": zones or [self.zone],
            "profile": ec2.ROLE, "fleet_role": f"arn:aws:iam::{ec2.ACCOUNT}:role/fleet",
            "package": self.offer(), **more}
        text = jobs.yaml(job) + "\n"
        self.file = self.world.workplace / "job.yaml"
        self.file.write_text(text)
        self.world.allow_only(text)
        self.fleet = self.spotter("launch", self.file).stdout.strip()
        self.instance = self.wait_instance(besides)
        return self.instance

    def job(self, env=None, trainer=None, bound="1s", ebs=None, **more):
        job = super().job(env=env, trainer=trainer, bound=bound, **more)
        job["storage"]["ebs"].update({"mount": "/mnt/spotter", **(ebs or {})})
        return job

    def wait_instance(self, besides=()):
        return super().wait_instance(besides)

    # What a machine shows

    def trainers(self, instance):
        """As process ids of the instance."""
        return self.world.run(instance, "pgrep", "-f", "^/usr/bin/python3.*train.py",
                              check=False).split()

    def agent(self, instance):
        return self.world.run(instance, "systemctl", "show", "-P", "MainPID", "spotter").strip()

    def starve(self, instance, pid):
        """Gives a process of the instance no memory beyond what it has: the kernel kills it."""
        pid = self.world.number_here(instance, pid)
        group = MEMORY / f"{self.world.workplace.name}-{pid}"
        if not MEMORY.is_dir():
            self.skipTest("the memory controller is not mounted as cgroup v1")
        group.mkdir()
        self.addCleanup(group.rmdir)
        (group / "memory.limit_in_bytes").write_text("4096")
        before = killed(group)
        (group / "cgroup.procs").write_text(str(pid))
        wait("the kernel to kill it", lambda: killed(group) > before)

    def wait_journal(self, instance, pattern, unit="spotter"):
        """Until the journal says it; gives back the match."""
        def said():
            return re.search(pattern, self.world.journal(instance, "-u", unit, "-o", "cat"), re.I)
        return wait(f"the journal to say /{pattern}/", said)
