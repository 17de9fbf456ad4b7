#!/usr/bin/python3
"""A trainer that its unit's memory does not suffice: what the kernel does, and what is said of it.

The control group is made by hand, as systemd makes that of a unit with MemoryMax=: not every
machine that runs these tests has a memory controller of cgroup v2 to lend.
"""

import json
import pathlib
import shlex
import shutil
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import image
import machine
import nfs
from emulator import leftovers, wait
import harness

GROUP = "/sys/fs/cgroup/unit"
PREPARE = f"""
set -e
mount -t cgroup2 none /sys/fs/cgroup
echo +memory >/sys/fs/cgroup/cgroup.subtree_control
mkdir {GROUP}; echo 96M >{GROUP}/memory.max
"""
# The score is that of the unit: OOMScoreAdjust= of agent/units/settings.cpp.
SUPERVISE = f"""
echo $$ >{GROUP}/cgroup.procs; echo -500 >/proc/self/oom_score_adj
rm -rf /tmp/run; echo {{spec}} | spotter supervise --run-directory /tmp/run --spec -
"""
HUNGRY = "python3 -c \"x = []\nwhile True: x.append(bytearray(b'x' * (1 << 20)))\""


@unittest.skipIf(machine.why_not(), machine.why_not())
class Memory(unittest.TestCase):
    def setUp(self):
        parent = nfs.place_for_images()
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="spotter-memory-", dir="/var/tmp"))
        self.addCleanup(self._end)
        pictures = parent or self.place / "image"
        if not (pictures / "root.cpio").exists():
            image.build(pictures, nfs.CARGO)
        (self.place / "wire").mkdir()
        self.machine = machine.Machine(self.place / "one", pictures, self.place / "wire", 1)
        self.machine.start()
        self.machine.wait_ready()
        self.machine.sh(PREPARE)

    def _end(self):
        self.machine.kill()
        remains = leftovers(self.place)
        shutil.rmtree(self.place, ignore_errors=True)
        self.assertEqual(remains, [], "left behind")

    def end_of(self, command):
        """How a trainer ended, by its supervisor's word."""
        spec = json.dumps({"command": command, "user": "worker", "log_file": "/tmp/log"})
        self.machine.sh(SUPERVISE.format(spec=shlex.quote(spec)))
        wait("its end", lambda: self.machine.result(self.machine.begin(
            "test -e /tmp/run/ended.json"))[0] == 0)
        return json.loads(self.machine.sh("cat /tmp/run/ended.json"))

    def test_the_kernel_kills_the_trainer_and_not_who_tells_of_it(self):
        end = self.end_of(HUNGRY)
        self.assertTrue(end["out_of_memory"], end)
        self.assertIn((end.get("signal"), end.get("exit_code")), ((9, None), (None, 137)))
        end = self.end_of("cat /proc/self/oom_score_adj; exit 3")
        self.assertFalse(end["out_of_memory"], end)
        self.assertEqual((end["exit_code"], end["last_words"]), (3, "0"))


if __name__ == "__main__":
    harness.main()
