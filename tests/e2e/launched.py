"""A job that `spotter launch` starts, from nothing.

In the place of systemd: a small systemctl that keeps the agent running."""

import json
import subprocess

import job as jobs
import life

SYSTEMCTL = """#!/bin/sh
case $1 in start | restart) ;; *) exit 0 ;; esac
agent="$(command -v spotter) agent --job $SPOTTER_ROOT/etc/spotter/job.yaml"
setsid sh -c "while :; do $agent; [ \\$? = 2 ] && exit 2; sleep 0.5; done" </dev/null &
"""


class Launched(life.Life):
    kind = "fleet"

    def setUp(self):
        super().setUp()
        systemctl = self.world.bin / "systemctl"
        systemctl.write_text(SYSTEMCTL)
        systemctl.chmod(0o755)
        self.journal = self.world.workplace / "journal"
        self.journal.mkdir()
        self.journal.chmod(0o777)

    def spotter(self, *words, code=0):
        # Here nothing is mounted.
        environment = {**self.world.launcher(), "SPOTTER_MOUNT": "/mnt/spotter"}
        done = subprocess.run([self.world.bin / "spotter", *words], env=environment, text=True,
                              capture_output=True, timeout=300, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def ids_of(self, zones):
        there = self.ec2.call("DescribeAvailabilityZones").items("availabilityZoneInfo")
        ids = {one.text("zoneName"): one.text("zoneId") for one in there}
        return [ids[zone] for zone in zones]

    def go(self, zones, besides=(), by_id=False, env=None, **more):
        """Launches the job over these zones; its first instance that is none of `besides`."""
        said = self.ids_of([*zones, self.zone]) if by_id else [*zones, self.zone]
        env = {"STEPS": str(self.steps), "JOURNAL": str(self.journal), "PACE": "0.1", **(env or {})}
        launch = {"type": self.kind, "image": "resolve:ssm:/aws/service/debian/12",
                  "instance_types": ["g5.xlarge"], "zones": said[:-1], "profile": "spotter-role",
                  "volume": {"size": 1, "zone": said[-1]}, **more}
        if self.kind == "spot-fleet":
            launch["fleet_role"] = "arn:aws:iam::123456789012:role/fleet"
        self.room(*zones)
        self.file = self.world.workplace / "job.yaml"
        text = jobs.yaml(self.job(env=env, launch=launch)) + "\n"
        self.file.write_text(text)
        self.world.allow_only(text)
        self.fleet = self.spotter("launch", self.file).stdout.strip()
        self.instance = self.wait_instance(besides)
        return self.instance

    def fleet_is_cancelled(self):
        if self.kind == "spot-fleet":
            return super().fleet_is_cancelled()
        fleets = self.ec2.call("DescribeFleets", FleetId=[self.fleet]).items("fleetSet")
        return all(one.text("fleetState").startswith("deleted") for one in fleets)

    def listed(self):
        return {one["job"]: one for one in json.loads(self.spotter("list", "--json").stdout)}
