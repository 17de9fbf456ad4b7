"""From a bare Debian: `spotter launch`, user data that fetches and installs it, the job."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import packages
import whole
import whole_machines
from emulator import wait

# As unattended-upgrades does at every first boot, it has dpkg's lock before the user data wants it.
UPGRADES = """\
[Unit]
Before=user-data.service
[Service]
Type=notify
ExecStart=/usr/bin/python3 -c "import fcntl, os, socket, time; \\
  lock = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); \\
  tell = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); \\
  tell.sendto(b'READY=1', os.environ['NOTIFY_SOCKET']); \\
  time.sleep(12)"
"""


class WholeLaunch(whole_machines.WholeLife):
    steps = 100

    def wait_boot(self, instance, pattern):
        return self.wait_journal(instance, pattern, unit="user-data")

    def services_begun(self, instance):
        return self.world.journal(instance, "-u", "user-data", "-o", "cat").count(
            "spotter: the service runs")

    def test_while_other_upgrades_are_under_way_and_again_after_a_reboot(self):
        cloud = self.world.workplace / "cloud"
        whole.write(cloud / "usr/lib/systemd/system/upgrades.service", UPGRADES)
        whole.link(cloud, "upgrades.service", "multi-user.target")
        one = self.begin()
        self.wait_boot(one, "locked by another process(?s:.*)spotter: the service runs")
        self.wait_training(one, 5)
        before = self.world.leader(one)
        self.world.run(one, "systemctl", "reboot")
        wait("another boot", lambda: self.world.inside(one) not in (None, before))
        self.wait_training(one, 8)
        wait("the user data again", lambda: self.services_begun(one) == 2)
        self.world.interrupt(one, 10)
        two = self.successor(one)
        self.wait_training(two, 10)
        self.assertEqual(self.services_begun(two), 1)
        self.assert_ended_well(kills=1)
        self.assertEqual(self.world.journal(one, "-o", "cat").count("Setting up spotter "), 1)

    def test_the_archive_in_the_place_of_a_package(self):
        self.package = "spotter-[0-9]*.tar.gz"
        one = self.begin()
        self.wait_training(one, 5)
        self.assertEqual(self.world.run(one, "stat", "-c", "%U %a", "/var/lib/spotter").strip(),
                         "spotter 750")
        self.assertIn("enabled", self.world.run(one, "systemctl", "is-enabled", "spotter"))
        self.assert_ended_well()

    def test_a_wrong_checksum_costs_one_boot_and_launched_again_it_goes_well(self):
        right = self.offer
        self.offer = lambda: {**right(), "sha256": "0" * 64}
        one = self.begin()
        self.wait_boot(one, "could not be fetched.*target is 0 now.*launch` again")
        wait("its end", lambda: all(it.text("instanceState/name") == "terminated"
                                    for it in self.ec2.instances()))
        self.assertEqual(self.ec2.fleet_target(self.fleet), 0)
        self.assertEqual(len(self.ec2.instances()), 1, "no other was started in vain")
        self.offer = right
        two = self.launch(self.again, zones=self.world.zones, besides=[one])
        self.wait_training(two, 5)
        self.assert_ended_well()

    def launch(self, job, **more):
        self.again = job
        return super().launch(job, **more)

    def test_where_the_fleet_cannot_be_ended_the_machine_ends_itself_in_an_hour(self):
        right = self.offer
        self.offer = lambda: {**right(), "sha256": "0" * 64}
        self.fault("deny", action="ModifySpotFleetRequest")
        one = self.begin()
        self.wait_boot(one, "this instance ends in an hour")
        scheduled = self.world.run(one, "cat", "/run/systemd/shutdown/scheduled")
        self.assertIn("MODE=poweroff", scheduled)
        self.assertEqual(self.ec2.fleet_target(self.fleet), 1)

    def test_upgraded_in_training_and_removed_the_job_goes_on_elsewhere(self):
        self.steps = 500
        one = self.begin()
        self.wait_training(one, 5)
        trainers, agent = self.trainers(one), self.agent(one)
        newer = self.world.shared / "newer.deb"
        packages.newer(whole.package(), newer)
        self.world.run(one, "dpkg", "-i", newer)
        self.assertNotIn(self.agent(one), ("0", agent), "another agent")
        self.wait_more_steps(one)
        self.assertEqual(self.trainers(one), trainers, "which never noticed")

        said = self.world.run(one, "apt-get", "-y", "remove", "spotter")
        self.assertIn("spotter: done; the next agent, here or elsewhere", said)
        self.assertEqual(self.trainers(one), [])
        volume, = self.ec2.volumes()
        self.wait_volume(volume.text("volumeId"), "available")
        self.assertNotIn("/mnt/spotter", self.world.run(one, "cat", "/proc/mounts"))
        self.assertIn("job.yaml", self.world.run(one, "ls", "/etc/spotter"))
        self.world.run(one, "dpkg", "--purge", "spotter")
        self.assertEqual(self.world.run(one, "find", "/etc", "/run", "/usr", "/var/lib", "-name",
                                        "*spotter*", "-not", "-name", "spotter-trainer-*").split(),
                         ["/run/spotter"])
        self.world.kill(one)
        self.wait_training(self.successor(one), 20)
        self.assert_ended_well()


if __name__ == "__main__":
    harness.main()
