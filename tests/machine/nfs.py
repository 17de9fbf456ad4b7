#!/usr/bin/python3
"""Storage on NFS: Debian's kernel server in one virtual machine, `spotter run` in another.

The server keeps its exports and its clients' state on a disk of its own, so that it may lose its
power; its lease is 10 s, so that its grace after a start is, too.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import image
import machine
from emulator import Failed, leftovers, sweep, tail, wait
import fake_trainer
import harness

CARGO = (f"{harness.BINARIES}/spotter", fake_trainer.__file__)
DISK = 64 << 20
SERVE = """
set -e
mkdir -p /srv; mount -t ext4 /dev/vda /srv
mkdir -p /srv/state /srv/export; [ -e /srv/begun ] || chown worker /srv/export; touch /srv/begun
rm -rf /var/lib/nfs/nfsdcld; ln -s /srv/state /var/lib/nfs/nfsdcld; touch /etc/exports
mount -t nfsd nfsd /proc/fs/nfsd
echo 10 >/proc/fs/nfsd/nfsv4leasetime; echo 10 >/proc/fs/nfsd/nfsv4gracetime
echo 1048576 >/proc/fs/nfsd/max_block_size  # by itself it offers what its little memory allows
nfsdcld; rpc.mountd -N 2 -N 3
exportfs -o {options} '*:/srv/export'
rpc.nfsd -N 3 4
"""
EXPORT = "rw,sync,no_subtree_check,insecure"  # insecure: clients with noresvport
MOUNT = "/mnt/share"
RUN = """
mkdir -p /tmp/{name}/run /tmp/{name}/journal; chmod 777 /tmp/{name}/journal; cd /tmp/{name}
cat >job.yaml <<'END'
{job}
END
export SPOTTER_RUN=/tmp/{name}/run JOURNAL=/tmp/{name}/journal FORMAT=spotter {variables}
export AWS_EC2_METADATA_SERVICE_ENDPOINT=http://127.0.0.1:9
echo $$ >pid; exec spotter run --job job.yaml >>output 2>&1
"""


def place_for_images():
    """Made once a run of the tests, else for this test only (None)."""
    shared = os.environ.get("SPOTTER_TEST_DIRECTORY")
    return pathlib.Path(shared) / "machine" if shared else None


@unittest.skipIf(machine.why_not(), machine.why_not())
class Nfs(unittest.TestCase):
    steps = 40

    def setUp(self):
        parent = os.environ.get("SPOTTER_TEST_DIRECTORY") or "/var/tmp"
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="spotter-nfs-", dir=parent))
        self.machines = []
        self.addCleanup(self._end)
        pictures = place_for_images() or self.place / "image"
        if not (pictures / "root.cpio").exists():
            image.build(pictures, CARGO)
        disk = self.place / "disk"
        disk.touch()
        os.truncate(disk, DISK)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-m", "0", disk], check=True,
                       env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin"})
        wire = self.place / "wire"
        wire.mkdir()
        self.server = machine.Machine(self.place / "server", pictures, wire, 1, disk=disk)
        self.client = machine.Machine(self.place / "client", pictures, wire, 2)
        self.machines = [self.server, self.client]
        for one in self.machines:
            one.start()
        self.serve()
        self.client.wait_ready()
        self.began = {}

    def _end(self):
        outcome = self._outcome.result
        if any(test is self for test, _ in outcome.failures + outcome.errors):
            for one in self.machines:
                print(f"--- {one.place.name}\n{tail(one.log)}", file=sys.stderr)
        for one in self.machines:
            one.kill()
        remains = leftovers(self.place)
        sweep(self.place)
        shutil.rmtree(self.place, ignore_errors=True)
        self.assertEqual(remains, [], "left behind")

    # Given

    def serve(self):
        self.server.wait_ready()
        self.server.sh(SERVE.format(options=EXPORT))

    def export(self, options):
        self.server.sh(f"exportfs -u '*:/srv/export'; exportfs -o {options} '*:/srv/export'; "
                       "exportfs -f")

    def run_job(self, name, **variables):
        job = {"job": name, "storage": {"nfs": {"server": self.server.address,
                                                "path": "/srv/export", "mount": MOUNT}},
               "trainer": {"command": "python3 /opt/fake_trainer.py", "user": "worker"},
               "on_failure": {"attempts_without_progress": 100, "then": "hold"}}
        variables = {"STEPS": self.steps, "PACE": 0.3, **variables}
        words = " ".join(f"{key}={value}" for key, value in variables.items())
        self.began[name] = self.client.begin(RUN.format(name=name, job=json.dumps(job),
                                                        variables=words))

    def notice(self, name):
        self.client.sh(f"kill -TERM $(cat /tmp/{name}/pid)")

    # Then

    def output(self, name):
        return self.client.sh(f"cat /tmp/{name}/output")

    def steps_of(self, name):
        lines = self.client.sh(f"cat /tmp/{name}/journal/* 2>/dev/null || true")
        return [int(line.split()[1]) for line in lines.splitlines()]

    def wait_steps(self, *names, more=3):
        before = {name: len(self.steps_of(name)) for name in names}
        for name in names:
            try:
                wait(f"steps of {name}", lambda name=name: len(self.steps_of(name))
                     >= before[name] + more, every=1)
            except Failed as failure:
                raise Failed(f"{failure}\n{self.output(name)[-3000:]}") from None

    def wait_words(self, name, words, seconds=240):
        try:
            wait(f"{name} to say {words}", lambda: words in self.output(name), seconds, every=1)
        except Failed as failure:
            raise Failed(f"{failure}\n{self.output(name)[-3000:]}") from None

    def says(self, name):
        text = self.client.sh(f"cat /tmp/{name}/run/status.json 2>/dev/null || echo '{{}}'")
        return json.loads(text).get("storage_says") or ""

    def mounts(self):
        return [line for line in self.client.sh("cat /proc/mounts").splitlines()
                if line.split()[1] == MOUNT]

    def end(self, name, status=0):
        ended, _ = self.client.result(self.began.pop(name), 400)
        self.assertEqual(ended, status, self.output(name)[-3000:])

    def assert_ended_well(self, name, kills=0):
        self.end(name)
        done = self.steps_of(name)
        self.assertEqual(done, sorted(set(done)), "a durable step was lost and done again")
        self.assertLessEqual(len(set(range(1, self.steps + 1)) - set(done)), kills)
        self.assertEqual(self.server.sh(f"cat /srv/export/{name}/result/weights.bin"),
                         fake_trainer.result_of(self.steps))

    # The stories

    def test_two_jobs_share_a_mount_with_the_options_of_the_article(self):
        self.run_job("one")
        self.wait_steps("one")
        found, = self.mounts()
        source, _, kind, options = found.split()[:4]
        self.assertEqual((source, kind), (f"{self.server.address}:/srv/export", "nfs4"))
        for option in ("vers=4.1", "rsize=1048576", "wsize=1048576", "hard", "timeo=600",
                       "retrans=2", "noresvport", "nosuid", "nodev"):
            self.assertIn(option, options.split(","))
        self.run_job("two", STEPS=100000)
        self.wait_steps("two")
        self.assert_ended_well("one")
        self.assertEqual(len(self.mounts()), 1, "the other one still works there")
        self.wait_steps("two")
        self.notice("two")
        self.end("two", 75)
        self.assertEqual(self.mounts(), [])
        newest = max(self.steps_of("two"))
        self.server.sh(f"test -e /srv/export/two/checkpoints/step-{newest:012d}/manifest.json")

    def test_a_server_that_loses_its_power_in_mid_checkpoint(self):
        self.run_job("one")
        for _ in range(2):
            self.wait_steps("one")
            durable = max(self.steps_of("one"))
            self.server.kill()
            self.server.start()
            self.serve()
            kept = self.server.sh("ls /srv/export/one/checkpoints").split()
            newest = max(int(name[5:]) for name in kept if name.startswith("step-"))
            self.assertGreaterEqual(newest, durable, "what was durable is gone")
        self.wait_steps("one")
        self.assert_ended_well("one")

    def test_a_network_that_is_away_for_a_minute_and_a_half(self):
        self.run_job("one")
        self.wait_steps("one")
        self.server.link(up=False)
        wait("the agent to say what hangs", lambda: "does not answer" in self.says("one"),
             every=1)
        self.assertIn(f"{self.server.address}:/srv/export", self.says("one"))
        time.sleep(90)
        self.server.link(up=True)
        wait("the agent to say that it is well", lambda: not self.says("one"), every=1)
        self.assert_ended_well("one")

    def test_a_notice_while_the_network_is_away_is_seen_and_kept(self):
        self.run_job("one")
        self.wait_steps("one")
        self.server.link(up=False)
        wait("the agent to say what hangs", lambda: self.says("one"), every=1)
        self.notice("one")
        self.end("one", 75)
        self.assertEqual(self.mounts(), [], "it released what hangs")
        self.server.link(up=True)
        self.run_job("one")
        self.assert_ended_well("one", kills=1)

    def test_a_server_without_room(self):
        self.steps = 200  # filling the disk takes its time
        self.run_job("one")
        self.wait_steps("one")

        def failed():
            # Again: what the trainer removes meanwhile is room.
            self.server.sh("dd if=/dev/zero bs=64k >>/srv/stuffing 2>/dev/null; "
                           "dd if=/dev/zero bs=4k >>/srv/stuffing 2>/dev/null; sync", 300)
            return "No space left on device" in self.output("one")
        wait("the trainer to be out of room", failed, every=1)
        self.wait_words("one", "no room is left on")
        self.server.sh("rm /srv/stuffing; sync")
        self.assert_ended_well("one", kills=3)

    def test_permission_that_is_taken_away_and_given_back(self):
        self.run_job("one")
        self.wait_steps("one")
        self.export(EXPORT.replace("rw", "ro"))
        self.wait_words("one", "Read-only file system")
        self.wait_words("one", "blocked: ")
        self.export(EXPORT + ",all_squash")
        self.wait_words("one", "Permission denied")
        self.export(EXPORT)
        self.assert_ended_well("one", kills=3)

    def test_a_folder_that_is_gone_is_not_begun_again(self):
        self.run_job("one")
        self.wait_steps("one")
        self.server.sh("exportfs -u '*:/srv/export'; mv /srv/export /srv/away; mkdir /srv/export; "
                       f"chown worker /srv/export; exportfs -o {EXPORT} '*:/srv/export'")
        self.wait_words("one", "was there, and is gone")
        self.assertEqual(self.server.sh("ls /srv/export"), "", "begun again")
        self.server.sh("exportfs -u '*:/srv/export'; rmdir /srv/export; mv /srv/away /srv/export; "
                       f"exportfs -o {EXPORT} '*:/srv/export'")
        self.assert_ended_well("one", kills=3)


def make_image():
    if place_for_images():  # else each test makes one for itself
        image.build(place_for_images(), CARGO)


if __name__ == "__main__":
    machine.main(machine.why_not, make_image)
