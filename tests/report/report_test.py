"""`spotter report` of histories in folders, with prices of the emulator, and what it refuses."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import boto3

import served
from document import read

SPOTTER = os.environ.get("SPOTTER_PATH", "build/release/bin/spotter")
NASTY = '</script><script>alert(1)</script><!-- <img src=x onerror=alert(2)> ]]> "\'& \u2028'


class ReportTest(served.ServedTest):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="spotter-report-"))
        self.addCleanup(shutil.rmtree, self.place)
        self.home = self.place / "speech"
        self.begin = time.time()  # the emulator's prices are a little older
        self.entries = []

    def at(self, seconds, what, instance="i-0a", **more):
        self.entries.append(json.dumps({"time": self.begin + seconds, "what": what,
                                        "instance": instance, **more}))

    def trained(self, instance="i-0a", zone="us-west-2a", begin=0, end=7200, **more):
        self.at(begin, "began", instance, type="g5.xlarge", zone=zone,
                booted=self.begin + begin, **more)
        self.at(begin, "phase", instance, phase="training", says="training")
        self.at(begin, "resumed", instance, step=0, repeated=0)
        self.at(end, "ended", instance, end="finished", step=900, checkpoint_step=900)
        self.at(end, "left", instance, why="finished")

    def keep(self, home=None, curve=range(1, 900)):
        home = home or self.home
        (home / ".spotter").mkdir(parents=True, exist_ok=True)
        (home / ".spotter/history.jsonl").write_text("".join(it + "\n" for it in self.entries))
        (home / "metrics.jsonl").write_text("".join(
            json.dumps({"step": step, "loss": 1 / step, "time": self.begin + step}) + "\n"
            for step in curve))

    def spotter(self, *words, code=0, api=None, **environment):
        given = {"PATH": os.environ["PATH"], "HOME": str(self.place), **self.served.environment,
                 "SPOTTER_RUN": str(self.place / "run"), "AWS_EC2_METADATA_DISABLED": "true",
                 "AWS_MAX_ATTEMPTS": "2", "AWS_ENDPOINT_URL": api or self.served.api, **environment}
        done = subprocess.run([SPOTTER, "report", *map(str, words)], env=given, text=True,
                              capture_output=True, timeout=120, check=False, cwd=self.place)
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        return done

    def model(self, *words, **more):
        return json.loads(self.spotter("--json", *words, **more).stdout)


class Prices(ReportTest):
    def price_list(self):
        client = boto3.client("pricing", region_name="us-east-1", endpoint_url=self.served.api,
                              **self.served.keys)
        self.addCleanup(client.close)
        wanted = [{"Type": "TERM_MATCH", "Field": "instanceType", "Value": "g5.xlarge"},
                  {"Type": "TERM_MATCH", "Field": "regionCode", "Value": "us-west-2"}]
        found = client.get_products(ServiceCode="AmazonEC2", Filters=wanted)["PriceList"]
        offer = next(iter(json.loads(found[0])["terms"]["OnDemand"].values()))
        return float(next(iter(offer["priceDimensions"].values()))["pricePerUnit"]["USD"])

    def spot_prices(self):
        client = boto3.client("ec2", region_name=served.REGION, endpoint_url=self.served.api,
                              **self.served.keys)
        self.addCleanup(client.close)
        found = client.describe_spot_price_history(InstanceTypes=["g5.xlarge"],
                                                   ProductDescriptions=["Linux/UNIX"])
        return {it["AvailabilityZone"]: float(it["SpotPrice"])
                for it in found["SpotPriceHistory"]}

    def test_are_those_that_another_client_sees(self):
        self.trained("i-0a", "us-west-2a", 0, 3600)
        self.trained("i-0b", "us-west-2b", 4000, 7600)
        self.keep()
        cost = self.model("--from", self.home)["cost"]
        spot, on_demand = self.spot_prices(), self.price_list()
        paid = spot["us-west-2a"] + spot["us-west-2b"]
        self.assertAlmostEqual(cost["spot_dollars"], paid, 5)
        self.assertAlmostEqual(cost["on_demand_dollars"], 2 * on_demand, 5)
        self.assertAlmostEqual(cost["savings_percent"], (1 - paid / 2 / on_demand) * 100, 2)
        self.assertIn(f"= {cost['savings_percent']:.1f}", cost["formula"])
        self.assertIn("spot prices: DescribeSpotPriceHistory, over each machine's time",
                      cost["notes"])

    def test_of_the_list_can_be_another(self):
        self.trained(price=0.5)
        self.keep()
        prices = pathlib.Path(self.served.folder) / "prices"
        prices.mkdir(exist_ok=True)
        (prices / "g5.xlarge").write_text("1.006\n")
        self.addCleanup((prices / "g5.xlarge").unlink)
        self.assertAlmostEqual(self.model("--from", self.home)["cost"]["on_demand_dollars"], 2.012)
        said = self.model("--from", self.home, "--on-demand", "4")["cost"]
        self.assertEqual(said["on_demand_dollars"], 8)

    def test_a_warning_on_the_way_is_no_part_of_the_answer(self):
        self.trained(price=0.5)
        self.keep()
        done = self.spotter("--json", "--from", self.home, AWS_RETRY_MODE="adaptive")
        self.assertIn("cost", json.loads(done.stdout))
        self.assertIn("AWS_RETRY_MODE", done.stderr)

    def test_that_nobody_gives_are_no_reason_to_fail(self):
        self.trained(price=0.5)
        self.keep()
        for more in ({"AWS_SECRET_ACCESS_KEY": "wrong"}, {"api": "http://127.0.0.1:9"}):
            cost = self.model("--from", self.home, **more)["cost"]
            self.assertEqual(cost["spot_dollars"], 1, "of the price that the machine saw")
            self.assertIsNone(cost["on_demand_dollars"])
            self.assertIsNone(cost["savings_percent"])
            self.assertRegex(" ".join(cost["notes"]), "history of spot prices: .*no savings: the "
                                                      "on-demand price is not known of g5.xlarge")

    def allow(self, document):
        file = self.place / "policy.json"
        file.write_text(document)
        allowed = self.served.command("policy", "user", str(file))
        self.assertEqual(allowed.returncode, 0, allowed.stderr)
        self.addCleanup(self.served.command, "policy", "user")

    def test_that_a_policy_keeps_back_are_named_with_the_statement_that_is_missing(self):
        self.trained(price=0.5)
        self.keep()
        self.allow(json.dumps({"Version": "2012-10-17",
                               "Statement": [{"Effect": "Allow", "Resource": "*",
                                              "Action": "ec2:DescribeSpotPriceHistory"}]}))
        cost = self.model("--from", self.home)["cost"]
        self.assertIsNone(cost["on_demand_dollars"])
        self.assertRegex(" ".join(cost["notes"]),
                         "needs pricing:GetProducts.*launcher.json: LookAround")
        (self.place / "job.yaml").write_text("job: speech\nstorage: {folder: {path: /data}}\n"
                                             "trainer: {command: 'true'}\n")
        self.allow(subprocess.run(
            [SPOTTER, "iam", "launcher", self.place / "job.yaml", "--account", "123456789012",
             "--region", "us-west-2"], text=True, capture_output=True, check=True).stdout)
        self.assertGreater(self.model("--from", self.home)["cost"]["on_demand_dollars"], 0)

    def test_of_machines_elsewhere_are_not_asked_for(self):
        self.at(0, "began", "laptop")
        self.keep()
        cost = self.model("--from", self.home, api="http://127.0.0.1:9")["cost"]
        self.assertIn("its machines are no instances of EC2, as far as they say", cost["notes"])


class Page(ReportTest):
    def test_loads_nothing_and_runs_nothing_of_others(self):
        self.trained()
        self.at(7201, "problem", level="warning", event="x", words=NASTY)
        self.at(7202, "phase", phase=NASTY, says=NASTY)
        self.home = self.place / "a <b> & c"
        self.keep()
        (self.home / ".spotter/agent.log").write_text(f"2026-11-22T20:00:00Z i-1 error {NASTY}\n")
        said = self.spotter("--from", self.home, "--no-prices").stdout
        name = "spotter-report-a__b____c.html"
        self.assertEqual(said, name + "\n")
        page = read((self.place / name).read_text())
        self.assertEqual([it for it in page.elsewhere if not it.startswith(("#", "data:,"))], [])
        self.assertNotIn("alert(", "".join(text for kind, text in page.scripts
                                           if kind in (None, "", "module")))
        data = [json.loads(text) for kind, text in page.scripts if kind == "application/json"]
        self.assertEqual(data[0]["journal"][-1]["words"], NASTY)
        style_and_script = (self.place / name).read_text()
        for pattern in (r"url\(", r"@import", r"\bfetch\(\s*['\"]http", r"//cdn", r"https?://(?!www"
                        r"\.w3\.org/)"):
            found = re.search(pattern, re.sub(r'(?s)<script[^>]*json.*?</script>', "",
                                              style_and_script))
            self.assertIsNone(found, pattern)

    def test_goes_where_one_says(self):
        self.trained()
        self.keep()
        self.assertTrue(self.spotter("--from", self.home, "--output", "-").stdout.lower()
                        .startswith("<!doctype html>"))
        self.assertEqual(self.spotter("--from", self.home, "--output", "x.html").stdout, "x.html\n")
        self.assertTrue((self.place / "x.html").exists())


class Sources(ReportTest):
    def job(self, more=""):
        path = self.place / "job.yaml"
        path.write_text(f"job: speech\nstorage: {{folder: {{path: {self.place}}}}}\n"
                        f"trainer: {{command: 'true'}}\n{more}")
        return path

    def test_the_job_here(self):
        self.job()
        self.trained()
        self.keep()
        (self.place / "run").mkdir()
        (self.place / "run/status.json").write_text(
            json.dumps({"version": 1, "job": "speech", "step": 950, "steps_total": 1000}))
        model = self.model("--no-prices")
        self.assertEqual((model["job"], model["state"]), ("speech", "finished"))
        self.assertEqual(model["progress"]["steps_total"], 1000)
        self.assertEqual(len(model["curve"]["step"]), 899)

    def test_what_the_storage_does_not_have_yet(self):
        self.trained("i-0a", end=100)
        self.keep()
        self.entries = self.entries[-1:]  # this one it has
        self.at(200, "began", "i-0b", job="speech", zone="us-west-2b")
        self.entries = self.entries[::-1]
        (self.place / "run").mkdir()
        here = self.place / "run/history.jsonl"
        here.write_text("".join(it + "\n" for it in self.entries))
        model = self.model("--from", self.home, "--no-prices")
        self.assertEqual([it["id"] for it in model["instances"]], ["i-0a", "i-0b"])
        here.write_text(here.read_text().replace("speech", "another"))
        model = self.model("--from", self.home, "--no-prices")
        self.assertEqual([it["id"] for it in model["instances"]], ["i-0a"])

    def test_the_file_before(self):
        self.trained("i-0a")
        self.keep()
        (self.home / ".spotter/history.jsonl").rename(self.home / ".spotter/history.jsonl.1")
        self.entries = []
        self.trained("i-0b", begin=8000, end=9000)
        self.keep()
        model = self.model("--from", self.place / "speech", "--no-prices")
        self.assertEqual([it["id"] for it in model["instances"]], ["i-0a", "i-0b"])

    def test_a_sweep_with_attempts(self):
        job = self.job("sweep: {grid: {lr: [0.1, 0.01], act: [relu]}}\n")
        self.trained("i-0a", end=100)
        self.keep(self.home / "0", range(1, 11))
        self.keep(self.home / "1/attempt-3", range(1, 5))
        self.trained("i-0b", begin=200, end=300)  # whose attempt begins as a copy
        self.keep(self.home / "1/attempt-5", range(1, 21))
        (self.home / "1/.spotter").mkdir()
        for done in ("0/DONE", "1/attempt-5/DONE"):
            (self.home / done).write_text("{}")
        model = self.model("--job", job, "--no-prices")
        self.assertEqual(model["sweep"]["parameters"], ["lr"])
        first, second = model["sweep"]["experiments"]
        self.assertEqual(first["parameters"], {"lr": 0.1, "act": "relu"})
        self.assertEqual((first["loss"], second["loss"]), (0.1, 0.05))
        self.assertEqual([(it["id"], it["experiment"]) for it in model["instances"]],
                         [("i-0a", 0), ("i-0a", 1), ("i-0b", 1)])
        self.assertAlmostEqual(model["cost"]["instance_seconds"], 200, 2)
        self.assertEqual(second["state"], "done")

    def test_what_is_not_there(self):
        nothing = self.spotter(code=2).stderr
        self.assertIn("neither job.yaml here nor /etc/spotter/job.yaml", nothing)
        self.assertIn("is no folder", self.spotter("--from", "nowhere", code=1).stderr)
        self.assertIn("there is no experiment", self.spotter("--from", self.place, code=1).stderr)
        self.assertIn("there is no history of speech in",
                      self.spotter("--job", self.job(), code=1).stderr)
        self.keep(curve=())
        self.assertIn("is empty: nothing has run yet",
                      self.spotter("--from", self.home, "--no-prices", code=1).stderr)
        (self.place / "job.yaml").write_text("job: [")
        self.spotter(code=2)

    def test_what_cannot_be_written(self):
        self.trained()
        self.keep()
        for price in ("nan", "0", "-1", "inf", "x"):
            done = self.spotter("--from", self.home, "--on-demand", price, code=2)
            self.assertIn("a price in dollars an hour", done.stderr)
        for file in ("/nonexistent/x", "/dev/full", "/proc"):
            done = self.spotter("--from", self.home, "--no-prices", "--output", file, code=1)
            self.assertRegex(done.stderr, "cannot write .*: .*; name another file")


class Published(ReportTest):
    def setUp(self):
        super().setUp()
        self.bucket = pathlib.Path(self.served.folder) / "s3/mine"
        self.bucket.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, self.bucket)

    def publish(self, name, begin, curve, status=None):
        """What one agent leaves there: its entries are those since the last time."""
        place = self.bucket / "jobs" / name
        instance = json.loads(self.entries[0])["instance"]
        segment = f"{int((self.begin + begin) * 1000):013d}-{instance}"
        for folder, text in (("history", "".join(it + "\n" for it in self.entries)),
                             ("metrics", "".join(json.dumps({"step": it, "loss": 1 / it}) + "\n"
                                                 for it in curve))):
            (place / folder).mkdir(parents=True, exist_ok=True)
            (place / folder / f"{segment}.jsonl").write_text(text)
        (place / "status.json").write_text(json.dumps(status or {"version": 1}))
        self.entries = []

    def job(self, more=""):
        (self.place / "job.yaml").write_text(
            "job: speech\nstorage: {ebs: {tag: {Name: speech}}}\ntrainer: {command: 'true'}\n"
            "publish: s3://mine/jobs\n" + more)

    def two_machines(self):
        self.at(0, "began", "i-0a", zone="us-west-2a")
        self.at(1, "phase", "i-0a", phase="training")
        self.publish("speech", 0, range(1, 40))
        self.at(100, "began", "i-0b", zone="us-west-2b")
        self.at(101, "phase", "i-0b", phase="training")
        self.at(102, "resumed", "i-0b", step=30, repeated=0)
        self.publish("speech", 100, range(31, 80),
                     {"version": 1, "job": "speech", "steps_total": 90, "says": "training on"})

    def test_by_name(self):
        self.two_machines()
        self.job()
        place = "s3://mine/jobs/speech"
        by_name = ("--job", "speech", "--publish", "s3://mine/jobs")
        for words in ((), ("--from", place), ("--from", place + "/"), by_name):
            model = self.model("--no-prices", *words)
            self.assertEqual((model["job"], model["state"], model["says"]),
                             ("speech", "training", "training on"))
            self.assertEqual([(it["id"], it["end"]) for it in model["instances"]],
                             [("i-0a", "lost"), ("i-0b", "running")])
            self.assertEqual(model["curve"]["step"], list(range(1, 80)))
            self.assertEqual(model["progress"]["steps_total"], 90)

    def test_of_a_lost_machine_its_own_curve_is_asked(self):
        self.two_machines()
        [lost] = self.model("--no-prices", "--from", "s3://mine/jobs/speech")["interruptions"]
        self.assertEqual((lost["kind"], lost["step"], lost["resumed_step"]), ("lost", 39, 30))
        self.assertEqual(lost["repeated_steps"], 9)

    def test_a_sweep_on_volumes(self):
        self.job("sweep: {grid: {lr: [0.1, 0.01, 0.001]}}\n")
        self.trained("i-0a", end=100)
        self.publish("speech/0", 0, range(1, 11))
        self.trained("i-0b", begin=50, end=200)
        self.entries = self.entries[:-2]
        self.publish("speech/2", 50, range(1, 5))
        model = self.model("--no-prices")
        self.assertEqual([(it["index"], it["state"], it["parameters"]["lr"], it["loss"])
                          for it in model["sweep"]["experiments"]],
                         [(0, "done", 0.1, 0.1), (1, "waiting", 0.01, None),
                          (2, "running", 0.001, 0.25)])
        self.assertEqual([it["experiment"] for it in model["instances"]], [0, 2])
        one = self.model("--no-prices", "--from", "s3://mine/jobs/speech/2", "--job",
                         self.place / "job.yaml")
        self.assertEqual(len(one["instances"]), 1)

    def test_what_is_refused(self):
        self.job()
        self.assertIn("nothing is published at s3://mine/jobs/speech/: the job's description needs "
                      "`publish:", self.spotter(code=1).stderr)
        for place in ("s3://", "s3://no such bucket/x"):
            self.spotter("--from", place, code=1)
        self.assertIn("there is no such file; of a job by its name, --publish",
                      self.spotter("--job", "other", code=2).stderr)
        self.spotter("--job", "a b", "--publish", "s3://mine/jobs", code=2)
        self.spotter("--job", "speech", "--publish", "s3//mine", code=2)
        self.spotter("--publish", "s3://mine", "--from", self.home, code=2)
        self.assertIn("cannot be read: ",
                      self.spotter("--from", "s3://not-there/x", code=1).stderr)
        self.assertRegex(self.spotter(code=1, AWS_SECRET_ACCESS_KEY="wrong").stderr,
                         "what is published at .* cannot be read: .*")


if __name__ == "__main__":
    import unittest
    unittest.main()
