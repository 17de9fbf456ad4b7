"""What the trainer prints is seen from elsewhere by `spotter logs`, live and afterwards."""

import json
import pathlib
import re
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness
import life
from emulator import wait

PLACE = "s3://seen/jobs"
SECRET = "s3cr3t-5d41402abc4b2a76"


class Logs(life.Life):
    def setUp(self):
        super().setUp()
        self.folder = self.world.directory / "s3/seen/jobs" / self.job_name
        (self.world.directory / "s3/seen").mkdir(parents=True)
        self.world.allow_only(harness.jobs.yaml(self.job(publish=PLACE)))

    def begin(self, **more):
        return super().begin(publish=PLACE, **more)

    def command(self, *words, place=PLACE):
        return [self.world.bin / "spotter", "logs", self.job_name, "--publish", place, *words]

    def laptop(self):
        return {**self.world.launcher(), "AWS_EC2_METADATA_DISABLED": "true"}

    def logs(self, *words, code=0, place=PLACE):
        done = subprocess.run(self.command(*words, place=place), env=self.laptop(), text=True,
                              capture_output=True, timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def follow(self):
        """A person who follows it from now on. What is printed lies in self.followed."""
        self.followed = self.world.workplace / "followed"
        with self.followed.open("w", encoding="utf-8") as out:
            following = subprocess.Popen(self.command("--follow"), env=self.laptop(), stdout=out,
                                         stderr=subprocess.STDOUT)

        def leave():
            following.kill()
            following.wait()
        self.addCleanup(leave)
        return following

    def wait_followed(self, pattern):
        return wait(f"who follows to see /{pattern}/",
                    lambda: re.search(pattern, self.followed.read_text(), re.M))

    def steps_in(self, text):
        return [int(step) for step in re.findall(rf"^step (\d+) of {self.steps}$", text, re.M)]

    def test_followed_across_an_interruption_no_line_is_there_twice_and_none_is_missing(self):
        following = self.follow()
        self.wait_followed("no output is published at s3://seen/jobs/story/ yet; waiting for it")
        one = self.begin(env=self.held(20))
        self.wait_followed(f"^step 20 of {self.steps}$")  # nothing happens then: it trains
        self.kill_agent(one)
        self.gate.touch()
        self.wait_training(one, 21)
        self.gate.unlink()  # it holds again: its output may be as late as it likes
        self.wait_followed(f"^step 2[1-9] of {self.steps}$")
        self.world.interrupt(one, 8)
        two = self.successor(one)
        self.gate.touch()
        self.assertEqual(following.wait(timeout=300), 0)
        seen = self.followed.read_text()
        self.assertEqual(self.steps_in(seen), list(range(1, self.steps + 1)))
        marks = re.findall(r"^--- the trainer on (\S+), ", seen, re.M)
        self.assertEqual(marks, [one, two])
        self.assertRegex(seen, rf"(?m)^spotter: \S+Z {one}: interruption notice: it ends at ")
        self.assertIn("\n--- the trainer ended: exit status 75 ---\n", seen)
        self.assertIn("\n--- the trainer ended: exit status 0 ---\n", seen)
        self.assertEqual(self.steps_in(self.logs().stdout), self.steps_in(seen))
        self.assertEqual(len(self.logs("--last", "3").stdout.splitlines()), 3)
        self.assert_ended_well(kills=1)

    def test_a_traceback_and_no_secret_leave_the_machine(self):
        path = self.world.workplace / "key"
        path.write_text(SECRET + "\n")
        path.chmod(0o600)
        self.begin(env={"BEHAVIOUR": "raise", "SHOWS": "API_KEY"},
                   secrets={"API_KEY": f"file:{path}"},
                   on_failure={"attempts_without_progress": 2, "then": "hold"})
        following = self.follow()
        self.assertEqual(following.wait(timeout=300), 3, "a job that failed, as `wait` says it")
        shown = subprocess.run([self.world.bin / "spotter", "status", "--job", self.job_name,
                                "--publish", PLACE], env=self.laptop(), text=True,
                               capture_output=True, timeout=120, check=False)
        self.assertEqual(shown.returncode, 3, shown.stderr)
        last = shown.stdout.partition("The last lines that it printed")[2].splitlines()[1:]
        self.assertIn("RuntimeError: the loss is not a number", last)
        self.assertLessEqual(len(last), 20)
        self.assertIn("for a person to look at, and costs; then its fleet ends", shown.stdout)
        seen = self.followed.read_text()
        self.assertEqual(seen.count("\nTraceback (most recent call last):\n"), 2)
        self.assertEqual(seen.count("\nRuntimeError: the loss is not a number\n"), 2)
        self.assertEqual(seen.count("\nit shows *** as it is\n"), 2)
        self.assertEqual(seen.count("\n--- the trainer ended: exit status 1 ---\n"), 2)
        for file in (path for path in (self.world.directory / "s3").rglob("*") if path.is_file()):
            self.assertNotIn(SECRET[:10].encode(), file.read_bytes(), f"in {file}")

    def test_members_of_a_gang_are_kept_apart(self):
        """Each publishes its own pieces, at the same time."""
        output = self.folder / "output"
        output.mkdir(parents=True)
        for member, begin in (("node1", 0.0), ("node2", 0.5)):
            lines = [{"version": 1, "job": self.job_name, "piece": 0},
                     *({"time": 1700000000 + begin + step, "text": f"step {step} of {member}\n"}
                       for step in range(3)),
                     {"time": 1700000010 + begin, "ended": "exit status 0"}]
            (output / f"1700000000000-{member}-00.jsonl").write_text(
                "".join(json.dumps(line) + "\n" for line in lines))
        seen = self.logs().stdout.splitlines()
        said = [line for line in seen if not line.startswith("--- ")]
        self.assertEqual(said, [f"step {step} of {member}" for step in range(3)
                                for member in ("node1", "node2")])
        for before, line in zip(seen, seen[1:]):
            if line.startswith("step ") and before.startswith("--- "):
                self.assertIn(f"the trainer on {line.split()[-1]}, ", before)
        ended = [(before.split()[4], line) for before, line in zip(seen, seen[1:])
                 if "ended" in line]
        self.assertEqual(ended, [("node1,", "--- the trainer ended: exit status 0 ---"),
                                 ("node2,", "--- the trainer ended: exit status 0 ---")])

    def test_what_is_not_there_or_not_allowed_is_said(self):
        self.assertIn("no output is published at s3://seen/jobs/story/ yet",
                      self.logs(code=1).stderr)
        self.assertIn("there is no such bucket",
                      self.logs(place="s3://other/jobs", code=1).stderr)
        self.fault("deny", action="ListBucket", on="true")
        self.assertIn("needs s3:ListBucket", self.logs(code=1).stderr)
        self.assertIn("needs s3:ListBucket", self.logs("-f", code=1).stderr)
        self.fault("deny", action="ListBucket", on="false")
        unpublished = self.world.workplace / "unpublished.yaml"
        unpublished.write_text(harness.jobs.yaml(self.job()))
        done = subprocess.run([self.world.bin / "spotter", "logs", unpublished],
                              env={**self.laptop(), "SPOTTER_MOUNT": "/mnt/job"}, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("has no `publish: s3://bucket/prefix`", done.stderr)
        following = self.follow()
        self.wait_followed("waiting for it")
        following.send_signal(signal.SIGINT)
        self.assertEqual(following.wait(timeout=60), -signal.SIGINT)
        self.assertEqual(len(self.followed.read_text().splitlines()), 1, "it ends quietly")


if __name__ == "__main__":
    harness.main()
