"""A whole machine whose clock is hours off: what it asks of AWS is signed by AWS's clock all the
same, and the notice's two minutes are two minutes."""

import datetime
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import whole
import whole_machines
from emulator import ROOT

UNITS = ("user-data", "spotter")
LIBRARY = "/usr/lib/wrong-clock.so"


class WholeClock(whole_machines.WholeLife):
    steps = 80

    def set_clock(self, hours):
        """Of what the cloud's images run, those that speak to AWS: the kernel is this machine's."""
        cloud = self.world.workplace / "cloud"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", f"{cloud}{LIBRARY}",
                        ROOT / "tests/e2e/wrong_clock.c"], check=True, timeout=60)
        for unit in UNITS:
            whole.write(cloud / f"etc/systemd/system/{unit}.service.d/clock.conf",
                        f"[Service]\nEnvironment=LD_PRELOAD={LIBRARY} WRONG_BY={hours * 3600}\n")

    def by_way_of_a_notice(self, hours):
        self.set_clock(hours)
        one = self.begin()
        self.wait_training(one, 5)
        self.wait_journal(one, f"clock is {abs(hours) * 60} min "
                               f"{'ahead of' if hours > 0 else 'behind'} AWS's")
        self.world.interrupt(one, 30)
        said = self.wait_journal(one, r"the instance ends in (\d+)")
        self.assertLess(20, int(said[1]))
        self.assertGreater(31, int(said[1]))
        self.wait_status(one, "released", lambda status: status.get("released"))
        self.successor(one)
        self.assert_ended_well()
        log = (self.kept_folder(".spotter") / "agent.log").read_text()
        said = datetime.datetime.fromisoformat(log.split()[0])
        off = said - datetime.datetime.now(datetime.timezone.utc)
        self.assertAlmostEqual(off.total_seconds() / 3600, hours, delta=0.5)

    def test_hours_behind(self):
        self.by_way_of_a_notice(-30)

    def test_hours_ahead(self):
        self.by_way_of_a_notice(7)


if __name__ == "__main__":
    harness.main()
