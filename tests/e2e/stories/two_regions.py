"""`launch: {pools: [...]}` in two regions: spot capacity vanishes where the job is, `spotter watch`
moves it to the other region, and there it goes on with the newest checkpoint of its bucket."""

import datetime
import json
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import fake_trainer
import harness
import job as jobs
import launched
from emulator import Emulator, wait

# When a machine shuts down, systemd stops the agent, which asks it whether that is so; here is no
# systemd, and each process gets SIGTERM. In its place: SIGINT, by which an agent releases the job.
SYSTEMCTL = """#!/bin/sh
case $1 in start | restart) ;; *) exit 0 ;; esac
setsid sh -c 'trap "kill -INT \\$agent; wait; exit" TERM
while :; do
  env --default-signal=INT --block-signal=TERM \\
    "$(command -v spotter)" agent --job "$SPOTTER_ROOT/etc/spotter/job.yaml" & agent=$!
  wait $agent
  [ $? = 2 ] && exit 2
  sleep 0.5
done' </dev/null &
"""
HERE, THERE = "us-west-2", "us-east-2"
PLACE, SEEN = "s3://homes/jobs", "s3://seen/jobs"


class TwoRegions(launched.Launched):
    steps = 60

    def make_world(self):
        return Emulator(harness.BINARIES, name="story", mode=harness.MODE,
                        zones=(f"{HERE}a", f"{THERE}a"))

    def setUp(self):
        super().setUp()
        self.there = ec2.Client(self.world.ec2.endpoint, THERE)
        self.gate = self.world.shared / "gate"
        for bucket in ("homes", "seen"):
            (self.world.directory / "s3" / bucket).mkdir(parents=True)
        self.said = ""

    def begin(self, minutes=180, there=("g5.xlarge",)):
        due = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)
        env = {"STEPS": str(self.steps), "JOURNAL": str(self.journal), "FORMAT": "spotter",
               "PACE": "0.1", "HOLD": "30", "GATE": str(self.gate)}
        launch = {"image": "resolve:ssm:/aws/service/debian/12", "profile": "spotter-role",
                  "on_demand": "when-needed", "work": "20m", "start": "5s",
                  "pools": [{"types": ["g5.xlarge"], "zones": [f"{HERE}a"]},
                            {"region": THERE, "types": list(there)}]}
        text = jobs.yaml(jobs.document(
            self.job_name, self.repository, self.revision, "./train.py", trainer={"env": env},
            storage={"s3": {"at": PLACE, "cache": "${SPOTTER_MOUNT}"}}, publish=SEEN,
            finish_by=due.strftime("%Y-%m-%dT%H:%MZ"), launch=launch)) + "\n"
        self.file = self.world.workplace / "job.yaml"
        self.file.write_text(text)
        self.world.allow_only(text)
        self.room(*self.world.zones)
        said = self.spotter("launch", self.file).stdout.split()
        self.assertEqual(said[1::2], [HERE, THERE])
        self.fleets = dict(zip(said[1::2], said[::2]))
        return self.wait_instance(())

    def watch(self, file=None):
        said = self.spotter("watch", file or self.file, "--once").stdout
        self.said += said
        return said

    def fleet_in(self, region):
        client = self.ec2 if region == HERE else self.there
        one, = client.call("DescribeFleets", FleetId=[self.fleets[region]]).items("fleetSet")
        return one

    def target_in(self, region):
        return int(self.fleet_in(region).text("targetCapacitySpecification/totalTargetCapacity"))

    def instance_there(self):
        return next((one.text("instanceId") for one in self.there.instances()
                     if one.text("instanceState/name") == "running"), None)

    def head(self):
        path = self.world.directory / "s3/homes/jobs/heads" / self.job_name / "head.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def ended(self, region):
        return self.fleet_in(region).text("fleetState").startswith("deleted")

    def test_it_goes_where_there_is_capacity_and_ends_there(self):
        one = self.begin()
        self.assertEqual((self.target_in(HERE), self.target_in(THERE)), (1, 0))
        self.wait_training(one, 10)
        wait("a checkpoint in the bucket", lambda: self.head().get("newest", -1) >= 5)
        self.assertIn(f"the job has the spot instance {one}", self.watch())
        self.room(f"{THERE}a")
        self.notice(one)
        wait("it to go to the other region", lambda: "the job goes to" in self.watch())
        two = wait("an instance there", self.instance_there)
        self.assertEqual((self.target_in(HERE), self.target_in(THERE)), (0, 1))
        self.wait_training(two, 11)
        self.assertEqual(self.head()["holder"], two)
        wait("the watcher to see it there",
             lambda: f"the job has the spot instance {two}" in self.watch())
        shown = self.spotter("status", "--job", self.file).stdout
        self.assertIn(two, shown)
        self.assertRegex(shown, r"(?m)^deadline +by ")
        self.gate.touch()
        wait("its fleet to end there", lambda: self.ended(THERE))
        wait("the watcher to end what rests", lambda: self.watch() and self.ended(HERE)
             or self.ended(HERE))
        self.assertEqual(self.head()["state"], "done")
        for decision in (rf"the job has the spot instance {one}; ",
                         rf"no spot instance in {HERE} since \S+: the job goes to {THERE}, at "
                         r"\$[\d.]+ an hour, where it was not yet; \d+ % left",
                         rf"{self.fleets[HERE]} gets the target 0",
                         rf"{self.fleets[THERE]} gets the target 1",
                         r"the job is done"):
            self.assertTrue(re.search(decision, self.said), decision + "\n" + self.said)
        self.assert_steps(0, 0)
        self.assertEqual(self.result(), fake_trainer.result_of(self.steps))

    def on_demand_price(self, kind, dollars):
        (self.world.directory / "prices").mkdir(exist_ok=True)
        (self.world.directory / "prices" / kind).write_text(dollars)

    def test_on_demand_in_the_other_region_it_knows_that_it_is_watched(self):
        self.on_demand_price("g5.xlarge", "0.60")
        self.on_demand_price("g4dn.xlarge", "0.40")
        one = self.begin(36, ("g4dn.xlarge",))
        self.wait_training(one, 10)
        wait("a checkpoint in the bucket", lambda: self.head().get("newest", -1) >= 5)
        self.watch()
        self.room()
        self.world.interrupt(one, 5)
        wait("it to ask for an on-demand instance", lambda: "asks for it" in self.watch())
        paid = wait("an on-demand instance there", self.instance_there)
        seen = self.wait_status(paid, "what the watcher said", lambda one: one.get("watcher"))
        self.assertRegex(seen["watcher"], r"^watched at \S+Z: no spot since \S+Z; ")
        self.gate.touch()
        wait("its fleet to end there", lambda: self.ended(THERE))
        wait("the watcher to end what rests", lambda: self.watch() and self.ended(HERE)
             or self.ended(HERE))
        self.assert_steps(0, 0)
        self.assertEqual(self.result(), fake_trainer.result_of(self.steps))

    def prices(self, here, there):
        """From now on, of spot capacity in each region."""
        folder = self.world.workplace / "market"
        folder.mkdir(exist_ok=True)
        for zone, dollars in ((HERE, here), (THERE, there)):
            (folder / f"g5.xlarge_{zone}a.csv").write_text(
                f"seconds,available,dollars\n0,1,{dollars}\n60,1,{dollars}\n")
        self.world.control("market", folder, "--until", "1m", "--speed", "600")

    def test_it_goes_once_where_spot_costs_far_less(self):
        (self.world.bin / "systemctl").write_text(SYSTEMCTL)
        self.on_demand_price("g5.xlarge", "0.60")
        self.prices(0.20, 0.18)
        one = self.begin()
        self.wait_training(one, 10)
        wait("a checkpoint in the bucket", lambda: self.head().get("newest", -1) >= 5)
        wait("the watcher to see it for a while", lambda: self.watch() and time.sleep(2)
             or self.said.count("the job has the spot instance") >= 4)
        self.assertNotIn("far less", self.said)
        self.assertEqual((self.target_in(HERE), self.target_in(THERE)), (1, 0))
        self.prices(0.57, 0.12)
        # Where that is switched off it looks, and stays.
        stays = self.world.workplace / "stays.yaml"
        stays.write_text(self.file.read_text().replace(
            "  image:", "  price_moves: false\n  image:"))
        self.assertIn("price_moves: false", stays.read_text())
        for _ in range(2):
            self.assertNotIn("far less", self.watch(stays))
        self.assertEqual((self.target_in(HERE), self.target_in(THERE)), (1, 0))
        wait("it to ask for an instance there", lambda: "far less" in self.watch())
        self.assertEqual((self.target_in(HERE), self.target_in(THERE)), (1, 1))
        shown = self.spotter("status", "--job", self.file).stdout
        self.assertRegex(shown, r"\$0.12\d* an hour, in us-west-2 \$0.57: over [\d.]+ h that "
                                r"saves \$[\d.]+, after the \$[\d.]+ of the move")
        two = wait("an instance there", self.instance_there)
        wait("it to go there", lambda: "the job goes to" in self.watch())
        self.assertEqual((self.target_in(HERE), self.target_in(THERE)), (0, 1))
        self.wait_training(two, 11)
        self.assertEqual(self.head()["holder"], two)
        # Now it is the other way round, and the job stays for hours.
        self.prices(0.12, 0.57)
        before = len(self.said)
        for _ in range(8):
            self.watch()
            time.sleep(1)
        self.assertNotIn("far less", self.said[before:])
        self.assertEqual((self.target_in(HERE), self.target_in(THERE)), (0, 1))
        self.gate.touch()
        wait("its fleet to end there", lambda: self.ended(THERE))
        wait("the watcher to end what rests", lambda: self.watch() and self.ended(HERE)
             or self.ended(HERE))
        for decision in (r"spot costs far less in us-east-2, \$0.12\d* an hour, in us-west-2 "
                         r"\$0.57: .*an instance is asked for there",
                         r"the job goes to us-east-2, \$0.12"):
            self.assertEqual(len(re.findall(decision, self.said)), 1, decision + "\n" + self.said)
        self.assert_steps(0, 0)
        self.assertEqual(self.result(), fake_trainer.result_of(self.steps))

    def result(self):
        home = self.world.directory / "s3/homes/jobs/homes" / self.job_name
        manifest = json.loads((home / self.head()["manifest"]).read_text())
        its, = [each for each in manifest["files"] if each["path"] == "result/weights.bin"]
        return (home / f"data/{its['epoch']}/{its['sum']}-{its['bytes']}").read_text()


if __name__ == "__main__":
    launched.life.harness.main()
