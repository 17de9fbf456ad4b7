"""`launch: {pools: [...]}` in two regions: spot capacity vanishes where the job is, `spotter watch`
moves it to the other region, and there it goes on with the newest checkpoint of its bucket."""

import datetime
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import fake_trainer
import harness
import job as jobs
import launched
from emulator import Emulator, wait

HERE, THERE = "us-west-2", "us-east-2"
PLACE, SEEN = "s3://homes/jobs", "s3://seen/jobs"


class TwoRegions(launched.Launched):
    steps = 60

    def make_world(self):
        return Emulator(harness.BINARIES, name="story", mode=harness.MODE,
                        zones=(f"{HERE}a", f"{THERE}a"))

    def setUp(self):
        super().setUp()
        self.there = ec2.Client(self.world.ec2.endpoint, self.world.secret, THERE)
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

    def watch(self):
        said = self.spotter("watch", self.file, "--once").stdout
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

    def result(self):
        home = self.world.directory / "s3/homes/jobs/homes" / self.job_name
        manifest = json.loads((home / self.head()["manifest"]).read_text())
        its, = [each for each in manifest["files"] if each["path"] == "result/weights.bin"]
        return (home / f"data/{its['group']}/{its['sum']}-{its['bytes']}").read_text()


if __name__ == "__main__":
    launched.life.harness.main()
