"""EFS through its mount helper: what it is called with, and that the job works on what it mounts.
The helper (amazon-efs-utils is no Debian package) is one of ours, seen by this test alone."""

import json
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import emulator
import fake_trainer
import harness
import run
import sshd

HELPER = """#!/bin/sh
echo "$@" >>{place}/called
exec mount --bind {folder} "$2"
"""


@unittest.skipIf(run.os.geteuid() != 0, "needs root: it mounts")
class Efs(run.RunCase):
    def setUp(self):
        sshd.own_mounts()
        super().setUp()
        # mount(8) looks for helpers in its own folders only: this test sees a copy of one.
        programs = self.place / "sbin"
        shutil.copytree("/usr/sbin", programs, symlinks=True)
        helper = programs / "mount.efs"
        helper.write_text(HELPER.format(place=self.place, folder=self.storage))
        helper.chmod(0o755)
        subprocess.run(["mount", "--bind", programs, "/usr/sbin"], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", "/usr/sbin"], check=True)
        self.environment["SPOTTER_MOUNTS"] = str(self.place / "mounts")
        self.mount = self.place / "mnt"

    def finish(self, **share):
        job = self.place / "job.yaml"
        job.write_text(json.dumps({
            "job": "one", "trainer": {"command": f"/usr/bin/python3 {run.TRAINER}"},
            "storage": {"efs": {"id": "fs-0123abcd", "mount": str(self.mount), **share}}}))
        with open(self.output, "ab") as output:
            process = subprocess.Popen(
                [f"{harness.BINARIES}/spotter", "run", "--job", job], env=self.environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                start_new_session=True)
        self.assertEqual(self.end(process), 0, self.output.read_text())

    def test_an_access_point_over_tls(self):
        self.finish(access_point="fsap-0123", options="iam")
        source, place, *options = (self.place / "called").read_text().split()
        self.assertEqual((source, place), ("fs-0123abcd:/", str(self.mount)))
        given = ",".join(options).split(",")
        for option in ("_netdev", "nosuid", "nodev", "tls", "accesspoint=fsap-0123", "iam"):
            self.assertIn(option, given)
        self.assertEqual((self.storage / "one" / "result" / "weights.bin").read_text(),
                         fake_trainer.result_of(self.steps))
        self.assertNotIn(str(self.mount), emulator.mounts(self.place))


if __name__ == "__main__":
    harness.main()
