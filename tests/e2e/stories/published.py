"""A job is seen from elsewhere: its agents write to S3 how it is (`publish:`), EC2 has the rest."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ec2
import fake_trainer
import life
from emulator import wait

PLACE = "s3://seen/jobs"


class Published(life.Life):
    def setUp(self):
        self.set_up = time.monotonic()
        super().setUp()
        self.out = self.world.workplace / "out"
        self.folder = self.world.directory / "s3/seen/jobs" / self.job_name
        (self.world.directory / "s3/seen").mkdir(parents=True)
        self.world.allow_only(life.harness.jobs.yaml(self.job(publish=PLACE)))

    def begin(self, **more):
        return super().begin(publish=PLACE, **more)

    def laptop(self, *words, code=0, job=None, **environment):
        """`spotter status --job` where there is no agent: what it prints, or complains of."""
        return self.far_away("status", "--job", job or self.job_name, *words, code=code,
                             **environment)

    def far_away(self, *command, code=0, **environment):
        environment = {**self.world.launcher(), "AWS_EC2_METADATA_DISABLED": "true", **environment}
        done = subprocess.run([self.world.bin / "spotter", *command], env=environment, text=True,
                              capture_output=True, timeout=120, check=False,
                              cwd=self.world.workplace)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def fetch(self, *paths, code=0, **environment):
        """`spotter fetch` into a folder: what it prints, or complains of."""
        return self.far_away("fetch", self.job_name, *paths, str(self.out), "--publish", PLACE,
                             code=code, **environment)

    def seen(self):
        return json.loads(self.laptop("--publish", PLACE, "--json").stdout)

    def wait_seen(self, what, fits):
        def look():
            seen = self.seen()
            return seen if fits(seen) else None
        return wait(f"the laptop to see {what}", look, every=1)

    def moments(self, instance):
        """What the agent of that instance has published."""
        files = list(self.folder.glob(f"history/*-{instance}.jsonl"))
        self.assertEqual(len(files), 1, files)
        return [json.loads(line) for line in files[0].read_text().splitlines()]

    def beside(self, *command):
        """A command that goes on, and what it prints; a person ends it at the latest at the end."""
        out = self.world.workplace / f"out-{command[0]}"
        with out.open("w", encoding="utf-8") as file:
            going = subprocess.Popen(
                [self.world.bin / "spotter", *command, "--publish", PLACE], stdout=file,
                stderr=subprocess.STDOUT,
                env={**self.world.launcher(), "AWS_EC2_METADATA_DISABLED": "true"})
        self.addCleanup(going.wait)
        self.addCleanup(going.kill)
        return going, out

    def test_from_machine_to_machine(self):
        one = self.begin(env=self.held(20))
        self.wait_training(one, 5)
        waits, waited = self.beside("wait", self.job_name)
        watches, watched = self.beside("status", "--job", self.job_name, "--watch")
        seen = self.wait_seen("it train", lambda it: it["stage"] == "training")
        self.assertEqual((seen["instance"], seen["zone"]), (one, self.zone))
        began = self.moments(one)[0]
        self.assertEqual(began["what"], "began")
        self.assertLess(began["time"] - began["booted"], time.monotonic() - self.set_up + 1,
                        "a machine is no older than its launch, whatever its host is")
        self.room()
        self.world.interrupt(one, 120)
        wait("its last word", lambda: "released" in [
            it.get("phase") for it in self.moments(one)])
        self.world.kill(one)
        seen = self.wait_seen("it wait", lambda it: it["stage"] == "waiting" and
                              it["cloud"]["volumes"][0]["state"] == "available")
        self.assertGreaterEqual(seen["step"], 5)
        shown = self.laptop("--publish", PLACE).stdout
        self.assertRegex(shown, r"stage       waiting for capacity since \d+ s\n")
        self.assertRegex(shown, rf"instance    none is up; the last was {one} in {self.zone}\n")
        self.assertRegex(shown, rf"volume      vol-\S+ in {self.zone}, available"
                                r"(; snap-\S+ is made, \d+ %)?\n")  # the move's
        self.assertRegex(shown, r"checkpoint  step \d+, \d+ s ago\n")
        self.assertNotIn("left", shown)  # nothing is on its way
        self.room(self.world.zones[1])
        two = self.successor(one)
        self.wait_training(two, 7)
        seen = self.wait_seen("it go on", lambda it: it["stage"] == "training")
        self.assertEqual((seen["instance"], seen["zone"]), (two, self.world.zones[1]))
        self.gate.touch()
        self.wait_end()
        seen = self.wait_seen("its end", lambda it: it["stage"] == "finished")
        self.assertRegex(seen["says"], "^finished, .* ago; the result is safe$")
        self.assertEqual(waits.wait(timeout=120), 0)
        lines = waited.read_text().splitlines()
        self.assertRegex(lines[0], "^training on vol-")
        self.assertRegex(lines[-1], "^finished, ")
        self.assertTrue(any(line.startswith("waiting for capacity") for line in lines), lines)
        wait("who watches to see its end",
             lambda: re.search("^stage       finished", watched.read_text(), re.M))
        self.assertEqual(len(re.findall(r"^job         ", watched.read_text(), re.M)),
                         watched.read_text().count("\n\n"), "a text that changed, and no other")
        watches.send_signal(signal.SIGINT)
        self.assertEqual(watches.wait(timeout=60), 0)
        self.assert_fetched()
        self.assert_one_interruption(seen)
        by_tags = self.laptop().stdout
        self.assertIn("stage       finished; the result is safe\n", by_tags)
        self.assert_ended_well()
        self.assert_histories(one, two)

    def assert_one_interruption(self, seen):
        """By every view, and what it has cost is in `list`, too."""
        (self.world.workplace / "job.yaml").write_text(
            life.harness.jobs.yaml(self.job(publish=PLACE)))
        mount = {"SPOTTER_MOUNT": "/mnt/spotter"}
        row, = json.loads(self.far_away("list", "--json", **mount).stdout)
        report = json.loads(self.far_away("report", "--job", self.job_name, "--json", "--publish",
                                          PLACE).stdout)
        self.assertEqual((seen["interruptions"], row["interruptions"],
                          len(report["interruptions"])), (1, 1, 1))
        self.assertGreater(row["spent_seconds"], 0)
        self.assertRegex(self.far_away("list", **mount).stdout, r"\n  spent     .*1 interruption")

    def assert_fetched(self):
        """Bit for bit, by plain names; what is there is not fetched."""
        weights = self.out / "result/weights.bin"
        self.assertIn("there is no result/none in it", self.fetch("result/none", code=1).stderr)
        self.assertRegex(self.fetch("result").stdout,
                         r"^1 file, .* into .*/out\n  result/weights.bin")
        self.assertEqual(weights.read_text(), fake_trainer.result_of(self.steps))
        self.assertEqual((self.folder / "results/result/weights.bin").read_text(),
                         weights.read_text(), "it has no plain name in the bucket")
        weights.write_text("torn")
        shown = self.fetch().stdout
        self.assertRegex(shown, "^1 file, .* of the job's own records in .*/out/spotter\n")
        self.assertEqual(weights.read_text(), fake_trainer.result_of(self.steps))
        self.assertEqual({it.name for it in (self.out / "spotter/metrics").iterdir()},
                         {it.name for it in (self.folder / "metrics").iterdir()})
        self.assertIn("1 were there already", self.fetch().stdout)
        home = self.far_away("fetch", self.job_name, str(self.world.workplace), "--publish", PLACE,
                             code=2)  # HOME of these commands
        self.assertIn("name a folder of their own", home.stderr)
        (self.folder / "results/result/weights.bin").write_text("another")
        weights.unlink()
        self.assertIn("result/weights.bin", self.fetch(code=1).stderr)
        self.assertEqual([it.name for it in self.out.rglob("*") if "fetching" in it.name], [])
        self.assertFalse(weights.exists())

    def assert_histories(self, one, two):
        first, second = self.moments(one), self.moments(two)
        self.assertEqual(first[0]["what"], "began")
        self.assertEqual({it["instance"] for it in first}, {one})
        kinds = [it["what"] for it in first]
        self.assertLess(kinds.index("notice"), kinds.index("ended"))
        phases = [it["phase"] for it in first if it["what"] == "phase"]
        self.assertEqual(phases[-1], "released")
        self.assertIn("moving", [it.get("phase") for it in second])
        resumed = next(it for it in second if it["what"] == "resumed")
        self.assertEqual(resumed["repeated"], 0)
        # Its machine may end with the fleet before the last words are out.
        self.assertIn("finishing", [it.get("phase") for it in second])
        curves = sorted(self.folder.glob("metrics/*.jsonl"))
        self.assertEqual(len(curves), 2)
        # The storage has the same, up to its unmounting.
        kept = [json.loads(line) for line in
                (self.kept_folder(".spotter") / "history.jsonl").read_text().splitlines()]
        for moments in (first, second):
            end = next(it for it in moments if it["what"] == "ended")
            before = moments[:moments.index(end) + 1]
            self.assertEqual([it for it in kept if it in before], before)

    def test_an_agent_that_dies_goes_on_with_its_history(self):
        one = self.begin()
        self.wait_training(one, 5)
        self.kill_agent(one)
        self.wait_more_steps(one)
        self.world.interrupt(one, 8)
        self.successor(one)
        self.assert_ended_well(kills=1)
        moments = self.moments(one)
        self.assertEqual([it["what"] for it in moments].count("began"), 1)
        ended = [it for it in moments if it["what"] == "ended"]
        self.assertEqual([it["end"] for it in ended], ["stopped"])

    def test_a_bucket_that_refuses_costs_nothing(self):
        self.fault("deny", action="PutObject", on="true")
        one = self.begin()
        self.wait_training(one, 5)
        self.wait_console(one, r"nothing can be published at s3://seen/jobs/story/: .*"
                               r"needs s3:PutObject .*agent.json: .*Publish")
        self.fault("deny", action="PutObject", on="false")
        self.world.interrupt(one, 8)
        self.wait_console(one, "s3://seen/jobs/story/ can be written again")
        self.assertEqual(self.world.console(one).count("nothing can be published"), 1)
        self.fault("deny", action="ListBucket", on="true")
        done = self.laptop("--publish", PLACE, code=1)
        self.assertRegex(done.stderr, "needs s3:ListBucket .*launcher.json: .*ListWhatIsPublished")
        self.assertRegex(done.stdout, r"volume      vol-")
        self.assert_ended_well()

    def test_a_bucket_that_hangs_costs_nothing(self):
        self.fault("latency", action="PutObject", of="60s")
        one = self.begin()
        self.wait_training(one, 5)
        self.world.interrupt(one, 8)
        two = self.successor(one)
        self.wait_training(two, 7)
        self.fault("latency", action="PutObject", of="0s")  # its result is sent, and waited for
        self.assert_ended_well()

    def test_a_sweep_is_a_table(self):
        volumes = [self.volume(tags={"spotter:job": f"{self.job_name}:{index}"})
                   for index in (0, 10)]
        for index, step in ((0, 30), (2, 7)):
            folder = self.folder / str(index)
            folder.mkdir(parents=True)
            (folder / "status.json").write_text(json.dumps(
                {"version": 1, "job": self.job_name, "stage": "training", "says": "it trains",
                 "instance": "laptop", "step": step, "loss": 0.5, "updated": time.time()}))
        shown = self.laptop("--publish", PLACE).stdout.splitlines()
        self.assertEqual([line.split()[:2] for line in shown],
                         [["index", "stage"], ["0", "training"], ["2", "training"],
                          ["10", "waiting"]])
        self.assertRegex(shown[1], r"30 +0.5 +\d+ s ago +laptop$")
        seen = self.seen()
        self.assertEqual([[it["id"] for it in one["cloud"]["volumes"]] for one in seen],
                         [[volumes[0]], [], [volumes[1]]])

    def test_a_job_whose_neighbour_is_called_as_an_experiment_would_be(self):
        self.volume(tags={"spotter:job": f"{self.job_name}-2"})
        self.folder.mkdir(parents=True)
        (self.folder / "status.json").write_text(json.dumps(
            {"version": 1, "job": self.job_name, "stage": "training", "says": "it trains",
             "instance": "laptop", "step": 7, "updated": time.time()}))
        shown = self.laptop("--publish", PLACE).stdout
        self.assertIn("stage       it trains\nstep        step 7\n", shown)

    def test_what_is_no_job_or_no_status(self):
        self.volume()
        self.folder.mkdir(parents=True)
        self.assertRegex(self.laptop(code=1, job="another").stderr,
                         f"spotter:job=another in {ec2.REGION}; known jobs: {self.job_name}\n")
        self.assertIn("no such file", self.laptop(code=2, job="./none.yaml").stderr)
        (self.folder / "status.json").write_text('{"version": 1, "job": "st')
        done = self.laptop("--publish", PLACE, code=1)
        self.assertIn("half-written", done.stderr)
        self.assertIn("stage       waiting for capacity\n", done.stdout)
        (self.folder / "status.json").write_text('{"version": 2, "spotter": "9.9"}')
        self.assertIn("written by a newer Spotter (spotter 9.9, format 2",
                      self.laptop("--publish", PLACE, code=1).stderr)
        self.assertIn("credentials", self.laptop(code=1, AWS_ACCESS_KEY_ID="").stderr)


if __name__ == "__main__":
    life.harness.main()
